//! Error numbers of the client protocol, with the text that people see.
//!
//! The numbers are fixed by protocol 0.11 and are never reused. Everything that a server answers to a client, on any
//! front end, is one of these: binary replies carry the number in `status` or in the result section, HTTP carries it as
//! `id` with [`ErrorCode::name`] as `code`.

macro_rules! error_codes {
    ($($variant:ident = $code:literal, $name:literal, $text:literal;)+) => {
        /// One error number of the client protocol.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u32)]
        pub enum ErrorCode {
            $(#[doc = $text] $variant = $code,)+
        }

        impl ErrorCode {
            /// Every number that this server can answer, in ascending order.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$variant,)+];

            /// The number on the wire.
            pub const fn code(self) -> u32 {
                self as u32
            }

            /// The snake-case name, as HTTP error bodies carry it.
            pub const fn name(self) -> &'static str {
                match self { $(ErrorCode::$variant => $name,)+ }
            }

            /// One sentence for people, without a final period.
            pub const fn text(self) -> &'static str {
                match self { $(ErrorCode::$variant => $text,)+ }
            }

            /// The code with this number, if the server knows it.
            pub const fn from_code(code: u32) -> Option<ErrorCode> {
                match code { $($code => Some(ErrorCode::$variant),)+ _ => None }
            }
        }
    };
}

error_codes! {
    Error = 1, "error", "the server could not carry out the request, its log says why";
    InvalidConfiguration = 2, "invalid_configuration", "a setting has a value that cannot be used";
    InvalidCommand = 3, "invalid_command", "the request cannot be read: its command is unknown or its body does not have the command's layout";
    InvalidFormat = 4, "invalid_format", "the content of the request is damaged or does not have the expected form";
    FeatureUnavailable = 5, "feature_unavailable", "this server does not offer the command, or not in the form in which it was sent";
    InvalidIdentifier = 6, "invalid_identifier", "an identifier is neither a number below 2^32 nor a name of 1 to 255 bytes, or cannot be used here";
    ResourceNotFound = 20, "resource_not_found", "what the request names does not exist";
    StaleClient = 30, "stale_client", "the client was silent for too long and lost its session, it has to log in again";
    Unauthenticated = 40, "unauthenticated", "the request needs a login, and this connection has none";
    Unauthorized = 41, "unauthorized", "the user lacks the permission for this request";
    InvalidCredentials = 42, "invalid_credentials", "the user name or the password is wrong";
    InvalidUsername = 43, "invalid_username", "a user name must have 3 to 50 bytes";
    InvalidPassword = 44, "invalid_password", "a password must have 3 to 100 bytes";
    InvalidUserStatus = 45, "invalid_user_status", "the status of a user must be 1 (active) or 2 (inactive)";
    UserAlreadyExists = 46, "user_already_exists", "another user has this name";
    UserInactive = 47, "user_inactive", "the user is inactive and cannot log in until an administrator activates it";
    CannotDeleteUser = 48, "cannot_delete_user", "the root user cannot be deleted";
    CannotChangePermissions = 49, "cannot_change_permissions", "the permissions of the root user cannot be changed";
    InvalidPersonalAccessTokenName = 50, "invalid_personal_access_token_name", "the name of a personal access token must have 3 to 30 bytes";
    PersonalAccessTokenAlreadyExists = 51, "personal_access_token_already_exists", "the user has a personal access token of this name already";
    PersonalAccessTokensLimitReached = 52, "personal_access_tokens_limit_reached", "the user has as many personal access tokens as are allowed, delete one first";
    InvalidPersonalAccessToken = 53, "invalid_personal_access_token", "the personal access token is unknown or no longer valid";
    PersonalAccessTokenExpired = 54, "personal_access_token_expired", "the personal access token has expired, create a new one";
    UsersLimitReached = 55, "users_limit_reached", "there are as many users as are allowed, delete one first";
    InvalidPersonalAccessTokenExpiry = 56, "invalid_personal_access_token_expiry", "the expiry of the personal access token lies too far in the future";
    TransientNotCommitted = 57, "transient_not_committed", "whether the request was applied is not known yet, the same request may be sent to this node again";
    TransientNotAccepted = 58, "transient_not_accepted", "the request was not applied, it may be sent again here or to another node";
    RequestAlreadyApplied = 59, "request_already_applied", "the request was applied before and its reply is no longer kept";
    NotConnected = 61, "not_connected", "there is no connection to the server";
    JwtMissing = 75, "jwt_missing", "the authorization header holds no token";
    AccessTokenMissing = 77, "access_token_missing", "the request needs an access token, and none was sent";
    InvalidAccessToken = 78, "invalid_access_token", "the access token is invalid, revoked or expired, log in again";
    InvalidSizeBytes = 80, "invalid_size_bytes", "a size in bytes cannot be read";
    InvalidUtf8 = 81, "invalid_utf8", "a text is not valid UTF-8";
    InvalidBooleanValue = 83, "invalid_boolean_value", "a value has to be true or false";
    InvalidNumberValue = 84, "invalid_number_value", "a value has to be a number within its range";
    ClientNotFound = 100, "client_not_found", "no connected client has this id";
    InvalidClientId = 101, "invalid_client_id", "the client id is zero or belongs to another user";
    CannotParseHeaderKind = 209, "cannot_parse_header_kind", "the kind of a user header is unknown";
    HttpResponseError = 300, "http_response_error", "the server answered over HTTP with an error";
    InvalidHttpRequest = 301, "invalid_http_request", "the HTTP request cannot be processed in this form";
    InvalidJsonResponse = 302, "invalid_json_response", "a JSON body cannot be read";
    InvalidBytesResponse = 303, "invalid_bytes_response", "the bytes of an HTTP body cannot be read";
    StreamIdNotFound = 1009, "stream_id_not_found", "the stream does not exist";
    StreamNameNotFound = 1010, "stream_name_not_found", "no stream has this name";
    StreamNameAlreadyExists = 1012, "stream_name_already_exists", "another stream has this name";
    InvalidStreamName = 1013, "invalid_stream_name", "the name of a stream must have 1 to 255 bytes";
    InvalidStreamId = 1014, "invalid_stream_id", "a stream cannot have this id";
    InvalidTopicSize = 1019, "invalid_topic_size", "the maximum size of a topic must not be smaller than the size of its segments";
    TooManyStreams = 1020, "too_many_streams", "there are as many streams as are allowed, delete one first";
    TopicIdNotFound = 2010, "topic_id_not_found", "the topic does not exist in this stream";
    TopicNameNotFound = 2011, "topic_name_not_found", "no topic of the stream has this name";
    TopicNameAlreadyExists = 2013, "topic_name_already_exists", "topic name already exists";
    InvalidTopicName = 2014, "invalid_topic_name", "the name of a topic must have 1 to 255 bytes";
    TooManyPartitions = 2015, "too_many_partitions", "a topic is created with at most 1000 partitions, and one request adds or deletes 1 to 1000";
    InvalidTopicId = 2016, "invalid_topic_id", "a topic cannot have this id";
    InvalidReplicationFactor = 2018, "invalid_replication_factor", "the replication factor cannot be chosen";
    InvalidPartitionsCount = 2019, "invalid_partitions_count", "the topic cannot have this number of partitions, or does not have as many as are to be deleted";
    TooManyTopics = 2021, "too_many_topics", "the stream has as many topics as are allowed, delete one first";
    PartitionNotFound = 3007, "partition_not_found", "the partition does not exist in this topic";
    NoPartitions = 3008, "no_partitions", "the topic has no partitions, create one first";
    TopicFull = 3009, "topic_full", "the partition takes no messages or cannot be read now, the server's log says why";
    PartitionIdSpaceExhausted = 3013, "partition_id_space_exhausted", "the topic has as many partitions as are allowed";
    ConsumerOffsetNotFound = 3021, "consumer_offset_not_found", "no offset is stored for this consumer";
    NotResolvedConsumer = 3022, "not_resolved_consumer", "the consumer cannot be told from the request";
    TooManyConsumerOffsets = 3024, "too_many_consumer_offsets", "the partition stores offsets for as many consumers as are allowed, delete one first";
    SegmentNotFound = 4000, "segment_not_found", "the segment does not exist";
    InvalidSegmentSize = 4002, "invalid_segment_size", "the size of a segment must be a multiple of 512 between 1 MiB and 1 GiB";
    InvalidMessagesCount = 4009, "invalid_messages_count", "the number of messages is zero or not what the batch holds";
    TooBigUserHeaders = 4017, "too_big_user_headers", "the user headers of a message must not exceed 100000 bytes";
    InvalidHeaderKey = 4018, "invalid_header_key", "the key of a user header must have 1 to 255 bytes";
    InvalidHeaderValue = 4019, "invalid_header_value", "the value of a user header must have 1 to 255 bytes and fit its kind";
    TooBigMessagePayload = 4022, "too_big_message_payload", "the payload of a message must not exceed 64000000 bytes";
    TooManyMessages = 4023, "too_many_messages", "the batch holds more messages than are allowed, send it in parts";
    EmptyMessagePayload = 4024, "empty_message_payload", "a message must have a payload of at least one byte";
    InvalidMessagePayloadLength = 4025, "invalid_message_payload_length", "the length of a payload does not fit its message";
    InvalidMessageChecksum = 4027, "invalid_message_checksum", "the checksum of a message does not match its bytes";
    InvalidKeyValueLength = 4028, "invalid_key_value_length", "a partitioning key must have 1 to 255 bytes";
    CommandLengthError = 4029, "command_length_error", "the lengths within the request do not add up";
    InvalidSegmentsCount = 4030, "invalid_segments_count", "this number of segments cannot be deleted";
    NonZeroOffset = 4031, "non_zero_offset", "a producer must leave the offset zero, the server assigns it";
    NonZeroTimestamp = 4032, "non_zero_timestamp", "a producer must leave the append time zero, the server assigns it";
    MissingIndex = 4033, "missing_index", "an entry is missing in the index of the messages";
    InvalidIndexesByteSize = 4034, "invalid_indexes_byte_size", "the index of the messages does not consist of whole entries";
    InvalidIndexesCount = 4035, "invalid_indexes_count", "the index does not have one entry for each message";
    InvalidMessagesSize = 4036, "invalid_messages_size", "the messages have another size than the request says";
    TooSmallMessage = 4037, "too_small_message", "a message is smaller than its header";
    InvalidBatchChecksum = 4039, "invalid_batch_checksum", "the checksum of the batch does not match its header and messages";
    InvalidHeaderKind = 4040, "invalid_header_kind", "the kind of a user header must be a number from 1 to 15";
    UnsupportedOptionKey = 4041, "unsupported_option_key", "an option does not exist, or cannot be changed after creation";
    InvalidOptionValue = 4042, "invalid_option_value", "the value of an option cannot be read or is outside its limits";
    OptionsBlockTooLarge = 4043, "options_block_too_large", "the options exceed 1024 entries or 100000 bytes";
    InvalidOffset = 4100, "invalid_offset", "the offset lies beyond the last message of the partition";
    InvalidReservedField = 4101, "invalid_reserved_field", "a field that must be zero is not";
    ConsumerGroupIdNotFound = 5000, "consumer_group_id_not_found", "the consumer group does not exist in this topic";
    InvalidConsumerGroupId = 5002, "invalid_consumer_group_id", "a consumer group cannot have this id";
    ConsumerGroupNameNotFound = 5003, "consumer_group_name_not_found", "no consumer group of the topic has this name";
    ConsumerGroupNameAlreadyExists = 5004, "consumer_group_name_already_exists", "another consumer group of the topic has this name";
    InvalidConsumerGroupName = 5005, "invalid_consumer_group_name", "the name of a consumer group must have 1 to 255 bytes";
    ConsumerGroupMemberNotFound = 5006, "consumer_group_member_not_found", "the client is not a member of the consumer group, it has to join first";
    ConsumerGroupPartitionNotOwned = 5009, "consumer_group_partition_not_owned", "the partition is not, or no longer, assigned to this member of the consumer group";
    SnapshotFileCompletionFailed = 9000, "snapshot_file_completion_failed", "the diagnostic snapshot could not be made or does not fit a frame";
    CannotSerializeResource = 10000, "cannot_serialize_resource", "the server could not encode what was asked for";
    CannotDeserializeResource = 10001, "cannot_deserialize_resource", "the server could not decode what it has stored";
    TimestampOutOfRange = 10013, "timestamp_out_of_range", "a point in time is too early or too late to be represented";
    TaskTimeout = 12001, "task_timeout", "the server did not finish in time";
    IoError = 13000, "io_error", "the server could not read or write a file or a socket, its log says which";
    IncompatibleProtocolVersion = 14003, "incompatible_protocol_version", "the server does not speak the client's version of the protocol";
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for ErrorCode {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn numbers_and_names_are_unique_and_lead_back() {
        let mut names = BTreeSet::new();
        for pair in ErrorCode::ALL.windows(2) {
            assert!(pair[0].code() < pair[1].code(), "{} before {}", pair[0].name(), pair[1].name());
        }
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::from_code(code.code()), Some(*code));
            assert!(names.insert(code.name()), "{} stands twice", code.name());
        }
        assert_eq!(ErrorCode::from_code(0), None, "0 is success");
        assert_eq!(ErrorCode::from_code(60), None);
    }

    #[test]
    fn texts_are_sentences_for_people() {
        let mut texts = BTreeSet::new();
        for code in ErrorCode::ALL {
            let (name, text) = (code.name(), code.text());
            assert!(texts.insert(text), "{name} has the text of another code");
            assert!(text.starts_with(|first: char| first.is_ascii_lowercase()), "{name} does not start in lower case");
            assert!(!text.ends_with('.'), "{name} ends with a period");
            assert_eq!(code.to_string(), text);
        }
    }
}
