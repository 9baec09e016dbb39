#!/usr/bin/env python3
"""What `festina trace` finds in real captures beside tshark's `tcp.analysis`, packet by packet.

    bench/trace/against_tshark.py                        fetches Debian's source packages that ship captures
    bench/trace/against_tshark.py --captures FOLDER      uses the files of a folder
    bench/trace/against_tshark.py --keep FOLDER          keeps the fetched files there

Needs `tshark`, `cargo`, and for fetching `apt-get` on Debian: source lists of its own are used, and nothing is installed. Prints a table by capture, then each class of difference with its reason and examples. A
difference without a reason makes it end with 1.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile

PACKAGES = ["tcpdump", "wireshark", "ndpi", "tcpflow", "libpcap", "tcptrace", "tcpreplay", "scapy", "argus", "nfdump"]
ENDINGS = (".pcap", ".pcapng", ".cap", ".dmp", ".pcap.gz", ".pcapng.gz", ".cap.gz")
FIELDS = """frame.number frame.time_epoch tcp.stream ip.src ipv6.src tcp.srcport tcp.seq_raw tcp.ack_raw tcp.len tcp.window_size_value tcp.flags ip.id
    tcp.analysis.retransmission tcp.analysis.fast_retransmission tcp.analysis.spurious_retransmission tcp.analysis.out_of_order
    _ws.malformed.expert tcp.analysis.initial_rtt ip.bogus_ip_length tcp.bogus_header_length""".split()
SYN, FIN, RST = 2, 1, 4
NONE, AGAIN, LATE = "-", "sent again", "out of order"


def installed_from():
    """The archive and release of Debian that this machine installs from."""
    form = "$(ORIGIN)|$(REPO_URI)|$(CODENAME)|$(COMPONENT)"
    command = ["apt-get", "indextargets", "--format", form, "Created-By: Packages"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    for line in lines:
        origin, address, release, component = line.split("|")
        if origin == "Debian" and component == "main" and not release.endswith(("-updates", "-security")):
            return address, release
    sys.exit("this machine does not install from Debian; fetch captures otherwise and name their folder by --captures")


def fetch(folder):
    """Captures of Debian's source packages; one that the mirror does not have is left out."""
    sources = folder / "apt.sources"
    address, suite = installed_from()
    keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
    sources.write_text(
        f"Types: deb-src\nURIs: {address}\nSuites: {suite}\nComponents: main\nSigned-By: {keyring}\n"
    )
    lists = folder / "lists"
    lists.mkdir(exist_ok=True)
    options = ["-o", f"Dir::Etc::sourcelist={sources}", "-o", "Dir::Etc::sourceparts=/dev/null"]
    options += ["-o", f"Dir::State::lists={lists}"]
    subprocess.run(["apt-get", "-qq", *options, "update"], check=True)
    captures = folder / "captures"
    for package in PACKAGES:
        place = folder / "source" / package
        place.mkdir(parents=True, exist_ok=True)
        command = ["apt-get", "-qq", *options, "source", "--download-only", package]
        subprocess.run(command, cwd=place, capture_output=True, check=False)
        archives = [path for path in place.glob("*.orig*.tar.*") if not path.name.endswith(".asc")]
        if not archives:
            print(f"{package}: the mirror does not have its source", file=sys.stderr)
        for archive in archives:
            with tarfile.open(archive) as tar:
                for member in tar:
                    name = pathlib.PurePosixPath(member.name)
                    if member.isfile() and name.name.endswith(ENDINGS):
                        target = captures.joinpath(package, *name.parts[1:])
                        target.parent.mkdir(parents=True, exist_ok=True)
                        target.write_bytes(tar.extractfile(member).read())
    return captures


def tshark(path):
    """Each TCP packet's fields by its number."""
    command = ["tshark", "-n", "-r", str(path), "-Y", "tcp", "-T", "fields", "-E", "separator=|", "-E", "occurrence=l"]
    for field in FIELDS:
        command += ["-e", field]
    result = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if "aren't valid" in result.stderr:
        sys.exit(result.stderr)
    packets = {}
    for line in result.stdout.splitlines():
        packet = dict(zip(FIELDS, line.split("|")))
        packets[int(packet["frame.number"])] = packet
    return packets


def festina(program, path):
    """festina's verdicts by the number of the packet."""
    result = subprocess.run([program, "list", str(path)], capture_output=True, text=True, check=False)
    found = {}
    for line in result.stdout.splitlines():
        number, *words = line.split()
        found[int(number)] = words
    return found


def number(text):
    return int(text, 0) if text else 0


def theirs(packet):
    """tshark's verdict and its kind."""
    if packet is None:
        return NONE, ""
    for kind in ["spurious", "fast"]:
        if packet[f"tcp.analysis.{kind}_retransmission"]:
            return AGAIN, kind
    if packet["tcp.analysis.retransmission"]:
        return AGAIN, ""
    return (LATE, "") if packet["tcp.analysis.out_of_order"] else (NONE, "")


def ours(words):
    if not words:
        return NONE, ""
    if words[0] == "out-of-order":
        return LATE, ""
    return AGAIN, words[0] + (" spurious" if words[2] == "true" else "")


class Streams:
    """What the packets around a difference say."""

    def __init__(self, packets):
        self.by_sender = collections.defaultdict(list)
        for packet in packets.values():
            self.by_sender[self.sender(packet)].append(packet)
        self.damaged = {packet["tcp.stream"] for packet in packets.values() if any(packet[field] for field in DAMAGE)}
        latest = 0.0
        for packet in packets.values():
            at = float(packet["frame.time_epoch"])
            if at < latest - 0.01:
                self.damaged.add(packet["tcp.stream"])
            latest = max(latest, at)
        self.places = {
            id(packet): (stream, place) for stream in self.by_sender.values() for place, packet in enumerate(stream)
        }

    @staticmethod
    def sender(packet):
        return packet["tcp.stream"], packet["ip.src"] or packet["ipv6.src"], packet["tcp.srcport"]

    def before(self, packet, count):
        stream, place = self.places[id(packet)]
        return stream[max(0, place - count) : place]

    def is_again(self, packet):
        """The same number in IPv4 and the same header within 5 ms."""
        same = ["ip.id", "tcp.seq_raw", "tcp.ack_raw", "tcp.len", "tcp.flags", "tcp.window_size_value"]
        at = float(packet["frame.time_epoch"])
        return number(packet["ip.id"]) != 0 and any(
            all(packet[field] == other[field] for field in same) and at - float(other["frame.time_epoch"]) <= 0.005
            for other in self.before(packet, 32)
        )

    def departure(self, packet):
        """Whether the sender counts its packets, and this one left after those before, or earlier."""
        numbers = [number(other["ip.id"]) for other in self.before(packet, 200)]
        numbers = [n for n in numbers if n]
        known, numbers = numbers[-40:], numbers[-5:]
        if len(numbers) < 4 or not number(packet["ip.id"]):
            return None
        steps = [(b - a) % 65536 for a, b in zip(numbers, numbers[1:])]
        if any(256 < step < 65280 for step in steps):
            return None
        near = [n for n in known if (n - numbers[0] + 256) % 65536 <= 512]
        step = (number(packet["ip.id"]) - max(near, key=lambda n: (n - numbers[0] + 256) % 65536)) % 65536
        return "later" if 0 < step <= 256 else "earlier" if step >= 65280 else None

    def gap_is_older(self, packet):
        """Whether what follows this packet's data was first seen more than most of a round trip ago, or of 3 ms if none is known."""
        sequence, at = number(packet["tcp.seq_raw"]), float(packet["frame.time_epoch"])
        above = [
            float(other["frame.time_epoch"])
            for other in self.before(packet, 5_000)
            if 0 < (number(other["tcp.seq_raw"]) - sequence) % 2**32 < 2**31
        ]
        least = 0.8 * float(packet["tcp.analysis.initial_rtt"] or 0.003)
        return bool(above) and at - min(above) >= least

    def has_copy(self, packet):
        """Whether an earlier packet carried some of the same bytes."""
        sequence, length = number(packet["tcp.seq_raw"]), number(packet["tcp.len"])
        return any(
            number(other["tcp.seq_raw"]) < sequence + length
            and sequence < number(other["tcp.seq_raw"]) + number(other["tcp.len"])
            for other in self.before(packet, 5_000)
        )

    def is_partly_new(self, packet):
        sequence, length = number(packet["tcp.seq_raw"]), number(packet["tcp.len"])
        ends = [number(other["tcp.seq_raw"]) + number(other["tcp.len"]) for other in self.before(packet, 5_000)]
        return bool(ends) and sequence < max(ends) < sequence + length

    def is_damaged(self, packet):
        """Something in the connection contradicts itself, or its time runs backwards."""
        return packet["tcp.stream"] in self.damaged


DAMAGE = ["_ws.malformed.expert", "ip.bogus_ip_length", "tcp.bogus_header_length"]


def reason(streams, packet, them, us):
    """Why the two differ about a packet; `None` if it is not known."""
    if packet is None:
        return "tshark does not see TCP in this packet"
    flags = number(packet["tcp.flags"])
    if us[0] == NONE:
        if flags & SYN or flags & RST or number(packet["tcp.len"]) == 0:
            kind = "SYN" if flags & SYN else "RST" if flags & RST else "FIN" if flags & FIN else "empty segment"
            return f"not data: {kind}"
        if streams.is_again(packet):
            return "the capture holds the packet twice"
    if us[0] == AGAIN and them[0] == LATE and streams.has_copy(packet):
        return "an earlier copy is in the capture: festina is right"
    departure = streams.departure(packet)
    if {them[0], us[0]} == {AGAIN, LATE} and departure:
        is_again = departure == "later"
        return f"IPv4 numbers: it left {departure}: {'festina' if is_again == (us[0] == AGAIN) else 'tshark'} is right"
    if streams.is_damaged(packet):
        return "a connection with damaged packets, or whose time runs backwards"
    if {them[0], us[0]} == {AGAIN, LATE}:
        age = "old enough" if streams.gap_is_older(packet) else "too young"
        is_right = "festina" if (age == "old enough") == (us[0] == AGAIN) else "tshark"
        return f"the gap is {age} for a retransmission: {is_right} is right"
    if us[1].startswith("bundled") and streams.is_partly_new(packet):
        return "old and new data in one segment"
    return None


def compare(program, path):
    packets = tshark(path)
    found = festina(program, path)
    counts, differences, kinds = collections.Counter(), [], collections.Counter()
    streams = Streams(packets)
    for at in sorted(set(packets) | set(found)):
        them, us = theirs(packets.get(at)), ours(found.get(at))
        if them[0] == us[0] == NONE:
            continue
        counts[them[0], us[0]] += 1
        if them[0] == us[0] == AGAIN:
            kinds[them[1] or "retransmission", us[1]] += 1
        if them[0] != us[0]:
            cause = reason(streams, packets.get(at), them, us)
            if cause is None and "fuzz" in path.name:
                cause = "a fuzzed capture"
            differences.append((cause, them[0], us[0], at))
    return len(packets), counts, differences, kinds


def table(rows):
    head = ["capture", "TCP", "both again", "both late", "late/again", "again/late", "only tshark", "only festina"]
    print(f"{head[0]:<48}" + "".join(f"{word:>13}" for word in head[1:]))
    sums = [0] * 7
    for name, tcp, counts in rows:
        cells = [
            tcp,
            counts[AGAIN, AGAIN],
            counts[LATE, LATE],
            counts[LATE, AGAIN],
            counts[AGAIN, LATE],
            counts[AGAIN, NONE] + counts[LATE, NONE],
            counts[NONE, AGAIN] + counts[NONE, LATE],
        ]
        sums = [a + b for a, b in zip(sums, cells)]
        print(f"{name[-48:]:<48}" + "".join(f"{cell:>13}" for cell in cells))
    print(f"{'all of these':<48}" + "".join(f"{cell:>13}" for cell in sums))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--captures", type=pathlib.Path, help="a folder with captures, instead of fetching some")
    parser.add_argument("--keep", type=pathlib.Path, help="where fetched packages stay")
    parser.add_argument("--list", action="store_true", help="print every difference")
    arguments = parser.parse_args()
    root = pathlib.Path(__file__).resolve().parents[2]
    build = ["cargo", "build", "--quiet", "--release", "-p", "festina-trace", "--example", "measure"]
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", root / "target"))
    program = os.environ.get("FESTINA_MEASURE")
    if program is None:
        subprocess.run(build, cwd=root, check=True)
        program = target / "release" / "examples" / "measure"
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.keep or pathlib.Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        captures = arguments.captures or fetch(folder)
        paths = sorted(path for path in captures.rglob("*") if path.name.endswith(ENDINGS))
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            results = list(pool.map(lambda path: compare(program, path), paths))
        report(captures, paths, results, arguments.list)
        sys.exit(any(cause is None for result in results for cause, *_ in result[2]))


def report(captures, paths, results, everything):
    names = [str(path.relative_to(captures)) for path in paths]
    rows = [(name, tcp, counts) for name, (tcp, counts, _, _) in zip(names, results) if counts]
    table(rows)
    print(f"\n{len(paths)} captures, {sum(tcp for tcp, *_ in results)} TCP packets; those without such a packet are not shown")
    classes, kinds = collections.defaultdict(list), collections.Counter()
    for name, (_, _, differences, agreed) in zip(names, results):
        kinds.update(agreed)
        for cause, them, us, at in differences:
            classes[them, us, cause].append((name, at))
    print("\nboth sent again, by kind: tshark's, festina's")
    for (them, us), count in sorted(kinds.items()):
        print(f"{count:>7}  {them:<16} {us}")
    print("\ndifferences: tshark's verdict, festina's, reason, examples")
    for (them, us, cause), places in sorted(classes.items(), key=lambda item: str(item[0])):
        files = collections.Counter(name.rsplit("/", 1)[-1] for name, _ in places)
        print(f"{len(places):>7}  {them:<12} {us:<12} {cause or 'NO REASON FOUND'}")
        print(f"{'':>9}{', '.join(f'{name} {count}' for name, count in files.most_common(5))}")
        for name, at in places if everything or cause is None else places[:2]:
            print(f"{'':>9}{name} packet {at}")


if __name__ == "__main__":
    main()
