use crate::driver::{Log, create_stream, register, request};
use whippet_metadata::{Command, Done, Envelope, Preflight, Refusal, SessionView};
use whippet_protocol::ErrorCode;

const ANNA: u128 = 0xA;
const BEN: u128 = 0xB;

fn named(log: &Log, text: &str) -> bool {
    log.state.streams().any(|stream| stream.name.as_str() == text)
}

/// The client table says `expected` beforehand, and the log, when the record gets into it all the same, does no more.
fn refused(log: &mut Log, envelope: &Envelope, expected: Refusal) {
    assert_eq!(log.state.preflight(envelope), Preflight::Refuse(expected));
    let streams: Vec<_> = log.state.streams().cloned().collect();
    let session = log.state.session(envelope.client);
    let applied = log.apply(envelope);
    assert_eq!((applied.outcome, applied.refused), (Err(expected.code()), Some(expected)));
    assert_eq!((applied.changes, applied.evicted), (vec![], None));
    assert_eq!(log.state.streams().cloned().collect::<Vec<_>>(), streams);
    assert_eq!(log.state.session(envelope.client), session);
}

#[test]
fn the_session_number_is_the_op_of_the_register() {
    let mut log = Log::started();
    let op = log.next_op();
    assert_eq!(log.state.preflight(&register(ANNA)), Preflight::Execute);
    assert_eq!(log.apply(&register(ANNA)).outcome, Ok(Done::Registered { session: op }));
    assert_eq!(log.state.session(ANNA), Some(SessionView { session: op, user: 0, watermark: 0 }));
    assert_eq!(log.state.session(BEN), None);
}

#[test]
fn a_user_that_does_not_exist_gets_no_session() {
    let mut log = Log::started();
    let applied = log.apply(&Envelope { user: 3, ..register(ANNA) });
    assert_eq!((applied.outcome, applied.refused), (Err(ErrorCode::Unauthenticated), None));
    assert_eq!(log.state.session(ANNA), None);
}

#[test]
fn a_client_without_session_is_refused() {
    let mut log = Log::started();
    refused(&mut log, &request(ANNA, 1, 1, create_stream("a")), Refusal::NoSession);
    refused(&mut log, &request(ANNA, 1, 1, Command::Logout), Refusal::NoSession);
}

#[test]
fn the_server_itself_needs_no_session_and_gets_none() {
    let mut log = Log::started();
    log.ok(create_stream("a"));
    assert_eq!(log.state.sessions(), 0);
    refused(&mut log, &register(0), Refusal::NoSession);
    refused(&mut log, &request(0, 0, 0, Command::Logout), Refusal::NoSession);
}

#[test]
fn a_retry_gets_the_first_answer_and_changes_nothing() {
    let mut log = Log::started();
    let session = log.register(ANNA);
    let create = request(ANNA, session, 1, create_stream("a"));
    assert_eq!(log.state.preflight(&create), Preflight::Execute);
    let first = log.apply(&create);
    assert!(matches!(first.outcome, Ok(Done::StreamCreated { id: 0, .. })));
    assert_eq!(log.state.session(ANNA).unwrap().watermark, 1);

    assert_eq!(log.state.preflight(&create), Preflight::Replay(first.outcome.clone()));
    let again = log.apply(&create);
    assert_eq!((again.outcome, again.changes, again.refused), (first.outcome, vec![], None));
    assert_eq!(log.state.streams().len(), 1);
}

#[test]
fn a_retry_of_a_failed_request_fails_again() {
    let mut log = Log::started();
    let session = log.register(ANNA);
    let delete = request(ANNA, session, 1, Command::DeleteStream { stream: crate::driver::named("a") });
    assert_eq!(log.apply(&delete).outcome, Err(ErrorCode::StreamIdNotFound));
    log.ok(create_stream("a"));
    assert_eq!(log.state.preflight(&delete), Preflight::Replay(Err(ErrorCode::StreamIdNotFound)));
    assert_eq!(log.apply(&delete).outcome, Err(ErrorCode::StreamIdNotFound));
    assert!(named(&log, "a"), "the retry must not delete what came in between");
}

#[test]
fn numbers_may_be_left_out_but_not_come_later() {
    let mut log = Log::started();
    let session = log.register(ANNA);
    log.apply(&request(ANNA, session, 5, create_stream("a")));
    refused(&mut log, &request(ANNA, session, 3, create_stream("b")), Refusal::AlreadyApplied);
    refused(&mut log, &request(ANNA, session, 0, create_stream("b")), Refusal::AlreadyApplied);
    assert!(log.apply(&request(ANNA, session, 9, create_stream("b"))).outcome.is_ok());
    assert_eq!(log.state.session(ANNA).unwrap().watermark, 9);
}

#[test]
fn the_last_five_outcomes_are_remembered() {
    let mut log = Log::started();
    let session = log.register(ANNA);
    let create = |number: u64| request(ANNA, session, number, create_stream(&number.to_string()));
    for number in 1..=6 {
        assert!(log.apply(&create(number)).outcome.is_ok());
    }
    refused(&mut log, &create(1), Refusal::AlreadyApplied);
    for number in 2..=6 {
        assert!(matches!(log.state.preflight(&create(number)), Preflight::Replay(Ok(_))), "request {number}");
    }
}

#[test]
fn a_number_is_not_reused_for_another_request() {
    let mut log = Log::started();
    let session = log.register(ANNA);
    let create = request(ANNA, session, 1, create_stream("a"));
    log.apply(&create);
    let other = Envelope { checksum: 78, ..request(ANNA, session, 1, create_stream("b")) };
    refused(&mut log, &other, Refusal::Mismatch);
}

#[test]
fn a_session_ends_where_the_next_one_begins() {
    let mut log = Log::started();
    let first = log.register(ANNA);
    let create = request(ANNA, first, 1, create_stream("a"));
    let outcome = log.apply(&create).outcome;
    let second = log.register(ANNA);
    assert!(second > first);
    refused(&mut log, &create, Refusal::StaleSession);
    refused(&mut log, &request(ANNA, second + 1, 2, create_stream("b")), Refusal::SessionAhead);

    // Watermark and outcomes protect retries across the change.
    let retry = Envelope { session: second, ..create };
    assert_eq!(log.state.preflight(&retry), Preflight::Replay(outcome));
    assert_eq!(log.state.session(ANNA), Some(SessionView { session: second, user: 0, watermark: 1 }));
}

#[test]
fn a_client_id_belongs_to_its_first_user() {
    let mut log = Log::started();
    let session = log.register(ANNA);
    refused(&mut log, &Envelope { user: 1, ..register(ANNA) }, Refusal::ClientOwnedByOther);
    let foreign = Envelope { user: 1, ..request(ANNA, session, 1, create_stream("a")) };
    refused(&mut log, &foreign, Refusal::ClientOwnedByOther);
}

#[test]
fn logout_forgets_the_client() {
    let mut log = Log::started();
    let session = log.register(ANNA);
    log.apply(&request(ANNA, session, 1, create_stream("a")));
    assert_eq!(log.apply(&request(ANNA, session, 2, Command::Logout)).outcome, Ok(Done::Empty));
    assert_eq!((log.state.session(ANNA), log.state.sessions()), (None, 0));
    refused(&mut log, &request(ANNA, session, 3, create_stream("b")), Refusal::NoSession);
    log.register(ANNA);
    assert_eq!(log.state.session(ANNA).unwrap().watermark, 0);
}

#[test]
fn the_server_can_end_a_session_without_a_request_number() {
    let mut log = Log::started();
    let first = log.register(ANNA);
    log.apply(&request(ANNA, first, 1, create_stream("a")));
    let second = log.register(ANNA);
    // The connection of the first session is lost late: the second one lives on.
    refused(&mut log, &request(ANNA, first, 0, Command::Logout), Refusal::StaleSession);
    assert_eq!(log.apply(&request(ANNA, second, 0, Command::Logout)).outcome, Ok(Done::Empty));
    assert_eq!(log.state.session(ANNA), None);
}

#[test]
fn the_oldest_commit_makes_room() {
    let mut log = Log::with_client_capacity(3);
    let sessions: Vec<_> = [1, 2, 3].map(|client| log.register(client)).into();
    log.apply(&request(1, sessions[0], 1, create_stream("a")));
    log.register(2);

    // 3 registered after 1 and 2, but they have committed since.
    let applied = log.apply(&register(4));
    assert_eq!(applied.evicted, Some(3));
    refused(&mut log, &request(3, sessions[2], 1, create_stream("b")), Refusal::NoSession);
    assert_eq!(log.apply(&register(5)).evicted, Some(1));
    assert_eq!(log.apply(&register(3)).evicted, Some(2));
    assert_eq!(log.state.sessions(), 3);
}

#[test]
fn a_known_client_needs_no_room_and_a_retry_is_no_commit() {
    let mut log = Log::with_client_capacity(2);
    let first = log.register(1);
    let create = request(1, first, 1, create_stream("a"));
    log.apply(&create);
    log.register(2);
    assert_eq!(log.apply(&register(2)).evicted, None);
    log.apply(&create);
    assert_eq!(log.apply(&register(3)).evicted, Some(1), "a replay must not keep a session");
}

#[test]
fn a_refused_register_evicts_nobody() {
    let mut log = Log::with_client_capacity(1);
    log.register(1);
    let applied = log.apply(&Envelope { user: 9, ..register(2) });
    assert_eq!((applied.outcome, applied.evicted), (Err(ErrorCode::Unauthenticated), None));
    assert!(log.state.session(1).is_some());
}

#[test]
fn refusals_have_codes() {
    let codes = [
        (Refusal::NoSession, 40),
        (Refusal::StaleSession, 40),
        (Refusal::SessionAhead, 58),
        (Refusal::AlreadyApplied, 59),
        (Refusal::Mismatch, 59),
        (Refusal::ClientOwnedByOther, 101),
    ];
    for (refusal, code) in codes {
        assert_eq!(refusal.code().code(), code, "{refusal}");
    }
}
