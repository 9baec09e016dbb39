/*
 * Festina: small messages between two programs. A lost message is repaired in about one round trip. It is SCTP (RFC 9260) over UDP, below
 * TLS 1.3.
 *
 * An endpoint is one UDP socket with one thread that receives packets and runs timers. It carries any number of associations: connections
 * that carry messages both ways. Messages are sent from the caller's thread. Its only callback is that of festina_set_log.
 *
 * Waiting. A function with a timeout_ms waits at most that long: FESTINA_FOREVER sets no limit, and FESTINA_NOW does not wait.
 * Other negative numbers are FESTINA_INVALID. After FESTINA_TIMEOUT nothing was lost or changed, and the call can be repeated.
 *
 * Errors. Functions return a festina_status; festina_last_error returns a readable text.
 *
 * Ownership. The caller frees each handle with the function of its name, in any order: an endpoint lives in the background until
 * all its objects are freed too. Freeing NULL does nothing. Strings passed in are copied.
 *
 * Threads. Several threads may use a handle at the same time, except for a festina_config that is changed. No thread may use it during or after
 * its release.
 *
 * fork(). A handle works only in the process that created it. In a child every function returns FESTINA_INVALID for it, and freeing it does
 * not affect the parent; its memory and descriptors are released when the child exits or executes another program. Until then the child
 * keeps the parent's sockets open. A child can open endpoints of its own. Settings, identities and trusts also work in the child; settings
 * with a festina_sessions resume none there.
 *
 * Structs begin with their size as the program was compiled, so that newer libraries can append fields. Initialise them with *_INIT.
 *
 * Encryption. Associations are encrypted. A server needs an identity. A client trusts servers that a certificate authority of the operating
 * system has signed, unless it names others: festina_config_set_server_trust. festina_config_plain speaks plain SCTP, for other peers: nothing
 * is encrypted then, and no peer is authenticated. An endpoint does one or the other, unless festina_config_set_plain_clients lets its
 * listeners do both, and never falls back.
 */
#ifndef FESTINA_H
#define FESTINA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Errors ---- */

typedef enum festina_status {
    FESTINA_OK = 0,
    FESTINA_TIMEOUT = 1,     /* the time limit has expired */
    FESTINA_CLOSED = 2,      /* the association or the endpoint has ended */
    FESTINA_INVALID = 3,     /* an argument is invalid */
    FESTINA_REFUSED = 4,     /* the peer refused: nothing listens on that SCTP port, it does not trust this side, ... */
    FESTINA_UNREACHABLE = 5, /* the name was not found, or the peer did not answer the handshake */
    FESTINA_SYSTEM = 6,      /* the system refused: the address is in use, no descriptor is left, ... */
    FESTINA_LIMIT = 7,       /* a limit of the settings or of the protocol was reached: an SCTP port is taken, ... */
    FESTINA_BUG = 8,         /* a bug in Festina: please report it with the text */
    FESTINA_FULL = 9,        /* the peer has no room for another association, or its listener rejected this one */
    FESTINA_UNTRUSTED = 10,  /* the peer's certificate is not trusted */
    FESTINA_PROTOCOL = 11    /* the peer speaks another protocol, such as plain SCTP, or its handshake is faulty */
} festina_status;

/* Describes this thread's last error; never NULL. The text is valid until the next call from this thread that fails. In exit handlers and
 * destructors of static objects it may only say that the error is not known. */
const char *festina_last_error(void);

/* ---- Logs ---- */

enum festina_log_level {
    FESTINA_LOG_OFF = 0,
    FESTINA_LOG_ERROR = 1,
    FESTINA_LOG_WARN = 2,  /* failed handshakes, reached limits */
    FESTINA_LOG_INFO = 3,  /* associations that begin and end */
    FESTINA_LOG_DEBUG = 4,
    FESTINA_LOG_TRACE = 5
};

/* Takes a record: a level of enum festina_log_level, and a line without a line feed that is valid during the call. */
typedef void (*festina_log_function)(void *context, int level, const char *text);

/* Calls the function with each log record of the process of at least this severity, from any thread, in the middle of the library's work. It
 * should be quick, and must not call the library. It replaces an earlier function, which is not called after the return; NULL ends the calls. */
festina_status festina_set_log(festina_log_function function, void *context, int level);

/* ---- Time ---- */

#define FESTINA_FOREVER (-1)
#define FESTINA_NOW 0

/* Microseconds on the monotonic clock of deadlines and events. Its zero is arbitrary. On Linux it goes on while the system is suspended. */
uint64_t festina_now_us(void);

/* ---- Identity and trust ---- */

/* A private key, with a certificate chain or as a raw public key (RFC 7250). */
typedef struct festina_identity festina_identity;
/* Which peers are trusted. */
typedef struct festina_trust festina_trust;
/* Sessions of a client with its servers, in memory. One that is resumed saves the server's certificate and lets early messages leave. */
typedef struct festina_sessions festina_sessions;

/* Creates a key (ECDSA P-256) and a self-signed certificate for a host name or an IP address. Peers know it by its fingerprint. */
festina_status festina_identity_self_signed(const char *name, festina_identity **identity);
/* Reads PEM: the certificate chain, the own certificate first, and the private key (PKCS #8, PKCS #1 or SEC 1). Both may be the same text. */
festina_status festina_identity_from_pem(const char *chain_pem, const char *key_pem, festina_identity **identity);
/* Creates a key (Ed25519) that is shown without a certificate, which makes the handshake shorter. Peers have to expect raw public keys:
 * festina_trust_raw_keys. */
festina_status festina_identity_raw_key(festina_identity **identity);
/* Reads the private key from PEM, to be shown without a certificate. */
festina_status festina_identity_raw_key_from_pem(const char *key_pem, festina_identity **identity);
/* Writes the SHA-256 hash of the own certificate or raw public key as 64 hexadecimal digits. Texts are written as by
 * festina_endpoint_local_address. */
size_t festina_identity_fingerprint(const festina_identity *identity, char *buffer, size_t capacity);
/* Writes the chain and the private key as PEM, as festina_identity_from_pem reads them, or the key alone, as festina_identity_raw_key_from_pem
 * reads it. Store it where only its owner can read it. */
size_t festina_identity_pem(const festina_identity *identity, char *buffer, size_t capacity);
festina_status festina_identity_free(festina_identity *identity);

/* Trusts certificates that a certificate authority of the operating system has signed; a server's must also have the name that the client asks
 * for. On Unix systems other than macOS, SSL_CERT_FILE and SSL_CERT_DIR can name other files. They are read once per process. */
festina_status festina_trust_platform_roots(festina_trust **trust);
/* The same with certificate authorities given as PEM. */
festina_status festina_trust_roots_from_pem(const char *roots_pem, festina_trust **trust);
/* Trusts certificates with these fingerprints, separated by white space. Each may begin with "sha256:" and contain colons. Names, dates and
 * issuers are not checked. */
festina_status festina_trust_fingerprints(const char *fingerprints, festina_trust **trust);
/* The same for raw public keys. A peer with a certificate is refused, and so is a raw public key by the other kinds of trust. */
festina_status festina_trust_raw_keys(const char *fingerprints, festina_trust **trust);
festina_status festina_trust_free(festina_trust *trust);

/* Remembers at most this many servers, and eight sessions with each. */
festina_status festina_sessions_new(size_t servers_max, festina_sessions **sessions);
/* Forgets all sessions. Associations that have begun add no more. */
festina_status festina_sessions_clear(const festina_sessions *sessions);
/* Forgets the sessions with one server, named as for festina_endpoint_connect: "server.example:9899" or "192.0.2.1:9899"; or by the server name, if
 * the connect options set one. Returns 1 if there were any, otherwise 0. Associations that have begun add no more, with any server. */
int32_t festina_sessions_forget(const festina_sessions *sessions, const char *server);
festina_status festina_sessions_free(festina_sessions *sessions);

/* ---- Settings ---- */

typedef struct festina_config festina_config;

/* The name of a loss-recovery profile or congestion controller by index, starting at 0; NULL past the last one. */
const char *festina_profile_name(size_t index);
const char *festina_congestion_name(size_t index);

/* Creates default settings with this profile; NULL selects the default profile, "festina". */
festina_status festina_config_new(const char *profile_name, festina_config **config);
/* The same for plain SCTP, which unmodified peers understand: nothing is encrypted, and peers are not authenticated. */
festina_status festina_config_plain(const char *profile_name, festina_config **config);
festina_status festina_config_free(festina_config *config);

/* Each function changes one setting. For a value out of range it returns FESTINA_INVALID and changes nothing; the error text names the range. */

/* Congestion controller. The default is "cubic". */
festina_status festina_config_set_congestion(festina_config *config, const char *name);
/* Addresses of the endpoint other than that which it is opened at, such as "198.51.100.1 2001:db8::1", separated by white space: each gets a socket with
 * the same port, and peers learn them. None by default. Addresses that the host lacks are reported when the endpoint is opened. */
festina_status festina_config_set_other_addresses(festina_config *config, const char *addresses);
/* Maximum number of paths of an association, one for each address of its peer: from 1 to 8, default 1; with other addresses 8. */
festina_status festina_config_set_paths_max(festina_config *config, size_t paths);
/* What several paths carry while all of them answer: "primary", "repairs" (the default), "copies" or "both". */
festina_status festina_config_set_path_policy(festina_config *config, const char *name);
/* Silence after which a peer counts as unreachable, in ms: from 1000 to 86400000, default 60000; 0 applies the rules of RFC 9260. */
festina_status festina_config_set_peer_timeout(festina_config *config, uint32_t timeout_ms);
/* Heartbeat interval of an idle association, in ms: from 1 to 86400000, default 30000; 0 sends none. */
festina_status festina_config_set_heartbeat_interval(festina_config *config, uint32_t interval_ms);
/* Maximum delay of acknowledgements, in ms: from 0 to 500, default 200; 0 acknowledges every packet at once. */
festina_status festina_config_set_sack_delay(festina_config *config, uint32_t delay_ms);
/* Maximum message size in bytes: from 1 to 1073741824, and at most the receive buffer (set that first); default 1048576. */
festina_status festina_config_set_message_bytes_max(festina_config *config, size_t bytes);
/* Maximum SCTP packet size in bytes: from 384 to 65480, default 1232; that of an encrypted endpoint at an IPv4 address is 1252. Larger packets
 * are sent only where probes find that the path carries them, while more is queued than fits into a packet. 8972 suits an MTU of 9000. */
festina_status festina_config_set_packet_bytes_max(festina_config *config, size_t bytes);
/* Send buffer in bytes: from 1500 to 1073741824, default 4194304. */
festina_status festina_config_set_send_buffer_bytes(festina_config *config, size_t bytes);
/* Receive buffer in bytes: from 1500 to 1073741824, default 1048576. */
festina_status festina_config_set_receive_buffer_bytes(festina_config *config, size_t bytes);
/* Target for the wait of a message in the send buffer, in ms: from 1 to 86400000, default 0. Beyond it the buffer counts as full. 0 sets
 * no limit. */
festina_status festina_config_set_send_delay(festina_config *config, uint32_t delay_ms);
/* Numbers of streams requested and accepted: from 1 to 65535, default 65535. */
festina_status festina_config_set_streams(festina_config *config, uint16_t outbound, uint16_t inbound);
/* Whether a small message may overtake a large one on another stream (RFC 8260): 1 or 0, default 0. */
festina_status festina_config_set_interleaving(festina_config *config, int32_t offered);
/* 1, the default, lets a peer move: to another UDP port or, with encryption, to another address. With 0, packets from elsewhere are
 * dropped: a client whose NAT changes its port or address has to connect again. */
festina_status festina_config_set_peer_moves(festina_config *config, int32_t allowed);
/* Maximum number of concurrent associations of the endpoint: from 1 to 16777216, default 65536. */
festina_status festina_config_set_associations_max(festina_config *config, size_t associations);
/* The same for peers of one IPv4 address or IPv6 /64: from 1 to 16777216, default 4096. */
festina_status festina_config_set_associations_per_address_max(festina_config *config, size_t associations);
/* Maximum number of associations of one port that wait to be accepted: from 1 to 1048576, default 1024. */
festina_status festina_config_set_accept_queue_max(festina_config *config, size_t associations);
/* Maximum number per second of packets that belong to no association, mainly requests for one, that are processed: from 1 to 100000000,
 * default 20000. Further ones are dropped, and the peers repeat them. */
festina_status festina_config_set_strays_per_second_max(festina_config *config, uint32_t packets);

/* Settings of encryption. Those of plain SCTP have none: FESTINA_INVALID. Identities, trusts and sessions may be freed afterwards. Contradictions are
 * reported by festina_endpoint_server. */

/* Certificate that is shown to clients, and to servers that ask for one. A server needs it. */
festina_status festina_config_set_identity(festina_config *config, const festina_identity *identity);
/* Servers that this side connects to. The default is festina_trust_platform_roots. */
festina_status festina_config_set_server_trust(festina_config *config, const festina_trust *trust);
/* Clients must have a trusted certificate. By default clients are anonymous. */
festina_status festina_config_set_client_trust(festina_config *config, const festina_trust *trust);
/* Application protocols (ALPN) of 1 to 255 bytes, separated by white space, the preferred one first. If one side has some, both must have one in
 * common. */
festina_status festina_config_set_alpn(festina_config *config, const char *protocols);
/* 1 has listeners take early messages, 0 by default: see festina_connect_options. Not together with festina_config_set_client_trust. */
festina_status festina_config_set_early_messages(festina_config *config, int32_t enabled);
/* 1 has listeners accept plain SCTP as well, on the same UDP port, 0 by default: festina_is_encrypted tells which one an association is.
 * Nothing authenticates plain clients, and others can read and change their messages. A listener that holds requests refuses them. Not
 * together with festina_config_set_client_trust or festina_config_set_alpn. Connecting is always encrypted. */
festina_status festina_config_set_plain_clients(festina_config *config, int32_t enabled);
/* Sessions that are resumed, by all endpoints with the same festina_sessions, festina_trust and festina_identity. By default each endpoint has
 * its own, with 32 servers. */
festina_status festina_config_set_sessions(festina_config *config, const festina_sessions *sessions);
/* 1 appends the secrets of all associations to the file that the environment variable SSLKEYLOGFILE names, with which recordings can be decrypted;
 * 0 by default. */
festina_status festina_config_set_key_log_from_env(festina_config *config, int32_t enabled);

/* ---- Endpoints ---- */

typedef struct festina_endpoint festina_endpoint;
typedef struct festina_listener festina_listener;
typedef struct festina_association festina_association;

/* Opens a UDP socket at an address such as "0.0.0.0:9899", "[::1]:0" or "[fe80::1%eth0]:0"; port 0 lets the system choose. A client connects, and
 * ignores the settings of listeners; a server also listens. config may be NULL and may be freed afterwards. */
festina_status festina_endpoint_client(const char *address, const festina_config *config, festina_endpoint **endpoint);
festina_status festina_endpoint_server(const char *address, const festina_config *config, festina_endpoint **endpoint);
/* Shuts down the endpoint and all its associations, and waits until they have ended. The shutdown continues after FESTINA_TIMEOUT. */
festina_status festina_endpoint_close(const festina_endpoint *endpoint, int timeout_ms);
/* Frees the handle. Without an earlier festina_endpoint_close, the shutdown continues in the background as long as the program runs. */
festina_status festina_endpoint_free(festina_endpoint *endpoint);
/* Writes the socket's address. Returns its length as snprintf does: it is truncated if the length is not less than the capacity.
 * On failure the text is empty and the length 0. */
size_t festina_endpoint_local_address(const festina_endpoint *endpoint, char *buffer, size_t capacity);
/* Replaces the socket by one at another address or port while associations live, such as after a change of networks; on failure the old socket stays.
 * Peers of encrypted associations follow, and others if only the port has changed. */
festina_status festina_endpoint_rebind(const festina_endpoint *endpoint, const char *address);
/* Opens a further socket while associations live, such as when a network appears; port 0 stands for that of the others. The endpoint needs other
 * addresses or several paths in its settings. Peers of encrypted associations learn the address. */
festina_status festina_endpoint_add_address(const festina_endpoint *endpoint, const char *address);
/* Closes one of several sockets while associations live, such as before a network ends. The port does not count. Peers of encrypted associations learn it. */
festina_status festina_endpoint_remove_address(const festina_endpoint *endpoint, const char *address);

/* Listens on an SCTP port; 0 selects the usual one, 5000. */
festina_status festina_endpoint_listen(const festina_endpoint *endpoint, uint16_t port, festina_listener **listener);
/* Waits for the next association. FESTINA_CLOSED once the endpoint was closed. */
festina_status festina_listener_accept(const festina_listener *listener, int timeout_ms, festina_association **association);
/* Stops listening. */
festina_status festina_listener_free(festina_listener *listener);

/* Sets up an association with a host such as "localhost:9899", "192.0.2.1:9899" or "[2001:db8::1]:9899". A link-local address needs its zone,
 * by name or by number: "[fe80::1%eth0]:9899" or "[fe80::1%2]:9899". Tries the addresses of a name one after the other. The time limit includes the look-up; FESTINA_FOREVER means 15 s. */
festina_status festina_endpoint_connect(const festina_endpoint *endpoint, const char *address, uint16_t peer_port, int timeout_ms,
                                        festina_association **association);

/* One of several messages. options may be NULL, as in festina_send. */
typedef struct festina_outgoing {
    const void *data;
    size_t length;
    const struct festina_send_options *options;
} festina_outgoing;

/* How an association is set up. Only encrypted ones have a server name, a token and early messages. */
typedef struct festina_connect_options {
    size_t size;
    const char *server_name;       /* the server's certificate must have this name; NULL for the host. Not checked with fingerprints */
    const void *token;             /* for the acceptor, which sees it before it accepts; anyone on the path can read and copy it */
    size_t token_length;           /* at most 1024 */
    const festina_outgoing *early_messages; /* see below */
    size_t early_messages_count;
    uint16_t peer_port;            /* as in festina_endpoint_connect */
    uint16_t reserved[3];          /* zero */
} festina_connect_options;

#define FESTINA_CONNECT_OPTIONS_INIT {sizeof(festina_connect_options), NULL, NULL, 0, NULL, 0, 0, {0, 0, 0}}

/*
 * As festina_endpoint_connect, with options, which may be NULL. Early messages are sent with the first packet if an earlier session with the server
 * can be resumed and its listener takes them, and otherwise as soon as the handshake allows. They must be safe to repeat: anyone on the path can
 * copy the packet. The server receives them with festina_recv_early in the first case, and with festina_recv in the second. Early messages are
 * delivered without order; only stream and ppid are sure to apply. FESTINA_CONFIRM and FESTINA_REPLACING are FESTINA_INVALID.
 */
festina_status festina_endpoint_connect_with(const festina_endpoint *endpoint, const char *address,
                                             const festina_connect_options *options, int timeout_ms,
                                             festina_association **association);

typedef struct festina_connecting festina_connecting;

/* Starts to set up an association without waiting. Any number of handshakes can run at the same time. */
festina_status festina_endpoint_start_connect(const festina_endpoint *endpoint, const char *address, uint16_t peer_port, int handshake_timeout_ms,
                                              festina_connecting **connecting);
festina_status festina_endpoint_start_connect_with(const festina_endpoint *endpoint, const char *address,
                                                   const festina_connect_options *options, int handshake_timeout_ms,
                                                   festina_connecting **connecting);
/* Returns the association, once. FESTINA_TIMEOUT while the handshake continues; otherwise as festina_endpoint_connect. */
festina_status festina_connecting_finish(const festina_connecting *connecting, int timeout_ms, festina_association **association);
/* Cancels the handshake, unless festina_connecting_finish has returned its association. */
festina_status festina_connecting_free(festina_connecting *connecting);

/* ---- Deciding on clients ---- */

/* A client's request for an encrypted association that waits for a decision. Nothing in it is authentic yet. */
typedef struct festina_request festina_request;

/* As festina_endpoint_listen, but each client waits for a decision, for at most 30 s. An encrypted endpoint only: plain associations need none. */
festina_status festina_endpoint_listen_holding_requests(const festina_endpoint *endpoint, uint16_t port, festina_listener **listener);
/* Waits for the next request. FESTINA_CLOSED once the endpoint was closed. */
festina_status festina_listener_request(const festina_listener *listener, int timeout_ms, festina_request **request);
/* Writes the client's token. Returns its length; it is truncated if that is more than the capacity. */
size_t festina_request_token(const festina_request *request, void *buffer, size_t capacity);
/* Write the client's address, and the server name and application protocol (ALPN) of the request; nothing if it has none. */
size_t festina_request_remote_address(const festina_request *request, char *buffer, size_t capacity);
size_t festina_request_server_name(const festina_request *request, char *buffer, size_t capacity);
size_t festina_request_alpn(const festina_request *request, char *buffer, size_t capacity);
/* Whether the client has shown that it receives at its address: 1 or 0. */
int festina_request_is_address_proved(const festina_request *request);
/* Continues the handshake; festina_listener_accept returns the association once the client is authenticated. */
festina_status festina_request_accept(const festina_request *request);
/* Refuses the client. */
festina_status festina_request_refuse(const festina_request *request);
/* Frees the handle. The client of an undecided request is not answered, and asks again until its time limit. */
festina_status festina_request_free(festina_request *request);

/* ---- Peers of encrypted associations ---- */

/* 1 or 0. A resumed session is that of an earlier association with the same peer. */
int festina_is_encrypted(const festina_association *association);
int festina_is_resumed(const festina_association *association);
/* Write the peer's fingerprint as 64 hexadecimal digits, and its certificate chain or raw public key as PEM; nothing for a client without. */
size_t festina_get_peer_fingerprint(const festina_association *association, char *buffer, size_t capacity);
size_t festina_get_peer_pem(const festina_association *association, char *buffer, size_t capacity);
/* Writes the application protocol that both sides have agreed on (ALPN); nothing if there is none. */
size_t festina_get_alpn(const festina_association *association, char *buffer, size_t capacity);
/* Writes the token of the client, on the server, as festina_request_token does. */
size_t festina_get_client_token(const festina_association *association, void *buffer, size_t capacity);

/* ---- Sending ---- */

enum festina_flag {
    FESTINA_UNORDERED = 1,     /* delivered regardless of the order of its stream */
    FESTINA_IMMEDIATE_ACK = 2, /* the peer is asked to acknowledge at once */
    FESTINA_CONFIRM = 4,       /* FESTINA_EVENT_DELIVERED reports its arrival */
    FESTINA_REPLACING = 8,     /* replaces an older message on its stream with the same key */
    /* Sent twice, at once or half the mean time between messages of its key later; not both */
    FESTINA_DUPLICATE_AT_ONCE = 16,
    FESTINA_DUPLICATE_HALF_INTERVAL = 32
};

/* How a message is delivered. -1 means none; other negative numbers are FESTINA_INVALID. */
typedef struct festina_send_options {
    size_t size;
    uint32_t flags;
    uint32_t ppid;               /* payload protocol identifier, for the peer's program */
    int64_t lifetime_us;         /* abandoned after this time */
    int64_t deadline_us;         /* abandoned at this time, on the clock of festina_now_us */
    uint64_t key;                /* with FESTINA_REPLACING */
    int32_t max_retransmissions; /* abandoned when it would need one more; 0 sends it once */
    int32_t priority;            /* abandoned for one with a lower number if the send buffer is full */
    uint16_t stream;
    uint16_t reserved[3];        /* zero */
} festina_send_options;

#define FESTINA_SEND_OPTIONS_INIT {sizeof(festina_send_options), 0, 0, -1, -1, 0, -1, -1, 0, {0, 0, 0}}

/*
 * Sends a message of at least one byte. Waits only while the send buffer is full. On return the message was copied, and in most cases it was
 * also sent. options may be NULL: reliable and ordered, on stream 0. If id is not NULL, it receives the number that events use.
 */
festina_status festina_send(const festina_association *association, const void *data, size_t length, const festina_send_options *options,
                            int timeout_ms, uint64_t *id);

/*
 * Sends messages in this order; they share packets and system calls where possible. Waits only while the send buffer is full.
 * If sent is not NULL, it receives the number of accepted messages: all of them with FESTINA_OK, otherwise those before the first that failed
 * or found no room. If any message is invalid, none is sent, unless the peer restarts with lower limits during the call.
 */
festina_status festina_send_many(const festina_association *association, const festina_outgoing *messages, size_t count, int timeout_ms,
                                 size_t *sent);

/* Waits until the peer has acknowledged everything sent so far, except abandoned messages. */
festina_status festina_drained(const festina_association *association, int timeout_ms);

/* ---- Receiving ---- */

typedef struct festina_message {
    size_t size;
    const void *data;
    size_t length;
    void *owner;    /* the library's */
    uint32_t ppid;
    uint16_t stream;
    uint16_t flags; /* FESTINA_UNORDERED or 0 */
} festina_message;

#define FESTINA_MESSAGE_INIT {sizeof(festina_message), NULL, 0, NULL, 0, 0, 0}

/* Receives the next message and overwrites the struct without freeing it. FESTINA_CLOSED after the last message of an ended association. */
festina_status festina_recv(const festina_association *association, festina_message *message, int timeout_ms);
/* Receives the next early message of the client; FESTINA_TIMEOUT if there is none. Such a message may be a copy sent again by an attacker:
 * act on it only if acting twice does no harm. All of them are here when the association is accepted. */
festina_status festina_recv_early(const festina_association *association, festina_message *message);
/* Frees the bytes of a message and empties the struct. An empty struct stays empty. */
festina_status festina_message_free(festina_message *message);

/*
 * Descriptors for poll, epoll, libuv and the like: readable when the function in the comment would not wait. Do not read from them or close
 * them; they are closed with their handle. A descriptor may be readable too early, so call the function with FESTINA_NOW. It stays readable
 * until that call has returned FESTINA_TIMEOUT. -1 on failure: see festina_last_error.
 */
int festina_listener_fd(const festina_listener *listener);      /* festina_listener_accept */
int festina_message_fd(const festina_association *association); /* festina_recv */
int festina_event_fd(const festina_association *association);   /* festina_next_event */
int festina_connecting_fd(const festina_connecting *connecting); /* festina_connecting_finish */
int festina_endpoint_fd(const festina_endpoint *endpoint);      /* festina_endpoint_ready */
int festina_listener_request_fd(const festina_listener *listener); /* festina_listener_request */

/* ---- Readiness of all objects of an endpoint ---- */

enum festina_ready_kind {
    FESTINA_READY_OTHER = 0,   /* a kind that this header does not know */
    FESTINA_READY_ACCEPT = 1,  /* festina_listener_accept */
    FESTINA_READY_CONNECT = 2, /* festina_connecting_finish */
    FESTINA_READY_MESSAGE = 3, /* festina_recv */
    FESTINA_READY_EVENT = 4,   /* festina_next_event */
    FESTINA_READY_REQUEST = 5  /* festina_listener_request */
};

typedef struct festina_ready {
    uint64_t token;
    uint32_t kind; /* enum festina_ready_kind */
    uint32_t reserved;
} festina_ready;

/*
 * Waits until at least one object of the endpoint is ready, and writes up to capacity ready objects, each with its token and kind. New objects
 * start as ready. An object is reported again until the function of its kind stops returning FESTINA_OK, so call that with FESTINA_NOW until it
 * returns FESTINA_TIMEOUT. Freed objects are not reported.
 */
festina_status festina_endpoint_ready(const festina_endpoint *endpoint, festina_ready *ready, size_t capacity, int timeout_ms, size_t *count);

/* A token is any number, often a pointer to the program's own data; initially 0. An association inherits the token of its festina_connecting. */
festina_status festina_listener_set_token(const festina_listener *listener, uint64_t token);
festina_status festina_connecting_set_token(const festina_connecting *connecting, uint64_t token);
festina_status festina_association_set_token(const festina_association *association, uint64_t token);

/* ---- Events ---- */

enum festina_event_kind {
    FESTINA_EVENT_OTHER = 0,          /* a kind that this header does not know */
    FESTINA_EVENT_DELIVERED = 1,      /* the peer has received the message; only with FESTINA_CONFIRM */
    FESTINA_EVENT_ABANDONED = 2,      /* the messages from first to last were abandoned */
    FESTINA_EVENT_PEER_SHUTDOWN = 3,  /* the peer has started a graceful shutdown */
    FESTINA_EVENT_PEER_RESTARTED = 4, /* the peer lost its state and restarted the association */
    FESTINA_EVENT_PATH_DOWN = 5,      /* the peer stopped answering */
    FESTINA_EVENT_PATH_UP = 6,        /* the peer answers again */
    FESTINA_EVENT_CLOSED = 7,         /* the association has ended */
    FESTINA_EVENT_PACKET_SIZE_LIMITED = 8, /* the path carries no larger packets: packet_bytes_max is the new maximum */
    FESTINA_EVENT_PEER_MOVED = 9      /* the peer of an encrypted association has another address: festina_get_remote_address */
};

enum festina_abandon_reason {
    FESTINA_ABANDON_OTHER = 0,
    FESTINA_ABANDON_EXPIRED = 1,                   /* lifetime or deadline */
    FESTINA_ABANDON_RETRANSMISSIONS_EXHAUSTED = 2, /* max_retransmissions */
    FESTINA_ABANDON_EVICTED = 3,                   /* priority */
    FESTINA_ABANDON_REPLACED = 4,                  /* FESTINA_REPLACING */
    FESTINA_ABANDON_ENDED = 5,                     /* the association ended first */
    FESTINA_ABANDON_STREAM_REFUSED = 6             /* the peer has no such stream */
};

typedef struct festina_event {
    size_t size;
    uint32_t kind;   /* enum festina_event_kind */
    uint32_t reason; /* enum festina_abandon_reason */
    uint64_t first;  /* message ids */
    uint64_t last;
    uint64_t sent;   /* 1 if part of an abandoned message was sent: the peer may have received it */
    uint64_t at_us;  /* when the message was delivered; for other kinds, when this event was read; clock of festina_now_us */
    uint64_t packet_bytes_max; /* with FESTINA_EVENT_PACKET_SIZE_LIMITED */
} festina_event;

#define FESTINA_EVENT_INIT {sizeof(festina_event), 0, 0, 0, 0, 0, 0, 0}

/* Receives the next event. Reading events is optional: the latest 4,096 are kept. FESTINA_CLOSED after FESTINA_EVENT_CLOSED. */
festina_status festina_next_event(const festina_association *association, festina_event *event, int timeout_ms);

typedef struct festina_sent_stats {
    uint64_t packets;
    uint64_t bytes;
    uint64_t messages;
    uint64_t messages_acked;
    uint64_t messages_abandoned; /* in total; festina_stats.abandoned splits them by reason */
    uint64_t retransmissions; /* DATA chunks sent again, including proactive copies */
    uint64_t spurious;        /* retransmissions of chunks that the peer had already received, as far as it reports */
    uint64_t chunks_lost;
    uint64_t timeouts;
} festina_sent_stats;

typedef struct festina_received_stats {
    uint64_t packets;
    uint64_t bytes;
    uint64_t packets_dropped; /* damaged or unexpected */
    uint64_t messages;
    uint64_t duplicates;      /* DATA chunks received more than once */
    uint64_t chunks_dropped;  /* DATA chunks for which the receive buffer had no room */
} festina_received_stats;

typedef struct festina_path_stats {
    uint64_t srtt_ns; /* smoothed round-trip time; 0 before it was measured */
    uint64_t rttvar_ns;
    uint64_t rto_ns;
    uint64_t cwnd_bytes;
    uint64_t in_flight_bytes;
    uint64_t in_flight_packets;
    uint64_t peer_window_bytes;
    uint64_t send_buffer_bytes;
    uint64_t messages_pending;
    uint64_t thin; /* 1 if the stream is thin now */
    uint64_t in_fast_recovery;
    uint64_t ssthresh_bytes;
    uint64_t packet_bytes_max; /* maximum size of the packets sent */
} festina_path_stats;

/* Messages abandoned for one reason. */
typedef struct festina_abandoned {
    uint64_t unsent; /* nothing of them was sent */
    uint64_t sent;   /* some of them was sent: the peer may have received them */
} festina_abandoned;

/* Abandoned messages, by enum festina_abandon_reason. */
typedef struct festina_abandoned_stats {
    festina_abandoned expired;
    festina_abandoned retransmissions_exhausted;
    festina_abandoned evicted;
    festina_abandoned replaced;
    festina_abandoned stream_refused;
} festina_abandoned_stats;

typedef struct festina_stats {
    size_t size;
    festina_sent_stats sent;
    festina_received_stats received;
    festina_path_stats path;
    festina_abandoned_stats abandoned;
    uint64_t messages_abandoned_sent; /* those of sent.messages_abandoned that were sent in part: the peer may have received them; without loss
                                         they have arrived. The others were never sent */
    uint64_t peer_window_closed_ns;   /* time since the peer's window closed, 0 while it is open: the peer's transport answers, and its program
                                         reads nothing */
} festina_stats;

#define FESTINA_STATS_INIT                                                                                                      \
    {sizeof(festina_stats), {0, 0, 0, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},            \
     {{0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}}, 0, 0}

festina_status festina_get_stats(const festina_association *association, festina_stats *stats);

typedef enum festina_path_state {
    FESTINA_PATH_UNCONFIRMED = 0, /* no heartbeat there was answered yet: nothing else is sent there */
    FESTINA_PATH_ACTIVE = 1,
    FESTINA_PATH_POTENTIALLY_FAILED = 2, /* a timeout: other paths carry data (RFC 7829) */
    FESTINA_PATH_INACTIVE = 3,
    FESTINA_PATH_CLOSED = 4 /* the peer has left the address */
} festina_path_state;

/* The path to one of the peer's addresses. */
typedef struct festina_path {
    size_t size;
    uint32_t state;           /* enum festina_path_state */
    uint32_t carries_data;    /* 1 if new data leaves by it */
    uint64_t errors;          /* consecutive timeouts and heartbeats without an answer */
    uint64_t srtt_ns;         /* smoothed round-trip time; 0 before it was measured */
    uint64_t rto_ns;
    uint64_t cwnd_bytes;
    uint64_t in_flight_bytes;
    char address[64];         /* the peer's, as festina_endpoint_connect takes it */
} festina_path;

#define FESTINA_PATH_INIT {sizeof(festina_path), 0, 0, 0, 0, 0, 0, 0, ""}

/* Returns the number of paths: addresses of the peer in use, confirmed or not. 0 on failure. */
size_t festina_get_path_count(const festina_association *association);
/* Takes a snapshot of the path with this index, starting at 0 with that of the handshake. FESTINA_INVALID past the last one. */
festina_status festina_get_path(const festina_association *association, size_t index, festina_path *path);

/* Returns the loss-recovery profile in use; NULL if the mechanisms match none. */
const char *festina_get_profile(const festina_association *association);
festina_status festina_set_profile(const festina_association *association, const char *profile_name);

/* Writes the peer's address, as festina_endpoint_local_address does. */
size_t festina_get_remote_address(const festina_association *association, char *buffer, size_t capacity);

/* ---- Closing ---- */

/*
 * Shuts the association down gracefully: accepts no more messages, and waits until the peer has received everything and confirms. The shutdown
 * continues after FESTINA_TIMEOUT. FESTINA_CLOSED if the association ended for another reason.
 */
festina_status festina_shutdown(const festina_association *association, int timeout_ms);
/* Aborts the association and sends the reason to the peer. Unacknowledged messages may be lost. reason may be NULL. */
festina_status festina_abort(const festina_association *association, const char *reason);
/* Frees the handle. If the association has not ended, it shuts down in the background as long as the program runs. */
festina_status festina_association_free(festina_association *association);

typedef enum festina_close_reason {
    FESTINA_CLOSE_NONE = 0, /* it has not ended */
    FESTINA_CLOSE_SHUTDOWN = 1,
    FESTINA_CLOSE_ABORTED = 2, /* by this side */
    FESTINA_CLOSE_ABORTED_BY_PEER = 3,
    FESTINA_CLOSE_PROTOCOL_VIOLATION = 4, /* the peer's */
    FESTINA_CLOSE_HANDSHAKE_TIMEOUT = 5,
    FESTINA_CLOSE_PEER_UNREACHABLE = 6,
    FESTINA_CLOSE_SHUTDOWN_TIMEOUT = 7,
    FESTINA_CLOSE_OTHER = 8,
    FESTINA_CLOSE_PEER_RESET = 9 /* the peer has lost its state: it was restarted */
} festina_close_reason;

festina_close_reason festina_get_close_reason(const festina_association *association);
/* Writes why the association has ended as a sentence, with the reason that the peer gave; nothing while it is open. */
size_t festina_get_close_sentence(const festina_association *association, char *buffer, size_t capacity);
/* Writes only the reason that the peer gave when it aborted the association, as festina_endpoint_local_address does. */
size_t festina_get_close_text(const festina_association *association, char *buffer, size_t capacity);

#ifdef __cplusplus
}
#endif

#endif
