//! Changes of the networks below an association: another socket, and packets that the system refuses.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use festina_endpoint::Channel;
use festina_sctp as sctp;

use super::Inner;
use crate::endpoint::refusals::Refusal;
use crate::endpoint::socket::ANY_BINDING;
use crate::locks::lock;

impl Inner {
    /// The endpoint's socket at one address was replaced by one at another, or at another port.
    pub(crate) fn rebound(self: &Arc<Self>, (old, new): (IpAddr, IpAddr)) {
        self.change(|state, now| {
            state.sources.rebind(old, new);
            let sources = &state.sources;
            state.core.rebind(now, |remote| sources.may_be(new, remote).then_some(new != old));
            // The connection IDs of packets that were written before would link the addresses.
            if state.binding != ANY_BINDING {
                state.binding = self.shared.socket.binding();
            }
            self.rekey(state);
        });
    }

    /// The endpoint's addresses have changed, and `gone` is none any more.
    pub(crate) fn readdressed(
        self: &Arc<Self>,
        contexts: (&Arc<sctp::Context>, &Arc<sctp::Context>),
        gone: Option<IpAddr>,
    ) {
        self.change(|state, now| {
            let moved = gone.map(|gone| state.sources.forget(gone)).unwrap_or_default();
            state.core.use_addresses(now, contexts);
            if !moved.is_empty() {
                state.core.rebind(now, |remote| moved.contains(&remote).then_some(true));
            }
        });
    }

    /// The endpoint's addresses may have changed during the handshake.
    pub(crate) fn catch_up(self: &Arc<Self>) {
        if let Some(after) = self.shared.readdressed()
            && lock(&self.state).core.own_addresses() != after.addresses()
        {
            self.readdressed((&after, &after), None);
        }
    }

    /// The system refused to send to the peer. Retransmissions would be refused as well, so the packets become smaller, or a handshake ends.
    pub(crate) fn refused(self: &Arc<Self>, refusal: &Refusal) {
        self.change(|state, now| match refusal {
            Refusal::TooLarge { packet_bytes_max } => state.core.limit_datagram_bytes(*packet_bytes_max),
            Refusal::NoWay { kind, cause } => {
                state.no_way(*kind, cause, self.shared.addresses().len() < 2);
                state.sources.supervise(now, &mut state.core, || self.shared.addresses(), true);
            }
        });
    }

    /// Why the system does not send to the peer, if that ended the handshake.
    pub(crate) fn no_way(&self) -> Option<(io::ErrorKind, String)> {
        lock(&self.state).take_no_way()
    }
}
