//! The library as C programs see it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on may say so by panicking")]

mod compiler;
mod header;
mod programs;
