//! Every command of the protocol, one row each: what it needs and whether it is offered.

use whippet_protocol::Command;

/// Whether a command is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// It is.
    Yes,
    /// Not by this version of the server: answered with 5.
    NotYet,
    /// Never: the protocol has it, the official server refuses it too. Answered with 5.
    Never,
}

/// A row of [`TABLE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The command.
    pub command: Command,
    /// Whether it needs a login.
    pub needs_login: bool,
    /// Whether it is served.
    pub offered: Offered,
}

const fn row(command: Command, offered: Offered) -> Row {
    Row { command, needs_login: true, offered }
}

/// Every command once, in ascending order of its code.
pub const TABLE: &[Row] = &[
    Row { command: Command::Ping, needs_login: false, offered: Offered::Yes },
    row(Command::GetStats, Offered::Yes),
    row(Command::GetSnapshot, Offered::NotYet),
    row(Command::GetClusterMetadata, Offered::Yes),
    row(Command::DescribeOptions, Offered::Yes),
    row(Command::AttachConsumerSession, Offered::Yes),
    row(Command::GetMe, Offered::Yes),
    row(Command::GetClient, Offered::Yes),
    row(Command::GetClients, Offered::Yes),
    row(Command::GetUser, Offered::NotYet),
    row(Command::GetUsers, Offered::NotYet),
    row(Command::CreateUser, Offered::NotYet),
    row(Command::DeleteUser, Offered::NotYet),
    row(Command::UpdateUser, Offered::NotYet),
    row(Command::UpdatePermissions, Offered::NotYet),
    row(Command::ChangePassword, Offered::NotYet),
    row(Command::GetPersonalAccessTokens, Offered::NotYet),
    row(Command::CreatePersonalAccessToken, Offered::NotYet),
    row(Command::DeletePersonalAccessToken, Offered::NotYet),
    row(Command::PollMessages, Offered::Yes),
    row(Command::SendMessages, Offered::Yes),
    row(Command::FlushUnsavedBuffer, Offered::Never),
    row(Command::GetPollRouting, Offered::Yes),
    row(Command::PollMessagesOnPrimary, Offered::Yes),
    row(Command::GetConsumerOffset, Offered::Yes),
    row(Command::StoreConsumerOffset, Offered::Yes),
    row(Command::DeleteConsumerOffset, Offered::Yes),
    row(Command::GetConsumerOffsetRouting, Offered::Yes),
    row(Command::GetStream, Offered::Yes),
    row(Command::GetStreams, Offered::Yes),
    row(Command::CreateStream, Offered::Yes),
    row(Command::DeleteStream, Offered::Yes),
    row(Command::UpdateStream, Offered::Yes),
    row(Command::PurgeStream, Offered::Yes),
    row(Command::GetTopic, Offered::Yes),
    row(Command::GetTopics, Offered::Yes),
    row(Command::CreateTopic, Offered::Yes),
    row(Command::DeleteTopic, Offered::Yes),
    row(Command::UpdateTopic, Offered::Yes),
    row(Command::PurgeTopic, Offered::Yes),
    row(Command::CreatePartitions, Offered::Yes),
    row(Command::DeletePartitions, Offered::Yes),
    row(Command::DeleteSegments, Offered::NotYet),
    row(Command::GetConsumerGroup, Offered::NotYet),
    row(Command::GetConsumerGroups, Offered::NotYet),
    row(Command::CreateConsumerGroup, Offered::NotYet),
    row(Command::DeleteConsumerGroup, Offered::NotYet),
    row(Command::JoinConsumerGroup, Offered::NotYet),
    row(Command::LeaveConsumerGroup, Offered::NotYet),
    row(Command::SyncConsumerGroup, Offered::NotYet),
];

/// The row of a command.
pub(crate) fn row_of(command: Command) -> Row {
    let at = TABLE.binary_search_by_key(&command, |row| row.command).expect("the table has every command");
    TABLE[at]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_exactly_one_row() {
        let rows: Vec<Command> = TABLE.iter().map(|row| row.command).collect();
        assert_eq!(rows, Command::ALL);
        for command in Command::ALL {
            assert_eq!(row_of(*command).command, *command);
        }
    }

    #[test]
    fn only_ping_needs_no_login() {
        let open: Vec<Command> = TABLE.iter().filter(|row| !row.needs_login).map(|row| row.command).collect();
        assert_eq!(open, [Command::Ping]);
    }
}
