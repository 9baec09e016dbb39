//! Addresses that come and go while an association lasts, as the layer below tells (compare RFC 5061, which plain SCTP has for that).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use festina_units::Instant;

use super::addresses::{AddressBook, parameter_of};
use super::multihoming::written_as;
use super::path::Path;
use super::{Association, Context};
use crate::path_id::{PathId, PathSet};
use crate::wire::{Parameter, Parameters};

impl Context {
    /// Returns the list of this endpoint's addresses for a peer at this address, as [`Association::name_addresses`] reads it: parameters like those of
    /// an INIT (RFC 9260 §3.3.2.1).
    pub fn address_list(&self, peer: IpAddr) -> Vec<u8> {
        let mut list = Vec::new();
        for address in self.multihoming().into_iter().flat_map(|multihoming| multihoming.reachable_from(peer)) {
            parameter_of(address).append_to(&mut list);
        }
        list
    }
}

impl Association {
    /// Returns the IP addresses of the peer, each once: the destination of each path, then the others in the order in which the peer's INIT or INIT ACK
    /// named them (RFC 9260 §5.1.2). Packets from all of them are accepted. Only those of paths are known to be reachable.
    ///
    /// At most 8 others are kept. Unspecified, multicast and broadcast addresses are left out, and so are loopback and IPv6 link-local addresses unless
    /// the INIT came from one.
    pub fn peer_addresses(&self) -> impl Iterator<Item = IpAddr> {
        let of_paths = self.paths.iter().map(|path| path.remote.ip().to_canonical());
        let others = self.peer.addresses.as_slice().iter().copied().filter(|&address| !self.paths.lead_to(address));
        of_paths.chain(others)
    }

    /// Returns the addresses of this endpoint, as far as the association knows them.
    pub fn own_addresses(&self) -> &[IpAddr] {
        self.context.addresses()
    }

    /// This endpoint has the addresses of another context now, in place of those of `before`.
    pub fn use_addresses(&mut self, before: &Arc<Context>, now: &Arc<Context>) {
        self.context = if Arc::ptr_eq(&self.context, before) {
            Arc::clone(now)
        } else {
            self.context.with_addresses(now.addresses())
        };
        let Some(multihoming) = self.context.multihoming().filter(|_| self.state.sends_data()) else { return };
        if multihoming.addresses.len() > 1 && !self.paths.are_several() {
            self.paths.open(Vec::new(), multihoming);
        }
    }

    /// The peer names all of its addresses, as [`Context::address_list`] writes them, in place of those before. A path to each new one opens, within the limits of a handshake. Those to
    /// addresses that it has named before and does not any more close, as soon as the address of another is confirmed. A list without a usable address
    /// has no effect. Only where INITs were exchanged out of band: the layer below knows that the peer says so.
    pub fn name_addresses(&mut self, now: Instant, list: &[u8]) {
        let Some(multihoming) = self.context.multihoming().filter(|_| self.peer.out_of_band && self.state.sends_data())
        else {
            return;
        };
        let first = self.paths.first().remote;
        let named = Parameters::new(list).map_while(Result::ok).filter_map(|parameter| match parameter {
            Parameter::Ipv4(address) => Some(IpAddr::from(address)),
            Parameter::Ipv6(address) => Some(IpAddr::from(address).to_canonical()),
            _ => None,
        });
        let (book, source) = (AddressBook::of(named, first.ip()), first.ip().to_canonical());
        if book.as_slice().is_empty() && !book.names_source() {
            return;
        }
        let before = core::mem::replace(&mut self.peer.addresses, book);
        let book = &self.peer.addresses;
        let is_named =
            |book: &AddressBook, address: IpAddr| book.contains(address) || address == source && book.names_source();
        let paths_max = multihoming.paths_max;
        // The first path may have been closed, and its address be back.
        let all = book.as_slice().iter().copied().chain(Some(source).filter(|_| book.names_source()));
        let fresh: Vec<_> = all.filter(|&address| multihoming.reaches(address)).collect();
        if !self.paths.are_several() {
            self.paths.open(Vec::new(), multihoming);
        }
        let mut left = PathSet::default();
        for path in self.paths.iter().filter(|path| !path.is_closed()) {
            let (id, address) = (path.sending.id(), path.remote.ip().to_canonical());
            let was_left = self.paths.others.as_ref().is_some_and(|others| others.left.contains(id));
            if !is_named(book, address) && (was_left || is_named(&before, address)) {
                left.insert(id);
            }
        }
        if let Some(others) = &mut self.paths.others {
            others.left = left;
        }
        self.close_left(now);
        for address in fresh {
            if self.paths.lead_to(address) {
                continue;
            }
            let Some(id) = self.paths.vacant(paths_max) else { break };
            let remote = SocketAddr::new(written_as(first.ip(), address), first.port());
            let path = Path::unconfirmed(now, remote, self.fresh_sending(now, id, remote));
            self.paths.put(path);
        }
    }

    /// Closes the paths to addresses that the peer has left, if another is confirmed.
    pub(super) fn close_left(&mut self, now: Instant) {
        let Some(left) =
            self.paths.others.as_ref().map(|others| others.left).filter(|left| *left != PathSet::default())
        else {
            return;
        };
        if !self.paths.iter().any(|path| path.is_confirmed() && !left.contains(path.sending.id())) {
            return;
        }
        for id in self.paths.ids().filter(|&id| left.contains(id)) {
            self.close_path(now, id);
        }
        if let Some(others) = &mut self.paths.others {
            others.left = PathSet::default();
        }
    }

    fn close_path(&mut self, now: Instant, id: PathId) {
        self.sender.give_up_flight(now, &mut self.paths.of_mut(id).sending, false);
        let remote = self.paths.of(id).remote;
        let sending = self.fresh_sending(now, id, remote);
        self.paths.put(Path::closed(now, remote, sending));
        self.paths.leave(id);
        self.events.push(self.paths.of(id).reachable_event(false));
    }
}
