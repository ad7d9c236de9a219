//! Which protocol is explored, and how far.

/// What a crash takes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// An entry is acknowledged once it is in memory: a crash loses the whole log.
    Replicated,
    /// An entry is acknowledged once it is durable: a crash loses only what the primary has not written yet.
    Persisted,
}

/// What lets a replica leave its view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspicion {
    /// Nothing: whoever takes part moves when it likes. Suspicions bind nobody and may arrive at any later time, so this
    /// is every behaviour of every rule about suspicion, and more. It costs no messages.
    Any,
    /// A quorum of suspicions from the view before, each a message that changes nothing at its sender, or a vote.
    Quorum,
    /// The same, and each replica suspects as soon as it is in a view: since nobody is bound, what can happen is the same.
    Eager,
    /// The same, and only from a view that is durable: a quorum that suspects a view will never be in an earlier one.
    Durable,
    /// The paper's: the suspecting replica moves at once and tells; a quorum that told precedes the vote.
    Paper,
}

/// One broken rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The protocol as it is meant.
    Nothing,
    /// Nothing is durable. Whoever restarts asks everybody with a nonce, and takes the log of the primary of the newest
    /// view among a quorum of answers.
    PaperRecovery,
    /// An answer that was meant for an earlier incarnation lets a replica take part again.
    AnyAnswerRecovers,
    /// A start view of the view in which a replica woke, whose log it had held, lets it take part again.
    StaleStartView,
    /// A replica that lost its memory votes.
    RecoveringVotes,
    /// The vote leaves before the promise behind it is durable.
    VoteBeforeDurable,
    /// The log view is raised before the chosen log is held.
    LogViewEarly,
    /// A restarted primary goes on in the view in which it woke.
    ResumePrimary,
    /// The longest log is chosen, whatever its log view.
    LongestLogWins,
    /// A replica with a new, empty disk comes back like one that only lost its memory.
    EmptyDisk,
    /// A primary lets a replica with a new disk in without proof that its view is still the last one.
    UnprovenView,
}

/// A protocol and the bounds within which it is explored.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    pub level: Level,
    pub suspicion: Suspicion,
    pub broken: Broken,
    /// Views 0 to `views - 1`; at most 4.
    pub views: u8,
    /// Length of the log, in entries; 1 or 2.
    pub slots: u8,
    /// Crashes of all replicas together.
    pub crashes: u8,
    /// How many times a replica comes back with its disk replaced by an empty one.
    pub replacements: u8,
    /// Whether a replica crashes only while no other is recovering.
    pub one_down: bool,
    /// Whether only that is committed of which the primary could tell a client: it leads the view and holds the entry when
    /// the quorum is complete. Otherwise whatever a quorum acknowledged in one view, which is more.
    pub told: bool,
    /// Whether a log is also taken over entry by entry, with everything else happening in between.
    pub piecewise: bool,
    /// Whether messages without any further effect are left out of states. It only saves work.
    pub forget: bool,
}

impl Config {
    /// The sound protocol at `level`.
    pub const fn sound(level: Level, suspicion: Suspicion, views: u8, slots: u8, crashes: u8) -> Config {
        Config {
            level,
            suspicion,
            broken: Broken::Nothing,
            views,
            slots,
            crashes,
            replacements: 0,
            one_down: false,
            told: false,
            piecewise: true,
            forget: true,
        }
    }

    /// The protocol with one rule broken.
    /// Crashes come one at a time, and only what a client can have been told counts as committed.
    pub const fn broken(broken: Broken, level: Level, views: u8, slots: u8, crashes: u8) -> Config {
        let suspicion = match broken {
            Broken::PaperRecovery => Suspicion::Paper,
            _ => Suspicion::Quorum,
        };
        let sound = Config::sound(level, suspicion, views, slots, crashes);
        Config { broken, one_down: true, told: true, piecewise: false, ..sound }
    }

    /// The same, and `replacements` times a disk is replaced.
    pub const fn replacing(self, replacements: u8) -> Config {
        Config { replacements, ..self }
    }

    /// Whether it is this rule that is broken.
    pub fn is(&self, broken: Broken) -> bool {
        self.broken == broken
    }
}
