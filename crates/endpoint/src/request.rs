//! What a client asks for, and the answer.

use std::fmt;
use std::net::SocketAddr;

/// A client's request for an association. Nothing in it is authentic before the association is established.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Request {
    /// The client's address.
    pub remote: SocketAddr,
    /// The client's bytes for the acceptor, which are not secret.
    pub token: Vec<u8>,
    /// The server name that the client asked for.
    pub server_name: Option<String>,
    /// The application protocol that ALPN chose.
    pub alpn: Option<Vec<u8>>,
    /// Whether the client has shown that it receives at its address.
    pub is_address_proved: bool,
    /// Whether it asks for an encrypted association. A plain client shows no more than its address.
    pub is_encrypted: bool,
}

impl Request {
    /// Returns the request of a plain client.
    #[must_use]
    pub fn plain(remote: SocketAddr) -> Self {
        let (token, server_name, alpn) = (Vec::new(), None, None);
        Self { remote, token, server_name, alpn, is_address_proved: false, is_encrypted: false }
    }
}

/// Shows only the length of the token, which is often a secret.
impl fmt::Debug for Request {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { remote, token, server_name, alpn, is_address_proved, is_encrypted } = self;
        let mut fields = formatter.debug_struct("Request");
        fields.field("remote", remote).field("token_bytes", &token.len()).field("server_name", server_name);
        fields.field("alpn", alpn).field("is_address_proved", is_address_proved);
        fields.field("is_encrypted", is_encrypted).finish()
    }
}

/// What becomes of a client's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Continue the handshake.
    Admit,
    /// A close frame with this code.
    Refuse(u16),
    /// No answer: the client may ask again.
    Ignore,
    /// The accept queue is full.
    Full,
    /// The application has not decided yet.
    Hold,
}

/// What becomes of an INIT or a COOKIE ECHO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlainVerdict {
    /// Continue the handshake.
    Admit,
    /// An ABORT.
    Refuse,
    /// An ABORT which says that the listener takes only encrypted clients.
    EncryptedOnly,
    /// No answer: the peer may ask again.
    Ignore,
    /// The same, and the packet does not count as dropped: the accept queue is full.
    Full,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_has_no_token() {
        let (remote, token) = (SocketAddr::from(([192, 0, 2, 1], 9_899)), b"ticket".to_vec());
        let request = Request { token, is_encrypted: true, ..Request::plain(remote) };
        let text = format!("{request:?}");
        assert!(text.contains("token_bytes: 6") && !text.contains("116, 105"), "{text}");
    }
}
