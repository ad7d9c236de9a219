//! Snapshots of the state machines.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whippet_metadata::MetadataState;
use whippet_partition::PartitionState;

fuzz_target!(|bytes: &[u8]| {
    let _ = PartitionState::restore(bytes);
    if let Ok(state) = MetadataState::restore(bytes) {
        assert_eq!(MetadataState::restore(&state.snapshot()).map(|again| again.digest()).ok(), Some(state.digest()));
    }
});
