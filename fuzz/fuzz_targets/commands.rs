//! The body of every command that the server reads.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whippet_metadata::options::{Purpose, TopicOptionsPatch};
use whippet_protocol::send::{PollMessages, SendMessages};
use whippet_protocol::wire::{decode, requests};

fuzz_target!(|bytes: &[u8]| {
    let _ = SendMessages::parse(bytes);
    let _ = PollMessages::parse(bytes);
    let _ = decode::<requests::streams::CreateStreamRequest>(bytes);
    let _ = decode::<requests::streams::UpdateStreamRequest>(bytes);
    let _ = decode::<requests::streams::DeleteStreamRequest>(bytes);
    let _ = decode::<requests::topics::CreateTopicRequest>(bytes);
    let _ = decode::<requests::topics::UpdateTopicRequest>(bytes);
    let _ = decode::<requests::topics::GetTopicRequest>(bytes);
    let _ = decode::<requests::partitions::CreatePartitionsRequest>(bytes);
    let _ = decode::<requests::partitions::DeletePartitionsRequest>(bytes);
    let _ = decode::<requests::consumer_offsets::StoreConsumerOffsetRequest>(bytes);
    let _ = decode::<requests::consumer_offsets::DeleteConsumerOffsetRequest>(bytes);
    let _ = decode::<requests::consumer_offsets::GetConsumerOffsetRequest>(bytes);
    let _ = decode::<requests::system::describe_options::DescribeOptionsRequest>(bytes);
    let _ = decode::<requests::system::get_client::GetClientRequest>(bytes);
    if let Some((kind, value)) = bytes.split_first() {
        for key in ["segment_size", "message_expiry", "durability", "preallocate_segments", "max_topic_size"] {
            let _ = TopicOptionsPatch::from_entries([(key, *kind, value)].into_iter(), Purpose::Create);
        }
    }
});
