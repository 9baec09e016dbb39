//! Addresses that come and go while an association lasts: each side names all of its own again until the peer has acknowledged that.
//!
//! ```text
//! +---------------+---------------+-------------------------------+
//! |   type 0xb8   |   flags 0     |             length            |
//! +---------------+---------------+-------------------------------+
//! |     number of the list        |           reserved 0          |
//! +-------------------------------+-------------------------------+
//! |          parameters of SCTP with one address each ...         |
//! +---------------------------------------------------------------+
//!
//! +---------------+---------------+-------------------------------+
//! |   type 0xb9   |   flags 0     |           length 8            |
//! +---------------+---------------+-------------------------------+
//! |     number of the list        |           reserved 0          |
//! +-------------------------------+-------------------------------+
//! ```

use festina_units::{Duration, Instant};

use super::Channel;
use crate::error::DatagramDropped;

pub(super) const LIST: u8 = 0xb8;
pub(super) const RECEIVED: u8 = 0xb9;
const HEADER_BYTES: usize = 8;
/// How often a list is sent, the first pause between, and the longest. A peer that does not know of lists acknowledges none.
const ATTEMPTS_MAX: u8 = 12;
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// The lists of both sides.
#[derive(Debug, Default)]
pub(super) struct Lists {
    /// The number of this side's last list, which count from 1 on.
    number: u16,
    /// That list while it is not acknowledged, when it is sent next, and how often it was. [`Instant::MAX`]: not before the end of the handshake.
    own: Option<(Vec<u8>, Instant, u8)>,
    /// The number of the peer's latest list.
    heard: u16,
    /// The peer's latest list, until it is read.
    of_peer: Option<Vec<u8>>,
    /// A list of this number is to be acknowledged.
    owed: Option<u16>,
}

impl Lists {
    fn is_due(&self, now: Instant) -> bool {
        self.own.as_ref().is_some_and(|(_, at, _)| *at <= now)
    }

    pub(super) fn has_any(&self, now: Instant) -> bool {
        self.owed.is_some() || self.is_due(now)
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.own.as_ref().map(|(_, at, _)| *at).filter(|at| *at < Instant::MAX)
    }

    /// Appends the chunks that are due and fit.
    pub(super) fn write(&mut self, now: Instant, chunks: &mut Vec<u8>, room: usize) {
        if let Some(number) = self.owed.take_if(|_| room >= chunks.len() + HEADER_BYTES) {
            append(chunks, RECEIVED, number, &[]);
        }
        let (is_due, number) = (self.is_due(now), self.number);
        let Some((list, at, attempts)) = self.own.as_mut().filter(|_| is_due) else { return };
        if room < chunks.len() + HEADER_BYTES + list.len() {
            return;
        }
        append(chunks, LIST, number, list);
        *at = now + (PAUSE * (1 << *attempts)).min(PAUSE_MAX);
        *attempts += 1;
        self.own.take_if(|(_, _, attempts)| *attempts >= ATTEMPTS_MAX);
    }

    /// Takes one of the chunks, whose value begins with a number.
    pub(super) fn take(&mut self, kind: u8, number: u16, rest: &[u8]) -> Result<(), DatagramDropped> {
        let list = rest.get(2..).ok_or(DatagramDropped::Frames)?;
        if kind == RECEIVED {
            self.own.take_if(|_| number == self.number);
            return Ok(());
        }
        self.owed = Some(number);
        if number.wrapping_sub(self.heard).cast_signed() > 0 {
            (self.heard, self.of_peer) = (number, Some(list.to_vec()));
        }
        Ok(())
    }
}

fn append(chunks: &mut Vec<u8>, kind: u8, number: u16, list: &[u8]) {
    let [high, low] = u16::try_from(HEADER_BYTES + list.len()).unwrap_or(u16::MAX).to_be_bytes();
    let [first, second] = number.to_be_bytes();
    chunks.extend_from_slice(&[kind, 0, high, low, first, second, 0, 0]);
    chunks.extend_from_slice(list);
}

impl Channel {
    /// Names the addresses of this side in place of those named before, from `at` on.
    pub(crate) fn send_list(&mut self, at: Instant, list: Vec<u8>) {
        let lists = &mut self.other.further.get_or_insert_default().lists;
        lists.number = lists.number.wrapping_add(1);
        lists.own = Some((list, at, 0));
    }

    /// A list that waits for the end of the handshake may leave.
    pub(crate) fn release_list(&mut self, now: Instant) {
        if let Some((_, at, 0)) = self.other.further.as_mut().and_then(|further| further.lists.own.as_mut()) {
            *at = now;
        }
    }

    /// The list of the peer's addresses, if it has sent a new one.
    pub(crate) fn take_list(&mut self) -> Option<Vec<u8>> {
        self.other.further.as_mut()?.lists.of_peer.take()
    }
}
