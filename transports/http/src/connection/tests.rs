//! Whole connections over loopback sockets, with a few routes that need nothing behind them.

use super::serve;
use super::timed::Deadlines;
use crate::extract::{Json, Query, RawJson, ReadQuery};
use crate::router::surround;
use crate::settings::HttpSettings;
use axum::Router;
use axum::extract::FromRef;
use axum::routing::{get, post};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

const LIMIT: usize = 100_000;
/// Far more than anything here takes; only a hang reaches it.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone)]
struct State {
    settings: Arc<HttpSettings>,
    release: Arc<Notify>,
    entered: Arc<Notify>,
}

impl FromRef<State> for Arc<HttpSettings> {
    fn from_ref(state: &State) -> Self {
        Arc::clone(&state.settings)
    }
}

struct Fixture {
    address: SocketAddr,
    state: State,
    stop: watch::Sender<bool>,
    /// Ends when the listener and each of its connections have ended.
    server: JoinHandle<()>,
}

async fn fixture(change: impl FnOnce(&mut HttpSettings)) -> Fixture {
    let mut settings = HttpSettings { max_request_size: LIMIT, ..HttpSettings::for_tests() };
    change(&mut settings);
    let deadlines = Deadlines::from(&settings);
    let shutdown_timeout = settings.shutdown_timeout;
    let rules = settings.cors.clone();
    let state = State { settings: Arc::new(settings), release: Arc::default(), entered: Arc::default() };
    let slow = |axum::extract::State(state): axum::extract::State<State>| async move {
        state.entered.notify_one();
        state.release.notified().await;
        "slow"
    };
    let routes = Router::new()
        .route("/ping", get(|| async { "pong" }))
        .route("/length", post(|RawJson(body): RawJson| async move { body.len().to_string() }))
        .route("/json", post(|Json(_): Json<Value>| async {}))
        .route("/query", get(|_: Query<ReadQuery>| async {}))
        .route("/slow", get(slow))
        .route(
            "/panic",
            get(|| async {
                if true {
                    panic!("on purpose")
                }
            }),
        )
        .route("/big", get(|| async { vec![b'x'; 64 * 1024 * 1024] }))
        .with_state(state.clone());
    let router = surround(routes, &rules, Arc::new(|| 3)).unwrap();

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopping) = watch::channel(false);
    let server = tokio::spawn(async move {
        let mut connections = tokio::task::JoinSet::new();
        let mut listener_stops = stopping.clone();
        loop {
            let socket = tokio::select! {
                accepted = listener.accept() => accepted.unwrap().0,
                _ = listener_stops.wait_for(|stop| *stop) => break,
            };
            let mut stopping = stopping.clone();
            let stop = async move {
                stopping.wait_for(|stop| *stop).await.ok();
            };
            connections.spawn(serve(socket, router.clone(), deadlines, shutdown_timeout, stop));
        }
        while connections.join_next().await.is_some() {}
    });
    Fixture { address, state, stop, server }
}

impl Fixture {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends bytes and reads until the server closes.
    async fn exchange(&self, request: &[u8]) -> Answer {
        let mut socket = self.connect().await;
        socket.write_all(request).await.unwrap();
        Answer::read_to_end(&mut socket).await
    }

    async fn get(&self, path: &str, headers: &str) -> Answer {
        self.exchange(format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n").as_bytes()).await
    }

    async fn post(&self, path: &str, headers: &str, body: &str) -> Answer {
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n"
        );
        self.exchange(format!("{head}{body}").as_bytes()).await
    }
}

#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    async fn read_to_end(socket: &mut TcpStream) -> Answer {
        let mut bytes = Vec::new();
        timeout(PATIENCE, socket.read_to_end(&mut bytes)).await.expect("the server closes").unwrap();
        Answer::parse(&bytes)
    }

    fn parse(bytes: &[u8]) -> Answer {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no whole answer: {text:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    /// The body, which has to be an error in the one shape.
    fn error(&self) -> Value {
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        let body: Value = serde_json::from_str(&self.body).unwrap();
        let mut names: Vec<_> = body.as_object().unwrap().keys().map(String::as_str).collect();
        names.sort_unstable();
        let all = [
            "code",
            "detail",
            "field",
            "id",
            "outcome",
            "reason",
            "request_id",
            "retryable",
            "status",
            "title",
            "type",
        ];
        assert_eq!(names, all);
        assert_eq!(body["status"], self.status);
        assert_eq!(Some(body["request_id"].as_str().unwrap()), self.header("x-request-id"));
        body
    }
}

const JSON: &str = "Content-Type: application/json\r\n";

#[tokio::test]
async fn a_success_carries_its_id_and_the_view() {
    let server = fixture(|_| {}).await;
    let answer = server.get("/query", "X-Request-Id: mine\r\n").await;
    assert_eq!(
        (answer.status, answer.header("iggy-view"), answer.header("x-request-id")),
        (200, Some("3"), Some("mine"))
    );
    let ping = server.get("/ping", "").await;
    assert_eq!((ping.status, ping.body.as_str(), ping.header("iggy-view")), (200, "pong", None));
}

#[tokio::test]
async fn every_error_has_the_one_shape() {
    let server = fixture(|_| {}).await;
    let missing = server.get("/nothing/here", "").await;
    assert_eq!((missing.status, &missing.error()["code"]), (404, &"not_found".into()));
    assert_eq!(missing.header("iggy-view"), None);

    let method = server.post("/ping", "", "").await;
    assert_eq!((method.status, &method.error()["code"]), (405, &"method_not_allowed".into()));
    assert_eq!(method.header("allow"), Some("get,head"));

    let kind = server.post("/json", "Content-Type: text/plain\r\n", "{}").await;
    assert_eq!((kind.status, &kind.error()["code"]), (415, &"unsupported_media_type".into()));

    let syntax = server.post("/json", JSON, "{").await;
    assert_eq!((syntax.status, &syntax.error()["code"]), (400, &"malformed_json".into()));

    let query = server.get("/query?consistency=maybe", "").await;
    assert_eq!((query.status, &query.error()["code"]), (400, &"invalid_query".into()));

    let panicked = server.get("/panic", "").await;
    assert_eq!((panicked.status, &panicked.error()["outcome"]), (500, &"unknown".into()));
    assert_eq!(server.get("/ping", "").await.status, 200);

    let problem = server.get("/nothing", "Accept: application/problem+json\r\n").await;
    assert_eq!(problem.header("content-type"), Some("application/problem+json"));
}

#[tokio::test]
async fn pages_of_other_origins_may_call_and_may_read_errors() {
    let server = fixture(|_| {}).await;
    let preflight = server
        .exchange(
            b"OPTIONS /json HTTP/1.1\r\nHost: x\r\nConnection: close\r\nOrigin: https://app.example\r\n\
              Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization,content-type\r\n\r\n",
        )
        .await;
    assert_eq!((preflight.status, preflight.header("access-control-allow-origin")), (200, Some("*")));
    assert_eq!(preflight.header("access-control-allow-methods"), Some("get,post,put,delete,patch,head,options"));
    assert_eq!(
        preflight.header("access-control-allow-headers"),
        Some("content-type,authorization,idempotency-key,x-request-id,traceparent")
    );
    for path in ["/ping", "/nothing", "/query?consistency=x", "/panic"] {
        let answer = server.get(path, "Origin: https://app.example\r\n").await;
        assert_eq!(answer.header("access-control-allow-origin"), Some("*"), "{path}");
        let exposed = answer.header("access-control-expose-headers").unwrap();
        assert_eq!(exposed, "iggy-durability,iggy-view,retry-after,location,x-request-id", "{path}");
        assert!(answer.header("vary").unwrap().contains("origin"), "{path}");
    }
}

#[tokio::test]
async fn only_listed_origins_are_let_in() {
    let server = fixture(|settings| settings.cors.allowed_origins = vec!["https://app.example".into()]).await;
    let allowed = |answer: &Answer| answer.header("access-control-allow-origin").map(str::to_owned);
    assert_eq!(
        allowed(&server.get("/ping", "Origin: https://app.example\r\n").await).as_deref(),
        Some("https://app.example")
    );
    assert_eq!(allowed(&server.get("/ping", "Origin: https://other.example\r\n").await), None);
}

#[tokio::test]
async fn a_body_at_the_limit_passes_and_one_byte_more_does_not() {
    let server = fixture(|_| {}).await;
    let body = "1".repeat(LIMIT);
    assert_eq!(server.post("/length", JSON, &body).await.body, LIMIT.to_string());
    let answer = server.post("/length", JSON, &format!("{body}1")).await;
    assert_eq!((answer.status, answer.header("connection")), (413, Some("close")));
    let error = answer.error();
    assert_eq!(error["code"], "payload_too_large");
    assert!(error["reason"].as_str().unwrap().contains("100000 bytes"), "{error}");
}

/// A client that sends all of its body before it looks for an answer must still find one.
#[tokio::test]
async fn a_client_that_sends_much_too_much_can_read_the_answer() {
    let server = fixture(|_| {}).await;
    let part = vec![b'1'; 64 * 1024];
    for (headers, chunked) in [("Content-Length: 8388608", false), ("Transfer-Encoding: chunked", true)] {
        let mut socket = server.connect().await;
        let head = format!("POST /length HTTP/1.1\r\nHost: x\r\n{JSON}{headers}\r\n\r\n");
        socket.write_all(head.as_bytes()).await.unwrap();
        for _ in 0..128 {
            if chunked {
                socket.write_all(b"10000\r\n").await.unwrap();
            }
            socket.write_all(&part).await.unwrap();
            if chunked {
                socket.write_all(b"\r\n").await.unwrap();
            }
        }
        let answer = Answer::read_to_end(&mut socket).await;
        assert_eq!((answer.status, answer.header("connection")), (413, Some("close")), "{headers}");
        answer.error();
    }
}

#[tokio::test]
async fn a_client_that_asks_first_is_told_before_it_sends() {
    let server = fixture(|_| {}).await;
    let ask = |length: usize| {
        format!("POST /length HTTP/1.1\r\nHost: x\r\n{JSON}Content-Length: {length}\r\nExpect: 100-continue\r\n\r\n")
    };
    let mut socket = server.connect().await;
    socket.write_all(ask(LIMIT + 1).as_bytes()).await.unwrap();
    let mut bytes = vec![0; 4096];
    let read = timeout(PATIENCE, socket.read(&mut bytes)).await.unwrap().unwrap();
    assert!(bytes[..read].starts_with(b"HTTP/1.1 413 "), "{}", String::from_utf8_lossy(&bytes[..read]));

    let mut socket = server.connect().await;
    socket.write_all(ask(4).as_bytes()).await.unwrap();
    let read = timeout(PATIENCE, socket.read(&mut bytes)).await.unwrap().unwrap();
    assert_eq!(&bytes[..read], b"HTTP/1.1 100 Continue\r\n\r\n");
    socket.write_all(b"1234").await.unwrap();
    let read = timeout(PATIENCE, socket.read(&mut bytes)).await.unwrap().unwrap();
    assert!(bytes[..read].starts_with(b"HTTP/1.1 200 "));
}

#[tokio::test]
async fn an_error_without_unread_bytes_keeps_the_connection() {
    let server = fixture(|_| {}).await;
    let answer = server
        .exchange(b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\nGET /ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .await;
    assert_eq!(answer.status, 404);
    assert!(answer.body.contains("HTTP/1.1 200 OK") && answer.body.ends_with("pong"), "{answer:?}");
}

#[tokio::test]
async fn silent_and_dribbling_clients_are_cut_and_others_served_meanwhile() {
    let server = fixture(|settings| {
        settings.silent_timeout = Duration::from_millis(100);
        settings.head_timeout = Duration::from_millis(200);
    })
    .await;
    let started = Instant::now();
    let mut silent = server.connect().await;
    let mut dribbling = server.connect().await;
    dribbling.write_all(b"GET /ping HT").await.unwrap();
    assert_eq!(server.get("/ping", "").await.status, 200);
    let mut rest = Vec::new();
    timeout(PATIENCE, silent.read_to_end(&mut rest)).await.expect("the silent one is cut").unwrap();
    assert!(started.elapsed() >= Duration::from_millis(100));
    timeout(PATIENCE, dribbling.read_to_end(&mut rest)).await.expect("the dribbling one is cut").unwrap();
    assert!(started.elapsed() >= Duration::from_millis(200));
}

#[tokio::test]
async fn a_slow_body_is_answered_with_408() {
    let server = fixture(|settings| settings.body_idle_timeout = Duration::from_millis(100)).await;
    let mut socket = server.connect().await;
    let head = format!("POST /length HTTP/1.1\r\nHost: x\r\n{JSON}Content-Length: 10\r\n\r\n123");
    socket.write_all(head.as_bytes()).await.unwrap();
    let answer = Answer::read_to_end(&mut socket).await;
    assert_eq!((answer.status, answer.header("connection")), (408, Some("close")));
    assert_eq!(answer.error()["retryable"], true);
}

#[tokio::test]
async fn a_client_that_does_not_read_its_answer_is_cut() {
    let server = fixture(|settings| settings.write_timeout = Duration::from_millis(200)).await;
    let mut socket = server.connect().await;
    socket.write_all(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    server.stop.send_replace(true);
    // The stop gives the request its time; the deadline of the write strikes long before.
    let started = Instant::now();
    timeout(PATIENCE, server.server).await.expect("the connection ends").unwrap();
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
}

async fn http2(
    address: SocketAddr,
) -> (hyper::client::conn::http2::SendRequest<Empty<Bytes>>, JoinHandle<hyper::Result<()>>) {
    let socket = TokioIo::new(TcpStream::connect(address).await.unwrap());
    let (client, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), socket).await.unwrap();
    (client, tokio::spawn(connection))
}

fn http2_get(path: &str) -> axum::http::Request<Empty<Bytes>> {
    axum::http::Request::get(format!("http://x{path}")).body(Empty::new()).unwrap()
}

#[tokio::test]
async fn http2_is_spoken_to_those_who_know_it_before() {
    let server = fixture(|_| {}).await;
    let (mut client, _connection) = http2(server.address).await;
    let answer = client.send_request(http2_get("/ping")).await.unwrap();
    assert_eq!((answer.version(), answer.status().as_u16()), (axum::http::Version::HTTP_2, 200));
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "pong");
    let answer = client.send_request(http2_get("/nothing")).await.unwrap();
    assert_eq!(answer.status(), 404);
    assert!(!answer.headers().contains_key("connection"));
    let body: Value = serde_json::from_slice(&answer.into_body().collect().await.unwrap().to_bytes()).unwrap();
    assert_eq!(body["code"], "not_found");
}

#[tokio::test]
async fn a_stop_closes_idle_connections_at_once_and_lets_requests_end() {
    let server = fixture(|_| {}).await;
    let mut fresh = server.connect().await;
    let mut idle = server.connect().await;
    idle.write_all(b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut bytes = vec![0; 4096];
    assert!(timeout(PATIENCE, idle.read(&mut bytes)).await.unwrap().unwrap() > 0);
    let (mut idle2, idle2_connection) = http2(server.address).await;
    idle2.send_request(http2_get("/ping")).await.unwrap().into_body().collect().await.unwrap();
    let mut busy = server.connect().await;
    busy.write_all(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    server.state.entered.notified().await;

    server.stop.send_replace(true);
    let started = Instant::now();
    for socket in [&mut fresh, &mut idle] {
        let mut rest = Vec::new();
        timeout(PATIENCE, socket.read_to_end(&mut rest)).await.expect("closed").unwrap();
        assert_eq!(rest, b"");
    }
    timeout(PATIENCE, idle2_connection).await.expect("told to go away").unwrap().unwrap();
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());

    server.state.release.notify_one();
    let answer = Answer::read_to_end(&mut busy).await;
    assert_eq!((answer.status, answer.body.as_str(), answer.header("connection")), (200, "slow", Some("close")));
    timeout(PATIENCE, server.server).await.expect("all ended").unwrap();
}

#[tokio::test]
async fn a_stop_does_not_wait_for_ever() {
    let server = fixture(|settings| settings.shutdown_timeout = Duration::from_millis(200)).await;
    let mut stuck = server.connect().await;
    stuck.write_all(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    server.state.entered.notified().await;
    server.stop.send_replace(true);
    let started = Instant::now();
    timeout(PATIENCE, server.server).await.expect("all ended").unwrap();
    assert!((200..2000).contains(&started.elapsed().as_millis()), "{:?}", started.elapsed());
}
