//! Streams.

use super::{groups_of, topic_view};
use crate::caller::Caller;
use crate::error::{GatewayError, after_commit};
use crate::gateway::{Gateway, unexpected};
use crate::views::{StreamDetails, StreamView};
use whippet_metadata::Stream;
use whippet_metadata::command::{Command, Done};
use whippet_metadata::state::Topic;
use whippet_protocol::{ErrorCode, Identifier, Name};
use whippet_shard::{Reply, Request};
use whippet_vsr::GroupId;

fn view(id: u32, name: Name, created_at: u64) -> StreamView {
    StreamView { id, name, created_at, size_bytes: 0, messages: 0, topics_count: 0 }
}

fn parts(stream: &Stream) -> (StreamView, Vec<Topic>) {
    let topics: Vec<Topic> = stream.topics.values().cloned().collect();
    let mut view = view(stream.id, stream.name.clone(), stream.created_at);
    view.topics_count = topics.len() as u32;
    (view, topics)
}

impl Gateway {
    /// All streams, by id.
    ///
    /// # Errors
    /// 58 when the server is too busy.
    pub async fn get_streams(&self, _caller: &Caller) -> Result<Vec<StreamView>, GatewayError> {
        let streams: Vec<(StreamView, Vec<GroupId>)> = self.metadata(|state| {
            state
                .streams()
                .map(|stream| {
                    let mut view = view(stream.id, stream.name.clone(), stream.created_at);
                    view.topics_count = stream.topics.len() as u32;
                    (view, stream.topics.values().flat_map(groups_of).collect())
                })
                .collect()
        });
        let groups: Vec<GroupId> = streams.iter().flat_map(|(_, groups)| groups.iter().copied()).collect();
        let mut stats = self.partition_stats(&groups).await?.into_iter();
        let sum = |(mut view, groups): (StreamView, Vec<GroupId>)| {
            for stats in stats.by_ref().take(groups.len()) {
                view.size_bytes += stats.size_bytes;
                view.messages += stats.messages;
            }
            view
        };
        Ok(streams.into_iter().map(sum).collect())
    }

    /// A stream with its topics, `None` when there is none.
    ///
    /// # Errors
    /// 58 when the server is too busy.
    pub async fn get_stream(
        &self,
        _caller: &Caller,
        stream: &Identifier,
    ) -> Result<Option<StreamDetails>, GatewayError> {
        let Some((mut view, topics)) = self.metadata(|state| state.stream(stream).ok().map(parts)) else {
            return Ok(None);
        };
        let groups: Vec<GroupId> = topics.iter().flat_map(groups_of).collect();
        let stats = self.partition_stats(&groups).await?;
        let mut rest = stats.as_slice();
        let mut views = Vec::with_capacity(topics.len());
        for topic in &topics {
            let (here, behind) = rest.split_at(topic.partitions.len().min(rest.len()));
            rest = behind;
            let topic = topic_view(topic, here);
            view.size_bytes += topic.size_bytes;
            view.messages += topic.messages;
            views.push(topic);
        }
        Ok(Some(StreamDetails { stream: view, topics: views }))
    }

    /// Creates a stream.
    ///
    /// # Errors
    /// 1012 when the name is used, 1020 when there are as many as there may be.
    pub async fn create_stream(&self, caller: &Caller, name: Name) -> Result<StreamDetails, GatewayError> {
        let text = name.clone();
        match self.propose(caller, Command::CreateStream { name }).await.map_err(|error| named(error, &text))?.done {
            Done::StreamCreated { id, created_at, name } => {
                Ok(StreamDetails { stream: view(id, name, created_at), topics: Vec::new() })
            }
            other => Err(wrong(&other)),
        }
    }

    /// Renames a stream.
    ///
    /// # Errors
    /// 1009, 1012.
    pub async fn update_stream(&self, caller: &Caller, stream: Identifier, name: Name) -> Result<(), GatewayError> {
        let text = name.clone();
        self.propose(caller, Command::UpdateStream { stream, name }).await.map_err(|error| named(error, &text))?;
        Ok(())
    }

    /// Deletes a stream with all that is in it.
    ///
    /// # Errors
    /// 1009.
    pub async fn delete_stream(&self, caller: &Caller, stream: Identifier) -> Result<(), GatewayError> {
        self.propose(caller, Command::DeleteStream { stream }).await?;
        Ok(())
    }

    /// Empties all partitions of a stream.
    ///
    /// # Errors
    /// 1009; 57 when the purge is committed and some partition does not say in time that it is empty.
    pub async fn purge_stream(&self, caller: &Caller, stream: Identifier) -> Result<(), GatewayError> {
        let done = self.propose(caller, Command::PurgeStream { stream }).await?.done;
        self.purge_groups(done).await
    }

    /// Waits until the partitions of a committed purge are empty. Each of them learns of it from the metadata log as well,
    /// also when this node stops in between.
    pub(crate) async fn purge_groups(&self, done: Done) -> Result<(), GatewayError> {
        let Done::Purged { groups, intent } = done else { return Err(wrong(&done)) };
        let purges = groups.into_iter().map(|group| {
            let group = GroupId { number: group.number, life: group.life };
            self.call(Request::Purge { group, intent })
        });
        for purged in futures_util::future::join_all(purges).await {
            match purged {
                // A partition that was deleted meanwhile is empty too.
                Ok(Reply::Done) | Err(GatewayError { code: ErrorCode::PartitionNotFound, .. }) => {}
                Ok(other) => return Err(after_commit(unexpected(&other))),
                Err(error) => return Err(after_commit(error)),
            }
        }
        Ok(())
    }
}

/// Says which name is taken.
pub(crate) fn named(mut error: GatewayError, name: &Name) -> GatewayError {
    if matches!(error.code, ErrorCode::StreamNameAlreadyExists | ErrorCode::TopicNameAlreadyExists) {
        error.reason = format!("the name `{name}` is already used").into();
    }
    error
}

/// A command was answered with the result of another one: a mistake of ours.
pub(crate) fn wrong(done: &Done) -> GatewayError {
    tracing::error!(?done, "a command's result does not belong to it");
    GatewayError::of(ErrorCode::Error)
}
