//! TCP sockets in whose send buffer little waits: MIN_BUF (Goel et al. 2002, G02) on an unmodified Linux kernel.
//!
//! Most of a TCP stream's latency lies in its own send buffer: an application writes as fast as the kernel takes data, and the
//! kernel takes megabytes. Here the buffer holds A·cwnd + min(B, cwnd) packets at most, or as much as leaves within a given time.
//! The peer, the kernel and the protocol stay as they are.
//!
//! | room | what it knows |
//! |---|---|
//! | [`MinBufStream`] | a tokio stream |
//! | [`Limiter`] | the same for any other runtime, over a socket that does not block |
//! | [`SendBufferLimit`], [`MinBuf`] | how much may wait: bytes, A and B, or a time |
//! | [`SenderShare`], [`WaitHistogram`] | how long data waits in the sender |
//! | [`TcpInfo`] | what the kernel says of a connection |
//! | [`tcp_sockets`] | what waits in the send buffers of other programs |
//!
//! Which limit? `SendBufferLimit::Target` for a time. `MinBuf { windows: 1, extra_packets: 3 }` is the paper's compromise
//! between delay and throughput, `windows: 2` keeps TCP's throughput, the default has the least delay.
//!
//! How it works. `TCP_INFO` reports cwnd and what is unacknowledged, selectively acknowledged and unsent; the pure decision is
//! [`festina_recovery::send_buffer`]. While no packet fits, `TCP_NOTSENT_LOWAT` has the kernel report when one does, so nothing
//! is polled by time. The kernel has a bell for unsent data that leaves and none for a window that opens: one packet waits at
//! least, so MIN_BUF(1,0) is MIN_BUF(1,1) here.
//!
//! Linux 4.9 and later. Elsewhere the crate compiles, and [`MinBufStream::new`] reports an error.
//!
//! ```
//! use festina_minbuf::{MinBufStream, SendBufferLimit};
//! use festina_units::Duration;
//! use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
//! use tokio::net::{TcpListener, TcpStream};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! # if !cfg!(target_os = "linux") { return Ok(()); }
//! let listener = TcpListener::bind("127.0.0.1:0").await?;
//! let stream = TcpStream::connect(listener.local_addr()?).await?;
//! let mut stream = MinBufStream::new(stream, SendBufferLimit::Target(Duration::from_millis(50)))?;
//!
//! // Wait until a packet fits, decide what to send, send it.
//! let room = stream.writable().await?;
//! let frame = vec![7; room.mss_bytes as usize];
//! stream.write_all(&frame).await?;
//!
//! let mut received = vec![0; frame.len()];
//! listener.accept().await?.0.read_exact(&mut received).await?;
//! assert_eq!(received, frame);
//! assert!(stream.sender_share()?.waited.packets() >= 1);
//! # Ok(())
//! # }
//! ```

mod clock;
mod histogram;
mod info;
mod kernel;
mod limiter;
mod sockets;
mod stream;

pub use festina_recovery::send_buffer::{MinBuf, SendBufferLimit};
pub use histogram::WaitHistogram;
pub use info::TcpInfo;
pub use limiter::{Limiter, Room, SenderShare};
pub use sockets::{ObservedSocket, sockets_of_process, tcp_sockets};
pub use stream::MinBufStream;

/// A socket: whatever lends its descriptor.
#[cfg(unix)]
pub use std::os::fd::AsFd as Socket;
/// A socket: whatever lends its handle.
#[cfg(windows)]
pub use std::os::windows::io::AsSocket as Socket;
