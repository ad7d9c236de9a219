//! The HTTP API: sockets, JSON and status codes in front of the gateway.
//!
//! Paths and bodies are those of the compatible HTTP API that published clients and the web console speak; errors have one
//! shape everywhere. Any node answers every request. This crate knows no replication group, no log and no permission: it
//! turns a request into one call of the gateway and the outcome into a response.

mod connection;
mod context;
mod error;
mod extract;
mod json;
mod openapi;
mod router;
mod routes;
mod server;
mod settings;
mod state;
mod status;
mod token;

pub use error::{ErrorBody, ErrorOutcome};
pub use openapi::text as openapi_document;
pub use router::InvalidCors;
pub use server::{HttpServer, ServeError, serve};
pub use settings::{CorsSettings, HttpSettings};
pub use token::{JwtSettings, UnusableSecret};
