//! Records of the log and the files beside it.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use whippet_log::frontier::Frontier;
use whippet_log::index::SparseIndex;
use whippet_log::snapshot::decode_snapshot;
use whippet_partition::{Control, body_is_intact};
use whippet_vsr::{ClusterId, Entry, GroupId};

fuzz_target!(|bytes: &[u8]| {
    let group = GroupId { number: 1, life: 1 };
    if let Ok(entry) = Entry::decode(Bytes::copy_from_slice(bytes)) {
        let _ = body_is_intact(&entry);
    }
    if let Some((kind, body)) = bytes.split_first() {
        let _ = Control::decode(*kind, body);
    }
    let _ = Frontier::decode(bytes, ClusterId(1), group);
    let _ = SparseIndex::decode(bytes);
    let _ = decode_snapshot(&Bytes::copy_from_slice(bytes), ClusterId(1), group);
});
