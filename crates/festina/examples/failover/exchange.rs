//! Numbered messages in both directions at once, each with the time at which it was sent.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use festina::{Association, Message};

/// Message `number` has the stream `number % STREAMS`.
const STREAMS: u32 = 4;
const MESSAGE_BYTES: usize = 100;
/// These may wait for a lost packet of the handshake, and their delays are not counted.
const FIRST_MESSAGES: u32 = 80;

/// What each end sends, and expects of the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) count: u32,
    pub(super) interval: Duration,
}

/// Sends all messages of the plan and receives as many, each once and in the order of its stream. Returns the longest delay of a
/// message received behind the first.
pub(super) async fn exchange(association: &Association, plan: Plan) -> Result<Duration, String> {
    let (sent, received) = tokio::join!(send_all(association, plan), receive_all(association, plan.count));
    sent.and(received)
}

async fn send_all(association: &Association, plan: Plan) -> Result<(), String> {
    let mut ticks = tokio::time::interval(plan.interval);
    for number in 0..plan.count {
        ticks.tick().await;
        let mut payload = [&number.to_be_bytes()[..], &now_us().to_be_bytes()].concat();
        payload.resize(MESSAGE_BYTES, 0);
        let stream = u16::try_from(number % STREAMS).map_err(|error| error.to_string())?;
        association.send(Message::new(payload).on_stream(stream)).await.map_err(|error| error.to_string())?;
    }
    Ok(())
}

async fn receive_all(association: &Association, count: u32) -> Result<Duration, String> {
    let mut next: Vec<u32> = (0..STREAMS).collect();
    let mut longest = 0;
    for _ in 0..count {
        let message = association.recv().await.map_err(|error| error.to_string())?.ok_or("the peer has shut down")?;
        let payload = message.payload();
        let (Some(number), Some(sent)) = (payload.first_chunk(), payload.get(4..).and_then(<[u8]>::first_chunk)) else {
            return Err(format!("a message of {} bytes", payload.len()));
        };
        let number = u32::from_be_bytes(*number);
        let expected = &mut next[(number % STREAMS) as usize];
        if *expected != number {
            return Err(format!("message {number} instead of {expected}"));
        }
        *expected += STREAMS;
        if number >= FIRST_MESSAGES {
            longest = longest.max(now_us().saturating_sub(u64::from_be_bytes(*sent)));
        }
    }
    Ok(Duration::from_micros(longest))
}

/// On the clock that all processes of a host share.
#[expect(clippy::disallowed_methods, reason = "the other end is another process")]
fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}
