//! Two ends of a connection over loopback, both in this process.

mod festina;
mod quinn;
mod tcp;

use std::error::Error;
use std::future::Future;
use std::sync::OnceLock;

use bytes::Bytes;

pub(crate) use self::festina::{Festina, FestinaBatches, FestinaEncrypted};
pub(crate) use self::quinn::Quinn;
pub(crate) use self::tcp::Tcp;

/// Any error.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// The largest UDP payload that the transports look for.
static SEARCHED_BYTES_MAX: OnceLock<u16> = OnceLock::new();

/// Has the transports look for packets that fill this MTU of IPv4. Is called once.
pub(crate) fn set_mtu(mtu: Option<u16>) {
    const HEADER_BYTES: u16 = 28;
    if let Some(mtu) = mtu {
        let _ = SEARCHED_BYTES_MAX.set(mtu.saturating_sub(HEADER_BYTES));
    }
}

fn searched_bytes_max() -> Option<u16> {
    SEARCHED_BYTES_MAX.get().copied()
}

/// A transport that is measured. Its messages all have one size.
pub(crate) trait Transport: 'static {
    /// Its name in the tables.
    const NAME: &'static str;

    /// Sends, from several tasks at a time.
    type Sender: Send + Sync + 'static;

    /// Receives.
    type Receiver: Send + 'static;

    /// Connects two ends over loopback.
    fn connect(message_bytes: usize) -> impl Future<Output = Result<[End<Self>; 2], Failure>>;

    /// Sends a message; waits for room.
    fn send(sender: &Self::Sender, message: Bytes) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Waits for messages. Returns how many came.
    fn receive(receiver: &mut Self::Receiver) -> impl Future<Output = Result<u64, Failure>> + Send;

    /// What else there is to say of the connection when it was used: of the end that began, and of the other.
    fn remark(_: &Self::Sender, _: &Self::Sender) -> String {
        String::new()
    }
}

/// One end of a connection.
pub(crate) struct End<T: Transport + ?Sized> {
    pub(crate) sender: T::Sender,
    pub(crate) receiver: T::Receiver,
}
