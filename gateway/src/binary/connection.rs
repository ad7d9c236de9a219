//! A connection of a binary transport: who is logged in on it, and what is done with its frames.

use super::handlers::Request;
use super::table::{Offered, row_of};
use super::{Body, FrameAnswer, error_answer, eviction};
use crate::caller::{Caller, Numbers, Origin};
use crate::connections::Connection;
use crate::error::GatewayError;
use crate::gateway::Gateway;
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
        if header.request_checksum != 0 && header.request_checksum != u128::from(XxHash3_64::oneshot(&frame[FRAME_HEADER_SIZE..])) {
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
        tracing::debug!(operation = header.operation, code = error.code.code(), reason = %error.reason, "request refused");
        if error.code == ErrorCode::Unauthenticated {
            // The client table has forgotten the session: it must log in again.
            self.unbind(false);
            return eviction(header.client, EvictionReason::NoSession, None);
        }
        self.failed(header, error.code)
    }

    /// Who may send this, or the answer for those who may not.
    fn admit(&self, header: &RequestHeader, command: Command, needs_login: bool) -> Result<Option<Bound>, FrameAnswer> {
        let replicated = command.plane() != Plane::Local;
        let Some(bound) = self.bound else {
            return match (needs_login, replicated) {
                (false, _) => Ok(None),
                (true, false) => Err(self.failed(header, ErrorCode::Unauthenticated)),
                (true, true) => Err(eviction(header.client, EvictionReason::NoSession, None)),
            };
        };
        if replicated {
            if header.client != bound.client || header.session > bound.session || header.session == 0 {
                return Err(eviction(header.client, EvictionReason::NoSession, None));
            }
            if header.session < bound.session {
                return Err(eviction(header.client, EvictionReason::SessionTooLow, None));
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
            Ok(Credentials::Token { .. }) => return eviction(client, EvictionReason::InvalidToken, None),
            Err(_) => return eviction(client, EvictionReason::MalformedLogin, None),
        };
        let user = match self.gateway.verify_password(username, password).await {
            Ok(user) => user,
            Err(error) if error.code == ErrorCode::InvalidCredentials => {
                tracing::info!(peer = %self.connection.address(), "a login was refused: wrong user name or password");
                return eviction(client, EvictionReason::InvalidCredentials, None);
            }
            Err(error) => return self.failed(header, error.code),
        };
        if let Some(bound) = self.bound {
            if bound.client == client && bound.user == user {
                return self.logged_in(header, bound);
            }
            self.unbind(true);
        }
        let numbers = Numbers { client, ..Numbers::default() };
        match self.gateway.command(numbers, user, MetadataCommand::Register).await {
            Ok(committed) => {
                let Done::Registered { session } = committed.done else {
                    return self.failed(header, ErrorCode::Error);
                };
                let bound = Bound { client, session, user };
                self.bound = Some(bound);
                self.connection.set_user(Some(user));
                tracing::debug!(client = format!("{client:032x}"), session, sdk = login.sdk_name, version = login.sdk_version, "logged in");
                self.logged_in(header, bound)
            }
            Err(error) if matches!(error.code, ErrorCode::InvalidClientId) => eviction(client, EvictionReason::SessionError, None),
            Err(error) if matches!(error.code, ErrorCode::Unauthenticated) => eviction(client, EvictionReason::UserInactive, None),
            Err(error) => self.failed(header, error.code),
        }
    }

    fn logged_in(&self, header: &RequestHeader, bound: Bound) -> FrameAnswer {
        let version = self.gateway.settings().version;
        let body = Body::new(32, |out| encode_login_reply(out, bound.user, bound.session, version));
        body.with_op(bound.session).into_answer(header, self.commit().max(bound.session), self.now_us())
    }

    async fn logout(&mut self, header: &RequestHeader) -> FrameAnswer {
        if let Some(bound) = self.bound
            && header.client == bound.client
        {
            let numbers = Numbers { client: bound.client, session: bound.session, request: 0, checksum: 0 };
            self.bound = None;
            self.connection.set_user(None);
            if let Err(error) = self.gateway.command(numbers, bound.user, MetadataCommand::Logout).await {
                // The session is gone for this connection in any case; the client table drops it in time.
                tracing::debug!(%error, "a logout was not committed");
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

impl Drop for BinaryConnection {
    fn drop(&mut self) {
        self.unbind(true);
    }
}
