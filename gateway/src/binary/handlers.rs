//! What each command does: read the body, call the operation, write the reply's body.

use super::{Body, encode};
use crate::caller::Caller;
use crate::connections::Connection;
use crate::error::{GatewayError, of_send_target};
use crate::gateway::Gateway;
use crate::ops::borrowed;
use crate::views::{ConsumerRef, NodeView};
use bytes::{BufMut, BytesMut};
use whippet_metadata::TopicOptionsPatch;
use whippet_metadata::options::Purpose;
use whippet_protocol::frame::RESULT_OK;
use whippet_protocol::limits::FRAME_HEADER_SIZE;
use whippet_protocol::send::{
    ConsumerRef as WireConsumerRef, PollMessages, PollStart, SendMessages, consumer_key, poll_reply_head,
};
use whippet_protocol::wire::{self, WireConsumer, WireOptions, identifier, name, requests};
use whippet_protocol::{Command, ErrorCode};
use whippet_shard::{Consumer, Strategy};

/// Partition id in the reply to a poll of a group whose partitions the caller does not own: look again.
const RESYNC: u32 = u32::MAX;

/// What a handler works with.
pub(super) struct Request<'a> {
    pub(super) gateway: &'a Gateway,
    pub(super) connection: &'a Connection,
    pub(super) caller: Caller,
    /// The session of the connection: client id and number.
    pub(super) session: (u128, u64),
    pub(super) command: Command,
    /// The whole frame, header included.
    pub(super) frame: BytesMut,
}

type Answer = Result<Body, GatewayError>;

/// An entry list of a request's options block.
fn entries(options: &WireOptions) -> Result<Vec<(String, u8, Vec<u8>)>, ErrorCode> {
    let bytes: &[u8] = options.as_bytes();
    let mut rest = bytes;
    let mut entries = Vec::new();
    let mut take = |count: usize| -> Result<&[u8], ErrorCode> {
        let (taken, behind) = rest.split_at_checked(count).ok_or(ErrorCode::InvalidCommand)?;
        rest = behind;
        Ok(taken)
    };
    let mut left = bytes.len();
    while left > 0 {
        take(1)?;
        let length = u32::from_le_bytes(take(4)?.try_into().map_err(|_| ErrorCode::InvalidCommand)?) as usize;
        let key = std::str::from_utf8(take(length)?).map_err(|_| ErrorCode::InvalidCommand)?.to_owned();
        let kind = take(1)?[0];
        let value_length = u32::from_le_bytes(take(4)?.try_into().map_err(|_| ErrorCode::InvalidCommand)?) as usize;
        let value = take(value_length)?.to_vec();
        left -= 10 + length + value_length;
        entries.push((key, kind, value));
    }
    Ok(entries)
}

fn topic_options(options: &WireOptions, purpose: Purpose) -> Result<TopicOptionsPatch, ErrorCode> {
    let entries = entries(options)?;
    TopicOptionsPatch::from_entries(
        entries.iter().map(|(key, kind, value)| (key.as_str(), *kind, value.as_slice())),
        purpose,
    )
}

/// Streams have no options.
fn no_options(options: &WireOptions) -> Result<(), ErrorCode> {
    if options.as_bytes().is_empty() { Ok(()) } else { Err(ErrorCode::UnsupportedOptionKey) }
}

fn done() -> Body {
    Body::new(4, |out| out.put_slice(&RESULT_OK))
}

fn consumer(wire: &WireConsumer) -> Result<ConsumerRef, ErrorCode> {
    match wire.kind {
        1 => Ok(ConsumerRef::Single(identifier(&wire.id))),
        2 => Ok(ConsumerRef::Group(identifier(&wire.id))),
        _ => Err(ErrorCode::InvalidCommand),
    }
}

impl Request<'_> {
    fn body(&self) -> &[u8] {
        &self.frame[FRAME_HEADER_SIZE..]
    }

    fn nothing_behind(&self) -> Result<(), ErrorCode> {
        if self.body().is_empty() { Ok(()) } else { Err(ErrorCode::InvalidCommand) }
    }

    /// Runs a command that is offered.
    pub(super) async fn run(self) -> Answer {
        match self.command {
            Command::Ping => {
                self.nothing_behind()?;
                Ok(Body::empty())
            }
            Command::SendMessages => self.send_messages().await,
            Command::PollMessages | Command::PollMessagesOnPrimary => self.poll_messages().await,
            Command::GetConsumerOffset | Command::StoreConsumerOffset | Command::DeleteConsumerOffset => {
                self.offsets().await
            }
            Command::GetPollRouting | Command::GetConsumerOffsetRouting | Command::AttachConsumerSession => {
                self.routing()
            }
            Command::GetStream
            | Command::GetStreams
            | Command::CreateStream
            | Command::UpdateStream
            | Command::DeleteStream
            | Command::PurgeStream => self.streams().await,
            Command::GetTopic
            | Command::GetTopics
            | Command::CreateTopic
            | Command::UpdateTopic
            | Command::DeleteTopic
            | Command::PurgeTopic
            | Command::CreatePartitions
            | Command::DeletePartitions => self.topics().await,
            Command::GetStats
            | Command::GetClusterMetadata
            | Command::DescribeOptions
            | Command::GetMe
            | Command::GetClient
            | Command::GetClients => self.system().await,
            _ => Err(ErrorCode::FeatureUnavailable.into()),
        }
    }

    async fn send_messages(self) -> Answer {
        let Request { gateway, caller, frame, .. } = self;
        let body = &frame[FRAME_HEADER_SIZE..];
        let send = SendMessages::parse(body)?;
        let (count, batch) = (send.count, FRAME_HEADER_SIZE + send.batch_start..frame.len());
        let target = gateway.target(send.stream, send.topic, send.partitioning).map_err(of_send_target)?;
        whippet_protocol::batch::verify(&frame[batch.clone()], count)?;
        let sent = gateway.append(&caller, target, frame, batch, count).await?;
        Ok(Body::new(24, |out| {
            out.put_u32_le(1);
            out.put_u32_le(sent.stream_id);
            out.put_u32_le(sent.topic_id);
            out.put_u32_le(sent.partition_id);
            out.put_u64_le(sent.base_offset);
        }))
    }

    async fn poll_messages(self) -> Answer {
        let poll = PollMessages::parse(self.body())?;
        let strategy = match poll.start {
            PollStart::Offset(offset) => Strategy::Offset(offset),
            PollStart::Timestamp(timestamp) => Strategy::Timestamp(timestamp),
            PollStart::First => Strategy::First,
            PollStart::Last => Strategy::Last,
            PollStart::Next => Strategy::Next,
        };
        if matches!(poll.consumer, WireConsumerRef::Group(_)) && poll.partition.is_none() {
            return Err(ErrorCode::InvalidIdentifier.into());
        }
        let target = self.gateway.source(poll.stream, poll.topic, poll.partition)?;
        let consumer = match poll.consumer {
            WireConsumerRef::Single(id) => Consumer::Single(consumer_key(id)),
            // There are no groups yet, so the caller is a member of none: the answer of a fenced poll.
            WireConsumerRef::Group(_) => {
                return Ok(Body::new(16, |out| out.put_slice(&poll_reply_head(RESYNC, 0, 0))));
            }
        };
        let polled = self.gateway.read(&self.caller, target, consumer, strategy, poll.count, poll.auto_commit).await?;
        let head = poll_reply_head(polled.partition_id, polled.current_offset, polled.count);
        Ok(Body::new(16, |out| out.put_slice(&head)).with_chunks(polled.chunks))
    }

    async fn offsets(self) -> Answer {
        use requests::consumer_offsets::{
            DeleteConsumerOffsetRequest, GetConsumerOffsetRequest, StoreConsumerOffsetRequest,
        };
        let (gateway, caller) = (self.gateway, &self.caller);
        match self.command {
            Command::GetConsumerOffset => {
                let asked: GetConsumerOffsetRequest = wire::decode(self.body())?;
                let (stream, topic) = (identifier(&asked.stream_id), identifier(&asked.topic_id));
                let found = gateway
                    .get_consumer_offset(caller, &consumer(&asked.consumer)?, &stream, &topic, asked.partition_id)
                    .await?;
                Ok(Body::new(20, |out| {
                    if let Some(found) = found {
                        encode::offset(out, &found);
                    }
                }))
            }
            Command::StoreConsumerOffset => {
                let asked: StoreConsumerOffsetRequest = wire::decode(self.body())?;
                let (stream, topic) = (identifier(&asked.stream_id), identifier(&asked.topic_id));
                let consumer = consumer(&asked.consumer)?;
                gateway
                    .store_consumer_offset(caller, &consumer, &stream, &topic, asked.partition_id, asked.offset)
                    .await?;
                Ok(done())
            }
            Command::DeleteConsumerOffset => {
                let asked: DeleteConsumerOffsetRequest = wire::decode(self.body())?;
                let (stream, topic) = (identifier(&asked.stream_id), identifier(&asked.topic_id));
                gateway
                    .delete_consumer_offset(caller, &consumer(&asked.consumer)?, &stream, &topic, asked.partition_id)
                    .await?;
                Ok(done())
            }
            _ => Err(ErrorCode::FeatureUnavailable.into()),
        }
    }

    /// Where polls and offset writes of a cluster go: on a single node, here.
    fn routing(self) -> Answer {
        let (client, session) = self.session;
        let commit = self.gateway.runtime().commit_number();
        match self.command {
            Command::AttachConsumerSession => {
                let asked: requests::system::attach_consumer_session::AttachConsumerSessionRequest =
                    wire::decode(self.body())?;
                let known = self.gateway.metadata(|state| state.session(asked.client_id));
                match known {
                    Some(known) if known.session == asked.session && known.user == self.caller.user => {}
                    _ => return Err(ErrorCode::StaleClient.into()),
                }
                if asked.metadata_watermark.max(asked.session) > commit {
                    return Err(ErrorCode::TransientNotAccepted.into());
                }
                return Ok(Body::empty());
            }
            Command::GetPollRouting => {
                let poll = PollMessages::parse(self.body())?;
                if !poll.auto_commit {
                    return Err(ErrorCode::InvalidCommand.into());
                }
                self.gateway.source(poll.stream, poll.topic, poll.partition)?;
                if matches!(poll.consumer, WireConsumerRef::Group(_)) {
                    return Err(ErrorCode::ConsumerGroupPartitionNotOwned.into());
                }
            }
            Command::GetConsumerOffsetRouting => {
                let asked: requests::consumer_offsets::GetConsumerOffsetRequest = wire::decode(self.body())?;
                let (stream, topic) = (identifier(&asked.stream_id), identifier(&asked.topic_id));
                self.gateway.source(borrowed(&stream), borrowed(&topic), asked.partition_id)?;
                if matches!(consumer(&asked.consumer)?, ConsumerRef::Group(_)) {
                    return Err(ErrorCode::ConsumerGroupPartitionNotOwned.into());
                }
            }
            _ => return Err(ErrorCode::FeatureUnavailable.into()),
        }
        let cluster = self.gateway.cluster_metadata();
        let here: &NodeView = cluster.nodes.first().ok_or(ErrorCode::FeatureUnavailable)?;
        Ok(Body::new(128, |out| {
            out.put_u128_le(client);
            out.put_u64_le(session);
            out.put_u64_le(commit);
            encode::node(out, here);
        }))
    }

    async fn streams(self) -> Answer {
        use requests::streams::{
            CreateStreamRequest, DeleteStreamRequest, GetStreamRequest, PurgeStreamRequest, UpdateStreamRequest,
        };
        let (gateway, caller) = (self.gateway, &self.caller);
        match self.command {
            Command::GetStream => {
                let asked: GetStreamRequest = wire::decode(self.body())?;
                let found = gateway.get_stream(caller, &identifier(&asked.stream_id)).await?;
                Ok(Body::new(128, |out| {
                    if let Some(found) = found {
                        encode::stream_details(out, &found);
                    }
                }))
            }
            Command::GetStreams => {
                self.nothing_behind()?;
                let streams = gateway.get_streams(caller).await?;
                Ok(Body::new(64 * streams.len(), |out| streams.iter().for_each(|view| encode::stream(out, view))))
            }
            Command::CreateStream => {
                let asked: CreateStreamRequest = wire::decode(self.body())?;
                no_options(&asked.options)?;
                let details = gateway.create_stream(caller, name(&asked.name)).await?;
                Ok(Body::new(128, |out| {
                    out.put_slice(&RESULT_OK);
                    encode::stream(out, &details.stream);
                }))
            }
            Command::UpdateStream => {
                let asked: UpdateStreamRequest = wire::decode(self.body())?;
                no_options(&asked.options)?;
                gateway.update_stream(caller, identifier(&asked.stream_id), name(&asked.name)).await?;
                Ok(done())
            }
            Command::DeleteStream => {
                let asked: DeleteStreamRequest = wire::decode(self.body())?;
                gateway.delete_stream(caller, identifier(&asked.stream_id)).await?;
                Ok(done())
            }
            Command::PurgeStream => {
                let asked: PurgeStreamRequest = wire::decode(self.body())?;
                gateway.purge_stream(caller, identifier(&asked.stream_id)).await?;
                Ok(done())
            }
            _ => Err(ErrorCode::FeatureUnavailable.into()),
        }
    }

    async fn topics(self) -> Answer {
        use requests::partitions::{CreatePartitionsRequest, DeletePartitionsRequest};
        use requests::topics::{
            CreateTopicRequest, DeleteTopicRequest, GetTopicRequest, GetTopicsRequest, PurgeTopicRequest,
            UpdateTopicRequest,
        };
        let (gateway, caller) = (self.gateway, &self.caller);
        match self.command {
            Command::GetTopic => {
                let asked: GetTopicRequest = wire::decode(self.body())?;
                let found =
                    gateway.get_topic(caller, &identifier(&asked.stream_id), &identifier(&asked.topic_id)).await?;
                Ok(Body::new(512, |out| {
                    if let Some(found) = found {
                        encode::topic_details(out, &found);
                    }
                }))
            }
            Command::GetTopics => {
                let asked: GetTopicsRequest = wire::decode(self.body())?;
                let topics = gateway.get_topics(caller, &identifier(&asked.stream_id)).await?;
                Ok(Body::new(512 * topics.len(), |out| encode::topics(out, &topics)))
            }
            Command::CreateTopic => {
                let asked: CreateTopicRequest = wire::decode(self.body())?;
                let options = topic_options(&asked.options, Purpose::Create)?;
                let stream = identifier(&asked.stream_id);
                let details =
                    gateway.create_topic(caller, stream, name(&asked.name), asked.partitions_count, options).await?;
                Ok(Body::new(512, |out| {
                    out.put_slice(&RESULT_OK);
                    encode::topic_details(out, &details);
                }))
            }
            Command::UpdateTopic => {
                let asked: UpdateTopicRequest = wire::decode(self.body())?;
                let options = topic_options(&asked.options, Purpose::Update)?;
                let (stream, topic) = (identifier(&asked.stream_id), identifier(&asked.topic_id));
                gateway.update_topic(caller, stream, topic, name(&asked.name), options).await?;
                Ok(done())
            }
            Command::DeleteTopic => {
                let asked: DeleteTopicRequest = wire::decode(self.body())?;
                gateway.delete_topic(caller, identifier(&asked.stream_id), identifier(&asked.topic_id)).await?;
                Ok(done())
            }
            Command::PurgeTopic => {
                let asked: PurgeTopicRequest = wire::decode(self.body())?;
                gateway.purge_topic(caller, identifier(&asked.stream_id), identifier(&asked.topic_id)).await?;
                Ok(done())
            }
            Command::CreatePartitions => {
                let asked: CreatePartitionsRequest = wire::decode(self.body())?;
                let (stream, topic) = (identifier(&asked.stream_id), identifier(&asked.topic_id));
                gateway.create_partitions(caller, stream, topic, asked.partitions_count).await?;
                Ok(done())
            }
            Command::DeletePartitions => {
                let asked: DeletePartitionsRequest = wire::decode(self.body())?;
                let (stream, topic) = (identifier(&asked.stream_id), identifier(&asked.topic_id));
                gateway.delete_partitions(caller, stream, topic, asked.partitions_count).await?;
                Ok(done())
            }
            _ => Err(ErrorCode::FeatureUnavailable.into()),
        }
    }

    async fn system(self) -> Answer {
        let (gateway, caller) = (self.gateway, &self.caller);
        match self.command {
            Command::GetStats => {
                self.nothing_behind()?;
                let stats = gateway.stats(caller).await?;
                Ok(Body::new(256, |out| encode::stats(out, &stats)))
            }
            Command::GetClusterMetadata => {
                self.nothing_behind()?;
                Ok(Body::new(128, |out| encode::cluster(out, &gateway.cluster_metadata())))
            }
            Command::DescribeOptions => {
                let asked: requests::system::describe_options::DescribeOptionsRequest = wire::decode(self.body())?;
                let mut written = Ok(());
                let body = Body::new(1024, |out| written = encode::describe_options(out, asked.scope));
                written?;
                Ok(body)
            }
            Command::GetMe => {
                self.nothing_behind()?;
                let me = gateway.client(caller, self.connection.id())?;
                Ok(Body::new(64, |out| {
                    if let Some(me) = me {
                        encode::client(out, &me);
                    }
                }))
            }
            Command::GetClient => {
                let asked: requests::system::get_client::GetClientRequest = wire::decode(self.body())?;
                let found = gateway.client(caller, asked.client_id)?;
                Ok(Body::new(64, |out| {
                    if let Some(found) = found {
                        encode::client(out, &found);
                    }
                }))
            }
            Command::GetClients => {
                self.nothing_behind()?;
                let clients = gateway.clients(caller)?;
                Ok(Body::new(64 * clients.len(), |out| clients.iter().for_each(|info| encode::client(out, info))))
            }
            _ => Err(ErrorCode::FeatureUnavailable.into()),
        }
    }
}
