//! [`MetadataState::apply`]: the one way in which the state changes.

use crate::client_table::{Preflight, Refusal};
use crate::command::{Command, Done, Envelope, GroupChange, Outcome, PasswordHash};
use crate::state::{MetadataState, ROOT_USER, User};
use whippet_protocol::{ErrorCode, Name, limits};

/// What a committed command did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The answer to the client. Of a request that was applied before, the answer of that time.
    pub outcome: Outcome,
    /// Consequences for partition groups, in order. None when the command failed or had been applied before.
    pub changes: Vec<GroupChange>,
    /// The client whose session had to make room for a new one. It is to be told that it has none any more.
    pub evicted: Option<u128>,
    /// Why the command was not executed, when the client table refused it; `outcome` is then [`Refusal::code`].
    pub refused: Option<Refusal>,
}

/// When a command is applied.
#[derive(Clone, Copy)]
pub(crate) struct At {
    /// Op of the command.
    pub(crate) op: u64,
    /// Microseconds since 1970, not below that of any earlier command.
    pub(crate) timestamp: u64,
}

impl MetadataState {
    /// Applies a committed record of the metadata log. A command that fails changes nothing but what the client table
    /// remembers; a request that was applied before, or must not be, changes nothing at all.
    ///
    /// `timestamp_us` is the time that the primary gave the record, in microseconds since 1970. A time below an earlier
    /// record's counts as that one.
    ///
    /// # Panics
    /// When `op` is not the one after [`MetadataState::applied`]: records are applied once and in order.
    pub fn apply(&mut self, op: u64, timestamp_us: u64, envelope: &Envelope) -> Applied {
        assert_eq!(op, self.applied + 1, "metadata records are applied once and in order");
        self.applied = op;
        self.timestamp = self.timestamp.max(timestamp_us);
        match self.preflight(envelope) {
            Preflight::Execute => self.execute(At { op, timestamp: self.timestamp }, envelope),
            Preflight::Replay(outcome) => Applied { outcome, changes: Vec::new(), evicted: None, refused: None },
            Preflight::Refuse(refusal) => {
                Applied { outcome: Err(refusal.code()), changes: Vec::new(), evicted: None, refused: Some(refusal) }
            }
        }
    }

    fn execute(&mut self, at: At, envelope: &Envelope) -> Applied {
        let mut changes = Vec::new();
        let mut evicted = None;
        let outcome = match &envelope.command {
            Command::Bootstrap { cluster, root, password_hash } => self.bootstrap(at, cluster, root, password_hash),
            Command::Register => self.register(at, envelope, &mut evicted),
            Command::Logout => {
                self.clients.remove(envelope.client);
                Ok(Done::Empty)
            }
            Command::CreateStream { name } => self.create_stream(at, name),
            Command::UpdateStream { stream, name } => self.update_stream(stream, name),
            Command::DeleteStream { stream } => self.delete_stream(stream, &mut changes),
            Command::PurgeStream { stream } => self.purge_stream(at, stream, &mut changes),
            Command::CreateTopic { stream, name, partitions, options } => {
                self.create_topic(at, stream, name, *partitions, options, &mut changes)
            }
            Command::UpdateTopic { stream, topic, name, options } => self.update_topic(stream, topic, name, options),
            Command::DeleteTopic { stream, topic } => self.delete_topic(stream, topic, &mut changes),
            Command::PurgeTopic { stream, topic } => self.purge_topic(at, stream, topic, &mut changes),
            Command::CreatePartitions { stream, topic, count } => {
                self.create_partitions(at, stream, topic, *count, &mut changes)
            }
            Command::DeletePartitions { stream, topic, count } => {
                self.delete_partitions(stream, topic, *count, &mut changes)
            }
        };
        assert!(outcome.is_ok() || changes.is_empty(), "a command that fails changes nothing");
        // Of a session's first and last command nothing is kept: a repeated one opens a new session, or finds none.
        let of_session = matches!(envelope.command, Command::Register | Command::Logout);
        if envelope.client != 0 && !of_session {
            self.clients.remember(envelope, at.op, outcome.clone());
        }
        Applied { outcome, changes, evicted, refused: None }
    }

    fn bootstrap(&mut self, at: At, cluster: &str, root: &Name, password_hash: &PasswordHash) -> Outcome {
        if self.users.contains_key(&ROOT_USER) {
            return Err(ErrorCode::UserAlreadyExists);
        }
        if !limits::USERNAME_LENGTH.contains(&root.as_str().len()) {
            return Err(ErrorCode::InvalidUsername);
        }
        self.cluster = cluster.into();
        self.user_names.insert(root.as_str().into(), ROOT_USER);
        let user = User {
            id: ROOT_USER,
            name: root.clone(),
            created_at: at.timestamp,
            active: true,
            password_hash: password_hash.clone(),
        };
        self.users.insert(ROOT_USER, user);
        Ok(Done::Empty)
    }

    /// The login was checked before the command was proposed; the user may have gone in between.
    fn register(&mut self, at: At, envelope: &Envelope, evicted: &mut Option<u128>) -> Outcome {
        if !self.user(envelope.user).is_some_and(|user| user.active) {
            return Err(ErrorCode::Unauthenticated);
        }
        *evicted = self.clients.register(envelope.client, envelope.user, at.op);
        Ok(Done::Registered { session: at.op })
    }
}
