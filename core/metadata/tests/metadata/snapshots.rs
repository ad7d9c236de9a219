use crate::driver::{Log, create_stream, create_topic, id, request, server, texts};
use proptest::prelude::*;
use twox_hash::XxHash3_64;
use whippet_metadata::options::Purpose;
use whippet_metadata::snapshot::{HEADER_SIZE, MAGIC, VERSION};
use whippet_metadata::{Command, MetadataState, SnapshotError};

/// A state with something of everything.
fn rich() -> MetadataState {
    let mut log = Log::with_client_capacity(3);
    for text in ["a", "b", "c"] {
        log.ok(create_stream(text));
    }
    log.ok(create_topic(0, "t", 3));
    log.ok(create_topic(2, "t", 1));
    log.ok(create_topic(2, "u", 2));
    let options = texts(Purpose::Create, &[("durability", "persisted"), ("message_expiry", "7 days")]).unwrap();
    log.ok(Command::CreateTopic { stream: id(2), name: crate::driver::name("v"), partitions: 1, options });
    log.ok(Command::DeleteStream { stream: id(1) });
    log.ok(Command::DeleteTopic { stream: id(2), topic: id(0) });
    log.ok(Command::PurgeTopic { stream: id(0), topic: id(0) });
    for client in 1..=4 {
        let session = log.register(client);
        log.apply(&request(client, session, 1, create_stream(&format!("of {client}"))));
        log.apply(&request(client, session, 2, create_topic(0, &format!("of {client}"), 2)));
        log.apply(&request(client, session, 3, create_stream("a")));
        log.apply(&request(client, session, 4, Command::PurgeStream { stream: id(0) }));
    }
    log.state
}

/// A snapshot around any body: header and checksum are right.
fn sealed(body: &[u8]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend((body.len() as u64).to_le_bytes());
    bytes.extend(XxHash3_64::oneshot(body).to_le_bytes());
    bytes.extend(body);
    bytes
}

#[test]
fn a_restored_state_equals_the_first_and_goes_on_like_it() {
    for state in [MetadataState::new(), Log::started().state, rich()] {
        let bytes = state.snapshot();
        let mut restored = MetadataState::restore(&bytes).unwrap();
        assert_eq!(restored, state);
        assert_eq!(restored.snapshot(), bytes);
        assert_eq!(restored.digest(), state.digest());

        let mut first = state;
        let op = first.applied() + 1;
        let next = server(create_stream("next"));
        assert_eq!(restored.apply(op, 5, &next), first.apply(op, 5, &next));
        assert_eq!(restored, first);
    }
}

#[test]
fn different_states_have_different_digests() {
    let mut log = Log::started();
    let before = log.state.digest();
    log.ok(create_stream("a"));
    assert_ne!(log.state.digest(), before);
}

#[test]
fn what_is_no_snapshot_is_refused_with_the_reason() {
    let good = rich().snapshot();
    let body = good[HEADER_SIZE..].to_vec();
    assert_eq!(sealed(&body), good);

    assert_eq!(MetadataState::restore(b""), Err(SnapshotError::NotASnapshot));
    assert_eq!(MetadataState::restore(&good[..HEADER_SIZE - 1]), Err(SnapshotError::NotASnapshot));
    let mut other = good.clone();
    other[0] ^= 1;
    assert_eq!(MetadataState::restore(&other), Err(SnapshotError::NotASnapshot));
    let mut newer = good.clone();
    newer[8] = 9;
    assert_eq!(MetadataState::restore(&newer), Err(SnapshotError::Version { found: 9 }));
    let (expected, found) = (body.len() as u64, body.len() as u64 - 1);
    assert_eq!(MetadataState::restore(&good[..good.len() - 1]), Err(SnapshotError::Length { expected, found }));
    let mut damaged = good.clone();
    damaged[HEADER_SIZE + 3] ^= 0x10;
    assert_eq!(MetadataState::restore(&damaged), Err(SnapshotError::Checksum));
    assert!(matches!(MetadataState::restore(&sealed(&body[..body.len() - 1])), Err(SnapshotError::Encoding(_))));
    let mut longer = body;
    longer.push(0);
    assert_eq!(
        MetadataState::restore(&sealed(&longer)).unwrap_err().to_string(),
        "the metadata snapshot contradicts itself: there are bytes after the state"
    );
}

#[test]
fn serde_refuses_what_a_snapshot_refuses() {
    let bytes = rich().snapshot();
    let body = &bytes[HEADER_SIZE..];
    assert_eq!(postcard::from_bytes::<MetadataState>(body).unwrap(), rich());
    let last = body.len() - 1;
    // The timestamp is at the end, before it the applied op: one byte less makes every op too high.
    let mut record = body.to_vec();
    let applied = MetadataState::restore(&bytes).unwrap().applied() as u8;
    let position = record.iter().rposition(|&byte| byte == applied).unwrap();
    assert!(position > last - 12);
    record[position] = 3;
    assert!(postcard::from_bytes::<MetadataState>(&record).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(MetadataState::restore(&bytes).is_err());
        // With a header that is right, the body gets further.
        let _ = MetadataState::restore(&sealed(&bytes));
    }

    #[test]
    fn a_tampered_body_is_refused_or_gives_a_state_that_works(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let mut body = rich().snapshot().split_off(HEADER_SIZE);
        for (position, byte) in changes {
            let position = position.index(body.len());
            body[position] = byte;
        }
        if let Some(cut) = cut {
            body.truncate(cut.index(body.len()));
        }
        if let Ok(mut state) = MetadataState::restore(&sealed(&body)) {
            prop_assert_eq!(&MetadataState::restore(&state.snapshot()).unwrap(), &state);
            for command in [
                create_stream("new"),
                create_topic(0, "new", 3),
                Command::PurgeStream { stream: id(0) },
                Command::DeleteStream { stream: id(2) },
            ] {
                let op = state.applied() + 1;
                state.apply(op, 1, &server(command));
            }
            let op = state.applied() + 1;
            state.apply(op, 1, &crate::driver::register(99));
            prop_assert_eq!(&MetadataState::restore(&state.snapshot()).unwrap(), &state);
        }
    }
}
