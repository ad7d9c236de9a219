//! Wrong checksums and inconsistent batches are refused with their own codes, and nothing of them is stored.

use super::with_partition;
use iggy_binary_protocol::batch::{BatchHeader, calculate_batch_checksum};
use twox_hash::XxHash3_64;
use whippet_sdk_tests::body::{self, SEND_BATCH_START};
use whippet_sdk_tests::client::checked;
use whippet_sdk_tests::frame::{OPERATION_SEND, RequestHead};
use whippet_sdk_tests::{RawClient, Server};

/// Where the first message frame starts in a body made by `body::send`.
const FRAME: usize = SEND_BATCH_START + 256;

/// Computes the checksum of the only message again, and then that of the batch.
fn seal(body: &mut [u8]) {
    let checksum = XxHash3_64::oneshot(&body[FRAME + 8..]);
    body[FRAME..FRAME + 8].copy_from_slice(&checksum.to_le_bytes());
    seal_batch(body);
}

/// Computes the checksum of the batch again.
fn seal_batch(body: &mut [u8]) {
    let header = BatchHeader::decode(&body[SEND_BATCH_START..]).expect("a readable batch header");
    let checksum = calculate_batch_checksum(&header, &body[FRAME..]);
    body[SEND_BATCH_START + 40..SEND_BATCH_START + 48].copy_from_slice(&checksum.to_le_bytes());
}

fn send(client: &mut RawClient, body: &[u8]) -> Result<Vec<u8>, Option<u32>> {
    client.call(OPERATION_SEND, 101, body).map_err(|failure| failure.code())
}

#[test]
fn wrong_checksums_have_their_own_codes() {
    let server = Server::start();
    let (mut client, target) = with_partition(&server);
    let good = body::send(target, 1, &[b"some payload".to_vec()]);

    let mut payload = good.clone();
    *payload.last_mut().expect("not empty") ^= 1;
    assert_eq!(send(&mut client, &payload), Err(Some(4027)), "a payload that does not fit its checksum");

    let mut message = good.clone();
    message[FRAME] ^= 1;
    seal_batch(&mut message);
    assert_eq!(send(&mut client, &message), Err(Some(4027)), "a wrong message checksum in a sealed batch");

    let mut batch = good.clone();
    batch[SEND_BATCH_START + 40] ^= 1;
    assert_eq!(send(&mut client, &batch), Err(Some(4039)), "a wrong batch checksum");

    let mut origin = good.clone();
    origin[SEND_BATCH_START + 24] ^= 1;
    assert_eq!(send(&mut client, &origin), Err(Some(4039)), "a batch header that does not fit its checksum");

    let mut resealed = good.clone();
    *resealed.last_mut().expect("not empty") ^= 1;
    seal(&mut resealed);
    assert!(send(&mut client, &resealed).is_ok(), "the checksums of this test are the right ones");
    let polled = client.poll_from(target, 0, 10).expect("poll");
    assert_eq!(polled.messages.len(), 1, "nothing refused was stored");
    assert_eq!(polled.messages[0].payload, b"some payloae");
}

#[test]
fn inconsistent_batches_are_refused() {
    let server = Server::start();
    let (mut client, target) = with_partition(&server);
    let good = body::send(target, 1, &[b"some payload".to_vec()]);
    let altered = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut body = good.clone();
        change(&mut body);
        body
    };
    let write = |body: &mut Vec<u8>, at: usize, bytes: &[u8]| body[at..at + bytes.len()].copy_from_slice(bytes);
    let count = SEND_BATCH_START - 4;

    let two = altered(&|body| write(body, count, &2u32.to_le_bytes()));
    assert_eq!(send(&mut client, &two), Err(Some(4009)), "the count beside the batch says 2");
    let none = altered(&|body| {
        write(body, count, &0u32.to_le_bytes());
        write(body, SEND_BATCH_START + 48, &0u32.to_le_bytes());
        seal_batch(body);
    });
    assert_eq!(send(&mut client, &none), Err(Some(4009)), "both counts say 0");
    let reserved = altered(&|body| body[SEND_BATCH_START + 60] = 1);
    assert!(matches!(send(&mut client, &reserved), Err(Some(4101 | 3))), "reserved bytes of the batch header");
    let reserved = altered(&|body| {
        body[FRAME + 41] = 1;
        seal(body);
    });
    assert!(matches!(send(&mut client, &reserved), Err(Some(4101 | 3))), "reserved bytes of the message");
    let delta = altered(&|body| {
        write(body, FRAME + 24, &5u32.to_le_bytes());
        seal(body);
    });
    assert!(matches!(send(&mut client, &delta), Err(Some(_))), "the only message has offset delta 5");
    let longer = altered(&|body| {
        write(body, SEND_BATCH_START + 32, &10_000u64.to_le_bytes());
        seal_batch(body);
    });
    assert!(matches!(send(&mut client, &longer), Err(Some(_))), "the batch claims more bytes than there are");
    let payload = altered(&|body| {
        write(body, FRAME + 36, &u32::MAX.to_le_bytes());
        seal(body);
    });
    assert!(matches!(send(&mut client, &payload), Err(Some(_))), "the payload claims 4 GiB");
    let empty = {
        let mut body = good[..FRAME + 48].to_vec();
        write(&mut body, FRAME + 36, &0u32.to_le_bytes());
        write(&mut body, SEND_BATCH_START + 32, &(256u64 + 48).to_le_bytes());
        seal(&mut body);
        body
    };
    assert!(matches!(send(&mut client, &empty), Err(Some(_))), "an empty payload");
    assert!(client.poll_from(target, 0, 10).expect("poll").messages.is_empty(), "nothing refused was stored");
}

#[test]
fn a_wrong_request_checksum_is_refused() {
    let server = Server::start();
    let (mut client, _) = with_partition(&server);
    let body = body::create_stream("never");
    let right = client.head(128, 202, &body);
    let wrong = RequestHead { checksum: right.checksum ^ 1, ..right };
    let refused = client.exchange(&wrong.frame(&body)).expect("an answer");
    assert_eq!(checked(&refused).expect_err("refused").code(), Some(4));
    let streams = client.read(201, &[]).expect("list");
    assert!(whippet_sdk_tests::tree::find(&streams, b"never").is_none(), "nothing was created");
    assert_eq!(client.create_stream("other").expect("the connection is usable"), 1);
}
