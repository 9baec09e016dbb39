"""The SCTP sockets API as programs see it. Runs under `festina sctp run`, as client and server of itself."""

import ctypes
import errno
import fcntl
import os
import select
import socket
import struct
import sys
import tempfile
import termios
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
    client.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 184)
    assert client.getsockopt(socket.IPPROTO_IP, socket.IP_TOS) == 184
    port = lambda sock: struct.unpack_from(">H", sock.getsockopt(SCTP, 132, 200), 136)[0]
    assert port(client) == port(accepted) == 19_800 and port(stream_socket()) == 0
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
    assert struct.unpack_from("=i", client.getsockopt(SCTP, 14, 200), 4)[0] == 1, "SCTP_CLOSED"
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


def test_timers_and_limits():
    rtoinfo = lambda *numbers, association=0: struct.pack("=iIII", association, *numbers)
    rto = lambda sock: struct.unpack_from("=I", sock.getsockopt(SCTP, 14, 200), 168)[0]
    server = listener()
    server.setsockopt(SCTP, 0, rtoinfo(2_000, 9_000, 1_500))
    client = stream_socket()
    client.connect(server.getsockname())
    accepted, _ = server.accept()
    assert accepted.getsockopt(SCTP, 0, 64)[4:] == rtoinfo(2_000, 9_000, 1_500)[4:], "as the listening socket"
    assert rto(accepted) == 1_500 and rto(client) < 1_500
    client.setsockopt(SCTP, 0, rtoinfo(0, 0, 3_000))
    assert rto(client) == 3_000, "at once"
    fails_with(errno.EINVAL, client.setsockopt, SCTP, 0, rtoinfo(0, 2_000, 0))
    # struct sctp_assocparams
    client.setsockopt(SCTP, 1, struct.pack("=iHHIII", 0, 4, 0, 0, 0, 0))
    retries, paths, window = struct.unpack_from("=HHI", client.getsockopt(SCTP, 1, 64), 4)
    assert (retries, paths) == (4, 1) and window > 0
    fails_with(errno.EOPNOTSUPP, client.setsockopt, SCTP, 1, struct.pack("=iHHIII", 0, 0, 0, 0, 0, 5_000))
    # struct sctp_paddrparams, of the peer's address and of another
    address = lambda text, port: struct.pack("=H", socket.AF_INET) + struct.pack("!H", port) + socket.inet_aton(text)
    path = lambda place, flags: struct.pack("=i128sIHIIIIBx", 0, place, 5_000, 0, 0, 0, flags, 0, 0)
    client.setsockopt(SCTP, 9, path(address("127.0.0.1", server.getsockname()[1]), 1))
    assert struct.unpack_from("=I", client.getsockopt(SCTP, 9, 156), 132)[0] == 5_000
    fails_with(errno.EINVAL, client.setsockopt, SCTP, 9, path(address("127.0.0.9", 9), 1))
    fails_with(errno.EOPNOTSUPP, client.setsockopt, SCTP, 9, path(b"", 4))
    client.setsockopt(SCTP, 16, struct.pack("=iII", 0, 0, 1))
    assert client.getsockopt(SCTP, 16, 12)[4:] == struct.pack("=II", 0, 1)
    # One-to-many: those of an association, and those of associations to come.
    many = socket.socket(socket.AF_INET, socket.SOCK_SEQPACKET, SCTP)
    many.setsockopt(SCTP, 11, bytes([0, 1]))
    many.connect(server.getsockname())
    association = struct.unpack_from("=i", many.recv(100), 16)[0]
    many.setsockopt(SCTP, 0, rtoinfo(0, 0, 400, association=association))
    many.setsockopt(SCTP, 0, rtoinfo(0, 0, 600))
    shown = ctypes.create_string_buffer(rtoinfo(0, 0, 0, association=association)), ctypes.c_int(16)
    assert ctypes.CDLL(None).getsockopt(many.fileno(), SCTP, 0, shown[0], ctypes.byref(shown[1])) == 0
    assert shown[0].raw[:16] == rtoinfo(1_000, 60_000, 400, association=association)
    shown = ctypes.create_string_buffer(rtoinfo(0, 0, 0)), ctypes.c_int(16)
    assert ctypes.CDLL(None).getsockopt(many.fileno(), SCTP, 0, shown[0], ctypes.byref(shown[1])) == 0
    assert shown[0].raw[:16] == rtoinfo(1_000, 60_000, 600)
    fails_with(errno.EINVAL, many.setsockopt, SCTP, 0, rtoinfo(0, 0, 400, association=association + 1_000))


def test_idle_associations_are_closed():
    fails_with(errno.EOPNOTSUPP, stream_socket().setsockopt, SCTP, 4, 1)
    server = listener()
    many = socket.socket(socket.AF_INET, socket.SOCK_SEQPACKET, SCTP)
    many.setsockopt(SCTP, 4, 1)
    begun = time.monotonic()
    many.sendto(b"only this", server.getsockname())
    accepted, _ = server.accept()
    assert accepted.recv(100) == b"only this"
    assert accepted.recv(100) == b"", "it was shut down"
    assert 0.9 < time.monotonic() - begun < 10


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


def test_descriptors_as_libc_knows_them():
    client, accepted = pair()
    for command in [fcntl.F_DUPFD, fcntl.F_DUPFD_CLOEXEC]:
        duplicate = fcntl.fcntl(accepted, command, 50)
        client.send(b"ten bytes.")
        assert os.read(duplicate, 3) == b"ten"
        readable = struct.unpack("=i", fcntl.ioctl(duplicate, termios.FIONREAD, bytes(4)))[0]
        assert readable == 7 and os.read(duplicate, 0) == b"" and os.read(duplicate, 100) == b" bytes."
        os.close(duplicate)
    assert fcntl.ioctl(accepted, termios.FIONREAD, bytes(4)) == bytes(4)
    with tempfile.TemporaryFile() as file:
        file.write(b"x")
        fails_with(errno.EINVAL, os.sendfile, client.fileno(), file.fileno(), 0, 1)


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
    own = peel_off(server, implicit)
    os.write(own, b"peeled")
    assert many.recv(100) == b"peeled"
    many.sendto(b"to the new one", server.getsockname())
    assert os.read(own, 100) == b"to the new one"
    assert struct.unpack("=I", server.getsockopt(SCTP, 28, 4)) == (3,)


def sockaddr(text, port):
    return struct.pack("=H", socket.AF_INET) + struct.pack("!H", port) + socket.inet_aton(text) + bytes(8)


def address_list(sock, option):
    """sctp_getpaddrs() and sctp_getladdrs()."""
    value = sock.getsockopt(SCTP, option, 1_000)
    count = struct.unpack_from("=I", value, 4)[0]
    assert len(value) == 8 + 16 * count
    return [socket.inet_ntoa(value[at + 4 : at + 8]) for at in range(8, len(value), 16)]


def test_several_addresses():
    server, client = stream_socket(), stream_socket()
    # sctp_bindx()
    server.setsockopt(SCTP, 100, sockaddr("127.0.0.2", 0) + sockaddr("127.0.0.3", 0))
    port = server.getsockname()[1]
    server.listen(1)
    client.setsockopt(SCTP, 100, sockaddr("127.0.0.4", 0) + sockaddr("127.0.0.5", 0))
    own_port = client.getsockname()[1]
    assert client.getsockname()[0] == "127.0.0.4"
    fails_with(errno.EINVAL, client.setsockopt, SCTP, 100, sockaddr("127.0.0.5", own_port))
    fails_with(errno.EOPNOTSUPP, client.setsockopt, SCTP, 100, sockaddr("127.0.0.6", own_port))
    fails_with(errno.EOPNOTSUPP, client.setsockopt, SCTP, 101, sockaddr("127.0.0.5", own_port))
    client.setsockopt(SCTP, 11, bytes([0, 0, 1]))
    # sctp_connectx()
    client.setsockopt(SCTP, 110, sockaddr("127.0.0.2", port) + sockaddr("127.0.0.3", port))
    accepted, _ = server.accept()
    data, _, flags, _ = client.recvmsg(200)
    kind, state = struct.unpack_from("=H", data)[0], struct.unpack_from("=i", data, 136)[0]
    assert flags & MSG_NOTIFICATION and (kind, state) == (0x8002, 5), "the other address is confirmed"
    assert data[12:16] == socket.inet_aton("127.0.0.3")
    assert address_list(client, 108) == ["127.0.0.2", "127.0.0.3"]
    assert address_list(accepted, 108) == ["127.0.0.4", "127.0.0.5"]
    assert address_list(accepted, 109) == ["127.0.0.2", "127.0.0.3"]
    primary = lambda: socket.inet_ntoa(client.getsockopt(SCTP, 6, 200)[8:12])
    assert primary() == "127.0.0.2"
    client.setsockopt(SCTP, 6, struct.pack("=i128s", 0, sockaddr("127.0.0.3", port)))
    assert primary() == "127.0.0.3"
    fails_with(errno.EINVAL, client.setsockopt, SCTP, 6, struct.pack("=i128s", 0, sockaddr("127.0.0.9", port)))
    client.send(b"by the other network")
    assert accepted.recv(100) == b"by the other network"
    client.close()
    assert accepted.recv(100) == b""


def test_one_to_many_sends_to_several_peers():
    servers = [listener() for _ in range(3)]
    many = socket.socket(socket.AF_INET, socket.SOCK_SEQPACKET, SCTP)
    for server in servers:
        many.sendto(b"first", server.getsockname())
        accepted, source = server.accept()
        assert accepted.recv(100) == b"first"
        assert source[1] == many.getsockname()[1], "all from one port"


def peel_off(sock, association):
    """sctp_peeloff()"""
    libc = ctypes.CDLL(None, use_errno=True)
    argument, size = ctypes.create_string_buffer(struct.pack("=ii", association, 0)), ctypes.c_int(8)
    own = libc.getsockopt(sock.fileno(), SCTP, 102, argument, ctypes.byref(size))
    assert own >= 0, os.strerror(ctypes.get_errno())
    assert struct.unpack("=ii", argument.raw[:8]) == (association, own)
    return own


def test_messages_move_with_their_association():
    server = socket.socket(socket.AF_INET, socket.SOCK_SEQPACKET, SCTP)
    server.bind(("127.0.0.1", 0))
    server.listen(16)
    server.setsockopt(SCTP, 11, bytes([1]))
    clients = [stream_socket() for _ in range(2)]
    for client in clients:
        client.connect(server.getsockname())
        client.send(b"who")
    associations = {}
    for _ in clients:
        _, control, _, source = server.recvmsg(100, 200)
        associations[source] = struct.unpack_from("=i", control[0][2], 28)[0]
    for number in range(5):
        for client in clients:
            client.send(b"%d of %d" % (number, clients.index(client)))
    time.sleep(0.3)
    server.recv(2)
    first = b"0 of 0"
    own = peel_off(server, associations[clients[0].getsockname()])
    clients[0].send(b"5 of 0")
    # The rest of the message that was read in part, and all others in their order.
    received = [os.read(own, 100) for _ in range(6)]
    assert received in ([b"of 0"] + [b"%d of 0" % number for number in range(1, 6)], [b"%d of 0" % number for number in range(6)]), received
    rest = [server.recv(100) for _ in range(5)]
    assert rest in ([b"of 1"] + [b"%d of 1" % number for number in range(1, 5)], [b"%d of 1" % number for number in range(5)]), rest
    assert (received[0] == first) != (rest[0] == b"0 of 1"), "one of them was read in part"


def test_a_connection_that_was_aborted_is_not_accepted():
    server = listener()
    gone, client = stream_socket(), stream_socket()
    gone.connect(server.getsockname())
    gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    gone.close()
    time.sleep(0.3)
    client.connect(server.getsockname())
    accepted, peer = server.accept()
    assert peer == client.getsockname() == accepted.getpeername()


def test_an_association_that_is_not_there():
    server = listener()
    many = socket.socket(socket.AF_INET, socket.SOCK_SEQPACKET, SCTP)
    many.setsockopt(SCTP, 11, bytes([0, 1, 0, 1]))
    fails_with(errno.EPIPE, many.sendmsg, [b"x"], sndrcv(association=1_000_000))
    many.connect(server.getsockname())
    accepted, _ = server.accept()
    association = struct.unpack_from("=i", many.recv(100), 16)[0]
    many.sendmsg([b"there"], sndrcv(association=association))
    assert accepted.recv(100) == b"there"
    accepted.close()
    time.sleep(0.3)
    # The program has not read of the end yet, so it learns of the failure as of one that came later.
    many.sendmsg([b"late"], sndrcv(association=association))
    kinds = {struct.unpack_from("=H", many.recv(200))[0] for _ in range(2)}
    assert kinds == {0x8001, 0x8003}, "SCTP_ASSOC_CHANGE and SCTP_SEND_FAILED"
    fails_with(errno.EPIPE, many.sendmsg, [b"x"], sndrcv(association=association))


def test_sockets_at_any_address_and_at_one():
    """Whichever is opened first, and although all associations share a UDP port."""
    everywhere = stream_socket()
    everywhere.bind(("0.0.0.0", 0))
    everywhere.listen(1)
    here = stream_socket()
    here.bind(("127.0.0.77", 0))
    here.listen(1)
    for address, server in [
        (("127.0.0.1", everywhere.getsockname()[1]), everywhere),
        (("127.0.0.77", everywhere.getsockname()[1]), everywhere),
        (("127.0.0.78", everywhere.getsockname()[1]), everywhere),
        (here.getsockname(), here),
    ]:
        client = stream_socket()
        client.connect(address)
        client.send(b"to " + address[0].encode())
        accepted, _ = server.accept()
        assert accepted.recv(100) == b"to " + address[0].encode()
    fails_with(errno.ECONNREFUSED, stream_socket().connect, ("127.0.0.1", here.getsockname()[1]))


def test_two_sockets_for_two_versions_of_ip():
    """As ncat and most servers listen."""
    six, four = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, SCTP), stream_socket()
    six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    assert six.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY) == 1
    six.bind(("::", 0))
    port = six.getsockname()[1]
    four.bind(("0.0.0.0", port))
    six.listen(1)
    four.listen(1)
    both = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, SCTP)
    both.bind(("::", port))
    fails_with(errno.EADDRINUSE, both.listen, 1)
    for address, server in [("::1", six), ("127.0.0.1", four)]:
        client = socket.socket(server.family, socket.SOCK_STREAM, SCTP)
        client.connect((address, port))
        client.send(b"to " + address.encode())
        accepted, peer = server.accept()
        assert peer[0] == address and accepted.recv(100) == b"to " + address.encode()


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
