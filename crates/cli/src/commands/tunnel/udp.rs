//! Datagrams through a tunnel. A message is the number of a client (32 bits, network byte order) and the datagram; it may
//! overtake others, and is given up when it is too old.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use festina::{Association, ClosedReason, Message};
use tokio::net::UdpSocket;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{Kind, UdpArgs, Way};
use crate::commands::say_goodbye;
use crate::{output, signal};

/// Programs that may send through one tunnel; datagrams of more are dropped.
const CLIENTS_MAX: usize = 1_024;
/// No UDP datagram is longer.
const DATAGRAM_BYTES_MAX: usize = 65_535;
const NUMBER_BYTES: usize = 4;
/// How long to wait before another attempt to reach the exit.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The entrance: carries until interrupted. When the association ends, it makes another one.
pub(super) async fn run(arguments: UdpArgs) -> Result<()> {
    let listen = arguments.entrance.listen.resolve().await?;
    let socket = UdpSocket::bind(listen).await.with_context(|| format!("cannot listen on {listen}"))?;
    let way = Way::new(&arguments.entrance).await?;
    let mut association = way.open(Kind::Udp).await?;
    let interruption = signal::interruption();
    output::notice(&format!("{} leads to {}", socket.local_addr()?, association.remote_addr()));
    let mut entrance = Entrance { socket, lifetime: arguments.lifetime, numbers: HashMap::new(), clients: Vec::new() };
    let carrying = async {
        loop {
            let reason = entrance.carry(&association).await?;
            output::complain(&format!("the tunnel ended: {}; trying again", output::end_of(&reason)));
            association = loop {
                sleep(RETRY_AFTER).await;
                match way.open(Kind::Udp).await {
                    Ok(association) => break association,
                    Err(error) => output::complain(&output::causes(&error)),
                }
            };
            output::notice("the tunnel is there again");
        }
    };
    let ended = tokio::select! {
        ended = carrying => ended,
        () = interruption => Ok(()),
    };
    say_goodbye(&way.endpoint).await;
    ended
}

struct Entrance {
    socket: UdpSocket,
    lifetime: Duration,
    numbers: HashMap<SocketAddr, usize>,
    /// By their numbers.
    clients: Vec<SocketAddr>,
}

impl Entrance {
    /// Carries both ways until the association ends, and returns why it did.
    async fn carry(&mut self, association: &Association) -> Result<ClosedReason> {
        let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
        loop {
            tokio::select! {
                received = self.socket.recv_from(&mut buffer) => {
                    // An error tells of an earlier datagram whose receiver is not there.
                    let Ok((length, client)) = received else { continue };
                    let datagram = buffer.get(..length).unwrap_or_default();
                    if let Some(number) = self.number_of(client) {
                        // Where there is no room for it, a network drops a datagram.
                        let _ = association.try_send(message(number, datagram, self.lifetime));
                    }
                }
                message = association.recv() => match message {
                    Ok(message) => {
                        if let Some((number, datagram)) = split(message.payload)
                            && let Some(client) = usize::try_from(number).ok().and_then(|number| self.clients.get(number))
                        {
                            let _ = self.socket.send_to(&datagram, client).await;
                        }
                    }
                    Err(reason) => return Ok(reason),
                },
            }
        }
    }

    /// The number of this client; `None` if there are too many.
    fn number_of(&mut self, client: SocketAddr) -> Option<u32> {
        let number = match self.numbers.get(&client) {
            Some(number) => *number,
            None if self.clients.len() < CLIENTS_MAX => {
                self.clients.push(client);
                self.numbers.insert(client, self.clients.len() - 1);
                self.clients.len() - 1
            }
            None => return None,
        };
        u32::try_from(number).ok()
    }
}

/// The exit: carries both ways until the association ends. Each client has a socket of its own, so that the server tells them
/// apart.
pub(super) async fn take_out(association: &Association, server: SocketAddr, lifetime: Duration) {
    let mut upstreams: HashMap<u32, Arc<UdpSocket>> = HashMap::new();
    let mut answers = JoinSet::new();
    while let Ok(message) = association.recv().await {
        let Some((number, datagram)) = split(message.payload) else { continue };
        let upstream = match upstreams.get(&number) {
            Some(upstream) => upstream.clone(),
            None if upstreams.len() < CLIENTS_MAX => {
                let Ok(upstream) = connected_to(server).await.map(Arc::new) else { continue };
                upstreams.insert(number, upstream.clone());
                answers.spawn(bring_back(association.clone(), number, upstream.clone(), lifetime));
                upstream
            }
            None => continue,
        };
        // An error tells of an earlier datagram that found nobody; the next one may.
        let _ = upstream.send(&datagram).await;
    }
}

async fn connected_to(server: SocketAddr) -> std::io::Result<UdpSocket> {
    let any: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(server).await?;
    Ok(socket)
}

/// Carries the server's answers to one client back, until the association ends.
async fn bring_back(association: Association, number: u32, upstream: Arc<UdpSocket>, lifetime: Duration) {
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    loop {
        // An error tells of an earlier datagram that found nobody.
        let Ok(length) = upstream.recv(&mut buffer).await else { continue };
        let datagram = buffer.get(..length).unwrap_or_default();
        let _ = association.try_send(message(number, datagram, lifetime));
    }
}

fn message(number: u32, datagram: &[u8], lifetime: Duration) -> Message {
    let mut payload = BytesMut::with_capacity(NUMBER_BYTES + datagram.len());
    payload.put_u32(number);
    payload.put_slice(datagram);
    Message { unordered: true, lifetime: Some(lifetime), ..Message::new(payload.freeze()) }
}

/// The client's number and the datagram; `None` if that is no such message.
fn split(mut message: Bytes) -> Option<(u32, Bytes)> {
    Some((message.try_get_u32().ok()?, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_the_client_and_keeps_the_datagram() {
        for datagram in [&b"hello"[..], b""] {
            let message = message(7, datagram, Duration::from_secs(1));
            assert!(message.unordered);
            assert_eq!(split(message.payload), Some((7, Bytes::copy_from_slice(datagram))));
        }
        assert_eq!(split(Bytes::from_static(b"abc")), None);
    }
}
