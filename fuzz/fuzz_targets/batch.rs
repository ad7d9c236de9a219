//! Message batches: what is admitted can be stamped, cut and read without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whippet_protocol::batch::{batches, check_stored, messages, slice, stamp, verify};

fuzz_target!(|bytes: &[u8]| {
    let _ = batches(bytes).count();
    let _ = messages(bytes).count();
    let Some((count, batch)) = bytes.split_first() else { return };
    if verify(batch, u32::from(*count)).is_ok() {
        let mut batch = batch.to_vec();
        stamp(&mut batch, 1, 1000, 5);
        let info = check_stored(&batch).expect("a stamped batch checks out");
        let _ = slice(&batch, 1000 + u64::from(info.count) / 2, 1, usize::MAX);
    }
});
