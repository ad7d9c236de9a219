//! What a partition does because its group has other replicas.

use super::{Answer, Applied, Context, HINTS, PartitionGroup, Work, not_primary, refuse};
use crate::effect::Effect;
use crate::request::{Identity, Refusal};
use bytes::Bytes;
use whippet_log::RecoveryError;
use whippet_partition::{Control, PartitionState};
use whippet_protocol::ErrorCode;
use whippet_storage::{RecoverySource, StorageCompletion};
use whippet_vsr::{self as vsr, Ignored, Message, Now, OpNumber, SnapshotInfo};

impl PartitionGroup {
    /// The metadata log emptied the topic; whoever leads the partition sees to it.
    pub(crate) fn purge(&mut self, intent: u64, cx: &mut Context<'_>) {
        self.settings.purged_by = self.settings.purged_by.max(intent);
        let control = Control::Purge { intent };
        self.push(Work::Control { identity: Identity::default(), control }, Answer::Nobody, cx);
    }

    /// Reads the snapshot with which the log begins, for peers that lag too far.
    pub(crate) fn offer_base(&mut self, source: &dyn RecoverySource) -> Result<(), RecoveryError> {
        self.member.offer_base(source, self.group)?;
        Ok(())
    }

    /// The state is that of a peer's snapshot from now on.
    pub(super) fn install(&mut self, info: SnapshotInfo, bytes: &Bytes, cx: &mut Context<'_>) {
        let state = match PartitionState::restore(bytes) {
            Ok(state) => state,
            Err(reason) => {
                let text = format!("group {}: the snapshot that a peer sent can't be used: {reason}", self.group);
                return cx.io.effects.push_back(Effect::Fatal(text));
            }
        };
        self.member.replace(info, bytes, state.next_offset, state.generation);
        self.applied = Applied { op: OpNumber(info.first_op.0 - 1), id: info.parent, timestamp: info.timestamp };
        self.state = state;
        self.limit = None;
        self.hints = [None; HINTS];
    }

    /// This replica leads no more, or no view at all: what it was asked for may happen elsewhere, or never.
    pub(super) fn leave(&mut self, cx: &mut Context<'_>) {
        self.barrier = false;
        self.in_flight_requests.clear();
        for (_, answers) in std::mem::take(&mut self.in_flight) {
            for answer in answers {
                refuse(answer, Refusal::of(ErrorCode::TransientNotCommitted), cx);
            }
        }
        self.refuse_waiting(not_primary(), cx);
    }

    /// A view has begun: numbering goes on behind everything that the log holds, once it is executed.
    pub(super) fn begin(&mut self, cx: &mut Context<'_>) {
        self.renumber = true;
        self.barrier = false;
        if self.member.replica.is_primary() && self.settings.purged_by > self.state.purge_intent {
            // The primary before may not have come to it.
            let control = Control::Purge { intent: self.settings.purged_by };
            self.push(Work::Control { identity: Identity::default(), control }, Answer::Nobody, cx);
        }
    }

    /// A peer said something; bodies are checked before anything else looks at them.
    pub(crate) fn handle_message(&mut self, message: Message, now: Now) -> Result<(), Ignored> {
        if let vsr::MessageBody::Prepare { entry, .. } | vsr::MessageBody::Entry(entry) = &message.body
            && !whippet_partition::body_is_intact(entry)
        {
            return Err(Ignored::Malformed);
        }
        self.member.replica.handle_message(message, now.monotonic_ns)
    }

    /// Bytes for a peer have been read.
    pub(crate) fn handle_served(&mut self, serving: u64, completion: StorageCompletion, cx: &mut Context<'_>) {
        self.member.handle_served(serving, completion, whippet_partition::body_is_intact, cx.io);
    }
}
