use super::*;
use crate::entry::HEADER_SIZE;
use bytes::BytesMut;

const GROUP: GroupId = GroupId { number: 4, life: 9 };

fn replica(index: u8, count: u8) -> Replica {
    let config = ReplicaConfig { cluster: ClusterId(1), group: GROUP, replica: ReplicaId(index), replica_count: count };
    Replica::new(config, DurableState::empty())
}

fn draft(replica: &Replica, body: &[u8]) -> Draft {
    let mut bytes = BytesMut::zeroed(HEADER_SIZE);
    bytes.extend_from_slice(body);
    Draft {
        kind: 1,
        client: 0,
        session: 0,
        request: 0,
        user: 0,
        body_hash: 0,
        timestamp: replica.head_timestamp() + 1,
        base_offset: 0,
        count: 0,
        generation: 0,
        segment: 1,
        position: 0,
        bytes,
    }
}

fn effects(replica: &mut Replica) -> Vec<Effect> {
    std::iter::from_fn(|| replica.poll_effect()).collect()
}

fn messages(effects: &[Effect]) -> Vec<Message> {
    effects
        .iter()
        .filter_map(|effect| if let Effect::Send(_, message) = effect { Some(message.clone()) } else { None })
        .collect()
}

fn applied(effects: &[Effect]) -> Vec<u64> {
    effects
        .iter()
        .filter_map(|effect| if let Effect::Apply(entry) = effect { Some(entry.op().0) } else { None })
        .collect()
}

#[test]
fn a_group_of_one_commits_what_it_has_made_durable_and_nothing_earlier() {
    let mut solo = replica(0, 1);
    let op = solo.propose(draft(&solo, b"a")).expect("primary");
    solo.propose(draft(&solo, b"b")).expect("primary");
    let first = effects(&mut solo);
    assert_eq!(first.len(), 2);
    assert!(first.iter().all(|effect| matches!(effect, Effect::Write(_))));
    assert_eq!(solo.commit_min(), OpNumber::ZERO);
    solo.handle_durable(op);
    assert_eq!(applied(&effects(&mut solo)), [1]);
    solo.handle_durable(OpNumber(2));
    assert_eq!(applied(&effects(&mut solo)), [2]);
    assert!(solo.is_quiet());
}

#[test]
fn a_group_of_one_wakes_in_a_new_view() {
    let config = ReplicaConfig { cluster: ClusterId(1), group: GROUP, replica: ReplicaId(0), replica_count: 1 };
    let state = DurableState {
        view: ViewNumber(3),
        log_view: ViewNumber(3),
        head: OpNumber(5),
        head_id: EntryId(7),
        head_timestamp: 100,
        commit: OpNumber(5),
    };
    let solo = Replica::new(config, state);
    assert_eq!((solo.view(), solo.status(), solo.is_primary()), (ViewNumber(4), Status::Normal, true));
}

#[test]
fn a_restarted_member_of_three_neither_leads_nor_acknowledges() {
    let config = ReplicaConfig { cluster: ClusterId(1), group: GROUP, replica: ReplicaId(0), replica_count: 3 };
    let mut state = DurableState::empty();
    state.head = OpNumber(1);
    state.head_id = EntryId(7);
    let mut restarted = Replica::new(config, state);
    assert!(!restarted.is_primary());
    assert_eq!(restarted.propose(draft(&restarted, b"x")), Err(NotAccepted::NotNormal));
    restarted.handle_durable(OpNumber(1));
    assert_eq!(effects(&mut restarted), []);
}

/// Three replicas: the entry commits with the first backup's acknowledgement, and the others learn of it.
#[test]
fn three_replicas_commit_with_two() {
    let (mut a, mut b, mut c) = (replica(0, 3), replica(1, 3), replica(2, 3));
    a.propose(draft(&a, b"x")).expect("a leads view 0");
    let sent = messages(&effects(&mut a));
    assert_eq!(sent.len(), 1);
    a.handle_durable(OpNumber(1));
    assert_eq!(applied(&effects(&mut a)), [], "one holder is no quorum");

    b.handle_message(sent[0].clone()).expect("prepare");
    assert!(messages(&effects(&mut b)).is_empty(), "no acknowledgement before it is durable");
    b.handle_durable(OpNumber(1));
    let acks = messages(&effects(&mut b));
    assert_eq!(acks.len(), 1);
    a.handle_message(acks[0].clone()).expect("prepare ok");
    let after = effects(&mut a);
    assert_eq!(applied(&after), [1]);
    let commit = messages(&after);
    b.handle_message(commit[0].clone()).expect("commit");
    assert_eq!(applied(&effects(&mut b)), [1]);

    assert_eq!(c.handle_message(commit[0].clone()), Ok(()), "commit ahead of the head is remembered");
    c.handle_message(sent[0].clone()).expect("late prepare");
    assert_eq!(applied(&effects(&mut c)), [1]);
}

#[test]
fn an_acknowledgement_for_another_entry_is_not_counted() {
    let mut a = replica(0, 3);
    a.propose(draft(&a, b"x")).expect("a leads");
    a.handle_durable(OpNumber(1));
    effects(&mut a);
    let envelope =
        Envelope { cluster: ClusterId(1), group: GROUP, view: ViewNumber(0), from: ReplicaId(1), config_epoch: 0 };
    let wrong = Message { envelope, body: MessageBody::PrepareOk { op: OpNumber(1), id: EntryId(99) } };
    assert_eq!(a.handle_message(wrong), Err(Ignored::Identity));
    assert_eq!(a.commit_min(), OpNumber::ZERO);
}

#[test]
fn foreign_and_misplaced_messages_are_ignored_with_a_reason() {
    let (mut a, mut b) = (replica(0, 3), replica(1, 3));
    a.propose(draft(&a, b"x")).expect("a leads");
    a.propose(draft(&a, b"y")).expect("a leads");
    let sent = messages(&effects(&mut a));
    let with = |change: &dyn Fn(&mut Envelope)| {
        let mut message = sent[0].clone();
        change(&mut message.envelope);
        message
    };
    assert_eq!(b.handle_message(with(&|e| e.cluster = ClusterId(2))), Err(Ignored::Foreign));
    assert_eq!(b.handle_message(with(&|e| e.group.life = 8)), Err(Ignored::Foreign));
    assert_eq!(b.handle_message(with(&|e| e.from = ReplicaId(7))), Err(Ignored::Sender));
    assert_eq!(b.handle_message(with(&|e| e.from = ReplicaId(1))), Err(Ignored::Sender));
    assert_eq!(b.handle_message(with(&|e| e.from = ReplicaId(2))), Err(Ignored::Role));
    assert_eq!(b.handle_message(with(&|e| e.view = ViewNumber(1))), Err(Ignored::NewerView));
    assert_eq!(b.handle_message(sent[1].clone()), Err(Ignored::Gap));
    assert_eq!(b.handle_message(sent[0].clone()), Ok(()));
    assert_eq!(b.handle_message(sent[0].clone()), Err(Ignored::Duplicate));
    assert_eq!(b.propose(draft(&b, b"z")), Err(NotAccepted::NotPrimary { primary: ReplicaId(0), view: ViewNumber(0) }));
}

#[test]
fn the_pipeline_is_bounded() {
    let mut solo = replica(0, 1);
    for _ in 0..PIPELINE_MAX {
        solo.propose(draft(&solo, b"")).expect("room");
    }
    assert_eq!(solo.propose(draft(&solo, b"")), Err(NotAccepted::PipelineFull { in_flight: PIPELINE_MAX }));
    solo.handle_durable(OpNumber(1));
    solo.propose(draft(&solo, b"")).expect("room again");
}
