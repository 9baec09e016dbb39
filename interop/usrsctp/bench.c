/*
 * The bulk transfer of bench/peers with usrsctp: both endpoints in one thread, joined by lossless queues without delay.
 * Packets are at most 1,400 bytes, buffers 256 KiB, messages ordered and reliable on one stream, checksums on. Prints for each
 * message size the median of seven repetitions of one second of CPU time, with the extremes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <usrsctp.h>

enum {
    SCTP_PORT = 5000,
    PACKET_BYTES_MAX = 1400,
    BUFFER_BYTES = 256 << 10,
    BATCH_PACKETS = 32,
    QUEUE_PACKETS = 1 << 14,
    WARM_UP_MESSAGES = 2000,
    MESSAGES_PER_READING = 1000,
    REPETITIONS = 7,
    IDLE_TURNS_MAX = 1000,
};

struct packet {
    size_t length;
    unsigned char bytes[1500];
};

/* Packets on their way to one endpoint; its address stands for the endpoint in usrsctp. */
struct queue {
    struct packet packets[QUEUE_PACKETS];
    size_t head, count;
};

static struct queue near_inbox, far_inbox;

static void check(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "error: %s: %s\n", what, strerror(errno));
        exit(1);
    }
}

static double cpu_seconds(void)
{
    struct timespec at;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
    return (double)at.tv_sec + (double)at.tv_nsec / 1e9;
}

/* usrsctp names the sender by the address that it is bound to. */
static int queue_packet(void *from, void *bytes, size_t length, uint8_t tos, uint8_t set_df)
{
    (void)tos;
    (void)set_df;
    struct queue *queue = from == &near_inbox ? &far_inbox : &near_inbox;
    if (queue->count == QUEUE_PACKETS || length > sizeof(queue->packets[0].bytes))
        return ENOBUFS;
    struct packet *packet = &queue->packets[(queue->head + queue->count) % QUEUE_PACKETS];
    packet->length = length;
    memcpy(packet->bytes, bytes, length);
    queue->count++;
    return 0;
}

static bool deliver(struct queue *queue)
{
    size_t delivered = 0;
    for (; delivered < BATCH_PACKETS && queue->count > 0; delivered++) {
        struct packet *packet = &queue->packets[queue->head];
        queue->head = (queue->head + 1) % QUEUE_PACKETS;
        queue->count--;
        usrsctp_conninput(queue, packet->bytes, packet->length, 0);
    }
    return delivered > 0;
}

static struct socket *open_endpoint(struct queue *inbox)
{
    struct socket *sctp = usrsctp_socket(AF_CONN, SOCK_STREAM, IPPROTO_SCTP, NULL, NULL, 0, NULL);
    check(sctp != NULL, "usrsctp_socket");
    check(usrsctp_set_non_blocking(sctp, 1) == 0, "usrsctp_set_non_blocking");
    int buffer = BUFFER_BYTES;
    check(usrsctp_setsockopt(sctp, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer)) == 0, "SO_SNDBUF");
    check(usrsctp_setsockopt(sctp, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer)) == 0, "SO_RCVBUF");
    struct sctp_paddrparams path = {.spp_flags = SPP_PMTUD_DISABLE, .spp_pathmtu = PACKET_BYTES_MAX};
    path.spp_address.ss_family = AF_CONN;
    check(usrsctp_setsockopt(sctp, IPPROTO_SCTP, SCTP_PEER_ADDR_PARAMS, &path, sizeof(path)) == 0, "SCTP_PEER_ADDR_PARAMS");
    struct sockaddr_conn local = {.sconn_family = AF_CONN, .sconn_port = htons(SCTP_PORT), .sconn_addr = inbox};
    check(usrsctp_bind(sctp, (struct sockaddr *)&local, sizeof(local)) == 0, "usrsctp_bind");
    return sctp;
}

/* The endpoints of one association. */
struct pair {
    struct socket *listener, *near, *far;
};

/* One batch each way; if nothing moved, lets time pass. */
static void turn(unsigned *idle_turns)
{
    bool there = deliver(&far_inbox), back = deliver(&near_inbox);
    if (there || back) {
        *idle_turns = 0;
        return;
    }
    check(++*idle_turns < IDLE_TURNS_MAX, "stalled");
    usrsctp_handle_timers(10);
}

static struct pair connect_pair(void)
{
    struct pair pair = {.listener = open_endpoint(&far_inbox), .near = open_endpoint(&near_inbox)};
    check(usrsctp_listen(pair.listener, 1) == 0, "usrsctp_listen");
    struct sockaddr_conn remote = {.sconn_family = AF_CONN, .sconn_port = htons(SCTP_PORT), .sconn_addr = &near_inbox};
    int connected = usrsctp_connect(pair.near, (struct sockaddr *)&remote, sizeof(remote));
    check(connected == 0 || errno == EINPROGRESS, "usrsctp_connect");
    unsigned idle_turns = 0;
    while (pair.far == NULL) {
        turn(&idle_turns);
        pair.far = usrsctp_accept(pair.listener, NULL, NULL);
    }
    check(usrsctp_set_non_blocking(pair.far, 1) == 0, "usrsctp_set_non_blocking");
    return pair;
}

static unsigned long transfer(struct pair *pair, size_t message_bytes, unsigned long deliver_min)
{
    static unsigned char message[PACKET_BYTES_MAX], received[PACKET_BYTES_MAX];
    struct sctp_sndinfo info = {.snd_sid = 0, .snd_ppid = htonl(53)};
    unsigned long delivered = 0;
    unsigned idle_turns = 0;
    while (delivered < deliver_min) {
        while (usrsctp_sendv(pair->near, message, message_bytes, NULL, 0, &info, sizeof(info), SCTP_SENDV_SNDINFO, 0) > 0)
            ;
        check(errno == EWOULDBLOCK || errno == ENOBUFS, "usrsctp_sendv");
        turn(&idle_turns);
        for (;;) {
            socklen_t info_length = 0, address_length = 0;
            unsigned int info_type = 0;
            int flags = 0;
            ssize_t length = usrsctp_recvv(pair->far, received, sizeof(received), NULL, &address_length, NULL, &info_length,
                                           &info_type, &flags);
            if (length <= 0)
                break;
            check((size_t)length == message_bytes && (flags & MSG_EOR) != 0, "a message of another size");
            delivered++;
        }
    }
    return delivered;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(struct pair *pair, size_t message_bytes)
{
    double rates[REPETITIONS];
    transfer(pair, message_bytes, WARM_UP_MESSAGES);
    for (int repetition = 0; repetition < REPETITIONS; repetition++) {
        unsigned long messages = 0;
        double start = cpu_seconds(), used = 0;
        while (used < 1.0) {
            messages += transfer(pair, message_bytes, MESSAGES_PER_READING);
            used = cpu_seconds() - start;
        }
        rates[repetition] = (double)messages / used;
    }
    qsort(rates, REPETITIONS, sizeof(rates[0]), ascending);
    double median = rates[REPETITIONS / 2];
    printf("usrsctp %4zu-byte messages: %6.3f CPU-s/GB, %.0f msg/s per core (%.0f to %.0f)\n", message_bytes,
           1e9 / (median * (double)message_bytes), median, rates[0], rates[REPETITIONS - 1]);
}

int main(void)
{
    usrsctp_init_nothreads(0, queue_packet, NULL);
    usrsctp_sysctl_set_sctp_ecn_enable(0);
    usrsctp_register_address(&near_inbox);
    usrsctp_register_address(&far_inbox);
    struct pair pair = connect_pair();
    measure(&pair, 1200);
    /* The last of the large messages must not be mistaken for small ones. */
    usrsctp_close(pair.near);
    usrsctp_close(pair.far);
    usrsctp_close(pair.listener);
    for (unsigned idle_turns = 0; near_inbox.count + far_inbox.count > 0;)
        turn(&idle_turns);
    pair = connect_pair();
    measure(&pair, 64);
    return 0;
}
