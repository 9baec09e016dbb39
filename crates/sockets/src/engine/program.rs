//! Messages of a program on their way to its associations.

use std::sync::Arc;

use bytes::Bytes;
use festina::{Duration, Message, SendErrorKind};

use super::Engine;
use super::notification;
use super::options::Options;
use super::peer::{self, Peer};
use super::socket::{Sent, Socket};
use crate::ancillary;
use crate::numbers::{event, flag};
use crate::wire::{Header, Kind};

/// Text of the ABORT of a program that has closed its socket with `SO_LINGER` and no time, or left messages unread.
const CLOSED: &str = "closed by the program";

/// Serves a socket until the program has closed it.
pub(super) async fn serve(engine: Arc<Engine>, socket: Arc<Socket>) {
    loop {
        match socket.receive().await {
            Sent::Datagram(header, payload) if header.kind == Kind::Data => {
                send(&engine, &socket, header, payload).await;
            }
            // A plug has done its work.
            Sent::Datagram(..) | Sent::Garbage => {}
            Sent::Closed { is_reset } => return close(&engine, &socket, is_reset),
        }
    }
}

fn close(engine: &Engine, socket: &Arc<Socket>, is_reset: bool) {
    let is_abandoned = socket.is_abandoned();
    let (peers, linger) = {
        let state = socket.state();
        (state.peers.values().cloned().collect::<Vec<_>>(), state.linger)
    };
    let aborts = is_abandoned && (is_reset || linger == Some(0));
    for peer in &peers {
        if aborts {
            peer.association.abort(CLOSED);
        } else {
            peer.shut_down();
        }
    }
    if is_abandoned || peers.is_empty() {
        socket.stop_tasks();
        socket.close();
        engine.retire(socket);
    }
}

/// Sends a message, waiting while the send buffer is full.
async fn send(engine: &Arc<Engine>, socket: &Arc<Socket>, mut header: Header, payload: Bytes) {
    let peers: Vec<Arc<Peer>> = {
        let state = socket.state();
        state.options.complete(&mut header);
        let is_named = |peer: &&Arc<Peer>| match header.association {
            _ if !socket.is_many || header.flags & flag::SENDALL != 0 => true,
            0 => header.address.is_some_and(|address| peer.is_at(address)),
            association => peer.id == association,
        };
        state.peers.values().filter(is_named).cloned().collect()
    };
    if let (true, true, 0, Some(_)) = (peers.is_empty(), socket.is_many, header.association, header.address) {
        return super::connect::send_first(engine, socket, header, payload);
    }
    if let (true, true, false) = (peers.is_empty(), header.association > 0, payload.is_empty()) {
        // It has ended meanwhile.
        let (info, id) = (ancillary::sndrcvinfo(&header), header.association);
        let failure = |_: &Options| notification::send_failed(false, 0, &info, &payload, id);
        return peer::notify(|| socket.clone(), id, header.address, event::SEND_FAILED, failure).await;
    }
    for peer in &peers {
        send_to(peer, &header, payload.clone()).await;
    }
}

/// Sends a message to one peer.
pub(super) async fn send_to(peer: &Arc<Peer>, header: &Header, payload: Bytes) {
    if header.flags & flag::ABORT != 0 {
        peer.association.abort(&String::from_utf8_lossy(&payload));
        return;
    }
    if !payload.is_empty() {
        peer.note_use();
        let unsent = payload.clone();
        if let Err(error) = peer.association.send(message(header, payload)).await {
            let code = if error.kind == SendErrorKind::Closed { 0 } else { 22 };
            let info = ancillary::sndrcvinfo(header);
            peer.notify(event::SEND_FAILED, |_| notification::send_failed(false, code, &info, &unsent, peer.id)).await;
        }
        peer.note_sent();
    }
    if header.flags & flag::EOF != 0 {
        peer.shut_down();
    }
}

fn message(header: &Header, payload: Bytes) -> Message {
    let message = Message::new(payload)
        .on_stream(header.stream)
        .with_ppid(u32::from_be(header.ppid))
        .unordered_if(header.flags & flag::UNORDERED != 0);
    let message = if header.flags & flag::SACK_IMMEDIATELY != 0 { message.with_immediate_ack() } else { message };
    let value = header.policy_value;
    let short = u16::try_from(value).unwrap_or(u16::MAX);
    match header.flags & flag::POLICY {
        flag::TTL if value > 0 => message.with_lifetime(Duration::from_millis(value.into())),
        flag::RTX => message.with_max_retransmissions(short),
        flag::PRIO => message.with_priority(short),
        _ => message,
    }
}
