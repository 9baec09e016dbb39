//! Sessions that the application holds: judged again before they are used, shared, cleared and forgotten.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use festina_sctp::Message;
use festina_secure::HandshakeError;
use festina_secure::pinned::{Pinned, fingerprint};
use festina_secure::sessions::{Resumption, ServerSessions, Sessions};
use festina_units::Duration;
use rustls::{ClientConfig, ServerConfig};

use crate::handshake::link;
use crate::world::{NAME, Setup, World, certificate, provider};

/// The server of the worlds, as a client's sessions name it.
const SERVER: &str = "server.test:9899";

struct Parties {
    tls: (Arc<ClientConfig>, Arc<ServerConfig>),
    resumption: Resumption,
    is_trusted: Arc<AtomicBool>,
    asked: Arc<AtomicU32>,
    /// The fingerprint of the server.
    pin: [u8; 32],
}

/// Settings of a client that trusts by this verifier.
fn trusting(verifier: &Arc<Pinned>) -> Arc<ClientConfig> {
    let client = ClientConfig::builder_with_provider(provider());
    let client = client.with_protocol_versions(&[&rustls::version::TLS13]).unwrap().dangerous();
    let mut client = client.with_custom_certificate_verifier(verifier.clone()).with_no_client_auth();
    client.enable_early_data = true;
    Arc::new(client)
}

/// A client whose trust may be withdrawn, and a server.
fn parties(sessions: Sessions) -> Parties {
    let (certificate, key) = certificate(NAME);
    let pin = fingerprint(&provider(), &certificate).unwrap();
    let (is_trusted, asked) = (Arc::new(AtomicBool::new(true)), Arc::<AtomicU32>::default());
    let decision = {
        let (is_trusted, asked) = (Arc::clone(&is_trusted), Arc::clone(&asked));
        move |seen: &[u8; 32]| {
            asked.fetch_add(1, Ordering::Relaxed);
            *seen == pin && is_trusted.load(Ordering::Relaxed)
        }
    };
    let verifier = Arc::new(Pinned::deciding(provider(), Arc::new(decision)));
    let client = trusting(&verifier);
    let server = ServerConfig::builder_with_provider(provider());
    let server = server.with_protocol_versions(&[&rustls::version::TLS13]).unwrap();
    let mut server = server.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
    server.max_early_data_size = u32::MAX;
    server.session_storage = Arc::new(ServerSessions::new(64));
    let resumption = Resumption { sessions, verifier };
    Parties { tls: (client, Arc::new(server)), resumption, is_trusted, asked, pin }
}

impl Parties {
    fn world(&self, seed: u64) -> World {
        let mut setup = Setup::new(&self.tls, link(&[]), seed);
        setup.resumption = Some(self.resumption.clone());
        World::new(setup)
    }

    /// Connects, and waits for tickets. Returns whether a session was resumed.
    fn resumes(&self, seed: u64) -> bool {
        let mut world = self.world(seed);
        world.run_for(Duration::from_secs(2));
        assert!(world.client.is_established(), "{:?}", world.client.failure());
        world.client.is_resumed()
    }

    fn asked(&self) -> u32 {
        self.asked.swap(0, Ordering::Relaxed)
    }
}

#[test]
fn the_trust_is_asked_again_before_a_session_is_used() {
    let parties = parties(Sessions::new(4));
    assert!(!parties.resumes(1));
    assert_eq!(parties.asked(), 1);
    assert!(parties.resumes(2));
    assert_eq!(parties.asked(), 1, "the certificate of the session is judged");
    parties.is_trusted.store(false, Ordering::Relaxed);
    let mut world = parties.world(3);
    assert!(world.client.send_early(Message::new("secret")).is_err(), "nothing is sent to a server without trust");
    world.run_for(Duration::from_secs(2));
    assert!(matches!(world.client.failure(), Some(HandshakeError::Tls { .. })), "{:?}", world.client.failure());
    assert_eq!(parties.asked(), 4, "three sessions, and the certificate in the new handshake");
    parties.is_trusted.store(true, Ordering::Relaxed);
    assert!(!parties.resumes(4), "the refused sessions are gone");
}

#[test]
fn a_client_keeps_eight_sessions_with_a_server() {
    let mut parties = parties(Sessions::new(4));
    Arc::make_mut(&mut parties.tls.1).send_tls13_tickets = 20;
    assert!(!parties.resumes(1));
    parties.is_trusted.store(false, Ordering::Relaxed);
    parties.asked();
    // The trust judges at most eight sessions, which are dropped, and then the certificate.
    for (seed, sessions) in [(2, 8), (3, 0)] {
        let mut world = parties.world(seed);
        world.run_for(Duration::from_secs(2));
        assert_eq!((parties.asked(), world.client.is_established()), (sessions + 1, false));
    }
}

#[test]
fn sessions_are_cleared_and_forgotten_for_good() {
    let parties = parties(Sessions::new(4));
    let sessions = &parties.resumption.sessions;
    assert!(!parties.resumes(1) && parties.resumes(2));
    sessions.clear();
    assert!(!parties.resumes(3));
    assert!(!sessions.forget("server.test:9898") && sessions.forget("Server.Test:9899"));
    assert!(!sessions.forget(SERVER) && !parties.resumes(4));
    // Tickets of an association that had begun before arrive afterwards.
    sessions.clear();
    let mut begun = parties.world(5);
    sessions.clear();
    begun.run_for(Duration::from_secs(2));
    assert!(begun.client.is_established() && !sessions.forget(SERVER));
    assert!(!parties.resumes(6) && parties.resumes(7));
}

#[test]
fn sessions_of_another_client_are_not_resumed() {
    let shared = Sessions::new(4);
    let [one, mut other] = [(); 2].map(|()| parties(shared.clone()));
    assert!(!one.resumes(1));
    // It trusts the same server, by a verifier of its own.
    let verifier = Arc::new(Pinned::new(provider(), vec![one.pin]));
    other.tls = (trusting(&verifier), Arc::clone(&one.tls.1));
    other.resumption.verifier = verifier;
    let mut world = other.world(2);
    assert!(world.client.send_early(Message::new("secret")).is_err());
    world.run_for(Duration::from_secs(2));
    assert!(world.client.is_established() && !world.client.is_resumed());
    let nothing = parties(Sessions::new(0));
    assert!(!nothing.resumes(3) && !nothing.resumes(4));
}
