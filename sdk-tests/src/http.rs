//! One HTTP/1.1 request at a time, without redirects, retries or connection reuse: the status is what the server said.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Longest wait for one response.
pub const RESPONSE_DEADLINE: Duration = Duration::from_secs(15);

/// A response.
#[derive(Clone, Debug)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// Header lines, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Body as text.
    pub body: String,
}

impl Response {
    /// The first header called `name` (lower case).
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON; null when it is none.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }
}

/// Sends one request and reads the whole response.
///
/// # Errors
/// The connection broke, or the response is not HTTP.
pub fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    token: Option<&str>,
    body: Option<&str>,
) -> io::Result<Response> {
    let mut stream = TcpStream::connect_timeout(&address, RESPONSE_DEADLINE)?;
    stream.set_read_timeout(Some(RESPONSE_DEADLINE))?;
    stream.set_write_timeout(Some(RESPONSE_DEADLINE))?;
    let mut text = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    if let Some(token) = token {
        text.push_str(&format!("authorization: Bearer {token}\r\n"));
    }
    if let Some(body) = body {
        text.push_str(&format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len()));
    }
    text.push_str("\r\n");
    text.push_str(body.unwrap_or_default());
    stream.write_all(text.as_bytes())?;
    let mut raw = Vec::new();
    stream.read_to_end(&mut raw)?;
    parse(&raw).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the response is not HTTP/1.1"))
}

/// Logs in over HTTP and returns the access token.
///
/// # Errors
/// The connection broke, or the login was refused.
pub fn login(address: SocketAddr, username: &str, password: &str) -> io::Result<String> {
    let body = serde_json::json!({ "username": username, "password": password }).to_string();
    let response = request(address, "POST", "/users/login", None, Some(&body))?;
    response.json()["access_token"]["token"]
        .as_str()
        .map(str::to_owned)
        .ok_or_else(|| io::Error::other(format!("login answered {}: {}", response.status, response.body)))
}

fn parse(raw: &[u8]) -> Option<Response> {
    let end = raw.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&raw[..end]).ok()?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
    let body = &raw[end + 4..];
    let body = if chunked { unchunked(body)? } else { body.to_vec() };
    Some(Response { status, headers, body: String::from_utf8_lossy(&body).into_owned() })
}

fn unchunked(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line_end = rest.windows(2).position(|window| window == b"\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..line_end]).ok()?.trim(), 16).ok()?;
        rest = rest.get(line_end + 2..)?;
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(rest.get(..size)?);
        rest = rest.get(size + 2..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn reads_plain_and_chunked_bodies() {
        let plain = parse(b"HTTP/1.1 503 x\r\nRetry-After: 1\r\n\r\n{\"id\":58}").expect("a response");
        assert_eq!((plain.status, plain.header("retry-after")), (503, Some("1")));
        assert_eq!(plain.json()["id"], 58);
        let chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
        assert_eq!(parse(chunked).expect("a response").body, "abcde");
        assert!(parse(b"SSH-2.0\r\n\r\n").is_none());
    }
}
