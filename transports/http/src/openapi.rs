//! The OpenAPI document: what the handlers say about themselves, completed with what is the same for all.

use crate::error::{ErrorBody, ErrorOutcome};
use crate::router;
use utoipa::OpenApi as _;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, RefOr, Response, ResponseBuilder};

/// What the document says before any route is in it.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Whippet HTTP API",
        description = "Streams, topics and messages of a Whippet server. Every error has the schema `ApiError`. \
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
        for failure in FAILURES {
            components.responses.insert(failure.name.to_owned(), failure.response().into());
        }
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

/// A way to fail that handlers do not decide.
struct Failure {
    status: u16,
    /// Name of the shared response.
    name: &'static str,
    description: &'static str,
    /// Whether an operation can fail so.
    applies: fn(&Traits) -> bool,
}

/// What decides how an operation can fail.
struct Traits {
    bearer: bool,
    body: bool,
    parameters: bool,
    names_something: bool,
}

const FAILURES: &[Failure] = &[
    Failure {
        status: 400,
        name: "BadRequest",
        description: "The request is not understood, or the server refuses to do it",
        applies: |traits| traits.bearer || traits.body || traits.parameters,
    },
    Failure {
        status: 401,
        name: "Unauthorized",
        description: "There is no valid access token",
        applies: |traits| traits.bearer || traits.body,
    },
    Failure {
        status: 403,
        name: "Forbidden",
        description: "The user may not do this",
        applies: |traits| traits.bearer,
    },
    Failure {
        status: 404,
        name: "NotFound",
        description: "What the path names does not exist",
        applies: |traits| traits.names_something,
    },
    Failure {
        status: 408,
        name: "RequestTimeout",
        description: "The body did not arrive in time",
        applies: |traits| traits.body,
    },
    Failure {
        status: 413,
        name: "PayloadTooLarge",
        description: "The body is larger than the limit of the server, 2000000 bytes unless set otherwise",
        applies: |traits| traits.body,
    },
    Failure {
        status: 415,
        name: "UnsupportedMediaType",
        description: "The body is not announced as JSON",
        applies: |traits| traits.body,
    },
    Failure {
        status: 422,
        name: "UnprocessableContent",
        description: "The body is JSON, but not what is wanted",
        applies: |traits| traits.body,
    },
    Failure {
        status: 429,
        name: "TooManyRequests",
        description: "Too many requests; the header `retry-after` says when to try again",
        applies: |traits| traits.bearer || traits.body,
    },
    Failure { status: 500, name: "InternalServerError", description: "The server failed", applies: |_| true },
    Failure {
        status: 503,
        name: "ServiceUnavailable",
        description: "The server cannot do this now and has done nothing; the header `retry-after` says when to try again",
        applies: |_| true,
    },
    Failure {
        status: 504,
        name: "GatewayTimeout",
        description: "The server did not learn the outcome in time; `outcome` says what is known",
        applies: |traits| traits.bearer || traits.body,
    },
];

impl Failure {
    fn response(&self) -> Response {
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("ApiError"))).build();
        ResponseBuilder::new().description(self.description).content("application/json", content).build()
    }
}

fn declare_errors(operation: &mut Operation, in_path: bool) {
    let bearer = operation.security.is_some();
    let traits = Traits {
        bearer,
        body: operation.request_body.is_some(),
        parameters: operation.parameters.as_ref().is_some_and(|parameters| !parameters.is_empty()),
        names_something: bearer && in_path,
    };
    for failure in FAILURES.iter().filter(|failure| (failure.applies)(&traits)) {
        let shared = RefOr::Ref(Ref::from_response_name(failure.name));
        operation.responses.responses.entry(failure.status.to_string()).or_insert(shared);
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
                let shared = response["$ref"].as_str().and_then(|shared| shared.strip_prefix('#'));
                let response = shared.map_or(response, |shared| document.pointer(shared).unwrap());
                assert!(!response["description"].as_str().unwrap().is_empty(), "{method} {path} {status}");
                if status.as_bytes()[0] >= b'4' {
                    let schema = &response["content"]["application/json"]["schema"]["$ref"];
                    assert_eq!(schema, "#/components/schemas/ApiError", "{method} {path} {status}");
                }
            }
        });
        assert_eq!(ids.len(), 30);
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
