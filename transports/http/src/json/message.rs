//! Messages as reads show them.

use crate::json::WideNumber;
use crate::json::user_headers::UserHeaders;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use utoipa::{IntoParams, ToSchema};
use whippet_gateway::PollResult;
use whippet_protocol::batch::{self, MessageView};
use whippet_shard::Strategy;

/// Messages that a read found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct PolledMessages {
    /// The partition.
    #[schema(format = Int64, minimum = 0)]
    pub partition_id: u32,
    /// Offset of the partition's last message; 0 when there is none.
    pub current_offset: u64,
    /// Messages in this answer.
    #[schema(format = Int64, minimum = 0)]
    pub count: u32,
    /// The messages, by offset.
    pub messages: Vec<Message>,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Message {
    /// What the server keeps about the message.
    pub header: MessageHeader,
    /// The payload.
    #[schema(value_type = String, format = Byte)]
    pub payload: String,
    /// User headers; an empty list when there are none.
    pub user_headers: UserHeaders,
}

/// What the server keeps about a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct MessageHeader {
    /// Checksum, 64 bits.
    #[schema(value_type = WideNumber)]
    pub checksum: u64,
    /// Id, 128 bits: a reader that cannot keep so many digits has to read the number as text.
    #[schema(value_type = WideNumber)]
    pub id: u128,
    /// Offset in the partition.
    pub offset: u64,
    /// When the message was appended, in microseconds since 1970.
    pub timestamp: u64,
    /// When the producer made the message, in microseconds since 1970.
    pub origin_timestamp: u64,
    /// Bytes of the user headers.
    #[schema(format = Int64, minimum = 0)]
    pub user_headers_length: u32,
    /// Bytes of the payload.
    #[schema(format = Int64, minimum = 0)]
    pub payload_length: u32,
    /// Reserved, 0.
    #[schema(value_type = WideNumber)]
    pub reserved: u64,
}

impl PolledMessages {
    /// The JSON form of what the gateway read.
    pub fn from_poll(polled: &PollResult) -> Self {
        // A chunk may be the header of a batch or its messages alone; only together they are batches.
        let bytes = match polled.chunks.as_slice() {
            [one] => Cow::Borrowed(one.as_ref()),
            many => Cow::Owned(many.concat()),
        };
        let messages: Vec<_> =
            batch::batches(&bytes).flat_map(batch::messages).map(|message| Message::from_view(&message)).collect();
        debug_assert_eq!(messages.len(), polled.count as usize);
        Self { partition_id: polled.partition_id, current_offset: polled.current_offset, count: polled.count, messages }
    }
}

impl Message {
    fn from_view(message: &MessageView<'_>) -> Self {
        Self {
            header: MessageHeader {
                checksum: message.checksum,
                id: message.id,
                offset: message.offset,
                timestamp: message.timestamp,
                origin_timestamp: message.origin_timestamp,
                user_headers_length: message.user_headers.len() as u32,
                payload_length: message.payload.len() as u32,
                reserved: 0,
            },
            payload: STANDARD.encode(message.payload),
            user_headers: UserHeaders::from_block(message.user_headers),
        }
    }
}

/// Which messages to read, and for whom.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PollQuery {
    /// Number or name of the consumer.
    #[serde(default = "crate::json::offset::first_consumer")]
    #[param(default = "1")]
    pub consumer_id: String,
    /// The partition.
    #[serde(default)]
    #[param(format = Int64, minimum = 0, default = 0)]
    pub partition_id: u32,
    /// Where to begin. One letter is enough.
    #[serde(default)]
    #[param(inline)]
    pub kind: PollingKind,
    /// For `offset` the offset, for `timestamp` microseconds since 1970; otherwise not looked at.
    #[serde(default)]
    #[param(default = 0)]
    pub value: u64,
    /// Most messages to return.
    #[serde(default = "ten")]
    #[param(format = Int64, minimum = 0, default = 10)]
    pub count: u32,
    /// Whether to store the offset of the last returned message for the consumer.
    #[serde(default)]
    #[param(default = false)]
    pub auto_commit: bool,
}

fn ten() -> u32 {
    10
}

/// Where a read begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PollingKind {
    /// At an offset.
    #[default]
    #[serde(alias = "o")]
    Offset,
    /// At the first message that was appended at this time or later.
    #[serde(alias = "t")]
    Timestamp,
    /// At the first message there is.
    #[serde(alias = "f")]
    First,
    /// So that the last messages are returned.
    #[serde(alias = "l")]
    Last,
    /// After the stored offset of the consumer.
    #[serde(alias = "n")]
    Next,
}

impl PollQuery {
    /// Where to begin, as the partition understands it.
    pub fn strategy(&self) -> Strategy {
        match self.kind {
            PollingKind::Offset => Strategy::Offset(self.value),
            PollingKind::Timestamp => Strategy::Timestamp(self.value),
            PollingKind::First => Strategy::First,
            PollingKind::Last => Strategy::Last,
            PollingKind::Next => Strategy::Next,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ApiError;

    fn query(text: &str) -> Result<PollQuery, ApiError> {
        crate::extract::query::parse(&format!("/x?{text}").parse().unwrap())
    }

    #[test]
    fn stored_messages_become_json() {
        let block = [2, 1, 0, 0, 0, b'a', 1, 1, 0, 0, 0, 0xff];
        let mut builder = batch::BatchBuilder::new(0, 1_000, 0);
        builder.push(u128::MAX, 1_000, b"one", &block);
        builder.push(7, 1_250, b"two", &[9]);
        let (mut bytes, range) = builder.finish();
        batch::stamp(&mut bytes[range], 3, 40, 5_000);
        let whole = bytes.freeze();
        let parts = vec![whole.slice(..256), whole.slice(256..)];
        for chunks in [vec![whole.clone()], parts] {
            let polled = PollResult { partition_id: 3, current_offset: 41, count: 2, chunks };
            let json = serde_json::to_string(&PolledMessages::from_poll(&polled)).unwrap();
            let expected = format!(
                concat!(
                    r#"{{"partition_id":3,"current_offset":41,"count":2,"messages":["#,
                    r#"{{"header":{{"checksum":{},"id":340282366920938463463374607431768211455,"offset":40,"timestamp":5000,"#,
                    r#""origin_timestamp":1000,"user_headers_length":12,"payload_length":3,"reserved":0}},"payload":"b25l","#,
                    r#""user_headers":[{{"key":{{"kind":"string","value":"YQ=="}},"value":{{"kind":"raw","value":"/w=="}}}}]}},"#,
                    r#"{{"header":{{"checksum":{},"id":7,"offset":41,"timestamp":5000,"#,
                    r#""origin_timestamp":1250,"user_headers_length":1,"payload_length":3,"reserved":0}},"payload":"dHdv","#,
                    r#""user_headers":"CQ=="}}]}}"#
                ),
                batch::messages(&whole).next().unwrap().checksum,
                batch::messages(&whole).nth(1).unwrap().checksum,
            );
            assert_eq!(json, expected);
        }
    }

    #[test]
    fn a_poll_without_parameters_reads_ten_messages_from_the_start_of_partition_0() {
        let query = query("").unwrap();
        assert_eq!(
            (query.consumer_id.as_str(), query.partition_id, query.count, query.auto_commit),
            ("1", 0, 10, false)
        );
        assert_eq!(query.strategy(), Strategy::Offset(0));
    }

    #[test]
    fn kinds_may_be_words_or_letters() {
        let cases = [
            ("kind=offset&value=7", Strategy::Offset(7)),
            ("kind=o&value=18446744073709551615", Strategy::Offset(u64::MAX)),
            ("kind=timestamp&value=5", Strategy::Timestamp(5)),
            ("kind=t", Strategy::Timestamp(0)),
            ("kind=first", Strategy::First),
            ("kind=f", Strategy::First),
            ("kind=last", Strategy::Last),
            ("kind=l", Strategy::Last),
            ("kind=next&value=3", Strategy::Next),
            ("kind=n", Strategy::Next),
        ];
        for (text, strategy) in cases {
            assert_eq!(query(text).unwrap().strategy(), strategy, "{text}");
        }
        for wrong in [
            "kind=x",
            "value=-1",
            "value=18446744073709551616",
            "count=-1",
            "count=4294967296",
            "partition_id=a",
            "auto_commit=yes",
        ] {
            assert_eq!(query(wrong).unwrap_err().status, 400, "{wrong}");
        }
    }
}
