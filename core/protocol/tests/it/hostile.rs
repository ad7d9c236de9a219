//! Bytes that no client of ours sends.

use proptest::prelude::*;
use whippet_protocol::frame::{RequestHeader, ServerFrame};
use whippet_protocol::login::Login;
use whippet_protocol::operation::classify;
use whippet_protocol::send::{PollMessages, SendMessages};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_reader_panics(bytes in prop::collection::vec(any::<u8>(), 256..600)) {
        let header: [u8; 256] = bytes[..256].try_into().expect("long enough");
        if let Ok(header) = RequestHeader::parse(&header, 1024) {
            prop_assert!(header.size as usize >= 256 && header.size as usize <= 1024);
            let _ = classify(header.operation, header.code);
        }
        let _ = ServerFrame::parse(&header);
        let _ = Login::parse(&bytes[256..]);
        let _ = PollMessages::parse(&bytes[256..]);
        let _ = SendMessages::parse(&bytes[256..]);
    }

    /// Every single-byte change of a real request is read as something or refused, never a panic.
    #[test]
    fn changed_requests_never_panic(at in any::<prop::sample::Index>(), value in any::<u8>()) {
        let mut body = super::batches::official_body(&[(1, b"payload".to_vec(), vec![])]);
        let at = at.index(body.len());
        body[at] = value;
        if let Ok(send) = SendMessages::parse(&body) {
            let _ = whippet_protocol::batch::verify(&body[send.batch_start..], send.count);
        }
    }
}

#[test]
fn every_prefix_of_a_send_is_refused() {
    let body = super::batches::official_body(&[(1, b"payload".to_vec(), vec![])]);
    for cut in 0..body.len() {
        let refused = match SendMessages::parse(&body[..cut]) {
            Err(_) => true,
            Ok(send) => whippet_protocol::batch::verify(&body[send.batch_start..cut], send.count).is_err(),
        };
        assert!(refused, "cut at {cut}");
    }
}
