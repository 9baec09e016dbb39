//! The simulator's links on a real clock, for real programs: the same code as in the simulator, one
//! [`Link`](festina_netsim::Link) per direction.
//!
//! - [`UdpProxy`] stands between UDP clients and a server on any address. It needs no privilege, no kernel
//!   module and no async runtime. [`RunningProxy`] is a running proxy on its own thread; dropping it stops it.
//!   [`ProxyCounters`] counts its datagrams, [`TapRecord`] shows each datagram on the way, for captures.
//! - `TunPair` (Linux, with root's privileges) joins two TUN devices in two network namespaces: a bad network for
//!   the kernel's own TCP and for any program that speaks IP. `RunningTunPair`, `TunCounters` and
//!   `TunTapRecord` are to it what the three above are to the proxy; `Namespace` makes, finds and enters namespaces.
//! - `hosts` (Linux) makes two such namespaces for the time of a command, and leaves nothing behind.
//!
//! [`ClientSocket`] and [`Recent`] are the proxy's socket for its clients and the table of them, for other relays as well.
//!
//! [`Passage`] has the number of waiting packets and the delays of each link.
//!
//! # Accuracy
//! Both sleep in `ppoll`, whose timeout is in nanoseconds, with the kernel's timer slack turned off; they never spin.
//! With root's privileges their threads have real-time priority (`SCHED_FIFO`), so that they wake up in time also on a
//! machine that is busy. [`Lateness`] has the error of every run.
//!
//! On a virtual machine with two cores and a load of 23, `iperf3` over TCP for ten seconds through two TUN devices at 30 Mbit/s:
//! deliveries were 31 us late on average and 2.8 ms at worst, 0.14 % more than 0.5 ms; at 100 Mbit/s 24 us and 1.6 ms,
//! 0.03 %. Without real-time priority, at a load of 21, it was 0.8 ms on average and 15 ms at worst, 32 % more than 0.5 ms.
//! (`festina emulate run --rate 30Mbit/s --delay 12.5ms --queue 100p --server 'iperf3 -s -1' -- iperf3 -c 10.77.0.2`.)
//! The examples `accuracy` (proxy, from socket to socket) and `host_tcp` (ping) measure more.
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

mod client_socket;
mod clock;
#[cfg(target_os = "linux")]
pub mod hosts;
mod passage;
mod recent;
mod tap;
mod timing;
#[cfg(target_os = "linux")]
mod tun;
mod udp_proxy;
mod worker;

pub use client_socket::{ClientAddr, ClientSocket};
pub use passage::Passage;
pub use recent::Recent;
pub use tap::{Direction, TapEvent};
pub use timing::{Lateness, take_precedence};
#[cfg(target_os = "linux")]
pub use tun::{MTU_BYTES, Namespace, RunningTunPair, TunCounters, TunEnd, TunError, TunPair, TunTap, TunTapRecord};
pub use udp_proxy::{CLIENTS_MAX, ProxyCounters, RunningProxy, Tap, TapRecord, UdpProxy};
