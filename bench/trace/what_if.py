#!/usr/bin/env python3
"""What `festina trace what-if` predicts beside what happens, for thin streams of this machine's TCP over a network that loses packets.

    bench/trace/what_if.py                                    64 connections, 100 bytes every 250 ms, 50 ms and 5 % each way
    bench/trace/what_if.py --intervals 20,50,100,200,300,500  a mix, connection by connection
    bench/trace/what_if.py --capture FILE --delay 25          a capture of such streams at their sender that exists already

Needs Linux, `tshark`, and `festina` in the PATH or by --festina; root or user namespaces, as `festina emulate run` says. Prints the 99th percentile
of the delay to acknowledgement as captured and as simulated. If all connections have the same interval, it prints as well what `festina compare` measures with real
sockets next to the prediction. --keep FOLDER keeps captures and results.
"""

import argparse
import json
import pathlib
import selectors
import socket
import subprocess
import sys
import tempfile
import time

SERVER = ("10.77.0.2", 7000)
MESSAGE = bytes(100)


def serve():
    """Reads all data until it is ended."""
    ready = selectors.DefaultSelector()
    listener = socket.create_server(SERVER, backlog=1024)
    ready.register(listener, selectors.EVENT_READ)
    while True:
        for key, _ in ready.select():
            if key.fileobj is listener:
                ready.register(listener.accept()[0], selectors.EVENT_READ)
            elif not key.fileobj.recv(1 << 16):
                ready.unregister(key.fileobj)
                key.fileobj.close()


def write(connections, intervals_ms, seconds, congestion):
    """Each connection writes at its own interval; connections begin spread over theirs."""
    streams = [socket.create_connection(SERVER) for _ in range(connections)]
    for stream in streams:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion.encode())
    begin = time.monotonic()
    intervals = [intervals_ms[n % len(intervals_ms)] / 1e3 for n in range(connections)]
    due = [begin + interval * n / connections for n, interval in enumerate(intervals)]
    while (now := time.monotonic()) < begin + seconds:
        for n, stream in enumerate(streams):
            if due[n] <= now:
                stream.sendall(MESSAGE)
                due[n] += intervals[n]
        time.sleep(max(0.0, min(due) - time.monotonic()))
    # The last losses are still retransmitted.
    time.sleep(5)


def capture(options, folder):
    """Lets the kernel's TCP write, and returns what a capture at the sender holds."""
    both, sender = folder / "both.pcapng", folder / "sender.pcapng"
    this = f"{sys.executable} {pathlib.Path(__file__).resolve()}"
    intervals = ",".join(f"{interval:g}" for interval in options.intervals)
    client = f"{this} --role write --streams {options.streams} --intervals {intervals} --duration {options.duration} "\
        f"--congestion {options.congestion}"
    subprocess.run(
        [options.festina, "emulate", "run", "--delay", f"{options.delay}ms", "--loss", f"{options.loss}%",
         "--back-loss", f"{options.loss}%", "--seed", str(options.seed), "--pcap", both, "--force", "--server", f"{this} --role serve", "--client", client],
        check=True, stderr=subprocess.DEVNULL)
    subprocess.run(["tshark", "-r", both, "-Y", 'frame.interface_name == "client"', "-w", sender],
                   check=True, stderr=subprocess.DEVNULL)
    return sender


def compare(options, folder):
    """The 99th percentile of each profile over the same network, in milliseconds."""
    command = [options.festina, "compare", "--profiles", "festina,rfc9260", "--associations", str(options.streams),
               "--interval", f"{options.intervals[0]:g}ms", "--duration", f"{options.duration}s", "--rtt", f"{2 * options.delay}ms",
               "--loss", f"{options.loss}%", "--seed", str(options.seed), "--html", folder / "compare.html",
               "--svg", folder / "compare.svg", "--force", "--json"]
    document = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    (folder / "compare.json").write_text(json.dumps(document, indent=1))
    return document


def row(what, predicted, found, within):
    print(f"{what:44}{predicted:11.1f}{found:11.1f}{100 * (predicted / found - 1):+9.1f} %   {within}")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--festina", default="festina")
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--intervals", type=lambda text: [float(part) for part in text.split(",")], default=[250.0])
    parser.add_argument("--duration", type=int, default=100, help="seconds of writing")
    parser.add_argument("--delay", type=int, default=50, help="milliseconds one way")
    parser.add_argument("--loss", type=float, default=5.0, help="per cent each way")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--congestion", default="cubic", help="the kernel's congestion control, as tcp_available_congestion_control names it")
    parser.add_argument("--capture", type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--role", choices=["serve", "write"], help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    options = arguments()
    if options.role == "serve":
        return serve()
    if options.role == "write":
        return write(options.streams, options.intervals, options.duration, options.congestion)
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        sender = options.capture or capture(options, folder)
        answer = subprocess.run([options.festina, "trace", "what-if", "--json", sender], check=True, capture_output=True).stdout
        (folder / "what-if.json").write_bytes(answer)
        answer = json.loads(answer)
        baseline = answer["baseline"][0]
        low, high = baseline["capture_p99_interval_ms"]
        print(f"{answer['flows']} streams, {answer['writes']} writes, loss {100 * answer['loss_there']:.2f} % there, "
              f"{100 * answer['loss_back']:.2f} % back, round trip {answer['rtt_ms'][1]:.1f} ms")
        print(f"{'99th percentile, in ms':44}{'predicted':>11}{'found':>11}{'':>11}")
        row(f"{baseline['name']}, to acknowledgement, captured", baseline["simulated"]["p99_ms"], baseline["capture"]["p99_ms"],
            f"chance leaves {low:.0f} to {high:.0f} open")
        if options.capture is None and len(set(options.intervals)) == 1:
            predicted = {transport["name"]: transport["p99_ms"] for transport in answer["transports"]}
            measured = compare(options, folder)
            for result in measured["results"]:
                name = f"SCTP, {result['profile']}"
                row(f"{name}, to delivery, compared", predicted[name], result['delivery_ms']['p99'], "")


if __name__ == "__main__":
    main()
