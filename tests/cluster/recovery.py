"""Driver of recovery.sh; see there."""
import argparse
import collections
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

import hbase_wire as wire
from damage import Damage
from ddl import Ddl
from diskfull import DiskFull, usable
from harness import Fail
from server import Refused

FAULTS = (Fail, Refused, wire.Closed, wire.Silent, ValueError, OSError, KeyError, subprocess.SubprocessError)


class Report:
    def __init__(self):
        self.passed = self.failed = 0

    def check(self, name, function):
        began = time.monotonic()
        try:
            remark = function()
        except FAULTS as e:
            self.failed += 1
            print("FAIL %s %s: %s" % (name, type(e).__name__, e), flush=True)
            return False
        self.passed += 1
        print("ok %s (%.1f s) %s" % (name, time.monotonic() - began, remark or ""), flush=True)
        return True


def run_damage(report, options, work):
    damage = Damage(options.binary, work, work + "/damage.log")
    if not report.check("directory-to-damage", damage.prepare):
        return
    cases = list(damage.cases())
    random.Random(options.seed).shuffle(cases)
    if not options.all:
        # Every kind first, then as many as there is time for.
        seen = collections.Counter()
        order = []
        for case in cases:
            order.append((seen[case[0]], case))
            seen[case[0]] += 1
        cases = [case for _, case in sorted(order, key=lambda pair: pair[0])]
    end = time.monotonic() + options.seconds
    outcomes = collections.Counter()
    tried = 0
    for kind, path, name, change in cases:
        if not options.all and time.monotonic() > end:
            break
        tried += 1

        def one():
            told = damage.check(kind, path, name, change)
            outcomes[told.split(",")[0]] += 1
            return told

        report.check("%s: %s" % (kind, name), one)
    print("   %d of %d damages tried: %s" % (tried, len(cases), dict(outcomes)), flush=True)


def run_disk(report, options, work):
    why = usable()
    if why:
        print("skipped disk-full: %s" % why, flush=True)
        return
    try:
        disk = DiskFull(options.binary, work, work + "/disk.log").__enter__()
    except (OSError, subprocess.SubprocessError) as e:
        print("skipped disk-full: no file system can be mounted: %s" % e, flush=True)
        return
    try:
        report.check("disk-full", disk.run)
    finally:
        disk.__exit__()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=["ddl", "damage", "disk"])
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--keep")
    options = parser.parse_args()
    work = options.keep or tempfile.mkdtemp(prefix="cadastre-recovery.")
    os.makedirs(work, exist_ok=True)
    report = Report()
    wanted = [options.only] if options.only else ["ddl", "damage", "disk"]
    if "ddl" in wanted:
        ddl = Ddl(options.binary, work, work + "/ddl.log", options.seed)
        try:
            report.check("ddl-under-kill", lambda: ddl.rounds(options.seconds))
        finally:
            if ddl.server:
                ddl.server.kill()
    if "damage" in wanted:
        run_damage(report, options, work)
    if "disk" in wanted:
        run_disk(report, options, work)
    if report.failed:
        print("kept: %s; seed %d" % (work, options.seed), file=sys.stderr)
    elif not options.keep:
        shutil.rmtree(work)
    print("%d passed, %d failed" % (report.passed, report.failed))
    return 1 if report.failed else 0


sys.exit(main())
