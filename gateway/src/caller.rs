//! Who asks, and how their writes are numbered.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::Mutex as AsyncMutex;

/// An authenticated requester. Only logins make one.
#[derive(Clone)]
pub struct Caller {
    /// The user.
    pub user: u32,
    pub(crate) origin: Origin,
}

/// Where the numbers of a caller's writes come from.
#[derive(Clone)]
pub(crate) enum Origin {
    /// The client numbered this request itself.
    Numbered(Numbers),
    /// The server numbers the requests of this credential.
    Assigned(Arc<AssignedSession>),
}

/// Numbers of one request, as a client gave them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Numbers {
    pub(crate) client: u128,
    pub(crate) session: u64,
    pub(crate) request: u64,
    /// Hash of the body, 0 when there is none.
    pub(crate) checksum: u64,
}

/// Session state of a credential whose holder does not number requests.
pub(crate) struct AssignedSession {
    pub(crate) client: u128,
    /// The number for the next command of the metadata plane.
    next_request: AtomicU64,
    /// The session, once registered. Held while a command of the metadata plane is under way: one at a time, in order.
    pub(crate) session: AsyncMutex<Option<u64>>,
}

impl AssignedSession {
    pub(crate) fn next_request(&self) -> u64 {
        self.next_request.fetch_add(1, Ordering::Relaxed)
    }
}

/// Sessions that the server holds for credentials, at most so many.
pub(crate) struct AssignedSessions {
    max: usize,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    by_credential: HashMap<String, (u64, Arc<AssignedSession>)>,
    uses: u64,
}

impl AssignedSessions {
    pub(crate) fn new(max: usize) -> AssignedSessions {
        AssignedSessions { max, inner: Mutex::default() }
    }

    /// The session of a credential, a new one when it has none. The one that was not used for the longest time goes when
    /// there are too many; a command that is under way keeps its own until it ends.
    pub(crate) fn of(&self, credential: &str) -> (Arc<AssignedSession>, Option<Arc<AssignedSession>>) {
        let mut inner = self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        inner.uses += 1;
        let now = inner.uses;
        if let Some((used, session)) = inner.by_credential.get_mut(credential) {
            *used = now;
            return (session.clone(), None);
        }
        let mut evicted = None;
        if inner.by_credential.len() >= self.max {
            let oldest = inner.by_credential.iter().min_by_key(|(_, (used, _))| *used).map(|(key, _)| key.clone());
            evicted = oldest.and_then(|key| inner.by_credential.remove(&key)).map(|(_, session)| session);
        }
        let session = Arc::new(AssignedSession {
            client: rand::random::<u128>() | 1,
            next_request: AtomicU64::new(1),
            session: AsyncMutex::new(None),
        });
        inner.by_credential.insert(credential.to_owned(), (now, session.clone()));
        (session, evicted)
    }

    /// Forgets a credential.
    pub(crate) fn remove(&self, credential: &str) -> Option<Arc<AssignedSession>> {
        let mut inner = self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        inner.by_credential.remove(credential).map(|(_, session)| session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_keeps_its_client_id_and_numbers_grow() {
        let sessions = AssignedSessions::new(2);
        let (one, _) = sessions.of("a");
        let (again, _) = sessions.of("a");
        assert_eq!(one.client, again.client);
        assert_eq!((one.next_request(), again.next_request()), (1, 2));
        let (two, _) = sessions.of("b");
        assert_ne!(one.client, two.client);
        sessions.of("a");
        let (_, evicted) = sessions.of("c");
        assert_eq!(evicted.map(|session| session.client), Some(two.client), "b was not used for the longest time");
        assert_eq!(sessions.remove("a").map(|session| session.client), Some(one.client));
        assert_ne!(sessions.of("a").0.client, one.client);
    }
}
