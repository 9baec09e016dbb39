/*
 * One end of an association with several addresses, for tests of failover: the SCTP of the Linux kernel, or usrsctp if USRSCTP is defined.
 * Its arguments and its output are described in ../README.md.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#ifdef USRSCTP
#include <usrsctp.h>
#else
#include <linux/sctp.h>
#endif

enum {
    SCTP_PORT = 5000,
    STREAMS = 4,
    MESSAGE_BYTES = 100,
    /* These may wait for a lost packet of the handshake, and their delays are not counted. */
    FIRST_MESSAGES = 80,
    ADDRESSES_MAX = 8,
    COUNT_MAX = 100000,
    INTERVAL_MS_MAX = 10000,
    SECONDS_MAX = 300,
};

/* In network byte order. */
struct __attribute__((packed)) message {
    uint32_t number;
    uint64_t sent_us;
    unsigned char rest[MESSAGE_BYTES - 12];
};

/* IPv4 and IPv6 addresses, one after the other without gaps. */
struct addresses {
    unsigned char bytes[ADDRESSES_MAX * sizeof(struct sockaddr_in6)];
    size_t length;
    int count;
    bool has_ipv6;
};

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

#ifdef USRSCTP
typedef struct socket *handle;

static handle open_socket(int family)
{
    handle sctp = usrsctp_socket(family, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
    check(sctp != NULL, "usrsctp_socket");
    return sctp;
}

static void set(handle sctp, int option, const void *value, socklen_t length, const char *name)
{
    check(usrsctp_setsockopt(sctp, IPPROTO_SCTP, option, value, length) == 0, name);
}

static void bind_to(handle sctp, struct addresses *local)
{
    check(usrsctp_bindx(sctp, (struct sockaddr *)local->bytes, local->count, SCTP_BINDX_ADD_ADDR) == 0, "usrsctp_bindx");
}

static void connect_to(handle sctp, struct addresses *remote)
{
    check(usrsctp_connectx(sctp, (struct sockaddr *)remote->bytes, remote->count, NULL) == 0, "usrsctp_connectx");
}

static void begin_to_listen(handle sctp)
{
    check(usrsctp_listen(sctp, 1) == 0, "usrsctp_listen");
}

static handle accept_one(handle sctp)
{
    handle accepted = usrsctp_accept(sctp, NULL, NULL);
    check(accepted != NULL, "usrsctp_accept");
    return accepted;
}

static bool send_on(handle sctp, const void *data, size_t length, uint16_t stream)
{
    struct sctp_sndinfo info = {.snd_sid = stream};
    return usrsctp_sendv(sctp, data, length, NULL, 0, &info, sizeof(info), SCTP_SENDV_SNDINFO, 0) == (ssize_t)length;
}

static ssize_t receive(handle sctp, void *data, size_t length)
{
    socklen_t address_length = 0, info_length = 0;
    unsigned int info_type;
    int flags = 0;
    return usrsctp_recvv(sctp, data, length, NULL, &address_length, NULL, &info_length, &info_type, &flags);
}

static void shut_down(handle sctp)
{
    check(usrsctp_shutdown(sctp, SHUT_WR) == 0, "usrsctp_shutdown");
}

static void start_stack(uint16_t udp_port)
{
    usrsctp_init(udp_port, NULL, NULL);
}

/* Answers the peer until the association has been shut down. */
static void end_stack(handle sctp, handle listener)
{
    usrsctp_close(sctp);
    if (listener != sctp)
        usrsctp_close(listener);
    while (usrsctp_finish() != 0)
        usleep(10000);
}
#else
typedef int handle;

static handle open_socket(int family)
{
    handle sctp = socket(family, SOCK_STREAM, IPPROTO_SCTP);
    check(sctp >= 0, "socket");
    /* An association may wait for the answer to SHUTDOWN ACK after its program has ended. */
    int on = 1;
    check(setsockopt(sctp, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0, "SO_REUSEADDR");
    return sctp;
}

static void set(handle sctp, int option, const void *value, socklen_t length, const char *name)
{
    check(setsockopt(sctp, IPPROTO_SCTP, option, value, length) == 0, name);
}

static void bind_to(handle sctp, struct addresses *local)
{
    set(sctp, SCTP_SOCKOPT_BINDX_ADD, local->bytes, (socklen_t)local->length, "SCTP_SOCKOPT_BINDX_ADD");
}

static void connect_to(handle sctp, struct addresses *remote)
{
    check(setsockopt(sctp, IPPROTO_SCTP, SCTP_SOCKOPT_CONNECTX, remote->bytes, (socklen_t)remote->length) >= 0,
          "SCTP_SOCKOPT_CONNECTX");
}

static void begin_to_listen(handle sctp)
{
    check(listen(sctp, 1) == 0, "listen");
}

static handle accept_one(handle sctp)
{
    handle accepted = accept(sctp, NULL, NULL);
    check(accepted >= 0, "accept");
    return accepted;
}

static bool send_on(handle sctp, const void *data, size_t length, uint16_t stream)
{
    union {
        char bytes[CMSG_SPACE(sizeof(struct sctp_sndinfo))];
        struct cmsghdr align;
    } control = {0};
    struct iovec part = {.iov_base = (void *)data, .iov_len = length};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    struct sctp_sndinfo info = {.snd_sid = stream};
    struct cmsghdr *entry = CMSG_FIRSTHDR(&message);
    *entry = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(info)), .cmsg_level = IPPROTO_SCTP, .cmsg_type = SCTP_SNDINFO};
    memcpy(CMSG_DATA(entry), &info, sizeof(info));
    return sendmsg(sctp, &message, MSG_NOSIGNAL) == (ssize_t)length;
}

static ssize_t receive(handle sctp, void *data, size_t length)
{
    return recv(sctp, data, length, 0);
}

static void shut_down(handle sctp)
{
    check(shutdown(sctp, SHUT_WR) == 0, "shutdown");
}

/* Whether the kernel uses UDP is a setting of its network namespace. */
static void start_stack(uint16_t udp_port)
{
    (void)udp_port;
}

/* The kernel answers the peer after the end of this program. */
static void end_stack(handle sctp, handle listener)
{
    (void)sctp;
    (void)listener;
}
#endif

static uint64_t now_us(void)
{
    struct timespec now;
    check(clock_gettime(CLOCK_REALTIME, &now) == 0, "clock_gettime");
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
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

static struct addresses addresses_from(char *list)
{
    struct addresses addresses = {0};
    for (char *text = strtok(list, ","); text != NULL; text = strtok(NULL, ",")) {
        struct sockaddr_in ipv4 = {.sin_family = AF_INET, .sin_port = htons(SCTP_PORT)};
        struct sockaddr_in6 ipv6 = {.sin6_family = AF_INET6, .sin6_port = htons(SCTP_PORT)};
        bool is_ipv6 = inet_pton(AF_INET6, text, &ipv6.sin6_addr) == 1;
        if (addresses.count == ADDRESSES_MAX || (!is_ipv6 && inet_pton(AF_INET, text, &ipv4.sin_addr) != 1))
            fail("no address, or too many: %s", text);
        size_t length = is_ipv6 ? sizeof(ipv6) : sizeof(ipv4);
        memcpy(addresses.bytes + addresses.length, is_ipv6 ? (void *)&ipv6 : (void *)&ipv4, length);
        addresses.length += length;
        addresses.count++;
        addresses.has_ipv6 |= is_ipv6;
    }
    if (addresses.count == 0)
        fail("no address");
    return addresses;
}

/* The sending half of this end. */
struct outbound {
    handle sctp;
    unsigned long count, interval_ms;
};

static void *send_all(void *argument)
{
    const struct outbound *outbound = argument;
    uint64_t begun = now_us();
    for (unsigned long index = 0; index < outbound->count; index++) {
        uint64_t due = begun + index * outbound->interval_ms * 1000, now = now_us();
        if (due > now)
            usleep((useconds_t)(due - now));
        struct message message = {.number = htonl((uint32_t)index), .sent_us = htobe64(now_us())};
        check(send_on(outbound->sctp, &message, sizeof(message), (uint16_t)(index % STREAMS)), "sending");
    }
    return NULL;
}

/* Reads `count` messages, each once and in the order of its stream; the longest delay in microseconds of those behind the first. */
static uint64_t receive_all(handle sctp, unsigned long count)
{
    unsigned long next[STREAMS];
    for (unsigned long stream = 0; stream < STREAMS; stream++)
        next[stream] = stream;
    uint64_t longest = 0;
    for (unsigned long received = 0; received < count; received++) {
        struct message message;
        ssize_t length = receive(sctp, &message, sizeof(message));
        check(length >= 0, "receiving");
        if (length != sizeof(message))
            fail("%zd bytes instead of a message after %lu of %lu", length, received, count);
        unsigned long index = ntohl(message.number);
        if (next[index % STREAMS] != index)
            fail("message %lu instead of %lu", index, next[index % STREAMS]);
        next[index % STREAMS] += STREAMS;
        uint64_t now = now_us(), sent = be64toh(message.sent_us), delay = now > sent ? now - sent : 0;
        longest = index >= FIRST_MESSAGES && delay > longest ? delay : longest;
    }
    return longest;
}

/* Ends the program from its own thread if the association hangs. */
static void *watch(void *unused)
{
    (void)unused;
    sleep(SECONDS_MAX);
    fail("not done within %d seconds", SECONDS_MAX);
}

int main(int argc, char **argv)
{
    bool server = argc >= 2 && strcmp(argv[1], "server") == 0, client = argc >= 2 && strcmp(argv[1], "client") == 0;
    if ((!server && !client) || (argc != 6 && argc != 8))
        fail("usage: %s server|client LOCAL[,LOCAL...] REMOTE COUNT INTERVAL_MS [UDP_PORT REMOTE_UDP_PORT]", argv[0]);
    pthread_t thread;
    check(pthread_create(&thread, NULL, watch, NULL) == 0, "pthread_create");
    struct addresses local = addresses_from(argv[2]), remote = addresses_from(argv[3]);
    struct outbound outbound = {.count = number(argv[4], COUNT_MAX), .interval_ms = number(argv[5], INTERVAL_MS_MAX)};
    uint16_t udp_port = argc == 8 ? (uint16_t)number(argv[6], UINT16_MAX) : 0;
    start_stack(udp_port);
    handle sctp = open_socket(local.has_ipv6 ? AF_INET6 : AF_INET), listener = sctp;
    int on = 1;
    set(sctp, SCTP_NODELAY, &on, sizeof(on), "SCTP_NODELAY");
#ifdef USRSCTP
    if (udp_port != 0) {
        struct sctp_udpencaps encapsulation = {.sue_port = htons((uint16_t)number(argv[7], UINT16_MAX))};
        encapsulation.sue_address.ss_family = local.has_ipv6 ? AF_INET6 : AF_INET;
        set(sctp, SCTP_REMOTE_UDP_ENCAPS_PORT, &encapsulation, sizeof(encapsulation), "SCTP_REMOTE_UDP_ENCAPS_PORT");
    }
#endif
    bind_to(sctp, &local);
    if (server) {
        begin_to_listen(listener);
        printf("LISTENING\n");
        fflush(stdout);
        sctp = accept_one(listener);
        set(sctp, SCTP_NODELAY, &on, sizeof(on), "SCTP_NODELAY");
    } else {
        connect_to(sctp, &remote);
        printf("CONNECTED\n");
        fflush(stdout);
    }
    outbound.sctp = sctp;
    check(pthread_create(&thread, NULL, send_all, &outbound) == 0, "pthread_create");
    uint64_t longest = receive_all(sctp, outbound.count);
    check(pthread_join(thread, NULL) == 0, "pthread_join");
    if (client)
        shut_down(sctp);
    char byte;
    if (receive(sctp, &byte, 1) > 0)
        fail("a message after the last");
    end_stack(sctp, listener);
    printf("OK n=%lu longest_ms=%.1f\n", outbound.count, (double)longest / 1000);
    fflush(stdout);
    _exit(0);
}
