//! Bounds of the client protocol, owned here and mirrored nowhere.

/// Bytes of every frame header, request and reply alike.
pub const FRAME_HEADER_SIZE: usize = 256;
/// Largest frame that a client may send or that the server sends, header included (the largest legal message must fit).
pub const FRAME_SIZE_MAX: usize = 64 * 1024 * 1024;
/// Largest frame before login: a login fits many times.
pub const FRAME_SIZE_BEFORE_LOGIN_MAX: usize = 64 * 1024;
/// Bytes of the header of a message batch.
pub const BATCH_HEADER_SIZE: usize = 256;
/// Bytes of the header of one message inside a batch.
pub const MESSAGE_HEADER_SIZE: usize = 48;
/// Largest payload of one message.
pub const MESSAGE_PAYLOAD_MAX: usize = 64_000_000;
/// Largest user-header block of one message.
pub const MESSAGE_USER_HEADERS_MAX: usize = 100_000;
/// Largest number of partitions in one create or delete request, and of one topic at creation.
pub const PARTITIONS_PER_REQUEST_MAX: u32 = 1000;
/// Largest number of streams of a server.
pub const STREAMS_MAX: u32 = 1 << 20;
/// Largest number of topics of a stream.
pub const TOPICS_PER_STREAM_MAX: u32 = 4096;
/// Largest number of partitions of a topic.
pub const PARTITIONS_PER_TOPIC_MAX: u32 = 1_000_000;
/// Largest body of a poll reply, so that frame header and poll header fit the frame limit.
pub const POLL_REPLY_MAX: usize = FRAME_SIZE_MAX - FRAME_HEADER_SIZE - 16;
/// Lengths of a user name in bytes.
pub const USERNAME_LENGTH: std::ops::RangeInclusive<usize> = 3..=50;
/// Lengths of a password in bytes.
pub const PASSWORD_LENGTH: std::ops::RangeInclusive<usize> = 3..=100;

const _: () = assert!(
    MESSAGE_PAYLOAD_MAX + MESSAGE_USER_HEADERS_MAX + MESSAGE_HEADER_SIZE + BATCH_HEADER_SIZE + FRAME_HEADER_SIZE + 1024
        <= FRAME_SIZE_MAX
);
