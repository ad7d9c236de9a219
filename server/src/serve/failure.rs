//! Why a server does not start, or ends by itself: sentences with what to do.

use std::io;
use std::net::SocketAddr;

/// Why a server does not start, or ends by itself.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The data directory.
    #[error(transparent)]
    DataDirectory(#[from] whippet_storage::DataDirectoryError),
    /// A listener.
    #[error("{}", listener_text(.setting, *.address, .error))]
    Listener {
        /// The setting that names the address.
        setting: &'static str,
        /// The address.
        address: SocketAddr,
        /// What the operating system says.
        error: io::Error,
    },
    /// What is on disk cannot be served, or there are no threads for it.
    #[error(transparent)]
    Runtime(#[from] whippet_runtime::StartError),
    /// The root user cannot be made.
    #[error("the root user cannot be made: {0}")]
    Root(whippet_gateway::GatewayError),
    /// The TCP front end.
    #[error(transparent)]
    Tcp(#[from] whippet_tcp::ServeError),
    /// The HTTP front end.
    #[error(transparent)]
    Http(#[from] whippet_http::ServeError),
    /// No handler for signals.
    #[error("signals cannot be taken: {0}")]
    Signals(io::Error),
    /// No event loop for the main thread.
    #[error("the main thread has no event loop: {0}; is the limit of open files too low?")]
    Threads(io::Error),
    /// Storage can't be trusted any more, or a shard broke down.
    #[error("the server cannot go on: {0}")]
    Fatal(String),
    /// The last syncs failed or took too long.
    #[error(
        "not everything was synced before the end; nothing that was acknowledged is lost unless the machine itself \
         stops now, and the next start checks all logs"
    )]
    UncleanStop,
}

fn listener_text(setting: &str, address: SocketAddr, error: &io::Error) -> String {
    let variable = format!("WHIPPET_{}", setting.replace('.', "_").to_ascii_uppercase());
    match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "another process listens on {address} already; stop it, or set another {setting} ({variable}), \
             where port 0 takes a free one"
        ),
        io::ErrorKind::PermissionDenied => format!(
            "listening on {address} is not allowed for this user; ports below 1024 need privileges: \
             set another {setting} ({variable})"
        ),
        io::ErrorKind::AddrNotAvailable => format!(
            "{} is no address of this machine; set {setting} ({variable}) to one that is, or to 0.0.0.0 for all",
            address.ip()
        ),
        _ => format!("listen on {address} ({setting}): {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_say_what_to_do() {
        let text = |kind: io::ErrorKind| {
            let address = "127.0.0.1:80".parse().expect("an address");
            ServeError::Listener { setting: "tcp.address", address, error: kind.into() }.to_string()
        };
        assert_eq!(
            text(io::ErrorKind::AddrInUse),
            "another process listens on 127.0.0.1:80 already; stop it, or set another tcp.address (WHIPPET_TCP_ADDRESS), where port 0 takes a free one"
        );
        assert!(text(io::ErrorKind::PermissionDenied).contains("ports below 1024 need privileges"));
        assert!(text(io::ErrorKind::AddrNotAvailable).starts_with("127.0.0.1 is no address of this machine"));
        assert!(text(io::ErrorKind::OutOfMemory).starts_with("listen on 127.0.0.1:80 (tcp.address): "));
    }
}
