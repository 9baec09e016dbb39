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

/// Creates [`Controller`]s from outside this crate.
///
/// Unstable until a second user has implemented one: minor versions may change it.
pub trait ControllerFactory: fmt::Debug + Send + Sync {
    /// Returns the name. Factories with the same name count as equal.
    fn name(&self) -> &'static str;

    /// Creates the controller of one path of an association.
    fn create(&self, path: NewPath) -> Box<dyn Controller>;
}

/// A choice of a [`ControllerFactory`]. It is a reference and not an `Arc`, so that settings stay `Copy`: put a factory with settings of its own into a
/// `static`, or leak it once.
#[derive(Clone, Copy, Debug)]
pub struct CustomController(&'static dyn ControllerFactory);

impl CustomController {
    /// Chooses a factory.
    #[must_use]
    pub const fn new(factory: &'static dyn ControllerFactory) -> Self {
        Self(factory)
    }

    /// Returns the name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0.name()
    }
}

impl PartialEq for CustomController {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for CustomController {}

impl Hash for CustomController {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
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
        Self { controller: choice.0.create(path), pacer: Pacer::default() }
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
