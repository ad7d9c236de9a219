//! Commands on streams.

use crate::apply::At;
use crate::command::{Done, GroupChange, Outcome};
use crate::free_ids::FreeIds;
use crate::state::{MetadataState, Stream};
use std::collections::BTreeMap;
use whippet_protocol::{ErrorCode, Identifier, Name, limits};

impl MetadataState {
    pub(crate) fn create_stream(&mut self, at: At, name: &Name) -> Outcome {
        if self.stream_names.contains_key(name.as_str()) {
            return Err(ErrorCode::StreamNameAlreadyExists);
        }
        if self.streams.len() >= limits::STREAMS_MAX as usize {
            return Err(ErrorCode::TooManyStreams);
        }
        let id = self.free_streams.take();
        self.stream_names.insert(name.as_str().into(), id);
        let stream = Stream {
            id,
            name: name.clone(),
            created_at: at.timestamp,
            topics: BTreeMap::new(),
            topic_names: BTreeMap::new(),
            free_topics: FreeIds::default(),
        };
        self.streams.insert(id, stream);
        Ok(Done::StreamCreated { id, created_at: at.timestamp, name: name.clone() })
    }

    pub(crate) fn update_stream(&mut self, stream: &Identifier, name: &Name) -> Outcome {
        let id = self.stream(stream)?.id;
        if self.stream_names.get(name.as_str()).is_some_and(|&holder| holder != id) {
            return Err(ErrorCode::StreamNameAlreadyExists);
        }
        let stream = self.streams.get_mut(&id).ok_or(ErrorCode::StreamIdNotFound)?;
        self.stream_names.remove(stream.name.as_str());
        self.stream_names.insert(name.as_str().into(), id);
        stream.name = name.clone();
        Ok(Done::Empty)
    }

    pub(crate) fn delete_stream(&mut self, stream: &Identifier, changes: &mut Vec<GroupChange>) -> Outcome {
        let id = self.stream(stream)?.id;
        let stream = self.streams.remove(&id).ok_or(ErrorCode::StreamIdNotFound)?;
        self.stream_names.remove(stream.name.as_str());
        self.free_streams.release(id);
        for topic in stream.topics.values() {
            changes.extend(topic.partitions.iter().map(|partition| GroupChange::Deleted(partition.group)));
        }
        Ok(Done::Empty)
    }

    pub(crate) fn purge_stream(&mut self, at: At, stream: &Identifier, changes: &mut Vec<GroupChange>) -> Outcome {
        let stream = self.stream_mut(stream)?;
        let mut groups = Vec::new();
        for topic in stream.topics.values_mut() {
            groups.extend(topic.purge(at.op));
        }
        changes.extend(groups.iter().map(|&group| GroupChange::Purged { group, intent: at.op }));
        Ok(Done::Purged { groups, intent: at.op })
    }

    pub(crate) fn stream_mut(&mut self, stream: &Identifier) -> Result<&mut Stream, ErrorCode> {
        let id = self.stream(stream)?.id;
        self.streams.get_mut(&id).ok_or(ErrorCode::StreamIdNotFound)
    }
}
