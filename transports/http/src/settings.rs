//! What an operator can set about this listener.

use crate::token::JwtSettings;
use std::time::Duration;

/// Limits, deadlines and features of the HTTP listener.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// Largest request body, in bytes, as it comes over the socket (base64 included). A larger one is answered with 413.
    pub max_request_size: usize,
    /// From the first byte of a request head to its last.
    pub head_timeout: Duration,
    /// From the first byte of a request body to its last. A body that is slower is answered with 408.
    pub body_timeout: Duration,
    /// Longest pause within a request body.
    pub body_idle_timeout: Duration,
    /// How long a connection may stay silent before its first request; browsers open some in advance.
    pub silent_timeout: Duration,
    /// How long a connection may stay idle between requests.
    pub idle_timeout: Duration,
    /// How long the peer may not take a single byte of an answer.
    pub write_timeout: Duration,
    /// How long requests that are under way may take to end once the server stops. Idle connections close at once.
    pub shutdown_timeout: Duration,
    /// Cross-origin rules.
    pub cors: CorsSettings,
    /// Access tokens.
    pub jwt: JwtSettings,
    /// Whether `/docs` serves the page that explores the API. `/openapi.json` is there in any case.
    pub docs: bool,
}

impl HttpSettings {
    /// The defaults, with this way of making access tokens.
    pub fn new(jwt: JwtSettings) -> Self {
        Self {
            max_request_size: 2_000_000,
            head_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(60),
            body_idle_timeout: Duration::from_secs(10),
            silent_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(75),
            write_timeout: Duration::from_secs(30),
            shutdown_timeout: Duration::from_secs(4),
            cors: CorsSettings::default(),
            jwt,
            docs: true,
        }
    }

    #[cfg(test)]
    pub(crate) fn for_tests() -> Self {
        Self::new(JwtSettings::new(secrecy::SecretSlice::from(vec![7; 32])))
    }
}

/// Which web pages of other origins may call this API from a browser.
#[derive(Clone, Debug)]
pub struct CorsSettings {
    /// Whether cross-origin calls are answered at all.
    pub enabled: bool,
    /// Origins such as `https://app.example`; the single entry `*` allows all.
    pub allowed_origins: Vec<String>,
    /// Methods.
    pub allowed_methods: Vec<String>,
    /// Request headers.
    pub allowed_headers: Vec<String>,
    /// Response headers that page code may read.
    pub exposed_headers: Vec<String>,
}

impl Default for CorsSettings {
    fn default() -> Self {
        let list = |items: &[&str]| items.iter().map(|&item| item.to_owned()).collect();
        Self {
            enabled: true,
            allowed_origins: list(&["*"]),
            allowed_methods: list(&["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"]),
            allowed_headers: list(&["content-type", "authorization", "idempotency-key", "x-request-id", "traceparent"]),
            exposed_headers: list(&["iggy-durability", "iggy-view", "retry-after", "location", "x-request-id"]),
        }
    }
}
