"""The native module. Programs use its `Config`, `Identity`, `Trust`, `Sessions`, `Request`, `Message` and constants."""

from typing import Any, Final, Optional, Sequence, Union, final

PROFILES: Final[tuple[str, ...]]
"""The names of the loss-recovery profiles."""
CONGESTION: Final[tuple[str, ...]]
"""The names of the congestion controllers."""
DEFAULT_SCTP_PORT: Final[int]
__version__: Final[str]

Options = tuple[
    int,
    int,
    bool,
    bool,
    Optional[float],
    Optional[float],
    Optional[int],
    Optional[int],
    Optional[int],
    Optional[str],
]
Encryption = tuple[Optional[str], bytes, list[bytes]]

@final
class Config:
    """Settings of an endpoint. None keeps the default of a setting. Times are in seconds. `help(festina.Config)` lists them with
    their ranges and defaults."""

    def __new__(
        cls,
        *,
        profile: Optional[str] = None,
        congestion: Optional[str] = None,
        peer_timeout: Optional[float] = None,
        heartbeat_interval: Optional[float] = None,
        sack_delay: Optional[float] = None,
        message_bytes_max: Optional[int] = None,
        packet_bytes_max: Optional[int] = None,
        other_addresses: Optional[Sequence[str]] = None,
        paths_max: Optional[int] = None,
        path_policy: Optional[str] = None,
        send_buffer_bytes: Optional[int] = None,
        send_delay: Optional[float] = None,
        receive_buffer_bytes: Optional[int] = None,
        streams: Optional[tuple[int, int]] = None,
        interleaving: Optional[bool] = None,
        peer_moves: Optional[bool] = None,
        associations_max: Optional[int] = None,
        associations_per_address_max: Optional[int] = None,
        accept_queue_max: Optional[int] = None,
        strays_per_second_max: Optional[int] = None,
        identity: Optional[Identity] = None,
        server_trust: Optional[Trust] = None,
        client_trust: Optional[Trust] = None,
        alpn: Optional[Sequence[str]] = None,
        early_messages: Optional[bool] = None,
        plain_clients: Optional[bool] = None,
        sessions: Optional[Sessions] = None,
        key_log_from_env: Optional[bool] = None,
    ) -> Config: ...
    def __hash__(self) -> int: ...
    @staticmethod
    def plain(
        *,
        profile: Optional[str] = None,
        congestion: Optional[str] = None,
        peer_timeout: Optional[float] = None,
        heartbeat_interval: Optional[float] = None,
        sack_delay: Optional[float] = None,
        message_bytes_max: Optional[int] = None,
        packet_bytes_max: Optional[int] = None,
        other_addresses: Optional[Sequence[str]] = None,
        paths_max: Optional[int] = None,
        path_policy: Optional[str] = None,
        send_buffer_bytes: Optional[int] = None,
        send_delay: Optional[float] = None,
        receive_buffer_bytes: Optional[int] = None,
        streams: Optional[tuple[int, int]] = None,
        interleaving: Optional[bool] = None,
        peer_moves: Optional[bool] = None,
        associations_max: Optional[int] = None,
        associations_per_address_max: Optional[int] = None,
        accept_queue_max: Optional[int] = None,
        strays_per_second_max: Optional[int] = None,
    ) -> Config:
        """Settings for plain SCTP, which unmodified peers understand: nothing is encrypted, and peers are not authenticated."""

@final
class Identity:
    """A private key, with a certificate chain or as a raw public key (RFC 7250)."""

    @staticmethod
    def self_signed(name: str) -> Identity:
        """Creates a key (ECDSA P-256) and a self-signed certificate for a host name or an IP address. Peers know it by its fingerprint."""
    @staticmethod
    def from_pem(chain: Union[str, bytes], key: Union[str, bytes, None] = None) -> Identity:
        """Reads PEM: the certificate chain, the own certificate first, and the private key (PKCS #8, PKCS #1 or SEC 1). Without `key` it is in
        the same text."""
    @staticmethod
    def raw_key() -> Identity:
        """Creates a key (Ed25519) that is shown without a certificate, which makes the handshake shorter. Peers have to expect raw public keys:
        `Trust.raw_keys`."""
    @staticmethod
    def raw_key_from_pem(key: Union[str, bytes]) -> Identity:
        """Reads the private key from PEM, to be shown without a certificate."""
    @property
    def fingerprint(self) -> str:
        """The SHA-256 hash of the own certificate or raw public key, as 64 hexadecimal digits."""
    def to_pem(self) -> str:
        """Writes the chain and the private key as PEM, as `from_pem` reads them, or the key alone, as `raw_key_from_pem` reads it. Store it where
        only its owner can read it."""

@final
class Trust:
    """Which peers are trusted."""

    @staticmethod
    def platform_roots() -> Trust:
        """Trusts certificates that a certificate authority of the operating system has signed. A server's must also have the name that the client
        asks for."""
    @staticmethod
    def roots_from_pem(pem: Union[str, bytes]) -> Trust:
        """As `platform_roots`, with certificate authorities given as PEM."""
    @staticmethod
    def fingerprints(*fingerprints: str) -> Trust:
        """Trusts certificates with these fingerprints, each 64 hexadecimal digits. Names, dates and issuers are not checked."""
    @staticmethod
    def raw_keys(*fingerprints: str) -> Trust:
        """As `fingerprints`, for raw public keys. A peer with a certificate is refused, and so is a raw public key by the other kinds of trust."""

@final
class Sessions:
    """Sessions of a client with its servers, in memory: at most `servers_max` servers, and eight sessions with each. One that is resumed saves
    the server's certificate and lets early messages leave."""

    def __init__(self, servers_max: int) -> None: ...
    def clear(self) -> None:
        """Forgets all sessions. Associations that have begun add no more."""
    def forget(self, host: str, port: int) -> bool:
        """Forgets the sessions with one server, named as for `Endpoint.connect`, or by `server_name` if that was set, and returns whether there
        were any. Associations that have begun add no more, with any server."""

@final
class Request:
    """A client's request for an encrypted association that waits for a decision. Nothing in it is authentic yet. The client of a request that is
    dropped undecided is not answered."""

    @property
    def remote_address(self) -> tuple[str, int]:
        """The client's IP address and UDP port."""
    @property
    def token(self) -> bytes:
        """The client's token."""
    @property
    def server_name(self) -> Optional[str]:
        """The server name that the client asked for."""
    @property
    def alpn(self) -> Optional[str]:
        """The application protocol that ALPN chose."""
    @property
    def is_address_proved(self) -> bool:
        """Whether the client has shown that it receives at its address."""
    def accept(self) -> None:
        """Continues the handshake. `Listener.accept` returns the association once the client is authenticated."""
    def refuse(self) -> None:
        """Refuses the client."""

@final
class Message:
    """A received message."""

    @property
    def data(self) -> bytes: ...
    @property
    def stream(self) -> int:
        """The stream that carried it."""
    @property
    def ppid(self) -> int:
        """Payload protocol identifier."""
    @property
    def is_unordered(self) -> bool:
        """Whether it was delivered regardless of the order of its stream."""

def take_logs(level: int) -> list[tuple[int, str]]: ...
@final
class Hub:
    def __new__(cls) -> Hub: ...
    LOGS: Final[int]
    def fileno(self) -> int: ...
    def woken(self) -> list[int]: ...

@final
class Operation:
    @property
    def number(self) -> int: ...
    def poll(self) -> Optional[tuple[Any]]: ...
    def cancel(self) -> None: ...

@final
class Endpoint:
    @staticmethod
    def client(hub: Hub, address: str, config: Optional[Config]) -> Endpoint: ...
    @staticmethod
    def server(hub: Hub, address: str, config: Optional[Config]) -> Endpoint: ...
    @property
    def local_address(self) -> tuple[str, int]: ...
    def rebind(self, address: str) -> None: ...
    def add_address(self, address: str) -> None: ...
    def remove_address(self, address: str) -> None: ...
    def listen(self, port: int, hold_requests: bool) -> Listener: ...
    def connect(
        self, address: str, port: int, profile: Optional[str], handshake_timeout: float, encryption: Encryption
    ) -> Operation: ...
    def close(self) -> Operation: ...

@final
class Listener:
    @property
    def number(self) -> int: ...
    def poll_accept(self) -> Optional[Association]: ...
    @property
    def request_number(self) -> int: ...
    def poll_request(self) -> Optional[Request]: ...
    def close(self) -> None: ...

@final
class Association:
    @property
    def number(self) -> int: ...
    def poll_recv(self) -> Optional[Message]: ...
    def try_send(self, data: bytes, options: Optional[Options]) -> Optional[int]: ...
    def try_send_many(self, messages: list[bytes], options: Optional[Options]) -> int: ...
    def send(self, data: bytes, options: Optional[Options]) -> Operation: ...
    def send_confirmed(self, data: bytes, options: Optional[Options]) -> Operation: ...
    def drained(self) -> Operation: ...
    def shutdown(self) -> Operation: ...
    def closed(self) -> Operation: ...
    def event(self) -> Operation: ...
    def abort(self, reason: str) -> None: ...
    @property
    def close_reason(self) -> Optional[str]: ...
    @property
    def remote_address(self) -> tuple[str, int]: ...
    @property
    def is_encrypted(self) -> bool: ...
    @property
    def is_resumed(self) -> bool: ...
    @property
    def peer_fingerprint(self) -> Optional[str]: ...
    @property
    def peer_certificates(self) -> tuple[bytes, ...]: ...
    @property
    def alpn(self) -> Optional[str]: ...
    @property
    def client_token(self) -> bytes: ...
    def recv_early(self) -> Optional[Message]: ...
    @property
    def streams(self) -> tuple[int, int]: ...
    def stats(self) -> dict[str, dict[str, Any]]: ...
    def paths(self) -> list[dict[str, Any]]: ...
    @property
    def profile(self) -> Optional[str]: ...
    def set_profile(self, profile: str) -> None: ...
