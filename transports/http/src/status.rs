//! Which HTTP status an error number of the client protocol is answered with.

use axum::http::StatusCode;
use whippet_gateway::WriteOutcome;
use whippet_protocol::ErrorCode;

/// The status of an error. Numbers that the table does not name are the caller's fault: 400. That includes a wrong
/// password and a name that is taken, as clients of this API expect.
///
/// A write whose outcome nobody knows is 504 whatever its number says: the one thing that the caller must not do is to
/// take it for refused.
pub fn status_of(code: ErrorCode, outcome: WriteOutcome) -> StatusCode {
    use ErrorCode::*;
    if outcome == WriteOutcome::Unknown {
        return StatusCode::GATEWAY_TIMEOUT;
    }
    match code {
        Unauthenticated
        | StaleClient
        | JwtMissing
        | AccessTokenMissing
        | InvalidAccessToken
        | InvalidPersonalAccessToken => StatusCode::UNAUTHORIZED,
        Unauthorized => StatusCode::FORBIDDEN,
        StreamIdNotFound
        | TopicIdNotFound
        | PartitionNotFound
        | SegmentNotFound
        | ClientNotFound
        | ConsumerGroupIdNotFound
        | ConsumerGroupNameNotFound
        | ConsumerGroupMemberNotFound
        | ConsumerOffsetNotFound
        | ResourceNotFound => StatusCode::NOT_FOUND,
        InvalidClientId => StatusCode::CONFLICT,
        TransientNotCommitted | TransientNotAccepted => StatusCode::SERVICE_UNAVAILABLE,
        TaskTimeout => StatusCode::GATEWAY_TIMEOUT,
        _ => StatusCode::BAD_REQUEST,
    }
}

/// Which request value an error is about, when the number alone says so.
pub fn field_of(code: ErrorCode) -> Option<&'static str> {
    use ErrorCode::*;
    Some(match code {
        StreamIdNotFound | InvalidStreamId => "stream_id",
        TopicIdNotFound | InvalidTopicId => "topic_id",
        PartitionNotFound => "partition_id",
        SegmentNotFound => "segment_id",
        ClientNotFound | InvalidClientId => "client_id",
        StreamNameAlreadyExists
        | InvalidStreamName
        | StreamNameNotFound
        | TopicNameAlreadyExists
        | InvalidTopicName
        | TopicNameNotFound
        | ConsumerGroupNameAlreadyExists
        | InvalidConsumerGroupName => "name",
        UserAlreadyExists | InvalidUsername => "username",
        InvalidOffset => "offset",
        ConsumerGroupIdNotFound | InvalidConsumerGroupId => "consumer_group_id",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_the_status_of_the_contract() {
        let rows: &[(u16, &[u32])] = &[
            (401, &[30, 40, 53, 75, 77, 78]),
            (403, &[41]),
            (404, &[20, 100, 1009, 2010, 3007, 3021, 4000, 5000, 5003, 5006]),
            (409, &[101]),
            (503, &[57, 58]),
            (504, &[12001]),
        ];
        for code in ErrorCode::ALL {
            let expected =
                rows.iter().find(|(_, codes)| codes.contains(&code.code())).map_or(400, |(status, _)| *status);
            assert_eq!(status_of(*code, WriteOutcome::NotApplied).as_u16(), expected, "{}", code.name());
        }
    }

    #[test]
    fn an_unknown_outcome_is_never_reported_as_refused() {
        for code in ErrorCode::ALL {
            assert_eq!(status_of(*code, WriteOutcome::Unknown), StatusCode::GATEWAY_TIMEOUT);
        }
    }
}
