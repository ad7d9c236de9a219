//! Reading of poll replies: every record is walked by hand and every checksum is verified, which the official SDK does not do.

use crate::frame::{u32_in, u64_in};
use iggy_binary_protocol::batch::{BATCH_HEADER_SIZE, decode_batch_slice};

/// One message of a poll reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Offset in the partition.
    pub offset: u64,
    /// Message id.
    pub id: u128,
    /// Append time of its batch, µs since 1970.
    pub timestamp: u64,
    /// Payload bytes.
    pub payload: Vec<u8>,
}

/// A decoded poll reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Polled {
    /// Partition number.
    pub partition: u32,
    /// Offset of the last committed message.
    pub current_offset: u64,
    /// The messages, in the order of the reply.
    pub messages: Vec<Message>,
}

impl Polled {
    /// Reads the body of a poll reply.
    ///
    /// # Errors
    /// A text that says what is wrong with the reply: a short head, a record that is damaged or stamped with another
    /// partition, surplus bytes, or a count field that is not the number of messages.
    pub fn decode(body: &[u8]) -> Result<Self, String> {
        let (Some(partition), Some(current_offset), Some(count)) = (u32_in(body, 0), u64_in(body, 4), u32_in(body, 12))
        else {
            return Err(format!("poll reply of {} bytes has no head", body.len()));
        };
        let mut rest = &body[16..];
        let mut messages = Vec::new();
        while !rest.is_empty() {
            let batch = decode_batch_slice(rest)
                .map_err(|error| format!("record after {} messages: {error}", messages.len()))?;
            let header = batch.header;
            if header.partition_id != u64::from(partition) {
                return Err(format!("record of partition {} in a reply of partition {partition}", header.partition_id));
            }
            messages.extend(batch.iter().map(|view| Message {
                offset: header.base_offset + u64::from(view.header.offset_delta),
                id: view.header.id,
                timestamp: header.base_timestamp,
                payload: view.payload.to_vec(),
            }));
            let length = usize::try_from(header.batch_length).map_err(|error| error.to_string())?;
            rest = rest.get(length.max(BATCH_HEADER_SIZE)..).ok_or("record longer than the reply")?;
        }
        if messages.len() != count as usize {
            return Err(format!("count field {count}, {} messages", messages.len()));
        }
        Ok(Self { partition, current_offset, messages })
    }
}

#[cfg(test)]
mod tests {
    use super::Polled;
    use crate::body::{SEND_BATCH_START, Target, send};

    fn reply(count: u32, records: &[u8]) -> Vec<u8> {
        let mut body = 0u32.to_le_bytes().to_vec();
        body.extend_from_slice(&1u64.to_le_bytes());
        body.extend_from_slice(&count.to_le_bytes());
        body.extend_from_slice(records);
        body
    }

    #[test]
    fn reads_messages_and_refuses_wrong_counts_and_damage() {
        let target = Target { stream: 0, topic: 0, partition: 0 };
        let record = send(target, 5, &[b"one".to_vec(), b"two".to_vec()])[SEND_BATCH_START..].to_vec();
        let polled = Polled::decode(&reply(2, &record)).expect("a whole reply");
        let seen: Vec<_> =
            polled.messages.iter().map(|message| (message.offset, message.id, &message.payload[..])).collect();
        assert_eq!(seen, vec![(0, 5, &b"one"[..]), (1, 6, &b"two"[..])]);
        assert!(Polled::decode(&reply(3, &record)).is_err());
        let mut damaged = record;
        *damaged.last_mut().expect("not empty") ^= 1;
        assert!(Polled::decode(&reply(2, &damaged)).is_err());
        assert!(Polled::decode(&[0; 15]).is_err());
    }
}
