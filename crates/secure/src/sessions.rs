//! Sessions for resumption (RFC 8446 §2.2), of clients and of a server. They are in memory, since rustls cannot write a client's session
//! to bytes, and their number is bounded. Memory is allocated when a session is stored.

use core::fmt;
use core::net::SocketAddr;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustls::client::danger::ServerCertVerifier;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::StoresServerSessions;
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, NamedGroup};

/// Maximum number of sessions with one server. Each is used once.
const PER_SERVER_MAX: usize = 8;

/// A map that forgets its oldest key to make room for a new one.
#[derive(Debug)]
struct Bounded<K, V> {
    max: usize,
    map: BTreeMap<K, (u64, V)>,
    keys: BTreeMap<u64, K>,
    next: u64,
}

impl<K: Clone + Ord, V: Default> Bounded<K, V> {
    fn new(max: usize) -> Self {
        Self { max, map: BTreeMap::new(), keys: BTreeMap::new(), next: 0 }
    }

    /// The value of a key, which is added if it is not there. `None` if there may be no key.
    fn entry(&mut self, key: &K) -> Option<&mut V> {
        if !self.map.contains_key(key) {
            if self.max == 0 {
                return None;
            }
            if self.keys.len() >= self.max
                && let Some((_, oldest)) = self.keys.pop_first()
            {
                self.map.remove(&oldest);
            }
            self.keys.insert(self.next, key.clone());
            self.map.insert(key.clone(), (self.next, V::default()));
            self.next += 1;
        }
        self.map.get_mut(key).map(|(_, value)| value)
    }

    fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: std::borrow::Borrow<Q>,
    {
        let (number, value) = self.map.remove(key)?;
        self.keys.remove(&number);
        Some(value)
    }
}

/// What a client remembers of a server.
#[derive(Debug, Default)]
struct Server {
    group: Option<NamedGroup>,
    sessions: VecDeque<Session>,
}

#[derive(Debug)]
struct Session {
    value: Tls13ClientSessionValue,
    /// The certificates by which the server was authenticated.
    chain: Arc<[CertificateDer<'static>]>,
}

#[derive(Debug)]
struct Clients {
    servers: Bounded<String, Server>,
    /// Number of calls of `clear` and `forget`. Associations that began before the latest add nothing.
    forgotten: u64,
}

/// Sessions of a client with its servers. Clones share them. A server is known by the name and the UDP port that the client connected to. In a child
/// made by `fork()` there are none, and none are added.
#[derive(Clone)]
pub struct Sessions {
    /// The process that made this.
    process: u32,
    clients: Arc<Mutex<Clients>>,
}

impl Sessions {
    /// Remembers at most this many servers, and eight sessions with each. The server that was added first is forgotten first.
    #[must_use]
    pub fn new(servers_max: usize) -> Self {
        let clients = Clients { servers: Bounded::new(servers_max), forgotten: 0 };
        Self { process: std::process::id(), clients: Arc::new(Mutex::new(clients)) }
    }

    /// `None` in a child made by `fork()`, where a lock that was held at that time is never released.
    fn lock(&self) -> Option<MutexGuard<'_, Clients>> {
        (self.process == std::process::id()).then(|| lock(&self.clients))
    }

    /// Forgets all sessions. Associations that have begun add no more.
    pub fn clear(&self) {
        let Some(mut clients) = self.lock() else { return };
        clients.servers = Bounded::new(clients.servers.max);
        clients.forgotten += 1;
    }

    /// Forgets the sessions with one server, such as `server.example:9899` or `[2001:db8::1]:9899`, and returns whether there were any. All spellings
    /// of an address are the same. Associations that have begun add no more, with any server.
    pub fn forget(&self, server: &str) -> bool {
        let Some(mut clients) = self.lock() else { return false };
        clients.forgotten += 1;
        clients.servers.remove(&key(server)).is_some_and(|server| !server.sessions.is_empty())
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let servers = self.lock().map_or(0, |clients| clients.servers.map.len());
        formatter.debug_struct("Sessions").field("servers", &servers).finish_non_exhaustive()
    }
}

/// A server's name and port as a key: addresses without scope, IPv4 addresses not as those of IPv6.
fn key(server: &str) -> String {
    match server.parse::<SocketAddr>() {
        Ok(address) => SocketAddr::new(address.ip().to_canonical(), address.port()).to_string(),
        Err(_) => server.to_ascii_lowercase(),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sessions that a client may resume.
#[derive(Clone, Debug)]
pub struct Resumption {
    /// The sessions, used instead of those in the TLS settings.
    pub sessions: Sessions,
    /// The verifier in the TLS settings. Before a session is used, it has to accept the certificates by which the server was authenticated
    /// then. rustls resumes a session only with the verifier and the client's certificate that it began with.
    pub verifier: Arc<dyn ServerCertVerifier>,
}

/// The sessions that one association takes and adds.
#[derive(Debug)]
pub(crate) struct Recall {
    resumption: Resumption,
    server: String,
    clock: Arc<dyn TimeProvider>,
    /// The server's certificates, once they were verified.
    chain: OnceLock<Arc<[CertificateDer<'static>]>>,
    forgotten: u64,
}

impl Recall {
    pub(crate) fn new(resumption: &Resumption, tls: &ClientConfig, server_name: &ServerName<'_>, port: u16) -> Self {
        let server = match server_name {
            ServerName::IpAddress(address) => SocketAddr::new((*address).into(), port).to_string(),
            name => format!("{}:{port}", name.to_str()),
        };
        let server = key(&server);
        let (resumption, clock) = (resumption.clone(), Arc::clone(&tls.time_provider));
        let forgotten = resumption.sessions.lock().map_or(0, |clients| clients.forgotten);
        Self { resumption, server, clock, chain: OnceLock::new(), forgotten }
    }

    /// Notes by which certificates the server was authenticated.
    pub(crate) fn authenticated(&self, chain: &[CertificateDer<'static>]) {
        self.chain.get_or_init(|| chain.into());
    }

    fn clients(&self) -> Option<MutexGuard<'_, Clients>> {
        self.resumption.sessions.lock()
    }

    fn pop(&self) -> Option<Session> {
        self.clients()?.servers.map.get_mut(&self.server)?.1.sessions.pop_back()
    }

    /// Whether the verifier accepts a session. No lock is held, since the verifier may be the application's.
    fn is_trusted(&self, session: &Session, name: &ServerName<'_>) -> bool {
        let (Some((own, others)), Some(now)) = (session.chain.split_first(), self.clock.current_time()) else {
            return false;
        };
        self.resumption.verifier.verify_server_cert(own, others, name, &[], now).is_ok()
    }
}

impl ClientSessionStore for Recall {
    fn set_kx_hint(&self, _: ServerName<'static>, group: NamedGroup) {
        if let Some(mut clients) = self.clients()
            && clients.forgotten == self.forgotten
            && let Some(server) = clients.servers.entry(&self.server)
        {
            server.group = Some(group);
        }
    }

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        self.clients()?.servers.map.get(&self.server)?.1.group
    }

    fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, _: ServerName<'static>, value: Tls13ClientSessionValue) {
        let Some(chain) = self.chain.get() else { return };
        if let Some(mut clients) = self.clients()
            && clients.forgotten == self.forgotten
            && let Some(server) = clients.servers.entry(&self.server)
        {
            if server.sessions.len() == PER_SERVER_MAX {
                server.sessions.pop_front();
            }
            server.sessions.push_back(Session { value, chain: Arc::clone(chain) });
        }
    }

    fn take_tls13_ticket(&self, name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        for _ in 0..PER_SERVER_MAX {
            let session = self.pop()?;
            if self.is_trusted(&session, name) {
                return Some(session.value);
            }
        }
        None
    }
}

/// Sessions that a server remembers. Each is resumed at most once, so of several copies of an early message the first one counts.
pub struct ServerSessions(Mutex<Bounded<[u8; 32], Vec<u8>>>);

impl ServerSessions {
    /// Remembers at most this many sessions, the newest ones.
    #[must_use]
    pub fn new(sessions_max: usize) -> Self {
        Self(Mutex::new(Bounded::new(sessions_max)))
    }
}

impl fmt::Debug for ServerSessions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ServerSessions").finish_non_exhaustive()
    }
}

impl StoresServerSessions for ServerSessions {
    fn put(&self, id: Vec<u8>, session: Vec<u8>) -> bool {
        // rustls draws 32 random bytes.
        let Ok(id) = id.try_into() else { return false };
        let mut sessions = lock(&self.0);
        sessions.entry(&id).is_some_and(|stored| {
            *stored = session;
            true
        })
    }

    fn get(&self, id: &[u8]) -> Option<Vec<u8>> {
        lock(&self.0).map.get(id).map(|(_, session)| session.clone())
    }

    fn take(&self, id: &[u8]) -> Option<Vec<u8>> {
        lock(&self.0).remove(id)
    }

    fn can_cache(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_has_no_sessions_and_waits_for_no_lock_of_its_parent() {
        let sessions = Sessions::new(4);
        let _held = lock(&sessions.clients);
        let inherited = Sessions { process: 0, ..sessions.clone() };
        inherited.clear();
        assert!(!inherited.forget("server.example:9899") && inherited.lock().is_none());
    }

    #[test]
    fn an_address_has_one_key_however_it_is_written() {
        for (spelled, expected) in [
            ("[2001:DB8:0::0001]:9899", "[2001:db8::1]:9899"),
            ("[fe80::1%3]:9899", "[fe80::1]:9899"),
            ("[::ffff:192.0.2.1]:9899", "192.0.2.1:9899"),
            ("Server.Example:9899", "server.example:9899"),
        ] {
            assert_eq!(key(spelled), expected);
        }
    }

    #[test]
    fn a_client_keeps_the_servers_that_it_met_last() {
        let sessions = Sessions::new(2);
        let mut clients = lock(&sessions.clients);
        for server in ["one", "two", "one", "three"] {
            assert!(clients.servers.entry(&server.to_owned()).is_some());
        }
        let known: Vec<&str> = clients.servers.map.keys().map(String::as_str).collect();
        assert_eq!(
            (known, clients.servers.keys.len()),
            (vec!["three", "two"], 2),
            "the one that was added first makes room"
        );
    }

    #[test]
    fn a_server_keeps_the_newest_sessions_and_hands_each_out_once() {
        let sessions = ServerSessions::new(2);
        for number in 1..=3 {
            assert!(sessions.put(vec![number; 32], vec![number]));
        }
        assert_eq!([1, 2, 3].map(|number| sessions.get(&[number; 32])), [None, Some(vec![2]), Some(vec![3])]);
        assert_eq!(sessions.take(&[2; 32]), Some(vec![2]));
        assert_eq!(sessions.take(&[2; 32]), None);
        assert!(sessions.put(vec![4; 32], vec![4]));
        assert_eq!(sessions.get(&[3; 32]), Some(vec![3]), "a session that was taken leaves its place to another");
        assert!(!sessions.put(vec![5; 31], vec![5]));
        assert!(!ServerSessions::new(0).put(vec![6; 32], vec![6]));
    }
}
