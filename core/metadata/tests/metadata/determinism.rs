//! Equal logs make equal states, whatever is in them.

use crate::driver::{EPOCH, bootstrap, id, name, named, server, texts};
use proptest::prelude::*;
use std::collections::BTreeSet;
use whippet_metadata::options::Purpose;
use whippet_metadata::{Applied, Command, Envelope, GroupChange, MetadataState, Preflight, TopicOptionsPatch};
use whippet_protocol::{Identifier, Name};

/// A request in terms of what its client knows, so that most are sensible and some are not.
#[derive(Clone, Debug)]
struct Step {
    client: u128,
    user: u32,
    session_off: i64,
    request_off: i64,
    checksum: u64,
    command: Command,
}

impl Step {
    fn envelope(&self, state: &MetadataState) -> Envelope {
        let Self { client, user, checksum, .. } = *self;
        let command = self.command.clone();
        let known = state.session(client).filter(|_| command != Command::Register);
        let (session, request) = known.map_or((0, 0), |known| {
            let session = known.session.saturating_add_signed(self.session_off);
            (session, known.watermark.saturating_add_signed(self.request_off))
        });
        Envelope { client, session, request, checksum, user, command }
    }
}

fn names() -> impl Strategy<Value = Name> {
    prop::sample::select(vec!["a", "b", "c", "d"]).prop_map(name)
}

fn identifiers() -> impl Strategy<Value = Identifier> {
    prop_oneof![
        3 => (0u32..4).prop_map(id),
        1 => prop::sample::select(vec!["a", "b", "c", "d"]).prop_map(named),
    ]
}

fn patches() -> impl Strategy<Value = TopicOptionsPatch> {
    let entries = vec![
        ("segment_size", "1MiB"),
        ("max_topic_size", "1MiB"),
        ("message_expiry", "2 days"),
        ("durability", "persisted"),
        ("compression_algorithm", "gzip"),
        ("preallocate_segments", "true"),
    ];
    prop::sample::subsequence(entries, 0..3).prop_map(|entries| texts(Purpose::Create, &entries).unwrap())
}

fn commands() -> impl Strategy<Value = Command> {
    let pair = || (identifiers(), identifiers());
    prop_oneof![
        3 => Just(Command::Register),
        1 => Just(Command::Logout),
        3 => names().prop_map(|name| Command::CreateStream { name }),
        1 => (identifiers(), names()).prop_map(|(stream, name)| Command::UpdateStream { stream, name }),
        1 => identifiers().prop_map(|stream| Command::DeleteStream { stream }),
        1 => identifiers().prop_map(|stream| Command::PurgeStream { stream }),
        4 => (identifiers(), names(), 0u32..4, patches()).prop_map(|(stream, name, partitions, options)| {
            Command::CreateTopic { stream, name, partitions, options }
        }),
        2 => (pair(), names(), patches()).prop_map(|((stream, topic), name, options)| {
            Command::UpdateTopic { stream, topic, name, options }
        }),
        1 => pair().prop_map(|(stream, topic)| Command::DeleteTopic { stream, topic }),
        1 => pair().prop_map(|(stream, topic)| Command::PurgeTopic { stream, topic }),
        2 => (pair(), 0u32..3).prop_map(|((stream, topic), count)| Command::CreatePartitions { stream, topic, count }),
        2 => (pair(), 0u32..3).prop_map(|((stream, topic), count)| Command::DeletePartitions { stream, topic, count }),
        1 => Just(bootstrap()),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    let session_off = prop_oneof![8 => Just(0i64), 1 => -1i64..2];
    let request_off = prop_oneof![6 => Just(1i64), 3 => -6i64..3];
    let user = prop_oneof![9 => Just(0u32), 1 => Just(1)];
    (0u128..6, user, session_off, request_off, 0u64..2, commands()).prop_map(
        |(client, user, session_off, request_off, checksum, command)| Step {
            client,
            user,
            session_off,
            request_off,
            checksum,
            command,
        },
    )
}

/// What must hold of every state, and of what came out of it on the way.
#[derive(Default)]
struct Invariants {
    ever_created: BTreeSet<u64>,
    live: BTreeSet<u64>,
}

impl Invariants {
    fn check(&mut self, state: &MetadataState, applied: &Applied) {
        for change in &applied.changes {
            match change {
                GroupChange::Created(settings) => {
                    assert!(self.ever_created.insert(settings.group.number), "a group number came back");
                    assert_eq!(settings.group.life, state.applied());
                    self.live.insert(settings.group.number);
                }
                GroupChange::Deleted(group) => assert!(self.live.remove(&group.number), "deleted what was not there"),
                GroupChange::Purged { group, intent } => {
                    assert!(self.live.contains(&group.number));
                    assert_eq!(*intent, state.applied());
                }
            }
        }
        let held: BTreeSet<_> = state.all_partitions().map(|settings| settings.group.number).collect();
        assert_eq!(held, self.live, "the changes do not tell what the state holds");
        assert!(state.sessions() <= 4);
        for stream in state.streams() {
            assert_eq!(state.stream(&Identifier::Name(stream.name.clone())), Ok(stream));
            for topic in stream.topics.values() {
                assert_eq!(stream.topic(&Identifier::Name(topic.name.clone())), Ok(topic));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn equal_logs_make_equal_states(steps in proptest::collection::vec(steps(), 1..120), middle in 0usize..120) {
        let mut one = MetadataState::with_client_capacity(4);
        let mut two = one.clone();
        let mut invariants = Invariants::default();
        one.apply(1, EPOCH, &server(bootstrap()));
        two.apply(1, EPOCH, &server(bootstrap()));
        for (index, step) in steps.iter().enumerate() {
            if index == middle {
                two = MetadataState::restore(&two.snapshot()).unwrap();
            }
            let envelope = step.envelope(&one);
            let (op, time) = (one.applied() + 1, EPOCH + step.checksum);
            let expected = one.preflight(&envelope);
            prop_assert_eq!(&two.preflight(&envelope), &expected);
            let applied = one.apply(op, time, &envelope);
            let logged: Envelope = postcard::from_bytes(&postcard::to_stdvec(&envelope).unwrap()).unwrap();
            prop_assert_eq!(&logged, &envelope);
            prop_assert_eq!(&two.apply(op, time, &logged), &applied);
            match expected {
                Preflight::Execute => prop_assert_eq!(applied.refused, None),
                Preflight::Replay(outcome) => prop_assert_eq!(&outcome, &applied.outcome),
                Preflight::Refuse(refusal) => prop_assert_eq!(applied.refused, Some(refusal)),
            }
            invariants.check(&one, &applied);
        }
        prop_assert_eq!(&one, &two);
        prop_assert_eq!(one.snapshot(), two.snapshot());
    }
}
