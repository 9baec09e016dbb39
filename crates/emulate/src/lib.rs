//! The simulator's links on a real clock: the very code that the simulator runs, one
//! [`Link`](festina_netsim::Link) per direction, for real programs.
//!
//! - [`UdpProxy`] stands between UDP clients and a server on any address. It needs no privilege, no kernel
//!   module and no async runtime. [`RunningProxy`] is the proxy at work on its own thread; dropping it stops it.
//!   [`ProxyCounters`] tells what it did, [`TapRecord`] shows each datagram on the way, for captures.
//! - `TunPair` (Linux, with root's privileges) joins two TUN devices in two network namespaces: a bad network for
//!   the kernel's own TCP and for any program that speaks IP. `RunningTunPair`, `TunCounters` and
//!   `TunTapRecord` are to it what the three above are to the proxy; `Namespace` makes, finds and enters namespaces.
//! - `hosts` (Linux) makes two such namespaces for the time of a command, and leaves nothing behind.
//!
//! [`Passage`] tells of each link how many packets waited and how long they were under way.
//!
//! # Accuracy
//! Both sleep in `ppoll`, whose timeout is in nanoseconds, with the kernel's timer slack turned off; they never
//! spin. On a virtual machine whose two cores were busy, the proxy's deliveries were 39 us late on average, and the
//! median error from socket to socket was 54 us, of which 17 us remain without any proxy; 256 datagrams per second
//! cost one per cent of a core. The example `accuracy` measures this again, and [`Lateness`] tells it for every run.
//! A ping through two TUN devices took 0.2 ms more than the delay at the median; with real-time priority 0.1 ms, and
//! 0.4 ms at most. The example `host_tcp` measures that.
//!
//! ```no_run
//! use festina_emulate::UdpProxy;
//! use festina_netsim::{LinkConfig, LossModel};
//! use festina_units::{Duration, Probability};
//!
//! let link = LinkConfig {
//!     delay: Duration::from_millis(50),
//!     loss: LossModel::Independent(Probability::from_percent(5)),
//!     ..LinkConfig::default()
//! };
//! let listen = "127.0.0.1:0".parse()?;
//! let server = "127.0.0.1:9899".parse()?;
//! let proxy = UdpProxy::bind(listen, server, link.clone(), link, 1)?.spawn()?;
//! println!("clients may now send to {}", proxy.local_addr());
//! std::thread::sleep(Duration::from_secs(10));
//! println!("lost on the way there: {}", proxy.stop()?.forward.lost);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod clock;
#[cfg(target_os = "linux")]
pub mod hosts;
mod passage;
mod tap;
mod timing;
#[cfg(target_os = "linux")]
mod tun;
mod udp_proxy;
mod worker;

pub use passage::Passage;
pub use tap::{Direction, TapEvent};
pub use timing::Lateness;
#[cfg(target_os = "linux")]
pub use tun::{MTU_BYTES, Namespace, RunningTunPair, TunCounters, TunEnd, TunError, TunPair, TunTap, TunTapRecord};
pub use udp_proxy::{CLIENTS_MAX, ProxyCounters, RunningProxy, Tap, TapRecord, UdpProxy};
