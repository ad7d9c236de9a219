//! The body of every command: read whole or refused, and read as the official decoder reads it.

use super::examples::{examples, official_poll, official_routing};
use iggy_binary_protocol::requests::messages::{PollMessagesRequest, SendMessagesHeader};
use iggy_binary_protocol::{WireDecode, WireEncode};
use proptest::prelude::*;
use whippet_protocol::send::{PollMessages, SendMessages};
use whippet_protocol::{Command, ErrorCode};

#[test]
fn every_command_has_an_example() {
    let commands: Vec<Command> = examples().iter().map(|example| example.command).collect();
    assert_eq!(commands, Command::ALL);
}

#[test]
fn what_is_read_is_what_was_sent() {
    for example in examples() {
        assert_eq!((example.read)(&example.body), Ok(example.body), "{:?}", example.command);
    }
}

#[test]
fn every_prefix_is_refused() {
    for example in examples() {
        for cut in 0..example.body.len() {
            let read = (example.read)(&example.body[..cut]);
            if example.options > 0 && cut == example.body.len() - example.options {
                assert_eq!(read, Ok(example.body[..cut].to_vec()), "{:?} without options", example.command);
            } else {
                assert!(read.is_err(), "{:?} cut at {cut}", example.command);
            }
        }
    }
}

#[test]
fn bytes_behind_the_body_are_refused() {
    for mut example in examples() {
        example.body.push(0);
        let expected = match example.command {
            Command::SendMessages => ErrorCode::CommandLengthError,
            _ => ErrorCode::InvalidCommand,
        };
        assert_eq!((example.read)(&example.body), Err(expected), "{:?}", example.command);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Whatever arrives: no reader panics, and what one accepts has one meaning, which the official encoding keeps.
    #[test]
    fn arbitrary_bodies_have_one_meaning_or_none(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for example in examples() {
            if let Ok(read) = (example.read)(&bytes) {
                prop_assert_eq!((example.read)(&read), Ok(read), "{:?}", example.command);
            }
        }
    }

    /// The same for bodies that are nearly right.
    #[test]
    fn changed_bodies_have_one_meaning_or_none(at in any::<prop::sample::Index>(), value in any::<u8>()) {
        for mut example in examples().into_iter().filter(|example| !example.body.is_empty()) {
            let at = at.index(example.body.len());
            example.body[at] = value;
            if let Ok(read) = (example.read)(&example.body) {
                prop_assert_eq!((example.read)(&read), Ok(read), "{:?}", example.command);
            }
        }
    }

    /// Ours refuses flags that are neither 0 nor 1, which theirs takes for something; beyond that both read alike.
    #[test]
    fn polls_are_read_as_the_official_decoder_reads_them(at in any::<prop::sample::Index>(), value in any::<u8>()) {
        for mut example in examples().into_iter().filter(|example| example.command == Command::PollMessages) {
            let at = at.index(example.body.len());
            example.body[at] = value;
            let theirs = PollMessagesRequest::decode(&example.body).ok().filter(|read| read.1 == example.body.len());
            match PollMessages::parse(&example.body) {
                Ok(ours) => {
                    let mut expected = theirs.expect("theirs reads what ours reads").0;
                    // A value beside a strategy that takes none means nothing.
                    expected.strategy.value = official_poll(&ours).strategy.value;
                    prop_assert_eq!(official_poll(&ours), expected);
                }
                Err(code) => {
                    prop_assert_eq!(code, ErrorCode::InvalidCommand);
                    let canonical = theirs.is_some_and(|read| read.0.to_bytes() == example.body);
                    prop_assert!(!canonical, "ours refuses what the official client may send");
                }
            }
        }
    }

    #[test]
    fn routing_parts_are_read_as_the_official_decoder_reads_them(
        at in any::<prop::sample::Index>(),
        value in any::<u8>(),
    ) {
        for mut example in examples().into_iter().filter(|example| example.command == Command::SendMessages) {
            let length = u32::from_le_bytes(example.body[..4].try_into().expect("four bytes")) as usize;
            example.body[4 + at.index(length)] = value;
            let theirs = SendMessagesHeader::decode(&example.body[4..4 + length])
                .ok()
                .filter(|read| read.1 == length && read.0.messages_count > 0)
                .map(|read| read.0);
            let ours = SendMessages::parse(&example.body).ok();
            prop_assert_eq!(ours.as_ref().map(official_routing), theirs);
            if let Some(ours) = ours {
                prop_assert_eq!(ours.batch_start, 4 + length);
            }
        }
    }
}
