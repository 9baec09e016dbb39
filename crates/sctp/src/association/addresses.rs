//! The address book: the addresses that a peer names in its INIT or INIT ACK (RFC 9260 §3.3.2.1, §5.1.2).

use std::net::{IpAddr, Ipv4Addr};

use bytes::{Buf, BufMut};

use crate::wire::{Init, Parameter};

/// Maximum number of a peer's addresses that are kept besides the source of its INIT or INIT ACK. A cookie with all of them, and the INIT ACK around
/// it, fit into the smallest permitted packet.
pub(crate) const ADDRESSES_MAX: usize = 8;
/// Length of the longest list of addresses in a cookie.
pub(crate) const LIST_BYTES_MAX: usize = LIST_HEADER_BYTES + ADDRESSES_MAX * 16;
/// Length of the part before the addresses. With it a cookie without addresses is as long as cookies were before they had any, so that simulated
/// handshakes take the same time.
const LIST_HEADER_BYTES: usize = 8;

const _: () = assert!(ADDRESSES_MAX <= u8::BITS as usize, "the families of all addresses fit into a byte");

/// Addresses of a peer besides the source of its INIT or INIT ACK: in canonical form, each once, in the peer's order. Most peers name none, which
/// costs no memory.
///
/// An address beyond the first [`ADDRESSES_MAX`] is not known: packets from it are dropped, and an INIT that names it adds an address to the
/// association.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AddressBook(Option<Box<Entries>>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entries {
    count: u8,
    ignored: u16,
    /// The list names the source of its packet as well.
    names_source: bool,
    addresses: [IpAddr; ADDRESSES_MAX],
}

impl AddressBook {
    /// Reads the addresses that an INIT or INIT ACK from `source` names.
    pub(crate) fn read(init: &Init<'_>, source: IpAddr) -> Self {
        let mut book = Self::of(all_named(init).map(|(address, _)| address), source);
        // A peer with one address costs no memory, though it names that.
        book.0.take_if(|entries| entries.count == 0 && entries.ignored == 0);
        book
    }

    /// The usable ones of addresses that a peer at `source` names, in canonical form.
    pub(super) fn of(named: impl Iterator<Item = IpAddr>, source: IpAddr) -> Self {
        let (mut book, mut names_source) = (Self::default(), false);
        for address in named {
            if !is_usable(address, source.to_canonical()) {
                book.ignore();
            } else if address == source.to_canonical() {
                names_source = true;
            } else {
                book.insert(address);
            }
        }
        if names_source {
            book.entries().names_source = true;
        }
        book
    }

    /// Returns whether the list names the source of its packet.
    pub(super) fn names_source(&self) -> bool {
        self.0.as_ref().is_some_and(|entries| entries.names_source)
    }

    /// Number of addresses that were named and not kept, apart from repetitions.
    pub(crate) fn ignored(&self) -> u16 {
        self.0.as_ref().map_or(0, |entries| entries.ignored)
    }

    fn ignore(&mut self) {
        let entries = self.entries();
        entries.ignored = entries.ignored.saturating_add(1);
    }

    fn entries(&mut self) -> &mut Entries {
        let addresses = [IpAddr::V4(Ipv4Addr::UNSPECIFIED); ADDRESSES_MAX];
        self.0.get_or_insert_with(|| Box::new(Entries { count: 0, ignored: 0, names_source: false, addresses }))
    }

    /// Puts an address in front of the others. The last one makes room for it if the book is full.
    pub(crate) fn insert_first(&mut self, address: IpAddr) {
        let mut book = Self::default();
        for &address in [address.to_canonical()].iter().chain(self.as_slice()) {
            book.insert(address);
        }
        *self = book;
    }

    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        self.as_slice().contains(&address.to_canonical())
    }

    pub(crate) fn as_slice(&self) -> &[IpAddr] {
        let Some(entries) = &self.0 else { return &[] };
        entries.addresses.get(..entries.count.into()).unwrap_or_default()
    }

    /// Appends the addresses as a cookie contains them: their number, a byte with a bit for each IPv6 address, two bytes with the number of those that
    /// were ignored, four bytes of zero, and the addresses.
    pub(crate) fn append_to(&self, list: &mut Vec<u8>) {
        let count = self.0.as_ref().map_or(0, |entries| entries.count);
        let families = self.as_slice().iter().enumerate().map(|(index, address)| u8::from(address.is_ipv6()) << index);
        let [high, low] = self.ignored().to_be_bytes();
        list.extend([count, families.sum(), high, low, 0, 0, 0, 0]);
        for address in self.as_slice() {
            match address {
                IpAddr::V4(address) => list.put_u32(address.to_bits()),
                IpAddr::V6(address) => list.put_u128(address.to_bits()),
            }
        }
    }

    /// Reads what [`append_to`](Self::append_to) wrote.
    pub(crate) fn from_list(mut list: &[u8]) -> Option<Self> {
        let mut book = Self::default();
        let (count, families) = (list.try_get_u8().ok()?, list.try_get_u8().ok()?);
        let ignored = list.try_get_u16().ok()?;
        list.try_get_u32().ok()?;
        for index in 0..count {
            let is_ipv6 = families.checked_shr(index.into())? & 1 != 0;
            let address = if is_ipv6 {
                IpAddr::V6(list.try_get_u128().ok()?.into())
            } else {
                IpAddr::V4(list.try_get_u32().ok()?.into())
            };
            book.insert(address);
        }
        if ignored > 0 {
            book.entries().ignored = ignored;
        }
        list.is_empty().then_some(book)
    }

    /// Keeps a canonical address unless it is already in the book or the book is full.
    fn insert(&mut self, address: IpAddr) {
        if self.as_slice().contains(&address) {
            return;
        }
        let entries = self.entries();
        match entries.addresses.get_mut(usize::from(entries.count)) {
            Some(entry) => {
                *entry = address;
                entries.count += 1;
            }
            None => self.ignore(),
        }
    }
}

/// Returns the usable addresses that an INIT or INIT ACK from `source` names, in canonical form and with their parameters, up to an unknown parameter
/// that ends the reading (RFC 9260 §3.2.1).
///
/// Unspecified, multicast and broadcast addresses are of no endpoint (RFC 9260 §8.4 rule 1). A loopback address is another host to its receiver, and
/// an IPv6 link-local address is ambiguous outside its link, so either counts only if the packet came from one.
pub(crate) fn named<'a>(init: &Init<'a>, source: IpAddr) -> impl Iterator<Item = (IpAddr, Parameter<'a>)> {
    let source = source.to_canonical();
    all_named(init).filter(move |&(address, _)| is_usable(address, source))
}

/// As [`named`], usable or not.
pub(super) fn all_named<'a>(init: &Init<'a>) -> impl Iterator<Item = (IpAddr, Parameter<'a>)> {
    let read_on = |parameter: &Result<Parameter<'_>, _>| match parameter {
        Ok(Parameter::Unknown(unknown)) => unknown.action().continues(),
        Ok(_) => true,
        Err(_) => false,
    };
    init.parameters().take_while(read_on).filter_map(|parameter| match parameter {
        Ok(parameter @ Parameter::Ipv4(address)) => Some((IpAddr::from(address), parameter)),
        Ok(parameter @ Parameter::Ipv6(address)) => Some((IpAddr::from(address).to_canonical(), parameter)),
        _ => None,
    })
}

/// Returns whether an address may be used for a peer that was reached at `source`, both in canonical form.
fn is_usable(address: IpAddr, source: IpAddr) -> bool {
    is_unicast(address)
        && (!address.is_loopback() || source.is_loopback())
        && (!is_link_local_ipv6(address) || is_link_local_ipv6(source))
}

/// Returns the parameter that names an address.
pub(crate) fn parameter_of(address: IpAddr) -> Parameter<'static> {
    match address {
        IpAddr::V4(address) => Parameter::Ipv4(address),
        IpAddr::V6(address) => Parameter::Ipv6(address),
    }
}

/// Returns whether an address may be that of one endpoint.
pub(crate) fn is_unicast(ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    let broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    !ip.is_multicast() && !ip.is_unspecified() && !broadcast
}

pub(crate) fn is_link_local_ipv6(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}

#[cfg(test)]
mod tests;
