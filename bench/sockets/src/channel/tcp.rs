//! The kernel's TCP over loopback.

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;

use super::{End, Failure, Transport};

/// Bytes asked for by one read.
const READ_BYTES: usize = 65_536;

/// One write per message, without Nagle's algorithm.
pub(crate) struct Tcp;

/// The reading side, which counts messages by their size.
pub(crate) struct Reader {
    half: OwnedReadHalf,
    buffer: Vec<u8>,
    message_bytes: usize,
    /// Bytes of a message that has not come whole.
    begun_bytes: usize,
}

impl Transport for Tcp {
    const NAME: &'static str = "kernel TCP";
    type Sender = Mutex<OwnedWriteHalf>;
    type Receiver = Reader;

    async fn connect(message_bytes: usize) -> Result<[End<Self>; 2], Failure> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (near, far) = tokio::join!(TcpStream::connect(listener.local_addr()?), listener.accept());
        let end = |stream: TcpStream| -> Result<_, Failure> {
            stream.set_nodelay(true)?;
            let (half, writer) = stream.into_split();
            let receiver = Reader { half, buffer: vec![0; READ_BYTES], message_bytes, begun_bytes: 0 };
            Ok(End { sender: Mutex::new(writer), receiver })
        };
        Ok([end(near?)?, end(far?.0)?])
    }

    async fn send(sender: &Mutex<OwnedWriteHalf>, message: Bytes) -> Result<(), Failure> {
        sender.lock().await.write_all(&message).await?;
        Ok(())
    }

    async fn receive(receiver: &mut Reader) -> Result<u64, Failure> {
        let Reader { half, buffer, message_bytes, begun_bytes } = receiver;
        loop {
            let read = half.read(buffer).await?;
            if read == 0 {
                return Err("the connection ended".into());
            }
            let bytes = *begun_bytes + read;
            *begun_bytes = bytes % *message_bytes;
            if bytes >= *message_bytes {
                return Ok((bytes / *message_bytes).try_into()?);
            }
        }
    }
}
