//! The paths to the peer: a bounded list that is never empty, and which of them the next packet leaves by.

use std::net::SocketAddr;

use super::path::Path;
use crate::outstanding::PathId;

/// Paths of an association. The list lies inside the association, so each more would cost an idle association its size.
pub(super) const PATHS_MAX: usize = 1;

/// The paths of the association, by [`PathId`].
#[derive(Debug)]
pub(super) struct Paths([Path; PATHS_MAX]);

impl Paths {
    pub(super) fn new(primary: Path) -> Self {
        Self([primary])
    }

    /// The path by which the next packet leaves: the primary path (RFC 9260 §6.4).
    #[inline]
    pub(super) fn pick(&self) -> &Path {
        let [primary, ..] = &self.0;
        primary
    }

    /// As [`pick`](Self::pick).
    #[inline]
    pub(super) fn pick_mut(&mut self) -> &mut Path {
        let [primary, ..] = &mut self.0;
        primary
    }

    /// The path with this number, if there is one.
    #[inline]
    pub(super) fn get_mut(&mut self, PathId(number): PathId) -> Option<&mut Path> {
        self.0.get_mut(usize::from(number))
    }

    /// Returns the path to the address of `source`, regardless of the port; the primary path if there is none.
    #[inline]
    pub(super) fn of_source_mut(&mut self, source: SocketAddr) -> &mut Path {
        let [primary, others @ ..] = &mut self.0;
        others.iter_mut().find(|path| path.remote.ip() == source.ip()).unwrap_or(primary)
    }

    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Path> {
        self.0.iter()
    }

    #[inline]
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Path> {
        self.0.iter_mut()
    }
}
