//! Partitions.

use crate::caller::Caller;
use crate::error::GatewayError;
use crate::gateway::Gateway;
use whippet_metadata::command::Command;
use whippet_protocol::limits::PARTITIONS_PER_REQUEST_MAX;
use whippet_protocol::{ErrorCode, Identifier};

fn check(count: u32) -> Result<(), GatewayError> {
    if count == 0 || count > PARTITIONS_PER_REQUEST_MAX {
        let reason = format!("a request names 1 to {PARTITIONS_PER_REQUEST_MAX} partitions, this one {count}");
        return Err(GatewayError::because(ErrorCode::TooManyPartitions, reason));
    }
    Ok(())
}

impl Gateway {
    /// Adds partitions behind the last one.
    ///
    /// # Errors
    /// 1009, 2010, 2015 for a count that is not 1 to 1000, 3013 when there would be too many.
    pub async fn create_partitions(
        &self,
        caller: &Caller,
        stream: Identifier,
        topic: Identifier,
        count: u32,
    ) -> Result<(), GatewayError> {
        check(count)?;
        self.propose(caller, Command::CreatePartitions { stream, topic, count }).await?;
        Ok(())
    }

    /// Removes the last partitions with all their messages.
    ///
    /// # Errors
    /// 1009, 2010, 2015 for a count that is not 1 to 1000, 2019 for more than there are.
    pub async fn delete_partitions(
        &self,
        caller: &Caller,
        stream: Identifier,
        topic: Identifier,
        count: u32,
    ) -> Result<(), GatewayError> {
        check(count)?;
        self.propose(caller, Command::DeletePartitions { stream, topic, count }).await?;
        Ok(())
    }
}
