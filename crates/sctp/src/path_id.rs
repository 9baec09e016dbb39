//! The numbers of an association's paths, and values for each path.

/// Maximum number of an association's paths.
pub(crate) const PATHS_MAX: usize = 8;

/// One of an association's paths to the peer, which differ by destination address. The number stays the same as long as the path exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PathId(pub(crate) u8);

impl PathId {
    /// The path of the handshake: the primary path (RFC 9260 §6.4), unless [another](crate::Association::set_primary) is chosen.
    pub const PRIMARY: Self = Self(0);

    /// Its place in [`Association::paths`](crate::Association::paths), from 0 on.
    #[inline]
    pub fn index(self) -> usize {
        self.0.into()
    }

    /// Its place among the paths other than the first one, which is none of them.
    #[inline]
    pub(crate) fn other(self) -> Option<usize> {
        usize::from(self.0).checked_sub(1)
    }
}

/// Some of an association's paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PathSet(u8);

impl PathSet {
    #[inline]
    pub(crate) fn insert(&mut self, path: PathId) {
        self.0 |= 1_u8.checked_shl(path.0.into()).unwrap_or_default();
    }

    #[inline]
    pub(crate) fn contains(self, path: PathId) -> bool {
        self.0.checked_shr(path.0.into()).unwrap_or_default() & 1 == 1
    }
}

/// A small value for each path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ByPath<T>([T; PATHS_MAX]);

impl<T> ByPath<T> {
    /// The value for this path.
    #[inline]
    pub(crate) fn of(&self, path: PathId) -> &T {
        &self.0[usize::from(path.0) % PATHS_MAX]
    }

    /// As [`of`](Self::of).
    #[inline]
    pub(crate) fn of_mut(&mut self, path: PathId) -> &mut T {
        &mut self.0[usize::from(path.0) % PATHS_MAX]
    }

    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }
}

/// A value for each path. Those of paths other than the first are on the heap from the first change of one on, so that a single path costs nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SparseByPath<T> {
    pub(crate) first: T,
    pub(crate) others: Option<Box<Others<T>>>,
}

/// The values of the paths other than the first.
pub(crate) type Others<T> = [T; PATHS_MAX - 1];

/// A type whose default is a constant.
pub(crate) trait Blank: Default + 'static {
    /// The default.
    const BLANK: &'static Self;
}

impl Blank for usize {
    const BLANK: &'static Self = &0;
}

impl<T: Blank> SparseByPath<T> {
    /// The value for this path.
    #[inline]
    pub(crate) fn of(&self, path: PathId) -> &T {
        if path == PathId::PRIMARY { &self.first } else { self.other(path) }
    }

    #[cold]
    fn other(&self, path: PathId) -> &T {
        self.others.as_ref().zip(path.other()).and_then(|(others, other)| others.get(other)).unwrap_or(T::BLANK)
    }

    /// As [`of`](Self::of).
    #[inline]
    pub(crate) fn of_mut(&mut self, path: PathId) -> &mut T {
        if path == PathId::PRIMARY { &mut self.first } else { self.other_mut(path) }
    }

    #[cold]
    fn other_mut(&mut self, path: PathId) -> &mut T {
        let others = self.others.get_or_insert_default();
        path.other().and_then(|other| others.get_mut(other)).unwrap_or(&mut self.first)
    }

    /// Returns the paths whose value passes the test. A blank value passes none.
    #[inline]
    pub(crate) fn paths_where(&self, test: impl Fn(&T) -> bool) -> PathSet {
        let mut paths = PathSet(u8::from(test(&self.first)));
        if let Some(others) = &self.others {
            let passing = (1..).zip(others.iter()).filter(|(_, value)| test(value));
            passing.for_each(|(number, _)| paths.insert(PathId(number)));
        }
        paths
    }

    #[inline]
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        core::iter::once(&mut self.first).chain(self.others.as_mut().map_or(&mut [][..], |others| &mut others[..]))
    }
}
