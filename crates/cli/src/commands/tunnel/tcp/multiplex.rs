//! Many connections over one association.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use anyhow::{Result, anyhow};
use bytes::Bytes;
use festina::{Association, ClosedReason, Message, StreamId};
use tokio::sync::{mpsc, oneshot};

use super::flow::Flow;
use super::frame::Frame;
use crate::commands::next_message;

/// Streams that are used in turn. Connections that are open at the same time have different ones, so that a lost packet delays those only whose
/// data it had. A stream can be used again at once: late messages of a connection that has ended name that one's number.
const STREAMS: u16 = 4_096;
/// Shorter data is copied, because it may be a slice that keeps its whole packet in memory.
const COPIED_BYTES_MAX: usize = 1_024;

/// The connections of an association, and which messages belong to which.
#[derive(Debug)]
pub(super) struct Multiplex {
    association: Association,
    links: Mutex<Links>,
    /// Why this side has ended the association.
    fault: OnceLock<&'static str>,
}

#[derive(Debug, Default)]
struct Links {
    open: HashMap<u32, Far>,
    streams: HashSet<u16>,
    next_number: u32,
    is_over: bool,
}

/// The other side of a [`Link`], which receives its messages.
#[derive(Debug)]
struct Far {
    frames: mpsc::UnboundedSender<Frame>,
    broken: Option<oneshot::Sender<String>>,
    flow: Arc<Flow>,
}

/// One connection. Dropping it forgets the connection, but does not tell the other end.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) near: Near,
    /// Frames except those about credit and resets; their number is limited by the flow.
    pub(super) frames: mpsc::UnboundedReceiver<Frame>,
    /// The reason why the other end has broken the connection. The sender is dropped at the end of the association.
    pub(super) broken: oneshot::Receiver<String>,
}

/// The sending part of a [`Link`].
#[derive(Debug)]
pub(super) struct Near {
    multiplex: Arc<Multiplex>,
    number: u32,
    stream: StreamId,
    pub(super) flow: Arc<Flow>,
}

/// Why a connection was not opened.
pub(super) enum NotOpened {
    /// The other end has refused it, for this reason.
    Refused(String),
    /// The association has ended.
    Over,
}

impl Multiplex {
    pub(super) fn new(association: Association) -> Arc<Self> {
        Arc::new(Self { association, links: Mutex::default(), fault: OnceLock::new() })
    }

    pub(super) fn association(&self) -> &Association {
        &self.association
    }

    /// Ends the association for a fault of the other end.
    pub(super) fn give_up(&self, fault: &'static str) {
        self.association.abort(self.fault.get_or_init(|| fault));
    }

    /// Returns why the association is over.
    pub(super) fn why_over(&self) -> String {
        match (self.fault.get(), self.association.close_reason()) {
            (Some(fault), _) => (*fault).to_owned(),
            (None, Some(reason)) => reason.to_string(),
            (None, None) => "it is ending".to_owned(),
        }
    }

    fn links(&self) -> MutexGuard<'_, Links> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection with a number and a stream of its own. `None` if the association has ended.
    pub(super) fn add(self: &Arc<Self>) -> Option<Link> {
        let mut links = self.links();
        let stream_of = |number: u32| u16::try_from(number % u32::from(STREAMS)).unwrap_or_default();
        while links.open.contains_key(&links.next_number) || links.streams.contains(&stream_of(links.next_number)) {
            links.next_number = links.next_number.wrapping_add(1);
        }
        let number = links.next_number;
        links.next_number = number.wrapping_add(1);
        self.join(&mut links, number, StreamId(stream_of(number)))
    }

    /// Adds the connection with this number. `None` if there is one, or if the association has ended.
    fn join(self: &Arc<Self>, links: &mut Links, number: u32, stream: StreamId) -> Option<Link> {
        if links.is_over || links.open.contains_key(&number) {
            return None;
        }
        let (far_frames, frames) = mpsc::unbounded_channel();
        let (far_broken, broken) = oneshot::channel();
        let flow = Arc::new(Flow::new());
        links.open.insert(number, Far { frames: far_frames, broken: Some(far_broken), flow: flow.clone() });
        links.streams.insert(stream.0);
        Some(Link { near: Near { multiplex: self.clone(), number, stream, flow }, frames, broken })
    }

    /// Passes messages on to the connections until the association ends, and breaks them then. The other end's new connections are given to `opened`.
    pub(super) async fn dispatch(self: &Arc<Self>, mut opened: impl FnMut(Link)) -> ClosedReason {
        loop {
            let message = match next_message(&self.association).await {
                Ok(message) => message,
                Err(reason) => {
                    let ended = std::mem::replace(&mut *self.links(), Links { is_over: true, ..Links::default() });
                    drop(ended);
                    return reason;
                }
            };
            let stream = message.stream();
            let is_right = match Frame::decode(message.into_payload()) {
                Some((number, Frame::Open)) => {
                    let link = self.join(&mut self.links(), number, stream);
                    link.map(&mut opened).is_some()
                }
                Some((number, frame)) => self.pass_on(number, frame),
                None => false,
            };
            if !is_right {
                self.give_up("messages do not follow the protocol of `festina tunnel`");
            }
        }
    }

    /// Returns whether the other end may send this. Connections that have ended ignore late frames.
    fn pass_on(&self, number: u32, frame: Frame) -> bool {
        let mut links = self.links();
        let Some(far) = links.open.get_mut(&number) else { return true };
        let (frame, data_bytes) = match frame {
            Frame::Credit(bytes) => return far.flow.grant(bytes),
            Frame::Reset(reason) => {
                if let Some(broken) = far.broken.take() {
                    // The task of the connection may have ended just now.
                    let _ = broken.send(reason);
                }
                return true;
            }
            Frame::Data(data) if data.len() < COPIED_BYTES_MAX => {
                let length = data.len();
                (Frame::Data(Bytes::copy_from_slice(&data)), length)
            }
            Frame::Data(data) => {
                let length = data.len();
                (Frame::Data(data), length)
            }
            other => (other, 0),
        };
        let is_right = far.flow.hold(data_bytes);
        let _ = far.frames.send(frame);
        is_right
    }
}

impl Link {
    /// Waits until the other end has opened the connection.
    ///
    /// # Errors
    /// If it is not opened.
    pub(super) async fn opened(&mut self) -> Result<(), NotOpened> {
        tokio::select! {
            biased;
            reason = &mut self.broken => Err(reason.map_or(NotOpened::Over, NotOpened::Refused)),
            frame = self.frames.recv() => match frame {
                Some(Frame::Opened) => Ok(()),
                _ => Err(NotOpened::Refused("it does not speak the protocol of `festina tunnel`".to_owned())),
            },
        }
    }
}

impl Near {
    /// Sends a message about this connection.
    ///
    /// # Errors
    /// If the association has ended.
    pub(super) async fn send(&self, frame: Frame) -> Result<()> {
        let message = Message::new(frame.encode(self.number)).on_stream(self.stream);
        let sent = self.multiplex.association.send(message).await;
        sent.map(drop).map_err(|_| self.why_broken(None))
    }

    /// Returns the address of the other end.
    pub(super) fn remote_addr(&self) -> SocketAddr {
        self.multiplex.association.remote_addr()
    }

    /// The error of a connection that the other end has broken for this reason, or else the end of the association.
    pub(super) fn why_broken(&self, reason: Option<String>) -> anyhow::Error {
        match reason {
            Some(reason) => anyhow!("the other end: {reason}"),
            None => anyhow!("the tunnel: {}", self.multiplex.why_over()),
        }
    }
}

impl Drop for Near {
    fn drop(&mut self) {
        let mut links = self.multiplex.links();
        links.open.remove(&self.number);
        links.streams.remove(&self.stream.0);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use festina::{DEFAULT_SCTP_PORT, Endpoint, ServerConfig, Transport};

    use super::*;
    use crate::commands::tunnel::tcp::WINDOW_BYTES;

    /// An association of two endpoints, which have to live as long.
    async fn pair() -> ([Endpoint; 2], Association, Association) {
        let bind = async || {
            let transport = Transport::default().with_send_buffer_bytes(8 << 20);
            let config = ServerConfig::plain().with_transport(transport);
            Endpoint::server((Ipv4Addr::LOCALHOST, 0).into(), config).await.expect("loopback is free")
        };
        let endpoints = [bind().await, bind().await];
        let listener = endpoints[0].listen(DEFAULT_SCTP_PORT).expect("the port is free");
        let peer = endpoints[1].connect(endpoints[0].local_addr()).await.expect("it listens");
        let own = listener.accept().await.expect("it has connected");
        (endpoints, own, peer)
    }

    #[tokio::test]
    async fn connections_that_are_open_at_the_same_time_have_streams_of_their_own() {
        let (_endpoints, own, _peer) = pair().await;
        let multiplex = Multiplex::new(own);
        let mut open = Vec::new();
        for number in 0..20_000_usize {
            open.push(multiplex.add().expect("the association is open"));
            // Some stay for long, and most end soon.
            if open.len() > 1_000 {
                open.swap_remove(number * 7 % 50 + 950);
            }
        }
        let mut streams: Vec<_> = open.iter().map(|link| link.near.stream).collect();
        streams.sort_unstable();
        streams.dedup();
        assert_eq!(streams.len(), open.len());
        assert_eq!(multiplex.links().streams.len(), open.len(), "nothing is left of those that have ended");
        drop(open);
        assert!(multiplex.links().open.is_empty() && multiplex.links().streams.is_empty());
    }

    #[tokio::test]
    async fn a_peer_that_breaks_the_rules_loses_the_association() {
        let data = |bytes| Frame::Data(vec![0; bytes].into());
        let within_window = vec![data(16 << 10); WINDOW_BYTES / (17 << 10)];
        let beyond_window = vec![data(16 << 10); WINDOW_BYTES / (16 << 10)];
        let many_ends = vec![Frame::End; WINDOW_BYTES / 64];
        for (frames, is_allowed) in [
            (within_window, true),
            (beyond_window, false),
            (many_ends, false),
            (vec![Frame::Credit(1)], false),
            (vec![Frame::Credit(usize::MAX)], false),
            (vec![Frame::Open], false),
            (vec![Frame::Reset(String::new()), Frame::End, Frame::Credit(1)], false),
        ] {
            let (_endpoints, own, peer) = pair().await;
            let multiplex = Multiplex::new(own);
            let mut links = Vec::new();
            let dispatching = multiplex.dispatch(|link| links.push(link));
            let sending = async {
                for frame in [Frame::Open].iter().chain(&frames) {
                    if peer.send(Message::new(frame.encode(7))).await.is_err() {
                        break;
                    }
                }
                // Of a connection that is not there.
                let _ = peer.send(Message::new(Frame::Credit(1).encode(8))).await;
                peer.shutdown().await
            };
            let (reason, _) = tokio::join!(dispatching, sending);
            let allowed = matches!(reason, ClosedReason::Shutdown);
            assert_eq!(allowed, is_allowed, "{:?} ...: {reason}", frames[0]);
            assert!(multiplex.add().is_none(), "the association has ended");
            assert_eq!(links.len(), 1);
        }
    }
}
