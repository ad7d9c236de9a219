//! The body of every command that the server reads.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whippet_metadata::options::{Purpose, TopicOptionsPatch};
use whippet_protocol::send::{PollMessages, SendMessages};
use whippet_protocol::wire::{decode, requests};

fuzz_target!(|bytes: &[u8]| {
    let _ = SendMessages::parse(bytes);
    let _ = PollMessages::parse(bytes);
    macro_rules! read {
        ($($family:ident: $($request:ident),+;)+) => { $($(let _ = decode::<requests::$family::$request>(bytes);)+)+ };
    }
    read! {
        system: AttachConsumerSessionRequest, DescribeOptionsRequest, GetClientRequest, GetSnapshotRequest;
        users: ChangePasswordRequest, CreateUserRequest, DeleteUserRequest, GetUserRequest, UpdatePermissionsRequest,
            UpdateUserRequest;
        personal_access_tokens: CreatePersonalAccessTokenRequest, DeletePersonalAccessTokenRequest;
        messages: FlushUnsavedBufferRequest;
        consumer_offsets: DeleteConsumerOffsetRequest, GetConsumerOffsetRequest, StoreConsumerOffsetRequest;
        streams: CreateStreamRequest, DeleteStreamRequest, GetStreamRequest, PurgeStreamRequest, UpdateStreamRequest;
        topics: CreateTopicRequest, DeleteTopicRequest, GetTopicRequest, GetTopicsRequest, PurgeTopicRequest,
            UpdateTopicRequest;
        partitions: CreatePartitionsRequest, DeletePartitionsRequest;
        segments: DeleteSegmentsRequest;
        consumer_groups: CreateConsumerGroupRequest, DeleteConsumerGroupRequest, GetConsumerGroupRequest,
            GetConsumerGroupsRequest, JoinConsumerGroupRequest, LeaveConsumerGroupRequest, SyncConsumerGroupRequest;
    }
    if let Some((kind, value)) = bytes.split_first() {
        for key in ["segment_size", "message_expiry", "durability", "preallocate_segments", "max_topic_size"] {
            let _ = TopicOptionsPatch::from_entries([(key, *kind, value)].into_iter(), Purpose::Create);
        }
    }
});
