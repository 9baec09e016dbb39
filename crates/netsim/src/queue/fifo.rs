//! First in, first out, with sizes and times.

use std::collections::VecDeque;

use festina_units::{ByteCount, Instant};

/// A waiting item.
#[derive(Debug)]
pub(super) struct Waiting<T> {
    pub(super) size: ByteCount,
    pub(super) since: Instant,
    pub(super) item: T,
}

#[derive(Debug)]
pub(super) struct Fifo<T> {
    waiting: VecDeque<Waiting<T>>,
    bytes: ByteCount,
}

impl<T> Fifo<T> {
    pub(super) fn new() -> Self {
        Self { waiting: VecDeque::new(), bytes: ByteCount::ZERO }
    }

    pub(super) fn push(&mut self, waiting: Waiting<T>) {
        self.bytes += waiting.size;
        self.waiting.push_back(waiting);
    }

    pub(super) fn pop(&mut self) -> Option<Waiting<T>> {
        let oldest = self.waiting.pop_front()?;
        self.bytes -= oldest.size;
        Some(oldest)
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn bytes(&self) -> ByteCount {
        self.bytes
    }
}
