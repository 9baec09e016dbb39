//! Controllers from outside this crate.

use std::fmt;
use std::hash::{Hash, Hasher};

use super::Controller;
use super::pacer::Pacer;

/// Facts about a path whose controller is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewPath {
    /// Maximum bytes of DATA chunks in a packet (PMDCS, RFC 9260 §2.3).
    pub packet_bytes: usize,
    /// The part of the standard's initial window that depends on the address family (RFC 9260 §7.2.1).
    pub initial_window_bytes: usize,
}

/// The name and the constructor of a [`Controller`] from outside this crate. Two with the same name count as equal.
///
/// Unstable until a second user has implemented one: minor versions may change it.
#[derive(Clone, Copy)]
pub struct CustomController {
    name: &'static str,
    create: fn(NewPath) -> Box<dyn Controller>,
}

impl CustomController {
    /// Creates it. `create` is called for each path of each association.
    #[must_use]
    pub const fn new(name: &'static str, create: fn(NewPath) -> Box<dyn Controller>) -> Self {
        Self { name, create }
    }

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.name
    }
}

impl fmt::Debug for CustomController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CustomController").field(&self.name).finish()
    }
}

impl PartialEq for CustomController {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for CustomController {}

impl Hash for CustomController {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// Such a controller in use, with its pacer.
#[derive(Debug)]
pub(crate) struct Custom {
    controller: Box<dyn Controller>,
    pacer: Pacer,
}

impl Custom {
    pub(super) fn new(choice: CustomController, path: NewPath) -> Self {
        Self { controller: (choice.create)(path), pacer: Pacer::default() }
    }

    pub(super) fn controller(&self) -> &(dyn Controller + 'static) {
        &*self.controller
    }

    pub(super) fn controller_mut(&mut self) -> &mut (dyn Controller + 'static) {
        &mut *self.controller
    }

    pub(super) fn pacer(&self) -> &Pacer {
        &self.pacer
    }

    pub(super) fn pacer_mut(&mut self) -> &mut Pacer {
        &mut self.pacer
    }
}
