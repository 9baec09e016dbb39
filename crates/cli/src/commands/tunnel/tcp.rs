//! Connections through a tunnel. A message is one byte for its type, and for data the bytes.

use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use festina::{Association, Message};
use socket2::SockRef;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::{EntranceArgs, Kind, Way};
use crate::address::{self, HostPort};
use crate::commands::{GOODBYE_MAX, next_message};
use crate::{output, signal};

/// Bytes follow.
const DATA: u8 = 0;
/// Nothing more comes from this side.
const END: u8 = 1;
/// The most bytes of a connection that one message carries.
const DATA_BYTES_MAX: usize = 16 * 1_024;
/// Connections that may be open at the same time; more wait in the system's queue.
const CONNECTIONS_MAX: usize = 1_024;
/// How long to wait when the system has no connection to give although there is one.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// The entrance: carries until interrupted.
pub(super) async fn run(arguments: EntranceArgs) -> Result<()> {
    let listen = arguments.listen.resolve().await?;
    let listener = TcpListener::bind(listen).await.with_context(|| format!("cannot listen on {listen}"))?;
    let way = std::sync::Arc::new(Way::new(&arguments).await?);
    let interruption = signal::interruption();
    output::notice(&format!("{} leads to {}", listener.local_addr()?, way.to));
    let mut connections = JoinSet::new();
    let accepting = async {
        loop {
            tokio::select! {
                accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => match accepted {
                    Ok((stream, client)) => {
                        // The client must not take an exit that is not reached, or Ctrl-C, for the end of a transfer.
                        address::reset_when_dropped(&stream);
                        let way = way.clone();
                        connections.spawn(async move {
                            if let Err(error) = enter(&way, stream).await {
                                output::complain(&format!("{client}: {}", output::causes(&error)));
                            }
                        });
                    }
                    Err(_) => sleep(ACCEPT_RETRY).await,
                },
                Some(_) = connections.join_next() => {}
            }
        }
    };
    tokio::select! {
        () = accepting => {}
        () = interruption => {}
    }
    way.leave().await;
    Ok(())
}

async fn enter(way: &Way, stream: TcpStream) -> Result<()> {
    let association = way.open(Kind::Tcp).await?;
    carry(&association, stream).await?;
    // Both sides have said that nothing more comes.
    let _ = timeout(GOODBYE_MAX, association.shutdown()).await;
    Ok(())
}

/// The exit: connects to the server and carries both ways until both sides have ended.
pub(super) async fn take_out(association: &Association, server: &HostPort) -> Result<()> {
    let connecting = async { address::connect_tcp(&server.resolve_all().await?).await };
    let stream = connecting.await.inspect_err(|_| association.abort("the server is not there"))?;
    carry(association, stream).await?;
    let _ = timeout(GOODBYE_MAX, association.closed()).await;
    Ok(())
}

/// Carries both ways until both have ended. If either breaks, so does the other: programs see a broken connection, not an end.
async fn carry(association: &Association, mut stream: TcpStream) -> Result<()> {
    // Messages leave as programs write them; the tunnel holds none back.
    stream.set_nodelay(true)?;
    // Between two writes a program, or its host, may vanish.
    address::keep_alive(&stream)?;
    address::reset_when_dropped(&stream);
    let (from_program, to_program) = stream.split();
    let carried = tokio::try_join!(there(association, from_program), back(association, to_program));
    if let Err(error) = carried {
        association.abort("the connection broke");
        return Err(error);
    }
    Ok(SockRef::from(&stream).set_linger(None)?)
}

async fn there(association: &Association, mut from_program: ReadHalf<'_>) -> Result<()> {
    loop {
        let mut payload = BytesMut::with_capacity(1 + DATA_BYTES_MAX);
        payload.put_u8(DATA);
        let length = from_program.read_buf(&mut payload).await.context("the connection broke")?;
        let is_end = length == 0;
        let message = if is_end { Bytes::from_static(&[END]) } else { payload.freeze() };
        association.send(Message::new(message)).await?;
        if is_end {
            return Ok(());
        }
    }
}

async fn back(association: &Association, mut to_program: WriteHalf<'_>) -> Result<()> {
    loop {
        let message = next_message(association).await.map_err(|reason| anyhow!("the tunnel: {reason}"))?;
        let mut data = message.payload;
        match data.try_get_u8() {
            Ok(DATA) => to_program.write_all(&data).await.context("the connection broke")?,
            Ok(END) => {
                to_program.shutdown().await.context("the connection broke")?;
                return Ok(());
            }
            _ => bail!("the other end does not speak the protocol of `festina tunnel`"),
        }
    }
}
