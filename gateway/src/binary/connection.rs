//! A connection of a binary transport: who is logged in on it, and what is done with its frames.

use super::handlers::Request;
use super::table::{Offered, row_of};
use super::{Body, FrameAnswer, error_answer, eviction};
use crate::caller::{Caller, Numbers, Origin};
use crate::connections::Connection;
use crate::error::GatewayError;
use crate::gateway::{Committed, Gateway};
use crate::ops::wrong;
use bytes::BytesMut;
use twox_hash::XxHash3_64;
use whippet_metadata::command::{Command as MetadataCommand, Done};
use whippet_protocol::frame::{EvictionReason, RequestHeader};
use whippet_protocol::limits::{FRAME_HEADER_SIZE, FRAME_SIZE_BEFORE_LOGIN_MAX};
use whippet_protocol::login::{
    Credentials, Login, PROTOCOL_VERSION, PROTOCOL_VERSION_MIN, encode_login_reply, is_compatible,
};
use whippet_protocol::operation::{Asked, Plane, classify};
use whippet_protocol::{Command, ErrorCode};

/// The session that a connection is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bound {
    client: u128,
    session: u64,
    user: u32,
}

/// One connection: frames in, answers out, one at a time. Dropping it ends its session.
pub struct BinaryConnection {
    gateway: Gateway,
    connection: Connection,
    bound: Option<Bound>,
}

impl BinaryConnection {
    /// A connection on which nobody is logged in.
    pub fn new(gateway: Gateway, connection: Connection) -> BinaryConnection {
        BinaryConnection { gateway, connection, bound: None }
    }

    /// Largest frame that may come next, in bytes.
    pub fn frame_size_max(&self) -> usize {
        if self.bound.is_some() { self.gateway.settings().frame_size_max } else { FRAME_SIZE_BEFORE_LOGIN_MAX }
    }

    /// Whether somebody is logged in.
    pub fn is_logged_in(&self) -> bool {
        self.bound.is_some()
    }

    fn now_us(&self) -> u64 {
        self.gateway.runtime().now_us()
    }

    fn commit(&self) -> u64 {
        self.gateway.runtime().commit_number()
    }

    fn failed(&self, header: &RequestHeader, code: ErrorCode) -> FrameAnswer {
        error_answer(header, code, self.commit(), self.now_us())
    }

    /// Answers a frame. `frame` is the whole frame, its header included; every frame gets an answer.
    pub async fn handle_frame(&mut self, header: RequestHeader, frame: BytesMut) -> FrameAnswer {
        if header.client == 0 {
            return self.failed(&header, ErrorCode::InvalidClientId);
        }
        if header.request_checksum != 0
            && header.request_checksum != u128::from(XxHash3_64::oneshot(&frame[FRAME_HEADER_SIZE..]))
        {
            return self.failed(&header, ErrorCode::InvalidFormat);
        }
        match classify(header.operation, header.code) {
            Asked::Register => self.register(&header, &frame).await,
            Asked::Logout => self.logout(&header).await,
            Asked::OldLogin => eviction(header.client, EvictionReason::MalformedLogin, None),
            Asked::Command(command) => self.command(header, command, frame).await,
            Asked::UnknownCode(_) | Asked::UnknownOperation(_) | Asked::Internal(_) if self.bound.is_none() => {
                self.failed(&header, ErrorCode::Unauthenticated)
            }
            Asked::WrongForm(_) if self.bound.is_none() => self.failed(&header, ErrorCode::Unauthenticated),
            Asked::UnknownCode(_) | Asked::UnknownOperation(_) | Asked::Internal(_) => {
                // A reply whose operation its reader does not know can't be split; this one always can.
                let known = RequestHeader { operation: whippet_protocol::operation::NON_REPLICATED, ..header };
                self.failed(&known, ErrorCode::InvalidCommand)
            }
            Asked::WrongForm(_) => self.failed(&header, ErrorCode::FeatureUnavailable),
        }
    }

    async fn command(&mut self, header: RequestHeader, command: Command, frame: BytesMut) -> FrameAnswer {
        let row = row_of(command);
        let bound = match self.admit(&header, command, row.needs_login) {
            Ok(bound) => bound,
            Err(refused) => return refused,
        };
        if row.offered != Offered::Yes {
            return self.failed(&header, ErrorCode::FeatureUnavailable);
        }
        let numbers = match command.plane() {
            Plane::Local => Numbers::default(),
            Plane::Metadata | Plane::Partition => Numbers {
                client: header.client,
                session: header.session,
                request: header.request,
                checksum: header.request_checksum as u64,
            },
        };
        let request = Request {
            gateway: &self.gateway,
            connection: &self.connection,
            caller: Caller { user: bound.map_or(0, |bound| bound.user), origin: Origin::Numbered(numbers) },
            session: bound.map_or((0, 0), |bound| (bound.client, bound.session)),
            command,
            frame,
        };
        match request.run().await {
            Ok(body) => {
                let session = bound.map_or(0, |bound| bound.session);
                let op = if command.plane() == Plane::Local { session } else { self.commit() };
                body.with_op(op).into_answer(&header, self.commit(), self.now_us())
            }
            Err(error) => self.refused(&header, &error),
        }
    }

    fn refused(&mut self, header: &RequestHeader, error: &GatewayError) -> FrameAnswer {
        tracing::debug!(
            operation = header.operation,
            code = error.code.code(),
            reason = %error.reason,
            "request refused"
        );
        if error.code == ErrorCode::Unauthenticated {
            // The client table has forgotten the session: it must log in again.
            self.unbind(false);
        }
        self.failed(header, error.code)
    }

    /// Who may send this, or the answer for those who may not.
    fn admit(&self, header: &RequestHeader, command: Command, needs_login: bool) -> Result<Option<Bound>, FrameAnswer> {
        let Some(bound) = self.bound else {
            return if needs_login { Err(self.failed(header, ErrorCode::Unauthenticated)) } else { Ok(None) };
        };
        if command.plane() != Plane::Local {
            if let Some(reason) = stranger(header, bound) {
                return Err(eviction(header.client, reason, None));
            }
            if header.request == 0 {
                return Err(self.failed(header, ErrorCode::InvalidCommand));
            }
        }
        Ok(Some(bound))
    }

    async fn register(&mut self, header: &RequestHeader, frame: &BytesMut) -> FrameAnswer {
        let client = header.client;
        let Ok(login) = Login::parse(&frame[FRAME_HEADER_SIZE..]) else {
            return eviction(client, EvictionReason::MalformedLogin, None);
        };
        if !is_compatible(login.version) {
            let window = Some((PROTOCOL_VERSION, PROTOCOL_VERSION_MIN));
            return eviction(client, EvictionReason::IncompatibleProtocol, window);
        }
        let (username, password) = match login.credentials {
            Ok(Credentials::Password { username, password }) => (username, password),
            // There are no tokens yet, so none is known.
            Ok(Credentials::Token { .. }) => return self.failed(header, ErrorCode::InvalidPersonalAccessToken),
            Err(_) => return eviction(client, EvictionReason::MalformedLogin, None),
        };
        let user = match self.gateway.verify_password(username, password).await {
            Ok(user) => user,
            Err(error) => {
                if error.code == ErrorCode::InvalidCredentials {
                    tracing::info!(peer = %self.connection.address(), "a login was refused: wrong user name or password");
                }
                return self.failed(header, error.code);
            }
        };
        if let Some(bound) = self.bound.filter(|bound| (bound.client, bound.user) == (client, user))
            && self.is_alive(bound)
        {
            return self.logged_in(header, bound);
        }
        let numbers = Numbers { client, ..Numbers::default() };
        let session = match self.gateway.command(numbers, user, MetadataCommand::Register).await {
            Ok(Committed { done: Done::Registered { session } }) => session,
            Ok(Committed { done }) => return self.failed(header, wrong(&done).code),
            Err(error) => return self.failed(header, error.code),
        };
        // Only now: a login that fails leaves the one before as it was.
        let before = self.bound.replace(Bound { client, session, user });
        if let Some(before) = before.filter(|before| before.client != client) {
            self.gateway.end_session(before.client, before.session);
        }
        self.connection.set_user(Some(user));
        tracing::debug!(
            client = format_args!("{client:032x}"),
            session,
            sdk = login.sdk_name,
            version = login.sdk_version,
            "logged in"
        );
        self.logged_in(header, Bound { client, session, user })
    }

    /// Whether the client table still has the session; a full one forgets those that were not used for long.
    fn is_alive(&self, bound: Bound) -> bool {
        let known = self.gateway.metadata(|state| state.session(bound.client));
        known.is_some_and(|known| known.session == bound.session)
    }

    fn logged_in(&self, header: &RequestHeader, bound: Bound) -> FrameAnswer {
        let version = self.gateway.settings().version;
        let body = Body::new(32, |out| encode_login_reply(out, bound.user, bound.session, version));
        body.with_op(bound.session).into_answer(header, self.commit().max(bound.session), self.now_us())
    }

    /// A logout without a login does nothing, successfully.
    async fn logout(&mut self, header: &RequestHeader) -> FrameAnswer {
        if let Some(bound) = self.bound {
            if let Some(reason) = stranger(header, bound) {
                return eviction(header.client, reason, None);
            }
            self.unbind(false);
            let numbers = Numbers { client: bound.client, session: bound.session, request: 0, checksum: 0 };
            if let Err(error) = self.gateway.command(numbers, bound.user, MetadataCommand::Logout).await {
                tracing::debug!(%error, "a logout was not committed; it is tried once more in the background");
                self.gateway.end_session(bound.client, bound.session);
            }
        }
        Body::empty().into_answer(header, self.commit(), self.now_us())
    }

    /// Forgets the session; ends it in the background if it is still there.
    fn unbind(&mut self, end: bool) {
        if let Some(bound) = self.bound.take() {
            self.connection.set_user(None);
            if end {
                self.gateway.end_session(bound.client, bound.session);
            }
        }
    }
}

/// Why a replicated request does not belong to the session of its connection, if it does not.
fn stranger(header: &RequestHeader, bound: Bound) -> Option<EvictionReason> {
    if header.client != bound.client || header.session == 0 || header.session > bound.session {
        Some(EvictionReason::NoSession)
    } else if header.session < bound.session {
        Some(EvictionReason::SessionTooLow)
    } else {
        None
    }
}

impl Drop for BinaryConnection {
    fn drop(&mut self) {
        self.unbind(true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_must_name_the_session_of_its_connection() {
        let bound = Bound { client: 7, session: 20, user: 0 };
        let check = |client, session| {
            let header =
                RequestHeader { size: 256, client, request_checksum: 0, request: 1, operation: 128, session, code: 0 };
            stranger(&header, bound)
        };
        assert_eq!(check(7, 20), None);
        assert_eq!(check(8, 20), Some(EvictionReason::NoSession), "the client id of somebody else");
        assert_eq!(check(7, 0), Some(EvictionReason::NoSession));
        assert_eq!(check(7, 21), Some(EvictionReason::NoSession), "a session that was never given");
        assert_eq!(check(7, 19), Some(EvictionReason::SessionTooLow), "the session before");
    }
}
