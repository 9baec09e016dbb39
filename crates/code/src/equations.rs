//! Equations between lost symbols, solved as far as possible after each new one.

use crate::field::{add_product, divide, scale};
use crate::symbol::Symbol;
use crate::window::Window;

/// Maximum number of equations.
pub(crate) const EQUATIONS_MAX: usize = 8;
/// Maximum number of lost symbols in all equations.
const UNKNOWNS_MAX: usize = 32;

/// Takes about as long as adding an equation, apart from its sum.
const ADDING_BYTES: usize = 512;

/// A weighted sum of lost symbols, and its value.
#[derive(Debug)]
pub(crate) struct Equation {
    /// The weight of each unknown, by its place.
    weights: [u8; UNKNOWNS_MAX],
    sum: Vec<u8>,
}

/// The equations in reduced form: each has one unknown, its pivot, that is in no other equation.
#[derive(Debug, Default)]
pub(crate) struct Equations {
    /// The identifiers of unknowns. A place is free if no equation has a weight there.
    unknowns: [Option<u64>; UNKNOWNS_MAX],
    /// The oldest first, each with the place of its pivot.
    equations: Vec<(usize, Equation)>,
    /// Bytes that were multiplied since they were last counted.
    work_bytes: usize,
}

impl Equation {
    pub(crate) fn new(sum: Vec<u8>) -> Self {
        Self { weights: [0; UNKNOWNS_MAX], sum }
    }

    /// Subtracts a known symbol. Returns the number of bytes multiplied.
    pub(crate) fn subtract(&mut self, weight: u8, sealed: &[u8]) -> usize {
        if self.sum.len() < sealed.len() {
            self.sum.resize(sealed.len(), 0);
        }
        add_product(&mut self.sum, weight, sealed);
        sealed.len()
    }

    /// Subtracts a multiple of another equation such that the unknown at its pivot vanishes. Returns the number of bytes multiplied.
    fn eliminate(&mut self, pivot: usize, other: &Self) -> usize {
        let factor = divide(self.weights[pivot], other.weights[pivot]);
        if factor == 0 {
            return 0;
        }
        add_product(&mut self.weights, factor, &other.weights);
        UNKNOWNS_MAX + self.subtract(factor, &other.sum)
    }

    fn places(&self) -> impl Iterator<Item = usize> {
        self.weights.iter().enumerate().filter(|(_, weight)| **weight != 0).map(|(place, _)| place)
    }
}

impl Equations {
    /// Returns an upper limit of the bytes that are multiplied when an equation or symbol of this length is added.
    pub(crate) fn cost_bytes(&self, added_bytes: usize) -> usize {
        let sums = self.equations.iter().map(|(_, equation)| equation.sum.len());
        let longest = sums.fold(added_bytes, usize::max);
        ADDING_BYTES + 4 * (self.equations.len() + 1) * (longest + UNKNOWNS_MAX)
    }

    /// Returns the bytes that were multiplied since the last call.
    pub(crate) fn take_work_bytes(&mut self) -> usize {
        std::mem::take(&mut self.work_bytes)
    }

    pub(crate) fn contain(&self, id: u64) -> bool {
        !self.equations.is_empty() && self.unknowns.contains(&Some(id))
    }

    /// Adds an equation between the symbols of a window, at the cost of the oldest equations if they are too many.
    pub(crate) fn add(&mut self, mut equation: Equation, unknowns: Window) {
        let mut new = self.without_known(unknowns);
        while self.unknowns.iter().filter(|unknown| unknown.is_none()).count() < new.len() {
            self.equations.remove(0);
            self.free_places();
            new = self.without_known(unknowns);
        }
        let free = self.unknowns.iter_mut().filter(|unknown| unknown.is_none());
        for (unknown, (id, _)) in free.zip(new.terms()) {
            *unknown = Some(id);
        }
        for (weight, unknown) in equation.weights.iter_mut().zip(&self.unknowns) {
            *weight = unknown.and_then(|id| unknowns.weight(id)).unwrap_or_default();
        }
        self.reduce(equation);
        self.free_places();
        self.work_bytes += ADDING_BYTES;
    }

    /// Removes an unknown that has become known.
    pub(crate) fn learn(&mut self, symbol: &mut Symbol) {
        let Some(place) = self.unknowns.iter().position(|unknown| *unknown == Some(symbol.id)) else { return };
        for (_, equation) in &mut self.equations {
            let weight = std::mem::take(&mut equation.weights[place]);
            if weight != 0 {
                self.work_bytes += equation.subtract(weight, symbol.sealed());
            }
        }
        if let Some(at) = self.equations.iter().position(|(pivot, _)| *pivot == place) {
            let (_, equation) = self.equations.remove(at);
            self.reduce(equation);
        }
        self.free_places();
    }

    /// Removes the equations with an unknown, without computing anything.
    pub(crate) fn discard(&mut self, id: u64) {
        if let Some(place) = self.unknowns.iter().position(|unknown| *unknown == Some(id)) {
            self.equations.retain(|(_, equation)| equation.weights[place] == 0);
            self.free_places();
        }
    }

    /// Removes all equations.
    pub(crate) fn clear(&mut self) {
        self.equations.clear();
        self.unknowns.fill(None);
    }

    /// Removes an equation with a single unknown, of these that with the lowest identifier. Returns the unknown's identifier and value.
    pub(crate) fn take_solved(&mut self) -> Option<(u64, Vec<u8>)> {
        let solved = self.equations.iter().enumerate().filter(|(_, (_, equation))| equation.places().count() == 1);
        let (at, id) =
            solved.filter_map(|(at, (pivot, _))| Some((at, self.unknowns[*pivot]?))).min_by_key(|(_, id)| *id)?;
        let (pivot, mut equation) = self.equations.remove(at);
        scale(&mut equation.sum, divide(1, equation.weights[pivot]));
        self.work_bytes += equation.sum.len();
        self.unknowns[pivot] = None;
        Some((id, equation.sum))
    }

    /// Brings an equation into the reduced form of the others. One that follows from them vanishes.
    fn reduce(&mut self, mut equation: Equation) {
        for (pivot, other) in &self.equations {
            self.work_bytes += equation.eliminate(*pivot, other);
        }
        let Some(pivot) = equation.places().next() else { return };
        for (_, other) in &mut self.equations {
            self.work_bytes += other.eliminate(pivot, &equation);
        }
        if self.equations.len() == EQUATIONS_MAX {
            self.equations.remove(0);
        }
        self.equations.push((pivot, equation));
    }

    /// Returns the symbols of a window that are in no equation.
    fn without_known(&self, window: Window) -> Window {
        self.unknowns.iter().flatten().fold(window, |window, id| window.without(*id))
    }

    fn free_places(&mut self) {
        let mut used = [0; UNKNOWNS_MAX];
        for (_, equation) in &self.equations {
            used.iter_mut().zip(&equation.weights).for_each(|(used, weight)| *used |= weight);
        }
        for (unknown, _) in self.unknowns.iter_mut().zip(used).filter(|(_, used)| *used == 0) {
            *unknown = None;
        }
    }
}

#[cfg(test)]
impl Equation {
    pub(crate) fn sum(self) -> Vec<u8> {
        self.sum
    }
}

#[cfg(test)]
impl Equations {
    /// Bytes allocated for sums.
    pub(crate) fn capacity(&self) -> usize {
        self.equations.iter().map(|(_, equation)| equation.sum.capacity()).sum()
    }

    /// An unknown.
    pub(crate) fn any(&self) -> Option<u64> {
        self.unknowns.iter().flatten().copied().next()
    }
}
