//! A server, a transport and a logged-in client of the official SDK for one test.

use iggy::prelude::*;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;
use whippet_sdk_tests::{Server, ServerOptions};

/// Longest run of one test body over the SDK.
const TEST_DEADLINE: Duration = Duration::from_secs(60);

/// How the SDK talks to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Tcp,
    Http,
}

/// What a test over the SDK gets.
pub struct Context {
    pub server: Server,
    pub transport: Transport,
    /// Logged in as root.
    pub client: IggyClient,
}

type Body<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Starts a server, logs a client in over `transport`, and runs `test` with both.
#[track_caller]
pub fn run(transport: Transport, test: impl for<'a> FnOnce(&'a Context) -> Body<'a>) {
    run_with(ServerOptions::default(), transport, test);
}

/// [`run`] with a server started by `options`.
#[track_caller]
pub fn run_with(options: ServerOptions, transport: Transport, test: impl for<'a> FnOnce(&'a Context) -> Body<'a>) {
    let server = options.start();
    let body = async move {
        let client = connect(&server, transport).await;
        let context = Context { server, transport, client };
        test(&context).await;
        context.client.shutdown().await.expect("the client shuts down");
    };
    let outcome = runtime().block_on(async { tokio::time::timeout(TEST_DEADLINE, body).await });
    assert!(outcome.is_ok(), "the test did not end within {TEST_DEADLINE:?}");
}

/// The runtime that SDK clients need.
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("threads for the client's runtime")
}

/// A client that is connected but not logged in.
pub async fn connect_anonymous(server: &Server, transport: Transport) -> IggyClient {
    let client = match transport {
        Transport::Tcp => IggyClient::builder()
            .with_tcp()
            .with_server_address(server.tcp().to_string())
            .with_reconnection_max_retries(Some(1))
            .with_no_delay()
            .build(),
        Transport::Http => IggyClient::builder().with_http().with_api_url(format!("http://{}", server.http())).build(),
    };
    let client = client.expect("addresses of a running server are valid");
    client.connect().await.expect("a running server accepts connections");
    client
}

/// A client made from a connection string and logged in as root.
pub async fn connect(server: &Server, transport: Transport) -> IggyClient {
    let text = match transport {
        Transport::Tcp => format!("iggy+tcp://iggy:iggy@{}?reconnection_retries=1&nodelay=true", server.tcp()),
        Transport::Http => format!("iggy+http://iggy:iggy@{}", server.http()),
    };
    let client = IggyClient::from_connection_string(&text).expect("a valid connection string");
    client.connect().await.expect("a running server accepts connections");
    if transport == Transport::Http {
        client.login_user("iggy", "iggy").await.expect("root logs in");
    }
    client
}

impl Context {
    /// A further client over the same transport, logged in as root.
    pub async fn another(&self) -> IggyClient {
        connect(&self.server, self.transport).await
    }

    /// Creates the stream `stream` with one topic `topic` of `partitions` partitions.
    pub async fn create(&self, stream: &str, topic: &str, partitions: u32) {
        self.client.create_stream(stream).await.expect("create stream");
        self.create_topic(stream, topic, partitions).await;
    }

    /// Creates the topic `topic` with default options in the existing stream `stream`.
    pub async fn create_topic(&self, stream: &str, topic: &str, partitions: u32) -> TopicDetails {
        let options = TopicCreateOptions { partitions_count: Some(partitions), ..TopicCreateOptions::default() };
        self.client.create_topic(&id(stream), topic, &options).await.expect("create topic")
    }

    /// Sends one batch to a partition and returns the offset of its first message.
    pub async fn send(&self, stream: &str, topic: &str, partition: u32, messages: &mut [IggyMessage]) -> u64 {
        let reply = self
            .client
            .send_messages(&id(stream), &id(topic), &Partitioning::partition_id(partition), messages)
            .await
            .expect("send");
        assert_eq!(reply.confirmations.len(), 1, "one partition was written: {reply:?}");
        assert_eq!(reply.confirmations[0].partition_id, partition);
        reply.confirmations[0].base_offset
    }

    /// Polls as consumer number 1 without committing.
    pub async fn poll(
        &self,
        stream: &str,
        topic: &str,
        partition: u32,
        strategy: PollingStrategy,
        count: u32,
    ) -> PolledMessages {
        self.client
            .poll_messages(&id(stream), &id(topic), Some(partition), &consumer(1), &strategy, count, false)
            .await
            .expect("poll")
    }
}

/// A name as an identifier.
pub fn id(name: &str) -> Identifier {
    Identifier::named(name).expect("test names are valid")
}

/// A plain consumer by number.
pub fn consumer(number: u32) -> Consumer {
    Consumer::new(Identifier::numeric(number).expect("every number is a valid identifier"))
}

/// Messages with the given payloads and no id.
pub fn messages<P: AsRef<[u8]>>(payloads: impl IntoIterator<Item = P>) -> Vec<IggyMessage> {
    payloads.into_iter().map(|payload| message(payload.as_ref())).collect()
}

/// One message without id and headers.
pub fn message(payload: &[u8]) -> IggyMessage {
    IggyMessage::builder().payload(payload.to_vec().into()).build().expect("test payloads are legal")
}

/// `count` short payloads that differ, starting with number `first`.
pub fn numbered(first: usize, count: usize) -> Vec<String> {
    (first..first + count).map(|number| format!("message {number}")).collect()
}

/// Offsets of the polled messages.
pub fn offsets(polled: &PolledMessages) -> Vec<u64> {
    polled.messages.iter().map(|message| message.header.offset).collect()
}

/// Payloads of the polled messages as texts.
pub fn texts(polled: &PolledMessages) -> Vec<String> {
    polled.messages.iter().map(|message| String::from_utf8_lossy(&message.payload).into_owned()).collect()
}

/// The server's error code in an SDK error: the code itself over TCP, the `id` of the JSON error body over HTTP.
pub fn code(error: &IggyError) -> u32 {
    let in_body = |body: &str| {
        let body: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
        body["id"].as_u64().and_then(|id| u32::try_from(id).ok())
    };
    match error {
        IggyError::HttpResponseError(_, body) => in_body(body).unwrap_or_else(|| error.as_code()),
        IggyError::ResourceNotFound(body) => in_body(body).unwrap_or_else(|| error.as_code()),
        other => other.as_code(),
    }
}

/// Asserts that a call failed with one of the `expected` error codes.
#[track_caller]
pub fn assert_code<T>(result: Result<T, IggyError>, expected: &[u32]) {
    match result {
        Ok(_) => panic!("succeeded, expected error {expected:?}"),
        Err(error) => {
            assert!(expected.contains(&code(&error)), "expected error {expected:?}, got {} ({error:?})", code(&error))
        }
    }
}
