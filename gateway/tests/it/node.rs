//! A whole node in this process, and peers that hand it frames.

use bytes::{BufMut, BytesMut};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;
use twox_hash::XxHash3_64;
use whippet_gateway::binary::BinaryConnection;
use whippet_gateway::{Endpoints, Gateway, Settings, Transport};
use whippet_metadata::TopicDefaults;
use whippet_protocol::Command;
use whippet_protocol::frame::{HeaderBytes, RequestHeader, ServerFrame};
use whippet_protocol::limits::FRAME_HEADER_SIZE;
use whippet_protocol::operation::{LOGOUT, NON_REPLICATED, Plane, REGISTER};
use whippet_protocol::wire::{WireEncode, WireIdentifier, WireName, WireOptions, requests};
use whippet_runtime::{Runtime, RuntimeSettings};
use whippet_storage::{DataDirectory, Engine, Identity};
use whippet_vsr::{ClusterId, ReplicaId};

/// Longest wait for anything; only a hang reaches it.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// Version 0.11.0 as the wire packs it.
pub const VERSION: u32 = 11 << 10;

/// A single node with one user, `iggy` with password `secret`.
pub struct Node {
    pub gateway: Gateway,
    runtime: Runtime,
    _directory: tempfile::TempDir,
}

/// Runs a test against a node.
pub fn with_node<F: Future<Output = Node>>(test: impl FnOnce(Node) -> F) {
    let node = Node::start();
    let main = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("an event loop");
    let node = main.block_on(async { tokio::time::timeout(PATIENCE, test(node)).await.expect("done in time") });
    node.runtime.begin_stop();
    assert!(node.runtime.stop(PATIENCE), "the shards end, and everything is on disk");
}

impl Node {
    fn start() -> Node {
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
        let runtime = Runtime::start(settings, data).expect("the shards start");
        let settings = Settings {
            cluster_name: "single-node".into(),
            node_name: "whippet-node".into(),
            advertised_address: "10.1.2.3".into(),
            endpoints: Endpoints { tcp: 8090, http: 3000, ..Endpoints::default() },
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
        let main = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("an event loop");
        assert!(gateway.needs_bootstrap());
        main.block_on(gateway.bootstrap("iggy", "secret")).expect("the root user");
        assert!(!gateway.needs_bootstrap());
        Node { gateway, runtime, _directory: directory }
    }

    /// A peer that has not logged in.
    pub fn anonymous(&self) -> Peer {
        static NEXT: AtomicU16 = AtomicU16::new(1);
        let port = NEXT.fetch_add(1, Ordering::Relaxed);
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let connection = self.gateway.connect(Transport::Tcp, address).expect("room");
        Peer {
            number: connection.id(),
            address,
            connection: BinaryConnection::new(self.gateway.clone(), connection),
            client: u128::from(port) << 64 | 1,
            session: 0,
            request: 0,
        }
    }

    /// A peer of the user `iggy`.
    pub async fn peer(&self) -> Peer {
        let mut peer = self.anonymous();
        peer.login().await;
        peer
    }

    /// Waits until something holds that happens in the background.
    pub async fn until(&self, what: &str, holds: impl Fn(&Gateway) -> bool) {
        let wait = async {
            while !holds(&self.gateway) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("{what}"));
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub header: Vec<u8>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn frame(&self) -> ServerFrame {
        let header: &HeaderBytes = self.header.as_slice().try_into().expect("a header");
        ServerFrame::parse(header).expect("a frame of a server")
    }

    /// Number of an error: of the status, of the result section, or minus the reason of an eviction. 0 for success.
    pub fn code(&self) -> i64 {
        match self.frame() {
            ServerFrame::Eviction { reason } => -i64::from(reason),
            ServerFrame::Reply { status, operation, .. } => {
                let framed = whippet_protocol::operation::is_result_framed(operation);
                if status != 0 {
                    assert!(self.body.is_empty(), "an error in the status comes without a body: {self:?}");
                    i64::from(status)
                } else if framed && self.body[..4] != [0; 4] {
                    assert_eq!((self.body.len(), &self.body[..8]), (12, &[1, 0, 0, 0, 0, 0, 0, 0][..]));
                    i64::from(u32::from_le_bytes(self.body[8..].try_into().expect("four bytes")))
                } else {
                    0
                }
            }
        }
    }

    /// Committed position of the metadata log.
    pub fn commit(&self) -> u64 {
        u64::from_le_bytes(self.header[184..192].try_into().expect("eight bytes"))
    }

    /// The body of a success, behind the result section.
    #[track_caller]
    pub fn payload(&self) -> &[u8] {
        assert_eq!(self.code(), 0, "{self:?}");
        let ServerFrame::Reply { operation, .. } = self.frame() else { panic!("{self:?}") };
        if whippet_protocol::operation::is_result_framed(operation) { &self.body[4..] } else { &self.body }
    }
}

/// One connection.
pub struct Peer {
    pub connection: BinaryConnection,
    /// Number of the connection.
    pub number: u32,
    pub address: SocketAddr,
    pub client: u128,
    pub session: u64,
    pub request: u64,
}

impl Peer {
    /// A header for this body, stamped with its checksum.
    pub fn header(&self, operation: u8, code: u32, body: &[u8]) -> RequestHeader {
        let login = operation == REGISTER;
        RequestHeader {
            size: (FRAME_HEADER_SIZE + body.len()) as u32,
            client: self.client,
            request_checksum: u128::from(XxHash3_64::oneshot(body)),
            request: if login { 0 } else { self.request },
            operation,
            session: if login { 0 } else { self.session },
            code,
        }
    }

    /// Hands a frame over. Checks that a reply repeats what it is a reply to.
    pub async fn hand_over(&mut self, header: RequestHeader, body: &[u8]) -> Answer {
        let mut frame = BytesMut::with_capacity(FRAME_HEADER_SIZE + body.len());
        frame.put_slice(&header.encode());
        frame.put_slice(body);
        let answer = self.connection.handle_frame(header, frame).await;
        assert!(!answer.close, "{answer:?}");
        let mut bytes = answer.head.to_vec();
        answer.chunks.iter().for_each(|chunk| bytes.extend_from_slice(chunk));
        let body = bytes.split_off(FRAME_HEADER_SIZE);
        let answer = Answer { header: bytes, body };
        match answer.frame() {
            ServerFrame::Reply { size, request, .. } => {
                assert_eq!(size as usize, FRAME_HEADER_SIZE + answer.body.len());
                assert_eq!(request, header.request);
                assert_eq!(answer.header[128..144], header.request_checksum.to_le_bytes());
                assert_eq!(answer.header[160..176], header.client.to_le_bytes());
            }
            ServerFrame::Eviction { .. } => assert!(answer.body.is_empty()),
        }
        answer
    }

    /// A command in the form that it must have; replicated ones take the next number.
    pub async fn call(&mut self, command: Command, body: &[u8]) -> Answer {
        if command.plane() != Plane::Local {
            self.request += 1;
        }
        let header = match command.operation() {
            Some(operation) => self.header(operation, 0, body),
            None => self.header(NON_REPLICATED, command.code(), body),
        };
        self.hand_over(header, body).await
    }

    /// The same with a request of the official crate.
    pub async fn ask(&mut self, command: Command, request: &impl WireEncode) -> Answer {
        self.call(command, &request.to_bytes()).await
    }

    pub async fn register(&mut self, body: &[u8]) -> Answer {
        let header = self.header(REGISTER, 0, body);
        self.hand_over(header, body).await
    }

    pub async fn login(&mut self) {
        let answer = self.register(&login(VERSION, "iggy", "secret")).await;
        let payload = answer.payload();
        assert_eq!(payload[..4], [0; 4], "the root user");
        self.session = u64::from_le_bytes(payload[4..12].try_into().expect("eight bytes"));
        assert!(self.session > 0);
        assert!(answer.commit() >= self.session, "{answer:?}");
        assert_eq!(payload[12..], [&VERSION.to_le_bytes()[..], b"\x050.1.0"].concat());
    }

    pub async fn logout(&mut self) -> Answer {
        self.request += 1;
        let header = self.header(LOGOUT, 39, &[]);
        self.hand_over(header, &[]).await
    }

    pub async fn create_stream(&mut self, text: &str) -> Answer {
        let request = requests::streams::CreateStreamRequest { name: name(text), options: no_options() };
        self.ask(Command::CreateStream, &request).await
    }

    /// Creates a topic of stream 0.
    pub async fn create_topic(&mut self, text: &str, partitions: u32) -> Answer {
        let request = requests::topics::CreateTopicRequest {
            stream_id: WireIdentifier::Numeric(0),
            partitions_count: partitions,
            name: name(text),
            options: no_options(),
        };
        self.ask(Command::CreateTopic, &request).await
    }
}

pub fn login(version: u32, username: &str, password: &str) -> Vec<u8> {
    let mut body = version.to_le_bytes().to_vec();
    for text in ["test-sdk", "0.11.0", username, password] {
        body.push(text.len() as u8);
        body.extend_from_slice(text.as_bytes());
    }
    body.extend_from_slice(&[0; 4]);
    body
}

pub fn name(text: &str) -> WireName {
    WireName::new(text).expect("1 to 255 bytes")
}

pub fn no_options() -> WireOptions {
    WireOptions::from_slice(&[]).expect("an empty block")
}
