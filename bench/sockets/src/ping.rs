//! One message there and back, again and again.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hdrhistogram::Histogram;

use crate::channel::{End, Failure, Transport};
use crate::clocks::Reading;

/// Round trips before those that are measured.
const WARM_UP: usize = 200;

/// Round trips of one connection.
pub(crate) struct RoundTrips {
    /// In nanoseconds.
    pub(crate) times: Histogram<u64>,
    pub(crate) cpu: Duration,
    pub(crate) remark: String,
}

/// Sends messages of this size to a task that sends each back, for this long.
pub(crate) async fn ping<T: Transport>(message_bytes: usize, duration: Duration) -> Result<RoundTrips, Failure> {
    let [near, far] = T::connect(message_bytes).await?;
    let message = Bytes::from(vec![7; message_bytes]);
    let End { sender: far, receiver } = far;
    let far = Arc::new(far);
    let echo = tokio::spawn(echo::<T>(far.clone(), receiver, message.clone()));
    let pinging = tokio::spawn(round_trips::<T>(near, message, duration));
    let (times, cpu, near) = pinging.await??;
    echo.abort();
    Ok(RoundTrips { times, cpu, remark: T::remark(&near.sender, &far) })
}

async fn echo<T: Transport>(sender: Arc<T::Sender>, mut receiver: T::Receiver, message: Bytes) -> Result<(), Failure> {
    loop {
        for _ in 0..T::receive(&mut receiver).await? {
            T::send(&sender, message.clone()).await?;
        }
    }
}

/// Times, CPU time, and the end that measured them.
type Trips<T> = (Histogram<u64>, Duration, End<T>);

async fn round_trips<T: Transport>(mut end: End<T>, message: Bytes, duration: Duration) -> Result<Trips<T>, Failure> {
    let mut times = Histogram::new(3)?;
    for _ in 0..WARM_UP {
        T::send(&end.sender, message.clone()).await?;
        T::receive(&mut end.receiver).await?;
    }
    let begun = Reading::now();
    let mut sent_at = begun.wall();
    while sent_at < duration {
        T::send(&end.sender, message.clone()).await?;
        T::receive(&mut end.receiver).await?;
        let back_at = begun.wall();
        times.record((back_at - sent_at).as_nanos().try_into()?)?;
        sent_at = back_at;
    }
    Ok((times, begun.cpu(), end))
}
