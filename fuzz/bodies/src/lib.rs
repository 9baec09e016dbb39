//! The fuzz targets of Festina as ordinary functions: one module per target, whose `run` takes an input of the fuzzer and
//! panics if the input breaks an invariant. The targets of `fuzz/fuzz_targets` call them, and so does the test `seeds`.

#![expect(clippy::cast_possible_truncation, reason = "the numbers are small, or only their low bits are used")]
#![expect(clippy::unwrap_used, reason = "the settings are fixed and valid")]

pub mod association;
pub mod capture;
mod chunks;
pub mod code;
pub mod collector;
pub mod dcep;
pub mod dialogue;
pub mod endpoint;
mod forge;
pub mod framing;
pub mod packet;
pub mod sdp;
pub mod secure;
mod settings;
pub mod sockets;
pub mod stun;
pub mod syslog;
pub mod web;

use arbitrary::{Arbitrary, Unstructured};

/// Returns the value that an input means, or nothing if the input is too short. The seeds rely on this order of reading,
/// which is that of `libfuzzer_sys::fuzz_target!`.
fn read<'a, T: Arbitrary<'a>>(data: &'a [u8]) -> Option<T> {
    if data.len() < T::size_hint(0).0 {
        return None;
    }
    T::arbitrary_take_rest(Unstructured::new(data)).ok()
}
