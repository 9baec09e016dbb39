//! Secure associations from outside, in virtual time.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on may say so by panicking")]

mod copied;
mod early;
mod first_message;
mod forge;
mod forged;
mod handshake;
mod hostile;
mod identity;
mod limits;
mod linking;
mod middlebox;
mod moving;
mod observer;
mod paths;
mod reading;
mod rebinding;
mod resets;
#[path = "../../../../tests/seeds.rs"]
mod seeds;
mod sessions;
mod walk;
mod world;
