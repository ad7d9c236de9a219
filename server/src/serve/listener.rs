//! Listening sockets.

use super::ServeError;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

/// Connections that may wait to be accepted. The kernel takes its own limit where that is lower.
const BACKLOG: i32 = 1024;

/// Listens on `address`; the socket, and the address with the port that it got.
pub(super) fn bind(setting: &'static str, address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServeError> {
    let listen = || -> io::Result<(TcpListener, SocketAddr)> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        // A server that is restarted must not wait for the last connections of the one before to be forgotten.
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        let listener = TcpListener::from(socket);
        let bound = listener.local_addr()?;
        Ok((listener, bound))
    };
    listen().map_err(|error| ServeError::Listener { setting, address, error })
}

/// The address to tell clients where none is configured: that of the listener. One that listens on all addresses is
/// reachable by loopback at least.
pub(super) fn reachable(bound: Option<SocketAddr>) -> String {
    match bound.map(|address| address.ip()) {
        Some(IpAddr::V6(ip)) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.to_string(),
        Some(ip) if !ip.is_unspecified() => ip.to_string(),
        _ => Ipv4Addr::LOCALHOST.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_port_is_taken_and_known_and_not_given_twice() {
        let any = "127.0.0.1:0".parse().expect("an address");
        let (_listener, bound) = bind("tcp.address", any).expect("a free port");
        assert_ne!(bound.port(), 0);
        let error = bind("http.address", bound).map(|_| ()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("another process listens on {bound} already")), "{error}");
        assert!(error.contains("WHIPPET_HTTP_ADDRESS"), "{error}");
    }

    #[test]
    fn clients_are_told_an_address_that_they_can_reach() {
        let told = |text: &str| reachable(Some(text.parse().expect("an address")));
        assert_eq!(told("10.0.0.7:1"), "10.0.0.7");
        assert_eq!(told("0.0.0.0:1"), "127.0.0.1");
        assert_eq!(told("[::]:1"), "::1");
        assert_eq!(reachable(None), "127.0.0.1");
    }
}
