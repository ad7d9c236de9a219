//! Commands and operations: what a request asks for, and how its reply is framed.

use iggy_binary_protocol::COMMAND_TABLE;

/// Operation byte of a login.
pub const REGISTER: u8 = 1;
/// Operation byte of a request whose command code stands in the header.
pub const NON_REPLICATED: u8 = 2;
/// Operation byte of a logout.
pub const LOGOUT: u8 = 3;
/// Operation byte of `delete segments`, whose reply is not result-framed.
pub const DELETE_SEGMENTS: u8 = 138;
/// Operation byte of `send messages`, whose reply is not result-framed.
pub const SEND_MESSAGES: u8 = 160;

macro_rules! commands {
    ($($variant:ident = $code:literal $(, $operation:literal)?;)+) => {
        /// A command of the client protocol.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u32)]
        #[allow(missing_docs, reason = "the names are the protocol's own")]
        pub enum Command {
            $($variant = $code,)+
        }

        impl Command {
            /// Every command, in ascending order of its code.
            pub const ALL: &'static [Command] = &[$(Command::$variant,)+];

            /// The command with this code.
            pub const fn from_code(code: u32) -> Option<Command> {
                match code { $($code => Some(Command::$variant),)+ _ => None }
            }

            /// The operation byte of a replicated command.
            pub const fn operation(self) -> Option<u8> {
                #[allow(unreachable_patterns, reason = "commands without an operation fall through")]
                match self { $($(Command::$variant => Some($operation),)?)+ _ => None }
            }

            /// The command of a replicated operation byte.
            pub const fn from_operation(operation: u8) -> Option<Command> {
                match operation { $($($operation => Some(Command::$variant),)?)+ _ => None }
            }
        }
    };
}

commands! {
    Ping = 1;
    GetStats = 10;
    GetSnapshot = 11;
    GetClusterMetadata = 12;
    DescribeOptions = 13;
    AttachConsumerSession = 14;
    GetMe = 20;
    GetClient = 21;
    GetClients = 22;
    GetUser = 31;
    GetUsers = 32;
    CreateUser = 33, 141;
    DeleteUser = 34, 143;
    UpdateUser = 35, 142;
    UpdatePermissions = 36, 145;
    ChangePassword = 37, 144;
    GetPersonalAccessTokens = 41;
    CreatePersonalAccessToken = 42, 146;
    DeletePersonalAccessToken = 43, 147;
    PollMessages = 100;
    SendMessages = 101, 160;
    FlushUnsavedBuffer = 102;
    GetPollRouting = 103;
    PollMessagesOnPrimary = 104;
    GetConsumerOffset = 120;
    StoreConsumerOffset = 121, 161;
    DeleteConsumerOffset = 122, 162;
    GetConsumerOffsetRouting = 123;
    GetStream = 200;
    GetStreams = 201;
    CreateStream = 202, 128;
    DeleteStream = 203, 130;
    UpdateStream = 204, 129;
    PurgeStream = 205, 131;
    GetTopic = 300;
    GetTopics = 301;
    CreateTopic = 302, 132;
    DeleteTopic = 303, 134;
    UpdateTopic = 304, 133;
    PurgeTopic = 305, 135;
    CreatePartitions = 402, 136;
    DeletePartitions = 403, 137;
    DeleteSegments = 503, 138;
    GetConsumerGroup = 600;
    GetConsumerGroups = 601;
    CreateConsumerGroup = 602, 139;
    DeleteConsumerGroup = 603, 140;
    JoinConsumerGroup = 604, 148;
    LeaveConsumerGroup = 605, 149;
    SyncConsumerGroup = 606;
}

impl Command {
    /// The number on the wire.
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// The protocol's own short name, for logs and metrics.
    pub fn name(self) -> &'static str {
        COMMAND_TABLE.iter().find(|row| row.code == self.code()).map_or("unknown", |row| row.name)
    }

    /// Which log orders the command.
    pub const fn plane(self) -> Plane {
        match self.operation() {
            None => Plane::Local,
            Some(operation) if operation >= SEND_MESSAGES => Plane::Partition,
            Some(_) => Plane::Metadata,
        }
    }
}

/// Which log orders a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plane {
    /// The metadata group's.
    Metadata,
    /// A partition group's.
    Partition,
    /// None: it reads, or concerns the connection.
    Local,
}

/// Whether the body of a reply to this operation starts with a result section.
pub const fn is_result_framed(operation: u8) -> bool {
    match operation {
        DELETE_SEGMENTS => false,
        REGISTER | 64..=149 | 161 | 162 => true,
        _ => false,
    }
}

/// What a request header asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A login.
    Register,
    /// A logout.
    Logout,
    /// A command, in the form that it must have.
    Command(Command),
    /// One of the two logins of older protocols (38, 44).
    OldLogin,
    /// A code that no command has.
    UnknownCode(u32),
    /// A replicated command sent as non-replicated.
    WrongForm(Command),
    /// An operation that only replicas use among themselves.
    Internal(u8),
    /// An operation byte that means nothing.
    UnknownOperation(u8),
}

/// Tells what a request asks for by its operation byte and command code.
pub fn classify(operation: u8, code: u32) -> Asked {
    match operation {
        REGISTER => Asked::Register,
        LOGOUT => Asked::Logout,
        NON_REPLICATED => match Command::from_code(code) {
            _ if matches!(code, 38 | 44) => Asked::OldLogin,
            Some(command) if command.operation().is_some() => Asked::WrongForm(command),
            Some(command) => Asked::Command(command),
            None if matches!(code, 39 | 40 | 45) => Asked::OldLogin,
            None => Asked::UnknownCode(code),
        },
        64..=75 | 166..=169 => Asked::Internal(operation),
        _ => Command::from_operation(operation).map_or(Asked::UnknownOperation(operation), Asked::Command),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iggy_binary_protocol::{Operation, lookup_command};

    /// The crate that the official clients encode with is the measure.
    #[test]
    fn the_table_is_the_protocols() {
        let logins = [38, 39, 40, 44, 45];
        let expected: Vec<u32> = {
            let mut codes: Vec<u32> =
                COMMAND_TABLE.iter().map(|row| row.code).filter(|code| !logins.contains(code)).collect();
            codes.sort_unstable();
            codes
        };
        let mut ours: Vec<u32> = Command::ALL.iter().map(|command| command.code()).collect();
        ours.retain(|code| lookup_command(*code).is_some());
        assert_eq!(ours, expected);
        for command in Command::ALL {
            assert_eq!(Command::from_code(command.code()), Some(*command));
            let theirs = lookup_command(command.code()).and_then(|row| row.operation).map(|operation| operation as u8);
            if lookup_command(command.code()).is_some() {
                assert_eq!(command.operation(), theirs, "{command:?}");
            }
            if let Some(operation) = command.operation() {
                assert_eq!(Command::from_operation(operation), Some(*command));
            }
        }
    }

    #[test]
    fn result_framing_is_the_protocols() {
        for operation in [1u8, 2, 3, 64, 68, 128, 137, 138, 139, 149, 160, 161, 162] {
            let theirs = bytemuck_operation(operation).is_result_framed();
            // A login reply is framed whenever it has a body, which ours always has.
            assert_eq!(is_result_framed(operation), theirs || operation == REGISTER, "{operation}");
        }
    }

    fn bytemuck_operation(byte: u8) -> Operation {
        match byte {
            1 => Operation::Register,
            2 => Operation::NonReplicated,
            3 => Operation::Logout,
            64 => Operation::CreateTopicWithAssignments,
            68 => Operation::TruncatePartition,
            128 => Operation::CreateStream,
            137 => Operation::DeletePartitions,
            138 => Operation::DeleteSegments,
            139 => Operation::CreateConsumerGroup,
            149 => Operation::LeaveConsumerGroup,
            160 => Operation::SendMessages,
            161 => Operation::StoreConsumerOffset,
            _ => Operation::DeleteConsumerOffset,
        }
    }

    #[test]
    fn every_byte_and_code_is_classified() {
        for operation in 0..=255u8 {
            for code in [0, 1, 38, 39, 40, 44, 45, 101, 202, 9999] {
                let asked = classify(operation, code);
                if operation == NON_REPLICATED && code == 9999 {
                    assert_eq!(asked, Asked::UnknownCode(9999));
                }
            }
        }
        assert_eq!(classify(NON_REPLICATED, 202), Asked::WrongForm(Command::CreateStream));
        assert_eq!(classify(65, 0), Asked::Internal(65));
        assert_eq!(classify(0, 0), Asked::UnknownOperation(0));
        assert_eq!(classify(160, 0), Asked::Command(Command::SendMessages));
    }
}
