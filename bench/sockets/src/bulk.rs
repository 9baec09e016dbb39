//! As many messages as there is room for, in one direction.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::task::JoinSet;

use crate::channel::{End, Failure, Transport};
use crate::clocks::Reading;

/// Receptions between two looks at the clock.
const RECEIVED_PER_READING: usize = 64;

/// What one connection carried.
pub(crate) struct Carried {
    pub(crate) messages: u64,
    pub(crate) wall: Duration,
    pub(crate) cpu: Duration,
    pub(crate) remark: String,
}

/// Has `senders` tasks send messages of this size for this long, and counts what arrives.
pub(crate) async fn bulk<T: Transport>(
    message_bytes: usize,
    senders: usize,
    duration: Duration,
) -> Result<Carried, Failure> {
    let [near, mut far] = T::connect(message_bytes).await?;
    let End { sender, receiver: _receiver } = near;
    let (sender, message) = (Arc::new(sender), Bytes::from(vec![7; message_bytes]));
    let mut tasks = JoinSet::new();
    for _ in 0..senders {
        let (sender, message) = (sender.clone(), message.clone());
        tasks.spawn(async move { while T::send(&sender, message.clone()).await.is_ok() {} });
    }
    let counted = sender.clone();
    let counting = async move {
        T::receive(&mut far.receiver).await?;
        let (begun, mut messages) = (Reading::now(), 0);
        while begun.wall() < duration {
            for _ in 0..RECEIVED_PER_READING {
                messages += T::receive(&mut far.receiver).await?;
            }
        }
        // Before later messages come, which are not fetched.
        let remark = T::remark(&counted, &far.sender);
        let carried = Carried { messages, wall: begun.wall(), cpu: begun.cpu(), remark };
        // The connection lasts until the sender stops.
        Ok::<_, Failure>((carried, far))
    };
    let (carried, _far) = tokio::spawn(counting).await??;
    tasks.shutdown().await;
    Ok(carried)
}
