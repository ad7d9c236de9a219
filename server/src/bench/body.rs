//! Bodies of the requests that the benchmark sends.

use whippet_protocol::login::PROTOCOL_VERSION;

fn short(out: &mut Vec<u8>, text: &str) {
    let bytes = &text.as_bytes()[..text.len().min(255)];
    out.push(bytes.len() as u8);
    out.extend_from_slice(bytes);
}

fn named(out: &mut Vec<u8>, name: &str) {
    out.push(2);
    short(out, name);
}

/// A login with user name and password, at most 255 bytes each.
pub fn login(username: &str, password: &str) -> Vec<u8> {
    let mut out = PROTOCOL_VERSION.to_le_bytes().to_vec();
    short(&mut out, "whippet-bench");
    short(&mut out, env!("CARGO_PKG_VERSION"));
    short(&mut out, username);
    short(&mut out, password);
    out.extend_from_slice(&0u32.to_le_bytes());
    out
}

/// Creates a stream.
pub fn create_stream(name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    short(&mut out, name);
    out
}

/// Names a stream; the whole body of its deletion.
pub fn stream(name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    named(&mut out, name);
    out
}

/// Creates a topic with this many partitions and these options.
pub fn create_topic(stream: &str, topic: &str, partitions: u32, options: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    named(&mut out, stream);
    out.extend_from_slice(&partitions.to_le_bytes());
    short(&mut out, topic);
    for (key, value) in options {
        // Key and value are texts, kind 2.
        for text in [key, value] {
            out.push(2);
            out.extend_from_slice(&(text.len() as u32).to_le_bytes());
            out.extend_from_slice(text.as_bytes());
        }
    }
    out
}

/// The body of `send messages` up to the batch.
pub fn send_routing(stream: &str, topic: &str, partition: u32, count: u32) -> Vec<u8> {
    let mut out = vec![0; 4];
    named(&mut out, stream);
    named(&mut out, topic);
    out.extend_from_slice(&[2, 4]);
    out.extend_from_slice(&partition.to_le_bytes());
    out.extend_from_slice(&count.to_le_bytes());
    let length = out.len() as u32 - 4;
    out[..4].copy_from_slice(&length.to_le_bytes());
    out
}

/// A poll from offset 0 on, which stores no offset, and where in the body the offset stands.
pub fn poll(stream: &str, topic: &str, partition: u32, count: u32) -> (Vec<u8>, usize) {
    let mut out = vec![1, 1, 4];
    out.extend_from_slice(&1u32.to_le_bytes());
    named(&mut out, stream);
    named(&mut out, topic);
    out.push(1);
    out.extend_from_slice(&partition.to_le_bytes());
    out.push(1);
    let offset_at = out.len();
    out.extend_from_slice(&0u64.to_le_bytes());
    out.extend_from_slice(&count.to_le_bytes());
    out.push(0);
    (out, offset_at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use whippet_protocol::login::{Credentials, Login};
    use whippet_protocol::send::{ConsumerRef, IdentifierRef, PartitioningRef, PollMessages, PollStart, SendMessages};
    use whippet_protocol::wire::requests::streams::{CreateStreamRequest, DeleteStreamRequest};
    use whippet_protocol::wire::requests::topics::CreateTopicRequest;
    use whippet_protocol::wire::{WireIdentifier, decode};

    #[test]
    fn logins_are_read_back() {
        let body = login("iggy", "secret");
        let read = Login::parse(&body).expect("a login");
        assert_eq!((read.version, read.sdk_name), (PROTOCOL_VERSION, "whippet-bench"));
        assert_eq!(read.credentials, Ok(Credentials::Password { username: "iggy", password: "secret" }));
    }

    #[test]
    fn streams_and_topics_are_read_back() {
        let stream_name = WireIdentifier::named("s").expect("a name");
        let created: CreateStreamRequest = decode(&create_stream("s")).expect("a request");
        assert_eq!(created.name.as_str(), "s");
        let deleted: DeleteStreamRequest = decode(&stream("s")).expect("a request");
        assert_eq!(deleted.stream_id, stream_name);
        let topic: CreateTopicRequest =
            decode(&create_topic("s", "t", 3, &[("durability", "persisted")])).expect("a request");
        assert_eq!((topic.stream_id, topic.partitions_count, topic.name.as_str()), (stream_name, 3, "t"));
        let options: Vec<_> = topic.options.iter().map(|entry| (entry.key.to_vec(), entry.value.to_vec())).collect();
        assert_eq!(options, [(b"durability".to_vec(), b"persisted".to_vec())]);
    }

    #[test]
    fn sends_are_read_back() {
        let mut body = send_routing("s", "t", 7, 250);
        let length = body.len();
        body.resize(length + 256, 0);
        let read = SendMessages::parse(&body).expect("a request");
        assert_eq!(
            (read.stream, read.topic, read.partitioning, read.count, read.batch_start),
            (IdentifierRef::Name("s"), IdentifierRef::Name("t"), PartitioningRef::Partition(7), 250, length)
        );
    }

    #[test]
    fn polls_are_read_back_with_the_offset_where_it_is_said_to_be() {
        let (mut body, at) = poll("s", "t", 7, 250);
        body[at..at + 8].copy_from_slice(&12_345u64.to_le_bytes());
        let expected = PollMessages {
            consumer: ConsumerRef::Single(IdentifierRef::Id(1)),
            stream: IdentifierRef::Name("s"),
            topic: IdentifierRef::Name("t"),
            partition: Some(7),
            start: PollStart::Offset(12_345),
            count: 250,
            auto_commit: false,
        };
        assert_eq!(PollMessages::parse(&body), Ok(expected));
    }
}
