//! What peers bring and the application takes.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::task::{Context, Poll};

use super::lock;
use crate::association::Waiters;

/// A queue whose readers wait while it is empty and open.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    items_max: usize,
    state: Mutex<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    items: VecDeque<T>,
    /// Places kept for items that are to come.
    reserved: usize,
    waiters: Waiters,
    waiter_keys: u64,
    closed: bool,
}

impl<T> State<T> {
    fn is_full(&self, items_max: usize) -> bool {
        self.items.len() + self.reserved >= items_max
    }
}

impl<T> Queue<T> {
    pub(super) fn new(items_max: usize) -> Self {
        let (items, waiters) = (VecDeque::new(), Waiters::default());
        Self { items_max, state: Mutex::new(State { items, reserved: 0, waiters, waiter_keys: 0, closed: false }) }
    }

    pub(super) fn is_full(&self) -> bool {
        lock(&self.state).is_full(self.items_max)
    }

    /// Keeps a place for an item until [`release`](Self::release). Returns `false` if this part of the queue, such as 2 for half of it, is taken.
    pub(super) fn reserve(&self, part: usize) -> bool {
        let mut state = lock(&self.state);
        let has_room = !state.is_full(self.items_max / part);
        state.reserved += usize::from(has_room);
        has_room
    }

    /// Gives back a place that was kept.
    pub(super) fn release(&self) {
        lock(&self.state).reserved -= 1;
    }

    /// Removes the items for which `is_over` returns `true`, and returns them, to be dropped without a lock. `is_over` must not wait for one.
    pub(super) fn remove_ended(&self, is_over: impl Fn(&T) -> bool) -> VecDeque<T> {
        let mut state = lock(&self.state);
        if !state.items.iter().any(&is_over) {
            return VecDeque::new();
        }
        let (ended, items) = std::mem::take(&mut state.items).into_iter().partition(is_over);
        state.items = items;
        ended
    }

    /// Returns whether the queue has ended.
    pub(super) fn is_closed(&self) -> bool {
        lock(&self.state).closed
    }

    /// Adds an item, and returns whether it was added: after the end it is dropped.
    pub(super) fn push(&self, item: T) -> bool {
        let mut state = lock(&self.state);
        if state.closed {
            return false;
        }
        state.items.push_back(item);
        let waiters = state.waiters.take();
        drop(state);
        waiters.wake();
        true
    }

    /// The next item if one waits.
    pub(crate) fn try_pop(&self) -> Option<T> {
        lock(&self.state).items.pop_front()
    }

    /// The next item; `None` after the end.
    pub(crate) fn poll_pop(&self, context: &mut Context<'_>, key: &mut Option<u64>) -> Poll<Option<T>> {
        let mut state = lock(&self.state);
        if let Some(item) = state.items.pop_front() {
            return Poll::Ready(Some(item));
        }
        if state.closed {
            return Poll::Ready(None);
        }
        let key = *key.get_or_insert_with(|| {
            state.waiter_keys += 1;
            state.waiter_keys
        });
        let replaced = state.waiters.register(key, context.waker());
        drop(state);
        drop(replaced);
        Poll::Pending
    }

    /// Removes a waiter.
    pub(crate) fn forget(&self, key: u64) {
        let removed = lock(&self.state).waiters.remove(key);
        drop(removed);
    }

    /// Takes no more items, and wakes all waiters. Returns the items that are left, which are to be dropped without a lock.
    pub(super) fn close(&self) -> VecDeque<T> {
        let mut state = lock(&self.state);
        state.closed = true;
        let (items, waiters) = (std::mem::take(&mut state.items), state.waiters.take());
        drop(state);
        waiters.wake();
        items
    }
}
