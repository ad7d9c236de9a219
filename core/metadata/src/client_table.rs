//! The client table: who has a session, which of its requests were committed, and what they were answered.
//!
//! Replicated state, changed by commits alone: a request that was only proposed leaves no trace here. It is what makes a
//! retry harmless, on whichever replica it lands. Losing an entry is never silent: its client is refused from then on.

use crate::command::{Command, Done, Envelope, Outcome};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use whippet_protocol::ErrorCode;

/// Largest number of sessions of a cluster. When there is no room, the session with the oldest commit makes room.
pub const CLIENTS_MAX: u32 = 8192;
/// Outcomes that are remembered of each client.
pub const OUTCOMES_KEPT: usize = 5;
/// Bound of the memory of all remembered outcomes: an outcome counts one, and one more for each partition that it names.
/// Beyond it the oldest outcomes are forgotten, and their retries refused.
const OUTCOME_UNITS_MAX: u64 = 1 << 20;

// Outcomes that name no partition are never forgotten for others' sake.
const _: () = assert!(CLIENTS_MAX as u64 * OUTCOMES_KEPT as u64 <= OUTCOME_UNITS_MAX / 2);

/// What to do with a request, as far as the client table knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Preflight {
    /// It is new: propose it.
    Execute,
    /// It was committed before, and this was the answer.
    Replay(Outcome),
    /// It must not be executed.
    Refuse(Refusal),
}

/// Why a request must not be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The client has no session: it never registered, logged out or was evicted.
    #[error("the client has no session and must register")]
    NoSession,
    /// The session was replaced by a later one of the same client.
    #[error("the session was replaced by a later one of the same client")]
    StaleSession,
    /// The session is one that this state does not know yet.
    #[error("the session is ahead of what this node has applied")]
    SessionAhead,
    /// The request was committed before, but its outcome is no longer remembered.
    #[error("the request was applied before and its reply is gone")]
    AlreadyApplied,
    /// The request's number was used before, for a request with another body.
    #[error("the request number was used before, for another request")]
    Mismatch,
    /// The client id belongs to another user.
    #[error("the client id belongs to another user")]
    ClientOwnedByOther,
}

impl Refusal {
    /// The code of the protocol for front ends that have no better word.
    pub const fn code(self) -> ErrorCode {
        match self {
            Refusal::NoSession | Refusal::StaleSession => ErrorCode::Unauthenticated,
            Refusal::SessionAhead => ErrorCode::TransientNotAccepted,
            Refusal::AlreadyApplied | Refusal::Mismatch => ErrorCode::RequestAlreadyApplied,
            Refusal::ClientOwnedByOther => ErrorCode::InvalidClientId,
        }
    }
}

/// What others may know of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionView {
    /// Its number: the op that opened it.
    pub session: u64,
    /// Its user.
    pub user: u32,
    /// The highest committed request number, 0 for none.
    pub watermark: u64,
}

/// See the page of this module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ClientTable {
    capacity: u32,
    clients: BTreeMap<u128, Client>,
    /// Clients by the op of their last commit: the first is the next to be evicted.
    #[serde(skip)]
    by_last_commit: BTreeMap<u64, u128>,
    /// Clients by the op of each remembered outcome: the first is the next to be forgotten.
    #[serde(skip)]
    by_outcome: BTreeMap<u64, u128>,
    /// Sum of the units of all remembered outcomes.
    #[serde(skip)]
    units: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Client {
    /// Op of the last `Register`, which is the session number.
    session: u64,
    user: u32,
    /// Highest committed request number, 0 for none.
    watermark: u64,
    /// Op of the last commit that counted, `Register` included.
    last_commit: u64,
    /// The last outcomes, by ascending request number and op.
    outcomes: VecDeque<Remembered>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Remembered {
    request: u64,
    checksum: u64,
    op: u64,
    #[serde(with = "stored_outcome")]
    outcome: Outcome,
}

impl Remembered {
    fn units(&self) -> u64 {
        match &self.outcome {
            Ok(Done::TopicCreated { topic, .. }) => 1 + topic.partitions.len() as u64,
            Ok(Done::Purged { groups, .. }) => 1 + groups.len() as u64,
            _ => 1,
        }
    }
}

impl ClientTable {
    pub(crate) fn new(capacity: u32) -> Self {
        assert!(
            (1..=CLIENTS_MAX).contains(&capacity),
            "a client table holds 1 to {CLIENTS_MAX} clients, not {capacity}"
        );
        Self {
            capacity,
            clients: BTreeMap::new(),
            by_last_commit: BTreeMap::new(),
            by_outcome: BTreeMap::new(),
            units: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.clients.len()
    }

    pub(crate) fn session(&self, client: u128) -> Option<SessionView> {
        let client = self.clients.get(&client)?;
        Some(SessionView { session: client.session, user: client.user, watermark: client.watermark })
    }

    pub(crate) fn preflight(&self, envelope: &Envelope) -> Preflight {
        if envelope.client == 0 {
            return match envelope.command {
                // The server itself has no session to open or end.
                Command::Register | Command::Logout => Preflight::Refuse(Refusal::NoSession),
                _ => Preflight::Execute,
            };
        }
        let client = match self.clients.get(&envelope.client) {
            Some(client) => client,
            None if envelope.command == Command::Register => return Preflight::Execute,
            None => return Preflight::Refuse(Refusal::NoSession),
        };
        if client.user != envelope.user {
            return Preflight::Refuse(Refusal::ClientOwnedByOther);
        }
        if envelope.command == Command::Register {
            return Preflight::Execute;
        }
        match envelope.session.cmp(&client.session) {
            std::cmp::Ordering::Less => return Preflight::Refuse(Refusal::StaleSession),
            std::cmp::Ordering::Greater => return Preflight::Refuse(Refusal::SessionAhead),
            std::cmp::Ordering::Equal => {}
        }
        // A server that ends the session of a lost connection does not know the next request number.
        let numberless_logout = envelope.command == Command::Logout && envelope.request == 0;
        if envelope.request > client.watermark || numberless_logout {
            return Preflight::Execute;
        }
        match client.outcomes.iter().find(|remembered| remembered.request == envelope.request) {
            None => Preflight::Refuse(Refusal::AlreadyApplied),
            Some(remembered) if remembered.checksum != envelope.checksum => Preflight::Refuse(Refusal::Mismatch),
            Some(remembered) => Preflight::Replay(remembered.outcome.clone()),
        }
    }

    /// Opens session `op` of a client that `preflight` let through. Requests and outcomes of an earlier session of the
    /// same client stay known. Returns the client that had to make room.
    pub(crate) fn register(&mut self, client: u128, user: u32, op: u64) -> Option<u128> {
        if let Some(known) = self.clients.get_mut(&client) {
            assert_eq!(known.user, user, "preflight refuses the client ids of other users");
            known.session = op;
            self.touch(client, op);
            return None;
        }
        let evicted = if self.clients.len() >= self.capacity as usize { self.evict() } else { None };
        let fresh = Client { session: op, user, watermark: 0, last_commit: op, outcomes: VecDeque::new() };
        self.clients.insert(client, fresh);
        self.by_last_commit.insert(op, client);
        evicted
    }

    /// Notes the outcome of a request that `preflight` let through.
    pub(crate) fn remember(&mut self, envelope: &Envelope, op: u64, outcome: Outcome) {
        let remembered = Remembered { request: envelope.request, checksum: envelope.checksum, op, outcome };
        self.units += remembered.units();
        self.by_outcome.insert(op, envelope.client);
        self.touch(envelope.client, op);

        let client = self.clients.get_mut(&envelope.client).expect("preflight refuses clients without session");
        assert!(envelope.request > client.watermark, "preflight refuses or replays old requests");
        client.watermark = envelope.request;
        client.outcomes.push_back(remembered);
        if client.outcomes.len() > OUTCOMES_KEPT {
            self.forget_oldest_of(envelope.client);
        }
        while self.units > OUTCOME_UNITS_MAX && self.by_outcome.len() > 1 {
            let (_, &client) = self.by_outcome.first_key_value().expect("more than one");
            self.forget_oldest_of(client);
        }
    }

    /// Ends the session of a client, with all that is known of it.
    pub(crate) fn remove(&mut self, client: u128) {
        let Some(gone) = self.clients.remove(&client) else { return };
        self.by_last_commit.remove(&gone.last_commit);
        for remembered in &gone.outcomes {
            self.by_outcome.remove(&remembered.op);
            self.units -= remembered.units();
        }
    }

    fn touch(&mut self, client: u128, op: u64) {
        let known = self.clients.get_mut(&client).expect("preflight refuses clients without session");
        self.by_last_commit.remove(&known.last_commit);
        known.last_commit = op;
        self.by_last_commit.insert(op, client);
    }

    fn evict(&mut self) -> Option<u128> {
        let (_, &victim) = self.by_last_commit.first_key_value()?;
        self.remove(victim);
        Some(victim)
    }

    fn forget_oldest_of(&mut self, client: u128) {
        let oldest = self.clients.get_mut(&client).and_then(|client| client.outcomes.pop_front());
        let oldest = oldest.expect("the index names clients that have outcomes");
        self.by_outcome.remove(&oldest.op);
        self.units -= oldest.units();
    }
}

/// A stored table, before its consistency is known.
#[derive(Deserialize)]
pub(crate) struct ClientTableRecord {
    capacity: u32,
    clients: BTreeMap<u128, Client>,
}

impl ClientTableRecord {
    /// The table, or what is wrong with it. `applied` is the op of the state that it belongs to.
    pub(crate) fn check(self, applied: u64) -> Result<ClientTable, &'static str> {
        if !(1..=CLIENTS_MAX).contains(&self.capacity) {
            return Err("the capacity of the client table is out of range");
        }
        if self.clients.len() > self.capacity as usize {
            return Err("there are more clients than the table may hold");
        }
        let mut table = ClientTable::new(self.capacity);
        for (&id, client) in &self.clients {
            if id == 0 || client.session == 0 || client.session > client.last_commit || client.last_commit > applied {
                return Err("the ops of a client are out of order");
            }
            if table.by_last_commit.insert(client.last_commit, id).is_some() {
                return Err("two clients claim the same commit");
            }
            if client.outcomes.len() > OUTCOMES_KEPT {
                return Err("a client has too many outcomes");
            }
            let (mut request, mut op) = (0, 0);
            for remembered in &client.outcomes {
                if remembered.request <= request || remembered.op <= op {
                    return Err("the outcomes of a client are out of order");
                }
                (request, op) = (remembered.request, remembered.op);
                if table.by_outcome.insert(op, id).is_some() {
                    return Err("two outcomes claim the same op");
                }
                table.units += remembered.units();
            }
            if request > client.watermark || op > client.last_commit {
                return Err("a client has outcomes above its watermark");
            }
        }
        table.clients = self.clients;
        Ok(table)
    }
}

/// Error codes are stored as the numbers that the protocol fixes.
mod stored_outcome {
    use super::{Done, ErrorCode, Outcome};
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    #[derive(Serialize)]
    enum Borrowed<'a> {
        Done(&'a Done),
        Failed(u32),
    }

    #[derive(Deserialize)]
    enum Owned {
        Done(Done),
        Failed(u32),
    }

    pub(super) fn serialize<S: Serializer>(outcome: &Outcome, serializer: S) -> Result<S::Ok, S::Error> {
        match outcome {
            Ok(done) => Borrowed::Done(done),
            Err(code) => Borrowed::Failed(code.code()),
        }
        .serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Outcome, D::Error> {
        match Owned::deserialize(deserializer)? {
            Owned::Done(done) => Ok(Ok(done)),
            Owned::Failed(code) => match ErrorCode::from_code(code) {
                Some(code) => Ok(Err(code)),
                None => Err(D::Error::custom("unknown error code")),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::PartitionGroup;

    fn request(client: u128, session: u64, request: u64) -> Envelope {
        let name = whippet_protocol::Name::new("s").unwrap();
        Envelope { client, session, request, checksum: 7, user: 0, command: Command::CreateStream { name } }
    }

    fn purged(groups: usize) -> Outcome {
        Ok(Done::Purged { groups: vec![PartitionGroup { number: 1, life: 1 }; groups], intent: 1 })
    }

    #[test]
    fn large_outcomes_are_forgotten_oldest_first_and_never_the_newest() {
        let mut table = ClientTable::new(4);
        table.register(1, 0, 1);
        table.register(2, 0, 2);
        let third = OUTCOME_UNITS_MAX as usize / 3;
        table.remember(&request(1, 1, 1), 3, purged(third));
        table.remember(&request(2, 2, 1), 4, purged(third));
        assert!(matches!(table.preflight(&request(1, 1, 1)), Preflight::Replay(_)));

        table.remember(&request(2, 2, 2), 5, purged(third));
        assert_eq!(table.preflight(&request(1, 1, 1)), Preflight::Refuse(Refusal::AlreadyApplied));
        assert!(matches!(table.preflight(&request(2, 2, 1)), Preflight::Replay(_)));

        table.remember(&request(1, 1, 2), 6, purged(2 * OUTCOME_UNITS_MAX as usize));
        assert_eq!(table.by_outcome.len(), 1);
        assert!(matches!(table.preflight(&request(1, 1, 2)), Preflight::Replay(_)));
        table.remove(1);
        table.remove(2);
        assert_eq!(table, ClientTable::new(4));
    }

    #[test]
    fn indexes_follow_from_what_is_stored() {
        let mut table = ClientTable::new(3);
        for (op, client) in [(1, 5), (2, 6), (3, 7), (4, 8)] {
            table.register(client, 0, op);
        }
        table.remember(&request(6, 2, 3), 5, Err(ErrorCode::StreamIdNotFound));
        table.remember(&request(6, 2, 4), 6, purged(2));
        table.remember(&request(8, 4, 1), 7, Ok(Done::Empty));
        let record = ClientTableRecord { capacity: table.capacity, clients: table.clients.clone() };
        assert_eq!(record.check(7).unwrap(), table);
        let record = ClientTableRecord { capacity: table.capacity, clients: table.clients.clone() };
        assert_eq!(record.check(6).unwrap_err(), "the ops of a client are out of order");
    }

    #[test]
    fn a_table_that_contradicts_itself_is_refused() {
        let client = |session, last_commit, outcomes: &[(u64, u64)]| {
            let remembered = |&(request, op)| Remembered { request, checksum: 0, op, outcome: Ok(Done::Empty) };
            Client { session, user: 0, watermark: 9, last_commit, outcomes: outcomes.iter().map(remembered).collect() }
        };
        let check = |capacity, clients: &[(u128, Client)]| {
            ClientTableRecord { capacity, clients: clients.iter().cloned().collect() }.check(20).map(|_| ())
        };
        let good = client(1, 20, &[(2, 5), (9, 20)]);
        assert_eq!(check(2, &[(1, good.clone()), (2, client(3, 3, &[]))]), Ok(()));
        let six = [(1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7)];
        type Case<'a> = (u32, &'a [(u128, Client)], &'a str);
        let cases: &[Case] = &[
            (0, &[], "the capacity of the client table is out of range"),
            (CLIENTS_MAX + 1, &[], "the capacity of the client table is out of range"),
            (1, &[(1, client(1, 1, &[])), (2, client(2, 2, &[]))], "there are more clients than the table may hold"),
            (2, &[(0, good.clone())], "the ops of a client are out of order"),
            (2, &[(1, client(0, 1, &[]))], "the ops of a client are out of order"),
            (2, &[(1, client(5, 4, &[]))], "the ops of a client are out of order"),
            (2, &[(1, client(1, 21, &[]))], "the ops of a client are out of order"),
            (2, &[(1, client(1, 7, &[])), (2, client(2, 7, &[]))], "two clients claim the same commit"),
            (2, &[(1, client(1, 20, &six))], "a client has too many outcomes"),
            (2, &[(1, client(1, 20, &[(3, 5), (3, 6)]))], "the outcomes of a client are out of order"),
            (2, &[(1, client(1, 20, &[(3, 5), (4, 5)]))], "the outcomes of a client are out of order"),
            (2, &[(1, client(1, 20, &[(10, 5)]))], "a client has outcomes above its watermark"),
            (2, &[(1, client(1, 20, &[(9, 21)]))], "a client has outcomes above its watermark"),
            (2, &[(1, good), (2, client(3, 9, &[(1, 5)]))], "two outcomes claim the same op"),
        ];
        for (number, (capacity, clients, expected)) in cases.iter().enumerate() {
            assert_eq!(check(*capacity, clients), Err(*expected), "case {number}");
        }
    }

    #[test]
    #[should_panic(expected = "a client table holds 1 to 8192 clients, not 0")]
    fn a_table_without_room_is_refused() {
        ClientTable::new(0);
    }
}
