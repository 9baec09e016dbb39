//! Two separate hosts on this machine with an emulated network between them, for commands that need not know of it.
//!
//! [`Hosts`] are two new network namespaces that a [`TunPair`] joins; [`Hosts::run`] runs commands on them. The
//! modules:
//!
//! - `commands`: which commands
//! - `enclosure`: starts the commands in a process namespace, and ends it
//! - `first_process`: the first process in that namespace
//! - `listening`: whether a server is ready
//! - `privilege`: the necessary privileges for users without them
//!
//! # Cleanup
//! However this process ends, even by `SIGKILL`, the kernel removes everything: no namespace has a name, TUN devices end with
//! the descriptors of this process, and the commands and their children with the first process of their process
//! namespace, which the kernel kills when this process ends (`PR_SET_PDEATHSIG`).

mod commands;
mod enclosure;
mod first_process;
mod listening;
mod privilege;

pub use commands::Commands;
pub use enclosure::{Ender, RunningCommands};
pub use first_process::{FirstProcessError, first_process};
pub use privilege::{PrivilegeError, gain_privilege};

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::process::Command;

use festina_netsim::LinkConfig;

use crate::tun::{MTU_BYTES, Namespace, RunningTunPair, TunCounters, TunEnd, TunError, TunPair, TunTap};

/// The addresses of one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostAddresses {
    /// Its IPv4 address.
    pub ipv4: Ipv4Addr,
    /// Its IPv6 address.
    pub ipv6: Ipv6Addr,
}

/// The host at the start of the forward link.
pub const CLIENT: HostAddresses =
    HostAddresses { ipv4: Ipv4Addr::new(10, 77, 0, 1), ipv6: Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1) };

/// The host at the end of the forward link.
pub const SERVER: HostAddresses =
    HostAddresses { ipv4: Ipv4Addr::new(10, 77, 0, 2), ipv6: Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2) };

const IPV4_PREFIX_BITS: u8 = 24;
const IPV6_PREFIX_BITS: u8 = 64;

/// The name of the network's device on either host.
const DEVICE: &str = "festina0";

/// Two running hosts with nothing on them but a loopback device and the network between them.
#[derive(Debug)]
pub struct Hosts {
    client: Namespace,
    server: Namespace,
    pair: RunningTunPair,
}

impl Hosts {
    /// Creates the hosts, [`CLIENT`] and [`SERVER`], and starts the network. The first of the links leads to the
    /// server, the second back. `seed` determines the random decisions of the links. Every packet is shown to `tap`.
    ///
    /// # Errors
    /// Without privilege (see [`gain_privilege`]), or if a namespace or a device cannot be made.
    pub fn create(links: (LinkConfig, LinkConfig), seed: u64, tap: Option<TunTap>) -> Result<Self, TunError> {
        let (left, client) = end(CLIENT)?;
        let (right, server) = end(SERVER)?;
        let mut pair = TunPair::create(&left, &right, MTU_BYTES, links, seed)?;
        if let Some(tap) = tap {
            pair = pair.with_tap(tap);
        }
        Ok(Self { client, server, pair: pair.spawn().map_err(TunError::System)? })
    }

    /// Runs commands on the hosts. `first_process` must be a program that only calls [`first_process()`] with the
    /// arguments that are added to its own.
    ///
    /// # Errors
    /// Without privilege, or if `first_process` cannot be started. If one of the commands cannot be started, `first_process` reports
    /// it.
    pub fn run(&self, first_process: Command, commands: &Commands) -> io::Result<RunningCommands> {
        RunningCommands::start(first_process, [&self.client, &self.server], commands)
    }

    /// The client's namespace, for sockets of this process on that host; see [`Namespace::run`].
    pub fn client(&self) -> &Namespace {
        &self.client
    }

    /// The server's namespace.
    pub fn server(&self) -> &Namespace {
        &self.server
    }

    /// Returns the counters of the network so far.
    pub fn counters(&self) -> TunCounters {
        self.pair.counters()
    }

    /// Returns whether the network has ended by itself, which only an error can cause; [`stop`](Self::stop) returns the
    /// error.
    pub fn has_failed(&self) -> bool {
        self.pair.has_failed()
    }

    /// Removes the network and returns its counters.
    ///
    /// # Errors
    /// If the emulation had already ended because of an error.
    pub fn stop(self) -> io::Result<TunCounters> {
        self.pair.stop()
    }
}

/// Creates a host. Returns its end of the network, and a handle that keeps the host alive.
fn end(addresses: HostAddresses) -> Result<(TunEnd, Namespace), TunError> {
    let namespace = Namespace::fresh().map_err(TunError::Namespace)?;
    let kept = namespace.try_clone().map_err(TunError::Namespace)?;
    let end = TunEnd {
        device: DEVICE.to_owned(),
        namespace: Some(namespace),
        address: addresses.ipv4,
        prefix_bits: IPV4_PREFIX_BITS,
        ipv6: Some((addresses.ipv6, IPV6_PREFIX_BITS)),
    };
    Ok((end, kept))
}
