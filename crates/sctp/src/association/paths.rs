//! The paths to the peer: a bounded list that is never empty.

use std::net::{IpAddr, SocketAddr};

use super::path::Path;
use crate::path_id::{PATHS_MAX, PathId};
use crate::send::{SendPath, SendPaths};

/// The paths of the association, by [`PathId`]. The list lies inside the association, so each more would cost an idle association its size.
#[derive(Debug)]
pub(super) struct Paths {
    primary: Path,
    others: [Option<Path>; PATHS_MAX - 1],
}

impl Paths {
    pub(super) fn new(primary: Path) -> Self {
        Self { primary, others: [const { None }; PATHS_MAX - 1] }
    }

    /// Adds a path, for tests of several.
    #[cfg(test)]
    pub(super) fn add(&mut self, path: Path) {
        self.others[PATHS_MAX - 2] = Some(path);
    }

    /// The path that new data and requests are sent on (RFC 9260 §6.4).
    #[inline]
    pub(super) fn primary(&self) -> &Path {
        &self.primary
    }

    /// As [`primary`](Self::primary).
    #[inline]
    pub(super) fn primary_mut(&mut self) -> &mut Path {
        &mut self.primary
    }

    /// The path with this number. The primary path takes the place of one that is no more.
    #[inline]
    pub(super) fn of(&self, id: PathId) -> &Path {
        id.other().and_then(|other| self.others.get(other)?.as_ref()).unwrap_or(&self.primary)
    }

    /// As [`of`](Self::of).
    #[inline]
    pub(super) fn of_mut(&mut self, id: PathId) -> &mut Path {
        id.other().and_then(|other| self.others.get_mut(other)?.as_mut()).unwrap_or(&mut self.primary)
    }

    /// Returns the path to the address of `source`, regardless of the port, if there is one.
    #[inline]
    pub(super) fn to(&self, source: SocketAddr) -> Option<PathId> {
        self.iter().find(|path| path.remote.ip() == source.ip()).map(|path| path.sending.id())
    }

    /// Returns whether one of the paths has this destination, in whichever form it is written.
    pub(super) fn lead_to(&self, address: IpAddr) -> bool {
        self.iter().any(|path| path.remote.ip().to_canonical() == address.to_canonical())
    }

    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Path> {
        [&self.primary].into_iter().chain(self.others.iter().flatten())
    }

    #[inline]
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Path> {
        [&mut self.primary].into_iter().chain(self.others.iter_mut().flatten())
    }
}

impl SendPaths for Paths {
    #[inline]
    fn primary(&mut self) -> &mut SendPath {
        &mut self.primary.sending
    }

    #[inline]
    fn of(&mut self, id: PathId) -> &mut SendPath {
        &mut self.of_mut(id).sending
    }

    #[inline]
    fn all(&mut self) -> impl Iterator<Item = &mut SendPath> {
        self.iter_mut().map(|path| &mut path.sending)
    }
}
