#!/usr/bin/env python3
"""How long each experiment of the lab takes: the table that `festina lab list` and `lab show` print.

    cargo build --release && bench/lab/durations.py                measures all and writes the table, which takes half an hour
    bench/lab/durations.py md1 bursts                              measures these and keeps the rest of the table
    bench/lab/durations.py --seconds 60 --binary FILE              measures a larger share of the full scale

Seconds are CPU seconds, of the process and of the kernel on its behalf, with one thread: other programs on the machine do not count. The
quick scale runs as a whole. Of the full scale each point is run with one seed, or some points, chosen at random, if all of them would take longer
than about `--seconds`; the other seeds and points count as long. `lab list` rounds to two digits, which is more than a busy machine allows for.
"""

import argparse
import csv
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "crates/cli/src/commands/lab/durations.csv"
FIELDS = ["experiment", "quick_cpu_s", "full_cpu_s", "full_runs", "full_runs_measured"]
# A run that was asked for takes this long at most.
PATIENCE_S = 3600


def processor():
    """What the times hold for."""
    named = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return named[1] if named else "a processor without a name"


def cpu_seconds(command):
    """Returns the CPU seconds of a command and its standard error. A broken check (1) is no failure here, nor are too few (3)."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1, 3):
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}: {done.stderr.strip()}")
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, done.stderr


def share(lab, name, folder, runs, *options):
    """CPU seconds for as many runs of the full scale that the folder does not hold yet, how many are missing then, and how many there are."""
    cpu_seconds([*lab, "submit", name, "--out", folder, *options])
    seconds, said = cpu_seconds([*lab, "work", Path(folder) / name, "--jobs", "1", "--runs", str(runs)])
    missing = re.search(r"; (\d+) of all (\d+) runs are missing", said)
    return (seconds, *map(int, missing.groups()))


def measure(lab, name, budget_s):
    """One line of the table."""
    with tempfile.TemporaryDirectory() as folder:
        quick, _ = cpu_seconds([*lab, "run", name, "--quick", "--jobs", "1", "--out", folder])
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
        # The first run alone says how long one may take, and how many there are with one seed and with all.
        first, missing, points = share(lab, name, folder, 1, "--seeds", "1")
        _, _, runs = share(lab, name, other, 1)
        rest, missing, _ = share(lab, name, folder, max(1, round(budget_s / max(first, 1e-3))), "--seeds", "1") if missing else (0, 0, 0)
        measured = points - missing
        # The report comes once, however many runs there are.
        report = 0 if missing else cpu_seconds([*lab, "run", name, "--jobs", "1", "--out", folder, "--seeds", "1"])[0]
        return quick, (first + rest) * runs / measured + report, runs, measured


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="experiments; all of them if left out")
    parser.add_argument("--seconds", type=float, default=3, help="CPU seconds for the full scale of each, about")
    parser.add_argument("--binary", type=Path, default=ROOT / "target/release/festina", help="the command to measure")
    arguments = parser.parse_args()
    lab = [arguments.binary, "lab"]
    listed = subprocess.run([*lab, "list"], capture_output=True, text=True, check=True).stdout
    # Further lines of an entry are indented, and a heading is in capitals.
    names = [found[0] for line in listed.splitlines() if (found := re.match(r"[a-z0-9][a-z0-9-]*", line))]
    if unknown := set(arguments.names) - set(names):
        sys.exit(f"there is no experiment {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    known = {}
    if TABLE.exists():
        with TABLE.open(newline="") as file:
            next(file)
            known = {row["experiment"]: row for row in csv.DictReader(file)}
    for name in arguments.names or names:
        quick, full, runs, done = measure(lab, name, arguments.seconds)
        known[name] = dict(zip(FIELDS, (name, f"{quick:.2f}", f"{full:.1f}", runs, done)))
        print(f"{name}: quick {quick:.2f} s, full {full:.0f} s by {done} of {runs} runs", flush=True)
        with TABLE.open("w", newline="") as file:
            file.write(f"# {processor()}\n")
            table = csv.DictWriter(file, FIELDS, lineterminator="\n")
            table.writeheader()
            table.writerows(known[name] for name in names if name in known)


if __name__ == "__main__":
    main()
