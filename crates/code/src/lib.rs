//! A systematic sliding-window erasure code over GF(256) for symbols of differing sizes: repair symbols from which a receiver computes lost symbols
//! without waiting for a retransmission.
//!
//! Source symbols are sent as they are. A repair symbol is a weighted sum of up to [`WINDOW_MAX`] of them, each [sealed](#wrong-sums); shorter
//! ones count as padded with zeros. The weights follow from the [`Window`], so none are sent. The [`Encoder`] keeps the last symbols, and the
//! [`Decoder`] takes source and repair symbols in any order. Identifiers are those of the caller, unwrapped to 64 bits: both sides need only agree
//! on the low 32.
//!
//! ```
//! use festina_code::{Decoder, Encoder};
//!
//! let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
//! encoder.push(7, b"lost");
//! encoder.push(8, b"received");
//! let mut repair = Vec::new();
//! let window = encoder.repair(2, &mut repair).expect("two symbols are held");
//!
//! decoder.handle_source(8, b"received");
//! decoder.handle_repair(window, &repair);
//! let recovered = decoder.poll_recovered().expect("one symbol was lost");
//! assert_eq!((recovered.id, &recovered.bytes[..]), (7, &b"lost"[..]));
//! ```
//!
//! # Wrong sums
//!
//! Forged or damaged repair symbols, or a sender's mistake, give wrong sums. A sealed symbol therefore begins with a checksum over identifier and
//! bytes and ends with a mark, from which its length follows. A recovered symbol is returned only if mark and checksum are right, which a wrong
//! sum of any kind passes with a probability of 2^-32 or less, as a damaged packet passes the checksum of SCTP. The checksum is the product of a
//! CRC32c and a constant, since the CRC32c of a sum is the sum of CRC32c's. A wrong sum also discards all pending repair symbols.
//! The peer itself can compute checksums of false symbols, but it can send them as source symbols just as well.
//!
//! # Bounds
//!
//! A [`Decoder`] keeps at most 32 symbols and 8 repair symbols, each of at most [`SYMBOL_BYTES_MAX`] bytes and 5 more. It multiplies at most
//! 128 KiB and as many bytes as it receives: a repair symbol that would take more is ignored. Once its buffers have grown, it allocates only for
//! repair symbols with an unknown symbol. The example `code_cost` measures both sides.
//!
//! # Why not a crate
//!
//! `cu-fec` 1.3 has symbols of one size, keeps a window of one size for each association and needs Rust 1.95; `fec-rs` 0.1 is a block code with
//! `unsafe` code. Sizes that differ, the seal and the bounds on a hostile peer would be ours with either, and the arithmetic is 60 lines, which
//! compilers vectorise: 0.3 ns for a byte and a weight.
//!
//! # Prior art and patents
//!
//! The code is that of RAID 6, in sliding windows as in Tetrys (RFC 9407), RFC 8681 and draft-michel-quic-fec, with the masks of RFC 5109.
//! US 9,673,841 claims that each packet, the first transmission included, carries the window's boundaries and a seed, and that a length is added to
//! source packets: here source symbols carry nothing, there is no seed, and no length is added. US 11,424,861 claims a decoder that takes
//! coefficient vectors from packets and compares sequence numbers with a window of a size fixed before encoding: here weights are not sent, each
//! repair symbol has its own window, and the decoder is bounded by the number of symbols and equations and not by their numbers.

#![forbid(unsafe_code)]

pub mod crc32c;
mod decoder;
mod encoder;
mod equations;
mod field;
mod symbol;
mod window;

pub use decoder::{Decoder, Recovered};
pub use encoder::Encoder;
pub use window::{ROWS, WINDOW_MAX, Window};

/// Maximum length of a source symbol in bytes. Longer ones are neither protected nor recovered.
pub const SYMBOL_BYTES_MAX: usize = 1_500;
/// Bytes by which a repair symbol is longer than the longest source symbol in it.
pub const REPAIR_OVERHEAD_BYTES: usize = symbol::SEAL_BYTES;
