#!/usr/bin/env python3
"""Two versions of the lab side by side: where the same experiment gives another result, and whether that is more than chance.

    OLD/festina lab run bursts --seeds 5 --json >before/bursts.json
    NEW/festina lab run bursts --seeds 5 --json >after/bursts.json
    bench/lab/before_after.py before after --measure delivery --measure "bytes sent"

Points are paired by the parameters that both versions know. Of each measure the means over the runs are compared: unchanged to the last
digit, within chance (the difference is at most what both 95% intervals allow together), lower, or higher. In one of twenty points the
difference is beyond chance although nothing changed. Runs of the same seed meet the same losses, so that what did not change is
unchanged; the interval takes them as independent, which is too wide.
"""

import argparse
import json
import math
import sys
from collections import defaultdict
from pathlib import Path

# What names the sender of a point, in this order.
SENDERS = ["sender", "group", "transport"]
HEADER = "| experiment | sender | measure | unchanged | within chance | lower | higher | ratios |\n|---|---|---|---|---|---|---|---|"


def points(path):
    """The points of a report."""
    report = json.loads(path.read_text())
    found = report.get("points") or report["results"]
    return found["points"] if isinstance(found, dict) else found


def measures(point):
    """Each measure's mean and half of its interval; delays in milliseconds."""
    for name, series in point["series"].items():
        yield name, series["mean_ms"]
    yield from point["values"].items()


def verdict(before, after):
    """How a mean changed, and by which ratio."""
    old, new = before["mean"], after["mean"]
    if old == new:
        return "unchanged", 1.0
    halves = [it["half_width_95"] for it in (before, after)]
    ratio = new / old if old else math.inf
    if None not in halves and abs(new - old) <= math.hypot(*halves):
        return "within chance", ratio
    return ("lower" if new < old else "higher"), ratio


def compare(name, before, after, wanted):
    """Prints the rows of an experiment."""
    known = [set().union(*(point["parameters"] for point in side)) for side in (before, after)]
    common = sorted(known[0] & known[1])

    def identity(point):
        return tuple(json.dumps(point["parameters"].get(key)) for key in common)

    later = {identity(point): point for point in after}
    pairs = [(point, later[identity(point)]) for point in before if identity(point) in later]
    if len(pairs) < len(before):
        print(f"{name}: {len(before) - len(pairs)} of {len(before)} points have no counterpart", file=sys.stderr)
    rows = defaultdict(list)
    for old, new in pairs:
        sender = next((old["parameters"][key] for key in SENDERS if key in old["parameters"]), "-")
        found = dict(measures(new))
        for measure, value in measures(old):
            other = found.get(measure)
            if measure in wanted and other and None not in (value["mean"], other["mean"]):
                rows[sender, measure].append(verdict(value, other))
    for (sender, measure), verdicts in rows.items():
        count = [sum(word == wanted_word for word, _ in verdicts) for wanted_word in ("unchanged", "within chance", "lower", "higher")]
        beyond = [ratio for word, ratio in verdicts if word in ("lower", "higher")]
        ratios = f"{min(beyond):.3f} to {max(beyond):.3f}" if beyond else ""
        print(f"| `{name}` | {sender} | {measure} | {' | '.join(map(str, count))} | {ratios} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, help="the folder with the older version's reports")
    parser.add_argument("after", type=Path, help="that with the newer version's, of the same names")
    parser.add_argument("--measure", action="append", required=True, help="which measures, as the reports name them")
    options = parser.parse_args()
    shared = sorted({path.name for path in options.before.glob("*.json")} & {path.name for path in options.after.glob("*.json")})
    if not shared:
        sys.exit("before_after.py: no report of the same name is in both folders")
    print(HEADER)
    for name in shared:
        compare(name.removesuffix(".json"), points(options.before / name), points(options.after / name), options.measure)


if __name__ == "__main__":
    main()
