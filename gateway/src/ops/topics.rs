//! Topics.

use super::streams::{named, wrong};
use super::{groups_of, partition_views, topic_view};
use crate::caller::Caller;
use crate::error::{GatewayError, after_commit};
use crate::gateway::Gateway;
use crate::views::{TopicDetails, TopicView};
use whippet_metadata::TopicOptionsPatch;
use whippet_metadata::command::{Command, Done};
use whippet_metadata::state::Topic;
use whippet_protocol::limits::PARTITIONS_PER_REQUEST_MAX;
use whippet_protocol::{ErrorCode, Identifier, Name};
use whippet_vsr::GroupId;

impl Gateway {
    async fn details(&self, topic: &Topic) -> Result<TopicDetails, GatewayError> {
        let groups: Vec<GroupId> = groups_of(topic).collect();
        let stats = self.partition_stats(&groups).await?;
        Ok(TopicDetails { topic: topic_view(topic, &stats), partitions: partition_views(topic, &stats) })
    }

    /// The topics of a stream, by id; none for a stream that does not exist.
    ///
    /// # Errors
    /// 58 when the server is too busy.
    pub async fn get_topics(&self, caller: &Caller, stream: &Identifier) -> Result<Vec<TopicView>, GatewayError> {
        Ok(self.get_stream(caller, stream).await?.map_or_else(Vec::new, |details| details.topics))
    }

    /// A topic with its partitions, `None` when it or its stream does not exist.
    ///
    /// # Errors
    /// 58 when the server is too busy.
    pub async fn get_topic(
        &self,
        _caller: &Caller,
        stream: &Identifier,
        topic: &Identifier,
    ) -> Result<Option<TopicDetails>, GatewayError> {
        match self.metadata(|state| state.topic(stream, topic).ok().map(|(_, topic)| topic.clone())) {
            Some(topic) => self.details(&topic).await.map(Some),
            None => Ok(None),
        }
    }

    /// Creates a topic.
    ///
    /// # Errors
    /// 1009, 2013 when the name is used, 2021 when there are as many as there may be, 2015 for more than 1000 partitions,
    /// 1019 and 4042 for options that do not go together; 57 when it is created and its partitions do not answer in time.
    pub async fn create_topic(
        &self,
        caller: &Caller,
        stream: Identifier,
        name: Name,
        partitions: u32,
        options: TopicOptionsPatch,
    ) -> Result<TopicDetails, GatewayError> {
        if partitions > PARTITIONS_PER_REQUEST_MAX {
            let reason = format!(
                "{partitions} partitions are more than {PARTITIONS_PER_REQUEST_MAX}; create the others afterwards"
            );
            return Err(GatewayError::because(ErrorCode::TooManyPartitions, reason));
        }
        let options = options.for_creation(&self.settings().topic_defaults, partitions)?;
        let text = name.clone();
        let command = Command::CreateTopic { stream, name, partitions, options };
        match self.propose(caller, command).await.map_err(|error| named(error, &text))?.done {
            Done::TopicCreated { topic, .. } => self.details(&topic).await.map_err(after_commit),
            other => Err(wrong(&other)),
        }
    }

    /// Renames a topic and changes options of it.
    ///
    /// # Errors
    /// 1009, 2010, 2013, 1019.
    pub async fn update_topic(
        &self,
        caller: &Caller,
        stream: Identifier,
        topic: Identifier,
        name: Name,
        options: TopicOptionsPatch,
    ) -> Result<(), GatewayError> {
        let text = name.clone();
        self.propose(caller, Command::UpdateTopic { stream, topic, name, options })
            .await
            .map_err(|error| named(error, &text))?;
        Ok(())
    }

    /// Deletes a topic with all its messages.
    ///
    /// # Errors
    /// 1009, 2010.
    pub async fn delete_topic(
        &self,
        caller: &Caller,
        stream: Identifier,
        topic: Identifier,
    ) -> Result<(), GatewayError> {
        self.propose(caller, Command::DeleteTopic { stream, topic }).await?;
        Ok(())
    }

    /// Empties all partitions of a topic.
    ///
    /// # Errors
    /// 1009, 2010; 57 when the purge is committed and some partition does not say in time that it is empty.
    pub async fn purge_topic(
        &self,
        caller: &Caller,
        stream: Identifier,
        topic: Identifier,
    ) -> Result<(), GatewayError> {
        let done = self.propose(caller, Command::PurgeTopic { stream, topic }).await?.done;
        self.purge_groups(done).await
    }
}
