//! Frame headers and logins, as they come from a socket before anybody is known.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whippet_protocol::frame::{RequestHeader, ServerFrame};
use whippet_protocol::login::Login;
use whippet_protocol::operation::classify;

fuzz_target!(|bytes: &[u8]| {
    if let Some((header, body)) = bytes.split_first_chunk::<256>() {
        if let Ok(parsed) = RequestHeader::parse(header, 64 << 20) {
            assert!(parsed.size >= 256);
            let _ = classify(parsed.operation, parsed.code);
        }
        let _ = ServerFrame::parse(header);
        let _ = Login::parse(body);
    }
    let _ = Login::parse(bytes);
});
