//! The numbers of an association's paths, and values for each path.

/// Paths of an association.
pub(crate) const PATHS_MAX: usize = if cfg!(test) { 2 } else { 1 };

/// One of an association's paths to the peer, which differ by destination address. The number stays the same as long as the path exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PathId(pub(crate) u8);

impl PathId {
    /// The primary path (RFC 9260 §6.4).
    pub const PRIMARY: Self = Self(0);

    /// Its place among the paths other than the primary path, which is none of them.
    #[inline]
    pub(crate) fn other(self) -> Option<usize> {
        usize::from(self.0).checked_sub(1)
    }
}

/// A value for each path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ByPath<T>([T; PATHS_MAX]);

impl<T> ByPath<T> {
    /// The value for this path.
    #[inline]
    pub(crate) fn of(&self, path: PathId) -> &T {
        let [primary, others @ ..] = &self.0;
        path.other().and_then(|other| others.get(other)).unwrap_or(primary)
    }

    /// As [`of`](Self::of).
    #[inline]
    pub(crate) fn of_mut(&mut self, path: PathId) -> &mut T {
        let [primary, others @ ..] = &mut self.0;
        path.other().and_then(|other| others.get_mut(other)).unwrap_or(primary)
    }

    #[inline]
    pub(crate) fn map_ref<R>(&self, look: impl FnMut(&T) -> R) -> ByPath<R> {
        ByPath(self.0.each_ref().map(look))
    }

    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }

    #[inline]
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut()
    }
}
