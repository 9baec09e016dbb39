//! Encoder and decoder against a second decoder that remembers everything.

mod loss;
mod oracle;
mod windows;

#[path = "../../../../tests/seeds.rs"]
mod seeds;
