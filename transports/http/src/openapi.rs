//! The OpenAPI document: what the handlers say about themselves, completed with what is the same for all.

use crate::error::{ErrorBody, ErrorOutcome};
use crate::router;
use utoipa::OpenApi as _;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, ResponseBuilder};

/// What the document says before any route is in it.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Whippet HTTP API",
        description = "Streams, topics and messages of a Whippet server. Every error has the schema `Error`. \
                       A name that consists of digits only and is below 2^32 is taken for a number in paths.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    servers((url = "/", description = "The server that this document came from")),
    components(schemas(ErrorBody, ErrorOutcome)),
    tags(
        (name = "system", description = "The server and its cluster"),
        (name = "users", description = "Logins and access tokens"),
        (name = "streams", description = "Streams"),
        (name = "topics", description = "Topics"),
        (name = "partitions", description = "Partitions"),
        (name = "messages", description = "Appending and reading messages"),
        (name = "consumer-offsets", description = "How far consumers have come")
    )
)]
struct Base;

/// The beginning of the document.
pub fn base() -> OpenApi {
    Base::openapi()
}

/// The whole document.
pub fn document() -> OpenApi {
    let (_, mut document) = router::documented().split_for_parts();
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .bearer_format("JWT")
        .description(Some("An access token from POST /users/login"))
        .build();
    if let Some(components) = &mut document.components {
        components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
    }
    for (path, item) in &mut document.paths.paths {
        let in_path = path.contains('{');
        for operation in operations(item) {
            declare_errors(operation, in_path);
        }
    }
    document
}

/// The whole document as it is served and checked in: indented, with a line end at its end.
pub fn text() -> String {
    // Maps and strings only: this cannot fail.
    let mut text = document().to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.put, &mut item.post, &mut item.delete].into_iter().flatten()
}

/// Every operation can fail in ways that its handler does not decide.
fn declare_errors(operation: &mut Operation, in_path: bool) {
    let has_bearer = operation.security.is_some();
    let has_body = operation.request_body.is_some();
    let has_parameters = operation.parameters.as_ref().is_some_and(|parameters| !parameters.is_empty());
    let rows = [
        (400, has_bearer || has_body || has_parameters, "The request is not understood, or the server refuses to do it"),
        (401, has_bearer || has_body, "There is no valid access token"),
        (403, has_bearer, "The user may not do this"),
        (404, has_bearer && in_path, "What the path names does not exist"),
        (408, has_body, "The body did not arrive in time"),
        (413, has_body, "The body is larger than the limit of the server, 2000000 bytes unless set otherwise"),
        (415, has_body, "The body is not announced as JSON"),
        (422, has_body, "The body is JSON, but not what is wanted"),
        (429, has_bearer || has_body, "Too many requests; the header `retry-after` says when to try again"),
        (500, true, "The server failed"),
        (503, true, "The server cannot do this now, and nothing was done; the header `retry-after` says when to try again"),
        (504, has_bearer || has_body, "The server did not learn the outcome in time; `outcome` says what is known"),
    ];
    for (status, applies, description) in rows {
        if !applies {
            continue;
        }
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Error"))).build();
        let response = ResponseBuilder::new().description(description).content("application/json", content).build();
        operation.responses.responses.entry(status.to_string()).or_insert_with(|| response.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::collections::BTreeSet;
    use std::path::Path;

    fn json() -> Value {
        serde_json::from_str(&text()).unwrap()
    }

    fn each_operation(document: &Value, mut visit: impl FnMut(&str, &str, &Value)) {
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                visit(path, method, operation);
            }
        }
    }

    /// Rewritten by `UPDATE_OPENAPI=1 cargo test -p whippet-http`.
    #[test]
    fn the_checked_in_copy_is_the_document() {
        let copy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../openapi/openapi.json");
        let generated = text();
        if std::env::var_os("UPDATE_OPENAPI").is_some() {
            std::fs::write(&copy, &generated).unwrap();
        }
        let checked_in = std::fs::read_to_string(&copy).unwrap_or_default();
        assert!(
            checked_in == generated,
            "openapi/openapi.json is not what the handlers say; rewrite it with UPDATE_OPENAPI=1 cargo test -p whippet-http"
        );
    }

    #[test]
    fn the_document_is_openapi_3_1_with_licence_and_bearer() {
        let document = json();
        assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
        assert_eq!(document["info"]["license"]["identifier"], "Apache-2.0");
        assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(document["components"]["securitySchemes"]["bearer"]["scheme"], "bearer");
    }

    #[test]
    fn every_operation_has_its_own_id_and_describes_every_response() {
        let document = json();
        let mut ids = BTreeSet::new();
        each_operation(&document, |path, method, operation| {
            let id = operation["operationId"].as_str().unwrap();
            assert!(ids.insert(id.to_owned()), "{id} twice");
            assert!(!operation["summary"].as_str().unwrap_or_default().is_empty(), "{method} {path} has no summary");
            for (status, response) in operation["responses"].as_object().unwrap() {
                assert!(!response["description"].as_str().unwrap().is_empty(), "{method} {path} {status}");
                if status.as_bytes()[0] >= b'4' {
                    let schema = &response["content"]["application/json"]["schema"]["$ref"];
                    assert_eq!(schema, "#/components/schemas/Error", "{method} {path} {status}");
                }
            }
        });
        assert_eq!(ids.len(), 32);
    }

    #[test]
    fn all_but_the_public_paths_want_a_bearer() {
        let mut public = BTreeSet::new();
        each_operation(&json(), |path, method, operation| {
            if operation["security"].is_null() {
                public.insert(format!("{method} {path}"));
            }
        });
        let expected = ["get /", "get /ping", "post /users/login", "post /users/refresh-token"];
        assert_eq!(public, expected.map(str::to_owned).into());
    }

    /// Generators map these to types that are too small.
    #[test]
    fn no_number_has_an_unsigned_or_a_32_bit_format() {
        fn visit(value: &Value, at: &str) {
            match value {
                Value::Object(members) => {
                    let format = members.get("format").and_then(Value::as_str).unwrap_or_default();
                    assert!(!format.starts_with("uint"), "{at}: {format}");
                    let small_enough = at.ends_with("/status") || at.ends_with("/default_value/items");
                    assert!(format != "int32" || small_enough, "{at}: {format}");
                    members.iter().for_each(|(name, value)| visit(value, &format!("{at}/{name}")));
                }
                Value::Array(items) => items.iter().for_each(|item| visit(item, at)),
                _ => {}
            }
        }
        visit(&json(), "");
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let document = json();
        let text = document.to_string();
        for reference in text.split("\"$ref\":\"#").skip(1).map(|rest| rest.split('"').next().unwrap()) {
            assert!(document.pointer(reference).is_some(), "{reference}");
        }
    }
}
