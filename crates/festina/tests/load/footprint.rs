//! Memory of an endpoint before anything happens, and of the sessions that a server remembers.

use festina::security::Identity;
use festina::{BindError, ClientConfig, Endpoint, ServerConfig};
use festina_secure::sessions::ServerSessions;
use rustls::server::StoresServerSessions as _;

use crate::alone;
use crate::counting::{live_bytes, peak_bytes};

/// Endpoints that are compared: the first ones allocate what all share.
const ENDPOINTS: usize = 8;

/// Returns the bytes of one endpoint.
async fn bytes_of(open: impl AsyncFn() -> Result<Endpoint, BindError>) -> usize {
    let mut endpoints = Vec::with_capacity(ENDPOINTS + 1);
    let mut before = 0;
    for number in 0..=ENDPOINTS {
        endpoints.push(open().await.unwrap());
        if number == 0 {
            before = live_bytes();
        }
    }
    (live_bytes() - before) / ENDPOINTS
}

#[test]
fn sessions_cost_memory_only_once_there_are_some() {
    alone(1, || async {
        let address = "127.0.0.1:0".parse().unwrap();
        let anonymous = bytes_of(async || Endpoint::client(address, ClientConfig::default()).await).await;
        let identity = Identity::self_signed("server.test").unwrap();
        let server = bytes_of(async || Endpoint::server(address, ServerConfig::new(identity.clone())).await).await;
        println!("an endpoint holds {anonymous} bytes, and with an identity {server}");
        assert!(server < anonymous + 16_384);
        let (before, sessions) = (live_bytes(), ServerSessions::new(4_096));
        let fill = |sessions: &ServerSessions, count: u64| {
            for number in 0..count {
                // As scattered as random numbers, and as long as rustls' longest sessions: 56 bytes, the server name and an application protocol.
                let id =
                    [1, 2, 3, 4].map(|salt: u64| (number * 4 + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
                assert!(sessions.put(id.concat(), vec![0; 56 + 255 + 256]));
            }
        };
        assert!(live_bytes() - before < 1_024);
        fill(&sessions, 100_000);
        let full = live_bytes() - before;
        println!("{full} bytes hold 4,096 sessions of a server, at most {}", peak_bytes());
        assert!(full < 3_400_000);
    });
}
