//! Notices about a peer that does not answer at once: which addresses are tried, and which of them report a closed port.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::{address, output};

/// How long the peer may take before a notice.
const SILENCE_MAX: Duration = Duration::from_millis(300);
/// Pause between two questions to a host whether its port is closed: the question or its answer may be lost.
const QUESTION_PAUSE: Duration = Duration::from_secs(1);

/// Waits, and unless something has been heard by then, prints which addresses are tried and which hosts report that nothing listens. Never returns: a
/// report is no reason to give up, because everyone who can guess the ports can forge it.
pub(super) async fn narrate(addresses: Vec<SocketAddr>, is_heard: impl Fn() -> bool) -> Infallible {
    sleep(SILENCE_MAX).await;
    if !is_heard() && !addresses.is_empty() {
        let names: Vec<String> = addresses.iter().map(|remote| address::canonical(*remote).to_string()).collect();
        output::notice(&format!("connecting to {}", names.join(", ")));
        let mut questions: JoinSet<Option<SocketAddr>> = addresses.into_iter().map(closed).collect();
        while let Some(answered) = questions.join_next().await {
            if let Ok(Some(remote)) = answered {
                let remote = address::canonical(remote);
                output::notice(&format!(
                    "{remote}: the host reports that nothing listens on this UDP port; still trying"
                ));
            }
        }
    }
    pending().await
}

/// Returns the address as soon as its host reports (ICMP) that the port is closed. The system shows such reports only to connected sockets, which the
/// transport's is not, so an empty datagram of another socket asks for one.
async fn closed(remote: SocketAddr) -> Option<SocketAddr> {
    let socket = UdpSocket::bind(address::unspecified_for(remote)).await.ok()?;
    socket.connect(remote).await.ok()?;
    loop {
        let asked = async {
            socket.send(&[]).await?;
            socket.recv(&mut [0]).await
        };
        match timeout(QUESTION_PAUSE, asked).await {
            Ok(Err(error)) if is_closed_port(&error) => return Some(remote),
            // Something else, such as a word of the peer.
            Ok(_) => return None,
            Err(_) => {}
        }
    }
}

fn is_closed_port(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset)
}
