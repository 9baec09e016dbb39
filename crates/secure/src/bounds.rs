//! Bounds of what a side may show of itself.

/// The most certificates in a chain, of either side. Verifiers look for a path to a root among all of them, whose cost grows with the factorial of their
/// number if all have one name: 0.3 ms for 6 certificates, more than 10 ms for 8.
pub const CHAIN_LENGTH_MAX: usize = 6;
/// The most bytes of these certificates in all.
pub const CHAIN_BYTES_MAX: usize = 8 << 10;
