"""Diameter clients (RFC 6733): a capabilities exchange, then Device-Watchdog-Requests, and the delays of their answers.

Arguments: address, number of clients, requests of each, milliseconds between two."""

import os
import select
import socket
import struct
import sys
import time

PORT, SCTP, PPID = 3868, 132, 46
CAPABILITIES, WATCHDOG, REQUEST = 257, 280, 0x80
SUCCESS = 2001


def avp(code, value):
    return struct.pack(">II", code, 0x40 << 24 | 8 + len(value)) + value + bytes(-len(value) % 4)


def request(command, number, client):
    body = avp(264, b"c%d.test" % client) + avp(296, b"test")
    if command == CAPABILITIES:
        body += avp(257, b"\0\1" + socket.inet_aton("127.0.0.1")) + avp(266, bytes(4)) + avp(269, b"client")
        body += avp(258, struct.pack(">I", 0xFFFFFFFF)) + avp(299, bytes(4))
    body += avp(278, struct.pack(">I", 1))
    return struct.pack(">IIIII", 1 << 24 | 20 + len(body), REQUEST << 24 | command, 0, number, number) + body


def answer_to(asked, client):
    number, end = struct.unpack_from(">II", asked, 12)
    body = avp(268, struct.pack(">I", SUCCESS)) + avp(264, b"c%d.test" % client) + avp(296, b"test")
    return struct.pack(">IIIII", 1 << 24 | 20 + len(body), WATCHDOG, 0, number, end) + body


def result(message):
    place = message.index(struct.pack(">I", 268), 20)
    return struct.unpack_from(">I", message, place + 8)[0]


def send(sock, message):
    info = struct.pack("=HHHHIIIIIi", 0, 0, 0, 0, socket.htonl(PPID), 0, 0, 0, 0, 0)
    sock.sendmsg([message], [(SCTP, 1, info)])


def connect(address, client):
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, SCTP)
    sock.setsockopt(SCTP, 3, 1)
    sock.connect((address, PORT))
    send(sock, request(CAPABILITIES, 0, client))
    answer = sock.recv(4096)
    if not answer:
        # The server has waited for the request for 20 s.
        sock.close()
        return connect(address, client)
    assert result(answer) == SUCCESS, answer
    return sock


def main():
    address, clients, count, gap = sys.argv[1], *map(int, sys.argv[2:])
    socks = [connect(address, client) for client in range(clients)]
    index = {sock.fileno(): sock for sock in socks}
    poll = select.poll()
    for sock in socks:
        poll.register(sock, select.POLLIN)
    begun = time.monotonic() + 0.1
    due = [(begun + (number + client / clients) * gap / 1000, client, number + 1) for number in range(count) for client in range(clients)]
    due.sort()
    sent, delays, at = {}, [], 0
    while len(delays) < len(due):
        now = time.monotonic()
        while at < len(due) and due[at][0] <= now:
            _, client, number = due[at]
            sent[socks[client].fileno(), number] = time.monotonic()
            send(socks[client], request(WATCHDOG, number, client))
            at += 1
        wait = max(0, due[at][0] - time.monotonic()) * 1000 if at < len(due) else 120_000
        ready = poll.poll(wait)
        assert ready or at < len(due), "answers are missing"
        for descriptor, _ in ready:
            answer = index[descriptor].recv(4096)
            arrived = time.monotonic()
            assert answer, "the association has ended"
            command, number = struct.unpack_from(">I", answer, 4)[0], struct.unpack_from(">I", answer, 12)[0]
            if command >> 24 & REQUEST:
                send(index[descriptor], answer_to(answer, socks.index(index[descriptor])))
                continue
            assert result(answer) == SUCCESS, answer
            delays.append((arrived - sent.pop((descriptor, number))) * 1000)
    delays.sort()
    shown = ", ".join(f"p{part:g} {delays[min(len(delays) - 1, int(len(delays) * part / 100))]:.0f}" for part in (50, 90, 99, 99.9))
    print(f"{len(delays)} answers: {shown}, longest {delays[-1]:.0f} ms", flush=True)


main()
