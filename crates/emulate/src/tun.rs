//! Two TUN devices whose two directions are links of the simulator: an emulated network for the kernel's own
//! TCP, and for any other program that speaks IP.

mod device;
mod event_loop;
mod loopback;
mod namespace;
mod networks;
mod packet;

pub use namespace::Namespace;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use festina_netsim::{LinkConfig, LinkCounters};
use festina_units::Instant;
use thiserror::Error;

use crate::clock::Clock;
use crate::passage::{MeasuredLink, Passage};
use crate::tap::{Direction, TapEvent};
use crate::timing::Lateness;
use crate::worker::{self, Handle, Worker};
use event_loop::EventLoop;

/// The MTU of Ethernet, in bytes.
pub const MTU_BYTES: u16 = 1_500;

/// One of the two devices.
///
/// The two must be in different network namespaces: packets between two addresses of one namespace never
/// reach a device.
#[derive(Debug)]
pub struct TunEnd {
    /// The name of the device, of at most 15 characters.
    pub device: String,
    /// Its namespace; `None` for that of the calling thread.
    pub namespace: Option<Namespace>,
    /// The device's address.
    pub address: Ipv4Addr,
    /// How many bits of the address the devices share; there is a route to all that share them.
    pub prefix_bits: u8,
    /// The device's IPv6 address and how many of its bits the devices share; without it the device carries IPv4 only.
    pub ipv6: Option<(Ipv6Addr, u8)>,
}

/// Two TUN devices joined by links, not running yet: [`spawn`](Self::spawn) starts them.
///
/// A packet counts with its IP header and no link-layer header towards rates and queues in bytes. A queue that
/// marks sets Congestion Experienced in the IP header. The devices carry IPv4, and IPv6 if they have addresses for it, and
/// vanish with this.
///
/// Exact lists of losses ([`festina_netsim::LossModel::Exact`]) count every IP packet that a device is given. On a
/// device that nothing else uses these are only a test's own packets: TUN devices resolve no addresses, and IPv6 sends
/// nothing by itself, since it is off or has no link-local address from which it could solicit routers.
pub struct TunPair {
    event_loop: EventLoop,
    handle: Handle<TunCounters>,
}

impl TunPair {
    /// Makes both devices. Packets from `left` to `right` go through the `forward` link, those the other way through
    /// `backward`. `seed` determines the random decisions of the links.
    ///
    /// # Errors
    /// Without privilege (CAP_NET_ADMIN in the namespaces, CAP_SYS_ADMIN to enter them), if the addresses are in
    /// different networks, or if a device cannot be made.
    pub fn create(
        left: &TunEnd,
        right: &TunEnd,
        mtu_bytes: u16,
        (forward, backward): (LinkConfig, LinkConfig),
        seed: u64,
    ) -> Result<Self, TunError> {
        networks::check(left, right)?;
        let devices = (device::create(left, mtu_bytes)?, device::create(right, mtu_bytes)?);
        let (strings, handle) = worker::strings().map_err(TunError::System)?;
        let links = (
            MeasuredLink::new(forward, seed, Direction::Forward),
            MeasuredLink::new(backward, seed, Direction::Backward),
        );
        Ok(Self { event_loop: EventLoop::new(devices, links, strings), handle })
    }

    /// Shows every packet to `tap`, which runs on the emulator's thread and must therefore be quick.
    #[must_use]
    pub fn with_tap(mut self, tap: TunTap) -> Self {
        self.event_loop.set_tap(tap);
        self
    }

    /// Starts the emulation on a thread of its own.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn spawn(self) -> io::Result<RunningTunPair> {
        let mut event_loop = self.event_loop;
        let worker = Worker::spawn("tun-pair", self.handle, move || event_loop.run(Clock::start()))?;
        Ok(RunningTunPair { worker })
    }
}

/// Two joined, running devices. Dropping this stops the emulation and removes the devices.
#[derive(Debug)]
pub struct RunningTunPair {
    worker: Worker<TunCounters>,
}

impl RunningTunPair {
    /// Counters up to now.
    pub fn counters(&self) -> TunCounters {
        self.worker.counters()
    }

    /// Returns whether the emulation has ended by itself, which only an error can cause; [`stop`](Self::stop) returns
    /// the error.
    pub fn has_failed(&self) -> bool {
        self.worker.has_failed()
    }

    /// Stops the emulation, removes the devices, and returns the final counters. Packets in transit are discarded.
    ///
    /// # Errors
    /// If the emulation had already ended because of an error of a device, for example because it was
    /// removed, or of the wait.
    pub fn stop(self) -> io::Result<TunCounters> {
        self.worker.stop()
    }
}

/// Counters of both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TunCounters {
    /// The link from the left device to the right one.
    pub forward: LinkCounters,
    /// The link from the right device to the left one.
    pub backward: LinkCounters,
    /// Packets that left a link but were refused by the kernel, for example because the device was set
    /// down.
    pub send_failed: u64,
    /// The lateness of deliveries on both links together.
    pub lateness: Lateness,
    /// Queue lengths and delays from the left device to the right one.
    pub forward_passage: Passage,
    /// Queue lengths and delays from the right device to the left one.
    pub backward_passage: Passage,
}

/// A function that is called with every packet.
pub type TunTap = Box<dyn FnMut(TunTapRecord<'_>) + Send>;

/// One packet at one end of a link.
#[derive(Debug, Clone, Copy)]
pub struct TunTapRecord<'a> {
    /// Time since the Unix epoch.
    pub at: Instant,
    /// Which link.
    pub direction: Direction,
    /// The IP packet.
    pub packet: &'a [u8],
    /// Its fate.
    pub event: TapEvent,
}

/// The reason why TUN devices could not be created.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TunError {
    /// The caller may not do this.
    #[error(
        "making the TUN device {device} takes privileges that root has (CAP_NET_ADMIN; CAP_SYS_ADMIN in a namespace)"
    )]
    NoPrivilege {
        /// The device.
        device: String,
    },
    /// The system has no TUN devices.
    #[error("this system has no /dev/net/tun: load the kernel's module tun, or let the container have the device")]
    NoTun,
    /// The caller may not open the system's TUN devices.
    #[error("only root may open /dev/net/tun here; `chmod 666 /dev/net/tun`, as root, lets every user open it")]
    NoEntry,
    /// The name or the address is in use already.
    #[error("the device {device} exists already")]
    Exists {
        /// The device.
        device: String,
    },
    /// There would be no route from one device to the other.
    #[error("{left} and {right} are in different networks, so neither would find the other; {advice}")]
    DifferentNetworks {
        /// The left device's address, and how many of its bits are the network's.
        left: String,
        /// The right device's address, and how many of its bits are the network's.
        right: String,
        /// Advice for the user.
        advice: String,
    },
    /// Both ends would be the same.
    #[error("both ends have the address {address}; give them different addresses of one network")]
    SameAddress {
        /// The address.
        address: IpAddr,
    },
    /// A network namespace cannot be made.
    #[error("cannot make a network namespace")]
    Namespace(#[source] io::Error),
    /// The kernel refused for another reason.
    #[error("cannot make the TUN device {device}")]
    Device {
        /// The device.
        device: String,
        /// The reason.
        source: io::Error,
    },
    /// The system has run out of a resource.
    #[error("cannot prepare the emulation")]
    System(#[source] io::Error),
}

impl TunError {
    fn of(device: &str, source: io::Error) -> Self {
        let device = device.to_owned();
        if source.raw_os_error() == Some(rustix::io::Errno::ACCESS.raw_os_error()) {
            return Self::NoEntry;
        }
        match source.kind() {
            io::ErrorKind::PermissionDenied => Self::NoPrivilege { device },
            io::ErrorKind::NotFound => Self::NoTun,
            io::ErrorKind::ResourceBusy | io::ErrorKind::AlreadyExists => Self::Exists { device },
            _ => Self::Device { device, source },
        }
    }
}
