//! Passwords: Argon2id, away from the threads that serve.

use crate::error::GatewayError;
use argon2::Argon2;
use argon2::password_hash::phc::PasswordHash as Phc;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use whippet_metadata::PasswordHash;
use whippet_protocol::ErrorCode;
use whippet_protocol::limits::{PASSWORD_LENGTH, USERNAME_LENGTH};

/// Logins that may wait for their turn.
const WAITING_MAX: usize = 512;

/// Checks passwords, a few at a time.
#[derive(Clone)]
pub(crate) struct Passwords {
    turns: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    wait: Duration,
}

/// Hashes a password for keeping.
///
/// # Errors
/// 44 for a length that is not 3 to 100 bytes.
pub(crate) fn hash(password: &str) -> Result<PasswordHash, GatewayError> {
    if !PASSWORD_LENGTH.contains(&password.len()) {
        return Err(GatewayError::because(ErrorCode::InvalidPassword, "a password has 3 to 100 bytes"));
    }
    let hash = Argon2::default().hash_password(password.as_bytes()).map_err(|error| {
        GatewayError::because(ErrorCode::InvalidPassword, format!("the password can't be hashed: {error}"))
    })?;
    Ok(PasswordHash(hash.to_string().into()))
}

/// What the password of an unknown user is compared with, so that asking takes as long as for a known one. No password
/// is known that has this hash.
const DECOY: &str = "$argon2id$v=19$m=19456,t=2,p=1$bm8gdXNlciBoYXMgdGhpcw$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

fn verify(password: &str, hash: &str) -> bool {
    Phc::new(hash).is_ok_and(|parsed| Argon2::default().verify_password(password.as_bytes(), &parsed).is_ok())
}

impl Passwords {
    pub(crate) fn new(at_once: usize, wait: Duration) -> Passwords {
        Passwords {
            turns: Arc::new(Semaphore::new(at_once.max(1))),
            waiting: Arc::new(Semaphore::new(WAITING_MAX)),
            wait,
        }
    }

    /// Whether the password is the one of `hash`; without a hash it is not, after the same time.
    ///
    /// # Errors
    /// 42 for lengths that no user has; 58 when too many logins wait.
    pub(crate) async fn check(
        &self,
        username: &str,
        password: &str,
        known: Option<PasswordHash>,
    ) -> Result<bool, GatewayError> {
        if !USERNAME_LENGTH.contains(&username.len()) || !PASSWORD_LENGTH.contains(&password.len()) {
            return Ok(false);
        }
        let busy = || GatewayError::because(ErrorCode::TransientNotAccepted, "too many logins wait; try again");
        let _place = self.waiting.try_acquire().map_err(|_| busy())?;
        let turn = tokio::time::timeout(self.wait, self.turns.clone().acquire_owned()).await.map_err(|_| busy())?;
        let turn = turn.map_err(|_| busy())?;
        let password = password.to_owned();
        let checked = tokio::task::spawn_blocking(move || {
            let right = match known {
                Some(hash) => verify(&password, &hash.0),
                None => {
                    verify(&password, DECOY);
                    false
                }
            };
            // Here, not with the caller: one that goes away does not end the work.
            drop(turn);
            right
        });
        checked.await.map_err(|_| GatewayError::because(ErrorCode::Error, "the password check broke down; see the log"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_verifies_its_password_and_no_other() {
        let hash = hash("secret").expect("valid");
        assert!(hash.0.starts_with("$argon2id$"), "{}", hash.0);
        assert!(verify("secret", &hash.0));
        assert!(!verify("Secret", &hash.0));
        assert!(!verify("secret", "not a hash"));
    }

    #[test]
    fn an_unknown_user_costs_as_much_as_a_known_one() {
        let real = hash("secret").expect("valid");
        let cost = |hash: &str| hash.split('$').take(4).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(cost(DECOY), cost(&real.0), "same algorithm, version and parameters");
        let (decoy, real) = (Phc::new(DECOY).expect("valid"), Phc::new(&real.0).expect("valid"));
        let sizes = |hash: &Phc| (hash.salt.as_ref().map(|salt| salt.len()), hash.hash.as_ref().map(|hash| hash.len()));
        assert_eq!(sizes(&decoy), sizes(&real));
        assert!(!verify("secret", DECOY));
    }

    #[test]
    fn lengths_are_checked() {
        assert!(hash("ab").is_err());
        assert!(hash(&"a".repeat(101)).is_err());
        assert!(hash("abc").is_ok());
    }
}
