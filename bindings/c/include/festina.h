/*
 * Festina: small messages between two programs. A lost message is repaired in about one round trip. It is SCTP (RFC 9260) over UDP.
 *
 * An endpoint is one UDP socket with one thread that receives packets and runs timers. It carries any number of associations: connections
 * that carry messages both ways. Messages are sent from the caller's thread. The library has no callbacks.
 *
 * Waiting. A function with a timeout_ms waits at most that long: FESTINA_FOREVER sets no limit, and FESTINA_NOW does not wait.
 * Other negative numbers are FESTINA_INVALID. After FESTINA_TIMEOUT nothing was lost or changed, and the call can be repeated.
 *
 * Errors. Functions return a festina_status; festina_last_error returns a readable text.
 *
 * Ownership. The caller frees each handle with the function of its name, in any order: an endpoint lives in the background until
 * all its objects are freed too. Freeing NULL does nothing. Strings passed in are copied.
 *
 * Threads. Several threads may use a handle at the same time, except for festina_config. No thread may use it during or after its release.
 *
 * fork(). A handle works only in the process that created it. In a child every function returns FESTINA_INVALID for it, and freeing it does
 * not affect the parent; its memory and descriptors are released when the child exits or executes another program. Until then the child
 * keeps the parent's sockets open. A child can open endpoints of its own.
 *
 * Structs begin with their size as the program was compiled, so that newer libraries can append fields. Initialise them with *_INIT.
 *
 * Nothing is encrypted, and no peer is authenticated: use WireGuard or IPsec on untrusted networks.
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
    FESTINA_REFUSED = 4,     /* the peer refused; usually nothing listens on that SCTP port */
    FESTINA_UNREACHABLE = 5, /* the name was not found, or the peer did not answer the handshake */
    FESTINA_SYSTEM = 6,      /* the system refused: the address is in use, no descriptor is left, ... */
    FESTINA_LIMIT = 7,       /* a limit of the settings or of the protocol was reached: an SCTP port is taken, ... */
    FESTINA_BUG = 8,         /* a bug in Festina: please report it with the text */
    FESTINA_FULL = 9         /* the peer has no room for another association, or its listener rejected this one */
} festina_status;

/* Describes this thread's last error; never NULL. The text is valid until the next call from this thread that fails. */
const char *festina_last_error(void);

#define FESTINA_FOREVER (-1)
#define FESTINA_NOW 0

/* Microseconds on the monotonic clock of deadlines and events. Its zero is arbitrary. */
uint64_t festina_now_us(void);

/* ---- Settings ---- */

typedef struct festina_config festina_config;

/* The name of a loss-recovery profile or congestion controller by index, starting at 0; NULL past the last one. */
const char *festina_profile_name(size_t index);
const char *festina_congestion_name(size_t index);

/* Creates default settings with this profile; NULL selects the default profile, "festina". */
festina_status festina_config_new(const char *profile_name, festina_config **config);
festina_status festina_config_free(festina_config *config);

/* Each function changes one setting. For a value out of range it returns FESTINA_INVALID and changes nothing; the error text names the range. */

/* Congestion controller. The default is "cubic" with the profile "festina" and "rfc9260" with the others. */
festina_status festina_config_set_congestion(festina_config *config, const char *name);
/* Silence after which a peer counts as unreachable, in ms: from 1000 to 86400000, or 0 for the rules of RFC 9260. The default is 60000
 * with the profile "festina" and 0 with the others. */
festina_status festina_config_set_peer_timeout(festina_config *config, uint32_t timeout_ms);
/* Heartbeat interval of an idle association, in ms: from 1 to 86400000, default 30000; 0 sends none. */
festina_status festina_config_set_heartbeat(festina_config *config, uint32_t interval_ms);
/* Maximum delay of acknowledgements, in ms: from 0 to 500, default 200; 0 acknowledges every packet at once. */
festina_status festina_config_set_sack_delay(festina_config *config, uint32_t delay_ms);
/* Maximum message size in bytes: from 1 to 1073741824, and at most the receive buffer (set that first); default 1048576. */
festina_status festina_config_set_message_bytes_max(festina_config *config, size_t bytes);
/* Maximum SCTP packet size in bytes: from 384 to 65480, default 1232. */
festina_status festina_config_set_packet_bytes_max(festina_config *config, size_t bytes);
/* Send buffer in bytes: from 1500 to 1073741824, default 4194304. */
festina_status festina_config_set_send_buffer(festina_config *config, size_t bytes);
/* Receive buffer in bytes: from 1500 to 1073741824, default 1048576. */
festina_status festina_config_set_receive_buffer(festina_config *config, size_t bytes);
/* Target for the wait of a message in the send buffer, in ms: from 1 to 86400000, default 0. Beyond it the buffer counts as full. 0 sets
 * no limit. */
festina_status festina_config_set_send_delay(festina_config *config, uint32_t delay_ms);
/* Numbers of streams requested and accepted: from 1 to 65535, default 65535. */
festina_status festina_config_set_streams(festina_config *config, uint16_t outbound, uint16_t inbound);
/* Whether a small message may overtake a large one on another stream (RFC 8260): 1 or 0, default 0. */
festina_status festina_config_set_interleaving(festina_config *config, int32_t offered);
/* Maximum number of concurrent associations of the endpoint: from 1 to 16777216, default 65536. */
festina_status festina_config_set_associations_max(festina_config *config, size_t associations);

/* ---- Endpoints ---- */

typedef struct festina_endpoint festina_endpoint;
typedef struct festina_listener festina_listener;
typedef struct festina_association festina_association;

/* Opens a UDP socket at an address such as "0.0.0.0:9899" or "[::1]:0"; port 0 lets the system choose. config may be NULL and may be freed
 * afterwards. */
festina_status festina_endpoint_bind(const char *address, const festina_config *config, festina_endpoint **endpoint);
/* Shuts down the endpoint and all its associations, and waits until they have ended. The shutdown continues after FESTINA_TIMEOUT. */
festina_status festina_endpoint_close(const festina_endpoint *endpoint, int timeout_ms);
/* Frees the handle. Without an earlier festina_endpoint_close, the shutdown continues in the background as long as the program runs. */
festina_status festina_endpoint_free(festina_endpoint *endpoint);
/* Writes the socket's address. Returns its length as snprintf does: it is truncated if the length is not less than the capacity. */
size_t festina_endpoint_address(const festina_endpoint *endpoint, char *buffer, size_t capacity);

/* Listens on an SCTP port; 0 selects the usual one, 5000. */
festina_status festina_endpoint_listen(const festina_endpoint *endpoint, uint16_t sctp_port, festina_listener **listener);
/* Waits for the next association. FESTINA_CLOSED once the endpoint was closed. */
festina_status festina_listener_accept(const festina_listener *listener, int timeout_ms, festina_association **association);
/* Stops listening. */
festina_status festina_listener_free(festina_listener *listener);

/* Sets up an association with a host such as "localhost:9899", "192.0.2.1:9899" or "[2001:db8::1]:9899". Tries the addresses of a name
 * one after the other. The time limit includes the look-up; FESTINA_FOREVER means 15 s. */
festina_status festina_endpoint_connect(const festina_endpoint *endpoint, const char *address, uint16_t sctp_port, int timeout_ms,
                                        festina_association **association);

typedef struct festina_connecting festina_connecting;

/* Starts to set up an association without waiting. Any number of handshakes can run at the same time. */
festina_status festina_endpoint_start_connect(const festina_endpoint *endpoint, const char *address, uint16_t sctp_port, int timeout_ms,
                                              festina_connecting **connecting);
/* Returns the association, once. FESTINA_TIMEOUT while the handshake continues; otherwise as festina_endpoint_connect. */
festina_status festina_connecting_finish(const festina_connecting *connecting, int timeout_ms, festina_association **association);
/* Cancels the handshake, unless festina_connecting_finish has returned its association. */
festina_status festina_connecting_free(festina_connecting *connecting);

/* ---- Sending ---- */

enum festina_flag {
    FESTINA_UNORDERED = 1,     /* delivered regardless of the order of its stream */
    FESTINA_IMMEDIATE_ACK = 2, /* the peer is asked to acknowledge at once */
    FESTINA_CONFIRM = 4,       /* FESTINA_EVENT_DELIVERED reports its arrival */
    FESTINA_REPLACE = 8        /* replaces an older message on its stream with the same key */
};

/* How a message is delivered. -1 means none; other negative numbers are FESTINA_INVALID. */
typedef struct festina_send_options {
    size_t size;
    uint32_t flags;
    uint32_t ppid;               /* payload protocol identifier, for the peer's program */
    int64_t lifetime_us;         /* abandoned after this time */
    int64_t deadline_us;         /* abandoned at this time, on the clock of festina_now_us */
    uint64_t key;                /* with FESTINA_REPLACE */
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

/* One of several messages. options may be NULL, as in festina_send. */
typedef struct festina_outgoing {
    const void *data;
    size_t length;
    const festina_send_options *options;
} festina_outgoing;

/*
 * Sends messages in this order; they share packets and system calls where possible. Waits only while the send buffer is full.
 * If sent is not NULL, it receives the number of accepted messages: all of them with FESTINA_OK, otherwise those before the first that failed
 * or found no room. If any message is invalid, none is sent.
 */
festina_status festina_send_many(const festina_association *association, const festina_outgoing *messages, size_t count, int timeout_ms,
                                 size_t *sent);

/* Waits until the peer has acknowledged everything sent so far. */
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

/* ---- Readiness of all objects of an endpoint ---- */

enum festina_ready_kind {
    FESTINA_READY_OTHER = 0,   /* a kind that this header does not know */
    FESTINA_READY_ACCEPT = 1,  /* festina_listener_accept */
    FESTINA_READY_CONNECT = 2, /* festina_connecting_finish */
    FESTINA_READY_MESSAGE = 3, /* festina_recv */
    FESTINA_READY_EVENT = 4    /* festina_next_event */
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
    FESTINA_EVENT_PACKET_SIZE_LIMITED = 8 /* the system refused a packet as too large: packet_bytes_max is the new maximum */
};

enum festina_abandon_reason {
    FESTINA_ABANDON_OTHER = 0,
    FESTINA_ABANDON_EXPIRED = 1,         /* lifetime or deadline */
    FESTINA_ABANDON_RETRANSMISSIONS = 2, /* max_retransmissions */
    FESTINA_ABANDON_EVICTED = 3,         /* priority */
    FESTINA_ABANDON_REPLACED = 4,        /* FESTINA_REPLACE */
    FESTINA_ABANDON_ENDED = 5,           /* the association ended first */
    FESTINA_ABANDON_STREAM_REFUSED = 6   /* the peer has no such stream */
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
} festina_path_stats;

/* Messages abandoned for one reason. */
typedef struct festina_abandoned {
    uint64_t unsent; /* nothing of them was sent */
    uint64_t sent;   /* some of them was sent: the peer may have received them */
} festina_abandoned;

/* Abandoned messages, by enum festina_abandon_reason. */
typedef struct festina_abandoned_stats {
    festina_abandoned expired;
    festina_abandoned retransmissions;
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
} festina_stats;

#define FESTINA_STATS_INIT                                                                                                      \
    {sizeof(festina_stats), {0, 0, 0, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},               \
     {{0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}}}

festina_status festina_get_stats(const festina_association *association, festina_stats *stats);

/* Returns the loss-recovery profile in use; NULL if the mechanisms match none. */
const char *festina_get_profile(const festina_association *association);
festina_status festina_set_profile(const festina_association *association, const char *profile_name);

/* Writes the peer's address, as festina_endpoint_address does. */
size_t festina_get_peer_address(const festina_association *association, char *buffer, size_t capacity);

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
    FESTINA_CLOSE_OTHER = 8
} festina_close_reason;

festina_close_reason festina_get_close_reason(const festina_association *association);
/* Writes the reason that the peer gave when it aborted the association, as festina_endpoint_address does. */
size_t festina_get_close_text(const festina_association *association, char *buffer, size_t capacity);

#ifdef __cplusplus
}
#endif

#endif
