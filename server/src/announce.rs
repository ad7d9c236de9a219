//! The start-up lines on standard output: what a person wants to see, and what programs that start a server wait for.
//!
//! ```text
//! whippet 0.1.0 (pid 4711)
//! data directory   /srv/whippet/data
//! listening        tcp  127.0.0.1:8090
//! listening        http http://127.0.0.1:3000
//! root user        iggy (password from configuration)
//! ready in 12 ms
//! ```

use std::fmt;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// Where the password of the root user comes from.
pub enum RootPassword {
    /// It was configured, and this is the first start.
    Configured,
    /// It was made up just now. Shown this once and stored nowhere in clear.
    Generated(String),
    /// It is the one of the first start on this data directory.
    Unchanged,
}

impl fmt::Display for RootPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RootPassword::Configured => f.write_str("password from configuration"),
            RootPassword::Generated(password) => write!(f, "password generated now and shown once: {password}"),
            RootPassword::Unchanged => f.write_str("password unchanged since the first start"),
        }
    }
}

/// One start-up line.
pub enum Line<'a> {
    /// Which program and process.
    Program,
    /// Where the data lies; absolute.
    DataDirectory(&'a Path),
    /// The TCP listener.
    Tcp(SocketAddr),
    /// The HTTP listener.
    Http(SocketAddr),
    /// Who may log in.
    Root {
        /// Name of the root user.
        name: &'a str,
        /// Where the password comes from.
        password: &'a RootPassword,
    },
    /// Clients are served from now on.
    Ready(Duration),
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Line::Program => write!(f, "whippet {} (pid {})", env!("CARGO_PKG_VERSION"), std::process::id()),
            Line::DataDirectory(path) => write!(f, "data directory   {}", path.display()),
            Line::Tcp(address) => write!(f, "listening        tcp  {address}"),
            Line::Http(address) => write!(f, "listening        http http://{address}"),
            Line::Root { name, password } => write!(f, "root user        {name} ({password})"),
            Line::Ready(took) => write!(f, "ready in {} ms", took.as_millis()),
        }
    }
}

/// Prints a line at once.
pub fn line(line: &Line<'_>) {
    let mut out = std::io::stdout().lock();
    // Nobody may be reading any more, which is no reason not to serve.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_their_shape() {
        let address: SocketAddr = "127.0.0.1:8090".parse().expect("an address");
        let generated = RootPassword::Generated("Xk3".into());
        let cases = [
            (Line::DataDirectory(Path::new("/d")), "data directory   /d"),
            (Line::Tcp(address), "listening        tcp  127.0.0.1:8090"),
            (Line::Http(address), "listening        http http://127.0.0.1:8090"),
            (
                Line::Root { name: "iggy", password: &RootPassword::Configured },
                "root user        iggy (password from configuration)",
            ),
            (
                Line::Root { name: "iggy", password: &generated },
                "root user        iggy (password generated now and shown once: Xk3)",
            ),
            (
                Line::Root { name: "admin", password: &RootPassword::Unchanged },
                "root user        admin (password unchanged since the first start)",
            ),
            (Line::Ready(Duration::from_micros(12_900)), "ready in 12 ms"),
        ];
        for (line, text) in cases {
            assert_eq!(line.to_string(), text);
        }
        assert_eq!(Line::Program.to_string(), format!("whippet 0.1.0 (pid {})", std::process::id()));
    }
}
