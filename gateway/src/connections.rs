//! Every connection of every transport: who is there, and how many are allowed.

use crate::views::{ClientInfo, Transport};
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};

/// Why a connection is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The server has as many as it may.
    #[error("the server has as many connections as it may ({0})")]
    Total(usize),
    /// The address has as many as it may.
    #[error("the address has as many connections as it may ({0})")]
    PerAddress(usize),
}

#[derive(Default)]
struct Inner {
    connections: BTreeMap<u32, ClientInfo>,
    per_address: HashMap<IpAddr, usize>,
    last_id: u32,
}

/// All connections.
#[derive(Clone)]
pub(crate) struct Connections {
    inner: Arc<Mutex<Inner>>,
    total_max: usize,
    per_address_max: usize,
}

/// A connection that is registered until it is dropped.
pub struct Connection {
    id: u32,
    address: SocketAddr,
    all: Connections,
}

impl Connections {
    pub(crate) fn new(total_max: usize, per_address_max: usize) -> Connections {
        Connections { inner: Arc::default(), total_max, per_address_max }
    }

    /// Nothing panics while it holds the lock, so it is never poisoned half-way.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn connect(&self, transport: Transport, address: SocketAddr) -> Result<Connection, Refused> {
        let mut inner = self.lock();
        if inner.connections.len() >= self.total_max {
            return Err(Refused::Total(self.total_max));
        }
        let from_there = inner.per_address.get(&address.ip()).copied().unwrap_or(0);
        if from_there >= self.per_address_max {
            return Err(Refused::PerAddress(self.per_address_max));
        }
        let mut id = inner.last_id;
        loop {
            id = id.checked_add(1).unwrap_or(1);
            // The last value means "not logged in" elsewhere on the wire.
            if id != u32::MAX && !inner.connections.contains_key(&id) {
                break;
            }
        }
        inner.last_id = id;
        inner.per_address.insert(address.ip(), from_there + 1);
        inner
            .connections
            .insert(id, ClientInfo { client_id: id, user_id: None, address, transport, consumer_groups_count: 0 });
        Ok(Connection { id, address, all: self.clone() })
    }

    pub(crate) fn all(&self) -> Vec<ClientInfo> {
        self.lock().connections.values().copied().collect()
    }

    pub(crate) fn get(&self, id: u32) -> Option<ClientInfo> {
        self.lock().connections.get(&id).copied()
    }

    pub(crate) fn count(&self) -> usize {
        self.lock().connections.len()
    }
}

impl Connection {
    /// Number of the connection.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Where it comes from.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Notes who is logged in, `None` for nobody.
    pub fn set_user(&self, user: Option<u32>) {
        if let Some(info) = self.all.lock().connections.get_mut(&self.id) {
            info.user_id = user;
        }
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("id", &self.id).field("address", &self.address).finish_non_exhaustive()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut inner = self.all.lock();
        inner.connections.remove(&self.id);
        let ip = self.address.ip();
        match inner.per_address.get_mut(&ip) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                inner.per_address.remove(&ip);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[test]
    fn limits_hold_and_places_are_given_back() {
        let all = Connections::new(3, 2);
        let one = all.connect(Transport::Tcp, address(1)).expect("room");
        let _two = all.connect(Transport::Http, address(2)).expect("room");
        assert_eq!(all.connect(Transport::Tcp, address(3)).err(), Some(Refused::PerAddress(2)));
        let other = SocketAddr::from(([127, 0, 0, 2], 1));
        let _three = all.connect(Transport::Tcp, other).expect("room");
        assert_eq!(all.connect(Transport::Tcp, other).err(), Some(Refused::Total(3)));
        one.set_user(Some(0));
        assert_eq!(all.get(one.id()).and_then(|info| info.user_id), Some(0));
        let id = one.id();
        drop(one);
        assert_eq!((all.count(), all.get(id)), (2, None));
        let again = all.connect(Transport::Tcp, address(4)).expect("room again");
        assert_ne!(again.id(), id, "numbers are not reused at once");
    }
}
