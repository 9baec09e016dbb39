/*
 * An SCTP peer for interoperability tests: usrsctp over a UDP socket on the loopback interface.
 * What it does, its arguments and its output are described in ../README.md.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <usrsctp.h>

enum {
    SCTP_PORT = 5000,
    STREAMS = 4,
    FIRST_UNORDERED_STREAM = 4,
    STREAMS_WANTED = 8,
    PPID_BINARY = 53,
    MESSAGE_BYTES_MAX = 2 << 20,
    BUFFER_BYTES = 4 << 20,
    PACKET_BYTES_MAX = 1400,
    DATAGRAM_BYTES_MAX = 65536,
    COUNT_MAX = 100000,
    INTERVAL_MS_MAX = 10000,
    SIZES_MAX = 64,
    OUTSTANDING_BYTES_MAX = 128 << 10,
    SECONDS_MAX = 600,
    /* usrsctp.h leaves these out (RFC 8260 section 4.3.1, netinet/sctp.h). */
    OPTION_INTERLEAVING_SUPPORTED = 0x1206,
    INTERLEAVE_MESSAGES = 2,
};

/*
 * The UDP socket, its port and, once known, who is at the other end; its address also stands for the association in usrsctp. A wire that
 * marks is one with a router that marks whatever is capable of explicit congestion notification, in both directions.
 */
static struct {
    int socket;
    bool marks;
    uint16_t local_port;
    struct sockaddr_in remote;
    atomic_bool remote_known;
} wire;

static _Noreturn void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf("FAIL ");
    vprintf(format, arguments);
    printf("\n");
    va_end(arguments);
    fflush(stdout);
    _exit(1);
}

static void check(bool holds, const char *what)
{
    if (!holds)
        fail("%s: %s", what, strerror(errno));
}

/* Ends the program from its own thread if the association hangs. */
static void *watch(void *unused)
{
    (void)unused;
    sleep(SECONDS_MAX);
    fail("not done within %d seconds", SECONDS_MAX);
}

/* The ECN field with which a packet leaves the wire. */
static uint8_t passed(uint8_t tos)
{
    uint8_t field = tos & IPTOS_ECN_MASK;
    return wire.marks && field != IPTOS_ECN_NOT_ECT ? IPTOS_ECN_CE : field;
}

static int send_packet(void *address, void *packet, size_t length, uint8_t tos, uint8_t set_df)
{
    (void)address;
    (void)set_df;
    if (!atomic_load(&wire.remote_known))
        return ENOTCONN;
    int field = passed(tos);
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(field))];
    } control = {0};
    struct iovec content = {.iov_base = packet, .iov_len = length};
    struct msghdr message = {.msg_name = &wire.remote,
                             .msg_namelen = sizeof(wire.remote),
                             .msg_iov = &content,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = IPPROTO_IP;
    header->cmsg_type = IP_TOS;
    header->cmsg_len = CMSG_LEN(sizeof(field));
    memcpy(CMSG_DATA(header), &field, sizeof(field));
    ssize_t sent = sendmsg(wire.socket, &message, 0);
    return sent == (ssize_t)length ? 0 : errno;
}

static void *receive_packets(void *unused)
{
    static char packet[DATAGRAM_BYTES_MAX];
    (void)unused;
    struct sockaddr_in from;
    char control[256];
    struct iovec content = {.iov_base = packet, .iov_len = sizeof(packet)};
    for (;;) {
        struct msghdr message = {.msg_name = &from,
                                 .msg_namelen = sizeof(from),
                                 .msg_iov = &content,
                                 .msg_iovlen = 1,
                                 .msg_control = control,
                                 .msg_controllen = sizeof(control)};
        ssize_t length = recvmsg(wire.socket, &message, 0);
        if (length < 0)
            fail("recvmsg: %s", strerror(errno));
        uint8_t tos = 0;
        for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header != NULL; header = CMSG_NXTHDR(&message, header))
            if (header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_TOS)
                memcpy(&tos, CMSG_DATA(header), sizeof(tos));
        if (!atomic_load(&wire.remote_known)) {
            wire.remote = from;
            atomic_store(&wire.remote_known, true);
        }
        usrsctp_conninput(&wire, packet, (size_t)length, passed(tos));
    }
}

static void start_thread(void *(*body)(void *))
{
    pthread_t thread;
    check(pthread_create(&thread, NULL, body, NULL) == 0, "pthread_create");
    pthread_detach(thread);
}

static void open_wire(uint16_t local_port, uint16_t remote_port)
{
    struct sockaddr_in local = {.sin_family = AF_INET, .sin_port = htons(local_port)};
    socklen_t length = sizeof(local);
    local.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    wire.socket = socket(AF_INET, SOCK_DGRAM, 0);
    check(wire.socket >= 0, "socket");
    /* Room for a whole window: what the kernel drops here is lost for both sides. */
    int buffer = BUFFER_BYTES, on = 1;
    check(setsockopt(wire.socket, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer)) == 0, "SO_RCVBUF");
    check(setsockopt(wire.socket, IPPROTO_IP, IP_RECVTOS, &on, sizeof(on)) == 0, "IP_RECVTOS");
    check(bind(wire.socket, (struct sockaddr *)&local, sizeof(local)) == 0, "bind");
    check(getsockname(wire.socket, (struct sockaddr *)&local, &length) == 0, "getsockname");
    wire.local_port = ntohs(local.sin_port);
    if (remote_port != 0) {
        wire.remote = local;
        wire.remote.sin_port = htons(remote_port);
        atomic_store(&wire.remote_known, true);
    }
}

static struct sockaddr_conn wire_address(void)
{
    struct sockaddr_conn address = {.sconn_family = AF_CONN, .sconn_port = htons(SCTP_PORT), .sconn_addr = &wire};
    return address;
}

static struct socket *open_sctp(void)
{
    struct socket *sctp = usrsctp_socket(AF_CONN, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
    check(sctp != NULL, "usrsctp_socket");
    int buffer = BUFFER_BYTES, on = 1;
    check(usrsctp_setsockopt(sctp, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer)) == 0, "SO_SNDBUF");
    check(usrsctp_setsockopt(sctp, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer)) == 0, "SO_RCVBUF");
    check(usrsctp_setsockopt(sctp, IPPROTO_SCTP, SCTP_NODELAY, &on, sizeof(on)) == 0, "SCTP_NODELAY");
    check(usrsctp_setsockopt(sctp, IPPROTO_SCTP, SCTP_RECVRCVINFO, &on, sizeof(on)) == 0, "SCTP_RECVRCVINFO");
    struct sctp_initmsg streams = {.sinit_num_ostreams = STREAMS_WANTED, .sinit_max_instreams = STREAMS_WANTED};
    check(usrsctp_setsockopt(sctp, IPPROTO_SCTP, SCTP_INITMSG, &streams, sizeof(streams)) == 0, "SCTP_INITMSG");
    struct sctp_paddrparams path = {.spp_flags = SPP_PMTUD_DISABLE, .spp_pathmtu = PACKET_BYTES_MAX};
    path.spp_address.ss_family = AF_CONN;
    check(usrsctp_setsockopt(sctp, IPPROTO_SCTP, SCTP_PEER_ADDR_PARAMS, &path, sizeof(path)) == 0, "SCTP_PEER_ADDR_PARAMS");
    struct sctp_assoc_value resets = {.assoc_id = SCTP_FUTURE_ASSOC,
                                      .assoc_value = SCTP_ENABLE_RESET_STREAM_REQ | SCTP_ENABLE_CHANGE_ASSOC_REQ};
    check(usrsctp_setsockopt(sctp, IPPROTO_SCTP, SCTP_ENABLE_STREAM_RESET, &resets, sizeof(resets)) == 0,
          "SCTP_ENABLE_STREAM_RESET");
    struct sockaddr_conn local = wire_address();
    check(usrsctp_bind(sctp, (struct sockaddr *)&local, sizeof(local)) == 0, "usrsctp_bind");
    return sctp;
}

/* I-DATA instead of DATA, if the peer can. Messages of different streams may then be read in parts that alternate. */
static void offer_interleaving(struct socket *sctp)
{
    int level = INTERLEAVE_MESSAGES;
    check(usrsctp_setsockopt(sctp, IPPROTO_SCTP, SCTP_FRAGMENT_INTERLEAVE, &level, sizeof(level)) == 0,
          "SCTP_FRAGMENT_INTERLEAVE");
    struct sctp_assoc_value on = {.assoc_id = SCTP_FUTURE_ASSOC, .assoc_value = 1};
    check(usrsctp_setsockopt(sctp, IPPROTO_SCTP, OPTION_INTERLEAVING_SUPPORTED, &on, sizeof(on)) == 0,
          "SCTP_INTERLEAVING_SUPPORTED");
}

/* Messages of which a part has been read, by stream and mode. */
static struct {
    unsigned char *data;
    size_t length;
} parts[STREAMS_WANTED][2];

/* As `receive_message`, where parts of several messages may alternate. */
static size_t receive_interleaved(struct socket *sctp, unsigned char *data, struct sctp_rcvinfo *info)
{
    for (;;) {
        socklen_t info_length = sizeof(*info), address_length = 0;
        unsigned int info_type = 0;
        int flags = 0;
        ssize_t got = usrsctp_recvv(sctp, data, MESSAGE_BYTES_MAX, NULL, &address_length, info, &info_length, &info_type,
                                    &flags);
        check(got >= 0, "usrsctp_recvv");
        if (got == 0)
            return 0;
        bool unordered = (info->rcv_flags & SCTP_UNORDERED) != 0;
        if (info->rcv_sid >= STREAMS_WANTED)
            fail("a message on stream %u", info->rcv_sid);
        unsigned char **held = &parts[info->rcv_sid][unordered].data;
        size_t *length = &parts[info->rcv_sid][unordered].length;
        if (*held == NULL)
            check((*held = malloc(MESSAGE_BYTES_MAX)) != NULL, "malloc");
        if ((size_t)got > MESSAGE_BYTES_MAX - *length)
            fail("a message of more than %d bytes", MESSAGE_BYTES_MAX);
        memcpy(*held + *length, data, (size_t)got);
        *length += (size_t)got;
        if ((flags & MSG_EOR) == 0)
            continue;
        size_t total = *length;
        *length = 0;
        memcpy(data, *held, total);
        return total;
    }
}

/* One whole message into `data`; its length, or 0 once the peer has shut down. */
static size_t receive_message(struct socket *sctp, unsigned char *data, struct sctp_rcvinfo *info)
{
    size_t length = 0;
    for (;;) {
        socklen_t info_length = sizeof(*info), address_length = 0;
        unsigned int info_type = 0;
        int flags = 0;
        ssize_t got = usrsctp_recvv(sctp, data + length, MESSAGE_BYTES_MAX - length, NULL, &address_length, info,
                                    &info_length, &info_type, &flags);
        check(got >= 0, "usrsctp_recvv");
        length += (size_t)got;
        if (got == 0 || (flags & MSG_EOR) != 0)
            return length;
        if (length == MESSAGE_BYTES_MAX)
            fail("a message of more than %d bytes", MESSAGE_BYTES_MAX);
    }
}

static void send_message(struct socket *sctp, const unsigned char *data, size_t length, uint16_t stream, bool unordered)
{
    struct sctp_sndinfo info = {.snd_sid = stream, .snd_ppid = htonl(PPID_BINARY)};
    info.snd_flags = unordered ? SCTP_UNORDERED : 0;
    ssize_t sent = usrsctp_sendv(sctp, data, length, NULL, 0, &info, sizeof(info), SCTP_SENDV_SNDINFO, 0);
    check(sent == (ssize_t)length, "usrsctp_sendv");
}

static unsigned long serve(bool interleaves)
{
    struct socket *listener = open_sctp();
    if (interleaves)
        offer_interleaving(listener);
    check(usrsctp_listen(listener, 1) == 0, "usrsctp_listen");
    /* Not before: an INIT that comes too early is answered with ABORT. */
    start_thread(receive_packets);
    printf("LISTENING %u\n", wire.local_port);
    fflush(stdout);
    struct socket *sctp = usrsctp_accept(listener, NULL, NULL);
    check(sctp != NULL, "usrsctp_accept");
    unsigned char *data = malloc(MESSAGE_BYTES_MAX);
    check(data != NULL, "malloc");
    unsigned long echoed = 0;
    struct sctp_rcvinfo info;
    size_t length;
    while ((length = interleaves ? receive_interleaved(sctp, data, &info) : receive_message(sctp, data, &info)) > 0) {
        if (ntohl(info.rcv_ppid) != PPID_BINARY)
            fail("payload protocol identifier %u", ntohl(info.rcv_ppid));
        send_message(sctp, data, length, info.rcv_sid, (info.rcv_flags & SCTP_UNORDERED) != 0);
        echoed++;
    }
    free(data);
    usrsctp_close(sctp);
    usrsctp_close(listener);
    return echoed;
}

/* The messages of a client's run. */
struct plan {
    unsigned long count;
    size_t sizes[SIZES_MAX];
    size_t size_count;
    bool unordered;
    /* From one message to the next; 0: as fast as echoes come. */
    unsigned long interval_ms;
};

static size_t size_of(const struct plan *plan, unsigned long index)
{
    return plan->sizes[index % plan->size_count];
}

static uint16_t stream_of(const struct plan *plan, unsigned long index)
{
    return (uint16_t)(index % STREAMS + (plan->unordered ? FIRST_UNORDERED_STREAM : 0));
}

static void fill(unsigned char *data, size_t length, unsigned long index)
{
    for (size_t i = 0; i < length; i++)
        data[i] = (unsigned char)(index * 31 + i * 7 + (i >> 8));
}

/* Marks as echoed the first outstanding message that an echo may answer: the oldest of the stream, or any if unordered. */
static void match_echo(const struct plan *plan, bool *echoed, unsigned long sent, uint16_t stream, const unsigned char *data,
                       size_t length, unsigned char *expected)
{
    for (unsigned long index = 0; index < sent; index++) {
        if (echoed[index] || stream_of(plan, index) != stream)
            continue;
        bool same = size_of(plan, index) == length;
        if (same) {
            fill(expected, length, index);
            same = memcmp(expected, data, length) == 0;
        }
        if (same) {
            echoed[index] = true;
            return;
        }
        if (!plan->unordered)
            fail("message %lu on stream %u came back wrong (%zu bytes)", index, stream, length);
    }
    fail("an echo of %zu bytes on stream %u matches no message", length, stream);
}

static unsigned long drive(const struct plan *plan)
{
    struct socket *sctp = open_sctp();
    start_thread(receive_packets);
    struct sockaddr_conn remote = wire_address();
    check(usrsctp_connect(sctp, (struct sockaddr *)&remote, sizeof(remote)) == 0, "usrsctp_connect");
    unsigned char *data = malloc(MESSAGE_BYTES_MAX), *expected = malloc(MESSAGE_BYTES_MAX);
    bool *echoed = calloc(plan->count, sizeof(bool));
    check(data != NULL && expected != NULL && echoed != NULL, "malloc");
    unsigned long sent = 0, returned = 0;
    size_t outstanding = 0;
    while (returned < plan->count) {
        /* A bound on what is under way, or both sides could block in sending. */
        while (sent < plan->count && (sent == returned || outstanding + size_of(plan, sent) <= OUTSTANDING_BYTES_MAX)) {
            fill(data, size_of(plan, sent), sent);
            usleep((useconds_t)(plan->interval_ms * 1000));
            send_message(sctp, data, size_of(plan, sent), stream_of(plan, sent), plan->unordered);
            outstanding += size_of(plan, sent);
            sent++;
        }
        struct sctp_rcvinfo info;
        size_t length = receive_message(sctp, data, &info);
        if (length == 0)
            fail("the peer shut down after %lu of %lu echoes", returned, plan->count);
        match_echo(plan, echoed, sent, info.rcv_sid, data, length, expected);
        outstanding -= length;
        returned++;
    }
    check(usrsctp_shutdown(sctp, SHUT_WR) == 0, "usrsctp_shutdown");
    struct sctp_rcvinfo info;
    if (receive_message(sctp, data, &info) != 0)
        fail("a message after the last echo");
    usrsctp_close(sctp);
    free(data);
    free(expected);
    free(echoed);
    return returned;
}

static unsigned long number(const char *text, unsigned long max)
{
    char *end;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value > max)
        fail("not a number up to %lu: %s", max, text);
    return value;
}

static struct plan plan_from(char **arguments)
{
    struct plan plan = {.count = number(arguments[0], COUNT_MAX), .unordered = strcmp(arguments[2], "unordered") == 0};
    for (char *size = strtok(arguments[1], ","); size != NULL; size = strtok(NULL, ",")) {
        if (plan.size_count == SIZES_MAX)
            fail("more than %d sizes", SIZES_MAX);
        plan.sizes[plan.size_count++] = number(size, MESSAGE_BYTES_MAX);
    }
    if (plan.size_count == 0)
        fail("no sizes");
    if (arguments[3] != NULL)
        plan.interval_ms = number(arguments[3], INTERVAL_MS_MAX);
    return plan;
}

int main(int argc, char **argv)
{
    bool interleaves = argc == 4 && strcmp(argv[3], "interleaving") == 0;
    wire.marks = argc == 4 && strcmp(argv[3], "marking") == 0;
    bool server = (argc == 3 || interleaves || wire.marks) && strcmp(argv[1], "server") == 0;
    bool client = (argc == 6 || argc == 7) && strcmp(argv[1], "client") == 0;
    if (!server && !client)
        fail("usage: %s server PORT [interleaving|marking] | client PORT COUNT SIZES ordered|unordered [INTERVAL_MS]", argv[0]);
    uint16_t port = (uint16_t)number(argv[2], UINT16_MAX);
    start_thread(watch);
    usrsctp_init(0, send_packet, NULL);
    usrsctp_sysctl_set_sctp_ecn_enable(1);
    usrsctp_register_address(&wire);
    open_wire(server ? port : 0, server ? 0 : port);
    unsigned long done;
    if (server) {
        done = serve(interleaves);
    } else {
        struct plan plan = plan_from(argv + 3);
        done = drive(&plan);
    }
    /* Returns nonzero while an association still has to be shut down. */
    while (usrsctp_finish() != 0)
        usleep(10000);
    printf("OK n=%lu\n", done);
    fflush(stdout);
    _exit(0);
}
