//! Connections of frame loops, which come back by themselves.

use std::collections::VecDeque;
use std::fmt;

use festina_sctp::{AbandonReason, ClosedReason, Message, MessageId, ReceivedMessage, SendError, SendErrorKind};
use festina_units::{Duration, Instant};
use thiserror::Error;

use super::association::Association;
use super::endpoint::{Connecting, Endpoint};
use crate::address::Host;
use crate::association::{Outcome, Watch};
use crate::clock;
use crate::endpoint::ConnectOptions;
use crate::error::{ConnectError, TryRecvError};

/// Messages that one [`Link::update`] returns at most, so that a fast sender cannot hold up a frame. The rest follows with the next frame.
const MESSAGES_PER_UPDATE_MAX: usize = 4_096;

/// A connection to one server for a frame loop, from [`Endpoint::link`]. It connects again after each end, until [`end`](Self::end).
///
/// No method waits. Call [`update`](Self::update) once a frame: it moves the connection on and returns everything that has happened since the
/// previous frame.
///
/// **Messages.** The server acknowledges each message that [`send`](Self::send) accepts, or [`LinkEvent::Undelivered`] returns it once, with the
/// reason. Nothing is sent a second time by itself, because only the program knows whether a message still makes sense in a new session.
///
/// **Pauses.** The first new attempt follows within 250 ms, later ones at most 8 s apart ([`with_retry`](Self::with_retry)). Pauses double, and
/// are shortened at random by up to a half, so that the clients of a restarted server do not all come at the same time. A connection that lasted for
/// the longest pause begins with the first pause again. An attempt takes at most [`ConnectOptions::handshake_timeout`].
///
/// Dropping it shuts the association down gracefully in the background.
///
/// ```
/// use festina::blocking::{Endpoint, Link, LinkEvent};
/// use festina::ConnectOptions;
///
/// fn frame(link: &mut Link) {
///     for event in link.update() {
///         match event {
///             LinkEvent::Up => println!("connected"),
///             LinkEvent::Message(message) => println!("{} bytes", message.payload().len()),
///             LinkEvent::Undelivered { message, reason } => println!("{message:?} is lost: {reason:?}"),
///             LinkEvent::Down { reason, .. } => println!("{reason}; trying again"),
///             _ => {}
///         }
///     }
///     // While the link is not up, this returns the message as an error.
///     let _down = link.send("input");
/// }
/// ```
#[derive(Debug)]
pub struct Link {
    endpoint: Endpoint,
    host: Host,
    options: ConnectOptions,
    pauses: Pauses,
    phase: Phase,
}

/// The state of a [`Link`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LinkState {
    /// A handshake is under way.
    Connecting,
    /// Messages can be sent.
    Up,
    /// The next attempt waits for its time.
    Down {
        /// Time of the next attempt.
        retry_at: Instant,
    },
    /// [`Link::end`] was called, and the last messages are being delivered.
    Ending,
    /// It was ended, or its endpoint was closed. Nothing follows.
    Ended,
}

/// Something that happened to a [`Link`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LinkEvent {
    /// The server has accepted the association. Streams and messages begin with a new session.
    Up,
    /// A message from the server.
    Message(ReceivedMessage),
    /// A message that the server has not acknowledged and that is not sent again.
    Undelivered {
        /// The message, to be sent in the next session if it still makes sense.
        message: Message,
        /// The reason. After [`AbandonReason::UnacknowledgedAtEnd`] the server may have received it.
        reason: AbandonReason,
    },
    /// The association has ended or could not be set up. All messages that it received and all that it did not deliver were returned before.
    Down {
        /// The reason.
        reason: LinkDown,
        /// Time of the next attempt.
        retry_at: Instant,
    },
    /// The last event: the link was ended, or its endpoint was closed.
    Ended,
}

/// Why a [`Link`] is not up.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LinkDown {
    /// The association could not be set up.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The association ended.
    #[error(transparent)]
    Closed(#[from] ClosedReason),
}

festina_units::debug_is_display!(LinkDown);

#[derive(Debug)]
enum Phase {
    Connecting(Connecting),
    Up(Session),
    Down { retry_at: Instant },
    Ended { is_reported: bool },
}

/// An association and its messages whose outcome is not known.
struct Session {
    association: Association,
    since: Instant,
    sent: VecDeque<(MessageId, Message)>,
    is_ending: bool,
}

impl Endpoint {
    /// Returns a connection for a frame loop, which sets up an association as [`Endpoint::connect`] does and connects again after each end.
    pub fn link(&self, host: impl Into<Host>, options: ConnectOptions) -> Link {
        let host = host.into();
        let phase = Phase::Connecting(self.start_connect(host.clone(), options.clone()));
        Link { endpoint: self.another(), host, options, pauses: Pauses::default(), phase }
    }
}

impl Link {
    /// Sets the first and the longest pause between attempts, 250 ms and 8 s by default.
    #[must_use]
    pub fn with_retry(mut self, first: Duration, longest: Duration) -> Self {
        self.pauses = Pauses { first, longest, next: first };
        self
    }

    /// Sets the options of the next attempts, for example with a new token.
    pub fn set_options(&mut self, options: ConnectOptions) {
        self.options = options;
    }

    /// Returns the state after the last [`update`](Self::update).
    pub fn state(&self) -> LinkState {
        match &self.phase {
            Phase::Connecting(_) => LinkState::Connecting,
            Phase::Up(session) if session.is_ending => LinkState::Ending,
            Phase::Up(_) => LinkState::Up,
            Phase::Down { retry_at } => LinkState::Down { retry_at: *retry_at },
            Phase::Ended { .. } => LinkState::Ended,
        }
    }

    /// Returns the present association, for its statistics and events. Send and receive messages with the link.
    pub fn association(&self) -> Option<&Association> {
        match &self.phase {
            Phase::Up(session) => Some(&session.association),
            _ => None,
        }
    }

    /// Moves the connection on, and returns the events since the last call in their order.
    pub fn update(&mut self) -> Vec<LinkEvent> {
        let mut events = Vec::new();
        match &mut self.phase {
            Phase::Connecting(connecting) => match connecting.try_finish() {
                Some(Ok(association)) => {
                    self.phase = Phase::Up(Session::new(association));
                    events.push(LinkEvent::Up);
                }
                Some(Err(ConnectError::EndpointClosed)) => self.phase = Phase::Ended { is_reported: false },
                Some(Err(error)) => events.push(self.fall(error.into(), Duration::ZERO)),
                None => {}
            },
            Phase::Down { retry_at } if clock::now() >= *retry_at => {
                self.phase = Phase::Connecting(self.endpoint.start_connect(self.host.clone(), self.options.clone()));
            }
            Phase::Up(_) | Phase::Down { .. } | Phase::Ended { .. } => {}
        }
        if let Phase::Up(session) = &mut self.phase
            && let Some(reason) = session.update(&mut events)
        {
            let lasted = clock::now().saturating_duration_since(session.since);
            match session.is_ending {
                true => self.phase = Phase::Ended { is_reported: false },
                false => events.push(self.fall(reason.into(), lasted)),
            }
        }
        if let Phase::Ended { is_reported } = &mut self.phase
            && !std::mem::replace(is_reported, true)
        {
            events.push(LinkEvent::Ended);
        }
        events
    }

    /// Waits for the next attempt after a connection that lasted so long.
    fn fall(&mut self, reason: LinkDown, lasted: Duration) -> LinkEvent {
        let retry_at = clock::now().saturating_add(self.pauses.after(lasted));
        self.phase = Phase::Down { retry_at };
        LinkEvent::Down { reason, retry_at }
    }

    /// Sends a message. On return it is in the send buffer, and in most cases has been sent.
    ///
    /// # Errors
    /// [`SendErrorKind::Closed`] while the link is not up, [`SendErrorKind::BufferFull`] if there is no room, and all others. Each returns the message.
    pub fn send(&mut self, message: impl Into<Message>) -> Result<(), SendError> {
        let message = message.into();
        let Phase::Up(session) = &mut self.phase else {
            return Err(SendError::new(message, SendErrorKind::Closed));
        };
        // The clone shares the payload.
        let id = session.association.native().inner().try_send(message.clone(), Watch::Yes)?;
        session.sent.push_back((id, message));
        Ok(())
    }

    /// Starts the end: refuses new messages and delivers those that were sent. Call [`update`](Self::update) until [`LinkEvent::Ended`].
    pub fn end(&mut self) {
        match &mut self.phase {
            Phase::Up(session) => {
                session.is_ending = true;
                session.association.native().inner().shutdown();
            }
            Phase::Connecting(_) | Phase::Down { .. } => self.phase = Phase::Ended { is_reported: false },
            Phase::Ended { .. } => {}
        }
    }
}

impl Session {
    fn new(association: Association) -> Self {
        Self { association, since: clock::now(), sent: VecDeque::new(), is_ending: false }
    }

    /// Appends received messages and messages that were not delivered. Returns the reason of the end after the last of them.
    fn update(&mut self, events: &mut Vec<LinkEvent>) -> Option<ClosedReason> {
        let mut ended = None;
        for _ in 0..MESSAGES_PER_UPDATE_MAX {
            match self.association.try_recv() {
                Ok(Some(message)) => events.push(LinkEvent::Message(message)),
                Err(TryRecvError::Empty) => break,
                Ok(None) | Err(_) => {
                    ended = self.association.close_reason();
                    break;
                }
            }
        }
        // After the end was seen, so that the outcome of every message is known then.
        self.association.native().inner().take_outcomes(&mut self.sent, |message, outcome| {
            if let Outcome::Abandoned { reason, .. } = outcome {
                events.push(LinkEvent::Undelivered { message, reason });
            }
        });
        ended
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { association, since, sent, is_ending } = self;
        let mut fields = formatter.debug_struct("Session");
        fields.field("association", association).field("since", since).field("unsettled", &sent.len());
        fields.field("is_ending", is_ending).finish()
    }
}

/// Pauses between attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pauses {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Default for Pauses {
    fn default() -> Self {
        let first = Duration::from_millis(250);
        Self { first, longest: Duration::from_secs(8), next: first }
    }
}

impl Pauses {
    /// Returns the pause after a connection that lasted so long; zero for one that never came up.
    fn after(&mut self, lasted: Duration) -> Duration {
        if lasted >= self.longest {
            self.next = self.first;
        }
        let pause = self.next.min(self.longest);
        self.next = pause.saturating_mul(2).min(self.longest);
        let mut random = [0; 2];
        // Without random numbers it is the whole pause.
        let _none = getrandom::fill(&mut random);
        pause - pause / 2 / (1 << 16) * u32::from(u16::from_le_bytes(random))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_begin_again_after_a_connection_that_lasted() {
        let (first, longest) = (Duration::from_millis(100), Duration::from_secs(1));
        let mut pauses = Pauses { first, longest, next: first };
        let in_upper_half = |pause: Duration, whole: u64| {
            let whole = Duration::from_millis(whole);
            assert!(pause <= whole && pause >= whole / 2, "{pause:?} of {whole:?}");
        };
        for whole in [100, 200, 400, 800, 1_000, 1_000] {
            in_upper_half(pauses.after(Duration::ZERO), whole);
        }
        in_upper_half(pauses.after(Duration::from_millis(999)), 1_000);
        in_upper_half(pauses.after(Duration::from_secs(1)), 100);
        in_upper_half(pauses.after(Duration::ZERO), 200);
        let spread: std::collections::BTreeSet<_> =
            (0..20).map(|_| Pauses::default().after(Duration::ZERO).as_nanos()).collect();
        assert!(spread.len() > 10, "clients of a server do not come together: {spread:?}");
        let mut endless = Pauses { first: Duration::MAX, longest: Duration::MAX, next: Duration::MAX };
        assert!(endless.after(Duration::ZERO) >= Duration::MAX / 2);
    }
}
