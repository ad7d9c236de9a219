//! Why a benchmark ends early.

use std::io;
use whippet_protocol::ErrorCode;

/// Why a benchmark ends early.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The operating system or the connection.
    #[error("{action}: {error}")]
    Io {
        /// What was tried.
        action: String,
        /// What came of it.
        error: io::Error,
    },
    /// The server refused a request.
    #[error("the server answered with error {0} ({text})", text = text(*.0))]
    Refused(u32),
    /// The server ended the session.
    #[error("the server ended the session (reason {0}{hint})", hint = eviction_hint(*.0))]
    Evicted(u8),
    /// The server does not keep to the protocol.
    #[error("the server does not keep to the protocol: {0}")]
    Protocol(&'static str),
    /// No answer at all.
    #[error("no answer for {0} s; is the server hanging?")]
    Silence(u64),
    /// The arguments do not go together.
    #[error("{0}")]
    Arguments(String),
    /// There is nothing to consume.
    #[error("{0} holds no messages; run `whippet bench produce` with the same --streams and --partitions first")]
    Empty(String),
}

impl BenchError {
    pub(super) fn io(action: impl Into<String>, error: io::Error) -> Self {
        BenchError::Io { action: action.into(), error }
    }
}

fn text(code: u32) -> &'static str {
    ErrorCode::from_code(code).map_or("a number of no known error", ErrorCode::text)
}

fn eviction_hint(reason: u8) -> &'static str {
    match reason {
        9 => ": wrong user name or password; see --username and --password",
        14 => ": it speaks another version of the protocol",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::BenchError;

    #[test]
    fn numbers_come_with_words() {
        assert_eq!(
            BenchError::Refused(2013).to_string(),
            "the server answered with error 2013 (topic name already exists)"
        );
        assert_eq!(
            BenchError::Evicted(9).to_string(),
            "the server ended the session (reason 9: wrong user name or password; see --username and --password)"
        );
    }
}
