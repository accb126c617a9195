#!/usr/bin/env python3
"""Markdown tables of a run of compare.sh: table.py DIR

First each figure that was set as a goal: HBase here, HBase by the goal's text, Cadastre with --wal-sync=write (as HBase on file://) and with
fdatasync. Then throughput, latency and memory of every command. TSVs that are not in DIR are left out."""
import os
import sys

HBASE, WRITE, SYNC, SMALL_WRITE, SMALL_SYNC = "hbase", "cadastre-write", "cadastre", "cadastre-256-write", "cadastre-256"
TITLES = {HBASE: "HBase", WRITE: "Cadastre, write", SYNC: "Cadastre, fdatasync", SMALL_WRITE: "Cadastre 256 MiB, write", SMALL_SYNC: "Cadastre 256 MiB, fdatasync"}
# Command, what it is, HBase's processor time by the goal's text (from, to; µs), the part of it that we may use.
CPU = [
    ("get", "get", 52, 57, 3),
    ("multiget", "get in a multi-get of 20, rows read before", 20, 22, 3),
    ("multiget_first", "get in a multi-get of 20, rows never read before", 20, 22, 2),
    ("put", "buffered put", 17, 24, 3),
    ("put_1", "single put, 1 client", 298, 298, 3),
    ("put_16", "single put, 16 clients", 91, 91, 3),
    ("increment", "increment", 150, 150, 3),
    ("check_and_put", "check-and-put, with the put before it", 235, 235, 3),
    ("scan", "full scan, a row", 11, 13, 3),
    ("scan100", "100-row scan", 600, 836, 3),
    ("wide_get", "get, 10 × 100 B", 80, 80, 3),
    ("wide_put", "buffered put, 10 × 100 B", 40, 40, 3),
    ("wide_scan", "full scan, a row, 10 × 100 B", 26, 26, 3),
    ("wide_scan100", "100-row scan, 10 × 100 B", 1700, 1700, 3),
]
RSS_MIB = 3.1e9 / 2**20
START_S = 13.5
DDL_MS = [("ddl_create", "create a table", 30), ("ddl_drop", "disable and delete it", 50)]


def read(path):
    rows, head = {}, None
    for line in open(path):
        fields = line.rstrip("\n").split("\t")
        if line.startswith("#"):
            head = [f.lstrip("#") for f in fields]
        elif line.strip():
            row = dict(zip(head, fields))
            rows[row[head[0]]] = row
    return rows


def number(run, name, field):
    """None where the command was not run or failed."""
    row = (run or {}).get(name)
    return float(row[field]) if row and row.get("exit", "0") == "0" else None


def show(value):
    if value is None:
        return "–"
    return "%.0f" % value if value >= 100 else "%.1f" % value if value >= 10 else "%.2f" % value


def reached(ours, goal):
    return "–" if ours is None else "yes" if ours <= goal else "no, %.2f times" % (ours / goal)


def line(what, unit, here, text, part, write, sync):
    """Both ways to be judged: by the figure in the goal's text, and by HBase on this machine in the same run."""
    low = text[0]
    cells = [what + ", " + unit, show(here), "–".join(show(v) for v in dict.fromkeys(text)), show(low / part)]
    for ours in (write, sync):
        cells += [show(ours), reached(ours, low / part)]
    cells.append("–" if here is None or write is None else "%.2f" % (write / here))
    cells.append("1/%d" % part)
    print("| " + " | ".join(cells) + " |")


def peak(run):
    values = [float(r["rss_mib"]) for r in (run or {}).values() if r.get("rss_mib")]
    return max(values) if values else None


def figures(runs, starts):
    print("| figure | HBase here | HBase by the goal's text | goal | write | reached | fdatasync | reached | write ÷ HBase here | wanted |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, what, low, high, part in CPU:
        cpu = [number(runs.get(k), name, "cpu_us_per_op") for k in (HBASE, WRITE, SYNC)]
        line(what, "CPU µs", cpu[0], (low, high), part, cpu[1], cpu[2])
    rss = [peak(runs.get(k)) for k in (HBASE, SMALL_WRITE, SMALL_SYNC)]
    line("resident memory, most after a command; ours with --memory 256MiB", "MiB", rss[0], (RSS_MIB,), 10, rss[1], rss[2])
    start = [number(starts, k, "first_get_s") for k in (HBASE, WRITE, SYNC)]
    line("from start to the first get", "s", start[0], (START_S,), 20, start[1], start[2])
    for name, what, goal in DDL_MS:
        took = [number(runs.get(k), name, "p50_us") for k in (HBASE, WRITE, SYNC)]
        took = [None if v is None else v / 1000 for v in took]
        cells = [what + ", Java's client, p50 ms", show(took[0]), "–", show(goal)]
        for ours in took[1:]:
            cells += [show(ours), reached(ours, goal)]
        print("| " + " | ".join(cells + ["–" if None in took[:2] else "%.2f" % (took[1] / took[0]), "–"]) + " |")


def details(runs, title, field):
    present = [k for k in TITLES if k in runs]
    print("\n### %s\n" % title)
    print("| command | clients | operations | " + " | ".join(TITLES[k] for k in present) + " |")
    print("| --- " * (3 + len(present)) + "|")
    for name, row in runs[present[0]].items():
        values = [show(number(runs[k], name, field)) for k in present]
        if field.startswith("cpu_") and name.startswith("ddl_"):
            continue
        print("| %s | %s | %s | %s |" % (name, row["threads"], row["operations"], " | ".join(values)))


def main(arguments):
    if len(arguments) != 1:
        sys.exit(__doc__)
    path = lambda name: os.path.join(arguments[0], name + ".tsv")
    runs = {k: read(path(k)) for k in TITLES if os.path.exists(path(k))}
    starts = read(path("start")) if os.path.exists(path("start")) else {}
    print("## By figure\n")
    figures(runs, starts)
    print("\n\"reached\" is by the lower figure of the goal's text. A check-and-put is PerformanceEvaluation's: a put, then a check that puts it again.\n")
    print("## Start\n")
    print("| server | spawn to ready, empty directory, s | memory then, MiB | spawn to the first get of a table that was there, s |")
    print("| --- | --- | --- | --- |")
    for name, row in starts.items():
        print("| %s | %s | %s | %s |" % (name, row["seconds_to_ready"], row["rss_mib"], row["first_get_s"]))
    if runs:
        print("\n## By command")
        for title, field in [("Operations a second", "ops_per_second"), ("Processor time of the server, µs an operation", "cpu_us_per_op"),
                             ("Afterwards, until the server was idle, s of processor", "cpu_after_s"), ("p50, µs", "p50_us"), ("p99, µs", "p99_us"),
                             ("Resident memory afterwards, MiB", "rss_mib")]:
            details(runs, title, field)


main(sys.argv[1:])
