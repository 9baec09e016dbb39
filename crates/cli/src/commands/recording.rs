//! `--pcap`: the packets of this command's own endpoint in a file.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use clap::Args;
use festina::{ClientConfig, Direction, Endpoint, Instant, SeenPacket, ServerConfig};
use festina_trace::ip;

use crate::address;
use crate::capture::{self, CaptureFile};

/// The one interface of the capture.
const INTERFACE: &str = "festina";

/// Peers whose way is remembered; of more, each packet asks the system.
const PEERS_MAX: usize = 1_024;

/// Whether packets are recorded.
#[derive(Debug, Args)]
pub(crate) struct PcapArgs {
    /// Record every packet of this endpoint in this file, as pcapng. The file also holds the secrets of its associations, so that Wireshark and festina trace
    /// can decrypt it: only its owner can read it, and everyone to whom it is given can read all messages
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
}

impl PcapArgs {
    /// Begins the file, if one is wanted.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn begin(&self) -> Result<Recording> {
        let file = CaptureFile::create_private(self.pcap.as_deref(), &[INTERFACE])?;
        Ok(Recording { file, path: self.pcap.clone(), clock_epoch: clock_epoch() })
    }
}

/// When the library's clock was at zero, since the Unix epoch. If the system's clock is set later, the times of captures do not follow.
#[expect(clippy::disallowed_methods, reason = "the command is a driver, and captures show the date")]
fn clock_epoch() -> Duration {
    let date = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    date.saturating_sub(festina::now() - Instant::ZERO)
}

/// A file in the making, or none.
pub(crate) struct Recording {
    file: Option<CaptureFile>,
    path: Option<PathBuf>,
    clock_epoch: Duration,
}

/// Writes secrets into a file that waits for them from now on.
fn log_of(file: &CaptureFile) -> impl Fn(&str) + Send + Sync + 'static + use<> {
    file.expect_secrets();
    let file = file.clone();
    move |line| {
        // It derives keys for other purposes (RFC 8446 §7.5).
        if !line.starts_with("EXPORTER_SECRET ") {
            file.write_secrets(line);
        }
    }
}

impl Recording {
    /// Returns the settings of an endpoint whose secrets are recorded as well.
    pub(crate) fn with_secrets_of_client(&self, config: ClientConfig) -> ClientConfig {
        let (Some(file), Some(security)) = (&self.file, config.security().cloned()) else { return config };
        config.with_security(security.with_key_log(log_of(file)))
    }

    /// As [`with_secrets_of_client`](Self::with_secrets_of_client), for a server.
    pub(crate) fn with_secrets_of_server(&self, config: ServerConfig) -> ServerConfig {
        let (Some(file), Some(security)) = (&self.file, config.security().cloned()) else { return config };
        config.with_security(security.with_key_log(log_of(file)))
    }

    /// Records the endpoint's packets from now on.
    pub(crate) fn watch(&self, endpoint: &Endpoint) {
        let Some(file) = self.file.clone() else { return };
        let (ways, clock_epoch) = (Ways::to(endpoint.local_addr()), self.clock_epoch);
        endpoint.observe(move |seen: SeenPacket<'_>| {
            let remote = address::canonical(seen.remote);
            let local = ways.local_for(remote, seen.local);
            let (from, to) = match seen.direction {
                Direction::Outbound => (local, remote),
                Direction::Inbound => (remote, local),
            };
            let packet = || ip::encapsulate_udp(from, to, seen.bytes).map_err(io::Error::other);
            file.write(0, seen.at + clock_epoch, packet, None);
        });
    }

    /// Ends the file.
    ///
    /// # Errors
    /// If it could not be written, also some time before.
    pub(crate) fn finish(self) -> Result<()> {
        capture::finish(self.file, self.path.as_deref())
    }
}

/// The own address by which each peer is reached: a socket for all addresses does not know.
struct Ways {
    local: SocketAddr,
    known: Mutex<HashMap<IpAddr, IpAddr>>,
}

impl Ways {
    fn to(local: SocketAddr) -> Self {
        Self { local: address::canonical(local), known: Mutex::default() }
    }

    /// `named` is the own address if the endpoint knows it.
    fn local_for(&self, remote: SocketAddr, named: Option<IpAddr>) -> SocketAddr {
        if let Some(ip) = named {
            return address::canonical(SocketAddr::new(ip, self.local.port()));
        }
        if !self.local.ip().is_unspecified() {
            return self.local;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.get(&remote.ip()).copied();
        let ip = found.unwrap_or_else(|| own_address_towards(remote));
        if found.is_none() && known.len() < PEERS_MAX {
            known.insert(remote.ip(), ip);
        }
        SocketAddr::new(ip, self.local.port())
    }
}

/// The address that the system would send from. Nothing is sent. Where it does not say, the one that means any.
fn own_address_towards(remote: SocketAddr) -> IpAddr {
    let any = address::unspecified_for(remote);
    let asked = UdpSocket::bind(any).and_then(|socket| {
        socket.connect(remote)?;
        socket.local_addr()
    });
    asked.unwrap_or(any).ip()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_for_all_addresses_names_the_one_that_the_peer_is_reached_by() {
        let remote = "127.0.0.1:9899".parse().expect("an address");
        for any in ["0.0.0.0:7", "[::]:7"] {
            let ways = Ways::to(any.parse().expect("an address"));
            assert_eq!(ways.local_for(remote, None).to_string(), "127.0.0.1:7");
            assert_eq!(ways.local_for(remote, None).to_string(), "127.0.0.1:7", "remembered");
        }
        let one = Ways::to("192.0.2.1:7".parse().expect("an address"));
        assert_eq!(one.local_for(remote, None).to_string(), "192.0.2.1:7");
    }
}
