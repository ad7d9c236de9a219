//! Batches: ours against theirs, cut and put together again, and every damage seen.

use bytes::{Bytes, BytesMut};
use iggy_binary_protocol::batch::{BatchHeader, calculate_batch_checksum, decode_batch_slice};
use iggy_binary_protocol::requests::messages::{RawMessage, SendMessagesEncoder};
use iggy_binary_protocol::{WireIdentifier, WirePartitioning};
use proptest::prelude::*;
use twox_hash::XxHash3_64;
use whippet_protocol::ErrorCode;
use whippet_protocol::batch::{BatchBuilder, batches, check_stored, messages, slice, stamp, verify};
use whippet_protocol::send::{IdentifierRef, PartitioningRef, SendMessages};

type Plain = (u128, Vec<u8>, Vec<u8>);

/// A send body as the official client makes it.
pub fn official_body(plain: &[Plain]) -> Vec<u8> {
    let raw: Vec<RawMessage<'_>> = plain
        .iter()
        .enumerate()
        .map(|(n, (id, payload, headers))| RawMessage {
            id: *id,
            origin_timestamp: 1_000 + n as u64,
            headers: (!headers.is_empty()).then_some(headers.as_slice()),
            payload,
        })
        .collect();
    let mut body = BytesMut::new();
    let stream = WireIdentifier::named("orders").expect("valid");
    SendMessagesEncoder::encode(
        &mut body,
        &stream,
        &WireIdentifier::numeric(7),
        &WirePartitioning::PartitionId(3),
        &raw,
    )
    .expect("encodes");
    body.to_vec()
}

fn plain() -> impl Strategy<Value = Vec<Plain>> {
    let message =
        (any::<u128>(), prop::collection::vec(any::<u8>(), 1..200), prop::collection::vec(any::<u8>(), 0..40));
    prop::collection::vec(message, 1..20)
}

/// A stored batch at offset 100.
fn stored(plain: &[Plain]) -> Vec<u8> {
    let body = official_body(plain);
    let send = SendMessages::parse(&body).expect("parses");
    let mut batch = body[send.batch_start..].to_vec();
    verify(&batch, send.count).expect("an official batch is admitted");
    stamp(&mut batch, 3, 100, 5_000);
    batch
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_official_send_is_read_verified_stamped_and_read_back_by_the_official_decoder(plain in plain()) {
        let body = official_body(&plain);
        let send = SendMessages::parse(&body).expect("parses");
        prop_assert_eq!(send.stream, IdentifierRef::Name("orders"));
        prop_assert_eq!(send.topic, IdentifierRef::Id(7));
        prop_assert_eq!(send.partitioning, PartitioningRef::Partition(3));
        prop_assert_eq!(send.count as usize, plain.len());
        let batch = stored(&plain);
        let info = check_stored(&batch).expect("checks out");
        prop_assert_eq!((info.partition_id, info.base_offset, info.base_timestamp, info.count as usize), (3, 100, 5_000, plain.len()));
        let theirs = decode_batch_slice(&batch).expect("their decoder accepts it");
        prop_assert_eq!(theirs.header.batch_checksum, info.checksum);
        for (n, (ours, (id, payload, headers))) in messages(&batch).zip(&plain).enumerate() {
            prop_assert_eq!((ours.id, ours.payload, ours.user_headers), (*id, payload.as_slice(), headers.as_slice()));
            prop_assert_eq!((ours.offset, ours.timestamp, ours.origin_timestamp), (100 + n as u64, 5_000, 1_000 + n as u64));
        }
    }

    #[test]
    fn our_builder_makes_what_the_official_encoder_makes(plain in plain()) {
        let mut builder = BatchBuilder::new(300, 1_000, 0);
        for (n, (id, payload, headers)) in plain.iter().enumerate() {
            builder.push(*id, 1_000 + n as u64, payload, headers);
        }
        let (bytes, range) = builder.finish();
        let body = official_body(&plain);
        let send = SendMessages::parse(&body).expect("parses");
        prop_assert_eq!(&bytes[range], &body[send.batch_start..]);
    }

    #[test]
    fn parts_of_a_batch_are_batches_and_together_the_whole(plain in plain(), cut in 1u32..8) {
        let batch = stored(&plain);
        let mut offset = 100;
        let mut out = Vec::new();
        while let Some(part) = slice(&batch, offset, cut, usize::MAX) {
            let mut bytes = part.header.map_or_else(|| batch[..256].to_vec(), |header| header.to_vec());
            bytes.extend_from_slice(&batch[part.frames.clone()]);
            let info = check_stored(&bytes).expect("a part checks out");
            prop_assert_eq!(info.count, part.count);
            prop_assert!(decode_batch_slice(&bytes).is_ok());
            prop_assert!(part.count <= cut);
            out.extend(messages(&bytes).map(|m| (m.offset, m.id, m.payload.to_vec())));
            offset = part.last_offset + 1;
        }
        let whole: Vec<_> = messages(&batch).map(|m| (m.offset, m.id, m.payload.to_vec())).collect();
        prop_assert_eq!(out, whole);
    }

    #[test]
    fn every_flipped_bit_is_seen(plain in plain(), at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let batch = stored(&plain);
        let mut damaged = batch.clone();
        damaged[at.index(batch.len())] ^= 1 << bit;
        prop_assert!(check_stored(&damaged).is_err());
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000), count in any::<u32>()) {
        prop_assert!(verify(&bytes, count).is_err());
        prop_assert!(check_stored(&bytes).is_err());
        let _ = messages(&bytes).count();
        let _ = batches(&bytes).count();
        let _ = SendMessages::parse(&bytes);
    }
}

fn admitted(change: impl FnOnce(&mut Vec<u8>)) -> Result<u32, ErrorCode> {
    let body = official_body(&[(1, b"a".to_vec(), vec![]), (2, b"bb".to_vec(), vec![])]);
    let send = SendMessages::parse(&body).expect("parses");
    let mut batch = body[send.batch_start..].to_vec();
    change(&mut batch);
    verify(&batch, 2).map(|info| info.count)
}

#[test]
fn refusals_have_the_protocols_numbers() {
    assert_eq!(admitted(|_| {}), Ok(2));
    assert_eq!(admitted(|batch| batch[100] = 1), Err(ErrorCode::InvalidReservedField));
    assert_eq!(admitted(|batch| batch[8] = 1), Err(ErrorCode::InvalidReservedField), "the offset is the server's");
    assert_eq!(admitted(|batch| batch[40] ^= 1), Err(ErrorCode::InvalidBatchChecksum));
    assert_eq!(admitted(|batch| batch[256] ^= 1), Err(ErrorCode::InvalidMessageChecksum));
    assert_eq!(admitted(|batch| batch[48] = 3), Err(ErrorCode::InvalidMessagesCount));
    assert_eq!(admitted(|batch| batch[32] ^= 1), Err(ErrorCode::CommandLengthError));
    assert_eq!(admitted(|batch| batch.truncate(255)), Err(ErrorCode::CommandLengthError));
    assert_eq!(admitted(|batch| batch.push(0)), Err(ErrorCode::CommandLengthError));
}

/// 256 checksums are gathered and hashed at once; from the next one on the hash takes them in parts.
#[test]
fn large_batches_have_the_official_checksum() {
    for count in [249, 250, 256, 257, 258, 300, 600] {
        let plain: Vec<Plain> = (1..=count).map(|id| (id, vec![id as u8; 3], vec![])).collect();
        let batch = stored(&plain);
        let theirs = decode_batch_slice(&batch).expect("their decoder accepts it");
        assert_eq!(u128::from(theirs.message_count()), count);
        let part = slice(&batch, 101, u32::MAX, usize::MAX).expect("something is left");
        let bytes = [&part.header.expect("a part has its own header")[..], &batch[part.frames]].concat();
        assert_eq!(decode_batch_slice(&bytes).expect("their decoder accepts it").message_count(), part.count);
        assert_eq!((u128::from(part.count), part.last_offset), (count - 1, 99 + count as u64));
    }
}

#[test]
fn every_flipped_bit_of_a_sent_batch_is_refused() {
    let body = official_body(&[(1, b"a".to_vec(), vec![]), (2, b"bb".to_vec(), vec![7; 5])]);
    let start = SendMessages::parse(&body).expect("parses").batch_start;
    for at in start..body.len() {
        for bit in 0..8 {
            let mut damaged = body[start..].to_vec();
            damaged[at - start] ^= 1 << bit;
            assert!(verify(&damaged, 2).is_err(), "bit {bit} of byte {}", at - start);
            assert!(check_stored(&damaged).is_err(), "bit {bit} of byte {}", at - start);
        }
    }
}

/// A message is changed and hashed again, so that only the rule itself can refuse it.
#[test]
fn rules_for_messages_hold_under_right_checksums() {
    let changed = |at: usize, value: &[u8]| {
        admitted(|batch| {
            batch[256 + at..256 + at + value.len()].copy_from_slice(value);
            let end = batch.len() - (48 + 2);
            let checksum = XxHash3_64::oneshot(&batch[264..end]);
            batch[256..264].copy_from_slice(&checksum.to_le_bytes());
            let mut header = BatchHeader::decode(batch).expect("decodes");
            header.batch_checksum = calculate_batch_checksum(&header, &batch[256..]);
            header.encode_into(&mut batch[..256]);
        })
    };
    assert_eq!(changed(8, &[9]), Ok(2), "the id is the producer's");
    assert_eq!(changed(24, &[1]), Err(ErrorCode::InvalidCommand), "offset deltas count from 0");
    assert_eq!(changed(40, &[1]), Err(ErrorCode::InvalidReservedField));
    assert_eq!(changed(32, &[1, 0, 0, 0, 0]), Err(ErrorCode::EmptyMessagePayload), "its byte is a header now");
}

#[test]
fn offsets_beyond_64_bits_are_refused() {
    let mut batch = stored(&[(1, b"a".to_vec(), vec![]), (2, b"b".to_vec(), vec![])]);
    stamp(&mut batch, 3, u64::MAX - 2, 5_000);
    assert_eq!(check_stored(&batch).map(|info| info.base_offset), Ok(u64::MAX - 2));
    stamp(&mut batch, 3, u64::MAX - 1, 5_000);
    assert_eq!(check_stored(&batch), Err(ErrorCode::InvalidOffset));
    stamp(&mut batch, 3, u64::MAX, 5_000);
    assert_eq!(messages(&batch).map(|message| message.offset).collect::<Vec<_>>(), [u64::MAX, u64::MAX]);
}

#[test]
fn parts_are_cut_by_bytes() {
    let batch = stored(&[(1, vec![1; 100], vec![]), (2, vec![2; 100], vec![]), (3, vec![3; 100], vec![])]);
    assert_eq!(batch.len(), 256 + 3 * 148);
    assert_eq!(slice(&batch, 0, 9, batch.len()).map(|part| (part.header, part.count)), Some((None, 3)));
    for (bytes, count) in [(256 + 147, 0), (256 + 148, 1), (256 + 295, 1), (256 + 296, 2), (batch.len() - 1, 2)] {
        let part = slice(&batch, 100, 9, bytes);
        assert_eq!(part.map_or(0, |part| part.count), count, "{bytes} bytes");
    }
    assert_eq!(slice(&batch, 103, 9, usize::MAX), None, "behind the last message");
    assert_eq!(slice(&batch, u64::MAX, 9, usize::MAX), None);
    assert_eq!(slice(&batch, 100, 0, usize::MAX), None);
}

#[test]
fn opaque_header_blocks_are_admitted_for_clients_that_encrypt() {
    let body = official_body(&[(1, b"secret".to_vec(), vec![0xff; 33])]);
    let send = SendMessages::parse(&body).expect("parses");
    assert!(verify(&body[send.batch_start..], 1).is_ok());
}

#[test]
fn concatenated_batches_are_told_apart() {
    let one = stored(&[(1, b"a".to_vec(), vec![])]);
    let two = stored(&[(2, b"b".to_vec(), vec![]), (3, b"c".to_vec(), vec![])]);
    let both = Bytes::from([one.clone(), two.clone()].concat());
    assert_eq!(batches(&both).collect::<Vec<_>>(), [one.as_slice(), two.as_slice()]);
}
