//! All messages there can be within the bounds, by number, so that the set of messages that were sent is a bit set.

use crate::logs::{LogId, Logs};
use crate::rules::{Broken, Config, Level, Suspicion};

/// Words of the bit set.
const WORDS: usize = 8;

/// One of three, 0 to 2: A, B, C.
pub type ReplicaId = u8;

/// The replica that leads `view`.
pub fn primary(view: u8) -> ReplicaId {
    view % 3
}

/// What a replica says. Whoever it is for may receive it any number of times, at any time, in any order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// The primary of `view` to all: the log of the view as far as it goes. A start view and a prepare at once.
    Lead { view: u8, log: LogId },
    /// The same, as an answer to the present incarnation of `to`.
    Answer { to: ReplicaId, view: u8, log: LogId },
    /// `from` to the primary of `view`, which is to begin: the log that `from` holds, and of which view that is.
    Vote { view: u8, from: ReplicaId, log_view: u8, log: LogId },
    /// `from` holds `log` in `view`.
    Ack { view: u8, from: ReplicaId, log: LogId },
    /// `from` would go to `view`.
    Suspect { view: u8, from: ReplicaId },
    /// `from` is a backup of `view`, after the present incarnation of `to` had asked. In the paper's recovery `from` tells
    /// `to`; otherwise it tells the primary, which may let `to` in with its new disk.
    Witness { to: ReplicaId, from: ReplicaId, view: u8 },
}

/// A set of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Messages(pub [u64; WORDS]);

impl Messages {
    pub fn has(&self, bit: usize) -> bool {
        self.0[bit >> 6] >> (bit & 63) & 1 == 1
    }

    pub fn insert(&mut self, bit: usize) {
        self.0[bit >> 6] |= 1 << (bit & 63);
    }

    pub fn remove(&mut self, bit: usize) {
        self.0[bit >> 6] &= !(1 << (bit & 63));
    }

    pub fn remove_all(&mut self, mask: &Messages) {
        let mut word = 0;
        while word < WORDS {
            self.0[word] &= !mask.0[word];
            word += 1;
        }
    }

    /// The lowest message from bit `from` on that is in this set and in `mask`.
    pub fn next(&self, mask: &Messages, from: usize) -> Option<usize> {
        let mut word = from >> 6;
        let mut rest = if word < WORDS { self.0[word] & mask.0[word] & (!0 << (from & 63)) } else { 0 };
        while word < WORDS {
            if rest != 0 {
                return Some((word << 6) + rest.trailing_zeros() as usize);
            }
            word += 1;
            if word < WORDS {
                rest = self.0[word] & mask.0[word];
            }
        }
        None
    }
}

/// Which bit is which message, and the groups in which messages are looked at or forgotten.
pub struct Universe {
    messages: Vec<Message>,
    logs: usize,
    answers: usize,
    votes: usize,
    acks: usize,
    suspects: usize,
    witnesses: usize,
    /// Leads and answers.
    pub deliveries: Messages,
    /// Votes for a view.
    pub votes_for: Vec<Messages>,
    /// Leads of a view.
    pub leads_of: Vec<Messages>,
    /// Suspicions that aim at a view.
    pub suspects_of: Vec<Messages>,
    /// Acknowledgements `[view][from]`.
    pub acks_of: Vec<[Messages; 3]>,
    /// Answers `[to][view]`, and what witnesses say to `to` about it.
    pub answers_to: [Vec<Messages>; 3],
}

impl Universe {
    pub fn new(config: &Config, logs: &Logs) -> Universe {
        let count = logs.count() as LogId;
        let mut messages = Vec::new();
        for view in 0..config.views {
            messages.extend((0..count).map(|log| Message::Lead { view, log }));
        }
        let answers = messages.len();
        if config.level == Level::Replicated || config.replacements > 0 {
            for to in 0..3 {
                for view in 0..config.views {
                    messages.extend((0..count).map(|log| Message::Answer { to, view, log }));
                }
            }
        }
        let votes = messages.len();
        for view in 1..config.views {
            for log_view in 0..view {
                for from in 0..3 {
                    messages.extend((0..count).map(|log| Message::Vote { view, from, log_view, log }));
                }
            }
        }
        let acks = messages.len();
        for view in 0..config.views {
            for from in 0..3 {
                messages.extend((0..count).map(|log| Message::Ack { view, from, log }));
            }
        }
        let suspects = messages.len();
        if config.suspicion != Suspicion::Any {
            for view in 0..config.views {
                messages.extend((0..3).map(|from| Message::Suspect { view, from }));
            }
        }
        let witnesses = messages.len();
        if config.is(Broken::PaperRecovery) || config.replacements > 0 {
            for to in 0..3 {
                for from in 0..3 {
                    messages.extend((0..config.views).map(|view| Message::Witness { to, from, view }));
                }
            }
        }
        assert!(messages.len() <= WORDS * 64, "{} messages do not fit", messages.len());
        let select = |wanted: &dyn Fn(Message) -> bool| {
            let mut set = Messages::default();
            for (bit, message) in messages.iter().enumerate() {
                if wanted(*message) {
                    set.insert(bit);
                }
            }
            set
        };
        let each_view = |wanted: &dyn Fn(Message, u8) -> bool| -> Vec<Messages> {
            (0..config.views).map(|of| select(&|message| wanted(message, of))).collect()
        };
        let answers_to = [0, 1, 2].map(|me| {
            each_view(&|message, of| match message {
                Message::Answer { to, view, .. } | Message::Witness { to, view, .. } => to == me && view == of,
                _ => false,
            })
        });
        let acks_of = (0..config.views)
            .map(|of| {
                [0, 1, 2]
                    .map(|by| select(&|it| matches!(it, Message::Ack { view, from, .. } if view == of && from == by)))
            })
            .collect();
        Universe {
            deliveries: select(&|it| matches!(it, Message::Lead { .. } | Message::Answer { .. })),
            votes_for: each_view(&|it, of| matches!(it, Message::Vote { view, .. } if view == of)),
            leads_of: each_view(&|it, of| matches!(it, Message::Lead { view, .. } if view == of)),
            suspects_of: each_view(&|it, of| matches!(it, Message::Suspect { view, .. } if view == of)),
            acks_of,
            answers_to,
            messages,
            logs: logs.count(),
            answers,
            votes,
            acks,
            suspects,
            witnesses,
        }
    }

    pub fn message(&self, bit: usize) -> Message {
        self.messages[bit]
    }

    /// The bit of `message`.
    pub fn bit(&self, message: Message) -> usize {
        let views = self.votes_for.len();
        let logs = self.logs;
        match message {
            Message::Lead { view, log } => view as usize * logs + log as usize,
            Message::Answer { to, view, log } => {
                self.answers + (to as usize * views + view as usize) * logs + log as usize
            }
            Message::Vote { view, from, log_view, log } => {
                let pair = view as usize * (view as usize - 1) / 2 + log_view as usize;
                self.votes + (pair * 3 + from as usize) * logs + log as usize
            }
            Message::Ack { view, from, log } => self.acks + (view as usize * 3 + from as usize) * logs + log as usize,
            Message::Suspect { view, from } => self.suspects + view as usize * 3 + from as usize,
            Message::Witness { to, from, view } => {
                self.witnesses + (to as usize * 3 + from as usize) * views + view as usize
            }
        }
    }
}

#[test]
fn every_message_has_a_bit_of_its_own() {
    for config in [
        Config::sound(Level::Replicated, Suspicion::Quorum, 3, 2, 1),
        Config::broken(Broken::PaperRecovery, Level::Replicated, 3, 1, 2),
    ] {
        let logs = Logs::new(config.views, config.slots, 1);
        let universe = Universe::new(&config, &logs);
        for bit in 0..universe.messages.len() {
            assert_eq!(universe.bit(universe.message(bit)), bit, "{:?}", universe.message(bit));
        }
    }
}
