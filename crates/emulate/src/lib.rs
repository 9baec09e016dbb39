//! The simulator's links on a real clock.
//!
//! [`UdpProxy`] stands between UDP clients and a server on any address, and passes their datagrams
//! through one [`Link`](festina_netsim::Link) per direction: the very code that the simulator runs. It
//! needs no privilege, no kernel module and no async runtime.
//!
//! - [`UdpProxy`]: bound to its addresses, not yet at work
//! - [`RunningProxy`]: the proxy at work on its own thread; dropping it stops the proxy
//! - [`ProxyCounters`]: what it did, and how late its timers were
//! - [`TapRecord`]: one datagram seen on the way, for captures
//!
//! # Accuracy
//! The proxy sleeps in `ppoll`, whose timeout is in nanoseconds, with the kernel's timer slack turned
//! off; it never spins. On a virtual machine whose two cores were busy, deliveries were 39 us late on
//! average, and the median error from socket to socket was 54 us, of which 17 us remain without any
//! proxy; 256 datagrams per second cost one per cent of a core. The example `accuracy` measures this
//! again, and [`ProxyCounters::lateness`] tells it for every run.
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
mod tap;
mod timing;
#[cfg(target_os = "linux")]
mod tun;
mod udp_proxy;
mod worker;

pub use tap::{Direction, TapEvent};
pub use timing::Lateness;
#[cfg(target_os = "linux")]
pub use tun::{MTU_BYTES, Namespace, RunningTunPair, TunCounters, TunEnd, TunError, TunPair, TunTap, TunTapRecord};
pub use udp_proxy::{CLIENTS_MAX, ProxyCounters, RunningProxy, Tap, TapRecord, UdpProxy};
