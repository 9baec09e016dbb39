//! Compressed captures: gzip and zstd are recognised by their first bytes and expanded while they are read.

use std::io::{self, BufReader, Chain, Cursor, Read};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::FrameDecoder;

use crate::error::ReadError;

/// Bytes read at once.
const BUFFER_BYTES: usize = 1 << 18;

/// A compressed capture that expands beyond this...
const EXPANDED_BYTES_FREE: u64 = 1 << 30;
/// ... and to more than this many times its size is no capture but an attempt to waste time. Captures of all-zero payload reach some 400.
const EXPANSION_MAX: u64 = 800;

/// A source with its first bytes put back in front.
type Peeked<R> = Chain<Cursor<Vec<u8>>, R>;

/// A source in front of a decoder.
type Compressed<R> = BufReader<Counting<Peeked<R>>>;

/// The bytes of a capture, expanded if they were compressed. Memory is bounded by the window of the format: 32 KiB for gzip, 100 MiB
/// for zstd.
pub(crate) struct Expanded<R: Read>(Form<R>);

enum Form<R: Read> {
    Plain(Peeked<R>),
    Gzip(Box<Bounded<MultiGzDecoder<Compressed<R>>>>),
    Zstd(Box<Bounded<ZstdReader<Compressed<R>>>>),
}

impl<R: Read> Expanded<R> {
    /// Reads the first bytes to detect the format.
    pub(crate) fn new(mut source: R) -> Result<Self, ReadError> {
        let mut start = Vec::with_capacity(4);
        source.by_ref().take(4).read_to_end(&mut start).map_err(|source| ReadError::Io { offset: 0, source })?;
        let (is_gzip, is_zstd) = (start.starts_with(&[0x1f, 0x8b]), start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]));
        let source = Cursor::new(start).chain(source);
        let counting = |inner| BufReader::with_capacity(BUFFER_BYTES, Counting { inner, bytes: 0 });
        Ok(Self(match () {
            () if is_gzip => Form::Gzip(Box::new(Bounded::new(MultiGzDecoder::new(counting(source))))),
            () if is_zstd => Form::Zstd(Box::new(Bounded::new(ZstdReader::new(counting(source))))),
            () => Form::Plain(source),
        }))
    }
}

impl<R: Read> Read for Expanded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            Form::Plain(source) => source.read(buffer),
            Form::Gzip(gzip) => gzip.read(buffer, |decoder| decoder.get_ref().get_ref().bytes),
            Form::Zstd(zstd) => zstd.read(buffer, |decoder| decoder.source.get_ref().bytes),
        }
    }
}

impl<R: Read> std::fmt::Debug for Expanded<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            Form::Plain(_) => "Plain",
            Form::Gzip(_) => "Gzip",
            Form::Zstd(_) => "Zstd",
        })
    }
}

/// Counts the bytes read from a source.
struct Counting<R> {
    inner: R,
    bytes: u64,
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.bytes += read as u64;
        Ok(read)
    }
}

/// A decoder that stops when the output is too large for its input.
struct Bounded<D> {
    decoder: D,
    expanded_bytes: u64,
}

impl<D: Read> Bounded<D> {
    fn new(decoder: D) -> Self {
        Self { decoder, expanded_bytes: 0 }
    }

    fn read(&mut self, buffer: &mut [u8], compressed_bytes: impl Fn(&D) -> u64) -> io::Result<usize> {
        let read = self.decoder.read(buffer)?;
        self.expanded_bytes += read as u64;
        let allowed = compressed_bytes(&self.decoder).saturating_mul(EXPANSION_MAX).max(EXPANDED_BYTES_FREE);
        if self.expanded_bytes > allowed {
            let bytes = compressed_bytes(&self.decoder);
            return Err(io::Error::other(format!(
                "it expands to more than {EXPANSION_MAX} times its size within its first {bytes} compressed bytes, as no capture does"
            )));
        }
        Ok(read)
    }
}

/// Frame after frame of zstd.
struct ZstdReader<R> {
    source: R,
    decoder: FrameDecoder,
    is_in_frame: bool,
}

impl<R: io::BufRead> ZstdReader<R> {
    fn new(source: R) -> Self {
        Self { source, decoder: FrameDecoder::new(), is_in_frame: false }
    }
}

impl<R: io::BufRead> Read for ZstdReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        use ruzstd::decoding::BlockDecodingStrategy;
        use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};

        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if self.is_in_frame {
                if self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                    let enough = BlockDecodingStrategy::UptoBytes(BUFFER_BYTES);
                    self.decoder.decode_blocks(&mut self.source, enough).map_err(io::Error::other)?;
                }
                let read = self.decoder.read(buffer)?;
                if read > 0 {
                    return Ok(read);
                }
                if self.decoder.is_finished() {
                    self.is_in_frame = false;
                    let stored = self.decoder.get_checksum_from_data();
                    if stored.is_some_and(|stored| self.decoder.get_calculated_checksum() != Some(stored)) {
                        return Err(io::Error::other("a zstd frame has a wrong checksum"));
                    }
                }
                continue;
            }
            if self.source.fill_buf()?.is_empty() {
                return Ok(0);
            }
            match self.decoder.reset(&mut self.source) {
                Ok(()) => self.is_in_frame = true,
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    io::copy(&mut self.source.by_ref().take(u64::from(length)), &mut io::sink())?;
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
    }
}
