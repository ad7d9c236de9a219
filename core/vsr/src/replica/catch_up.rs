//! Taking over a log: that of a view which begins, that of the primary for a backup that lags, and a snapshot when entries
//! are gone.
//!
//! A replica that takes over the log of a view changes its own only where it provably differs, entry by entry, and only once
//! the promise not to speak in earlier views is durable. What it held and what is committed is in the new log too, so it is
//! never without it: a crash in the middle leaves a log that holds every committed entry it held before. The log view is
//! raised when the whole log is held, durably, and not before.

use super::{Effect, Replica, Status, timers};
use crate::entry::Entry;
use crate::id::{EntryId, OpNumber, ReplicaId, ViewNumber, primary};
use crate::message::{CHUNK_MAX, Ignored, MessageBody, SNAPSHOT_MAX, SnapshotInfo, StartView, Suffix, Target};
use crate::mutant::Mutant;
use bytes::{Bytes, BytesMut};
use twox_hash::XxHash3_128;

/// Entries that are asked for at once.
pub(super) const FETCH_MAX: u64 = 256;
/// Bytes of entries that are sent from memory in answer to one fetch; one entry is always sent.
const FETCH_BYTES: usize = 4 * 1024 * 1024;

/// The log that is being taken over.
#[derive(Debug)]
struct Adoption {
    source: ReplicaId,
    head: OpNumber,
    head_id: EntryId,
    suffix: Suffix,
    /// Up to here this replica's log is known to be the same.
    proven: OpNumber,
}

/// A snapshot that comes in.
#[derive(Debug)]
struct Transfer {
    source: ReplicaId,
    info: SnapshotInfo,
    bytes: BytesMut,
}

/// What is volatile of catching up.
#[derive(Debug, Default)]
pub(super) struct CatchUp {
    adoption: Option<Adoption>,
    /// A backup in normal operation lacks the entries up to this one.
    wanted: Option<(OpNumber, EntryId)>,
    transfer: Option<Transfer>,
    /// What was asked for last, and when.
    asked: Option<(OpNumber, OpNumber, u64)>,
}

impl CatchUp {
    pub(super) fn clear(&mut self) {
        *self = CatchUp::default();
    }

    pub(super) fn is_adopting(&self) -> bool {
        self.adoption.is_some()
    }

    /// Up to which op the log of a replica that is in no view is known to be what was committed.
    pub(super) fn proven(&self) -> OpNumber {
        self.adoption.as_ref().map_or(OpNumber::ZERO, |adoption| adoption.proven)
    }

    /// The log goes to `head` now.
    pub(super) fn reached(&mut self, head: OpNumber) {
        self.wanted = self.wanted.filter(|(wanted, _)| *wanted > head);
    }

    pub(super) fn is_busy(&self) -> bool {
        self.adoption.is_some() || self.wanted.is_some()
    }
}

impl Replica {
    pub(super) fn on_start_view(&mut self, from: ReplicaId, view: ViewNumber, start: StartView) -> Result<(), Ignored> {
        if primary(self.config.group, view, self.config.replica_count) != from {
            return Err(Ignored::Role);
        }
        let ends = start.suffix.floor.0.checked_add(start.suffix.ids.len() as u64);
        let named = start.suffix.ids.last().is_none_or(|id| *id == start.head_id);
        if ends != Some(start.head.0) || start.commit > start.head || !named {
            return Err(Ignored::Malformed);
        }
        let answered = start.answers == Some(self.config.incarnation);
        if start.answers.is_some() && !answered && !self.config.mutant.is(Mutant::AnyAnswerRecovers) {
            return Err(Ignored::Status);
        }
        if view < self.view {
            return Err(Ignored::OlderView);
        }
        if start.head < self.applied || (start.head == self.applied && start.head_id != self.applied_id) {
            // What was applied here is committed, and what is committed is in every log that begins a view. The sender sent
            // this before it held more, or it is broken; either way it is of no use.
            return Err(Ignored::Identity);
        }
        if self.status == Status::Recovering {
            // Without memory only proof counts that the sender led this view after this start, or that this replica can't
            // have acknowledged anything in it.
            let after = self.durable_view.is_some_and(|durable| view > durable);
            let unheld = self.durable_view == Some(view) && self.durable_log_view < Some(view);
            // A replica whose promises are lost, too, can't tell how old an answer is.
            let answered = answered && self.durable_view.is_some();
            if !answered && !after && !unheld && !self.config.mutant.is(Mutant::AnyAnswerRecovers) {
                return Err(Ignored::Status);
            }
            if self.catch_up.is_adopting() && view == self.view {
                return Err(Ignored::Duplicate);
            }
            self.join(view);
        } else if view == self.view && self.status == Status::Normal {
            self.learn_commit(start.commit);
            if start.head > self.head {
                self.want(start.head, start.head_id);
            } else {
                self.acknowledge();
            }
            return Ok(());
        } else if view == self.view && self.log_view == view {
            // It restarted in the view whose log it holds, and has acknowledged more of it than an old message may know.
            self.begin();
            self.learn_commit(start.commit);
            if start.head > self.head {
                self.want(start.head, start.head_id);
            }
            return Ok(());
        } else if view == self.view {
            if self.catch_up.is_adopting() {
                return Err(Ignored::Duplicate);
            }
        } else {
            self.join(view);
        }
        self.adopt(from, start.head, start.head_id, start.commit, start.suffix);
        Ok(())
    }

    /// Begins to take over the log of the present view.
    pub(super) fn adopt(
        &mut self,
        source: ReplicaId,
        head: OpNumber,
        head_id: EntryId,
        commit: OpNumber,
        suffix: Suffix,
    ) {
        // What was applied is committed, and what is committed is in every log that begins a view.
        assert!(head >= self.applied, "{}: a view begins without committed entries", self.describe());
        self.commit_max = self.commit_max.max(commit);
        self.catch_up.transfer = None;
        self.catch_up.asked = None;
        self.catch_up.adoption = Some(Adoption { source, head, head_id, suffix, proven: self.applied });
        if self.config.mutant.is(Mutant::LogViewEarly) {
            self.log_view = self.view;
            self.persist(self.view, self.view, true);
        }
        self.wake_timer(timers::FETCH_NS);
        self.advance_adoption();
    }

    /// Does the next step of taking over a log.
    pub(super) fn advance_adoption(&mut self) {
        let Some(mut adoption) = self.catch_up.adoption.take() else { return };
        if self.status == Status::Normal || self.truncating || self.installing {
            self.catch_up.adoption = (self.status != Status::Normal).then_some(adoption);
            return;
        }
        adoption.proven = adoption.proven.max(self.applied);
        // The chain makes one equal id prove everything before it.
        let common = self.head.min(adoption.head);
        let mut op = common;
        while op > adoption.proven {
            match adoption.suffix.id(op) {
                Some(id) if self.entry_id(op) == Some(id) => {
                    adoption.proven = op;
                    break;
                }
                Some(_) => op = OpNumber(op.0 - 1),
                None => break,
            }
        }
        if self.head == adoption.head && self.head_id == adoption.head_id {
            adoption.proven = self.head;
        }
        // The first op that the suffix names otherwise, and everything behind it, is not part of the new log.
        let differs = if op < common { Some(op) } else { None };
        let differs =
            differs.or((self.head > adoption.head && adoption.proven == adoption.head).then_some(adoption.head));
        let (proven, target) = (adoption.proven, (adoption.head, adoption.head_id));
        self.catch_up.adoption = Some(adoption);
        // A snapshot of the source may reach beyond the log with which the view began.
        let whole = (self.head, self.head_id) == target || (self.applied > target.0 && self.head == self.applied);
        let kept = self.config.mutant.is(Mutant::KeepLeftovers) && self.head >= target.0;
        if whole || kept {
            self.apply_committed();
            if self.durable == self.head {
                let promised = self.durable_log_view == Some(self.view) && self.durable_view == Some(self.view);
                if promised && self.durable_sound {
                    self.catch_up.clear();
                    self.begin();
                } else {
                    self.persist(self.view, self.view, true);
                }
            }
            return;
        }
        if self.durable_view < Some(self.view) {
            let sound = self.status != Status::Recovering;
            self.persist(self.view, self.log_view, sound);
            return;
        }
        if let Some(to) = differs.filter(|to| *to < self.head) {
            self.truncate(to);
            return;
        }
        self.apply_committed();
        self.fetch(OpNumber(proven.0 + 1), false);
    }

    /// A backup in normal operation lacks entries up to `op`.
    pub(super) fn want(&mut self, op: OpNumber, id: EntryId) {
        if self.status != Status::Normal || op <= self.head {
            return;
        }
        if self.catch_up.wanted.is_none_or(|(known, _)| known < op) {
            self.catch_up.wanted = Some((op, id));
        }
        self.wake_timer(timers::FETCH_NS);
        self.fetch(self.head.next(), false);
    }

    /// Asks for entries, unless that was done just now.
    pub(super) fn fetch(&mut self, first: OpNumber, again: bool) {
        let (source, (to, to_id)) = match (&self.catch_up.adoption, self.catch_up.wanted) {
            (Some(adoption), _) => (adoption.source, (adoption.head, adoption.head_id)),
            (None, Some(wanted)) => (self.primary(), wanted),
            (None, None) => return,
        };
        if first > to || source == self.config.replica || self.truncating || self.installing {
            return;
        }
        let now = self.timers.now_ns;
        if let Some((from, last, at)) = self.catch_up.asked
            && !again
            && first >= from
            && first <= last
            && now < at + timers::FETCH_NS
        {
            return;
        }
        let last = OpNumber(to.0.min(first.0 + FETCH_MAX - 1));
        self.catch_up.asked = Some((first, last, now));
        self.wake_timer(timers::FETCH_NS);
        let last_id = if last == to { to_id } else { EntryId::NONE };
        self.send(Target::Replica(source), MessageBody::Fetch { from: first, to: last, to_id: last_id });
    }

    /// Asks again for what did not come.
    pub(super) fn fetch_again(&mut self) {
        if let Some(Transfer { source, info, bytes }) = &self.catch_up.transfer {
            let body = MessageBody::FetchSnapshot { first_op: info.first_op, position: bytes.len() as u64 };
            let to = Target::Replica(*source);
            self.send(to, body);
        } else if self.catch_up.adoption.is_some() {
            self.catch_up.asked = None;
            self.advance_adoption();
        } else if self.catch_up.wanted.is_some() {
            self.fetch(self.head.next(), true);
        }
    }

    pub(super) fn on_fetch(
        &mut self,
        from: ReplicaId,
        first: OpNumber,
        to: OpNumber,
        to_id: EntryId,
    ) -> Result<(), Ignored> {
        if self.status == Status::Recovering || self.installing {
            return Err(Ignored::Status);
        }
        if first == OpNumber::ZERO || first > to || to.0 - first.0 >= FETCH_MAX {
            return Err(Ignored::Malformed);
        }
        if to_id != EntryId::NONE && to >= self.applied && to <= self.head && self.entry_id(to) != Some(to_id) {
            return Err(Ignored::Identity);
        }
        let to = to.min(self.head);
        if first <= self.applied {
            self.effects.push_back(Effect::Serve { to: from, from: first, up_to: to.min(self.applied) });
            return Ok(());
        }
        let skip = usize::try_from(first.0 - self.applied.0 - 1).expect("entries in memory");
        let mut bytes = 0;
        let mut found = Vec::new();
        for held in self.in_flight.iter().skip(skip).take_while(|held| held.entry.op() <= to) {
            if bytes > FETCH_BYTES {
                break;
            }
            bytes += held.entry.bytes().len();
            found.push(held.entry.clone());
        }
        for entry in found {
            self.send(Target::Replica(from), MessageBody::Entry(entry));
        }
        Ok(())
    }

    pub(super) fn on_entry(&mut self, from: ReplicaId, view: ViewNumber, entry: Entry) -> Result<(), Ignored> {
        let header = *entry.header();
        if header.cluster != self.config.cluster || header.group != self.config.group || header.view > self.view {
            return Err(Ignored::Foreign);
        }
        // Only who holds the log of the present view may add to it, and only while both are in that view.
        if view != self.view {
            return Err(if view < self.view { Ignored::OlderView } else { Ignored::NewerView });
        }
        if self.truncating || self.installing {
            return Err(Ignored::Status);
        }
        if self.status == Status::Normal {
            if from != self.primary() {
                return Err(Ignored::Role);
            }
            return self.take_in_order(entry);
        }
        let Some(adoption) = &mut self.catch_up.adoption else { return Err(Ignored::Status) };
        if from != adoption.source {
            return Err(Ignored::Role);
        }
        if self.durable_view < Some(self.view) || header.op > adoption.head {
            return Err(Ignored::Status);
        }
        if header.op <= self.applied {
            return Err(Ignored::Duplicate);
        }
        if header.op <= self.head {
            if self.entry_id(header.op) == Some(header.id) {
                let adoption = self.catch_up.adoption.as_mut().expect("looked at it");
                adoption.proven = adoption.proven.max(header.op);
                if self.catch_up.asked.is_some_and(|(_, last, _)| last == header.op) {
                    self.catch_up.asked = None;
                }
                self.advance_adoption();
                return Ok(());
            }
            self.truncate(OpNumber(header.op.0 - 1));
            return Ok(());
        }
        if header.op > self.head.next() {
            return Err(Ignored::Gap);
        }
        if header.parent != self.head_id {
            if self.head == self.applied {
                return Err(Ignored::Chain);
            }
            // The head is not what the new log has there.
            self.truncate(OpNumber(self.head.0 - 1));
            return Ok(());
        }
        if header.timestamp <= self.head_timestamp {
            return Err(Ignored::Chain);
        }
        adoption.proven = header.op;
        self.append(entry);
        if self.catch_up.asked.is_some_and(|(_, last, _)| last == header.op) {
            self.catch_up.asked = None;
        }
        self.advance_adoption();
        Ok(())
    }

    /// A missing entry for a backup in normal operation.
    fn take_in_order(&mut self, entry: Entry) -> Result<(), Ignored> {
        let op = entry.op();
        if op <= self.head {
            return Err(Ignored::Duplicate);
        }
        if op > self.head.next() {
            return Err(Ignored::Gap);
        }
        if self.is_primary() || entry.header().parent != self.head_id || entry.header().timestamp <= self.head_timestamp
        {
            return Err(Ignored::Chain);
        }
        self.append(entry);
        self.apply_committed();
        match self.catch_up.wanted {
            Some((wanted, _)) if wanted > op => {
                if self.catch_up.asked.is_some_and(|(_, last, _)| last == op) {
                    self.fetch(op.next(), true);
                }
            }
            _ => self.catch_up.wanted = None,
        }
        Ok(())
    }

    pub(super) fn on_fetch_snapshot(
        &mut self,
        from: ReplicaId,
        first_op: OpNumber,
        position: u64,
    ) -> Result<(), Ignored> {
        if self.status == Status::Recovering || self.installing {
            return Err(Ignored::Status);
        }
        self.effects.push_back(Effect::ServeSnapshot { to: from, first_op, position });
        Ok(())
    }

    pub(super) fn on_snapshot(
        &mut self,
        from: ReplicaId,
        view: ViewNumber,
        info: SnapshotInfo,
        position: u64,
        chunk: &Bytes,
    ) -> Result<(), Ignored> {
        if view != self.view || self.truncating || self.installing {
            return Err(Ignored::Status);
        }
        let end = position.checked_add(chunk.len() as u64);
        let sound = info.first_op > OpNumber::ZERO
            && info.length <= SNAPSHOT_MAX
            && chunk.len() <= CHUNK_MAX
            && end.is_some_and(|end| end <= info.length);
        if !sound {
            return Err(Ignored::Malformed);
        }
        let base = OpNumber(info.first_op.0 - 1);
        let source = match (&self.catch_up.adoption, self.status) {
            (Some(adoption), _) => adoption.source,
            (None, Status::Normal) if self.catch_up.wanted.is_some() => self.primary(),
            _ => return Err(Ignored::Status),
        };
        if from != source || from == self.config.replica {
            return Err(Ignored::Role);
        }
        if self.status != Status::Normal && self.durable_view < Some(self.view) {
            return Err(Ignored::Status);
        }
        if base <= self.applied {
            return Err(Ignored::Duplicate);
        }
        if self.entry_id(base) == Some(info.parent) {
            // This log goes that far and is the same: no snapshot is needed.
            if let Some(adoption) = &mut self.catch_up.adoption {
                adoption.proven = adoption.proven.max(base);
            }
            self.catch_up.asked = None;
            self.advance_adoption();
            return Ok(());
        }
        if self.status == Status::Normal && base <= self.head {
            return Err(Ignored::Identity);
        }
        match &mut self.catch_up.transfer {
            Some(transfer) if transfer.info == info && transfer.source == from => {
                if position != transfer.bytes.len() as u64 {
                    return Err(Ignored::Duplicate);
                }
                transfer.bytes.extend_from_slice(chunk);
            }
            _ if position == 0 => {
                let bytes = BytesMut::from(chunk.as_ref());
                self.catch_up.transfer = Some(Transfer { source: from, info, bytes });
            }
            _ => return Err(Ignored::Gap),
        }
        self.wake_timer(timers::FETCH_NS);
        let received = self.catch_up.transfer.as_ref().map_or(0, |transfer| transfer.bytes.len() as u64);
        if received < info.length {
            let body = MessageBody::FetchSnapshot { first_op: info.first_op, position: end.expect("checked") };
            self.send(Target::Replica(from), body);
            return Ok(());
        }
        let bytes = self.catch_up.transfer.take().map(|transfer| transfer.bytes.freeze()).unwrap_or_default();
        if XxHash3_128::oneshot(&bytes) != info.checksum {
            return Err(Ignored::Malformed);
        }
        self.install(info, bytes);
        Ok(())
    }

    /// Gives up the log for a snapshot that goes beyond what was applied here.
    fn install(&mut self, info: SnapshotInfo, bytes: Bytes) {
        let base = OpNumber(info.first_op.0 - 1);
        self.installing = true;
        self.in_flight.clear();
        self.in_flight_bytes = 0;
        (self.head, self.head_id, self.head_timestamp) = (base, info.parent, info.timestamp);
        (self.applied, self.applied_id, self.applied_timestamp) = (base, info.parent, info.timestamp);
        self.commit_max = self.commit_max.max(base);
        self.unknown_to = self.unknown_to.max(base);
        self.durable = OpNumber::ZERO;
        self.catch_up.asked = None;
        if let Some(adoption) = &mut self.catch_up.adoption {
            adoption.proven = adoption.proven.max(base);
        }
        self.effects.push_back(Effect::Install(info, bytes));
    }

    /// What [`Effect::Install`] asked for is done.
    pub fn handle_installed(&mut self) {
        assert!(self.installing);
        self.installing = false;
        self.durable = self.head;
        if self.status == Status::Normal {
            self.fetch_again();
        } else {
            self.try_cast();
            self.advance_adoption();
        }
    }

    /// View and log view that the vote log holds for certain; `None` before the first promise.
    pub fn promised(&self) -> Option<(ViewNumber, ViewNumber)> {
        self.durable_view.zip(self.durable_log_view)
    }
}
