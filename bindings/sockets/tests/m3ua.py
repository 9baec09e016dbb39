"""An M3UA peer (RFC 4666): ASP Up, and the acknowledgement of osmo-stp."""

import socket
import struct

MANAGEMENT, ASP_UP, ASP_UP_ACK, PPID = 3, 1, 4, 3

sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)
sock.connect(("127.0.0.1", 2905))
message = struct.pack(">BBBBI", 1, 0, MANAGEMENT, ASP_UP, 8)
info = struct.pack("=HHHHIIIIIi", 0, 0, 0, 0, socket.htonl(PPID), 0, 0, 0, 0, 0)
sock.sendmsg([message], [(132, 1, info)])
sock.settimeout(10)
answer = sock.recv(4096)
assert (answer[2], answer[3]) == (MANAGEMENT, ASP_UP_ACK), answer
sock.shutdown(socket.SHUT_WR)
assert sock.recv(100) == b""
print("ASP Up is acknowledged")
