//! The datagrams on a program's socket pair, and requests to the engine.

use std::net::SocketAddr;

use crate::address;

/// Bytes of a [`Header`].
pub const HEADER_BYTES: usize = 96;
/// Bytes of the secret that requests begin with.
pub const TOKEN_BYTES: usize = 16;
/// Maximum size of a request or reply.
pub const REQUEST_BYTES_MAX: usize = 64 << 10;
/// Maximum size of a part of a received message, which is delivered in several parts if it is larger.
pub const PART_BYTES_MAX: usize = 128 << 10;
/// Maximum size of a message that a program sends.
pub const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// What a datagram is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A message, or a part of one.
    Data = 1,
    /// A notification of RFC 6458 §6.
    Notification = 2,
    /// A new socket for `accept`, with its descriptor.
    Accept = 3,
    /// Fills the socket's send buffer, so that it is not writable before it is connected.
    Plug = 4,
}

/// Bits of [`Header::marks`].
pub mod mark {
    /// The last part of a message.
    pub const END: u16 = 1;
    /// The program has subscribed to `sctp_data_io_event`.
    pub const DATA_IO: u16 = 2;
    /// The program has set `SCTP_RECVRCVINFO`.
    pub const RCVINFO: u16 = 4;
    /// The program has passed its own information on how to send.
    pub const HAS_INFO: u16 = 8;
    /// The program has passed its own partial-reliability policy.
    pub const HAS_POLICY: u16 = 16;
    /// A notification of the end of an association.
    pub const ENDED: u16 = 32;
}

/// The start of each datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What follows.
    pub kind: Kind,
    /// Bits of [`mark`].
    pub marks: u16,
    /// The stream.
    pub stream: u16,
    /// Flags as programs know them: [`flag`](crate::numbers::flag).
    pub flags: u16,
    /// The payload protocol identifier, as its bytes are on the wire.
    pub ppid: u32,
    /// The program's own number for the message.
    pub context: u32,
    /// Lifetime, number of retransmissions or priority, by the policy in the flags.
    pub policy_value: u32,
    /// The association. 0 is the only one of a one-to-one socket, or that of the address.
    pub association: i32,
    /// The socket's number, with [`Kind::Accept`].
    pub socket: u64,
    /// The peer.
    pub address: Option<SocketAddr>,
}

impl Header {
    /// Returns the header of an empty datagram.
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            marks: 0,
            stream: 0,
            flags: 0,
            ppid: 0,
            context: 0,
            policy_value: 0,
            association: 0,
            socket: 0,
            address: None,
        }
    }

    /// Returns the header as bytes.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend([self.kind as u8, 0]);
        bytes.extend(self.marks.to_ne_bytes());
        bytes.extend(self.stream.to_ne_bytes());
        bytes.extend(self.flags.to_ne_bytes());
        for number in [self.ppid, self.context, self.policy_value, self.association.cast_unsigned()] {
            bytes.extend(number.to_ne_bytes());
        }
        bytes.extend(self.socket.to_ne_bytes());
        if let Some(peer) = self.address {
            address::write(peer, &mut bytes);
        }
        let mut whole = [0; HEADER_BYTES];
        whole[..bytes.len()].copy_from_slice(&bytes);
        whole
    }

    /// Reads the header at the start of a datagram.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; HEADER_BYTES] = bytes.first_chunk()?;
        let kind = match bytes[0] {
            1 => Kind::Data,
            2 => Kind::Notification,
            3 => Kind::Accept,
            4 => Kind::Plug,
            _ => return None,
        };
        let two = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let four = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Some(Self {
            kind,
            marks: two(2),
            stream: two(4),
            flags: two(6),
            ppid: four(8),
            context: four(12),
            policy_value: four(16),
            association: four(20).cast_signed(),
            socket: u64::from_ne_bytes(bytes[24..32].try_into().ok()?),
            address: address::read(&bytes[32..]).map(|(peer, _)| peer),
        })
    }
}

/// The kind of a request. Each carries the number of a socket and further bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Operation {
    /// A new socket, with the engine's end of its pair: domain and type, each an `i32`. Answered with its number.
    Create = 1,
    /// Binds to addresses.
    Bind,
    /// Unbinds from addresses.
    Unbind,
    /// Listens: the backlog, an `i32`.
    Listen,
    /// Begins to connect to addresses.
    Connect,
    /// Waits for the result of connecting to addresses. Answered with the number of the association, an `i32`.
    Connected,
    /// The pending error, which is cleared.
    TakeError,
    /// The own address.
    LocalName,
    /// The peer's address.
    PeerName,
    /// Sets an option: level and name, each an `i32`, and the value.
    SetOption,
    /// Gets an option: level, name and size, each an `i32`, and the contents of the buffer.
    GetOption,
    /// A socket of its own for an association, an `i32`. Answered with its number and its descriptor.
    PeelOff,
    /// What a library needs to know of a socket: [`Facts`].
    Facts,
}

impl Operation {
    /// Returns the operation of this number.
    pub fn from_number(number: u8) -> Option<Self> {
        use Operation::*;
        const ALL: [Operation; 13] = [
            Create, Bind, Unbind, Listen, Connect, Connected, TakeError, LocalName, PeerName, SetOption, GetOption,
            PeelOff, Facts,
        ];
        ALL.into_iter().find(|operation| *operation as u8 == number)
    }
}

/// What a library keeps of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// One-to-many style.
    pub is_many: bool,
    /// `AF_INET6`.
    pub is_ipv6: bool,
    /// It listens, in one-to-one style.
    pub is_listening: bool,
    /// It is connected, or was.
    pub is_connected: bool,
    /// A connection attempt is under way.
    pub is_connecting: bool,
    /// Messages come with `sctp_sndrcvinfo`.
    pub data_io: bool,
    /// Messages come with `sctp_rcvinfo`.
    pub rcvinfo: bool,
    /// The association has ended with an error.
    pub has_failed: bool,
    /// Streams to the peer; 0 if that is unknown or differs between associations.
    pub streams: u16,
}

impl Facts {
    /// Returns the facts as bytes.
    pub fn encode(self) -> [u8; 4] {
        let bits = [
            self.is_many,
            self.is_ipv6,
            self.is_listening,
            self.is_connected,
            self.is_connecting,
            self.data_io,
            self.rcvinfo,
            self.has_failed,
        ];
        let bits = bits.iter().enumerate().fold(0, |sum, (at, bit)| sum | u8::from(*bit) << at);
        let [low, high] = self.streams.to_ne_bytes();
        [bits, 0, low, high]
    }

    /// Reads facts.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let [bits, _, low, high] = *bytes.first_chunk()?;
        let bit = |at: u8| bits >> at & 1 == 1;
        Some(Self {
            is_many: bit(0),
            is_ipv6: bit(1),
            is_listening: bit(2),
            is_connected: bit(3),
            is_connecting: bit(4),
            data_io: bit(5),
            rcvinfo: bit(6),
            has_failed: bit(7),
            streams: u16::from_ne_bytes([low, high]),
        })
    }
}

/// Returns a request as bytes.
pub fn request(token: &[u8; TOKEN_BYTES], operation: Operation, socket: u64, body: &[u8]) -> Vec<u8> {
    [&token[..], &[operation as u8], &socket.to_ne_bytes(), body].concat()
}

/// A request that the engine has received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The kind of a request.
    pub operation: Operation,
    /// The socket.
    pub socket: u64,
    /// Further bytes.
    pub body: &'a [u8],
}

impl<'a> Request<'a> {
    /// Reads a request. `None` if it has another token or is malformed.
    pub fn decode(token: &[u8; TOKEN_BYTES], bytes: &'a [u8]) -> Option<Self> {
        let (given, rest) = bytes.split_first_chunk::<TOKEN_BYTES>()?;
        // Every byte is compared, so that the time tells nothing.
        let differs = given.iter().zip(token).fold(0, |differs, (one, other)| differs | (one ^ other));
        let (operation, rest) = rest.split_first()?;
        let (socket, body) = rest.split_first_chunk()?;
        let operation = Operation::from_number(*operation)?;
        (differs == 0).then_some(Self { operation, socket: u64::from_ne_bytes(*socket), body })
    }

    /// Returns the 32-bit number at the start of the body and what follows it.
    pub fn number(body: &[u8]) -> Option<(i32, &[u8])> {
        let (number, rest) = body.split_first_chunk()?;
        Some((i32::from_ne_bytes(*number), rest))
    }
}

/// The name of the engine's end of a socket pair, by which any process recognises the other end: getpeername(2) returns it.
pub fn end_name(engine: &str, socket: u64) -> String {
    format!("{engine}/{socket:x}")
}

/// Returns the number of the socket whose engine's end has this name.
pub fn socket_of(engine: &str, name: &[u8]) -> Option<u64> {
    let rest = name.strip_prefix(engine.as_bytes())?.strip_prefix(b"/")?;
    u64::from_str_radix(str::from_utf8(rest).ok()?, 16).ok()
}

/// The value of [`ENGINE_VARIABLE`](crate::ENGINE_VARIABLE): the engine's name and its token.
pub fn engine_variable(engine: &str, token: &[u8; TOKEN_BYTES]) -> String {
    token.iter().fold(format!("{engine}:"), |text, byte| text + &format!("{byte:02x}"))
}

/// Reads [`engine_variable`].
pub fn read_engine_variable(value: &str) -> Option<(&str, [u8; TOKEN_BYTES])> {
    let (engine, digits) = value.rsplit_once(':')?;
    let mut token = [0; TOKEN_BYTES];
    if digits.len() != 2 * TOKEN_BYTES || !digits.is_ascii() {
        return None;
    }
    for (byte, at) in token.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(&digits[at..at + 2], 16).ok()?;
    }
    Some((engine, token))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_survive_the_round_trip() {
        let address = Some("[2001:db8::7%3]:36412".parse().unwrap());
        let header = Header {
            kind: Kind::Data,
            marks: mark::END | mark::RCVINFO,
            stream: 17,
            flags: 0x201,
            ppid: 0x1234_5678,
            context: 9,
            policy_value: 1_000,
            association: -5,
            socket: u64::MAX,
            address,
        };
        assert_eq!(Header::decode(&header.encode()), Some(header));
        assert_eq!(Header::decode(&header.encode()[1..]), None, "too short");
        assert_eq!(Header::decode(&[9; HEADER_BYTES]), None, "no such kind");
    }

    #[test]
    fn requests_need_the_token() {
        let token = [7; TOKEN_BYTES];
        let bytes = request(&token, Operation::GetOption, 3, b"rest");
        let expected = Request { operation: Operation::GetOption, socket: 3, body: b"rest" };
        assert_eq!(Request::decode(&token, &bytes), Some(expected));
        assert_eq!(Request::decode(&[8; TOKEN_BYTES], &bytes), None);
        assert_eq!(Request::decode(&token, &bytes[..20]), None);
        for number in 0..=u8::MAX {
            assert_eq!(Operation::from_number(number).is_some(), (1..=13).contains(&number));
        }
    }

    #[test]
    fn names_and_variables_survive_the_round_trip() {
        assert_eq!(socket_of("festina-sctp-1", end_name("festina-sctp-1", 255).as_bytes()), Some(255));
        assert_eq!(socket_of("festina-sctp-1", end_name("festina-sctp-12", 255).as_bytes()), None);
        let token = std::array::from_fn(|at| u8::try_from(at * 16).unwrap());
        assert_eq!(read_engine_variable(&engine_variable("a:b", &token)), Some(("a:b", token)));
        assert_eq!(read_engine_variable("a:00"), None);
        let facts = Facts { is_many: true, rcvinfo: true, streams: 300, ..Facts::default() };
        assert_eq!(Facts::decode(&facts.encode()), Some(facts));
    }
}
