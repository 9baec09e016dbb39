/*
 * The kernel's SCTP as an echo that does what messages ask for: with a policy of PR-SCTP, as DATA or I-DATA, and with stream resets.
 * The README beside it describes the messages. Without arguments it waits for associations; with an address to bind and one to connect to,
 * it begins one with every port that takes it.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/sctp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    PORT = 5000,
    /* Its sockets have a small send buffer, so that PR-SCTP's priority policy has something to evict. */
    PORT_SMALL_BUFFER = 5001,
    SMALL_BUFFER_BYTES = 8 << 10,
    STREAMS = 16,
    HEADER_BYTES = 8,
    MESSAGE_BYTES_MAX = 128 << 10,
    ATTEMPTS_MAX = 100000,
    ATTEMPT_PAUSE_US = 20000,
    RETRANSMISSIONS_MAX = 200,
    INITS_MAX = 40,
    /* Where the other side waits, and where it does so for a peer with a small buffer. */
    FIRST_PORT = 10000,
    FIRST_PORT_SMALL_BUFFER = 20000,
    PORTS = 160,
};

/* One association and what is known of it. */
struct peer {
    int socket;
    unsigned long received, echoed, resets, changes, refused, errors;
    /* A message that the kernel delivers in parts, by stream and by mode. */
    struct {
        unsigned char *data;
        size_t length;
    } parts[STREAMS][2];
};

static _Noreturn void fail(const char *what)
{
    printf("KERNEL FAIL %s: %s\n", what, strerror(errno));
    fflush(stdout);
    exit(1);
}

static void set(int socket, int option, const void *value, socklen_t length, const char *name)
{
    if (setsockopt(socket, IPPROTO_SCTP, option, value, length) != 0)
        fail(name);
}

static void enable(int socket, int option, uint32_t value, const char *name)
{
    struct sctp_assoc_value wanted = {.assoc_id = SCTP_FUTURE_ASSOC, .assoc_value = value};
    set(socket, option, &wanted, sizeof(wanted), name);
}

/* A socket with everything that is tested switched on. */
static int prepare(bool small_buffer)
{
    int on = 1, everything = 2;
    int listener = socket(AF_INET, SOCK_STREAM, IPPROTO_SCTP);
    if (listener < 0)
        fail("socket");
    set(listener, SCTP_NODELAY, &on, sizeof(on), "SCTP_NODELAY");
    set(listener, SCTP_RECVRCVINFO, &on, sizeof(on), "SCTP_RECVRCVINFO");
    struct sctp_initmsg streams = {.sinit_num_ostreams = STREAMS / 2, .sinit_max_instreams = STREAMS / 2,
                                   .sinit_max_attempts = INITS_MAX};
    set(listener, SCTP_INITMSG, &streams, sizeof(streams), "SCTP_INITMSG");
    /* At 20 % loss the limits of RFC 9260 section 16 would rightly end some associations. */
    struct sctp_assocparams limits = {.sasoc_asocmaxrxt = RETRANSMISSIONS_MAX};
    set(listener, SCTP_ASSOCINFO, &limits, sizeof(limits), "SCTP_ASSOCINFO");
    struct sctp_default_prinfo reliable = {.pr_policy = SCTP_PR_SCTP_NONE};
    enable(listener, SCTP_PR_SUPPORTED, 1, "SCTP_PR_SUPPORTED");
    set(listener, SCTP_DEFAULT_PRINFO, &reliable, sizeof(reliable), "SCTP_DEFAULT_PRINFO");
    enable(listener, SCTP_RECONFIG_SUPPORTED, 1, "SCTP_RECONFIG_SUPPORTED");
    enable(listener, SCTP_ENABLE_STREAM_RESET, SCTP_ENABLE_RESET_STREAM_REQ | SCTP_ENABLE_CHANGE_ASSOC_REQ,
           "SCTP_ENABLE_STREAM_RESET");
    set(listener, SCTP_FRAGMENT_INTERLEAVE, &everything, sizeof(everything), "SCTP_FRAGMENT_INTERLEAVE");
    enable(listener, SCTP_INTERLEAVING_SUPPORTED, 1, "SCTP_INTERLEAVING_SUPPORTED");
    static const uint16_t events[] = {SCTP_ASSOC_CHANGE, SCTP_REMOTE_ERROR, SCTP_PARTIAL_DELIVERY_EVENT,
                                      SCTP_STREAM_RESET_EVENT, SCTP_STREAM_CHANGE_EVENT};
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
        struct sctp_event event = {.se_assoc_id = SCTP_FUTURE_ASSOC, .se_type = events[i], .se_on = 1};
        set(listener, SCTP_EVENT, &event, sizeof(event), "SCTP_EVENT");
    }
    int buffer = SMALL_BUFFER_BYTES;
    if (small_buffer && setsockopt(listener, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer)) != 0)
        fail("SO_SNDBUF");
    return listener;
}

static int listen_on(uint16_t port)
{
    int listener = prepare(port == PORT_SMALL_BUFFER);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    if (bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(listener, 512) != 0)
        fail("bind");
    return listener;
}

static void notice(struct peer *peer, const union sctp_notification *event)
{
    switch (event->sn_header.sn_type) {
    case SCTP_STREAM_RESET_EVENT:
        if ((event->sn_strreset_event.strreset_flags & (SCTP_STREAM_RESET_DENIED | SCTP_STREAM_RESET_FAILED)) != 0)
            peer->refused++;
        else
            peer->resets++;
        break;
    case SCTP_STREAM_CHANGE_EVENT:
        if ((event->sn_strchange_event.strchange_flags & (SCTP_STREAM_CHANGE_DENIED | SCTP_STREAM_CHANGE_FAILED)) != 0)
            peer->refused++;
        else
            peer->changes++;
        break;
    case SCTP_PARTIAL_DELIVERY_EVENT: {
        /* The rest of the message was abandoned. */
        uint32_t stream = event->sn_pdapi_event.pdapi_stream;
        if (stream < STREAMS)
            peer->parts[stream][event->sn_pdapi_event.pdapi_flags != 0].length = 0;
        break;
    }
    case SCTP_ASSOC_CHANGE:
        if (event->sn_assoc_change.sac_state != SCTP_COMM_UP && event->sn_assoc_change.sac_state != SCTP_SHUTDOWN_COMP)
            peer->errors++;
        break;
    default:
        peer->errors++;
    }
}

static bool send_message(struct peer *peer, const unsigned char *data, size_t length, const struct sctp_sndinfo *info,
                         uint16_t policy, uint32_t value)
{
    union {
        char bytes[CMSG_SPACE(sizeof(struct sctp_sndinfo)) + CMSG_SPACE(sizeof(struct sctp_prinfo))];
        struct cmsghdr align;
    } control = {0};
    struct iovec part = {.iov_base = (void *)data, .iov_len = length};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    struct cmsghdr *entry = CMSG_FIRSTHDR(&message);
    *entry = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(*info)), .cmsg_level = IPPROTO_SCTP, .cmsg_type = SCTP_SNDINFO};
    memcpy(CMSG_DATA(entry), info, sizeof(*info));
    entry = CMSG_NXTHDR(&message, entry);
    struct sctp_prinfo reliability = {.pr_policy = policy, .pr_value = value};
    *entry = (struct cmsghdr){
        .cmsg_len = CMSG_LEN(sizeof(reliability)), .cmsg_level = IPPROTO_SCTP, .cmsg_type = SCTP_PRINFO};
    memcpy(CMSG_DATA(entry), &reliability, sizeof(reliability));
    if (sendmsg(peer->socket, &message, MSG_NOSIGNAL) == (ssize_t)length)
        return true;
    printf("KERNEL cannot send %zu bytes on stream %u with policy %u: %s\n", length, info->snd_sid, policy, strerror(errno));
    fflush(stdout);
    return false;
}

/* The kernel resets no stream on which something waits, and takes one request at a time. */
static bool insist(struct peer *peer, int option, const void *request, socklen_t length)
{
    for (int attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
        if (setsockopt(peer->socket, IPPROTO_SCTP, option, request, length) == 0)
            return true;
        if (errno != EAGAIN && errno != EINPROGRESS)
            break;
        usleep(ATTEMPT_PAUSE_US);
    }
    printf("KERNEL refuses socket option %d: %s\n", option, strerror(errno));
    fflush(stdout);
    peer->errors++;
    return false;
}

static bool report(struct peer *peer, const unsigned char *header, const struct sctp_sndinfo *info)
{
    struct sctp_prstatus abandoned = {.sprstat_policy = SCTP_PR_SCTP_ALL};
    socklen_t length = sizeof(abandoned);
    if (getsockopt(peer->socket, IPPROTO_SCTP, SCTP_PR_ASSOC_STATUS, &abandoned, &length) != 0)
        peer->errors++;
    char text[256];
    memcpy(text, header, HEADER_BYTES);
    int written = snprintf(text + HEADER_BYTES, sizeof(text) - HEADER_BYTES,
                           "%lu,%lu,%llu,%llu,%lu,%lu,%lu,%lu",
                           peer->received, peer->echoed, (unsigned long long)abandoned.sprstat_abandoned_unsent,
                           (unsigned long long)abandoned.sprstat_abandoned_sent, peer->resets, peer->changes, peer->refused,
                           peer->errors);
    return send_message(peer, (unsigned char *)text, HEADER_BYTES + (size_t)written, info, SCTP_PR_SCTP_NONE, 0);
}

/* Does what one whole message asks for; whether the association still takes messages. */
static bool answer(struct peer *peer, const unsigned char *data, size_t length, const struct sctp_rcvinfo *received)
{
    static const uint16_t policies[] = {SCTP_PR_SCTP_NONE, SCTP_PR_SCTP_TTL, SCTP_PR_SCTP_RTX, SCTP_PR_SCTP_PRIO};
    if (length < HEADER_BYTES) {
        peer->errors++;
        return true;
    }
    uint16_t value = (uint16_t)(data[2] << 8 | data[3]);
    struct sctp_sndinfo info = {.snd_sid = received->rcv_sid, .snd_ppid = received->rcv_ppid};
    info.snd_flags = received->rcv_flags & SCTP_UNORDERED;
    struct {
        struct sctp_reset_streams head;
        uint16_t stream;
    } reset = {.head = {.srs_number_streams = 1}, .stream = value};
    switch (data[0]) {
    case 'E':
        peer->received++;
        peer->echoed++;
        return send_message(peer, data, length, &info, policies[data[1] & 3], value);
    case 'O':
    case 'I':
        reset.head.srs_flags = data[0] == 'O' ? SCTP_STREAM_RESET_OUTGOING : SCTP_STREAM_RESET_INCOMING;
        insist(peer, SCTP_RESET_STREAMS, &reset, sizeof(reset.head) + sizeof(reset.stream));
        return true;
    case '+': {
        struct sctp_add_streams more = {.sas_instrms = value >> 8, .sas_outstrms = value & 0xff};
        insist(peer, SCTP_ADD_STREAMS, &more, sizeof(more));
        return true;
    }
    case '?':
        return report(peer, data, &info);
    default:
        peer->errors++;
        return true;
    }
}

/* Takes in one part of a message, or an event. */
static bool take(struct peer *peer, const unsigned char *data, size_t length, struct msghdr *message)
{
    if ((message->msg_flags & MSG_NOTIFICATION) != 0) {
        notice(peer, (const union sctp_notification *)data);
        return true;
    }
    struct sctp_rcvinfo info = {0};
    for (struct cmsghdr *entry = CMSG_FIRSTHDR(message); entry != NULL; entry = CMSG_NXTHDR(message, entry))
        if (entry->cmsg_level == IPPROTO_SCTP && entry->cmsg_type == SCTP_RCVINFO)
            memcpy(&info, CMSG_DATA(entry), sizeof(info));
    if (info.rcv_sid >= STREAMS) {
        peer->errors++;
        return true;
    }
    bool unordered = (info.rcv_flags & SCTP_UNORDERED) != 0, whole = (message->msg_flags & MSG_EOR) != 0;
    unsigned char **held = &peer->parts[info.rcv_sid][unordered].data;
    size_t *held_length = &peer->parts[info.rcv_sid][unordered].length;
    if (whole && *held_length == 0)
        return answer(peer, data, length, &info);
    if (*held == NULL && (*held = malloc(MESSAGE_BYTES_MAX)) == NULL)
        fail("malloc");
    if (length > MESSAGE_BYTES_MAX - *held_length)
        fail("a message is too long");
    memcpy(*held + *held_length, data, length);
    *held_length += length;
    if (!whole)
        return true;
    size_t total = *held_length;
    *held_length = 0;
    return answer(peer, *held, total, &info);
}

static void *serve(void *argument)
{
    struct peer *peer = argument;
    unsigned char *data = malloc(MESSAGE_BYTES_MAX);
    if (data == NULL)
        fail("malloc");
    for (;;) {
        union {
            char bytes[CMSG_SPACE(sizeof(struct sctp_rcvinfo)) + 256];
            struct cmsghdr align;
        } control;
        struct iovec part = {.iov_base = data, .iov_len = MESSAGE_BYTES_MAX};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
        ssize_t length = recvmsg(peer->socket, &message, 0);
        if (length <= 0) {
            if (length < 0)
                printf("KERNEL association ends: %s\n", strerror(errno));
            break;
        }
        if (!take(peer, data, (size_t)length, &message))
            break;
    }
    fflush(stdout);
    close(peer->socket);
    for (int stream = 0; stream < STREAMS; stream++)
        for (int unordered = 0; unordered < 2; unordered++)
            free(peer->parts[stream][unordered].data);
    free(data);
    free(peer);
    return NULL;
}

static void *accept_all(void *argument)
{
    int listener = *(int *)argument;
    for (;;) {
        struct peer *peer = calloc(1, sizeof(*peer));
        pthread_t thread;
        if (peer == NULL || (peer->socket = accept(listener, NULL, NULL)) < 0)
            fail("accept");
        if (pthread_create(&thread, NULL, serve, peer) != 0)
            fail("pthread_create");
        pthread_detach(thread);
    }
}

/* What one thread connects to. */
struct target {
    struct sockaddr_in own, other;
};

static void *connect_to(void *argument)
{
    struct target *target = argument;
    struct peer *peer = calloc(1, sizeof(*peer));
    if (peer == NULL)
        fail("calloc");
    peer->socket = prepare(ntohs(target->other.sin_port) >= FIRST_PORT_SMALL_BUFFER);
    if (bind(peer->socket, (struct sockaddr *)&target->own, sizeof(target->own)) != 0)
        fail("bind");
    /* Nobody waits there: it is no case of this run. */
    if (connect(peer->socket, (struct sockaddr *)&target->other, sizeof(target->other)) != 0) {
        if (errno != ECONNREFUSED)
            fail("connect");
        close(peer->socket);
        free(peer);
        return NULL;
    }
    return serve(peer);
}

static void connect_all(const char *own, const char *other)
{
    static struct target targets[2 * PORTS];
    static pthread_t threads[2 * PORTS];
    for (int i = 0; i < 2 * PORTS; i++) {
        int port = i < PORTS ? FIRST_PORT + i : FIRST_PORT_SMALL_BUFFER + i - PORTS;
        targets[i].own.sin_family = targets[i].other.sin_family = AF_INET;
        targets[i].other.sin_port = htons((uint16_t)port);
        if (inet_pton(AF_INET, own, &targets[i].own.sin_addr) != 1 || inet_pton(AF_INET, other, &targets[i].other.sin_addr) != 1)
            fail("the addresses");
        if (pthread_create(&threads[i], NULL, connect_to, &targets[i]) != 0)
            fail("pthread_create");
    }
    for (int i = 0; i < 2 * PORTS; i++)
        pthread_join(threads[i], NULL);
}

int main(int count, char **arguments)
{
    if (count == 3) {
        connect_all(arguments[1], arguments[2]);
        return 0;
    }
    int listeners[] = {listen_on(PORT), listen_on(PORT_SMALL_BUFFER)};
    pthread_t thread;
    if (pthread_create(&thread, NULL, accept_all, &listeners[0]) != 0)
        fail("pthread_create");
    accept_all(&listeners[1]);
}
