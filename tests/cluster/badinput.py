#!/usr/bin/env python3
"""Bad input against a running server, HBase 2.6.4 or Cadastre, each with the answer that HBase gives.

badinput.py --zookeeper HOST:PORT --master HOST:PORT --region-server HOST:PORT [--silent-seconds S] [--only TEXT] [--hbase] [--list]
--silent-seconds  connections that say nothing must be closed by the server within S (without it they only must do no harm)
--hbase           the server is HBase itself: leaves out what it does not survive
--only            only cases with TEXT in their name
Makes a table badinput_PID and drops it. Prints a line for each case, `ok NAME remark` or `FAIL NAME reason`, and last
`N passed, N failed`. Exit code: 0 all passed, 1 some failed, 2 the server cannot be used at all."""
import argparse
import sys
import time
import traceback

import cases_calls  # noqa: F401  each registers its cases
import cases_connection  # noqa: F401
import cases_gohbase  # noqa: F401
import cases_zookeeper  # noqa: F401
import harness
import hbase_wire as wire


def run(cluster, name, function):
    """None if it passed, else the reason; the remark is printed here."""
    began = time.monotonic()
    try:
        remark = function(cluster)
        cluster.well()
    except (harness.Fail, wire.Closed, wire.Silent, ValueError, OSError, IndexError) as e:
        print("FAIL %s %s: %s" % (name, type(e).__name__, e), flush=True)
        if not isinstance(e, harness.Fail):
            traceback.print_exc(file=sys.stderr)
        return False
    took = time.monotonic() - began
    print(" ".join(filter(None, ("ok", name, remark, "(%.1f s)" % took if took > 1 else ""))), flush=True)
    return True


def silent_clients(cluster):
    """What became of the connections that never said a word."""
    told = []
    for connection, since in cluster.left_silent:
        wait = 0.05 if cluster.silent_seconds is None else max(0.05, since + cluster.silent_seconds - time.monotonic())
        told.append(connection.closed_within(wait))
        connection.close()
    if cluster.silent_seconds is not None and not all(told):
        raise harness.Fail("%d of %d still open after %g s" % (told.count(False), len(told), cluster.silent_seconds))
    return "%d of %d closed by the server so far" % (told.count(True), len(told))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("zookeeper", "master", "region-server"):
        parser.add_argument("--" + name, type=wire.address)
    parser.add_argument("--silent-seconds", type=float)
    parser.add_argument("--only", default="")
    parser.add_argument("--hbase", action="store_true")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    chosen = [(n, f) for n, f in harness.CASES + [("silent-clients", silent_clients)] if options.only in n]
    if options.hbase:
        chosen = [(n, f) for n, f in chosen if n not in harness.HARM_HBASE]
    if options.list:
        print("\n".join(n for n, _ in chosen))
        return 0
    if not (options.zookeeper and options.master and options.region_server):
        parser.error("--zookeeper, --master and --region-server are needed")
    cluster = harness.Cluster(options.zookeeper, options.master, options.region_server, options.silent_seconds)
    try:
        cluster.set_up()
    except (harness.Fail, wire.Closed, wire.Silent, ValueError, OSError) as e:
        print("cannot make the table: %s: %s" % (type(e).__name__, e), file=sys.stderr)
        print("0 passed, 1 failed")
        return 2
    results = [run(cluster, n, f) for n, f in chosen]
    results.append(run(cluster, "table-dropped", lambda c: c.tear_down() or setattr(c, "well", lambda: None)))
    print("%d passed, %d failed" % (results.count(True), results.count(False)))
    return 0 if all(results) else 1


sys.exit(main())
