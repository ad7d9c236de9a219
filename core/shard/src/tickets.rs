//! Which part of a shard waits for which storage operation.

use crate::effect::Effect;
use std::collections::VecDeque;
use whippet_log::Issue;
use whippet_storage::{StorageEffect, StorageOp, StorageTicket};
use whippet_vsr::GroupId;

/// Stands for the metadata group where a slot is asked for.
pub(crate) const METADATA_SLOT: u32 = u32::MAX;

/// Who is told of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The metadata group's log.
    Metadata,
    /// A partition group's log.
    Partition { slot: u32, group: GroupId },
    /// A poll of a partition.
    Poll { slot: u32, group: GroupId, poll: u64 },
    /// A read for a peer.
    Serve { slot: u32, group: GroupId, serving: u64 },
    /// The group table.
    GroupTable,
    /// The vote log.
    Votes,
    /// Nobody.
    Nobody,
}

/// Outstanding tickets. A ticket holds its place in the table in its low bits and is never used twice.
#[derive(Debug, Default)]
pub(crate) struct Tickets {
    slots: Vec<Option<(StorageTicket, Owner)>>,
    free: Vec<u32>,
    issued: u64,
}

const SLOT_BITS: u32 = 24;

impl Tickets {
    fn take(&mut self, owner: Owner) -> StorageTicket {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as u32
        });
        assert!(slot < 1 << SLOT_BITS, "bounded queues bound the operations in flight");
        self.issued += 1;
        let ticket = StorageTicket(self.issued << SLOT_BITS | u64::from(slot));
        self.slots[slot as usize] = Some((ticket, owner));
        ticket
    }

    /// The owner of a ticket that has completed.
    pub(crate) fn complete(&mut self, ticket: StorageTicket) -> Owner {
        let slot = ticket.0 as usize & ((1 << SLOT_BITS) - 1);
        match self.slots.get_mut(slot) {
            Some(held) if held.is_some_and(|(known, _)| known == ticket) => {
                let (_, owner) = held.take().expect("looked at it");
                self.free.push(slot as u32);
                owner
            }
            _ => panic!("{ticket:?} completed twice or was never issued"),
        }
    }

    /// Operations in flight.
    pub(crate) fn outstanding(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

/// Issues operations in the name of one owner.
pub(crate) struct Issuer<'a> {
    pub(crate) tickets: &'a mut Tickets,
    pub(crate) effects: &'a mut VecDeque<Effect>,
    pub(crate) owner: Owner,
}

impl Issue for Issuer<'_> {
    fn issue(&mut self, op: StorageOp) -> StorageTicket {
        let ticket = self.tickets.take(self.owner);
        self.effects.push_back(Effect::Storage(StorageEffect { ticket, op }));
        ticket
    }
}
