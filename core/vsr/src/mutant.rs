//! Deliberate mistakes, to find out whether the tests notice them.
//!
//! A protocol rule that no test misses is not tested. Each [`Mutant`] breaks one rule; a simulator that does not catch it
//! within its budget of seeds is too weak. Without the feature `mutants` the switch does nothing and costs nothing.

/// One broken rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each is described by `Mutant::about`")]
pub enum Mutant {
    #[default]
    None,
    AckByNumber,
    AckBeforeDurable,
    AckInOlderView,
    VoteBeforeDurable,
    LogViewEarly,
    AnyAnswerRecovers,
    RecoveringVotes,
    SilenceIsNack,
    LongestLogWins,
    ResumePrimary,
    ServeBeforeSuffix,
    OneSuspicionIsEnough,
    KeepLeftovers,
    CutAtGap,
    CommitWithoutQuorum,
    ForgetPromises,
    ApplyUncommitted,
    SkipFlush,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Mutant; 18] = [
        Mutant::AckByNumber,
        Mutant::AckBeforeDurable,
        Mutant::AckInOlderView,
        Mutant::VoteBeforeDurable,
        Mutant::LogViewEarly,
        Mutant::AnyAnswerRecovers,
        Mutant::RecoveringVotes,
        Mutant::SilenceIsNack,
        Mutant::LongestLogWins,
        Mutant::ResumePrimary,
        Mutant::ServeBeforeSuffix,
        Mutant::OneSuspicionIsEnough,
        Mutant::KeepLeftovers,
        Mutant::CutAtGap,
        Mutant::CommitWithoutQuorum,
        Mutant::ForgetPromises,
        Mutant::ApplyUncommitted,
        Mutant::SkipFlush,
    ];

    /// Whether this mistake is to be made. Always false without the feature `mutants`.
    #[inline]
    pub fn is(self, other: Mutant) -> bool {
        cfg!(feature = "mutants") && self == other
    }

    /// The rule that it breaks.
    pub fn about(self) -> &'static str {
        match self {
            Mutant::None => "no rule is broken",
            Mutant::AckByNumber => "an acknowledgement counts by its op number, whatever entry it is for",
            Mutant::AckBeforeDurable => "entries are acknowledged before they are durable",
            Mutant::AckInOlderView => "acknowledgements of older views are counted",
            Mutant::VoteBeforeDurable => "a vote leaves before the promise behind it is durable",
            Mutant::LogViewEarly => "the log view is raised before the whole log of the view is held",
            Mutant::AnyAnswerRecovers => {
                "an answer to another incarnation lets a replica without memory take part again"
            }
            Mutant::RecoveringVotes => "a replica that lost its memory votes",
            Mutant::SilenceIsNack => "an op that a voter can't read any more counts as one that it never had",
            Mutant::LongestLogWins => "the longest log is chosen, whatever its log view",
            Mutant::ResumePrimary => "a restarted primary goes on in the view in which it woke",
            Mutant::ServeBeforeSuffix => "a new primary takes requests before what it inherited is committed",
            Mutant::OneSuspicionIsEnough => "one suspicion moves the whole group",
            Mutant::KeepLeftovers => "entries that the new view does not have are kept",
            Mutant::CutAtGap => "a backup cuts its log where an entry is missing",
            Mutant::CommitWithoutQuorum => "the primary alone commits",
            Mutant::ForgetPromises => "a restart forgets the promised view",
            Mutant::ApplyUncommitted => "entries are executed when they arrive, not when they are committed",
            Mutant::SkipFlush => "a sync of the log is reported done without having been made",
        }
    }
}
