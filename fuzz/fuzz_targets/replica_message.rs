//! Messages of replicas: whatever a peer sends is read or refused, and a replica that is handed it does not fall over.
#![no_main]

use bytes::{Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;
use twox_hash::XxHash3_64;
use whippet_vsr::{ClusterId, DurableState, GroupId, Message, Mutant, Replica, ReplicaConfig, ReplicaId, VoteRecord};

fn replica() -> Replica {
    let config = ReplicaConfig {
        cluster: ClusterId(1),
        group: GroupId { number: 1, life: 1 },
        replica: ReplicaId(0),
        replica_count: 3,
        incarnation: 7,
        pipeline: 16,
        mutant: Mutant::None,
    };
    let mut replica = Replica::new(config, DurableState::empty(), 0);
    let mut promised: Option<VoteRecord> = None;
    while let Some(effect) = replica.poll_effect() {
        if let whippet_vsr::Effect::Persist(record) = effect {
            promised = Some(record);
        }
    }
    if let Some(record) = promised {
        replica.handle_persisted(&record);
    }
    replica
}

fuzz_target!(|bytes: &[u8]| {
    let _ = Message::decode(Bytes::copy_from_slice(bytes));
    if bytes.len() < 56 {
        return;
    }
    // The same with a right checksum and the right group, handed to a replica.
    let mut bytes = BytesMut::from(bytes);
    bytes[8..12].copy_from_slice(&0x6d56_5357_u32.to_le_bytes());
    bytes[12] = 1;
    bytes[16..32].copy_from_slice(&1_u128.to_le_bytes());
    bytes[32..40].copy_from_slice(&1_u64.to_le_bytes());
    bytes[40..48].copy_from_slice(&1_u64.to_le_bytes());
    bytes[52..56].fill(0);
    let checksum = XxHash3_64::oneshot(&bytes[8..]);
    bytes[..8].copy_from_slice(&checksum.to_le_bytes());
    if let Ok(message) = Message::decode(bytes.freeze()) {
        let mut replica = replica();
        let _ = replica.handle_message(message, 1);
        while replica.poll_effect().is_some() {}
        replica.handle_tick(5_000_000_000);
    }
});
