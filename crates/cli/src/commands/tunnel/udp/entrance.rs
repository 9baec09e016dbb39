//! The entrance: one socket for the datagrams of all programs.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use festina::{Association, ClosedReason, Instant, SendError, SendErrorKind};
use festina_emulate::{ClientAddr, ClientSocket, Recent};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::held::Held;
use super::{DATAGRAM_BYTES_MAX, IDLE_TIME, message, split};
use crate::address::{self, HostPort};
use crate::commands::next_message;
use crate::commands::tunnel::losses::Losses;
use crate::commands::tunnel::{Kind, UdpArgs, Way};
use crate::dial::{Pauses, keep_trying, may_pass};
use crate::{output, signal};

/// Carries until interrupted. When the association ends, it makes another one.
pub(in super::super) async fn run(arguments: UdpArgs) -> Result<()> {
    let interruption = signal::interruption();
    let way = Way::new(Kind::Udp, &arguments.entrance)?;
    let carrying = async {
        // At the start of the system, the address may not be there yet.
        let socket = keep_trying(async || Socket::bind(&arguments.entrance.listen).await).await?;
        Entrance::new(socket, &arguments).run(&way).await
    };
    let ended = tokio::select! {
        ended = carrying => ended,
        () = interruption => Ok(()),
    };
    way.leave().await;
    ended
}

/// The socket of the entrance in the runtime.
struct Socket {
    socket: ClientSocket,
    /// A handle of the same socket, by which the runtime watches it.
    watched: UdpSocket,
}

impl Socket {
    async fn bind(listen: &HostPort) -> Result<Self> {
        let bind = async |address| ClientSocket::bind(address).with_context(|| format!("cannot listen on {address}"));
        let socket = address::open_to_listen(listen, bind).await?;
        let watched = UdpSocket::from_std(socket.socket().try_clone()?)?;
        Ok(Self { socket, watched })
    }

    async fn recv_from(&self, buffer: &mut [u8]) -> io::Result<(usize, ClientAddr)> {
        self.watched.async_io(Interest::READABLE, || self.socket.recv_from(buffer)).await
    }

    async fn send_to(&self, datagram: &[u8], client: ClientAddr) -> io::Result<()> {
        self.watched.async_io(Interest::WRITABLE, || self.socket.send_to(datagram, client)).await
    }
}

/// A client's place in the table.
struct Seat {
    number: u32,
    used_at: Instant,
}

struct Entrance {
    socket: Socket,
    lifetime: Duration,
    seats: Recent<ClientAddr, Seat>,
    clients: HashMap<u32, ClientAddr>,
    next_number: u32,
    held: Held<ClientAddr>,
    forgotten: Losses,
    crowded: Losses,
}

impl Entrance {
    fn new(socket: Socket, arguments: &UdpArgs) -> Self {
        let (lifetime, clients_max) = (arguments.lifetime, arguments.seats.count());
        Self {
            socket,
            lifetime,
            seats: Recent::new(clients_max),
            clients: HashMap::new(),
            next_number: 0,
            held: Held::new(lifetime),
            forgotten: super::forgotten(clients_max),
            crowded: Losses::new("datagrams dropped: the path to the exit is slower than the programs"),
        }
    }

    /// Carries over one association after the other. Fails only at the start, if the first one needs a change by the user.
    async fn run(&mut self, way: &Way) -> Result<()> {
        let (mut pauses, mut is_start) = (Pauses::new(), true);
        loop {
            let dialling = async {
                loop {
                    match way.open().await {
                        Err(error) if !is_start || may_pass(&error) => pauses.wait_after(&error).await,
                        opened => break opened,
                    }
                }
            };
            let association = self.hold_until(dialling).await?;
            if is_start {
                let listen = self.socket.watched.local_addr()?;
                output::notice(&format!("{listen} leads to {}", association.remote_addr()));
            } else {
                output::notice("the tunnel is up again");
            }
            let is_first = std::mem::take(&mut is_start);
            let since = festina::now();
            let reason = match self.carry(&association).await {
                Err(error) if is_first => return Err(error),
                Err(error) => error.to_string(),
                Ok(reason) => reason.to_string(),
            };
            output::complain(&format!("the tunnel ended: {reason}; trying again"));
            pauses.note_success(festina::now().saturating_duration_since(since));
            self.hold_until(pauses.wait()).await;
        }
    }

    /// Keeps datagrams until the future is ready.
    async fn hold_until<T>(&mut self, ready: impl Future<Output = T>) -> T {
        let (mut ready, mut buffer) = (pin!(ready), vec![0; DATAGRAM_BYTES_MAX]);
        loop {
            tokio::select! {
                done = &mut ready => return done,
                received = self.socket.recv_from(&mut buffer) => {
                    if let Ok((length, client)) = received {
                        let datagram = Bytes::copy_from_slice(buffer.get(..length).unwrap_or_default());
                        self.held.push(festina::now(), client, datagram);
                    }
                }
            }
        }
    }

    /// Carries both ways until the association ends, and returns why it did.
    ///
    /// # Errors
    /// If the peer sends everything back, as `festina listen --echo` does: programs would get their own datagrams.
    async fn carry(&mut self, association: &Association) -> Result<ClosedReason> {
        while let Some((client, datagram, lifetime)) = self.held.pop(festina::now()) {
            self.enter(association, client, &datagram, lifetime);
        }
        let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
        loop {
            tokio::select! {
                received = self.socket.recv_from(&mut buffer) => {
                    // An error tells of an earlier datagram whose receiver is not there.
                    let Ok((length, client)) = received else { continue };
                    let datagram = buffer.get(..length).unwrap_or_default();
                    self.enter(association, client, datagram, self.lifetime);
                }
                message = next_message(association) => match message {
                    Ok(message) if *message.payload() == Kind::Udp.hello() => {
                        association.abort("this is no exit of a tunnel");
                        bail!("{} is no `festina tunnel exit`: it sends messages back", association.remote_addr());
                    }
                    Ok(message) => {
                        if let Some((number, datagram)) = split(message.into_payload())
                            && let Some(client) = self.clients.get(&number).copied()
                        {
                            self.seats.touch(client).into_iter().for_each(|seat| seat.used_at = festina::now());
                            let _ = self.socket.send_to(&datagram, client).await;
                        }
                    }
                    Err(reason) => return Ok(reason),
                },
            }
        }
    }

    /// Sends a client's datagram to the exit.
    fn enter(&mut self, association: &Association, client: ClientAddr, datagram: &[u8], lifetime: Duration) {
        let now = festina::now();
        let number = self.number_of(client, now);
        match association.try_send(message(number, datagram, lifetime)) {
            // The next association may still be in time.
            Err(SendError { kind: SendErrorKind::Closed, .. }) => {
                self.held.push(now, client, Bytes::copy_from_slice(datagram));
            }
            // Where there is no room for it, a network drops a datagram.
            Err(_) => self.crowded.note(),
            Ok(_) => {}
        }
    }

    /// Returns the number of this client; a new one if it is not known, which may take another client's place.
    fn number_of(&mut self, client: ClientAddr, now: Instant) -> u32 {
        if let Some(seat) = self.seats.touch(client) {
            seat.used_at = now;
            return seat.number;
        }
        // Numbers are not reused soon: the exit would take the new client for the one before.
        while self.clients.contains_key(&self.next_number) {
            self.next_number = self.next_number.wrapping_add(1);
        }
        let number = self.next_number;
        self.next_number = number.wrapping_add(1);
        if let Some((_, seat)) = self.seats.insert(client, Seat { number, used_at: now }) {
            self.clients.remove(&seat.number);
            if now.saturating_duration_since(seat.used_at) < IDLE_TIME {
                self.forgotten.note();
            }
        }
        self.clients.insert(number, client);
        number
    }
}
