//! The gateway itself: what every operation shares.

use crate::caller::{AssignedSession, AssignedSessions, Caller, Numbers, Origin};
use crate::connections::{Connection, Connections, Refused};
use crate::error::GatewayError;
use crate::passwords::{self, Passwords};
use crate::settings::Settings;
use crate::views::Transport;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use whippet_metadata::command::{Command, Done, Envelope};
use whippet_metadata::{MetadataState, Refusal as TableRefusal};
use whippet_protocol::limits::USERNAME_LENGTH;
use whippet_protocol::{ErrorCode, Name};
use whippet_runtime::RuntimeHandle;
use whippet_shard::{Identity, Reply, Request};

/// Credentials for which the server holds a session of its own, at most.
const ASSIGNED_SESSIONS_MAX: usize = 4096;
/// Counters that spread balanced batches; topics share them by the hash of their first group.
const BALANCE_COUNTERS: usize = 256;
/// Sessions of lost connections that wait to be ended.
const LOGOUTS_MAX: usize = 8192;

/// What a metadata command came to.
pub(crate) struct Committed {
    /// What it did.
    pub(crate) done: Done,
}

struct Shared {
    settings: Settings,
    runtime: RuntimeHandle,
    connections: Connections,
    passwords: Passwords,
    assigned: AssignedSessions,
    balance: [AtomicU32; BALANCE_COUNTERS],
    replies: crate::replies::HeldReplies,
    logouts: tokio::sync::mpsc::Sender<(u128, u64)>,
    pub(crate) process: crate::process::Process,
}

/// The way from every front end to the shards. Cheap to clone, usable from every thread.
#[derive(Clone)]
pub struct Gateway {
    shared: Arc<Shared>,
}

impl Gateway {
    /// A gateway over running shards.
    pub fn new(settings: Settings, runtime: RuntimeHandle) -> Gateway {
        let (logouts, queue) = tokio::sync::mpsc::channel(LOGOUTS_MAX);
        let gateway = Gateway {
            shared: Arc::new(Shared {
                connections: Connections::new(settings.connections_max, settings.connections_per_address_max),
                passwords: Passwords::new(settings.logins_at_once, settings.login_wait),
                assigned: AssignedSessions::new(ASSIGNED_SESSIONS_MAX),
                balance: std::array::from_fn(|_| AtomicU32::new(0)),
                process: crate::process::Process::new(runtime.now_us()),
                replies: crate::replies::HeldReplies::default(),
                logouts,
                settings,
                runtime,
            }),
        };
        let ending = gateway.clone();
        if let Some(thread) = gateway.runtime().spawners().first()
            && thread.spawn(move || ending.end_sessions(queue)).is_err()
        {
            tracing::warn!("sessions of lost connections are not ended: the server is stopping");
        }
        gateway
    }

    /// The poll replies that are not written yet.
    pub(crate) fn replies(&self) -> &crate::replies::HeldReplies {
        &self.shared.replies
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// The shards.
    pub fn runtime(&self) -> &RuntimeHandle {
        &self.shared.runtime
    }

    pub(crate) fn process(&self) -> &crate::process::Process {
        &self.shared.process
    }

    pub(crate) fn connections(&self) -> &Connections {
        &self.shared.connections
    }

    /// Committed metadata.
    pub(crate) fn metadata<R>(&self, read: impl FnOnce(&MetadataState) -> R) -> R {
        self.shared.runtime.metadata().read(read)
    }

    /// Registers a connection of a transport; it is there until the value is dropped.
    ///
    /// # Errors
    /// [`Refused`] when there are as many as there may be: close the socket.
    pub fn connect(&self, transport: Transport, peer: SocketAddr) -> Result<Connection, Refused> {
        self.shared.connections.connect(transport, peer)
    }

    /// Whether the root user still has to be made.
    pub fn needs_bootstrap(&self) -> bool {
        self.metadata(|state| state.user(whippet_metadata::state::ROOT_USER).is_none())
    }

    /// Makes the root user of a new cluster.
    ///
    /// # Errors
    /// 43 or 44 for a name or password of a length that is not allowed, and whatever the metadata log answers.
    pub async fn bootstrap(&self, username: &str, password: &str) -> Result<(), GatewayError> {
        if !USERNAME_LENGTH.contains(&username.len()) {
            return Err(GatewayError::because(
                ErrorCode::InvalidUsername,
                "the name of the root user has 3 to 50 bytes",
            ));
        }
        let root = Name::new(username)
            .map_err(|error| GatewayError::because(ErrorCode::InvalidUsername, error.to_string()))?;
        let password_hash = passwords::hash(password)?;
        let cluster = self.settings().cluster_name.clone().into();
        self.command(Numbers::default(), 0, Command::Bootstrap { cluster, root, password_hash }).await.map(|_| ())
    }

    /// Checks a password.
    ///
    /// # Errors
    /// 42 when it is wrong, the user is unknown or inactive; 58 when too many logins wait.
    pub async fn verify_password(&self, username: &str, password: &str) -> Result<u32, GatewayError> {
        let known = self.metadata(|state| {
            state.user_by_name(username).filter(|user| user.active).map(|user| (user.id, user.password_hash.clone()))
        });
        let (id, hash) = known.map_or((None, None), |(id, hash)| (Some(id), Some(hash)));
        let right = self.shared.passwords.check(username, password, hash).await?;
        id.filter(|_| right).ok_or_else(|| {
            GatewayError::because(ErrorCode::InvalidCredentials, "the user name or the password is wrong")
        })
    }

    /// A caller for a credential whose holder does not number requests (a token of the HTTP API): the server numbers them.
    ///
    /// # Errors
    /// 40 when the user is gone or inactive.
    pub fn http_caller(&self, credential: &str, user: u32) -> Result<Caller, GatewayError> {
        if !self.metadata(|state| state.user(user).is_some_and(|user| user.active)) {
            return Err(GatewayError::because(
                ErrorCode::Unauthenticated,
                "the user of this token is gone or inactive",
            ));
        }
        let (session, evicted) = self.shared.assigned.of(credential);
        self.end_assigned(evicted);
        Ok(Caller { user, origin: Origin::Assigned(session) })
    }

    /// Ends the session that the server holds for a credential.
    pub fn http_logout(&self, credential: &str) {
        let session = self.shared.assigned.remove(credential);
        self.end_assigned(session);
    }

    fn end_assigned(&self, session: Option<Arc<AssignedSession>>) {
        if let Some(session) = session
            && let Ok(number) = session.session.try_lock()
            && let Some(number) = *number
        {
            self.end_session(session.client, number);
        }
    }

    /// Ends a session in the background. When too many wait, it stays until the client table needs its place.
    pub(crate) fn end_session(&self, client: u128, session: u64) {
        if self.shared.logouts.try_send((client, session)).is_err() {
            tracing::debug!("a session is not ended: too many wait");
        }
    }

    async fn end_sessions(self, mut queue: tokio::sync::mpsc::Receiver<(u128, u64)>) {
        let mut stopping = std::pin::pin!(self.runtime().stopping());
        let mut batch = Vec::new();
        loop {
            batch.clear();
            tokio::select! {
                count = queue.recv_many(&mut batch, 256) => if count == 0 { return },
                () = stopping.as_mut() => return,
            }
            // All of a batch are on their way together, so they share the log's syncs.
            let ends = batch.drain(..).map(|(client, session)| {
                let numbers = Numbers { client, session, request: 0, checksum: 0 };
                let gateway = &self;
                async move {
                    if let Err(error) = gateway.command(numbers, 0, Command::Logout).await {
                        tracing::debug!(%error, "a session was gone already");
                    }
                }
            });
            futures_util::future::join_all(ends).await;
        }
    }

    /// Puts a command into the metadata log under these numbers and waits until it is committed and visible.
    pub(crate) async fn command(
        &self,
        numbers: Numbers,
        user: u32,
        command: Command,
    ) -> Result<Committed, GatewayError> {
        self.try_command(numbers, user, command).await?.map_err(GatewayError::from)
    }

    /// The same; the inner error is the client table's.
    async fn try_command(
        &self,
        numbers: Numbers,
        user: u32,
        command: Command,
    ) -> Result<Result<Committed, TableRefusal>, GatewayError> {
        let Numbers { client, session, request, checksum } = numbers;
        let envelope = Envelope { client, session, request, checksum, user, command };
        match self.call(Request::Metadata(Arc::new(envelope))).await? {
            Reply::Metadata { outcome: Ok(done), .. } => Ok(Ok(Committed { done })),
            Reply::Metadata { outcome: Err(code), .. } => Err(code.into()),
            Reply::MetadataRefused(refusal) => Ok(Err(refusal)),
            other => Err(unexpected(&other)),
        }
    }

    /// Puts a command of a caller into the metadata log.
    pub(crate) async fn propose(&self, caller: &Caller, command: Command) -> Result<Committed, GatewayError> {
        match &caller.origin {
            Origin::Numbered(numbers) => self.command(*numbers, caller.user, command).await,
            Origin::Assigned(assigned) => {
                let mut session = assigned.session.lock().await;
                for attempt in 0..2 {
                    let number = match *session {
                        Some(number) => number,
                        None => {
                            let numbers = Numbers { client: assigned.client, ..Numbers::default() };
                            let registered = self.command(numbers, caller.user, Command::Register).await?;
                            let Done::Registered { session: number } = registered.done else {
                                return Err(GatewayError::because(ErrorCode::Error, "a login gave no session"));
                            };
                            *session.insert(number)
                        }
                    };
                    let numbers = Numbers {
                        client: assigned.client,
                        session: number,
                        request: assigned.next_request(),
                        checksum: 0,
                    };
                    match self.try_command(numbers, caller.user, command.clone()).await? {
                        Ok(committed) => return Ok(committed),
                        // The table has forgotten the session; nothing was carried out. Register anew, once.
                        Err(TableRefusal::NoSession | TableRefusal::StaleSession) if attempt == 0 => *session = None,
                        Err(refusal) => return Err(refusal.into()),
                    }
                }
                Err(GatewayError::of(ErrorCode::TransientNotAccepted))
            }
        }
    }

    /// The identity under which a partition remembers a write of this caller. Where the server numbers, it sends a write
    /// once: nothing can repeat it, so nothing has to be remembered. Numbers would do harm, too: of many writes at the same
    /// time some could arrive so late that the partition takes them for old ones.
    pub(crate) fn identity(&self, caller: &Caller) -> Identity {
        match &caller.origin {
            Origin::Numbered(numbers) => Identity {
                client: numbers.client,
                session: numbers.session,
                request: numbers.request,
                user: caller.user,
            },
            Origin::Assigned(_) => Identity { user: caller.user, ..Identity::default() },
        }
    }

    /// Asks a shard.
    pub(crate) async fn call(&self, request: Request) -> Result<Reply, GatewayError> {
        match self.shared.runtime.call(request).await {
            Ok(Reply::Refused(refusal)) => Err(refusal.into()),
            Ok(reply) => Ok(reply),
            Err(error) => Err(error.into()),
        }
    }

    /// The next number for spreading batches over the partitions of a topic.
    pub(crate) fn next_balanced(&self, topic: u64) -> u32 {
        self.shared.balance[topic as usize % BALANCE_COUNTERS].fetch_add(1, Ordering::Relaxed)
    }
}

/// A shard answered with something that does not belong to the question: a mistake of ours.
pub(crate) fn unexpected(reply: &Reply) -> GatewayError {
    tracing::error!(?reply, "a shard's answer does not belong to the question");
    GatewayError::of(ErrorCode::Error)
}
