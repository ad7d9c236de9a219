use super::*;
use crate::entry::HEADER_SIZE;
use crate::message::StartView;
use bytes::BytesMut;

const GROUP: GroupId = GroupId { number: 4, life: 9 };

fn replica(index: u8, count: u8) -> Replica {
    let mut replica = Replica::new(config(index, count), DurableState::empty(), 0);
    for effect in effects(&mut replica) {
        let Effect::Persist(record) = effect else { panic!("{effect:?}") };
        replica.handle_persisted(&record);
    }
    assert_eq!(effects(&mut replica), []);
    replica
}

fn config(index: u8, count: u8) -> ReplicaConfig {
    ReplicaConfig {
        cluster: ClusterId(1),
        group: GROUP,
        replica: ReplicaId(index),
        replica_count: count,
        incarnation: u128::from(index) + 100,
        pipeline: PIPELINE_MAX,
        mutant: Mutant::None,
    }
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
    assert_eq!(solo.applied(), OpNumber::ZERO);
    solo.handle_durable(op);
    assert_eq!(applied(&effects(&mut solo)), [1]);
    solo.handle_durable(OpNumber(2));
    assert_eq!(applied(&effects(&mut solo)), [2]);
    assert!(solo.is_quiet());
}

#[test]
fn a_group_of_one_never_leaves_its_view_however_long_its_disk_takes() {
    let mut solo = replica(0, 1);
    solo.propose(draft(&solo, b"a")).expect("primary");
    effects(&mut solo);
    assert_eq!(solo.deadline_ns(), None);
    for seconds in 1..100 {
        solo.handle_tick(seconds * 1_000_000_000);
        solo.suspect(seconds * 1_000_000_000);
    }
    assert_eq!((solo.view(), solo.is_primary()), (ViewNumber(0), true));
    assert_eq!(effects(&mut solo), []);
}

#[test]
fn a_group_of_one_wakes_in_a_new_view() {
    let state = DurableState {
        view: ViewNumber(3),
        applied: OpNumber(5),
        applied_id: EntryId(7),
        applied_timestamp: 100,
        ..DurableState::empty()
    };
    let solo = Replica::new(config(0, 1), state, 0);
    assert_eq!((solo.view(), solo.status(), solo.is_primary()), (ViewNumber(4), Status::Normal, true));
}

fn promised(view: u32, log_view: u32) -> VoteRecord {
    VoteRecord {
        group: GROUP,
        view: ViewNumber(view),
        log_view: ViewNumber(log_view),
        head: OpNumber(1),
        head_id: EntryId(7),
        commit: OpNumber(0),
        unknown_to: OpNumber(1),
        floor: OpNumber(1),
        memory_lost: false,
    }
}

#[test]
fn a_restarted_member_of_three_neither_leads_nor_acknowledges() {
    let state = DurableState {
        applied: OpNumber(1),
        applied_id: EntryId(7),
        vote: Some(promised(0, 0)),
        ..DurableState::empty()
    };
    let mut restarted = Replica::new(config(0, 3), state, 0);
    assert!(!restarted.is_primary());
    assert_eq!(restarted.propose(draft(&restarted, b"x")), Err(NotAccepted::NotNormal));
    restarted.handle_durable(OpNumber(1));
    let sent = messages(&effects(&mut restarted));
    assert!(matches!(sent.as_slice(), [Message { body: MessageBody::Probe { incarnation: 100 }, .. }]), "{sent:?}");
}

#[test]
fn a_replica_without_memory_votes_for_nothing_until_it_is_answered() {
    let state = DurableState { vote: Some(promised(1, 1)), memory_lost: true, ..DurableState::empty() };
    let mut mute = Replica::new(config(2, 3), state, 0);
    assert_eq!(mute.status(), Status::Recovering);
    let first = effects(&mut mute);
    assert!(first.iter().any(|effect| matches!(effect, Effect::Persist(record) if record.memory_lost)), "{first:?}");
    let envelope = |view| Envelope {
        cluster: ClusterId(1),
        group: GROUP,
        view: ViewNumber(view),
        from: ReplicaId(0),
        config_epoch: 0,
    };
    for target in 2..5 {
        for from in [0, 1] {
            let mut envelope = envelope(1);
            envelope.from = ReplicaId(from);
            let _ =
                mute.handle_message(Message { envelope, body: MessageBody::Suspect { target: ViewNumber(target) } }, 1);
        }
    }
    assert!(messages(&effects(&mut mute)).iter().all(|m| matches!(m.body, MessageBody::Probe { .. })));
    let start = |answers| {
        MessageBody::StartView(StartView {
            head: OpNumber(0),
            head_id: EntryId::NONE,
            commit: OpNumber(0),
            suffix: Suffix { floor: OpNumber(0), ids: Vec::new() },
            answers,
        })
    };
    // View 1 is led by replica 1.
    let mut from_primary = envelope(1);
    from_primary.from = ReplicaId(1);
    let unasked = Message { envelope: from_primary, body: start(None) };
    assert_eq!(mute.handle_message(unasked, 2), Err(Ignored::Status));
    let other = Message { envelope: from_primary, body: start(Some(101)) };
    assert_eq!(mute.handle_message(other, 2), Err(Ignored::Status));
    let answer = Message { envelope: from_primary, body: start(Some(102)) };
    assert_eq!(mute.handle_message(answer, 3), Ok(()));
    let persists: Vec<VoteRecord> = effects(&mut mute)
        .into_iter()
        .filter_map(|effect| if let Effect::Persist(record) = effect { Some(record) } else { None })
        .collect();
    assert_eq!(mute.status(), Status::Recovering, "not before the promise is durable again");
    assert_eq!(persists.len(), 1);
    assert!(!persists[0].memory_lost);
    mute.handle_persisted(&persists[0]);
    assert_eq!(mute.status(), Status::Normal);
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

    b.handle_message(sent[0].clone(), 0).expect("prepare");
    assert!(messages(&effects(&mut b)).is_empty(), "no acknowledgement before it is durable");
    b.handle_durable(OpNumber(1));
    let acks = messages(&effects(&mut b));
    assert_eq!(acks.len(), 1);
    a.handle_message(acks[0].clone(), 0).expect("prepare ok");
    assert_eq!(applied(&effects(&mut a)), [1]);
    a.handle_tick(10_000_000);
    let commit = messages(&effects(&mut a));
    assert_eq!(commit.len(), 2, "one a backup");
    b.handle_message(commit[0].clone(), 0).expect("commit");
    assert_eq!(applied(&effects(&mut b)), [1]);

    assert_eq!(c.handle_message(commit[1].clone(), 0), Err(Ignored::Gap), "it asks for what it lacks");
    assert!(matches!(
        messages(&effects(&mut c))[0].body,
        MessageBody::Fetch { from: OpNumber(1), to: OpNumber(1), .. }
    ));
    c.handle_message(sent[0].clone(), 0).expect("late prepare");
    assert_eq!(applied(&effects(&mut c)), [], "committed, and not durable here");
    c.handle_durable(OpNumber(1));
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
    let wrong =
        Message { envelope, body: MessageBody::PrepareOk { op: OpNumber(1), id: EntryId(99), applied: OpNumber(0) } };
    assert_eq!(a.handle_message(wrong, 0), Err(Ignored::Identity));
    assert_eq!(a.applied(), OpNumber::ZERO);
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
    assert_eq!(b.handle_message(with(&|e| e.cluster = ClusterId(2)), 0), Err(Ignored::Foreign));
    assert_eq!(b.handle_message(with(&|e| e.group.life = 8), 0), Err(Ignored::Foreign));
    assert_eq!(b.handle_message(with(&|e| e.from = ReplicaId(7)), 0), Err(Ignored::Sender));
    assert_eq!(b.handle_message(with(&|e| e.from = ReplicaId(1)), 0), Err(Ignored::Sender));
    assert_eq!(b.handle_message(with(&|e| e.from = ReplicaId(2)), 0), Err(Ignored::Role));
    assert_eq!(b.handle_message(with(&|e| e.view = ViewNumber(1)), 0), Err(Ignored::NewerView));
    assert_eq!(b.handle_message(sent[1].clone(), 0), Err(Ignored::Gap));
    assert_eq!(b.handle_message(sent[0].clone(), 0), Ok(()));
    assert_eq!(b.handle_message(sent[0].clone(), 0), Err(Ignored::Duplicate));
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

/// With [`Mutant::OneSuspicionIsEnough`] this fails.
#[test]
fn one_suspicion_moves_nobody_and_a_quorum_moves_everybody() {
    let mut a = replica(0, 3);
    let envelope = |from| Envelope {
        cluster: ClusterId(1),
        group: GROUP,
        view: ViewNumber(0),
        from: ReplicaId(from),
        config_epoch: 0,
    };
    let suspect = |from| Message { envelope: envelope(from), body: MessageBody::Suspect { target: ViewNumber(1) } };
    a.handle_message(suspect(2), 1).expect("noted");
    assert_eq!((a.view(), a.status()), (ViewNumber(0), Status::Normal), "one of three");
    assert_eq!(effects(&mut a), []);
    a.handle_message(suspect(1), 2).expect("noted");
    assert_eq!((a.view(), a.status()), (ViewNumber(1), Status::ViewChange));
    let first = effects(&mut a);
    assert!(first.iter().any(|effect| matches!(effect, Effect::Persist(record) if record.view == ViewNumber(1))));
    assert!(messages(&first).is_empty(), "no vote before the promise is durable");
}

/// REC-1 and STALE-2: an answer to an earlier start of this process proves nothing. With [`Mutant::AnyAnswerRecovers`] this
/// fails.
#[test]
fn an_answer_to_an_earlier_incarnation_does_not_end_recovery() {
    let state = DurableState { vote: Some(promised(1, 1)), memory_lost: true, ..DurableState::empty() };
    let mut again = Replica::new(ReplicaConfig { incarnation: 3, ..config(2, 3) }, state, 0);
    effects(&mut again);
    for earlier in [1, 2] {
        let start = StartView {
            head: OpNumber(0),
            head_id: EntryId::NONE,
            commit: OpNumber(0),
            suffix: Suffix { floor: OpNumber(0), ids: Vec::new() },
            answers: Some(earlier),
        };
        let envelope =
            Envelope { cluster: ClusterId(1), group: GROUP, view: ViewNumber(1), from: ReplicaId(1), config_epoch: 0 };
        assert_eq!(
            again.handle_message(Message { envelope, body: MessageBody::StartView(start) }, 1),
            Err(Ignored::Status)
        );
    }
    assert_eq!(again.status(), Status::Recovering);
}

/// An acknowledgement of a view that is over does not count in the next one. With [`Mutant::AckInOlderView`] this fails.
#[test]
fn an_acknowledgement_of_an_older_view_is_not_counted() {
    // Replica 1 leads view 1 with an entry of its own that nobody else holds.
    let state = DurableState { vote: Some(promised(0, 0)), ..DurableState::empty() };
    let mut leader = Replica::new(config(1, 3), state, 0);
    effects(&mut leader);
    leader.suspect(1);
    let envelope = |view| Envelope {
        cluster: ClusterId(1),
        group: GROUP,
        view: ViewNumber(view),
        from: ReplicaId(2),
        config_epoch: 0,
    };
    let suspect = MessageBody::Suspect { target: ViewNumber(1) };
    leader.handle_message(Message { envelope: envelope(0), body: suspect }, 2).expect("a quorum");
    let vote = Vote {
        log_view: ViewNumber(0),
        head: OpNumber(0),
        head_id: EntryId::NONE,
        unknown_to: OpNumber(0),
        commit: OpNumber(0),
        suffix: Suffix { floor: OpNumber(0), ids: Vec::new() },
    };
    leader.handle_message(Message { envelope: envelope(1), body: MessageBody::Vote(vote) }, 3).expect("counted");
    for _ in 0..2 {
        for effect in effects(&mut leader) {
            if let Effect::Persist(record) = effect {
                leader.handle_persisted(&record);
            }
        }
    }
    assert!(leader.is_primary());
    let op = leader.propose(draft(&leader, b"x")).expect("it leads");
    effects(&mut leader);
    leader.handle_durable(op);
    let ack = MessageBody::PrepareOk { op, id: leader.head_id(), applied: OpNumber(0) };
    let late = leader.handle_message(Message { envelope: envelope(0), body: ack.clone() }, 4);
    assert_eq!((late, leader.applied()), (Err(Ignored::OlderView), OpNumber(0)));
    leader.handle_message(Message { envelope: envelope(1), body: ack }, 5).expect("of this view");
    assert_eq!(leader.applied(), op);
}

#[test]
fn a_replica_whose_records_are_damaged_says_nothing_and_takes_nothing() {
    for vote in [None, Some(promised(1, 1))] {
        let state = DurableState { vote, votes_lost: true, ..DurableState::empty() };
        let mut mute = Replica::new(config(2, 3), state, 0);
        assert_eq!((mute.status(), effects(&mut mute), mute.deadline_ns()), (Status::Recovering, Vec::new(), None));
        let start = StartView {
            head: OpNumber(0),
            head_id: EntryId::NONE,
            commit: OpNumber(0),
            suffix: Suffix { floor: OpNumber(0), ids: Vec::new() },
            answers: Some(102),
        };
        let envelope =
            Envelope { cluster: ClusterId(1), group: GROUP, view: ViewNumber(4), from: ReplicaId(1), config_epoch: 0 };
        for body in [
            MessageBody::StartView(start),
            MessageBody::Suspect { target: ViewNumber(5) },
            MessageBody::Fetch { from: OpNumber(1), to: OpNumber(1), to_id: EntryId::NONE },
        ] {
            assert_eq!(mute.handle_message(Message { envelope, body }, 1), Err(Ignored::Status));
        }
        mute.suspect(2);
        mute.handle_tick(5_000_000_000);
        assert_eq!((mute.status(), effects(&mut mute)), (Status::Recovering, Vec::new()));
    }
}
