//! Self-describing payloads: producer, sequence number, random filling, and a checksum over all of it.

use crate::random::Random;
use twox_hash::XxHash3_64;

/// Shortest payload, bytes: producer (4), sequence number (8), checksum (8).
pub const PAYLOAD_SIZE_MIN: usize = 20;

/// Who wrote a payload, and as which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Label {
    /// Number of the producer.
    pub producer: u32,
    /// Position in the order of that producer, from 0.
    pub sequence: u64,
}

/// Builds the payload of `label` with `length` bytes; lengths below [`PAYLOAD_SIZE_MIN`] are raised to it.
#[must_use]
pub fn build(label: Label, length: usize) -> Vec<u8> {
    let filling = length.saturating_sub(PAYLOAD_SIZE_MIN);
    let mut payload = Vec::with_capacity(PAYLOAD_SIZE_MIN + filling);
    payload.extend_from_slice(&label.producer.to_le_bytes());
    payload.extend_from_slice(&label.sequence.to_le_bytes());
    payload.extend_from_slice(&Random::new(u64::from(label.producer) << 40 ^ label.sequence).bytes(filling));
    let checksum = XxHash3_64::oneshot(&payload);
    payload.extend_from_slice(&checksum.to_le_bytes());
    payload
}

/// Reads a payload back.
///
/// # Errors
/// A text that says what is wrong: too short, or damaged.
pub fn read(payload: &[u8]) -> Result<Label, String> {
    let (content, checksum) = match payload.len().checked_sub(8) {
        Some(split) if payload.len() >= PAYLOAD_SIZE_MIN => payload.split_at(split),
        _ => return Err(format!("payload of {} bytes is too short", payload.len())),
    };
    if XxHash3_64::oneshot(content).to_le_bytes() != checksum {
        return Err(format!("payload of {} bytes is damaged", payload.len()));
    }
    let (producer, rest) = content.split_at(4);
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |number, &byte| number << 8 | u64::from(byte));
    Ok(Label { producer: u32::try_from(number(producer)).unwrap_or_default(), sequence: number(&rest[..8]) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_survive_and_damage_is_found() {
        let label = Label { producer: 0x0102_0304, sequence: u64::MAX - 5 };
        for length in [0, PAYLOAD_SIZE_MIN, 21, 500] {
            let payload = build(label, length);
            assert_eq!(payload.len(), length.max(PAYLOAD_SIZE_MIN));
            assert_eq!(read(&payload), Ok(label));
            let mut damaged = payload;
            damaged[6] ^= 0x10;
            assert!(read(&damaged).is_err());
        }
        assert!(read(&[0; PAYLOAD_SIZE_MIN - 1]).is_err());
    }
}
