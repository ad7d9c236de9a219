//! A metadata log in memory, and words to write commands with.

use whippet_metadata::options::Purpose;
use whippet_metadata::{
    Applied, Command, Done, Envelope, GroupChange, MetadataState, PartitionSettings, PasswordHash, TopicOptionsPatch,
};
use whippet_protocol::{ErrorCode, Identifier, Name};

/// Time of op 0 in every test; op `n` comes `n` microseconds later.
pub const EPOCH: u64 = 1_700_000_000_000_000;

/// A state and the log that leads to it.
pub struct Log {
    pub state: MetadataState,
}

impl Log {
    /// Op 1 has created the cluster and its root user.
    pub fn started() -> Self {
        Self::of(MetadataState::new())
    }

    pub fn with_client_capacity(clients: u32) -> Self {
        Self::of(MetadataState::with_client_capacity(clients))
    }

    fn of(state: MetadataState) -> Self {
        let mut log = Self { state };
        assert_eq!(log.server(bootstrap()).outcome, Ok(Done::Empty));
        log
    }

    pub fn next_op(&self) -> u64 {
        self.state.applied() + 1
    }

    pub fn apply(&mut self, envelope: &Envelope) -> Applied {
        let op = self.next_op();
        self.state.apply(op, EPOCH + op, envelope)
    }

    /// Applies a command of the server itself.
    pub fn server(&mut self, command: Command) -> Applied {
        self.apply(&server(command))
    }

    /// Applies a command that must succeed, and hands back its consequences.
    pub fn ok(&mut self, command: Command) -> Vec<GroupChange> {
        let applied = self.server(command.clone());
        assert!(applied.outcome.is_ok(), "{command:?}: {:?}", applied.outcome);
        applied.changes
    }

    /// Applies a command that must fail with `code`, and must change nothing but the position in the log.
    pub fn fails(&mut self, command: Command, code: ErrorCode) {
        let before = contents(&self.state);
        let applied = self.server(command.clone());
        assert_eq!(applied.outcome, Err(code), "{command:?}");
        assert_eq!(applied.changes, []);
        assert_eq!(contents(&self.state), before, "{command:?} failed and changed something");
    }

    pub fn register(&mut self, client: u128) -> u64 {
        match self.apply(&register(client)).outcome {
            Ok(Done::Registered { session }) => session,
            other => panic!("register: {other:?}"),
        }
    }
}

/// What a failing command must leave alone.
fn contents(state: &MetadataState) -> (Vec<whippet_metadata::Stream>, Vec<whippet_metadata::User>, String) {
    (state.streams().cloned().collect(), state.users().cloned().collect(), state.cluster().to_owned())
}

pub fn server(command: Command) -> Envelope {
    Envelope { client: 0, session: 0, request: 0, checksum: 0, user: 0, command }
}

pub fn register(client: u128) -> Envelope {
    Envelope { client, ..server(Command::Register) }
}

pub fn request(client: u128, session: u64, request: u64, command: Command) -> Envelope {
    Envelope { client, session, request, checksum: 77, ..server(command) }
}

pub fn bootstrap() -> Command {
    Command::Bootstrap {
        cluster: "meadow".into(),
        root: name("iggy"),
        password_hash: PasswordHash("$argon2id$x".into()),
    }
}

pub fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

pub fn id(number: u32) -> Identifier {
    Identifier::Id(number)
}

pub fn named(text: &str) -> Identifier {
    Identifier::Name(name(text))
}

pub fn create_stream(text: &str) -> Command {
    Command::CreateStream { name: name(text) }
}

pub fn create_topic(stream: u32, text: &str, partitions: u32) -> Command {
    Command::CreateTopic { stream: id(stream), name: name(text), partitions, options: TopicOptionsPatch::default() }
}

pub fn created(changes: &[GroupChange]) -> Vec<PartitionSettings> {
    let settings = changes.iter().map(|change| match change {
        GroupChange::Created(settings) => settings.clone(),
        other => panic!("not a creation: {other:?}"),
    });
    settings.collect()
}

pub fn texts(purpose: Purpose, entries: &[(&str, &str)]) -> Result<TopicOptionsPatch, ErrorCode> {
    TopicOptionsPatch::from_text_map(entries.iter().copied(), purpose)
}
