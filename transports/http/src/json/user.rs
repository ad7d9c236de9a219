//! Logins and access tokens.

use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Who logs in.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(expecting = "an object")]
pub struct LoginUser {
    /// Name of the user.
    #[schema(example = "iggy")]
    pub username: String,
    /// Password.
    #[schema(value_type = String, format = Password)]
    pub password: SecretString,
    /// Version of the client, for the log.
    #[serde(default)]
    pub version: Option<String>,
    /// Free text, for the log.
    #[serde(default)]
    pub context: Option<String>,
}

/// A token to renew.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(expecting = "an object")]
pub struct RefreshToken {
    /// An access token that is still valid.
    #[schema(value_type = String)]
    pub token: SecretString,
}

/// Who is logged in, and the token that proves it.
#[derive(Serialize, ToSchema)]
pub struct IdentityInfo {
    /// Number of the user.
    #[schema(format = Int64, minimum = 0)]
    pub user_id: u32,
    /// The access token.
    #[schema(required)]
    pub access_token: Option<TokenInfo>,
}

/// An access token. It goes into the header `Authorization: Bearer <token>`.
#[derive(Serialize, ToSchema)]
pub struct TokenInfo {
    /// The token.
    pub token: String,
    /// When it ends, in seconds since 1970.
    pub expiry: u64,
}
