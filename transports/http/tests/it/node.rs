//! A whole node in this process, and a client that speaks HTTP to it.

use axum::http::{HeaderMap, Method, Request, StatusCode};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use secrecy::SecretSlice;
use serde_json::{Value, json};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;
use tokio::net::TcpStream;
use whippet_gateway::{Endpoints, Gateway, Settings};
use whippet_http::{HttpServer, HttpSettings, JwtSettings, serve};
use whippet_metadata::TopicDefaults;
use whippet_runtime::{Runtime, RuntimeSettings};
use whippet_storage::{DataDirectory, Engine, Identity};
use whippet_vsr::{ClusterId, ReplicaId};

/// Longest wait for anything; only a hang reaches it.
const PATIENCE: Duration = Duration::from_secs(30);

/// A single node with one user, `iggy` with password `secret`.
pub struct Node {
    pub address: SocketAddr,
    server: HttpServer,
    runtime: Runtime,
    _directory: tempfile::TempDir,
}

impl Node {
    pub async fn start() -> Node {
        Node::start_with(|_| {}).await
    }

    pub async fn start_with(change: impl FnOnce(&mut HttpSettings)) -> Node {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let cluster = ClusterId::from_name("test");
        let identity = Identity { cluster_id: cluster.0, replica_id: 0, replica_count: 1, disk: 1 };
        let data = DataDirectory::open(directory.path(), identity).expect("a data directory");
        let settings = RuntimeSettings {
            cluster,
            replica: ReplicaId(0),
            replica_count: 1,
            shards: 2,
            pin_threads: false,
            engine: Engine::Portable,
            sync_interval: Duration::from_millis(100),
        };
        // It waits for its threads, which a thread that drives futures must not do.
        let starts = tokio::task::spawn_blocking(move || Runtime::start(settings, data));
        let runtime = starts.await.expect("no panic").expect("the shards start");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let settings = Settings {
            cluster_name: "test".into(),
            node_name: "node-0".into(),
            advertised_address: "127.0.0.1".into(),
            endpoints: Endpoints { http: port, ..Endpoints::default() },
            connections_max: 1000,
            connections_per_address_max: 1000,
            frame_size_max: 64 << 20,
            logins_at_once: 2,
            login_wait: PATIENCE,
            topic_defaults: TopicDefaults { segment_size: 1 << 20, ..TopicDefaults::default() },
            data_dir: directory.path().to_owned(),
            version: "0.1.0",
        };
        let gateway = Gateway::new(settings, runtime.handle().clone());
        gateway.bootstrap("iggy", "secret").await.expect("the root user");
        let mut settings = HttpSettings::new(JwtSettings::new(SecretSlice::from(vec![1; 32])));
        change(&mut settings);
        let server = serve(listener, gateway, runtime.handle().clone(), settings).expect("the listener starts");
        Node { address: server.address(), server, runtime, _directory: directory }
    }

    /// Stops the node; panics when connections or shards do not end.
    pub async fn stop(self) {
        self.runtime.begin_stop();
        tokio::time::timeout(PATIENCE, self.server.ended()).await.expect("all connections end");
        let runtime = self.runtime;
        let stopped = tokio::task::spawn_blocking(move || runtime.stop(PATIENCE)).await.expect("no panic");
        assert!(stopped, "the shards end");
    }

    /// A client that has not logged in.
    pub fn anonymous(&self) -> Client {
        Client { address: self.address, token: None }
    }

    /// A client of the user `iggy`.
    pub async fn client(&self) -> Client {
        let mut client = self.anonymous();
        let login = client.post("/users/login", json!({"username": "iggy", "password": "secret"})).await;
        assert_eq!(login.status, 200, "{login:?}");
        client.token = Some(login.json["access_token"]["token"].as_str().expect("a token").to_owned());
        client
    }
}

/// Makes one connection a request.
#[derive(Clone)]
pub struct Client {
    address: SocketAddr,
    pub token: Option<String>,
}

/// An answer that was read whole.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// The body as JSON, null when it is not.
    pub json: Value,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Status, number and field of an error in the shape that all have.
    pub fn error(&self) -> (u16, u64, Option<&str>) {
        for name in ["code", "reason", "type", "title", "detail", "request_id", "outcome"] {
            assert!(self.json[name].is_string(), "{name}: {self:?}");
        }
        assert_eq!(self.json["status"], self.status);
        assert!(self.json["retryable"].is_boolean());
        assert_eq!(self.header("content-type"), Some("application/json"));
        (self.status, self.json["id"].as_u64().expect("a number"), self.json["field"].as_str())
    }
}

impl Client {
    pub async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, None, &[]).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, None, &[]).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(Method::POST, path, Some(body.to_string()), &[]).await
    }

    pub async fn put(&self, path: &str, body: Value) -> Answer {
        self.send(Method::PUT, path, Some(body.to_string()), &[]).await
    }

    pub async fn send(&self, method: Method, path: &str, json: Option<String>, headers: &[(&str, &str)]) -> Answer {
        let mut request = Request::builder().method(method).uri(path).header("host", "node");
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        if json.is_some() && !headers.iter().any(|(name, _)| *name == "content-type") {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from(json.unwrap_or_default()))).expect("a request");
        let exchange = async {
            let socket = TokioIo::new(TcpStream::connect(self.address).await.expect("connects"));
            let (mut sender, connection) = hyper::client::conn::http1::handshake(socket).await.expect("a connection");
            let connection = tokio::spawn(connection);
            let response = sender.send_request(request).await.expect("an answer");
            let (parts, body) = response.into_parts();
            let body = body.collect().await.expect("a whole body").to_bytes();
            connection.abort();
            let json = serde_json::from_slice(&body).unwrap_or(Value::Null);
            Answer { status: parts.status.as_u16(), headers: parts.headers, body, json }
        };
        tokio::time::timeout(PATIENCE, exchange).await.expect("an answer in time")
    }

    /// Creates stream `s` with topic `t`.
    pub async fn stream_and_topic(&self, partitions: u32) {
        let stream = self.post("/streams", json!({"name": "s"})).await;
        assert_eq!(stream.status, 200, "{stream:?}");
        let topic = self.post("/streams/s/topics", topic_body("t", partitions)).await;
        assert_eq!(topic.status, 200, "{topic:?}");
    }
}

/// The five fields that the creation of a topic wants.
pub fn topic_body(name: &str, partitions: u32) -> Value {
    json!({
        "name": name, "partitions_count": partitions, "compression_algorithm": "none",
        "message_expiry": 0, "max_topic_size": 0
    })
}

/// Status of a success without a body.
pub const NO_CONTENT: u16 = StatusCode::NO_CONTENT.as_u16();
