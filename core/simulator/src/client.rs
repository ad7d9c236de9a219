//! Simulated clients: they number their requests, repeat what is not answered, elsewhere and under the same number, and write
//! down what they were told.

use crate::random::Random;
use bytes::BytesMut;
use whippet_protocol::batch::BatchBuilder;
use whippet_shard::{Consumer, Identity, Reply, Request};
use whippet_vsr::GroupId;

const MS: u64 = 1_000_000;
/// How long a client waits for an answer.
const PATIENCE_NS: u64 = 400 * MS;

/// What a producer knows of one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) group: GroupId,
    pub(crate) client: u32,
    pub(crate) number: u64,
    pub(crate) payload: Vec<u8>,
    pub(crate) invoked_ns: u64,
    /// Acknowledged, when, and at which offset.
    pub(crate) acknowledged: Option<(u64, u64)>,
}

#[derive(Debug)]
enum Doing {
    Send(usize),
    Store(u64),
}

/// A producer that also stores offsets.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) id: u32,
    random: Random,
    number: u64,
    node: u8,
    nodes: u8,
    doing: Option<(Doing, GroupId, u64)>,
    asked_ns: Option<u64>,
    last_offset: Option<u64>,
    pub(crate) stopped: bool,
    pub(crate) answered: u64,
    pub(crate) repeated: u64,
}

impl Client {
    pub(crate) fn new(id: u32, seed: u64, nodes: u8) -> Client {
        Client {
            id,
            random: Random::new(seed, &format!("client {id}")),
            number: 0,
            node: 0,
            nodes,
            doing: None,
            asked_ns: None,
            last_offset: None,
            stopped: false,
            answered: 0,
            repeated: 0,
        }
    }

    /// The number of the request that it is at.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Whether it waits for an answer to something.
    pub(crate) fn is_busy(&self) -> bool {
        self.doing.is_some()
    }

    /// What to ask now, and whom; and when to wake this client again.
    pub(crate) fn wake(
        &mut self,
        groups: &[GroupId],
        history: &mut Vec<Sent>,
        now_ns: u64,
    ) -> (Option<(u8, Request)>, u64) {
        let next = now_ns + self.random.between(1, 30) * MS;
        if self.asked_ns.is_some_and(|asked| now_ns < asked + PATIENCE_NS) || groups.is_empty() {
            return (None, next);
        }
        if self.asked_ns.take().is_some() {
            // No answer: the same again, somewhere else.
            self.elsewhere();
        }
        if self.doing.is_none() {
            if self.stopped {
                return (None, next);
            }
            self.number += 1;
            let group = groups[self.random.below(groups.len() as u64) as usize];
            let doing = match self.last_offset {
                Some(offset) if self.random.chance(100) => Doing::Store(offset),
                _ => {
                    let mut payload = vec![0; self.random.pick(&[8, 100, 3_000]) as usize + 12];
                    payload[..4].copy_from_slice(&self.id.to_le_bytes());
                    payload[4..12].copy_from_slice(&self.number.to_le_bytes());
                    history.push(Sent {
                        group,
                        client: self.id,
                        number: self.number,
                        payload,
                        invoked_ns: now_ns,
                        acknowledged: None,
                    });
                    Doing::Send(history.len() - 1)
                }
            };
            self.doing = Some((doing, group, self.number));
        } else {
            self.repeated += 1;
        }
        self.asked_ns = Some(now_ns);
        let (doing, group, number) = self.doing.as_ref().expect("there is something to do");
        let identity = Identity { client: u128::from(self.id) + 1000, session: 1, request: *number, user: 0 };
        let request = match doing {
            Doing::Send(at) => send(*group, identity, &history[*at].payload),
            Doing::Store(offset) => {
                Request::StoreOffset { group: *group, consumer: Consumer::Single(self.id), offset: *offset, identity }
            }
        };
        (Some((self.node, request)), next)
    }

    fn elsewhere(&mut self) {
        self.node =
            ((u64::from(self.node) + 1 + self.random.below(u64::from(self.nodes))) % u64::from(self.nodes)) as u8;
    }

    /// An answer; what is wrong with it, if anything.
    pub(crate) fn answer(&mut self, number: u64, reply: Reply, history: &mut [Sent], now_ns: u64) -> Option<String> {
        let Some((doing, _, current)) = &self.doing else { return None };
        if *current != number {
            // To an earlier request, which was answered meanwhile.
            return None;
        }
        self.asked_ns = None;
        match (doing, reply) {
            (Doing::Send(at), Reply::Sent { base_offset, .. }) => {
                let sent = &mut history[*at];
                if let Some((_, before)) = sent.acknowledged
                    && before != base_offset
                {
                    return Some(format!("client {} number {} was told two offsets", self.id, sent.number));
                }
                sent.acknowledged = Some((now_ns, base_offset));
                self.last_offset = Some(base_offset);
                self.doing = None;
                self.answered += 1;
            }
            (Doing::Store(_), Reply::Done) => {
                self.doing = None;
                self.answered += 1;
            }
            (Doing::Store(_), Reply::Refused(refusal)) if !is_retryable(&refusal) => {
                // Another partition, or it was emptied: no such offset.
                self.doing = None;
            }
            (_, Reply::Refused(_)) => self.elsewhere(),
            (doing, reply) => return Some(format!("client {} was answered {reply:?} to {doing:?}", self.id)),
        }
        None
    }
}

fn is_retryable(refusal: &whippet_shard::Refusal) -> bool {
    use whippet_protocol::ErrorCode::{PartitionNotFound, TransientNotAccepted, TransientNotCommitted};
    matches!(refusal.code, PartitionNotFound | TransientNotAccepted | TransientNotCommitted)
}

fn send(group: GroupId, identity: Identity, payload: &[u8]) -> Request {
    let mut builder = BatchBuilder::new(256, 5, 0);
    builder.push(1, 5, payload, &[]);
    let (buffer, batch): (BytesMut, _) = builder.finish();
    Request::Send { group, identity, buffer, batch, count: 1 }
}
