#!/usr/bin/env python3
"""`festina perf` beside iperf3 over the kernel's TCP, through the same emulated networks, in one table.

    sudo bench/perf/beside_iperf3.py --festina target/release/festina
    sudo bench/perf/beside_iperf3.py --time 20 --rounds 5 --network "--rate 5Mbit/s --delay 50ms --queue 200p"

Needs root, for network namespaces, and `iperf3`; installs nothing. Every line is a run of `festina emulate run`: two hosts of their own with a
network between them. Beside the load a thin stream sends 100 bytes every 20 ms and has them sent back, over festina in all of them: `festina perf`
has it built in, and beside iperf3 it is `festina ping`. A line is the median of the rounds, which take turns.
"""

import argparse
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SERVER = "10.77.0.2"
NETWORKS = {
    "queue of 100 packets": "--rate 20Mbit/s --delay 20ms --queue 100p",
    "fq-codel": "--rate 20Mbit/s --delay 20ms --queue 1000p --discipline fq-codel",
    "1 % lost": "--rate 20Mbit/s --delay 20ms --queue 100p --loss 1%",
}
INTERVAL_MS = 20
# The thin stream is there before iperf3 starts, and for as long.
HEAD_START_S = 0.5
# Beyond what a run should take.
PATIENCE_S = 60


def emulated(festina, network, server, client, seed):
    """What the client says, run in front of the network with the server behind it."""
    command = [festina, "emulate", "run", *shlex.split(network), "--seed", str(seed), "--out", os.devnull]
    command += ["--server", server, "--client", client]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S + ARGUMENTS.time, check=False)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def by_festina(festina, network, seed):
    server = f"{festina} perf -s -1 --plain >/dev/null 2>&1"
    client = f"{festina} perf -c {SERVER} --plain -t {ARGUMENTS.time}s --json"
    result = json.loads(emulated(festina, network, server, client, seed))
    thin = result["thin_loaded"]
    return result["there"]["bits_per_second"] / 1e6, result["thin_idle"]["ms_p50"], thin["ms_p50"], thin["ms_p99"]


def by_iperf3(control):
    def measure(festina, network, seed):
        count = int((ARGUMENTS.time + HEAD_START_S) * 1000 / INTERVAL_MS)
        with tempfile.TemporaryDirectory() as folder:
            ping, load = Path(folder) / "ping.json", Path(folder) / "iperf3.json"
            thin = f"{festina} ping {SERVER} --plain -i {INTERVAL_MS}ms -s 100 --json"
            server = f"iperf3 -s -1 >/dev/null & exec {festina} listen {SERVER} --echo --plain >/dev/null 2>&1"
            client = f"{thin} -c 100 2>/dev/null; {thin} -c {count} >{ping} 2>/dev/null & sleep {HEAD_START_S}; "
            client += f"iperf3 -c {SERVER} -t {ARGUMENTS.time} -C {control} -J >{load}; wait"
            idle = json.loads(emulated(festina, network, server, client, seed))
            thin, load = json.loads(ping.read_text()), json.loads(load.read_text())
        received = load["end"]["sum_received"]["bits_per_second"] / 1e6
        return received, idle["ms_p50"], thin["ms_p50"], thin["ms_p99"]

    return measure


def main():
    if os.geteuid() != 0:
        sys.exit("network namespaces need root")
    if shutil.which("iperf3") is None:
        sys.exit("iperf3 is needed, and is not there; Debian has it as the package iperf3")
    if not ARGUMENTS.festina.exists():
        sys.exit(f"there is no {ARGUMENTS.festina}: cargo build --release, or --festina FILE")
    festina = ARGUMENTS.festina.resolve()
    networks = {network: network for network in ARGUMENTS.network} or NETWORKS
    controls = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    loads = {"festina perf, CUBIC": by_festina}
    loads |= {f"iperf3, TCP {control.upper()}": by_iperf3(control) for control in ("cubic", "bbr") if control in controls}
    print("| network | load | Mbit/s | thin stream alone, ms | beside the load, median | p99 |")
    print("|---|---|---|---|---|---|")
    for name, network in networks.items():
        runs = {load: [] for load in loads}
        for seed in range(1, ARGUMENTS.rounds + 1):
            for load, measure in loads.items():
                runs[load].append(measure(festina, network, seed))
        for load, rounds in runs.items():
            rate, *delays = (statistics.median(column) for column in zip(*rounds))
            print(f"| {name} | {load} | {rate:.1f} | {' | '.join(f'{delay:.0f}' for delay in delays)} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--festina", type=Path, default=ROOT / "target/release/festina", help="the command to measure")
    parser.add_argument("--time", type=int, default=10, help="seconds under load")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each")
    parser.add_argument("--network", action="append", default=[], help="options of `festina emulate run`, instead of those of the table")
    ARGUMENTS = parser.parse_args()
    main()
