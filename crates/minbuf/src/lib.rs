//! TCP sockets with a limited send buffer: MIN_BUF (Goel et al. 2002, G02) on an unmodified Linux kernel.
//!
//! Most of a TCP stream's latency arises in its own send buffer: an application writes as fast as the kernel accepts
//! data, and the kernel accepts megabytes. This crate limits the buffer to A·cwnd + min(B, cwnd) packets, or to as much
//! as can be sent within a given time. The peer, the kernel and the protocol need no changes.
//!
//! | item | purpose |
//! |---|---|
//! | [`MinBufStream`] | a tokio stream |
//! | [`Limiter`] | the same for any other runtime, over a non-blocking socket |
//! | [`SendBufferLimit`], [`MinBuf`] | the limit: bytes, A and B, or a time |
//! | [`SenderShare`], [`WaitHistogram`] | how long data waits in the sender |
//! | [`TcpInfo`] | the kernel's state of a connection |
//! | [`tcp_sockets`] | the send buffers of other programs |
//!
//! # Choosing a limit
//! Use `SendBufferLimit::Target` to limit the time. `MinBuf { windows: 1, extra_packets: 3 }` is the paper's compromise
//! between delay and throughput, `windows: 2` keeps TCP's throughput, and the default has the least delay.
//!
//! # How it works
//! `TCP_INFO` reports cwnd and the unacknowledged, selectively acknowledged and unsent data; the pure decision is
//! [`festina_recovery::send_buffer`]. While no packet fits, `TCP_NOTSENT_LOWAT` makes the kernel report when one does,
//! so nothing is polled by time. The kernel signals when unsent data is sent, but not when the window opens. Therefore
//! at least one packet waits, and MIN_BUF(1,0) is MIN_BUF(1,1) here.
//!
//! # Platforms
//! Linux 4.9 and later. On other systems the crate compiles, and [`MinBufStream::new`] reports an error.
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

/// A socket that lends its descriptor.
#[cfg(unix)]
pub use std::os::fd::AsFd as Socket;
/// A socket that lends its handle.
#[cfg(windows)]
pub use std::os::windows::io::AsSocket as Socket;
