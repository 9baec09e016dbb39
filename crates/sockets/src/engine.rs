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
//! | `timing` | options about the timers and limits of associations |
//! | `watched` | Unix sockets on tokio |

mod connect;
mod notification;
mod options;
mod peer;
mod program;
mod requests;
mod socket;
mod timing;
mod values;
mod watched;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use festina::{BindError, Endpoint, EndpointStats, Profile, ServerConfig, Transport};
use thiserror::Error;

use self::socket::Socket;
use self::timing::Timing;
use crate::numbers::Errno;
use crate::wire::{MESSAGE_BYTES_MAX, TOKEN_BYTES, engine_variable};

/// Sockets that are remembered after their end, for programs that still ask for their error.
const ENDED_MAX: usize = 1_024;

/// Kinds of calls about options that are counted.
const OPTION_CALLS_MAX: usize = 256;

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

/// A kind of call about an option of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OptionCall {
    /// `setsockopt`, not `getsockopt`.
    pub sets: bool,
    /// The option's level, such as 132 for SCTP.
    pub level: i32,
    /// The option's number.
    pub name: i32,
}

/// How often programs made a kind of call, and how it ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct OptionCalls {
    /// All calls.
    pub calls: u64,
    /// Those that failed.
    pub failed: u64,
    /// Why the last of them failed.
    pub last_error: Option<Errno>,
}

/// Serves the SCTP sockets of one program and of the processes that it starts.
pub struct Engine {
    name: String,
    token: [u8; TOKEN_BYTES],
    config: Config,
    registry: Mutex<Registry>,
    endpoints: tokio::sync::Mutex<BTreeMap<BTreeSet<IpAddr>, Endpoint>>,
    next_socket: AtomicU64,
    next_association: AtomicI32,
    /// Texts about options without effect that the user has seen.
    told: Mutex<BTreeSet<&'static str>>,
    asked: Mutex<BTreeMap<OptionCall, OptionCalls>>,
    report: fn(&str),
}

#[derive(Default)]
struct Registry {
    sockets: HashMap<u64, Arc<Socket>>,
    /// Those that have ended, the oldest first.
    ended: VecDeque<u64>,
}

/// Binds a UDP socket. With `shares` it may have the same port as others, if they allow it; it always allows it later.
fn bind_udp(address: SocketAddr, shares: bool) -> io::Result<std::net::UdpSocket> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseport(&socket, shares)?;
    bind(&socket, &address)?;
    sockopt::set_socket_reuseport(&socket, true)?;
    Ok(socket.into())
}

/// Sets options of a new socket one after the other, as number, value and size of the buffer to show it in, and returns each as the program sees it.
/// For tests with arbitrary bytes.
pub fn try_options<'a>(settings: impl IntoIterator<Item = (i32, &'a [u8], usize)>) -> Vec<Result<Vec<u8>, Errno>> {
    let mut options = options::Options::default();
    let mut try_one = |(name, value, room): (i32, &[u8], usize)| {
        if timing::association_of(name, value).is_some() {
            let set = options.timing.set(name, value);
            options.timing.apply(Transport::default()).validate().map_err(|_| Errno::EIO)?;
            let _other = timing::address_of(name, value);
            return set.and_then(|()| options.timing.get(name, value, room));
        }
        options.set(name, value)?;
        options.get(name, room)
    };
    settings.into_iter().map(&mut try_one).collect()
}

/// Whether the system gives packets to two raw sockets at these addresses.
fn shares_packets(one: IpAddr, other: IpAddr) -> bool {
    one.is_ipv4() == other.is_ipv4() && (one == other || one.is_unspecified() || other.is_unspecified())
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
            told: Mutex::default(),
            asked: Mutex::default(),
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

    /// Returns what programs asked of options, for at most 256 kinds of calls.
    pub fn option_calls(&self) -> BTreeMap<OptionCall, OptionCalls> {
        lock(&self.asked).clone()
    }

    fn note_option(&self, call: OptionCall, error: Option<Errno>) {
        let mut asked = lock(&self.asked);
        if asked.len() >= OPTION_CALLS_MAX && !asked.contains_key(&call) {
            return;
        }
        let counts = asked.entry(call).or_default();
        counts.calls += 1;
        counts.failed += u64::from(error.is_some());
        counts.last_error = error.or(counts.last_error);
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

    /// Tells the user once what an option does not do.
    fn tell_once(&self, text: &'static str) {
        if lock(&self.told).insert(text) {
            (self.report)(text);
        }
    }

    /// Transport settings of associations, before the options of sockets.
    fn transport(&self) -> Transport {
        Transport::default()
            .with_profile(self.config.profile)
            .with_receive_buffer_bytes(2 * MESSAGE_BYTES_MAX)
            .with_message_bytes_max(MESSAGE_BYTES_MAX)
            .with_send_buffer_bytes(MESSAGE_BYTES_MAX)
            .with_expert(|expert| expert.with_messages_beyond_peer_buffer(true))
    }

    /// Returns the endpoint at the addresses that a program has bound to, the first of them first.
    async fn endpoint_at(self: &Arc<Self>, ips: &[IpAddr]) -> Result<Endpoint, Errno> {
        const ANY: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
        let is_raw = self.config.carrier == Carrier::Raw;
        // One UDP socket serves both protocols if there is IPv6.
        let real = |ip: &IpAddr| if *ip == Ipv4Addr::UNSPECIFIED && !is_raw { ANY } else { ip.to_canonical() };
        let ips: Vec<_> = ips.iter().map(real).collect();
        let key: BTreeSet<_> = ips.iter().copied().collect();
        let mut endpoints = self.endpoints.lock().await;
        if let Some(endpoint) = endpoints.get(&key) {
            return Ok(endpoint.clone());
        }
        if is_raw && endpoints.keys().flatten().any(|other| key.iter().any(|ip| shares_packets(*ip, *other))) {
            (self.report)(
                "two raw sockets would both get the packets to one address, and one of them would refuse them",
            );
            return Err(Errno::EADDRINUSE);
        }
        // Associations of the socket at any address would lose the packets to these addresses.
        let any = endpoints.get(&BTreeSet::from([ANY]));
        let shares = any.map_or(!endpoints.is_empty(), |any| any.stats().associations == 0);
        let endpoint = self.open(&ips, None, shares).await?;
        self.listen_everywhere(&endpoint);
        endpoints.insert(key, endpoint.clone());
        Ok(endpoint)
    }

    /// Has the sockets that listen at any address do so at a new endpoint as well, which takes packets to its addresses away from the other.
    fn listen_everywhere(self: &Arc<Self>, endpoint: &Endpoint) {
        let sockets: Vec<_> = lock(&self.registry).sockets.values().cloned().collect();
        for socket in sockets {
            connect::listen_there_too(self, &socket, endpoint);
        }
    }

    /// Returns the socket that listens at any address of the other version of IP, at the same port as `socket`.
    fn other_protocol(&self, socket: &Socket, port: u16) -> Option<Arc<Socket>> {
        let is_other = |other: &&Arc<Socket>| {
            let both_serve = |ip: IpAddr| socket.serves(ip) && other.serves(ip);
            let state = other.state();
            let is_there = state.bound.as_ref().is_some_and(|own| own.port == port && own.ips[0].is_unspecified());
            let listens = state.listens && is_there;
            drop(state);
            let [v4, v6] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
            other.id != socket.id && listens && !both_serve(v4) && !both_serve(v6) && !other.is_abandoned()
        };
        lock(&self.registry).sockets.values().find(is_other).cloned()
    }

    /// Returns the endpoint from which a program that is bound to no address connects to `remote`.
    async fn endpoint_to(&self, remote: IpAddr) -> Result<Endpoint, Errno> {
        // Answers arrive at the socket with the most specific address.
        let source = connect::source_to(remote);
        let any = match self.config.carrier {
            Carrier::Udp { .. } => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            Carrier::Raw => connect::unspecified(remote.is_ipv6()),
        };
        let mut endpoints = self.endpoints.lock().await;
        let own = endpoints.iter().find(|(ips, _)| ips.contains(&source)).map(|(_, own)| own);
        if let Some(endpoint) = own.or_else(|| endpoints.get(&BTreeSet::from([any]))) {
            return Ok(endpoint.clone());
        }
        // A raw socket at any address would take the packets of the others.
        let ip = if self.config.carrier == Carrier::Raw { source } else { any };
        let endpoint = match self.open(&[ip], None, !endpoints.is_empty()).await {
            // Another program has the port at some address.
            Err(Errno::EADDRINUSE) => self.open(&[ip], Some(0), false).await?,
            opened => opened?,
        };
        endpoints.insert(BTreeSet::from([ip]), endpoint.clone());
        Ok(endpoint)
    }

    /// Opens a UDP socket, whose port sockets of this program at other addresses may have as well if it `shares` it: the system gives a packet to the one
    /// with the more specific address.
    async fn open_udp(
        &self,
        address: SocketAddr,
        others: &[IpAddr],
        shares: bool,
        config: &ServerConfig,
    ) -> Result<Endpoint, BindError> {
        let bind = |address: SocketAddr| {
            let bound = match bind_udp(address, false) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && shares => bind_udp(address, true),
                bound => bound,
            };
            bound.map_err(|source| BindError::Socket { address, source })
        };
        let first = bind(address)?;
        let port = first.local_addr().map_or(address.port(), |local| local.port());
        let others: Result<Vec<_>, _> = others.iter().map(|ip| bind(SocketAddr::new(*ip, port))).collect();
        Endpoint::bind_to(first, others?, config.clone()).await
    }

    /// Opens an endpoint. It may share its port with others of this engine, if there are any.
    async fn open(&self, ips: &[IpAddr], port: Option<u16>, shares: bool) -> Result<Endpoint, Errno> {
        let (&ip, others) = ips.split_first().ok_or(Errno::EINVAL)?;
        let transport = Timing::default().apply(self.transport());
        let config = ServerConfig::plain().with_transport(transport);
        let opened = match self.config.carrier {
            Carrier::Udp { own, .. } => {
                let address = |ip| SocketAddr::new(ip, port.unwrap_or(own));
                match self.open_udp(address(ip), others, shares, &config).await {
                    // A system without IPv6.
                    Err(_) if ip == IpAddr::V6(Ipv6Addr::UNSPECIFIED) => {
                        self.open_udp(address(Ipv4Addr::UNSPECIFIED.into()), others, shares, &config).await
                    }
                    opened => opened,
                }
            }
            Carrier::Raw => Endpoint::bind_raw(ip, config.with_other_addresses(others.iter().copied())).await,
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
            let advice = match errno {
                Errno::EADDRINUSE if port != Some(0) => {
                    "; another program may use this UDP port, choose one with --udp"
                }
                Errno::EACCES if self.config.carrier == Carrier::Raw => {
                    "; --raw needs the privilege CAP_NET_RAW, without it leave --raw out"
                }
                _ => "",
            };
            (self.report)(&format!("{error}{advice}"));
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
