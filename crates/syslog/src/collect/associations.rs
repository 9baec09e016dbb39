//! Associations by origin. Those of silent peers make room for others.

use std::collections::{BTreeMap, BTreeSet};

use crate::collector::{Origin, Peer};

/// Associations of one origin.
const PER_ORIGIN_MAX: usize = 1_024;

/// Silent associations of one origin.
const SILENT_PER_ORIGIN_MAX: usize = 256;

/// Silent associations of all origins.
const SILENT_MAX: usize = 4_096;

/// The contribution of an association so far. One that has sent lines is never replaced by another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// It has sent nothing.
    Silent,
    /// It has sent a hello.
    Known,
    /// It has sent new lines.
    Useful,
}

/// All associations.
pub(super) struct AssociationsByOrigin<L> {
    by_origin: BTreeMap<Origin, BTreeMap<(Standing, Peer), L>>,
    silent: BTreeSet<(Peer, Origin)>,
}

/// The price of a new association.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entry<L> {
    /// Nothing.
    Free,
    /// Another one ends for it.
    Replaces(L),
    /// It is refused: all others of its origin have sent lines.
    Full,
}

impl<L> AssociationsByOrigin<L> {
    pub(super) fn new() -> Self {
        Self { by_origin: BTreeMap::new(), silent: BTreeSet::new() }
    }

    /// Lets a new association in, which is silent. Peers have rising numbers: the least is the oldest.
    pub(super) fn enter(&mut self, peer: Peer, origin: Origin, link: L) -> Entry<L> {
        let group = self.by_origin.entry(origin).or_default();
        let silent = group.range(..(Standing::Known, Peer(0))).count();
        let mut entry = Entry::Free;
        if silent >= SILENT_PER_ORIGIN_MAX || group.len() >= PER_ORIGIN_MAX {
            match group.first_key_value().map(|(&key, _)| key) {
                Some(oldest @ (Standing::Silent | Standing::Known, _)) => {
                    self.silent.remove(&(oldest.1, origin));
                    entry = group.remove(&oldest).map_or(Entry::Free, Entry::Replaces);
                }
                _ => return Entry::Full,
            }
        } else if self.silent.len() >= SILENT_MAX
            && let Some((oldest, of)) = self.silent.pop_first()
        {
            let of_oldest = self.by_origin.get_mut(&of);
            let link = of_oldest.and_then(|group| group.remove(&(Standing::Silent, oldest)));
            entry = link.map_or(Entry::Free, Entry::Replaces);
        }
        self.by_origin.entry(origin).or_default().insert((Standing::Silent, peer), link);
        self.silent.insert((peer, origin));
        entry
    }

    /// Changes the standing of an association that is still there.
    pub(super) fn promote(&mut self, peer: Peer, origin: Origin, (from, to): (Standing, Standing)) {
        if let Some(group) = self.by_origin.get_mut(&origin)
            && let Some(link) = group.remove(&(from, peer))
        {
            group.insert((to, peer), link);
            self.silent.remove(&(peer, origin));
        }
    }

    /// Forgets an association that has ended.
    pub(super) fn leave(&mut self, peer: Peer, origin: Origin) {
        self.silent.remove(&(peer, origin));
        if let Some(group) = self.by_origin.get_mut(&origin) {
            for standing in [Standing::Silent, Standing::Known, Standing::Useful] {
                group.remove(&(standing, peer));
            }
            if group.is_empty() {
                self.by_origin.remove(&origin);
            }
        }
    }

    /// Silent associations.
    pub(super) fn silent(&self) -> usize {
        self.silent.len()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn origin(number: u32) -> Origin {
        Origin::from(std::net::IpAddr::from(Ipv4Addr::from_bits(number)))
    }

    #[test]
    fn a_new_association_takes_the_place_of_the_oldest_silent_one() {
        let mut associations = AssociationsByOrigin::new();
        let silent = SILENT_PER_ORIGIN_MAX as u64;
        for number in 0..silent {
            assert_eq!(associations.enter(Peer(number), origin(1), number), Entry::Free);
        }
        associations.promote(Peer(0), origin(1), (Standing::Silent, Standing::Known));
        assert_eq!(associations.enter(Peer(silent), origin(1), silent), Entry::Free);
        assert_eq!(associations.enter(Peer(silent + 1), origin(1), silent + 1), Entry::Replaces(1));
        assert_eq!(associations.enter(Peer(silent + 2), origin(2), silent + 2), Entry::Free);
        assert_eq!(associations.silent(), SILENT_PER_ORIGIN_MAX + 1);
    }

    #[test]
    fn associations_with_lines_keep_their_places() {
        let mut associations = AssociationsByOrigin::new();
        let enter = |associations: &mut AssociationsByOrigin<u64>, number, standing| {
            let entry = associations.enter(Peer(number), origin(1), number);
            associations.promote(Peer(number), origin(1), (Standing::Silent, standing));
            entry
        };
        let most = PER_ORIGIN_MAX as u64;
        for number in 0..most {
            let standing = if number == 7 { Standing::Known } else { Standing::Useful };
            assert_eq!(enter(&mut associations, number, standing), Entry::Free);
        }
        assert_eq!(enter(&mut associations, most, Standing::Useful), Entry::Replaces(7));
        assert_eq!(enter(&mut associations, most + 1, Standing::Useful), Entry::Full);
        associations.leave(Peer(3), origin(1));
        assert_eq!(enter(&mut associations, most + 2, Standing::Useful), Entry::Free);
    }

    #[test]
    fn silent_associations_of_many_origins_are_bounded_and_everything_is_forgotten_at_the_end() {
        let mut associations = AssociationsByOrigin::new();
        let count = SILENT_MAX as u64 + 10;
        let place = |number: u64| origin(u32::try_from(number).expect("small"));
        for number in 0..count {
            let entry = associations.enter(Peer(number), place(number), number);
            let expected = number.checked_sub(SILENT_MAX as u64).map_or(Entry::Free, Entry::Replaces);
            assert_eq!(entry, expected);
        }
        (0..count).for_each(|number| associations.leave(Peer(number), place(number)));
        assert!(associations.by_origin.is_empty() && associations.silent.is_empty());
    }
}
