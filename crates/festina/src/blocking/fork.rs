//! Handles that survive `fork()` in the parent only.

use std::{fmt, mem, process};

/// A value that belongs to the process that made it.
///
/// A child made by `fork()` inherits the memory and the descriptors of its parent, but none of its threads. There the value cannot be reached,
/// and dropping it does nothing: its destructor would wait for locks that threads of the parent held, send packets from the parent's socket, or
/// change the parent's epoll instance, which the child shares. The memory and the descriptors are released when the child exits or executes
/// another program.
///
/// Processes are distinguished by their number, so a child with the same number in another PID namespace is not noticed.
#[derive(Debug)]
pub struct ForkGuard<T> {
    process: u32,
    /// Taken out only to be forgotten.
    value: Option<T>,
}

/// The caller is a child of the process that made the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forked {
    /// The process that made it.
    process: u32,
}

impl fmt::Display for Forked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { process } = self;
        write!(f, "this handle works only in process {process}, which forked: open a new endpoint in the child")
    }
}

impl std::error::Error for Forked {}

impl<T> ForkGuard<T> {
    /// Makes the value one of this process.
    pub fn new(value: T) -> Self {
        Self { process: process::id(), value: Some(value) }
    }

    /// Returns the value.
    ///
    /// # Errors
    /// The value was made before this process was forked.
    pub fn get(&self) -> Result<&T, Forked> {
        let is_here = self.process == process::id();
        self.value.as_ref().filter(|_| is_here).ok_or(Forked { process: self.process })
    }
}

impl<T> Drop for ForkGuard<T> {
    fn drop(&mut self) {
        if self.process != process::id() {
            mem::forget(self.value.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_value_of_another_process_is_neither_used_nor_dropped() {
        let value = Arc::new(7);
        let mut guarded = ForkGuard::new(value.clone());
        assert_eq!(guarded.get().map(|value| **value), Ok(7));
        guarded.process = guarded.process.wrapping_add(1);
        assert!(guarded.get().is_err_and(|error| error.to_string().contains("forked")));
        drop(guarded);
        assert_eq!(Arc::strong_count(&value), 2, "the destructor did not run");
        drop(ForkGuard::new(value.clone()));
        assert_eq!(Arc::strong_count(&value), 2);
    }
}
