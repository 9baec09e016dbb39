//! The numbers of an association's paths, and values for each path.

/// Maximum number of an association's paths.
pub(crate) const PATHS_MAX: usize = 8;

/// One of an association's paths to the peer, which differ by destination address. The number stays the same as long as the path exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PathId(pub(crate) u8);

impl PathId {
    /// The path of the handshake: the primary path (RFC 9260 §6.4), unless [another](crate::Association::set_primary) is chosen.
    pub const PRIMARY: Self = Self(0);

    /// Its place among the paths other than the first one, which is none of them.
    #[inline]
    pub(crate) fn other(self) -> Option<usize> {
        usize::from(self.0).checked_sub(1)
    }
}

/// A small value for each path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ByPath<T>([T; PATHS_MAX]);

impl<T> ByPath<T> {
    /// The value for this path.
    #[inline]
    pub(crate) fn of(&self, path: PathId) -> &T {
        let [first, others @ ..] = &self.0;
        path.other().and_then(|other| others.get(other)).unwrap_or(first)
    }

    /// As [`of`](Self::of).
    #[inline]
    pub(crate) fn of_mut(&mut self, path: PathId) -> &mut T {
        let [first, others @ ..] = &mut self.0;
        path.other().and_then(|other| others.get_mut(other)).unwrap_or(first)
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
        match path.other() {
            None => &self.first,
            Some(other) => self.others.as_ref().and_then(|others| others.get(other)).unwrap_or(T::BLANK),
        }
    }

    /// As [`of`](Self::of).
    #[inline]
    pub(crate) fn of_mut(&mut self, path: PathId) -> &mut T {
        match path.other() {
            None => &mut self.first,
            Some(other) => self.other_mut(other),
        }
    }

    #[cold]
    fn other_mut(&mut self, other: usize) -> &mut T {
        let others = self.others.get_or_insert_default();
        others.get_mut(other).unwrap_or(&mut self.first)
    }

    /// Calls `look` with the value of each path; those of all paths but the first may be left out while they are blank.
    #[inline]
    pub(crate) fn map_ref<R: Default>(&self, mut look: impl FnMut(&T) -> R) -> ByPath<R> {
        let mut results = ByPath(core::array::from_fn(|_| R::default()));
        let [first, others @ ..] = &mut results.0;
        *first = look(&self.first);
        if let Some(values) = &self.others {
            others.iter_mut().zip(values.iter()).for_each(|(result, value)| *result = look(value));
        }
        results
    }

    #[inline]
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        core::iter::once(&mut self.first).chain(self.others.as_mut().map_or(&mut [][..], |others| &mut others[..]))
    }
}
