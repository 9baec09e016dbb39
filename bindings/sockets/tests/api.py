"""The SCTP sockets API as programs see it. Runs under `festina sctp run`, as client and server of itself."""

import ctypes
import errno
import os
import select
import socket
import struct
import sys
import time

SCTP = 132
MSG_NOTIFICATION = 0x8000
MSG_EOR = 0x80


def stream_socket():
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM, SCTP)


def listener(port=0):
    sock = stream_socket()
    sock.bind(("127.0.0.1", port))
    sock.listen(16)
    return sock


def pair():
    server = listener()
    client = stream_socket()
    client.connect(server.getsockname())
    accepted, _ = server.accept()
    server.close()
    return client, accepted


def fails_with(expected, call, *arguments):
    try:
        call(*arguments)
    except OSError as error:
        assert error.errno == expected, f"{errno.errorcode[error.errno]} instead of {errno.errorcode[expected]}"
        return
    raise AssertionError(f"no error instead of {errno.errorcode[expected]}")


def events(sock, mask=select.POLLIN | select.POLLOUT, wait_ms=0):
    poll = select.poll()
    poll.register(sock, mask)
    return dict(poll.poll(wait_ms)).get(sock.fileno(), 0)


def sndrcv(stream=0, flags=0, ppid=0, context=0, lifetime=0, association=0):
    info = struct.pack("=HHHHIIIIIi", stream, 0, flags, 0, socket.htonl(ppid), context, lifetime, 0, 0, association)
    return [(SCTP, 1, info)]


def test_names_and_types():
    client, accepted = pair()
    assert client.getpeername() == accepted.getsockname()
    assert client.getsockname() == accepted.getpeername()
    assert client.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE) == socket.SOCK_STREAM
    assert client.getsockopt(socket.SOL_SOCKET, socket.SO_PROTOCOL) == SCTP
    fails_with(errno.ENOTCONN, stream_socket().getpeername)
    fails_with(errno.EISCONN, client.connect, ("127.0.0.1", 9))
    fails_with(errno.ENOTCONN, stream_socket().send, b"x")
    fails_with(errno.EINVAL, stream_socket().accept)


def test_messages_keep_their_borders_and_can_be_read_in_parts():
    client, accepted = pair()
    client.send(b"hello world")
    client.send(b"next")
    assert accepted.recv(5, socket.MSG_PEEK) == b"hello"
    data, _, flags, _ = accepted.recvmsg(5)
    assert (data, flags & MSG_EOR) == (b"hello", 0)
    assert events(accepted) & select.POLLIN, "the rest is readable"
    data, _, flags, _ = accepted.recvmsg(100)
    assert (data, flags & MSG_EOR) == (b" world", MSG_EOR)
    assert accepted.recv(100) == b"next"
    fails_with(errno.EINVAL, client.send, b"")
    large = os.urandom(150_000)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 200_000)
    client.send(large)
    received, ended = b"", False
    while not ended:
        data, _, flags, _ = accepted.recvmsg(100_000)
        received, ended = received + data, flags & MSG_EOR
    assert received == large
    fails_with(errno.EMSGSIZE, client.send, bytes(2_000_000))


def test_streams_identifiers_and_order():
    client, accepted = pair()
    accepted.setsockopt(SCTP, 32, 1)
    client.sendmsg([b"on seven"], sndrcv(stream=7, ppid=46, flags=1))
    _, control, _, _ = accepted.recvmsg(100, 200)
    [(level, kind, info)] = control
    stream, _, flags, _, ppid = struct.unpack_from("=HHHHI", info)
    assert (level, kind, stream, flags, socket.ntohl(ppid)) == (SCTP, 3, 7, 1, 46)
    fails_with(errno.EINVAL, client.sendmsg, [b"x"], sndrcv(stream=10))
    fails_with(errno.EINVAL, client.sendmsg, [b"x"], sndrcv(flags=0x4000))
    status = client.getsockopt(SCTP, 14, 200)
    assert len(status) == 176 and struct.unpack_from("=H", status, 18)[0] == 10, "SCTP_INITMSG's default"


def test_the_end():
    client, accepted = pair()
    client.send(b"last")
    client.shutdown(socket.SHUT_WR)
    assert accepted.recv(100) == b"last"
    assert accepted.recv(100) == b""
    assert client.recv(100) == b""
    assert events(client) & select.POLLHUP
    fails_with(errno.EPIPE, client.send, b"x")
    client, accepted = pair()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    fails_with(errno.ECONNRESET, accepted.recv, 100)
    assert accepted.recv(100) == b"", "the error is reported once"
    client, accepted = pair()
    client.sendmsg([b"why not"], sndrcv(flags=4))
    fails_with(errno.ECONNRESET, accepted.recv, 100)


def test_without_waiting():
    server = listener()
    server.setblocking(False)
    fails_with(errno.EAGAIN, server.accept)
    assert events(server) == 0, "nothing to accept, and never writable"
    client = stream_socket()
    client.setblocking(False)
    assert client.connect_ex(server.getsockname()) == errno.EINPROGRESS
    assert events(client, select.POLLOUT, 5_000) == select.POLLOUT
    assert client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
    assert events(server, select.POLLIN, 5_000) == select.POLLIN
    accepted, _ = server.accept()
    fails_with(errno.EAGAIN, client.recv, 100)
    accepted.settimeout(0.05)
    begun = time.monotonic()
    try:
        accepted.recv(100)
        raise AssertionError("nothing was sent")
    except TimeoutError:
        assert 0.04 < time.monotonic() - begun < 2
    accepted.setblocking(True)
    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 50_000))
    fails_with(errno.EAGAIN, accepted.recv, 100)
    # A peer that does not read makes the sender wait.
    sent = 0
    try:
        while sent < 100_000_000:
            sent += client.send(bytes(20_000))
        raise AssertionError("never full")
    except BlockingIOError:
        assert events(client, select.POLLOUT) == 0
    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 0))
    received = 0
    while received < sent:
        received += len(accepted.recv(20_000))
    assert events(client, select.POLLOUT, 5_000) == select.POLLOUT


def test_refusals():
    refused = stream_socket()
    fails_with(errno.ECONNREFUSED, refused.connect, ("127.0.0.1", 9))
    refused.connect(listener_for_retry.getsockname())
    refused = stream_socket()
    refused.setblocking(False)
    assert refused.connect_ex(("127.0.0.1", 9)) == errno.EINPROGRESS
    assert events(refused, select.POLLOUT, 5_000) & select.POLLOUT
    assert refused.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED
    port = listener_for_retry.getsockname()[1]
    fails_with(errno.EADDRINUSE, listener, port)
    fails_with(errno.EADDRNOTAVAIL, stream_socket().bind, ("192.0.2.1", 0))
    fails_with(errno.ENOPROTOOPT, refused.setsockopt, SCTP, 999, 1)
    fails_with(errno.ESOCKTNOSUPPORT, socket.socket, socket.AF_INET, socket.SOCK_DGRAM, SCTP)
    ordinary = socket.socket()
    ordinary.bind(("127.0.0.1", 0))
    assert ordinary.getsockopt(socket.SOL_SOCKET, socket.SO_PROTOCOL) == socket.IPPROTO_TCP


def test_notifications():
    server = listener()
    server.setsockopt(SCTP, 11, bytes([0, 1, 0, 0, 0, 1, 0, 0]))
    client = stream_socket()
    client.connect(server.getsockname())
    accepted, _ = server.accept()
    data, _, flags, _ = accepted.recvmsg(500)
    assert flags & MSG_NOTIFICATION and struct.unpack_from("=HHIH", data) == (0x8001, 0, 20, 0), "COMM_UP"
    client.close()
    kinds = []
    while data := accepted.recvmsg(500)[0]:
        kinds.append((*struct.unpack_from("=H", data), *struct.unpack_from("=H", data, 8)))
    assert kinds[0][0] == 0x8005 and kinds[1][:2] == (0x8001, 3), f"SHUTDOWN_EVENT, SHUTDOWN_COMP: {kinds}"


def test_duplicates_and_children():
    client, accepted = pair()
    duplicate = os.dup(accepted.fileno())
    client.send(b"one")
    assert os.read(duplicate, 100) == b"one"
    accepted.close()
    os.write(duplicate, b"still open")
    assert client.recv(100) == b"still open"
    # A child serves the association, and its parent closes it, as forking servers do.
    if (child := os.fork()) == 0:
        message = os.read(duplicate, 100)
        os.write(duplicate, b"child: " + message)
        os._exit(0)
    os.close(duplicate)
    client.send(b"two")
    assert client.recv(100) == b"child: two"
    os.waitpid(child, 0)
    assert client.recv(100) == b"", "the last descriptor is closed"
    # Another program inherits the descriptor.
    client, accepted = pair()
    os.set_inheritable(accepted.fileno(), True)
    script = f"import os; os.write({accepted.fileno()}, b'inherited')"
    os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", script])
    assert client.recv(100) == b"inherited"
    # A daemon closes all descriptors.
    if (child := os.fork()) == 0:
        os.closerange(3, 1_000)
        one, other = pair()
        one.send(b"from a daemon")
        os._exit(0 if other.recv(100) == b"from a daemon" else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_messages_of_a_killed_program_are_delivered():
    server = listener()
    child = os.fork()
    if child == 0:
        client = stream_socket()
        client.connect(server.getsockname())
        client.send(b"sent before the end")
        os.kill(os.getpid(), 9)
    os.waitpid(child, 0)
    connection, _ = server.accept()
    assert connection.recv(100) == b"sent before the end"


def test_one_to_many():
    server = socket.socket(socket.AF_INET, socket.SOCK_SEQPACKET, SCTP)
    server.bind(("127.0.0.1", 0))
    server.listen(16)
    server.setsockopt(SCTP, 11, bytes([1, 1]))
    many = socket.socket(socket.AF_INET, socket.SOCK_SEQPACKET, SCTP)
    clients = [stream_socket() for _ in range(3)]
    for client in clients:
        client.connect(server.getsockname())
    many.sendto(b"implicit", server.getsockname())
    associations, implicit = set(), None
    while implicit is None or len(associations) < 4:
        data, control, flags, source = server.recvmsg(500, 200)
        if flags & MSG_NOTIFICATION:
            associations.add(struct.unpack_from("=i", data, 16)[0])
        else:
            assert data == b"implicit" and control[0][1] == 1
            implicit = struct.unpack_from("=i", control[0][2], 28)[0]
            server.sendmsg([b"answer"], sndrcv(association=implicit))
    assert many.recv(100) == b"answer"
    assert struct.unpack("=I", server.getsockopt(SCTP, 28, 4)) == (4,)
    # sctp_peeloff()
    libc = ctypes.CDLL(None, use_errno=True)
    argument, size = ctypes.create_string_buffer(struct.pack("=ii", implicit, 0)), ctypes.c_int(8)
    own = libc.getsockopt(server.fileno(), SCTP, 102, argument, ctypes.byref(size))
    assert own >= 0, os.strerror(ctypes.get_errno())
    assert struct.unpack("=ii", argument.raw[:8]) == (implicit, own)
    os.write(own, b"peeled")
    assert many.recv(100) == b"peeled"
    many.sendto(b"to the new one", server.getsockname())
    assert os.read(own, 100) == b"to the new one"
    assert struct.unpack("=I", server.getsockopt(SCTP, 28, 4)) == (3,)


def test_ipv6():
    server = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, SCTP)
    server.bind(("::1", 0))
    server.listen(1)
    client = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, SCTP)
    client.connect(server.getsockname())
    accepted, peer = server.accept()
    assert peer[0] == "::1" and peer == client.getsockname(), f"{peer} {client.getsockname()}"


def growth(cycles):
    """Prints the process' and the engine's descriptors, threads and memory before and after connections."""
    engine = os.getppid()

    def gauge(process):
        status = dict(line.split(":", 1) for line in open(f"/proc/{process}/status"))
        return len(os.listdir(f"/proc/{process}/fd")), int(status["Threads"]), int(status["VmRSS"].split()[0])

    server = listener()
    for cycle in range(cycles + 1):
        client = stream_socket()
        client.connect(server.getsockname())
        accepted, _ = server.accept()
        client.send(b"x")
        assert accepted.recv(9) == b"x"
        client.close()
        assert accepted.recv(9) == b""
        accepted.close()
        if cycle % (cycles // 5) == 0:
            time.sleep(0.3)
            print(cycle, "program", gauge("self"), "engine", gauge(engine), flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        growth(int(sys.argv[1]))
        sys.exit()
    listener_for_retry = listener()
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test()
            print(f"{name} ok", flush=True)
