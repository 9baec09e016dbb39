//! The engine: the associations behind the SCTP sockets of programs.
//!
//! | module | purpose |
//! |---|---|
//! | `socket` | one socket of a program: its state, and the datagrams of its pair |
//! | `peer` | one association: messages and events on their way to the program |
//! | `program` | messages of the program on their way to associations |
//! | `connect` | connecting and listening |
//! | `requests` | the system calls of programs that are more than datagrams |
//! | `values` | options whose values are gauges of an association |
//! | `options`, `notification` | the options of a socket, and notifications |
//! | `watched` | Unix sockets on tokio |

mod connect;
mod notification;
mod options;
mod peer;
mod program;
mod requests;
mod socket;
mod values;
mod watched;

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use festina::{BindError, Endpoint, EndpointStats, Profile, ServerConfig, Transport};
use thiserror::Error;

use self::socket::Socket;
use crate::numbers::Errno;
use crate::wire::{MESSAGE_BYTES_MAX, TOKEN_BYTES, engine_variable};

/// Sockets that are remembered after their end, for programs that still ask for their error.
const ENDED_MAX: usize = 1_024;

/// How packets travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// UDP encapsulation (RFC 6951): the own UDP port, 0 for any, and that of peers.
    Udp {
        /// The own port.
        own: u16,
        /// The port of peers, unless the program sets `SCTP_REMOTE_UDP_ENCAPS_PORT`.
        peer: u16,
    },
    /// IP protocol 132, which needs the privilege CAP_NET_RAW.
    Raw,
}

/// Settings of an engine.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// How packets travel.
    pub carrier: Carrier,
    /// Loss recovery.
    pub profile: Profile,
}

/// Why an engine could not be started.
#[derive(Debug, Error)]
pub enum StartError {
    /// The system could not provide random numbers.
    #[error("cannot get random numbers from the operating system")]
    Randomness,
    /// The socket for requests of programs could not be opened.
    #[error("cannot open a socket for the program's requests: {0}")]
    Socket(#[from] io::Error),
}

/// Serves the SCTP sockets of one program and of the processes that it starts.
pub struct Engine {
    name: String,
    token: [u8; TOKEN_BYTES],
    config: Config,
    registry: Mutex<Registry>,
    endpoints: tokio::sync::Mutex<HashMap<IpAddr, Endpoint>>,
    next_socket: AtomicU64,
    next_association: AtomicI32,
    /// Options that were recorded only, each named once.
    reported: Mutex<HashSet<&'static str>>,
    report: fn(&str),
}

#[derive(Default)]
struct Registry {
    sockets: HashMap<u64, Arc<Socket>>,
    /// Those that have ended, the oldest first.
    ended: VecDeque<u64>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine {
    /// Starts an engine on the current tokio runtime. `report` receives lines for the user.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(config: Config, report: fn(&str)) -> Result<Arc<Self>, StartError> {
        let mut token = [0; TOKEN_BYTES];
        let mut number = [0; 8];
        getrandom::fill(&mut token).map_err(|_| StartError::Randomness)?;
        getrandom::fill(&mut number).map_err(|_| StartError::Randomness)?;
        let name = format!("festina-sctp-{:016x}", u64::from_ne_bytes(number));
        let engine = Arc::new(Self {
            name,
            token,
            config,
            registry: Mutex::default(),
            endpoints: tokio::sync::Mutex::default(),
            next_socket: AtomicU64::new(1),
            // The first numbers have a meaning of their own: all, future and current associations.
            next_association: AtomicI32::new(3),
            reported: Mutex::default(),
            report,
        });
        requests::serve(&engine)?;
        Ok(engine)
    }

    /// Returns the value of [`ENGINE_VARIABLE`](crate::ENGINE_VARIABLE) for programs.
    pub fn variable(&self) -> String {
        engine_variable(&self.name, &self.token)
    }

    /// Ends all associations gracefully, as the kernel does after the last process has exited, and waits for at most `limit`.
    pub async fn finish(&self, limit: Duration) {
        let endpoints: Vec<Endpoint> = self.endpoints.lock().await.values().cloned().collect();
        let closing = async {
            for endpoint in &endpoints {
                endpoint.close().await;
            }
        };
        let _over = tokio::time::timeout(limit, closing).await;
    }

    /// Returns the counters of each UDP or raw socket, with its address.
    pub async fn stats(&self) -> Vec<(SocketAddr, EndpointStats)> {
        self.endpoints.lock().await.values().map(|endpoint| (endpoint.local_addr(), endpoint.stats())).collect()
    }

    /// Returns the number of sockets that programs hold.
    pub fn sockets(&self) -> usize {
        let registry = lock(&self.registry);
        registry.sockets.len() - registry.ended.len()
    }

    fn find(&self, socket: u64) -> Option<Arc<Socket>> {
        lock(&self.registry).sockets.get(&socket).cloned()
    }

    fn add(&self, socket: &Arc<Socket>) {
        lock(&self.registry).sockets.insert(socket.id, socket.clone());
    }

    /// Keeps an ended socket for a while.
    fn retire(&self, socket: &Socket) {
        let mut registry = lock(&self.registry);
        if registry.ended.contains(&socket.id) {
            return;
        }
        registry.ended.push_back(socket.id);
        if registry.ended.len() > ENDED_MAX
            && let Some(oldest) = registry.ended.pop_front()
        {
            registry.sockets.remove(&oldest);
        }
    }

    fn next_association(&self) -> i32 {
        self.next_association.fetch_add(1, Ordering::Relaxed)
    }

    /// Tells the user once that an option has no effect.
    fn report_recorded(&self, option: &'static str) {
        if lock(&self.reported).insert(option) {
            (self.report)(&format!("{option} is recorded and has no effect on associations"));
        }
    }

    /// Returns the endpoint at an address that a program has bound to.
    async fn endpoint_at(&self, ip: IpAddr) -> Result<Endpoint, Errno> {
        // One socket serves both protocols if there is IPv6.
        let ip =
            if ip == IpAddr::V4(Ipv4Addr::UNSPECIFIED) { IpAddr::V6(Ipv6Addr::UNSPECIFIED) } else { ip.to_canonical() };
        let mut endpoints = self.endpoints.lock().await;
        if let Some(endpoint) = endpoints.get(&ip) {
            return Ok(endpoint.clone());
        }
        let endpoint = self.open(ip, None).await?;
        endpoints.insert(ip, endpoint.clone());
        Ok(endpoint)
    }

    /// Returns the endpoint from which a program that is bound to no address connects to `remote`.
    async fn endpoint_to(&self, remote: IpAddr) -> Result<Endpoint, Errno> {
        let any = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
        let mut endpoints = self.endpoints.lock().await;
        if let Some(endpoint) = endpoints.get(&any).or_else(|| endpoints.get(&remote.to_canonical())) {
            return Ok(endpoint.clone());
        }
        let endpoint = match self.open(any, None).await {
            // The port is taken at a single address, by this program itself perhaps.
            Err(Errno::EADDRINUSE) => self.open(any, Some(0)).await?,
            opened => opened?,
        };
        endpoints.insert(any, endpoint.clone());
        Ok(endpoint)
    }

    async fn open(&self, ip: IpAddr, port: Option<u16>) -> Result<Endpoint, Errno> {
        let transport = Transport::default()
            .with_profile(self.config.profile)
            .with_peer_timeout(None)
            .with_receive_buffer_bytes(2 * MESSAGE_BYTES_MAX)
            .with_message_bytes_max(MESSAGE_BYTES_MAX)
            .with_send_buffer_bytes(MESSAGE_BYTES_MAX)
            .with_expert(|expert| expert.with_messages_beyond_peer_buffer(true));
        let config = ServerConfig::plain().with_transport(transport);
        let opened = match self.config.carrier {
            Carrier::Udp { own, .. } => {
                let address = |ip| SocketAddr::new(ip, port.unwrap_or(own));
                match Endpoint::server(address(ip), config.clone()).await {
                    // A system without IPv6.
                    Err(_) if ip == IpAddr::V6(Ipv6Addr::UNSPECIFIED) => {
                        Endpoint::server(address(Ipv4Addr::UNSPECIFIED.into()), config).await
                    }
                    opened => opened,
                }
            }
            Carrier::Raw => Endpoint::bind_raw(ip, config).await,
        };
        opened.map_err(|error| {
            let errno = match &error {
                BindError::Socket { source, .. } => match source.kind() {
                    io::ErrorKind::AddrInUse => Errno::EADDRINUSE,
                    io::ErrorKind::AddrNotAvailable => Errno::EADDRNOTAVAIL,
                    io::ErrorKind::PermissionDenied => Errno::EACCES,
                    _ => Errno::EIO,
                },
                _ => Errno::EIO,
            };
            if errno != Errno::EADDRINUSE || port == Some(0) {
                (self.report)(&error.to_string());
            } else {
                (self.report)(&format!("{error}; another program may use this UDP port, choose one with --udp"));
            }
            errno
        })
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the token, which is a secret.
        formatter.debug_struct("Engine").field("name", &self.name).field("config", &self.config).finish_non_exhaustive()
    }
}
