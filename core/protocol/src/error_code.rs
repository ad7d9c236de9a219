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
    Error = 1, "error", "error";
    InvalidConfiguration = 2, "invalid_configuration", "invalid configuration";
    InvalidCommand = 3, "invalid_command", "invalid command";
    InvalidFormat = 4, "invalid_format", "invalid format";
    FeatureUnavailable = 5, "feature_unavailable", "feature unavailable";
    InvalidIdentifier = 6, "invalid_identifier", "invalid identifier";
    ResourceNotFound = 20, "resource_not_found", "resource not found";
    StaleClient = 30, "stale_client", "stale client";
    Unauthenticated = 40, "unauthenticated", "unauthenticated";
    Unauthorized = 41, "unauthorized", "unauthorized";
    InvalidCredentials = 42, "invalid_credentials", "invalid credentials";
    InvalidUsername = 43, "invalid_username", "invalid username";
    InvalidPassword = 44, "invalid_password", "invalid password";
    InvalidUserStatus = 45, "invalid_user_status", "invalid user status";
    UserAlreadyExists = 46, "user_already_exists", "user already exists";
    UserInactive = 47, "user_inactive", "user inactive";
    CannotDeleteUser = 48, "cannot_delete_user", "cannot delete user";
    CannotChangePermissions = 49, "cannot_change_permissions", "cannot change permissions";
    InvalidPersonalAccessTokenName = 50, "invalid_personal_access_token_name", "invalid personal access token name";
    PersonalAccessTokenAlreadyExists = 51, "personal_access_token_already_exists", "personal access token already exists";
    PersonalAccessTokensLimitReached = 52, "personal_access_tokens_limit_reached", "personal access tokens limit reached";
    InvalidPersonalAccessToken = 53, "invalid_personal_access_token", "invalid personal access token";
    PersonalAccessTokenExpired = 54, "personal_access_token_expired", "personal access token expired";
    UsersLimitReached = 55, "users_limit_reached", "users limit reached";
    InvalidPersonalAccessTokenExpiry = 56, "invalid_personal_access_token_expiry", "invalid personal access token expiry";
    TransientNotCommitted = 57, "transient_not_committed", "transient not committed";
    TransientNotAccepted = 58, "transient_not_accepted", "transient not accepted";
    RequestAlreadyApplied = 59, "request_already_applied", "request already applied";
    NotConnected = 61, "not_connected", "not connected";
    JwtMissing = 75, "jwt_missing", "jwt missing";
    AccessTokenMissing = 77, "access_token_missing", "access token missing";
    InvalidAccessToken = 78, "invalid_access_token", "invalid access token";
    InvalidSizeBytes = 80, "invalid_size_bytes", "invalid size bytes";
    InvalidUtf8 = 81, "invalid_utf8", "invalid utf8";
    InvalidBooleanValue = 83, "invalid_boolean_value", "invalid boolean value";
    InvalidNumberValue = 84, "invalid_number_value", "invalid number value";
    ClientNotFound = 100, "client_not_found", "client not found";
    InvalidClientId = 101, "invalid_client_id", "invalid client id";
    CannotParseHeaderKind = 209, "cannot_parse_header_kind", "cannot parse header kind";
    HttpResponseError = 300, "http_response_error", "http response error";
    InvalidHttpRequest = 301, "invalid_http_request", "invalid http request";
    InvalidJsonResponse = 302, "invalid_json_response", "invalid json response";
    InvalidBytesResponse = 303, "invalid_bytes_response", "invalid bytes response";
    StreamIdNotFound = 1009, "stream_id_not_found", "stream id not found";
    StreamNameNotFound = 1010, "stream_name_not_found", "stream name not found";
    StreamNameAlreadyExists = 1012, "stream_name_already_exists", "stream name already exists";
    InvalidStreamName = 1013, "invalid_stream_name", "invalid stream name";
    InvalidStreamId = 1014, "invalid_stream_id", "invalid stream id";
    InvalidTopicSize = 1019, "invalid_topic_size", "invalid topic size";
    TooManyStreams = 1020, "too_many_streams", "too many streams";
    TopicIdNotFound = 2010, "topic_id_not_found", "topic id not found";
    TopicNameNotFound = 2011, "topic_name_not_found", "topic name not found";
    TopicNameAlreadyExists = 2013, "topic_name_already_exists", "topic name already exists";
    InvalidTopicName = 2014, "invalid_topic_name", "invalid topic name";
    TooManyPartitions = 2015, "too_many_partitions", "too many partitions";
    InvalidTopicId = 2016, "invalid_topic_id", "invalid topic id";
    InvalidReplicationFactor = 2018, "invalid_replication_factor", "invalid replication factor";
    InvalidPartitionsCount = 2019, "invalid_partitions_count", "invalid partitions count";
    TooManyTopics = 2021, "too_many_topics", "too many topics";
    PartitionNotFound = 3007, "partition_not_found", "partition not found";
    NoPartitions = 3008, "no_partitions", "no partitions";
    TopicFull = 3009, "topic_full", "topic full";
    PartitionIdSpaceExhausted = 3013, "partition_id_space_exhausted", "partition id space exhausted";
    ConsumerOffsetNotFound = 3021, "consumer_offset_not_found", "consumer offset not found";
    NotResolvedConsumer = 3022, "not_resolved_consumer", "not resolved consumer";
    TooManyConsumerOffsets = 3024, "too_many_consumer_offsets", "too many consumer offsets";
    SegmentNotFound = 4000, "segment_not_found", "segment not found";
    InvalidSegmentSize = 4002, "invalid_segment_size", "invalid segment size";
    InvalidMessagesCount = 4009, "invalid_messages_count", "invalid messages count";
    TooBigUserHeaders = 4017, "too_big_user_headers", "too big user headers";
    InvalidHeaderKey = 4018, "invalid_header_key", "invalid header key";
    InvalidHeaderValue = 4019, "invalid_header_value", "invalid header value";
    TooBigMessagePayload = 4022, "too_big_message_payload", "too big message payload";
    TooManyMessages = 4023, "too_many_messages", "too many messages";
    EmptyMessagePayload = 4024, "empty_message_payload", "empty message payload";
    InvalidMessagePayloadLength = 4025, "invalid_message_payload_length", "invalid message payload length";
    InvalidMessageChecksum = 4027, "invalid_message_checksum", "invalid message checksum";
    InvalidKeyValueLength = 4028, "invalid_key_value_length", "invalid key value length";
    CommandLengthError = 4029, "command_length_error", "command length error";
    InvalidSegmentsCount = 4030, "invalid_segments_count", "invalid segments count";
    NonZeroOffset = 4031, "non_zero_offset", "non zero offset";
    NonZeroTimestamp = 4032, "non_zero_timestamp", "non zero timestamp";
    MissingIndex = 4033, "missing_index", "missing index";
    InvalidIndexesByteSize = 4034, "invalid_indexes_byte_size", "invalid indexes byte size";
    InvalidIndexesCount = 4035, "invalid_indexes_count", "invalid indexes count";
    InvalidMessagesSize = 4036, "invalid_messages_size", "invalid messages size";
    TooSmallMessage = 4037, "too_small_message", "too small message";
    InvalidBatchChecksum = 4039, "invalid_batch_checksum", "invalid batch checksum";
    InvalidHeaderKind = 4040, "invalid_header_kind", "invalid header kind";
    UnsupportedOptionKey = 4041, "unsupported_option_key", "unsupported option key";
    InvalidOptionValue = 4042, "invalid_option_value", "invalid option value";
    OptionsBlockTooLarge = 4043, "options_block_too_large", "options block too large";
    InvalidOffset = 4100, "invalid_offset", "invalid offset";
    InvalidReservedField = 4101, "invalid_reserved_field", "invalid reserved field";
    ConsumerGroupIdNotFound = 5000, "consumer_group_id_not_found", "consumer group id not found";
    InvalidConsumerGroupId = 5002, "invalid_consumer_group_id", "invalid consumer group id";
    ConsumerGroupNameNotFound = 5003, "consumer_group_name_not_found", "consumer group name not found";
    ConsumerGroupNameAlreadyExists = 5004, "consumer_group_name_already_exists", "consumer group name already exists";
    InvalidConsumerGroupName = 5005, "invalid_consumer_group_name", "invalid consumer group name";
    ConsumerGroupMemberNotFound = 5006, "consumer_group_member_not_found", "consumer group member not found";
    ConsumerGroupPartitionNotOwned = 5009, "consumer_group_partition_not_owned", "consumer group partition not owned";
    SnapshotFileCompletionFailed = 9000, "snapshot_file_completion_failed", "snapshot file completion failed";
    CannotSerializeResource = 10000, "cannot_serialize_resource", "cannot serialize resource";
    CannotDeserializeResource = 10001, "cannot_deserialize_resource", "cannot deserialize resource";
    TimestampOutOfRange = 10013, "timestamp_out_of_range", "timestamp out of range";
    TaskTimeout = 12001, "task_timeout", "task timeout";
    IoError = 13000, "io_error", "io error";
    IncompatibleProtocolVersion = 14003, "incompatible_protocol_version", "incompatible protocol version";
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for ErrorCode {}
