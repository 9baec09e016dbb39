//! Connections through a tunnel. All connections of an entrance share one association, so that a new one costs no handshake. Each has a number of its
//! own, and a [stream](multiplex) that no other open connection uses. A message is a [`frame`]. The [`flow`] of each connection is limited, so that a
//! program that does not read delays its own connection and no other.
//!
//! - [`entrance`]: accepts the connections of programs
//! - [`outlet`]: connects to the server

mod entrance;
mod flow;
mod frame;
mod multiplex;
mod outlet;

use std::io::ErrorKind;

use anyhow::{Context as _, Result, bail};
use bytes::{BufMut as _, BytesMut};
use socket2::SockRef;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::mpsc::UnboundedReceiver;

use self::flow::cost;
use self::frame::Frame;
use self::multiplex::{Link, Near};
use crate::address;

pub(super) use self::entrance::run;
pub(super) use self::outlet::{ExitSettings, take_out};

/// Connections that may be open at the same time; more wait in the system's queue.
pub(super) const CONNECTIONS_MAX: usize = 1_024;
/// The bytes of one connection and direction that have left the program at one end and have not reached that at the other. They wait in one of the send
/// buffers or in the queue of the connection.
pub(super) const WINDOW_BYTES: usize = 512 << 10;
/// The most bytes of a connection that one message carries.
const DATA_BYTES_MAX: usize = 16 << 10;

/// The reason that the other end is given when the program's connection broke.
const BROKE: &str = "the connection broke";

/// Carries both ways until both have ended. If either breaks, so does the other: programs see a broken connection, not an end.
async fn carry(link: &mut Link, mut stream: TcpStream) -> Result<()> {
    // Messages leave as programs write them; the tunnel holds none back.
    stream.set_nodelay(true)?;
    // Between two writes a program, or its host, may vanish.
    address::keep_alive(&stream)?;
    address::read_urgent_data(&stream)?;
    address::reset_when_dropped(&stream);
    let (from_program, to_program) = stream.split();
    let Link { near, frames, broken } = link;
    let near = &*near;
    let carried = tokio::select! {
        carried = async { tokio::try_join!(there(near, from_program), back(near, frames, to_program)) } => carried,
        reason = broken => return Err(near.why_broken(reason.ok())),
    };
    if let Err(error) = carried {
        near.send(Frame::Reset(BROKE.to_owned())).await?;
        return Err(error);
    }
    Ok(SockRef::from(&stream).set_linger(None)?)
}

async fn there(near: &Near, from_program: ReadHalf<'_>) -> Result<()> {
    loop {
        let room = near.flow.room().await.min(DATA_BYTES_MAX);
        let mut data = BytesMut::with_capacity(room);
        let read = loop {
            // `read_buf` would take a read that ends at urgent data for the last one, and wait for more.
            from_program.readable().await.context(BROKE)?;
            match from_program.try_read_buf(&mut (&mut data).limit(room)) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => break read.context(BROKE)?,
            }
        };
        if read == 0 {
            return near.send(Frame::End).await;
        }
        near.flow.spend(read);
        near.send(Frame::Data(data.freeze())).await?;
    }
}

async fn back(near: &Near, frames: &mut UnboundedReceiver<Frame>, mut to_program: WriteHalf<'_>) -> Result<()> {
    let mut taken = 0;
    loop {
        match frames.recv().await {
            Some(Frame::Data(data)) => {
                to_program.write_all(&data).await.context(BROKE)?;
                taken += cost(data.len());
                // A message for each piece would cost as much as the data.
                if taken >= WINDOW_BYTES / 4 {
                    near.flow.release(taken);
                    near.send(Frame::Credit(taken)).await?;
                    taken = 0;
                }
            }
            Some(Frame::End) => return to_program.shutdown().await.context(BROKE),
            Some(_) => bail!("the other end does not speak the protocol of `festina tunnel`"),
            // The end of the association is reported elsewhere.
            None => std::future::pending().await,
        }
    }
}
