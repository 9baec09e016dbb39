//! Arbitrary bytes of a program for the engine of SCTP sockets: ancillary data, addresses, headers, requests and options. Each is read or refused, and
//! an option that was taken is shown.

use arbitrary::Arbitrary;
use festina_sockets::numbers::Errno;
use festina_sockets::wire::{Header, Kind, Request, TOKEN_BYTES};
use festina_sockets::{address, ancillary, engine};

/// Largest buffer of a program that asks for an option.
const ROOM_MAX: usize = 256;

/// An input.
#[derive(Arbitrary, Debug)]
pub struct Input {
    /// Numbers of options, sizes of the program's buffer, and values.
    options: Vec<(u8, u8, Vec<u8>)>,
    room: u8,
    bytes: Vec<u8>,
}

/// Runs one input.
///
/// # Panics
/// If an invariant is broken.
pub fn run(data: &[u8]) {
    let Some(Input { options, room, bytes }) = crate::read::<Input>(data) else { return };
    let settings = options.iter().map(|(name, room, value)| (i32::from(*name), &value[..], usize::from(*room)));
    for (shown, room) in engine::try_options(settings).into_iter().zip(options.iter().map(|option| option.1)) {
        match shown {
            Ok(value) => assert!(value.len() <= usize::from(room).min(ROOM_MAX)),
            Err(errno) => assert_ne!(errno, Errno::EIO),
        }
    }
    let mut header = Header::new(Kind::Data);
    if ancillary::read(&bytes, &mut header).is_ok() {
        assert_eq!(Header::decode(&header.encode()), Some(header));
    }
    let (fitting, is_cut) = ancillary::fitting(&bytes, room.into());
    assert!(fitting.len() <= room.into() && is_cut == (fitting.len() < bytes.len()));
    if let Some(addresses) = address::read_all(&bytes) {
        let mut again = Vec::new();
        addresses.iter().for_each(|one| address::write(*one, &mut again));
        assert_eq!(address::read_all(&again), Some(addresses));
    }
    if let Some(header) = Header::decode(&bytes) {
        assert_eq!(Header::decode(&header.encode()), Some(header));
    }
    let token = [7; TOKEN_BYTES];
    let _either = Request::decode(&token, &[&token[..], &bytes].concat());
}
