//! Appends framed fields to a buffer; the writing counterpart of `tlv`.

use super::tlv::padding;

/// Writes nested frames whose padding is counted from `base`, the start of the packet within the buffer.
pub(super) struct Encoder<'v> {
    buffer: &'v mut Vec<u8>,
    base: usize,
    overflowed: bool,
}

impl<'v> Encoder<'v> {
    pub(super) fn new(buffer: &'v mut Vec<u8>, base: usize) -> Self {
        Self { buffer, base, overflowed: false }
    }

    /// Appends raw bytes.
    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Appends a frame: header, the output of `value`, and its length. Padding is deferred to the next part, because
    /// the length of the frame around it counts padding between its parts but not after the last (RFC 9260 §3.2).
    pub(super) fn frame(&mut self, kind: [u8; 2], value: impl FnOnce(&mut Self)) {
        self.pad();
        let start = self.buffer.len();
        let [kind_high, kind_low] = kind;
        self.put(&[kind_high, kind_low, 0, 0]);
        value(self);
        match (u16::try_from(self.buffer.len() - start), self.buffer.get_mut(start + 2..start + 4)) {
            (Ok(length), Some(field)) => field.copy_from_slice(&length.to_be_bytes()),
            _ => self.overflowed = true,
        }
    }

    /// Appends zero bytes up to the next multiple of four.
    pub(super) fn pad(&mut self) {
        let length = self.buffer.len();
        self.buffer.resize(length + padding(length - self.base), 0);
    }

    /// Pads the end; false if any frame was too long for its 16-bit length.
    pub(super) fn finish(mut self) -> bool {
        self.pad();
        !self.overflowed
    }
}
