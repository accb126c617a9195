"""What gohbase does on the wire and no other client: it names no version, counts from 1 in a Multi, gives scans an empty time range, probes
regions before it uses them (hbase-protocol.md 11.3). Right calls, each with the answer that its code needs."""
import time

import hbase_wire as wire
from harness import Fail, accepted, case
from hbase_wire import INCREMENT, PUT

ROWS_MAX = (1 << 31) - 1  # number_of_rows of its scans
RESULT_BYTES = 2 << 20  # max_result_size of its scans
FINISHED = 2  # of getProcedureResult


def client(cluster):
    """A codec, but no version_info."""
    return cluster.client(version=False)


def put_by_block(c, region, *rows):
    """A Multi of puts whose cells lie in the cell block."""
    actions = [wire.encode((1, i), (2, wire.encode((1, row), (2, PUT), (8, 1)))) for i, row in enumerate(rows, 1)]
    cells = b"".join(wire.key_value(row, b"f", b"q", b"v-" + row) for row in rows)
    return c.call("Multi", wire.encode((1, wire.encode((1, wire.region(region)), (3, actions)))), cells=cells)


def results(answer):
    """Index -> result of a Multi's only region."""
    region = accepted(answer).sub(1)
    found = {}
    for one in map(wire.decode, region.get(1, [])):
        if 3 in one:
            raise Fail("index %s: %r" % (one.one(1), one.sub(3)))
        if one.one(1, 0) in found or not one.one(1):
            raise Fail("index %s is there twice, or not one of ours" % one.one(1))
        found[one.one(1)] = one.sub(2)
    return found


@case
def gohbase_get_has_its_cells_inside(cluster):
    """A server gives a cell block only to a client that says its version; this one does not."""
    with client(cluster) as c:
        accepted(c.call("Mutate", wire.mutate_request(cluster.low, wire.mutation(PUT, b"go-get"))))
        answer = c.call("Get", wire.get_request(cluster.low, b"go-get", wire.columns(b"f"), (5, b"")))
        result = accepted(answer).sub(1)
        cells = [wire.decode(cell) for cell in result.get(1, [])]
        if answer.cells or [(x.one(1), x.one(2), x.one(3), x.one(6)) for x in cells] != [(b"go-get", b"f", b"q", b"v")]:
            raise Fail("expected one cell inside the message, got %s" % answer)
        if result.one(2):
            raise Fail("cells are said to be elsewhere: %s" % answer)


@case
def gohbase_probes_a_region(cluster):
    """A Get of a key that cannot be there, only whether it is."""
    with client(cluster) as c:
        for region, start in ((cluster.low, b""), (cluster.high, b"m")):
            result = accepted(c.call("Get", wire.get_request(region, start + bytes(17), (5, b""), (10, 1)))).sub(1)
            if result.one(3) != 0 or 1 in result:
                raise Fail("expected that it is not there, got %r" % result)


@case
def gohbase_multi_counts_from_one(cluster):
    """Everything goes by Multi. Answers carry the numbers that were given; with a codec what was read lies in the cell block."""
    with client(cluster) as c:
        found = results(put_by_block(c, cluster.low, b"go-1", b"go-2", b"go-3"))
        if sorted(found) != [1, 2, 3]:
            raise Fail("indexes %s" % sorted(found))
        read = wire.encode((1, 1), (3, wire.encode((1, b"go-2"), (5, b""))))
        count = wire.encode((1, 2), (2, wire.mutation(INCREMENT, b"go-count", b"f", b"n", (5).to_bytes(8, "big"))))
        absent = wire.encode((1, 3), (3, wire.encode((1, b"go-none"), (5, b""))))
        answer = c.call("Multi", wire.encode((1, wire.encode((1, wire.region(cluster.low)), (3, [read, count, absent])))))
        found = results(answer)
        cells = wire.cells_of(answer.cells)
        wanted = {(b"go-2", b"f", b"q", b"v-go-2"), (b"go-count", b"f", b"n", (5).to_bytes(8, "big"))}
        if sorted(found) != [1, 2, 3] or set(cells) != wanted:
            raise Fail("indexes %s, cells %r" % (sorted(found), cells))
        if [found[i].one(2, 0) for i in (1, 2, 3)] != [1, 1, 0]:
            raise Fail("counts of cells %r" % found)


@case
def gohbase_multi_of_two_regions(cluster):
    """Numbers go on over the regions of one request."""
    with client(cluster) as c:
        reads = []
        for index, (region, row) in enumerate(((cluster.low, b"go-1"), (cluster.high, b"z")), 1):
            action = wire.encode((1, index), (3, wire.encode((1, row), (5, b""))))
            reads.append(wire.encode((1, wire.region(region)), (3, action)))
        message = accepted(c.call("Multi", wire.encode((1, reads))))
        told = [wire.decode(r).sub(1).one(1) for r in message.get(1, [])]
        if told != [1, 2]:
            raise Fail("indexes %r" % told)


def scan(c, region, start=b"", rows=ROWS_MAX, more=()):
    of = wire.encode((3, start), (6, b""), (10, RESULT_BYTES), *more)
    return c.call("Scan", wire.scan_request(region, of, rows=rows))


@case
def gohbase_scans_with_an_empty_time_range(cluster):
    """It reads cells_per_result and partial_flag_per_result together, and more_results_in_region as false where it is absent."""
    with client(cluster) as c:
        put_by_block(c, cluster.high, *[b"zz-%03d" % i for i in range(50)])
        answer = scan(c, cluster.high, b"zz-")
        message = accepted(answer)
        counts, flags = message.get(1, []), message.get(7, [])
        if len(counts) != 50 or len(flags) != len(counts) or any(flags):
            raise Fail("%d rows, %d flags" % (len(counts), len(flags)))
        if len(wire.cells_of(answer.cells)) != sum(counts) or 8 not in message:
            raise Fail("%d cells; fields %s" % (len(wire.cells_of(answer.cells)), sorted(message)))
        few = scan(c, cluster.high, b"zz-", rows=7)
        message = accepted(few)
        if len(message.get(1, [])) != 7 or message.one(8) != 1 or not message.one(2):
            raise Fail("of seven rows: %s" % few)
        accepted(c.call("Scan", wire.scan_request(scanner_id=message.one(2), close=True)))


@case
def gohbase_partial_rows_say_so(cluster):
    """A row that does not fit an answer comes in parts."""
    with client(cluster) as c:
        for i in range(4):
            accepted(c.call("Mutate", wire.mutate_request(cluster.high, wire.mutation(PUT, b"zzz", b"big", b"q%d" % i, bytes(600_000)))))
        parts, seen, message = 0, 0, None
        while message is None or message.one(8):
            request = wire.scan_request(cluster.high, wire.encode((3, b"zzz"), (6, b""), (10, 1 << 20)), rows=ROWS_MAX) if message is None \
                else wire.scan_request(scanner_id=scanner, rows=ROWS_MAX)
            answer = c.call("Scan", request)
            message = accepted(answer)
            scanner = message.one(2)
            counts, flags = message.get(1, []), message.get(7, [])
            if len(counts) != len(flags):
                raise Fail("%d rows, %d flags" % (len(counts), len(flags)))
            parts, seen = parts + sum(flags), seen + len(wire.cells_of(answer.cells))
        if seen != 4 or not parts:
            raise Fail("%d cells, %d parts" % (seen, parts))


@case
def gohbase_looks_up_a_region(cluster):
    """A reversed scan of hbase:meta that is closed by the call that opens it; a colon comes behind all digits."""
    with client(cluster) as c:
        for row, name in ((b"a", cluster.low), (b"zebra", cluster.high)):
            of = wire.encode((1, wire.encode((1, b"info"))), (3, cluster.table + b"," + row + b",:"), (4, cluster.table), (15, 1))
            answer = c.call("Scan", wire.scan_request(wire.META_REGION, of, rows=1, close=True))
            message = accepted(answer)
            cells = {q: v for r, _, q, v in wire.cells_of(answer.cells) if r == name}
            if len(message.get(1, [])) != 1 or not {b"regioninfo", b"server"} <= cells.keys():
                raise Fail("expected the row of %r, got %s" % (name, answer))


@case
def gohbase_checks_and_puts(cluster):
    """By Mutate, with the cells inside."""
    with client(cluster) as c:
        def put(value, condition):
            return accepted(c.call("Mutate", wire.mutate_request(cluster.low, wire.mutation(PUT, b"go-check", value=value), condition))).one(2)
        accepted(c.call("Mutate", wire.mutate_request(cluster.low, wire.mutation(PUT, b"go-check", value=b"old"))))
        told = [put(b"new", wire.equal_condition(b"go-check", b"f", b"q", value)) for value in (b"other", b"old", b"old")]
        if told != [0, 1, 0]:
            raise Fail("processed %r" % told)


@case
def gohbase_table_with_its_attributes(cluster):
    """As it makes every table, `false` in small letters; and a procedure that has ended is told as ended however often it is asked for."""
    table = cluster.table + b"_go"
    attributes = {"BLOOMFILTER": "ROW", "VERSIONS": "3", "IN_MEMORY": "false", "KEEP_DELETED_CELLS": "false", "DATA_BLOCK_ENCODING": "FAST_DIFF",
                  "TTL": "2147483647", "COMPRESSION": "NONE", "MIN_VERSIONS": "0", "BLOCKCACHE": "true", "BLOCKSIZE": "65536", "REPLICATION_SCOPE": "0"}
    family = wire.encode((1, b"f"), (2, [wire.encode((1, k), (2, v)) for k, v in attributes.items()]))
    with cluster.client("MasterService", version=False) as c:
        schema = wire.encode((1, wire.table_name(table)), (3, family))
        proc_id = accepted(c.call("CreateTable", wire.encode((1, schema), (2, [b"m"])), timeout=30)).one(1)
        end = time.monotonic() + 30
        asked_again = 0
        while asked_again < 3:
            state = accepted(c.call("getProcedureResult", wire.encode((1, proc_id)))).one(1)
            if state == FINISHED:
                asked_again += 1
            elif asked_again or not state or time.monotonic() > end:
                raise Fail("state %s after it was %d times finished" % (state, asked_again))
    cluster.admin.drop(table)
