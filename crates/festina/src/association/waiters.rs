//! Tasks that wait for one condition of an association or a listener.

use std::task::Waker;

/// The tasks to wake when a condition comes true. One waiting task, the common case, costs no allocation.
///
/// Dropping or waking a waker may run foreign code, which may come back to the same association. So nothing here does
/// either while the owner's lock is held: replaced and removed wakers are handed back.
#[derive(Debug, Default)]
pub(crate) enum Waiters {
    #[default]
    None,
    One(u64, Waker),
    Many(Vec<(u64, Waker)>),
}

impl Waiters {
    /// Adds the waiter `key`, or renews its waker. The waker handed back is to be dropped without the lock.
    pub(crate) fn register(&mut self, key: u64, waker: &Waker) -> Option<Waker> {
        if let Some(present) = self.find(key) {
            if present.will_wake(waker) {
                return None;
            }
            return Some(std::mem::replace(present, waker.clone()));
        }
        match std::mem::take(self) {
            Self::None => *self = Self::One(key, waker.clone()),
            Self::One(other_key, other) => *self = Self::Many(vec![(other_key, other), (key, waker.clone())]),
            Self::Many(mut waiters) => {
                waiters.push((key, waker.clone()));
                *self = Self::Many(waiters);
            }
        }
        None
    }

    /// Forgets the waiter `key`. The waker handed back is to be dropped without the lock.
    pub(crate) fn remove(&mut self, key: u64) -> Option<Waker> {
        match self {
            Self::One(present, _) if *present == key => match std::mem::take(self) {
                Self::One(_, waker) => Some(waker),
                Self::None | Self::Many(_) => None,
            },
            Self::Many(waiters) => {
                let position = waiters.iter().position(|(present, _)| *present == key)?;
                Some(waiters.swap_remove(position).1)
            }
            Self::None | Self::One(..) => None,
        }
    }

    /// Empties the set; the result is to be woken without the lock.
    pub(crate) fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    /// Wakes everybody.
    pub(crate) fn wake(self) {
        match self {
            Self::None => {}
            Self::One(_, waker) => waker.wake(),
            Self::Many(waiters) => waiters.into_iter().for_each(|(_, waker)| waker.wake()),
        }
    }

    /// Adds the wakers to those that are to be woken.
    pub(crate) fn into_wakers(self, wakers: &mut Vec<Waker>) {
        match self {
            Self::None => {}
            Self::One(_, waker) => wakers.push(waker),
            Self::Many(waiters) => wakers.extend(waiters.into_iter().map(|(_, waker)| waker)),
        }
    }

    fn find(&mut self, key: u64) -> Option<&mut Waker> {
        match self {
            Self::One(present, waker) if *present == key => Some(waker),
            Self::Many(waiters) => waiters.iter_mut().find(|(present, _)| *present == key).map(|(_, waker)| waker),
            Self::None | Self::One(..) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    use super::*;

    struct Bell(AtomicU32);

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn bell() -> (Arc<Bell>, Waker) {
        let bell = Arc::new(Bell(AtomicU32::new(0)));
        (bell.clone(), bell.into())
    }

    #[test]
    fn every_waiter_is_woken_once() {
        let bells: Vec<_> = (0..3).map(|_| bell()).collect();
        let mut waiters = Waiters::default();
        for (key, (_, waker)) in (0..).zip(&bells) {
            assert!(waiters.register(key, waker).is_none());
            assert!(waiters.register(key, waker).is_none(), "the same waker again changes nothing");
        }
        waiters.take().wake();
        waiters.take().wake();
        assert!(bells.iter().all(|(bell, _)| bell.0.load(Ordering::Relaxed) == 1));
    }

    #[test]
    fn a_removed_waiter_is_not_woken() {
        let (first, first_waker) = bell();
        let (second, second_waker) = bell();
        let mut waiters = Waiters::default();
        waiters.register(1, &first_waker);
        waiters.register(2, &second_waker);
        assert!(waiters.remove(1).is_some());
        assert!(waiters.remove(1).is_none());
        waiters.take().wake();
        assert_eq!(first.0.load(Ordering::Relaxed), 0);
        assert_eq!(second.0.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_task_that_moved_is_woken_at_its_new_place() {
        let (old, old_waker) = bell();
        let (new, new_waker) = bell();
        let mut waiters = Waiters::default();
        waiters.register(1, &old_waker);
        assert!(waiters.register(1, &new_waker).is_some_and(|replaced| replaced.will_wake(&old_waker)));
        waiters.take().wake();
        assert_eq!(old.0.load(Ordering::Relaxed), 0);
        assert_eq!(new.0.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn an_idle_set_is_small() {
        assert!(size_of::<Waiters>() <= 32);
    }
}
