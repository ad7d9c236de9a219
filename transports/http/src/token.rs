//! Access tokens: JSON web tokens that this listener issues and verifies by itself.

pub mod revocation;

use crate::error::ApiError;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use revocation::Revoked;
use secrecy::{ExposeSecret, SecretSlice};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Issuer and audience of tokens unless set otherwise; clients of this protocol expect these.
pub const ISSUER_DEFAULT: &str = "iggy.apache.org";
/// Most bytes of a token that is looked at; ours have about 400.
const TOKEN_LENGTH_MAX: usize = 8 * 1024;
/// Most bytes of a token id; ours have 36.
const TOKEN_ID_MAX: usize = 64;

/// How access tokens are made.
#[derive(Clone, Debug)]
pub struct JwtSettings {
    /// Key of the HMAC. Nodes that share it accept each other's tokens; one that is made up at each start ends all
    /// tokens with the process. At least 1 byte, better 32.
    pub secret: SecretSlice<u8>,
    /// Put into tokens, and wanted of them.
    pub issuer: String,
    /// Put into tokens, and wanted of them.
    pub audience: String,
    /// How long a token is valid.
    pub expiry: Duration,
    /// How far the clocks of nodes may differ.
    pub clock_skew: Duration,
}

impl JwtSettings {
    /// The defaults with this key.
    pub fn new(secret: SecretSlice<u8>) -> Self {
        Self {
            secret,
            issuer: ISSUER_DEFAULT.to_owned(),
            audience: ISSUER_DEFAULT.to_owned(),
            expiry: Duration::from_secs(3600),
            clock_skew: Duration::from_secs(5),
        }
    }
}

/// What a token says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// Id of the token: what its session hangs on.
    pub jti: String,
    /// Who issued it.
    pub iss: String,
    /// For whom.
    pub aud: Audience,
    /// The user's id in decimal digits.
    pub sub: String,
    /// When it was issued, in seconds since 1970.
    pub iat: u64,
    /// When it ends.
    pub exp: u64,
    /// From when on it is valid.
    pub nbf: u64,
}

/// One audience or several; both are legal in a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Audience {
    /// One.
    One(String),
    /// Several.
    Many(Vec<String>),
}

/// A token that was just issued. Its text is a credential and stays out of `Debug`.
pub struct Issued {
    /// The text.
    pub token: String,
    /// When it ends, in seconds since 1970.
    pub expiry: u64,
}

/// Whom a valid token stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Id of the token.
    pub token_id: String,
    /// The user.
    pub user: u32,
    /// When it ends, in seconds since 1970.
    pub expiry: u64,
}

/// The secret of [`JwtSettings`] cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the secret of access tokens is empty; set http.jwt.encoding_secret or leave the choice to the server")]
pub struct UnusableSecret;

/// Issues, verifies and revokes tokens.
pub struct Tokens {
    encoding: EncodingKey,
    decoding: DecodingKey,
    validation: Validation,
    issuer: String,
    audience: String,
    expiry: u64,
    skew: u64,
    revoked: Revoked,
}

impl Tokens {
    /// # Errors
    /// [`UnusableSecret`].
    pub fn new(settings: &JwtSettings) -> Result<Self, UnusableSecret> {
        let secret = settings.secret.expose_secret();
        let mut validation = Validation::new(Algorithm::HS256);
        validation.leeway = settings.clock_skew.as_secs();
        validation.validate_nbf = true;
        validation.set_issuer(&[&settings.issuer]);
        validation.set_audience(&[&settings.audience]);
        validation.set_required_spec_claims(&["exp", "nbf", "iss", "aud", "sub"]);
        Ok(Self {
            encoding: EncodingKey::from_secret(secret).map_err(|_| UnusableSecret)?,
            decoding: DecodingKey::from_secret(secret).map_err(|_| UnusableSecret)?,
            validation,
            issuer: settings.issuer.clone(),
            audience: settings.audience.clone(),
            expiry: settings.expiry.as_secs(),
            skew: settings.clock_skew.as_secs(),
            revoked: Revoked::default(),
        })
    }

    /// A new token for this user, valid from `now` (seconds since 1970) on.
    ///
    /// # Errors
    /// 500 when the token cannot be signed.
    pub fn issue(&self, user: u32, now: u64) -> Result<Issued, ApiError> {
        let expiry = now.saturating_add(self.expiry);
        let claims = Claims {
            jti: uuid::Uuid::new_v4().to_string(),
            iss: self.issuer.clone(),
            aud: Audience::One(self.audience.clone()),
            sub: user.to_string(),
            iat: now,
            exp: expiry,
            nbf: now,
        };
        let token = jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &self.encoding).map_err(|error| {
            tracing::error!(%error, "an access token could not be signed");
            ApiError::internal(whippet_gateway::WriteOutcome::NotApplied)
        })?;
        Ok(Issued { token, expiry })
    }

    /// Whom the token stands for.
    ///
    /// # Errors
    /// 401 when it is not one of ours, was changed, is not valid yet or any more, or was revoked.
    pub fn verify(&self, token: &str) -> Result<Verified, ApiError> {
        const NOT_VALID: &str = "the access token is not valid here; log in again";
        if token.is_empty() || token.len() > TOKEN_LENGTH_MAX {
            return Err(ApiError::unauthenticated(NOT_VALID));
        }
        let claims = jsonwebtoken::decode::<Claims>(token, &self.decoding, &self.validation)
            .map_err(|error| {
                use jsonwebtoken::errors::ErrorKind;
                ApiError::unauthenticated(match error.kind() {
                    ErrorKind::ExpiredSignature => "the access token has expired; log in again",
                    _ => NOT_VALID,
                })
            })?
            .claims;
        if claims.jti.is_empty() || claims.jti.len() > TOKEN_ID_MAX {
            return Err(ApiError::unauthenticated(NOT_VALID));
        }
        if self.revoked.contains(&claims.jti) {
            return Err(ApiError::unauthenticated("the access token was given up by a logout; log in again"));
        }
        let user = claims.sub.parse().map_err(|_| ApiError::unauthenticated(NOT_VALID))?;
        Ok(Verified { token_id: claims.jti, user, expiry: claims.exp })
    }

    /// From now on the token is not valid on this node any more.
    pub fn revoke(&self, token: &Verified, now: u64) {
        self.revoked.insert(&token.token_id, token.expiry.saturating_add(self.skew), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;

    fn tokens(secret: u8) -> Tokens {
        Tokens::new(&JwtSettings::new(SecretSlice::from(vec![secret; 32]))).unwrap()
    }

    fn now() -> u64 {
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
    }

    fn refusal(result: Result<Verified, ApiError>) -> (u16, u32) {
        let error = result.unwrap_err();
        (error.status.as_u16(), error.id)
    }

    #[test]
    fn an_issued_token_stands_for_its_user() {
        let tokens = tokens(1);
        let issued = tokens.issue(7, now()).unwrap();
        let verified = tokens.verify(&issued.token).unwrap();
        assert_eq!((verified.user, verified.expiry), (7, issued.expiry));
        assert!(issued.expiry >= now() + 3590 && issued.expiry <= now() + 3600);
        assert_ne!(verified.token_id, tokens.verify(&tokens.issue(7, now()).unwrap().token).unwrap().token_id);
    }

    #[test]
    fn the_token_can_be_read_by_a_browser() {
        let issued = tokens(1).issue(0, 1_800_000_000).unwrap();
        let parts: Vec<_> = issued.token.split('.').collect();
        assert_eq!(parts.len(), 3);
        let decode = |part: &str| {
            let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(part).unwrap();
            serde_json::from_slice::<serde_json::Value>(&bytes).unwrap()
        };
        assert_eq!(decode(parts[0])["alg"], "HS256");
        let claims = decode(parts[1]);
        assert_eq!(claims["sub"], "0");
        assert_eq!(claims["iss"], "iggy.apache.org");
        assert_eq!(claims["aud"], "iggy.apache.org");
        assert_eq!(claims["iat"], 1_800_000_000);
        assert_eq!(claims["nbf"], 1_800_000_000);
        assert_eq!(claims["exp"], 1_800_003_600);
        assert_eq!(claims["jti"].as_str().unwrap().len(), 36);
    }

    #[test]
    fn tokens_of_others_and_tokens_that_were_changed_are_refused() {
        let ours = tokens(1);
        let theirs = tokens(2).issue(0, now()).unwrap();
        assert_eq!(refusal(ours.verify(&theirs.token)), (401, 40));
        let mut changed = ours.issue(0, now()).unwrap().token;
        let last = changed.pop().unwrap();
        changed.push(if last == 'A' { 'B' } else { 'A' });
        for token in [changed.as_str(), "", "a.b.c", "x", &"x".repeat(9000)] {
            assert_eq!(refusal(ours.verify(token)), (401, 40), "{token:.20}");
        }
        let mut settings = JwtSettings::new(SecretSlice::from(vec![1; 32]));
        settings.issuer = "someone.else".into();
        let other_issuer = Tokens::new(&settings).unwrap().issue(0, now()).unwrap();
        assert_eq!(refusal(ours.verify(&other_issuer.token)), (401, 40));
    }

    #[test]
    fn an_unsigned_token_is_refused() {
        let ours = tokens(1);
        let issued = ours.issue(0, now()).unwrap();
        let claims = issued.token.split('.').nth(1).unwrap();
        let header = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(br#"{"alg":"none","typ":"JWT"}"#);
        assert_eq!(refusal(ours.verify(&format!("{header}.{claims}."))), (401, 40));
    }

    #[test]
    fn time_limits_hold_within_the_skew() {
        let tokens = tokens(1);
        let at = |issued_at: u64| tokens.verify(&tokens.issue(3, issued_at).unwrap().token).map(|token| token.user);
        assert_eq!(at(now() - 3598), Ok(3));
        assert_eq!(at(now() - 3602), Ok(3));
        assert_eq!(at(now() - 3610).unwrap_err().reason, "the access token has expired; log in again");
        assert_eq!(at(now() + 3), Ok(3));
        assert_eq!(at(now() + 60).unwrap_err().status, 401);
    }

    #[test]
    fn a_revoked_token_ends_and_others_of_the_user_do_not() {
        let tokens = tokens(1);
        let (first, second) = (tokens.issue(3, now()).unwrap(), tokens.issue(3, now()).unwrap());
        tokens.revoke(&tokens.verify(&first.token).unwrap(), now());
        assert_eq!(refusal(tokens.verify(&first.token)), (401, 40));
        assert_eq!(tokens.verify(&second.token).unwrap().user, 3);
    }

    #[test]
    fn an_empty_secret_is_refused() {
        assert!(Tokens::new(&JwtSettings::new(SecretSlice::from(Vec::new()))).is_err());
    }
}
