//! The root user: made at the first start, and left alone from then on.

use super::ServeError;
use crate::announce::{self, Line, RootPassword};
use crate::config::RootConfig;
use rand::distr::{Alphanumeric, SampleString};
use secrecy::ExposeSecret;
use whippet_gateway::Gateway;
use whippet_metadata::state::ROOT_USER;

/// Name of the root user where none is configured.
const NAME_DEFAULT: &str = "iggy";
/// Characters of a password that is made up; 62 kinds, so 142 bits.
const PASSWORD_LENGTH: usize = 24;

/// Makes the root user if there is none, and announces where its password comes from.
pub(super) async fn ensure(gateway: &Gateway, configured: Option<&RootConfig>) -> Result<(), ServeError> {
    if !gateway.needs_bootstrap() {
        let name = gateway.runtime().metadata().read(|state| state.user(ROOT_USER).map(|user| user.name.to_string()));
        let name = name.unwrap_or_default();
        announce::line(&Line::Root { name: &name, password: &RootPassword::Unchanged });
        return Ok(());
    }
    // Shown before it holds: killed between the two, a password that nobody has seen would lock everyone out.
    match configured {
        Some(root) => {
            announce::line(&Line::Root { name: &root.username, password: &RootPassword::Configured });
            gateway.bootstrap(&root.username, root.password.expose_secret()).await.map_err(ServeError::Root)
        }
        None => {
            let password = Alphanumeric.sample_string(&mut rand::rng(), PASSWORD_LENGTH);
            announce::line(&Line::Root { name: NAME_DEFAULT, password: &RootPassword::Generated(password.clone()) });
            gateway.bootstrap(NAME_DEFAULT, &password).await.map_err(ServeError::Root)
        }
    }
}

/// Warns when what is configured is not what the data directory was made with: the operator may believe to have changed
/// the password.
pub(super) async fn warn_if_other(gateway: &Gateway, configured: &RootConfig) {
    let verified = gateway.verify_password(&configured.username, configured.password.expose_secret()).await;
    if verified.is_err_and(|error| error.code == whippet_protocol::ErrorCode::InvalidCredentials) {
        tracing::warn!(
            username = configured.username,
            "the configured root user is not the one that this data directory was made with, or has another password; \
             the one of the first start stays valid"
        );
    }
}
