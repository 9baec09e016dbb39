//! Two hosts that two emulated networks join.
//!
//! The server has an address on each network, and one that both networks lead to: from the client's address on the slow network by that one, otherwise
//! by the fast one.

use std::io;
use std::net::Ipv4Addr;
use std::ops::{Range, Sub};
use std::process::Command;
use std::time::Duration;

use festina_emulate::{MTU_BYTES, Namespace, RunningTunPair, TunEnd, TunPair};
use festina_netsim::{LinkConfig, LossModel};
use festina_units::Instant;
use socket2::{Domain, Protocol, Socket, Type};

use super::{Contender, Failure, Scenario};

/// Addresses of both ends on the fast and on the slow network.
pub(super) const CLIENT: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 77, 1, 1), Ipv4Addr::new(10, 77, 2, 1)];
pub(super) const SERVER: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 77, 1, 2), Ipv4Addr::new(10, 77, 2, 2)];
/// Both networks lead there.
pub(super) const SERVER_OF_BOTH: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

const DEVICES: [&str; 2] = ["fast", "slow"];
const ROUND_TRIPS: [Duration; 2] = [Duration::from_millis(60), Duration::from_millis(100)];

/// How long the fast network is down.
pub const OUTAGE: Duration = Duration::from_secs(3);
/// The time of the first outage after the networks began, and from one to the next.
const OUTAGE_BEGINS: Duration = Duration::from_secs(12);
const OUTAGE_INTERVAL: Duration = Duration::from_secs(20);
const OUTAGES_MAX: u32 = 1_000;

/// MPTCP's number among protocols, which `socket2` names only for some systems.
pub(super) const MPTCP: i32 = 262;

/// Returns whether this kernel makes MPTCP sockets.
pub fn has_mptcp() -> bool {
    Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::from(MPTCP))).is_ok()
}

/// Packets and their bytes, with IP headers.
#[derive(Clone, Copy, Debug)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Sub for Count {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self { packets: self.packets - other.packets, bytes: self.bytes - other.bytes }
    }
}

/// Both hosts and both running networks.
pub(super) struct Networks {
    pub(super) client: Namespace,
    pub(super) server: Namespace,
    pairs: [RunningTunPair; 2],
}

impl Networks {
    pub(super) fn create(contender: Contender, scenario: Scenario, seed: u64) -> Result<Self, Failure> {
        let (client, server) = (Namespace::fresh()?, Namespace::fresh()?);
        for host in [&client, &server] {
            host.run(|| settings(contender).try_for_each(|(file, value)| std::fs::write(file, value)))??;
        }
        let pair = |network: usize| -> Result<RunningTunPair, Failure> {
            let end = |namespace: &Namespace, address| -> io::Result<TunEnd> {
                let namespace = Some(namespace.try_clone()?);
                Ok(TunEnd { device: DEVICES[network].to_owned(), namespace, address, prefix_bits: 24, ipv6: None })
            };
            let loss = match network {
                0 if scenario.has_outages => LossModel::Outages(outages().collect()),
                _ => LossModel::Independent(scenario.loss),
            };
            let link = LinkConfig { delay: ROUND_TRIPS[network] / 2, loss, ..LinkConfig::default() };
            let (left, right) = (end(&client, CLIENT[network])?, end(&server, SERVER[network])?);
            let seed = seed * 2 + network as u64;
            Ok(TunPair::create(&left, &right, MTU_BYTES, (link.clone(), link), seed)?.spawn()?)
        };
        let pairs = [pair(0)?, pair(1)?];
        let [client_slow, server_slow] = [CLIENT[1], SERVER[1]];
        ip(&server, &format!("address add {SERVER_OF_BOTH}/32 dev lo"))?;
        ip(&client, &format!("route add {SERVER_OF_BOTH} via {} dev fast", SERVER[0]))?;
        ip(&client, &format!("rule add from {client_slow} table 2"))?;
        ip(&client, &format!("route add default via {server_slow} dev slow table 2"))?;
        if let Contender::Mptcp { is_backup, .. } = contender {
            let backup = if is_backup { " backup" } else { "" };
            for host in [&client, &server] {
                ip(host, "mptcp limits set subflows 1 add_addr_accepted 0")?;
            }
            ip(&client, &format!("mptcp endpoint add {client_slow} dev slow subflow{backup}"))?;
        }
        Ok(Self { client, server, pairs })
    }

    /// The packets of both ends so far, on each network.
    pub(super) fn sent(&self) -> [Count; 2] {
        self.pairs.each_ref().map(|pair| {
            let counters = pair.counters();
            let links = [counters.forward, counters.backward];
            Count {
                packets: links.iter().map(|link| link.offered).sum(),
                bytes: links.iter().map(|link| link.offered_bytes.bytes()).sum(),
            }
        })
    }

    /// Returns how late the emulator delivered 99 of 100 packets at most.
    pub(super) fn lateness(&self) -> Duration {
        let [fast, slow] = self.pairs.each_ref().map(|pair| pair.counters().lateness.quantile(990));
        fast.max(slow)
    }
}

/// Settings of the kernel, the same in the namespaces of any machine.
fn settings(contender: Contender) -> impl Iterator<Item = (&'static str, &'static str)> {
    let common = [
        // Packets to the address of both networks come by either.
        ("/proc/sys/net/ipv4/conf/all/rp_filter", "0"),
        ("/proc/sys/net/ipv4/conf/default/rp_filter", "0"),
        // Closed connections would keep their namespace for minutes.
        ("/proc/sys/net/ipv4/tcp_orphan_retries", "1"),
    ];
    let tuned = [
        ("/proc/sys/net/ipv4/tcp_rto_min_us", "50000"),
        ("/proc/sys/net/ipv4/tcp_thin_linear_timeouts", "1"),
        ("/proc/sys/net/mptcp/stale_loss_cnt", "1"),
    ];
    let is_tuned = matches!(contender, Contender::Mptcp { is_tuned: true, .. });
    common.into_iter().chain(tuned.into_iter().filter(move |_| is_tuned))
}

fn outages() -> impl Iterator<Item = Range<Instant>> {
    (0..OUTAGES_MAX).map(|number| {
        let begins = Instant::ZERO + OUTAGE_BEGINS + OUTAGE_INTERVAL * number;
        begins..begins + OUTAGE
    })
}

/// Runs `ip` on a host.
fn ip(host: &Namespace, arguments: &str) -> Result<(), Failure> {
    let output = host.run(|| Command::new("ip").args(arguments.split(' ')).output())??;
    if output.status.success() {
        Ok(())
    } else {
        Err(format!("ip {arguments}: {}", String::from_utf8_lossy(&output.stderr).trim()).into())
    }
}
