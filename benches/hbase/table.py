#!/usr/bin/env python3
"""A Markdown table of the ratios of two TSVs of bench.sh: table.py OURS.tsv OTHER.tsv [--names OURS,OTHER]"""
import sys


def read(path):
    rows, head = {}, None
    for line in open(path):
        fields = line.rstrip("\n").split("\t")
        if line.startswith("#"):
            head = [f.lstrip("#") for f in fields]
        elif line.strip():
            row = dict(zip(head, fields))
            rows[row["name"], int(row["threads"])] = row
    return rows


def number(row, field):
    return float(row[field]) if row["exit"] == "0" else 0.0


def ratio(a, b):
    return "%.2f" % (a / b) if a and b else "-"


def main(arguments):
    names = "first,second"
    if "--names" in arguments:
        at = arguments.index("--names")
        names = arguments[at + 1]
        del arguments[at:at + 2]
    if len(arguments) != 2:
        sys.exit(__doc__)
    one, two = names.split(",")
    a, b = read(arguments[0]), read(arguments[1])
    print("| command | threads | %s op/s | %s op/s | throughput | %s CPU µs/op | %s CPU µs/op | CPU | memory | p99 |" % (one, two, one, two))
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for key in a:
        if key not in b:
            continue
        x, y = a[key], b[key]
        print("| %s | %d | %s | %s | %s | %s | %s | %s | %s | %s |" % (
            key[0], key[1], *("%.0f" % number(r, "ops_per_second") for r in (x, y)),
            ratio(number(x, "ops_per_second"), number(y, "ops_per_second")),
            *("%.1f" % number(r, "cpu_us_per_op") for r in (x, y)),
            ratio(number(x, "cpu_us_per_op"), number(y, "cpu_us_per_op")),
            ratio(number(x, "rss_mib"), number(y, "rss_mib")),
            ratio(number(x, "p99_us"), number(y, "p99_us"))))
    print()
    print("Ratios are %s divided by %s: above 1 is better for throughput, below 1 for CPU, memory and p99 latency." % (one, two))


main(sys.argv[1:])
