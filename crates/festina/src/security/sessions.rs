//! Sessions of clients, as applications hold them.

use festina_secure::sessions;

use crate::address::Zoned;

/// Sessions of this side with the servers that it connects to, for [`ClientSecurity::with_sessions`](super::ClientSecurity::with_sessions). A session that is
/// resumed saves the server's certificate, and early messages are sent with the first packet. Clones share the sessions.
///
/// A server is known by the name and the UDP port that this side connects to, its [`Host`](crate::Host):
/// `server.example:9899`, or `192.0.2.1:9899` if it has no name. Before a session is resumed, the endpoint's [`Trust`](super::Trust) judges the
/// certificates by which the server was authenticated then; a session that is refused is dropped, and the handshake is a full one. Sessions are
/// in memory only and end with the process; in a child made by `fork()` there are none.
#[derive(Clone, Debug)]
pub struct Sessions(pub(super) sessions::Sessions);

impl Sessions {
    /// Remembers at most this many servers, and eight sessions with each. The server that was added first is forgotten first.
    #[must_use]
    pub fn new(servers_max: usize) -> Self {
        Self(sessions::Sessions::new(servers_max))
    }

    /// Forgets all sessions. Associations that have begun add no more.
    pub fn clear(&self) {
        self.0.clear();
    }

    /// Forgets the sessions with one server, and returns whether there were any. It is named by the server name, if the
    /// [`ConnectOptions`](crate::ConnectOptions::server_name) set one. Associations that have begun add no more, with any server.
    pub fn forget(&self, server: &str) -> bool {
        let named = server.rsplit_once(':').and_then(|(host, port)| Some((Zoned::of(host)?, port)));
        match named {
            // Sessions are named as certificates are.
            Some((host, port)) => self.0.forget(&format!("[{}]:{port}", host.address)),
            None => self.0.forget(server),
        }
    }
}
