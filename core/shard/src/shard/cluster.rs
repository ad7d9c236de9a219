//! What a shard does because its node has peers: beats, claims, suspicion, promises, frames.

use super::Shard;
use crate::effect::Effect;
use crate::frame::Frame;
use crate::member::retry_at;
use crate::metadata_group::MetadataGroup;
use crate::peers::{UNCOVERED_NS, digest_jitter};
use crate::tickets::{METADATA_SLOT, Owner};
use std::collections::BTreeMap;
use whippet_vsr::{GroupId, Message, Now, Replica, ReplicaId, Status, Target};

/// Messages that go into one frame, at most.
const MESSAGES_MAX: usize = 1024;

impl Shard {
    /// The replica of a group on this node.
    pub fn replica(&self, group: GroupId) -> Option<&Replica> {
        if group == GroupId::METADATA {
            return self.metadata.as_ref().map(MetadataGroup::replica);
        }
        self.partition(group).map(|partition| &partition.member.replica)
    }

    /// The groups that this shard hosts, in order.
    pub fn groups(&self) -> impl Iterator<Item = GroupId> + '_ {
        self.metadata.iter().map(|_| GroupId::METADATA).chain(self.by_group.keys().copied())
    }

    /// The partitions that the metadata as committed on this node has, on the shard that hosts it.
    pub fn committed_partitions(&self) -> Vec<GroupId> {
        let partitions = self.metadata.iter().flat_map(|metadata| metadata.state().all_partitions());
        partitions.map(|settings| GroupId { number: settings.group.number, life: settings.group.life }).collect()
    }

    fn replica_at(&mut self, slot: u32) -> Option<&mut Replica> {
        if slot == METADATA_SLOT {
            return self.metadata.as_mut().map(MetadataGroup::replica_mut);
        }
        self.slots.get_mut(slot as usize)?.as_mut().map(|partition| &mut partition.member.replica)
    }

    fn slot_of(&self, group: GroupId) -> Option<u32> {
        if group == GroupId::METADATA {
            return self.metadata.as_ref().map(|_| METADATA_SLOT);
        }
        self.by_group.get(&group).copied()
    }

    fn touch(&mut self, slot: u32) {
        if slot == METADATA_SLOT {
            self.metadata_touched = true;
        } else {
            self.touched.insert(slot);
        }
    }

    fn all_slots(&self) -> Vec<u32> {
        self.metadata.iter().map(|_| METADATA_SLOT).chain(self.by_group.values().copied()).collect()
    }

    pub(super) fn handle_frame(&mut self, from: ReplicaId, frame: Frame, now: Now) {
        if from == self.config.replica || from.0 >= self.config.replica_count {
            return;
        }
        if self.peers.heard(from, now.monotonic_ns) {
            self.node_changed(from, now);
        }
        match frame {
            Frame::Beat(beat) => {
                if !self.peers.check(from, beat) {
                    self.send(from, Frame::ClaimsWanted);
                }
            }
            Frame::Claims { incarnation, all, led } => {
                for group in self.peers.claimed(from, incarnation, all, led) {
                    if let Some(slot) = self.slot_of(group) {
                        self.check_cover(slot, now);
                    }
                }
            }
            Frame::ClaimsWanted => {
                let (incarnation, led) = (self.peers.incarnation(), self.peers.all_led());
                self.send(from, Frame::Claims { incarnation, all: true, led });
            }
            Frame::Groups(messages) => {
                for message in messages {
                    self.handle_message(from, message, now);
                }
            }
        }
    }

    fn handle_message(&mut self, from: ReplicaId, message: Message, now: Now) {
        let group = message.envelope.group;
        // A group that is not here yet or any more: whoever speaks says it again.
        let Some(slot) = self.slot_of(group).filter(|_| message.envelope.from == from) else { return };
        let result = if slot == METADATA_SLOT {
            self.metadata.as_mut().map(|metadata| metadata.handle_message(message, now))
        } else {
            self.slots[slot as usize].as_mut().map(|partition| partition.handle_message(message, now))
        };
        if result.is_some() {
            self.touch(slot);
        }
    }

    fn send(&mut self, to: ReplicaId, frame: Frame) {
        self.io.effects.push_back(Effect::Peer { to, frame });
    }

    /// Sends what groups have to say, all of them to one peer in one frame.
    pub(super) fn send_messages(&mut self) {
        let fresh = self.peers.take_fresh();
        if !fresh.is_empty() {
            let incarnation = self.peers.incarnation();
            for other in self.peers.others() {
                self.send(other, Frame::Claims { incarnation, all: false, led: fresh.clone() });
            }
        }
        if self.io.outbox.is_empty() {
            return;
        }
        let mut frames: BTreeMap<ReplicaId, Vec<Message>> = BTreeMap::new();
        for (target, message) in std::mem::take(&mut self.io.outbox) {
            match target {
                Target::Replica(other) => frames.entry(other).or_default().push(message),
                Target::Others => {
                    for other in self.peers.others() {
                        frames.entry(other).or_default().push(message.clone());
                    }
                }
            }
        }
        for (to, messages) in frames {
            for part in messages.chunks(MESSAGES_MAX) {
                self.send(to, Frame::Groups(part.to_vec()));
            }
        }
    }

    /// Makes what groups promise durable.
    pub(super) fn make_promises(&mut self, now: Now) {
        for record in std::mem::take(&mut self.io.votes) {
            self.votes.push(record);
        }
        if self.votes_deadline_ns.is_some_and(|deadline| deadline <= now.monotonic_ns) {
            self.votes.retry();
        }
        self.votes.drive(&mut self.io.issuer(Owner::Votes));
        let deadline = self.votes_deadline_ns;
        self.votes_deadline_ns = self.votes.needs_retry().then(|| retry_at(deadline, now.monotonic_ns));
    }

    /// Tells groups what has become durable of their promises.
    pub(super) fn take_promises(&mut self) {
        for record in self.votes.take_durable() {
            let Some(slot) = self.slot_of(record.group) else { continue };
            if let Some(replica) = self.replica_at(slot) {
                replica.handle_persisted(&record);
                self.touch(slot);
            }
        }
    }

    pub(super) fn peers_timeout_ns(&self) -> Option<u64> {
        self.peers.timeout_ns()
    }

    pub(super) fn look_at_peers(&mut self, now: Now) {
        let look = self.peers.look(now.monotonic_ns);
        if !look.beat {
            return;
        }
        let beat = self.peers.beat();
        for other in self.peers.others() {
            self.send(other, Frame::Beat(beat));
        }
        for other in look.changed {
            self.node_changed(other, now);
        }
        let due: Vec<u32> = self
            .uncovered
            .iter()
            .filter(|(slot, since)| {
                now.monotonic_ns >= **since + UNCOVERED_NS + digest_jitter(self.config.replica, **slot)
            })
            .map(|(slot, _)| *slot)
            .collect();
        for slot in due {
            if let Some(replica) = self.replica_at(slot) {
                replica.suspect(now.monotonic_ns);
                self.touch(slot);
            }
        }
    }

    /// A node has become silent, or is heard again.
    fn node_changed(&mut self, _node: ReplicaId, now: Now) {
        let away = self.peers.away();
        for slot in self.all_slots() {
            if let Some(replica) = self.replica_at(slot) {
                replica.set_away(away, now.monotonic_ns);
                self.touch(slot);
            }
        }
    }

    /// Looks whether somebody leads the group in this replica's view, and tells peers what this node leads.
    pub(super) fn check_cover(&mut self, slot: u32, now: Now) {
        if self.config.replica_count == 1 {
            return;
        }
        let Some(replica) = self.replica_at(slot) else { return };
        let (group, view, primary) = (replica.group(), replica.view(), replica.primary());
        let (status, leads) = (replica.status(), replica.is_primary());
        self.peers.lead(group, leads.then_some(view));
        let covered = leads || status != Status::Normal || self.peers.covers(primary, group, view);
        if covered {
            self.uncovered.remove(&slot);
            if let Some(replica) = self.replica_at(slot).filter(|_| status == Status::Normal && !leads) {
                replica.trust();
            }
            return;
        }
        let silent = self.peers.is_suspected(primary);
        self.uncovered.entry(slot).or_insert(now.monotonic_ns);
        if silent && let Some(replica) = self.replica_at(slot) {
            replica.suspect(now.monotonic_ns);
        }
    }
}
