#!/usr/bin/env python3
"""Lines of logs over a bad network: rsyslog over UDP, TCP and RELP beside `festina syslog`, at the same time.

Needs root, `rsyslog`, `rsyslog-relp` and `iproute2`:

    bench/syslog/compare.py --festina target/release/festina --time 60 --loss 5% --delay 40ms

Two network namespaces, `festina emulate tun` between them. A program sends lines of 250 bytes over UDP on its own machine to a relay there, each
with the time at which it was sent; the relay brings them to the other machine, which writes a file. The delay is from the program to the
file. `--figure FILE.svg` draws the share of important lines that take longer than a delay.
"""

import argparse
import json
import math
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

MIX = [1, 2, 8, 65, 150, 174, 300, 300]
LEFT, RIGHT = "festina-log-l", "festina-log-r"
SENT = re.compile(r"line (\d+) sent=(\d+) ")
# A colour and a dash for each system: neither is the only key.
STROKES = {"rsyslog, UDP": ("#767676", "2 3"), "rsyslog, TCP": ("#b35900", "8 3"), "rsyslog, RELP": ("#7a3ea8", "10 3 2 3"), "festina syslog": ("#0a6fb5", "")}


def severity_of(number):
    place = number * 617 % 1000
    for severity, share in enumerate(MIX):
        if place < share:
            return severity
        place -= share
    return 7


def generate(port, rate, seconds):
    """Sends lines, evenly spaced."""
    peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    begin = time.monotonic()
    for number in range(int(rate * seconds)):
        time.sleep(max(0, begin + number / rate - time.monotonic()))
        text = f"<{128 + severity_of(number)}>Oct 11 22:14:15 box app: line {number} sent={time.monotonic_ns()} "
        peer.sendto(text.ljust(250, "-").encode(), ("127.0.0.1", port))


def watch(path, arrived, stop):
    """Notes when each line is in the file. A line that is there twice is noted twice."""
    offset, rest = 0, ""
    while not stop.is_set():
        try:
            with open(path, errors="replace") as file:
                file.seek(offset)
                text = file.read()
                offset = file.tell()
        except FileNotFoundError:
            text = ""
        now = time.monotonic_ns()
        lines = (rest + text).split("\n")
        rest = lines.pop()
        for line in lines:
            found = SENT.search(line)
            if found:
                arrived.append((int(found[1]), (now - int(found[2])) / 1e6))
        time.sleep(0.001)


def dropped_by_kernel(namespace):
    """Datagrams dropped by the kernel because a socket buffer was full, by port."""
    table = subprocess.run(inside(namespace, "cat", "/proc/net/udp"), capture_output=True, text=True, check=True).stdout
    rows = [row.split() for row in table.splitlines()[1:]]
    return {int(row[1].split(":")[1], 16): int(row[12]) for row in rows}


def inside(namespace, *command):
    return ["ip", "netns", "exec", namespace, *command]


def rsyslog(directory, name, config):
    path = os.path.join(directory, name)
    os.makedirs(path)
    with open(path + ".conf", "w") as file:
        file.write(f'global(workDirectory="{path}")\n{config}')
    return ["rsyslogd", "-n", "-f", path + ".conf", "-i", path + ".pid"]


def systems(directory, festina, redundancy, plain):
    """Name, port for lines, output, the command of the receiver, and that of the sender."""
    udp = 'module(load="imudp")\ninput(type="imudp" address="127.0.0.1" port="{}")\n'
    keep = 'queue.type="LinkedList" action.resumeRetryCount="-1" action.resumeInterval="1"'
    out = lambda name: os.path.join(directory, name + ".log")
    raw = 'template(name="raw" type="string" string="%rawmsg%\\n")\n'
    store = lambda name: f'{raw}action(type="omfile" file="{out(name)}" template="raw")\n'
    yield (
        "rsyslog, UDP", 5513, out("udp"),
        rsyslog(directory, "udp-r", f'module(load="imudp")\ninput(type="imudp" port="6002")\n{store("udp")}'),
        rsyslog(directory, "udp-l", udp.format(5513) + f'action(type="omfwd" target="10.77.0.2" port="6002" protocol="udp" {keep})\n'),
    )
    yield (
        "rsyslog, TCP", 5514, out("tcp"),
        rsyslog(directory, "tcp-r", f'module(load="imtcp")\ninput(type="imtcp" port="6000")\n{store("tcp")}'),
        rsyslog(directory, "tcp-l", udp.format(5514) + f'action(type="omfwd" target="10.77.0.2" port="6000" protocol="tcp" {keep})\n'),
    )
    yield (
        "rsyslog, RELP", 5515, out("relp"),
        rsyslog(directory, "relp-r", f'module(load="imrelp")\ninput(type="imrelp" port="6001")\n{store("relp")}'),
        rsyslog(directory, "relp-l", udp.format(5515) + f'module(load="omrelp")\naction(type="omrelp" target="10.77.0.2" port="6001" {keep})\n'),
    )
    state = os.path.join(directory, "festina")
    admits, trusts = ("plain = true", "plain = true") if plain else ('relays = "any"', "")
    with open(state + "-r.toml", "w") as file:
        file.write(f'state = "{state}-r"\nlisten = "10.77.0.2:9899"\nmetrics = "127.0.0.1:9602"\n[[output]]\nkind = "file"\npath = "{out("festina")}"\n[security]\n{admits}\n')
    with open(state + "-l.toml", "w") as file:
        file.write(f'state = "{state}-l"\nredundancy = "{redundancy}"\ncollector = "10.77.0.2:9899"\nmetrics = "127.0.0.1:9601"\n[[input]]\nkind = "udp"\nlisten = "127.0.0.1:5516"\n[security]\n{trusts}\n')
    yield (
        "festina syslog", 5516, out("festina"),
        [festina, "syslog", "collect", state + "-r.toml"], [festina, "syslog", "relay", state + "-l.toml"],
    )


def quantile(values, share):
    values = sorted(values)
    return values[min(int(len(values) * share), len(values) - 1)] if values else float("nan")


def runs_of(numbers):
    """First and last of neighbours: lines that are missing in a row were lost at one moment."""
    runs = []
    for number in sorted(numbers):
        if runs and runs[-1][1] + 1 == number:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return runs


def report(name, count, arrived):
    first = {}
    for number, delay in arrived:
        first.setdefault(number, delay)
    classes = {"important": range(0, 4), "normal": range(4, 7), "debug": range(7, 8)}
    result = {"system": name, "twice": len(arrived) - len(first)}
    missing = [number for number in range(count) if number not in first and severity_of(number) < 7]
    result["missing_runs"] = runs_of(missing)[:20]
    for label, severities in classes.items():
        numbers = [number for number in range(count) if severity_of(number) in severities]
        delays = [first[number] for number in numbers if number in first]
        result[label] = {
            "sent": len(numbers), "missing": len(numbers) - len(delays),
            "median_ms": round(quantile(delays, 0.5), 1), "p99_ms": round(quantile(delays, 0.99), 1), "max_ms": round(max(delays, default=float("nan")), 1),
        }
    return result


def important_delays(count, arrived):
    """The delays of important lines, shortest first, without those that are missing, and how many were sent."""
    first = {}
    for number, delay in arrived:
        first.setdefault(number, delay)
    numbers = [number for number in range(count) if severity_of(number) < 4]
    return sorted(first[number] for number in numbers if number in first), len(numbers)


def draw(path, title, series):
    """The share of important lines that take longer than a delay, both axes logarithmic. A line that ends above the axis ends at its missing ones."""
    width, height, left, right, top, bottom = 760, 420, 66, 20, 50, 96
    longest = max((delays[-1] for delays, _ in series.values() if delays), default=100)
    shortest = min((delays[0] for delays, _ in series.values() if delays), default=1)
    low, high = max(shortest, 0.1) * 0.8, longest * 1.15
    least = 1 / (2 * max(sent for _, sent in series.values()))
    x = lambda ms: left + (width - left - right) * math.log(max(ms, low) / low) / math.log(high / low)
    y = lambda share: top + (height - top - bottom) * math.log(1 / max(share, least)) / math.log(1 / least)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{left}" y="22" font-size="15">{title}</text>',
        f'<text x="{left}" y="40" fill="#555">share of important lines that take longer, or never come</text>',
    ]
    for ms in (1, 2, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1000, 2000, 3000, 5000, 10000):
        if low <= ms <= high:
            parts.append(f'<path d="M{x(ms):.1f} {top}V{height - bottom}" stroke="#ddd"/><text x="{x(ms):.1f}" y="{height - bottom + 18}" text-anchor="middle">{ms}</text>')
    for share, label in ((1, "100 %"), (0.1, "10 %"), (0.01, "1 %"), (0.001, "0.1 %"), (0.0001, "0.01 %")):
        if share >= least:
            parts.append(f'<path d="M{left} {y(share):.1f}H{width - right}" stroke="#ddd"/><text x="{left - 8}" y="{y(share) + 4:.1f}" text-anchor="end">{label}</text>')
    parts.append(f'<text x="{(left + width - right) / 2}" y="{height - bottom + 38}" text-anchor="middle">from the program to the file, milliseconds</text>')
    for place, (name, (delays, sent)) in enumerate(series.items()):
        colour, dash = STROKES[name]
        line = f"M{x(low):.1f} {y(1):.1f}"
        for index, delay in enumerate(delays):
            line += f"H{x(delay):.1f}V{y((sent - index - 1) / sent):.1f}"
        if len(delays) < sent:
            line += f"H{width - right}"
        stroke = f'stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"'
        parts.append(f'<path d="{line}" fill="none" {stroke}/>')
        column, row = left + place % 2 * 380, height - 34 + place // 2 * 20
        missing = f", {sent - len(delays)} of {sent} missing" if len(delays) < sent else ""
        parts.append(f'<path d="M{column} {row - 4}h34" {stroke}/><text x="{column + 42}" y="{row}">{name}: p99 {quantile(delays, 0.99):.0f} ms{missing}</text>')
    with open(path, "w") as file:
        file.write("\n".join(parts) + "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--festina", default="target/release/festina")
    parser.add_argument("--time", type=float, default=60)
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--loss", default="5%")
    parser.add_argument("--delay", default="40ms")
    parser.add_argument("--link", default="", help="the rate of the network, as in 1Mbit/s")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--redundancy", default="off", help="of important lines, see relay.toml")
    parser.add_argument("--plain", action="store_true", help="festina syslog without encryption, as rsyslog")
    parser.add_argument("--figure", help="draw the delays of important lines into this file (SVG)")
    parser.add_argument("--generate", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.generate:
        port, rate, seconds = arguments.generate
        return generate(int(port), float(rate), float(seconds))
    festina = os.path.abspath(arguments.festina)
    directory = tempfile.mkdtemp(prefix="festina-log-")
    processes = []

    def start(command):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=open(os.path.join(directory, "errors"), "a"))
        processes.append(process)
        return process

    try:
        for namespace in (LEFT, RIGHT):
            subprocess.run(["ip", "netns", "add", namespace], check=True)
            subprocess.run(inside(namespace, "ip", "link", "set", "lo", "up"), check=True)
        link = ["--rate", arguments.link] if arguments.link else []
        start([festina, "emulate", "tun", "--left", LEFT, "--right", RIGHT, "--delay", arguments.delay, "--loss", arguments.loss,
               "--seed", arguments.seed, *link])
        time.sleep(2)
        runs = list(systems(directory, festina, arguments.redundancy, arguments.plain))
        for _, _, _, receiver, _ in runs:
            start(inside(RIGHT, *receiver))
        time.sleep(2)
        for _, _, _, _, sender in runs:
            start(inside(LEFT, *sender))
        time.sleep(5)
        stop = threading.Event()
        arrivals = {name: [] for name, *_ in runs}
        for name, _, out, _, _ in runs:
            threading.Thread(target=watch, args=(out, arrivals[name], stop)).start()
        generators = [
            start(inside(LEFT, sys.executable, os.path.abspath(__file__), "--generate", str(port), str(arguments.rate), str(arguments.time)))
            for _, port, *_ in runs
        ]
        for generator in generators:
            generator.wait()
        time.sleep(15)
        stop.set()
        time.sleep(0.1)
        subprocess.run(inside(LEFT, festina, "syslog", "status", "--json", "127.0.0.1:9601"), check=False)
        subprocess.run(inside(RIGHT, festina, "syslog", "status", "--json", "127.0.0.1:9602"), check=False)
        dropped = dropped_by_kernel(LEFT)
        print(json.dumps({"dropped_by_kernel": {name: dropped.get(port, 0) for name, port, *_ in runs}}))
        for name, *_ in runs:
            print(json.dumps(report(name, int(arguments.rate * arguments.time), arrivals[name])))
        if arguments.figure:
            count = int(arguments.rate * arguments.time)
            title = f"{arguments.rate:g} lines a second for {arguments.time:g} s, {arguments.delay} and {arguments.loss} loss each way"
            draw(arguments.figure, title, {name: important_delays(count, arrivals[name]) for name, *_ in runs})
    finally:
        for process in reversed(processes):
            process.terminate()
        for process in processes:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
        for namespace in (LEFT, RIGHT):
            subprocess.run(["ip", "netns", "delete", namespace], check=False)
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
