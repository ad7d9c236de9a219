//! A whole node in this process.

use crate::client::Client;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;
use whippet_gateway::{Endpoints, Gateway, Settings};
use whippet_metadata::TopicDefaults;
use whippet_runtime::{Runtime, RuntimeSettings};
use whippet_storage::{DataDirectory, Engine, Identity};
use whippet_tcp::{TcpServer, TcpSettings, serve};
use whippet_vsr::{ClusterId, ReplicaId};

/// Longest wait for anything; only a hang reaches it.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A single node with one user, `iggy` with password `secret`.
pub struct Node {
    pub gateway: Gateway,
    server: TcpServer,
    runtime: Runtime,
    _directory: tempfile::TempDir,
}

pub fn block<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("an event loop");
    runtime.block_on(async { tokio::time::timeout(PATIENCE, future).await.expect("done in time") })
}

impl Node {
    pub fn start() -> Node {
        Node::start_with(|_, _| {})
    }

    pub fn start_with(change: impl FnOnce(&mut Settings, &mut TcpSettings)) -> Node {
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
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let mut settings = Settings {
            cluster_name: "test".into(),
            node_name: "node-0".into(),
            advertised_address: "127.0.0.1".into(),
            endpoints: Endpoints { tcp: port, ..Endpoints::default() },
            connections_max: 1000,
            connections_per_address_max: 1000,
            frame_size_max: 64 << 20,
            logins_at_once: 2,
            login_wait: PATIENCE,
            topic_defaults: TopicDefaults { segment_size: 1 << 20, ..TopicDefaults::default() },
            data_dir: directory.path().to_owned(),
            version: "0.1.0",
        };
        let mut tcp = TcpSettings::default();
        change(&mut settings, &mut tcp);
        let gateway = Gateway::new(settings, runtime.handle().clone());
        block(gateway.bootstrap("iggy", "secret")).expect("the root user");
        let server = serve(listener, gateway.clone(), runtime.handle().clone(), tcp).expect("the listener starts");
        Node { gateway, server, runtime, _directory: directory }
    }

    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// A client that has not logged in.
    pub fn anonymous(&self) -> Client {
        Client::connect(self.address())
    }

    /// A client of the user `iggy`.
    pub fn client(&self) -> Client {
        let mut client = self.anonymous();
        client.login();
        client
    }

    /// Tells everyone that the server stops.
    pub fn begin_stop(&self) {
        self.runtime.begin_stop();
    }

    /// Stops the node; panics when connections or shards do not end.
    pub fn stop(self) {
        self.runtime.begin_stop();
        block(self.server.ended());
        assert!(self.runtime.stop(PATIENCE), "the shards end, and everything is on disk");
    }
}
