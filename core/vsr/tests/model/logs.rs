//! All logs there can be within the bounds, by number, so that a log is one byte of a state.

use std::fmt::Write;

/// A log by its number; 0 is the empty one.
pub type LogId = u8;

/// The log without entries.
pub const EMPTY: LogId = 0;

/// The logs of at most `slots` entries. An entry is known by the view in which it was proposed, and by how many had been
/// proposed before it in that view for that slot: every proposal is a new request.
pub struct Logs {
    entries: Vec<Vec<(u8, u8)>>,
    len: Vec<u8>,
    /// `child[log][entry]`, where there is one.
    child: Vec<Option<LogId>>,
    /// Whether log a is a prefix of log b, or the same: `prefix[a * count + b]`.
    prefix: Vec<bool>,
    proposals: u8,
    views: u8,
}

impl Logs {
    /// `proposals`: how many different entries one view can propose for one slot.
    pub fn new(views: u8, slots: u8, proposals: u8) -> Logs {
        let mut entries: Vec<Vec<(u8, u8)>> = vec![Vec::new()];
        let mut first = 0;
        for _ in 0..slots {
            let last = entries.len();
            for parent in first..last {
                let from = entries[parent].last().map_or(0, |entry| entry.0);
                for view in from..views {
                    for nth in 0..proposals {
                        let mut log = entries[parent].clone();
                        log.push((view, nth));
                        entries.push(log);
                    }
                }
            }
            first = last;
        }
        let count = entries.len();
        assert!(count <= 64, "a log has 6 bits in a state, {count} logs are too many");
        let mut child = vec![None; count * usize::from(views * proposals)];
        let mut prefix = vec![false; count * count];
        for (a, short) in entries.iter().enumerate() {
            for (b, long) in entries.iter().enumerate() {
                prefix[a * count + b] = long.starts_with(short);
                if long.starts_with(short) && long.len() == short.len() + 1 {
                    let (view, nth) = long[short.len()];
                    child[a * usize::from(views * proposals) + usize::from(view * proposals + nth)] = Some(b as LogId);
                }
            }
        }
        let len = entries.iter().map(|log| log.len() as u8).collect();
        Logs { entries, len, child, prefix, proposals, views }
    }

    /// How many logs there are.
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// How many different entries one view can propose for one slot.
    pub fn proposals(&self) -> u8 {
        self.proposals
    }

    /// Entries of `log`.
    pub fn len(&self, log: LogId) -> u8 {
        self.len[log as usize]
    }

    /// `log` and one entry more.
    pub fn child(&self, log: LogId, view: u8, nth: u8) -> Option<LogId> {
        let entries = (self.views * self.proposals) as usize;
        self.child[log as usize * entries + (view * self.proposals + nth) as usize]
    }

    /// Whether `short` is how `long` begins; also if they are the same.
    pub fn is_prefix(&self, short: LogId, long: LogId) -> bool {
        self.prefix[short as usize * self.entries.len() + long as usize]
    }

    /// The first `len` entries of `log`.
    pub fn cut(&self, log: LogId, len: u8) -> LogId {
        let mut cut = EMPTY;
        for entry in &self.entries[log as usize][..len as usize] {
            cut = self.child(cut, entry.0, entry.1).expect("every prefix of a log is a log");
        }
        cut
    }

    /// How many entries are the same at the beginning of both.
    pub fn common(&self, a: LogId, b: LogId) -> u8 {
        let (a, b) = (&self.entries[a as usize], &self.entries[b as usize]);
        a.iter().zip(b).take_while(|(a, b)| a == b).count() as u8
    }

    /// `[x0 y1]`: the first entry is one of view 0, the second one of view 1; an apostrophe marks a view's second request.
    pub fn show(&self, log: LogId) -> String {
        let mut text = String::from("[");
        for (slot, (view, nth)) in self.entries[log as usize].iter().enumerate() {
            let gap = if slot == 0 { "" } else { " " };
            let slot = if slot == 0 { 'x' } else { 'y' };
            let mark = if *nth == 0 { "" } else { "'" };
            let _ = write!(text, "{gap}{slot}{view}{mark}");
        }
        text.push(']');
        text
    }
}
