#!/usr/bin/env python3
"""Lines per second through a relay and a collector on this machine, from the first byte over TCP to the last acknowledgement.

    bench/syslog/throughput.py --festina target/release/festina --lines 300000 --rsyslog

With `--rsyslog` the same lines then go through two rsyslogds with RELP between them, until the last is in the file: once as rsyslog is by
default, with 128 lines under way, and once with 20,000.
"""

import argparse
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time


def status(festina, port):
    answer = subprocess.run([festina, "syslog", "status", "--json", f"127.0.0.1:{port}"], capture_output=True, text=True, check=False)
    return json.loads(answer.stdout) if answer.returncode == 0 else None


def cpu_seconds(process):
    """What a process has used of any CPU: on a busy machine this says more than the clock."""
    with open(f"/proc/{process.pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(festina, severity, lines, plain):
    directory = tempfile.mkdtemp(prefix="festina-log-")
    admits, trusts = ("plain = true", "plain = true") if plain else ('relays = "any"', "")
    with open(f"{directory}/collect.toml", "w") as file:
        file.write(f'state = "{directory}/c"\nlisten = "127.0.0.1:19899"\n[[output]]\nkind = "file"\npath = "{directory}/lines.log"\n[security]\n{admits}\n')
    with open(f"{directory}/relay.toml", "w") as file:
        file.write(f'state = "{directory}/r"\ncollector = "127.0.0.1:19899"\nmetrics = "127.0.0.1:19601"\n[[input]]\nkind = "tcp"\nlisten = "127.0.0.1:15514"\n[security]\n{trusts}\n')
    processes = [
        subprocess.Popen([festina, "syslog", what, f"{directory}/{what}.toml"], stderr=subprocess.DEVNULL) for what in ("collect", "relay")
    ]
    try:
        while not (status(festina, 19601) or {}).get("connected"):
            time.sleep(0.1)
        line = line_of(severity)
        peer = socket.create_connection(("127.0.0.1", 15514))
        before = [cpu_seconds(process) for process in processes]
        begin = time.monotonic()
        peer.sendall(line * lines)
        peer.close()
        while True:
            now = status(festina, 19601)
            if sum(now["received"]) == lines and now["spooled"] == 0 and now["underway"] == 0:
                break
            time.sleep(0.02)
        seconds = time.monotonic() - begin
        used = [cpu_seconds(process) - start for process, start in zip(processes, before)]
        print(json.dumps({
            "severity": severity, "encrypted": not plain, "lines": lines, "seconds": round(seconds, 2), "lines_per_second": round(lines / seconds),
            "delivered_per_second": round(now["delivered"] / seconds),
            "cpu_us_per_line": {"collector": round(used[0] / lines * 1e6, 2), "relay": round(used[1] / lines * 1e6, 2)}, "relay": now,
        }))
    finally:
        for process in processes:
            process.terminate()
            process.wait()
        shutil.rmtree(directory, ignore_errors=True)


def line_of(severity):
    return f"<{128 + severity}>Oct 11 22:14:15 box app: ".ljust(249, "-").encode() + b"\n"


def run_rsyslog(lines, window):
    directory = tempfile.mkdtemp(prefix="festina-log-")
    out = f"{directory}/lines.log"
    raw = 'template(name="raw" type="string" string="%rawmsg%\\n")\n'
    queue = 'queue.type="LinkedList" queue.size="200000" action.resumeRetryCount="-1"'
    configs = {
        "r": f'module(load="imrelp")\ninput(type="imrelp" port="16001")\n{raw}action(type="omfile" file="{out}" template="raw")\n',
        "l": 'module(load="imptcp")\ninput(type="imptcp" port="15515" address="127.0.0.1")\nmodule(load="omrelp")\n'
             f'action(type="omrelp" target="127.0.0.1" port="16001" windowSize="{window}" {queue})\n',
    }
    processes = []
    for name, text in configs.items():
        os.makedirs(f"{directory}/{name}")
        with open(f"{directory}/{name}.conf", "w") as file:
            file.write(f'global(workDirectory="{directory}/{name}")\n{text}')
        command = ["rsyslogd", "-n", "-f", f"{directory}/{name}.conf", "-i", f"{directory}/{name}.pid"]
        processes.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
        time.sleep(1)
    try:
        peer = socket.create_connection(("127.0.0.1", 15515))
        before = [cpu_seconds(process) for process in processes]
        begin, line = time.monotonic(), line_of(3)
        peer.sendall(line * lines)
        peer.close()
        while not os.path.exists(out) or os.path.getsize(out) < lines * (len(line)):
            time.sleep(0.02)
            if time.monotonic() - begin > 120:
                break
        seconds = time.monotonic() - begin
        used = [cpu_seconds(process) - start for process, start in zip(processes, before)]
        print(json.dumps({
            "system": f"rsyslog, RELP, {window} lines under way", "bytes": os.path.getsize(out), "seconds": round(seconds, 2),
            "lines_per_second": round(os.path.getsize(out) / len(line) / seconds),
            "cpu_us_per_line": {"receiver": round(used[0] / lines * 1e6, 2), "sender": round(used[1] / lines * 1e6, 2)},
        }))
    finally:
        for process in processes:
            process.terminate()
            process.wait()
        shutil.rmtree(directory, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--festina", default="target/release/festina")
    parser.add_argument("--lines", type=int, default=300_000)
    parser.add_argument("--plain", action="store_true", help="without encryption, as rsyslog")
    parser.add_argument("--rsyslog", action="store_true")
    arguments = parser.parse_args()
    for severity in (3, 6):
        run(os.path.abspath(arguments.festina), severity, arguments.lines, arguments.plain)
    if arguments.rsyslog:
        for window in (128, 20_000):
            run_rsyslog(arguments.lines, window)


if __name__ == "__main__":
    main()
