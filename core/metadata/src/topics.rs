//! Commands on topics and their partitions.

use crate::apply::At;
use crate::command::{Done, GroupChange, Outcome, PartitionGroup};
use crate::options::{TopicOptions, TopicOptionsPatch};
use crate::state::{MetadataState, Partition, Stream, Topic};
use whippet_protocol::{ErrorCode, Identifier, Name, limits};

impl MetadataState {
    pub(crate) fn create_topic(
        &mut self,
        at: At,
        stream: &Identifier,
        name: &Name,
        partitions: u32,
        options: &TopicOptionsPatch,
        changes: &mut Vec<GroupChange>,
    ) -> Outcome {
        let first_group = self.next_group;
        let stream = self.stream_mut(stream)?;
        if partitions > limits::PARTITIONS_PER_REQUEST_MAX {
            return Err(ErrorCode::TooManyPartitions);
        }
        if stream.topic_names.contains_key(name.as_str()) {
            return Err(ErrorCode::TopicNameAlreadyExists);
        }
        if stream.topics.len() >= limits::TOPICS_PER_STREAM_MAX as usize {
            return Err(ErrorCode::TooManyTopics);
        }
        let options = TopicOptions::from_patch(options);
        options.check(partitions)?;

        let mut topic = Topic {
            id: stream.free_topics.take(),
            name: name.clone(),
            created_at: at.timestamp,
            options,
            partitions: Vec::new(),
            purged_by: 0,
        };
        topic.grow(at, stream.id, first_group, partitions, changes);
        stream.topic_names.insert(name.as_str().into(), topic.id);
        stream.topics.insert(topic.id, topic.clone());
        let stream = stream.id;
        self.next_group += u64::from(partitions);
        Ok(Done::TopicCreated { stream, topic })
    }

    pub(crate) fn update_topic(
        &mut self,
        stream: &Identifier,
        topic: &Identifier,
        name: &Name,
        options: &TopicOptionsPatch,
    ) -> Outcome {
        let stream = self.stream_mut(stream)?;
        let id = stream.topic(topic)?.id;
        if stream.topic_names.get(name.as_str()).is_some_and(|&holder| holder != id) {
            return Err(ErrorCode::TopicNameAlreadyExists);
        }
        let topic = stream.topics.get_mut(&id).ok_or(ErrorCode::TopicIdNotFound)?;
        topic.options = topic.options.updated(options)?;
        stream.topic_names.remove(topic.name.as_str());
        stream.topic_names.insert(name.as_str().into(), id);
        topic.name = name.clone();
        Ok(Done::Empty)
    }

    pub(crate) fn delete_topic(
        &mut self,
        stream: &Identifier,
        topic: &Identifier,
        changes: &mut Vec<GroupChange>,
    ) -> Outcome {
        let stream = self.stream_mut(stream)?;
        let id = stream.topic(topic)?.id;
        let topic = stream.topics.remove(&id).ok_or(ErrorCode::TopicIdNotFound)?;
        stream.topic_names.remove(topic.name.as_str());
        stream.free_topics.release(id);
        changes.extend(topic.partitions.iter().map(|partition| GroupChange::Deleted(partition.group)));
        Ok(Done::Empty)
    }

    pub(crate) fn purge_topic(
        &mut self,
        at: At,
        stream: &Identifier,
        topic: &Identifier,
        changes: &mut Vec<GroupChange>,
    ) -> Outcome {
        let groups: Vec<_> = self.stream_mut(stream)?.topic_mut(topic)?.purge(at.op).collect();
        changes.extend(groups.iter().map(|&group| GroupChange::Purged { group, intent: at.op }));
        Ok(Done::Purged { groups, intent: at.op })
    }

    pub(crate) fn create_partitions(
        &mut self,
        at: At,
        stream: &Identifier,
        topic: &Identifier,
        count: u32,
        changes: &mut Vec<GroupChange>,
    ) -> Outcome {
        let first_group = self.next_group;
        let stream = self.stream_mut(stream)?;
        let stream_id = stream.id;
        let topic = stream.topic_mut(topic)?;
        if count == 0 || count > limits::PARTITIONS_PER_REQUEST_MAX {
            return Err(ErrorCode::TooManyPartitions);
        }
        let grown = topic.partitions.len() as u32 + count;
        if grown > limits::PARTITIONS_PER_TOPIC_MAX {
            return Err(ErrorCode::PartitionIdSpaceExhausted);
        }
        // Otherwise the bound of a preallocating topic would hold at its creation only.
        if !topic.options.preallocation_fits(grown) {
            return Err(ErrorCode::InvalidPartitionsCount);
        }
        topic.grow(at, stream_id, first_group, count, changes);
        self.next_group += u64::from(count);
        Ok(Done::Empty)
    }

    pub(crate) fn delete_partitions(
        &mut self,
        stream: &Identifier,
        topic: &Identifier,
        count: u32,
        changes: &mut Vec<GroupChange>,
    ) -> Outcome {
        let topic = self.stream_mut(stream)?.topic_mut(topic)?;
        if count == 0 || count > limits::PARTITIONS_PER_REQUEST_MAX {
            return Err(ErrorCode::TooManyPartitions);
        }
        let kept = topic.partitions.len().checked_sub(count as usize).ok_or(ErrorCode::InvalidPartitionsCount)?;
        changes.extend(topic.partitions.drain(kept..).map(|partition| GroupChange::Deleted(partition.group)));
        Ok(Done::Empty)
    }
}

impl Stream {
    fn topic_mut(&mut self, topic: &Identifier) -> Result<&mut Topic, ErrorCode> {
        let id = self.topic(topic)?.id;
        self.topics.get_mut(&id).ok_or(ErrorCode::TopicIdNotFound)
    }
}

impl Topic {
    /// Adds partitions at the end, in groups from `first_group` on.
    fn grow(&mut self, at: At, stream: u32, first_group: u64, count: u32, changes: &mut Vec<GroupChange>) {
        let first = self.partitions.len() as u32;
        for number in first_group..first_group + u64::from(count) {
            let group = PartitionGroup { number, life: at.op };
            self.partitions.push(Partition { group, created_at: at.timestamp });
        }
        let created = (first..first + count).filter_map(|partition| self.partition_settings(stream, partition));
        changes.extend(created.map(GroupChange::Created));
    }

    /// Notes that the topic is emptied by `op`, and names the groups that must follow.
    pub(crate) fn purge(&mut self, op: u64) -> impl Iterator<Item = PartitionGroup> {
        self.purged_by = op;
        self.partitions.iter().map(|partition| partition.group)
    }
}
