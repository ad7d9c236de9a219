//! A whole run: faults, heal, rest, history; and the search for the fewest faults that still break it.

use crate::check::{Violation, violation};
use crate::fault::Fault;
use crate::profile::{Profile, Scale};
use crate::world::World;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use whippet_protocol::batch::{batches, messages};
use whippet_shard::{Consumer, Identity, Reply, Request, Strategy};
use whippet_vsr::GroupId;

const MS: u64 = 1_000_000;
/// Virtual time within which a healed cluster must come to rest.
const REST_WITHIN_NS: u64 = 60_000 * MS;

/// What happened in a run, or in many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Process starts.
    pub starts: u64,
    /// Faults that took effect.
    pub faults: u64,
    /// Processes killed.
    pub kills: u64,
    /// Machines that lost power.
    pub power_losses: u64,
    /// Storage operations.
    pub storage: u64,
    /// Beats.
    pub beats: u64,
    /// Votes sent.
    pub votes: u64,
    /// Starts of views sent.
    pub start_views: u64,
    /// Views after the first one that began.
    pub views: u64,
    /// Requests for missing entries.
    pub fetches: u64,
    /// Parts of snapshots sent to peers.
    pub snapshots: u64,
    /// Requests that clients saw answered.
    pub answered: u64,
    /// Requests that clients repeated.
    pub repeated: u64,
    /// Ops that were executed by more than one replica and compared.
    pub compared: u64,
    /// Times that every partition was emptied.
    pub purges: u64,
    /// Messages that every replica was found to hold.
    pub messages: u64,
    /// Frames delivered.
    pub frames: u64,
    /// Frames lost.
    pub lost: u64,
}

impl Counters {
    /// Adds another run's.
    pub fn add(&mut self, other: &Counters) {
        let Counters {
            starts,
            faults,
            kills,
            power_losses,
            storage,
            beats,
            votes,
            start_views,
            views,
            fetches,
            snapshots,
            answered,
            repeated,
            compared,
            purges,
            messages,
            frames,
            lost,
        } = other;
        for (mine, theirs) in [
            (&mut self.starts, starts),
            (&mut self.faults, faults),
            (&mut self.kills, kills),
            (&mut self.power_losses, power_losses),
            (&mut self.storage, storage),
            (&mut self.beats, beats),
            (&mut self.votes, votes),
            (&mut self.start_views, start_views),
            (&mut self.views, views),
            (&mut self.fetches, fetches),
            (&mut self.snapshots, snapshots),
            (&mut self.answered, answered),
            (&mut self.repeated, repeated),
            (&mut self.compared, compared),
            (&mut self.purges, purges),
            (&mut self.messages, messages),
            (&mut self.frames, frames),
            (&mut self.lost, lost),
        ] {
            *mine += theirs;
        }
    }
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The first broken rule.
    pub violation: Option<Violation>,
    /// Hash over everything that happened: equal for equal runs.
    pub trace_hash: u64,
    /// What happened.
    pub counters: Counters,
    /// Virtual time, in nanoseconds.
    pub time_ns: u64,
    /// Virtual time from the end of faults to rest, in nanoseconds.
    pub rest_ns: u64,
    /// The faults of the run.
    pub faults: Vec<Fault>,
    /// The replicas at the end, a line each.
    pub status: String,
}

/// Runs a seed without the faults in `without`.
pub fn run(seed: u64, profile: &Profile, without: &BTreeSet<u32>) -> Outcome {
    let mut world = World::new(seed, profile, without);
    let mut rest_ns = 0;
    let result = catch_unwind(AssertUnwindSafe(|| whole(&mut world, profile, &mut rest_ns)));
    let found = match result {
        Ok(Ok(())) => None,
        Ok(Err(violation)) => Some(violation),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            Some(Violation { rule: "assertion", text: text.unwrap_or_else(|| "a panic without words".into()) })
        }
    };
    let mut counters = world.counters;
    counters.compared = world.checker.compared;
    counters.views = world.checker.views;
    counters.answered = world.clients.iter().map(|client| client.answered).sum();
    counters.repeated = world.clients.iter().map(|client| client.repeated).sum();
    (counters.frames, counters.lost) = world.links();
    Outcome {
        violation: found,
        trace_hash: world.trace_hash(),
        counters,
        time_ns: world.now_ns,
        rest_ns,
        faults: world.faults().to_vec(),
        status: world.status(),
    }
}

fn whole(world: &mut World, profile: &Profile, rest_ns: &mut u64) -> Result<(), Violation> {
    world.run_for(profile.duration_ms * MS)?;
    world.heal();
    let healed = world.now_ns;
    // Clients go on for a while, so that a cluster that only looks well is found out.
    world.run_for(2_000 * MS)?;
    for client in &mut world.clients {
        client.stopped = true;
    }
    loop {
        world.run_for(50 * MS)?;
        let Some(reason) = world.unsettled() else { break };
        if world.now_ns > healed + REST_WITHIN_NS {
            return violation("L1-L3 rest", format!("after {} s: {reason}", REST_WITHIN_NS / 1000 / MS));
        }
    }
    *rest_ns = world.now_ns - healed;
    // L4: at rest nobody says anything but beats, and nothing is written. Frames that a link held back for long may come
    // meanwhile, and are answered.
    let mut seen = (0, 0);
    for attempt in 0..15 {
        world.run_for(3_000 * MS)?;
        let now = (world.busy, world.counters.storage);
        if attempt > 0 && now == seen {
            return history(world, profile);
        }
        if attempt == 14 {
            let (frames, operations) = (now.0 - seen.0, now.1 - seen.1);
            return violation("L4 quiescence", format!("{frames} frames and {operations} storage operations at rest"));
        }
        seen = now;
    }
    Ok(())
}

/// What clients were told against what every replica holds.
fn history(world: &mut World, profile: &Profile) -> Result<(), Violation> {
    let groups: Vec<GroupId> = match profile.scale {
        Scale::Deep => world.groups.clone(),
        // A sample: reading all of them takes longer than the run.
        Scale::Wide(_) => world.groups.iter().copied().step_by(37).collect(),
    };
    for group in groups {
        let mut first: Option<Vec<(u64, Vec<u8>)>> = None;
        for node in 0..profile.nodes {
            let held = read(world, node, group)?;
            for (at, (offset, _)) in held.iter().enumerate() {
                if *offset != at as u64 {
                    let around: Vec<u64> =
                        held[at.saturating_sub(3)..held.len().min(at + 3)].iter().map(|(offset, _)| *offset).collect();
                    let text = format!("node {node}, {group}: offset {offset} is number {at}: {around:?}");
                    return violation("H5 gaps", text);
                }
            }
            match &first {
                Some(known) if *known != held => {
                    return violation("H7 prefix", format!("node {node}, {group}: another log than node 0"));
                }
                Some(_) => {}
                None => first = Some(held),
            }
        }
        check_group(world, group, &first.unwrap_or_default())?;
    }
    Ok(())
}

fn check_group(world: &mut World, group: GroupId, held: &[(u64, Vec<u8>)]) -> Result<(), Violation> {
    let sent: BTreeMap<&[u8], &crate::client::Sent> =
        world.history.iter().filter(|sent| sent.group == group).map(|sent| (sent.payload.as_slice(), sent)).collect();
    let mut seen: BTreeMap<&[u8], u64> = BTreeMap::new();
    let mut newest: BTreeMap<u32, u64> = BTreeMap::new();
    for (offset, payload) in held {
        let Some(sent) = sent.get(payload.as_slice()) else {
            return violation("H3 phantom", format!("{group}: offset {offset} holds what nobody sent"));
        };
        if let Some(before) = seen.insert(payload, *offset) {
            return violation(
                "H2 duplicate",
                format!("{group}: client {} number {} is at {before} and at {offset}", sent.client, sent.number),
            );
        }
        if let Some(before) = newest.insert(sent.client, sent.number)
            && before > sent.number
        {
            return violation("H4 order", format!("{group}: client {}: {} after {before}", sent.client, sent.number));
        }
    }
    let purge = world.purges.get(&group).copied();
    for sent in sent.values() {
        if let (Some((acknowledged, _)), Some((asked, _))) = (sent.acknowledged, purge.and_then(|purge| purge.done))
            && acknowledged < asked
            && purge.is_some_and(|purge| !purge.open)
            && seen.contains_key(sent.payload.as_slice())
        {
            return violation(
                "H11 purge",
                format!("{group}: client {} number {} was there before it was emptied", sent.client, sent.number),
            );
        }
        // What was under way when the partition was emptied may be gone.
        let survives =
            purge.is_none_or(|purge| !purge.open && purge.done.is_some_and(|(_, done)| sent.invoked_ns > done));
        if let Some((_, offset)) = sent.acknowledged
            && survives
            && seen.get(sent.payload.as_slice()) != Some(&offset)
        {
            return violation(
                "H1 lost",
                format!(
                    "{group}: client {} number {} was acknowledged at offset {offset}, and is at {:?}",
                    sent.client,
                    sent.number,
                    seen.get(sent.payload.as_slice())
                ),
            );
        }
    }
    world.counters.messages += held.len() as u64;
    Ok(())
}

fn read(world: &mut World, node: u8, group: GroupId) -> Result<Vec<(u64, Vec<u8>)>, Violation> {
    let mut found: Vec<(u64, Vec<u8>)> = Vec::new();
    loop {
        let request = Request::Poll {
            group,
            consumer: Consumer::Single(0),
            strategy: Strategy::Offset(found.last().map_or(0, |(offset, _)| offset + 1)),
            count: 1000,
            max_bytes: 4 << 20,
            auto_commit: false,
            identity: Identity::default(),
        };
        match world.call(node, request)? {
            Some(Reply::Polled(polled)) if polled.count == 0 => return Ok(found),
            Some(Reply::Polled(polled)) => {
                let bytes: Vec<u8> = polled.chunks.iter().flat_map(|chunk| chunk.to_vec()).collect();
                found.extend(batches(&bytes).flat_map(messages).map(|m| (m.offset, m.payload.to_vec())));
            }
            other => return violation("H8 poll", format!("node {node}, {group}: {other:?}")),
        }
    }
}

/// The fewest faults with which the seed still breaks a rule: those to leave out, and the outcome.
pub fn shrink(seed: u64, profile: &Profile, attempts: u32) -> (BTreeSet<u32>, Outcome) {
    let mut without = BTreeSet::new();
    let mut outcome = run(seed, profile, &without);
    let mut left: Vec<u32> = outcome.faults.iter().map(|fault| fault.id).collect();
    let mut size = left.len().div_ceil(2);
    let mut tried = 0;
    while size > 0 && tried < attempts && outcome.violation.is_some() {
        let mut shrunk = false;
        for chunk in left.clone().chunks(size) {
            if tried >= attempts {
                break;
            }
            tried += 1;
            let mut candidate = without.clone();
            candidate.extend(chunk);
            let other = run(seed, profile, &candidate);
            if other.violation.is_some() {
                left.retain(|id| !candidate.contains(id));
                (without, outcome, shrunk) = (candidate, other, true);
            }
        }
        size = if size == 1 && !shrunk { 0 } else { size.div_ceil(2).min(size.max(2) - 1).max(1) };
        if size == 1 && !shrunk && left.len() <= 1 {
            break;
        }
    }
    (without, outcome)
}
