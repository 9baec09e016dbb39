/*
 * SCTP over UDP port 9899 (RFC 6951) on one side, IPv4 with protocol 132 on a TUN device on the other: what a user-space stack sends
 * reaches the SCTP of the same kernel. Others are told apart by their SCTP port. Who has sent nothing yet is at the address given as the
 * only argument, with a UDP port of the same number.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { UDP_PORT = 9899, IP_BYTES = 20, SCTP_HEADER_BYTES = 12, PROTOCOL_SCTP = 132, PACKET_BYTES_MAX = 65535 };

static struct sockaddr_in clients[1 << 16];
static struct in_addr others;

static _Noreturn void fail(const char *what)
{
    perror(what);
    exit(1);
}

static uint16_t checksum(const uint8_t *header)
{
    uint32_t sum = 0;
    for (int i = 0; i < IP_BYTES; i += 2)
        sum += (uint32_t)(header[i] << 8 | header[i + 1]);
    sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)~(sum + (sum >> 16));
}

static void to_kernel(int device, int udp, uint8_t *packet)
{
    struct sockaddr_in from;
    socklen_t from_length = sizeof(from);
    ssize_t length = recvfrom(udp, packet + IP_BYTES, PACKET_BYTES_MAX - IP_BYTES, 0, (struct sockaddr *)&from, &from_length);
    if (length < SCTP_HEADER_BYTES)
        return;
    uint16_t total = (uint16_t)(length + IP_BYTES);
    const uint8_t header[IP_BYTES] = {0x45, 0,  0, 0, 0, 0, 0x40, 0, 64, PROTOCOL_SCTP, 0, 0,
                                      10,   1,  0, 1, 10, 1, 0, 2};
    memcpy(packet, header, IP_BYTES);
    packet[2] = (uint8_t)(total >> 8);
    packet[3] = (uint8_t)total;
    uint16_t sum = checksum(packet);
    packet[10] = (uint8_t)(sum >> 8);
    packet[11] = (uint8_t)sum;
    clients[packet[IP_BYTES] << 8 | packet[IP_BYTES + 1]] = from;
    if (write(device, packet, total) < 0)
        perror("write to the TUN device");
}

static void from_kernel(int device, int udp, uint8_t *packet)
{
    ssize_t length = read(device, packet, PACKET_BYTES_MAX);
    if (length < IP_BYTES + SCTP_HEADER_BYTES || packet[0] != 0x45 || packet[9] != PROTOCOL_SCTP)
        return;
    uint16_t port = (uint16_t)(packet[IP_BYTES + 2] << 8 | packet[IP_BYTES + 3]);
    struct sockaddr_in *client = &clients[port];
    if (client->sin_port == 0)
        *client = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = others};
    if (client->sin_addr.s_addr != INADDR_ANY &&
        sendto(udp, packet + IP_BYTES, (size_t)length - IP_BYTES, 0, (const struct sockaddr *)client, sizeof(*client)) < 0)
        perror("sendto");
}

int main(int count, char **arguments)
{
    if (count > 1 && inet_pton(AF_INET, arguments[1], &others) != 1)
        fail(arguments[1]);
    static uint8_t packet[PACKET_BYTES_MAX];
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
    strcpy(request.ifr_name, "sctp0");
    int device = open("/dev/net/tun", O_RDWR);
    if (device < 0 || ioctl(device, TUNSETIFF, &request) != 0)
        fail("the TUN device");
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(UDP_PORT)};
    int udp = socket(AF_INET, SOCK_DGRAM, 0), buffer = 8 << 20;
    /* Root may have as much as it likes. What is dropped here counts as loss. */
    if (udp < 0 || setsockopt(udp, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof(buffer)) != 0 ||
        bind(udp, (struct sockaddr *)&address, sizeof(address)) != 0)
        fail("the UDP socket");
    for (;;) {
        struct pollfd waiting[] = {{.fd = device, .events = POLLIN}, {.fd = udp, .events = POLLIN}};
        if (poll(waiting, 2, -1) < 0)
            fail("poll");
        if ((waiting[1].revents & POLLIN) != 0)
            to_kernel(device, udp, packet);
        if ((waiting[0].revents & POLLIN) != 0)
            from_kernel(device, udp, packet);
    }
}
