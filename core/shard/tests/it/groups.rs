//! Groups that come, go, are emptied, damaged or missing.

use crate::node::{Node, name, send};
use whippet_metadata::command::Command;
use whippet_protocol::{ErrorCode, Identifier};
use whippet_shard::{Identity, Reply, Request};
use whippet_storage::{
    CompletionOrder, Crash, FileName, GroupDirectory, StorageEffect, StorageHost, StorageOp, StorageTicket,
};
use whippet_vsr::GroupId;

fn directory(group: GroupId) -> GroupDirectory {
    GroupDirectory { number: group.number, life: group.life }
}

/// Changes the disk behind the server's back while it is down.
fn meddle(node: &mut Node, op: StorageOp) {
    node.host.submit(StorageEffect { ticket: StorageTicket(u64::MAX), op });
    node.host.flush();
    while node.host.poll_completion().is_some() {}
}

#[test]
fn a_group_whose_files_are_gone_says_so_and_the_others_serve() {
    let mut node = Node::new(CompletionOrder::Submission);
    let (lost, kept) = (node.topic("lost", "replicated"), node.topic("kept", "replicated"));
    for group in [lost, kept] {
        assert!(matches!(
            node.call(send(group, Identity::default(), &[b"x".to_vec()])),
            Reply::Sent { base_offset: 0, .. }
        ));
    }
    meddle(&mut node, StorageOp::RemoveGroup { group: directory(lost) });
    node.crash(Crash::KeepUnsynced);
    assert_eq!(node.read(kept, 0), [(0, b"x".to_vec())]);
    let refused = node.call(send(lost, Identity::default(), &[b"y".to_vec()]));
    assert!(
        matches!(&refused, Reply::Refused(refusal) if refusal.code == ErrorCode::TopicFull && refusal.reason.contains("missing")),
        "{refused:?}"
    );
    assert!(node.errors().iter().any(|text| text.contains(&directory(lost).to_string())), "{:?}", node.errors());
}

#[test]
fn a_damaged_group_serves_what_lies_before_and_takes_no_writes() {
    let mut node = Node::new(CompletionOrder::Submission);
    let group = node.topic("t", "replicated");
    for n in 0..3u8 {
        assert!(matches!(node.call(send(group, Identity::default(), &[vec![n; 10]])), Reply::Sent { .. }));
    }
    let file = FileName::Segment { group: directory(group), first_op: 1 };
    // A record of one message of 10 bytes has 192 + 256 + 48 + 10 bytes; this is in the payload of the third.
    meddle(
        &mut node,
        StorageOp::Write { file, position: 3 * 506 - 5, chunks: vec![bytes::Bytes::from_static(&[0xEE])] },
    );
    node.crash(Crash::KeepUnsynced);
    let request = Request::Poll {
        group,
        consumer: whippet_shard::Consumer::Single(0),
        strategy: whippet_shard::Strategy::First,
        count: 10,
        max_bytes: 1 << 20,
        auto_commit: false,
        identity: Identity::default(),
    };
    assert!(matches!(node.call(request), Reply::Polled(polled) if polled.count == 2));
    let refused = node.call(send(group, Identity::default(), &[b"y".to_vec()]));
    assert!(
        matches!(&refused, Reply::Refused(refusal) if refusal.reason.contains("damaged at byte 1012")),
        "{refused:?}"
    );
}

#[test]
fn a_deleted_group_leaves_no_files_and_its_number_is_not_used_again() {
    let mut node = Node::new(CompletionOrder::Submission);
    let group = node.topic("t", "replicated");
    assert!(matches!(node.call(send(group, Identity::default(), &[b"x".to_vec()])), Reply::Sent { .. }));
    let (stream, topic) = (Identifier::Name(name("s")), Identifier::Name(name("t")));
    node.command(Command::DeleteTopic { stream, topic });
    node.pump(usize::MAX);
    use whippet_storage::RecoverySource;
    assert_eq!(node.host.files(directory(group)).expect("readable"), []);
    let gone = node.call(send(group, Identity::default(), &[b"y".to_vec()]));
    assert!(matches!(&gone, Reply::Refused(refusal) if refusal.code == ErrorCode::PartitionNotFound), "{gone:?}");
    let again = node.topic("t", "replicated");
    assert_ne!((again.number, again.life), (group.number, group.life));
    assert!(again.number > group.number);
    assert_eq!(node.read(again, 0), []);
}

#[test]
fn a_full_disk_refuses_writes_with_a_retryable_code_and_recovers_by_itself() {
    let mut node = Node::new(CompletionOrder::Submission);
    let group = node.topic("t", "replicated");
    assert!(matches!(node.call(send(group, Identity::default(), &[vec![1; 1000]])), Reply::Sent { .. }));
    node.host.set_capacity(400_000);
    let mut sent = 1;
    let refusal = loop {
        match node.call(send(group, Identity::default(), &[vec![1; 20_000]])) {
            Reply::Sent { .. } => sent += 1,
            Reply::Refused(refusal) => break refusal,
            other => panic!("{other:?}"),
        }
        assert!(sent < 100, "the disk never filled up");
    };
    assert_eq!(refusal.code, ErrorCode::TransientNotAccepted);
    assert!(refusal.reason.contains("disk is full"), "{}", refusal.reason);
    assert_eq!(node.read(group, 0).len(), sent, "reads go on");
    node.host.set_capacity(100_000_000);
    // The first attempt after the disk was full may still be told so; the next one is not.
    let again = node.call(send(group, Identity::default(), &[vec![1; 20_000]]));
    if !matches!(again, Reply::Sent { .. }) {
        assert!(matches!(node.call(send(group, Identity::default(), &[vec![1; 20_000]])), Reply::Sent { .. }));
    }
    node.crash(Crash::KeepUnsynced);
    assert_eq!(node.read(group, 0).len(), sent + 1);
}

#[test]
fn a_write_is_readable_as_soon_as_it_is_acknowledged_and_not_before_it_is_committed() {
    let mut node = Node::new(CompletionOrder::Submission);
    let group = node.topic("t", "persisted");
    assert!(matches!(node.call(send(group, Identity::default(), &[b"first".to_vec()])), Reply::Sent { .. }));
    let ticket = node.ask(send(group, Identity::default(), &[b"second".to_vec()]));
    for completions in 1.. {
        node.pump(1);
        let acknowledged = node.replies.contains_key(&ticket);
        node.host.set_paused(true);
        // A poll on a paused disk can't be answered at once; ask the numbers instead, which come from committed state.
        let stats = node.call(Request::Stats { groups: vec![group] });
        node.host.set_paused(false);
        let Reply::Stats(stats) = stats else { panic!("{stats:?}") };
        assert_eq!(
            stats[0].map(|s| s.next_offset),
            Some(if acknowledged { 2 } else { 1 }),
            "after {completions} completions"
        );
        if acknowledged {
            break;
        }
        assert!(completions < 20, "never acknowledged");
    }
    assert_eq!(node.read(group, 1), [(1, b"second".to_vec())]);
}
