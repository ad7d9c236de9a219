//! What handlers share.

use crate::settings::HttpSettings;
use crate::token::{Tokens, UnusableSecret};
use axum::extract::FromRef;
use std::sync::Arc;
use tokio::sync::Semaphore;
use whippet_gateway::Gateway;

/// Most appends at the same time that nobody waits for.
const UNACKNOWLEDGED_MAX: usize = 128;

/// The state of the listener; cloning it is cheap.
#[derive(Clone)]
pub struct App(Arc<Inner>);

struct Inner {
    gateway: Gateway,
    tokens: Tokens,
    settings: Arc<HttpSettings>,
    unacknowledged: Arc<Semaphore>,
    clock: Clock,
}

/// Microseconds since 1970.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

impl App {
    /// # Errors
    /// [`UnusableSecret`].
    pub fn new(gateway: Gateway, settings: HttpSettings, clock: Clock) -> Result<Self, UnusableSecret> {
        let tokens = Tokens::new(&settings.jwt)?;
        let unacknowledged = Arc::new(Semaphore::new(UNACKNOWLEDGED_MAX));
        Ok(Self(Arc::new(Inner { gateway, tokens, settings: Arc::new(settings), unacknowledged, clock })))
    }

    /// The way to everything behind this listener.
    pub fn gateway(&self) -> &Gateway {
        &self.0.gateway
    }

    /// Access tokens.
    pub fn tokens(&self) -> &Tokens {
        &self.0.tokens
    }

    /// The settings.
    pub fn settings(&self) -> &HttpSettings {
        &self.0.settings
    }

    /// Microseconds since 1970.
    pub fn now_us(&self) -> u64 {
        (self.0.clock)()
    }

    /// Seconds since 1970.
    pub fn now_seconds(&self) -> u64 {
        self.now_us() / 1_000_000
    }

    /// View of the metadata group.
    pub fn view(&self) -> u64 {
        0
    }

    /// Room for appends that nobody waits for.
    pub fn unacknowledged(&self) -> &Arc<Semaphore> {
        &self.0.unacknowledged
    }
}

impl FromRef<App> for Arc<HttpSettings> {
    fn from_ref(app: &App) -> Self {
        Arc::clone(&app.0.settings)
    }
}
