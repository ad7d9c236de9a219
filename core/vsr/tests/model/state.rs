//! One state of the whole system: three replicas and every message that can still have an effect.

use crate::logs::{EMPTY, LogId, Logs};
use crate::message::{Messages, ReplicaId};

/// What a replica does at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Takes part in its view.
    Normal,
    /// Went to its view and has not voted yet.
    Deciding,
    /// Voted for its view; the primary of the view may begin it.
    Voted,
    /// Waits for its view to begin, without a vote: it woke in it, or began to take over its log.
    Abstaining,
    /// Lost its memory, and is mute.
    Recovering,
}

/// The `voter_from` of a replica with a new disk that was not let in yet.
pub const NEVER: u8 = 7;

/// One replica. View, log view and (if persisted) the log survive a crash as far as they are durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replica {
    pub status: Status,
    pub view: u8,
    pub durable_view: u8,
    /// The view whose log this replica holds; durable together with the log, or with its last word on it.
    pub log_view: u8,
    pub log: LogId,
    /// The first view for which this replica votes and in which it acknowledges: 0, unless its disk was replaced.
    pub voter_from: u8,
    /// Entries at the end of the log that a primary proposed and has not written yet.
    pub unsynced: u8,
}

/// Everything there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    pub replicas: [Replica; 3],
    pub crashes: u8,
    pub replacements: u8,
    /// What a quorum acknowledged in one view, each entry with the lowest such view. Nobody in the system knows this.
    pub committed: LogId,
    pub commit_views: [u8; 2],
    /// Another entry was committed for a slot that had one.
    pub conflict: bool,
    pub sent: Messages,
}

impl State {
    /// All in view 0, with nothing in the log.
    pub fn initial() -> State {
        let replica = Replica {
            status: Status::Normal,
            view: 0,
            durable_view: 0,
            log_view: 0,
            log: EMPTY,
            voter_from: 0,
            unsynced: 0,
        };
        State {
            replicas: [replica; 3],
            crashes: 0,
            replacements: 0,
            committed: EMPTY,
            commit_views: [0; 2],
            conflict: false,
            sent: Messages::default(),
        }
    }

    pub fn replica(&self, id: ReplicaId) -> &Replica {
        &self.replicas[id as usize]
    }

    pub fn replica_mut(&mut self, id: ReplicaId) -> &mut Replica {
        &mut self.replicas[id as usize]
    }

    /// The same state without the messages, as [`fingerprint`](State::fingerprint) shows it.
    pub fn visible(&self) -> u64 {
        State { sent: Messages::default(), ..*self }.fingerprint()
    }

    /// 64 bits that stand for this state: with ten million states, two of them share theirs with odds of 1 to 370,000.
    pub fn fingerprint(&self) -> u64 {
        let mut hash = 0x243f_6a88_85a3_08d3_u64;
        let mut mix = |word: u64| {
            let product = u128::from(hash ^ word) * 0x9e37_79b9_7f4a_7c15;
            hash = (product >> 64) as u64 ^ product as u64;
        };
        let [a, b, c] = [self.replicas[0].packed(), self.replicas[1].packed(), self.replicas[2].packed()];
        let commits = u64::from(self.commit_views[0]) | u64::from(self.commit_views[1]) << 2;
        let rest = u64::from(self.crashes)
            | u64::from(self.committed) << 4
            | commits << 10
            | u64::from(self.conflict) << 14
            | u64::from(self.replacements) << 15
            | c << 32;
        mix(a | b << 32);
        mix(rest);
        for word in self.sent.0 {
            mix(word);
        }
        hash.max(1)
    }
}

impl Replica {
    fn packed(&self) -> u64 {
        self.status as u64
            | u64::from(self.view) << 3
            | u64::from(self.durable_view) << 5
            | u64::from(self.log_view) << 7
            | u64::from(self.log) << 9
            | u64::from(self.unsynced) << 15
            | u64::from(self.voter_from) << 17
    }

    /// `normal in view 1, log [x0] of view 1`.
    pub fn show(&self, logs: &Logs) -> String {
        let status = match self.status {
            Status::Normal if self.view < self.voter_from => "learns",
            Status::Normal => "normal",
            Status::Deciding => "undecided",
            Status::Voted => "voted",
            Status::Abstaining => "abstains",
            Status::Recovering => "recovers",
        };
        let durable =
            if self.durable_view == self.view { String::new() } else { format!(" (durable: {})", self.durable_view) };
        let log = logs.show(self.log);
        format!("{status} in view {}{durable}, log {log} of view {}", self.view, self.log_view)
    }
}
