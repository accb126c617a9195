"""Whole frames with calls that must be refused, each with HBase's class of exception."""
import gzip
import struct
import zlib

import hbase_wire as wire
from harness import Fail, accepted, case, multi_refused, pair_refused, refused
from hbase_wire import APPEND, DELETE, INCREMENT, PUT

LONG_ROW = b"r" * 32768  # one more than HBase's longest
LONG_CELL = bytes((10 << 20) + 1)
IO = "java.io.IOException"  # clients try again
GZIP = "org.apache.hadoop.io.compress.GzipCodec"
PROTOBUF = "org.apache.hbase.thirdparty.com.google.protobuf."  # classes of HBase's that no client can build


def either(answer, *classes):
    """Taken or refused: HBase takes what makes no sense and does no harm."""
    return refused(answer, *classes) if answer.error else "taken"


def final(answer, *classes, **options):
    """Refused for ever."""
    return refused(answer, "DoNotRetryIOException", *classes, retry=False, **options)


def get(cluster, region, row, *more):
    return cluster.once("Get", wire.get_request(region, row, *more))


def multi(cluster, region, mutations, **options):
    return cluster.once("Multi", wire.multi_request(region, mutations, **options))


def create(cluster, *table):
    return cluster.master_once("CreateTable", wire.create_table_request(*table))


def mutate(cluster, region, mutation, condition=None):
    return cluster.once("Mutate", wire.mutate_request(region, mutation, condition))


def multi_actions(cluster, region, mutations):
    """The ResultOrException of each action, or fails with the region's exception."""
    message = accepted(multi(cluster, region, mutations))
    result = message.sub(1)
    if 2 in result:
        raise Fail("the region as a whole: %r" % result.sub(2))
    found = {r.one(1): r for r in map(wire.decode, result.get(1, []))}  # HBase puts those that failed behind the others
    if sorted(found) != list(range(len(mutations))) or len(result[1]) != len(found):
        raise Fail("indexes %r" % [wire.decode(r).one(1) for r in result.get(1, [])])
    return [found[i] for i in range(len(mutations))]


@case
def unknown_table(cluster):
    return refused(get(cluster, wire.region_name(b"no_such_table"), b"a"), "NotServingRegionException", retry=True)


@case
def unknown_region_of_table(cluster):
    name = wire.region_name(cluster.table, b"", 1234567890123)
    for answer in (get(cluster, name, b"a"), mutate(cluster, name, wire.mutation(PUT, b"a")),
                   cluster.once("Scan", wire.scan_request(name, wire.encode(), rows=1))):
        refused(answer, "NotServingRegionException", retry=True)


@case
def unknown_region_in_multi(cluster):
    message = accepted(multi(cluster, wire.region_name(b"no_such_table"), [wire.mutation(PUT, b"a")]))
    result = message.sub(1)
    if 1 in result:
        raise Fail("a failed region with results")
    pair_refused(result.one(2, b""), "NotServingRegionException")


@case
def region_name_empty(cluster):
    return refused(get(cluster, b"", b"a"), "NotServingRegionException", retry=True)


@case
def region_name_garbage(cluster):
    return refused(get(cluster, b"\xff\x00,,.", b"a"), "NotServingRegionException", IO, retry=True)


@case
def unknown_family_get(cluster):
    return refused(get(cluster, cluster.low, b"a", wire.columns(b"nope")), "regionserver.NoSuchColumnFamilyException", retry=False)


@case
def unknown_family_put(cluster):
    return refused(mutate(cluster, cluster.low, wire.mutation(PUT, b"a", b"nope")), "regionserver.NoSuchColumnFamilyException", retry=False)


@case(harms_hbase=True)
def namespace_table_put(cluster):
    """The master alone writes there: a namespace that a client writes would be none."""
    region = cluster.admin.regions(b"hbase:namespace")[0][0]
    for request in [mutate(cluster, region, wire.mutation(PUT, b"n", b"info", b"d")), mutate(cluster, region, wire.mutation(DELETE, b"default", b"info", b"d", None))]:
        final(request, text="hbase:namespace")
    multi_refused(multi(cluster, region, [wire.mutation(PUT, b"n", b"info", b"d")]), "DoNotRetryIOException")


@case
def unknown_family_delete(cluster):
    refused(mutate(cluster, cluster.low, wire.mutation(DELETE, b"a", b"nope", b"q", None)), "regionserver.NoSuchColumnFamilyException", retry=False)


@case
def unknown_family_increment(cluster):
    refused(mutate(cluster, cluster.low, wire.mutation(INCREMENT, b"a", b"nope", b"q", bytes(8))), "regionserver.NoSuchColumnFamilyException", retry=False)


@case
def unknown_family_scan(cluster):
    scan = wire.encode((1, wire.encode((1, b"nope"))))
    refused(cluster.once("Scan", wire.scan_request(cluster.low, scan, rows=1)), "regionserver.NoSuchColumnFamilyException", retry=False)


@case
def unknown_family_in_multi(cluster):
    """Only the action fails; its neighbours are applied."""
    good, bad = wire.mutation(PUT, b"a2"), wire.mutation(PUT, b"a3", b"nope")
    results = multi_actions(cluster, cluster.low, [good, bad, good])
    if [3 in r for r in results] != [False, True, False]:
        raise Fail("results: %r" % results)
    pair_refused(results[1].one(3), "regionserver.NoSuchColumnFamilyException")


@case
def wrong_region_get(cluster):
    return refused(get(cluster, cluster.low, b"z"), "regionserver.WrongRegionException", retry=True)


@case
def wrong_region_put(cluster):
    return refused(mutate(cluster, cluster.low, wire.mutation(PUT, b"z")), "exceptions.FailedSanityCheckException", retry=False)


@case
def wrong_region_delete(cluster):
    refused(mutate(cluster, cluster.low, wire.mutation(DELETE, b"z", b"f", b"q", None)), "exceptions.FailedSanityCheckException", retry=False)


@case
def wrong_region_increment(cluster):
    by_one = wire.mutation(INCREMENT, b"z", b"f", b"n", struct.pack(">q", 1))
    return refused(mutate(cluster, cluster.low, by_one), "regionserver.WrongRegionException", retry=True)


@case
def wrong_region_append(cluster):
    refused(mutate(cluster, cluster.low, wire.mutation(APPEND, b"z")), "regionserver.WrongRegionException", retry=True)


@case
def wrong_region_check_and_put(cluster):
    condition = wire.equal_condition(b"z", b"f", b"q", b"v")
    refused(mutate(cluster, cluster.low, wire.mutation(PUT, b"z"), condition), "regionserver.WrongRegionException", retry=True)


@case
def wrong_region_in_multi(cluster):
    results = multi_actions(cluster, cluster.low, [wire.mutation(PUT, b"z"), wire.mutation(PUT, b"a4")])
    if [3 in r for r in results] != [True, False]:
        raise Fail("results: %r" % results)
    return pair_refused(results[0].one(3), "exceptions.FailedSanityCheckException")


@case
def wrong_region_increment_in_multi(cluster):
    answer = multi(cluster, cluster.low, [wire.mutation(INCREMENT, b"z", b"f", b"n", struct.pack(">q", 1))])
    return multi_refused(answer, "regionserver.WrongRegionException")


@case
def wrong_region_get_in_multi(cluster):
    action = wire.encode((1, 0), (3, wire.encode((1, b"z"))))
    answer = cluster.once("Multi", wire.encode((1, wire.encode((1, wire.region(cluster.low)), (3, action)))))
    return multi_refused(answer, "regionserver.WrongRegionException")


@case
def wrong_region_atomic_multi(cluster):
    return multi_refused(multi(cluster, cluster.low, [wire.mutation(PUT, b"z")], atomic=1), "regionserver.WrongRegionException")


@case
def row_too_long_put(cluster):
    return final(mutate(cluster, cluster.high, wire.mutation(PUT, LONG_ROW)), hbase=IO)


@case
def row_too_long_in_multi(cluster):
    return multi_refused(multi(cluster, cluster.high, [wire.mutation(PUT, LONG_ROW)]), "DoNotRetryIOException", hbase=IO)


@case
def row_too_long_get(cluster):
    return final(get(cluster, cluster.high, LONG_ROW), hbase=IO)


@case
def row_longest(cluster):
    """32,767 bytes are right."""
    row = b"r" * 32767
    accepted(mutate(cluster, cluster.high, wire.mutation(PUT, row)))
    got = wire.cells_of(get(cluster, cluster.high, row).cells)
    if got != [(row, b"f", b"q", b"v")]:
        raise Fail("%d cells came back" % len(got))


@case
def row_empty_put(cluster):
    return final(mutate(cluster, cluster.low, wire.mutation(PUT, b"")), hbase=IO)


@case
def row_empty_get(cluster):
    return final(get(cluster, cluster.low, b""), hbase=IO)


@case
def row_missing_in_put(cluster):
    return final(mutate(cluster, cluster.low, wire.mutation(PUT, None)), hbase=IO)


@case
def cell_too_big_put(cluster):
    return final(mutate(cluster, cluster.low, wire.mutation(PUT, b"b", b"f", b"q", LONG_CELL)), text="exceeds limit of 10485760 bytes")


@case
def cell_too_big_in_multi(cluster):
    return multi_refused(multi(cluster, cluster.low, [wire.mutation(PUT, b"b", b"f", b"q", LONG_CELL)]), "DoNotRetryIOException")


@case
def cell_grown_too_big_by_append(cluster):
    accepted(mutate(cluster, cluster.low, wire.mutation(PUT, b"b", b"big", b"q", bytes(6 << 20))))
    return final(mutate(cluster, cluster.low, wire.mutation(APPEND, b"b", b"big", b"q", bytes(6 << 20))), text="exceeds limit of 10485760 bytes")


@case
def increment_of_text(cluster):
    accepted(mutate(cluster, cluster.low, wire.mutation(PUT, b"c", b"f", b"q", b"1")))
    return final(mutate(cluster, cluster.low, wire.mutation(INCREMENT, b"c", b"f", b"q", struct.pack(">q", 1))), text="is not a long")


@case
def increment_by_three_bytes(cluster):
    return final(mutate(cluster, cluster.low, wire.mutation(INCREMENT, b"c", b"f", b"q3", b"abc")))


@case
def put_without_value(cluster):
    return final(mutate(cluster, cluster.low, wire.mutation(PUT, b"a", b"f", b"q", None)))


@case
def put_without_cells(cluster):
    """The Java client refuses it; HBase takes it and writes nothing."""
    return either(mutate(cluster, cluster.low, wire.encode((1, b"a"), (2, PUT))), "DoNotRetryIOException")


@case
def mutation_of_unknown_type(cluster):
    """To HBase an unknown enum value is an absent one, and so an append, here of nothing."""
    return either(mutate(cluster, cluster.low, wire.encode((1, b"a"), (2, 9))), "DoNotRetryIOException")


@case
def condition_on_another_row(cluster):
    condition = wire.equal_condition(b"b", b"f", b"q", b"v")
    return final(mutate(cluster, cluster.low, wire.mutation(PUT, b"a"), condition))


@case
def atomic_multi_of_two_rows(cluster):
    """No client sends it. HBase applies both rows, if they are in the region."""
    answer = multi(cluster, cluster.low, [wire.mutation(PUT, b"a"), wire.mutation(PUT, b"b")], atomic=1)
    if answer.error or 2 in answer.message.sub(1):
        return multi_refused(answer, "DoNotRetryIOException", "client.WrongRowIOException")
    return "taken"


@case
def closest_row_before(cluster):
    """asynchbase goes on only after this class, by this name."""
    return refused(get(cluster, cluster.low, b"a", (11, 1)), "exceptions.UnknownProtocolException", retry=False)


@case
def unknown_filter(cluster):
    bad = wire.encode((1, wire.HBASE + "filter.NoSuchFilter"), (2, b""))
    return final(get(cluster, cluster.low, b"a", (4, bad)))


@case
def garbage_filter(cluster):
    bad = wire.encode((1, wire.HBASE + "filter.PrefixFilter"), (2, b"\xff\xff\xff"))
    return final(get(cluster, cluster.low, b"a", (4, bad)))


@case
def unknown_comparator(cluster):
    condition = wire.encode((1, b"a"), (2, b"f"), (3, b"q"), (4, 2), (5, wire.encode((1, wire.HBASE + "filter.NoSuchComparator"))))
    return final(mutate(cluster, cluster.low, wire.mutation(PUT, b"a"), condition), hbase=IO)


@case
def time_range_upside_down(cluster):
    return final(get(cluster, cluster.low, b"a", (5, wire.encode((1, 10), (2, 5)))), hbase=IO)


@case
def no_versions_at_all(cluster):
    return final(get(cluster, cluster.low, b"a", (6, 0)), hbase=IO)


@case
def unknown_method(cluster):
    return final(cluster.once("NoSuchMethod"), text="UnsupportedOperationException")


@case
def unknown_method_at_master(cluster):
    return final(cluster.master_once("FlushRegion"), text="UnsupportedOperationException")


@case
def method_missing(cluster):
    with cluster.client() as c:
        c.send(wire.request(1, None, wire.get_request(cluster.low, b"a")))
        return final(c.receive())


@case
def request_without_param(cluster):
    return final(cluster.once("Get", request_param=False))


@case
def param_empty(cluster):
    """Required fields are missing."""
    return final(cluster.once("Get", b""), hbase=PROTOBUF + "UninitializedMessageException")


@case
def param_garbage(cluster):
    return final(cluster.once("Get", b"\xff" * 40), hbase=PROTOBUF + "InvalidProtocolBufferException")


@case
def param_longer_than_frame(cluster):
    """hbase-driver announces too much (11.4). HBase takes what is there, and so must we."""
    header = wire.delimited(wire.encode((1, 9), (3, "Get"), (4, 1)))
    body = header + wire.varint(100000) + wire.get_request(cluster.low, b"a")
    with cluster.client() as c:
        c.send(struct.pack(">I", len(body)) + body)
        accepted(c.receive())


@case(harms_hbase=True)
def param_deeply_nested(cluster):
    """Filters in filters, a thousand deep: HBase's process dies of it, with a StackOverflowError."""
    nested = b""
    for _ in range(1000):
        nested = wire.encode((1, wire.HBASE + "filter.SkipFilter"), (2, wire.encode((1, nested)) if nested else b""))
    return final(get(cluster, cluster.low, b"a", (4, nested)))


def put_with_cells(cluster, count, cells):
    put = wire.encode((1, b"d"), (2, PUT), (8, count))
    return cluster.once("Multi", wire.multi_request(cluster.low, [put]), cells=cells)


CELL = wire.key_value(b"d", b"f", b"q", b"v")


@case
def cells_right(cluster):
    accepted(put_with_cells(cluster, 1, CELL))


@case
def cells_garbage(cluster):
    return multi_refused(put_with_cells(cluster, 1, b"\xff" * 50), "DoNotRetryIOException", hbase=IO)


@case
def cells_cut(cluster):
    return multi_refused(put_with_cells(cluster, 1, CELL[:-3]), "DoNotRetryIOException", hbase=IO)


@case
def cells_fewer_than_said(cluster):
    return multi_refused(put_with_cells(cluster, 5, CELL), "DoNotRetryIOException")


@case
def cells_none_though_said(cluster):
    return multi_refused(put_with_cells(cluster, 5, b""), "DoNotRetryIOException")


@case(harms_hbase=True)
def cells_two_billion_said(cluster):
    """HBase makes room for so many before it looks, and may have no heap left."""
    return multi_refused(put_with_cells(cluster, 0x7FFFFFFF, CELL), "DoNotRetryIOException")


@case
def cells_of_another_row(cluster):
    return multi_refused(put_with_cells(cluster, 1, wire.key_value(b"e", b"f", b"q", b"v")), "DoNotRetryIOException", hbase="client.WrongRowIOException")


@case
def cells_with_lengths_that_lie(cluster):
    """HBase believes them and runs out of heap, which it survives."""
    lie = struct.pack(">III", 30, 0x7FFFFFF0, 0x7FFFFFF0) + bytes(22)
    return multi_refused(put_with_cells(cluster, 1, lie), "DoNotRetryIOException", hbase=IO)


@case(harms_hbase=True)
def cells_of_unknown_type(cluster):
    """HBase stores it, and its region server aborts when the region is flushed ("Unknown code 77")."""
    return multi_refused(put_with_cells(cluster, 1, wire.key_value(b"d", b"f", b"q", b"v", kind=77)), "DoNotRetryIOException")


@case
def cells_with_row_too_long(cluster):
    """40,000 as 16 bits, which is negative to Java."""
    return multi_refused(put_with_cells(cluster, 1, wire.key_value(b"d" * 40000, b"f", b"q", b"v")), "DoNotRetryIOException", hbase=IO)


@case
def cells_with_family_too_long(cluster):
    return multi_refused(put_with_cells(cluster, 1, wire.key_value(b"d", b"f" * 200, b"q", b"v")), "DoNotRetryIOException", hbase=IO)


@case
def cells_too_big(cluster):
    return multi_refused(put_with_cells(cluster, 1, wire.key_value(b"d", b"f", b"q", LONG_CELL)), "DoNotRetryIOException")


@case
def cells_with_negative_timestamp(cluster):
    """HBase stores it."""
    answer = put_with_cells(cluster, 1, wire.key_value(b"d", b"f", b"negative", b"v", timestamp=(1 << 64) - 5))
    if answer.error or 2 in answer.message.sub(1) or 3 in answer.message.sub(1).sub(1):
        return multi_refused(answer, "DoNotRetryIOException", hbase=IO)
    return "taken"


@case
def put_with_negative_timestamp(cluster):
    return final(mutate(cluster, cluster.low, wire.mutation(PUT, b"d", b"f", b"negative", b"v", (4, -5))), hbase=IO)


@case
def cells_compressed(cluster):
    """Not bad: the cell block as gzip, both ways."""
    put = wire.multi_request(cluster.low, [wire.encode((1, b"d"), (2, PUT), (8, 1))])
    with cluster.client(compressor=GZIP) as c:
        accepted(c.call("Multi", put, cells=gzip.compress(wire.key_value(b"d", b"f", b"gzip", b"v" * 1000))))
        answer = c.call("Get", wire.get_request(cluster.low, b"d", (2, wire.encode((1, b"f"), (2, b"gzip")))))
        accepted(answer)
        got = wire.cells_of(gzip.decompress(answer.cells))
        if got != [(b"d", b"f", b"gzip", b"v" * 1000)]:
            raise Fail("%r" % got)


@case
def cells_compressed_garbage(cluster):
    put = wire.multi_request(cluster.low, [wire.encode((1, b"d"), (2, PUT), (8, 1))])
    with cluster.client(compressor=GZIP) as c:
        return multi_refused(c.call("Multi", put, cells=b"\xff" * 60), "DoNotRetryIOException", hbase=IO)


@case(harms_hbase=True)
def cells_compressed_bomb(cluster):
    """1 GiB of zeros in 1 MiB of gzip: more than the largest request."""
    packer, block = zlib.compressobj(9, zlib.DEFLATED, 31), b""
    for _ in range(1024):
        block += packer.compress(bytes(1 << 20))
    block += packer.flush()
    put = wire.multi_request(cluster.low, [wire.encode((1, b"d"), (2, PUT), (8, 1))])
    with cluster.client(compressor=GZIP, timeout=60) as c:
        c.start("Multi", put, cells=block)
        try:
            return multi_refused(c.receive(), "DoNotRetryIOException", "exceptions.RequestTooBigException")
        except wire.Closed:
            return "closed"


@case
def cell_block_longer_than_frame(cluster):
    with cluster.client() as c:
        c.send(wire.request(3, "Multi", wire.multi_request(cluster.low, [wire.encode((1, b"d"), (2, PUT), (8, 1))]), cells=CELL, cell_length=1 << 20))
        try:
            return final(c.receive(), hbase="java.lang.IllegalArgumentException")
        except wire.Closed:
            return "closed"


@case
def cell_block_without_codec(cluster):
    with cluster.client(codec=None) as c:
        answer = c.call("Multi", wire.multi_request(cluster.low, [wire.encode((1, b"d"), (2, PUT), (8, 1))]), cells=CELL)
        return multi_refused(answer, "DoNotRetryIOException", hbase="java.lang.NullPointerException")


@case
def multi_of_nothing(cluster):
    return either(cluster.once("Multi", b""), "DoNotRetryIOException")


@case
def multi_of_a_region_and_no_action(cluster):
    return either(multi(cluster, cluster.low, []), "DoNotRetryIOException")


def row_regex(pattern):
    comparator = wire.encode((1, wire.HBASE + "filter.RegexStringComparator"), (2, wire.encode((1, pattern), (2, 0), (3, "UTF-8"))))
    return (4, wire.encode((1, wire.HBASE + "filter.RowFilter"), (2, wire.encode((1, wire.encode((1, 2), (2, comparator)))))))


@case
def regex_that_does_not_parse(cluster):
    return final(get(cluster, cluster.low, b"a", row_regex("(a")), hbase=IO)


@case
def regex_of_exponential_time(cluster):
    """2^40 ways for an engine that tries them all; Java 17's remembers, so that HBase answers."""
    row = b"a" * 40 + b"!"
    accepted(mutate(cluster, cluster.low, wire.mutation(PUT, row)))
    return either(get(cluster, cluster.low, row, row_regex("(a+)+$")), "DoNotRetryIOException")


@case
def regex_of_huge_size(cluster):
    return either(get(cluster, cluster.low, b"a", row_regex("((a{1,1000}){1,1000}){1,1000}")), "DoNotRetryIOException")


# Scanners.
def open_scanner(c, region, rows=0, scan=None):
    return c.must("Scan", wire.scan_request(region, scan or wire.encode(), rows=rows)).one(2)


@case
def scan_of_nothing(cluster):
    """Neither scanner_id nor scan."""
    return final(cluster.once("Scan", wire.scan_request(rows=1)))


@case
def scanner_unknown(cluster):
    return refused(cluster.once("Scan", wire.scan_request(scanner_id=12345, rows=1, next_call_seq=0)), "UnknownScannerException", retry=False)


@case
def scanner_unknown_close(cluster):
    refused(cluster.once("Scan", wire.scan_request(scanner_id=12345, rows=0, close=True)), "UnknownScannerException", retry=False)


@case
def scanner_foreign(cluster):
    """An id of this server's kind, far beyond its counter, and one as another server would give."""
    with cluster.client() as c:
        known = open_scanner(c, cluster.low)
        for foreign in (known + (1 << 20), known ^ (1 << 40), known ^ (1 << 63)):
            refused(c.call("Scan", wire.scan_request(scanner_id=foreign, rows=1, next_call_seq=0)), "UnknownScannerException", retry=False)
        accepted(c.call("Scan", wire.scan_request(scanner_id=known, rows=1, next_call_seq=0)))


@case
def scanner_closed_twice(cluster):
    """HBase remembers it for a while and answers its id again."""
    with cluster.client() as c:
        known = open_scanner(c, cluster.low)
        accepted(c.call("Scan", wire.scan_request(scanner_id=known, rows=0, close=True)))
        return either(c.call("Scan", wire.scan_request(scanner_id=known, rows=0, close=True)), "UnknownScannerException")


@case
def scanner_next_after_close(cluster):
    with cluster.client() as c:
        known = open_scanner(c, cluster.low)
        accepted(c.call("Scan", wire.scan_request(scanner_id=known, rows=0, close=True)))
        answer = c.call("Scan", wire.scan_request(scanner_id=known, rows=1, next_call_seq=0))
        if not answer.error and not answer.cells and answer.message.one(8) == 0:
            return "no rows"
        return refused(answer, "exceptions.OutOfOrderScannerNextException", "UnknownScannerException", retry=False)


@case
def scanner_out_of_order(cluster):
    with cluster.client() as c:
        known = open_scanner(c, cluster.low)
        accepted(c.call("Scan", wire.scan_request(scanner_id=known, rows=1, next_call_seq=0)))
        return refused(c.call("Scan", wire.scan_request(scanner_id=known, rows=1, next_call_seq=0)), "exceptions.OutOfOrderScannerNextException", retry=False)


@case
def scanner_two_calls_at_once(cluster):
    """Never two answers with rows to the same next_call_seq."""
    told = set()
    with cluster.client(timeout=60) as one, cluster.client(timeout=60) as two:
        for _ in range(20):
            known = open_scanner(one, cluster.low)
            next_call = wire.scan_request(scanner_id=known, rows=1000, next_call_seq=0)
            one.start("Scan", next_call)
            two.start("Scan", next_call)
            answers = [one.receive(), two.receive()]
            bad = [a for a in answers if a.error]
            if len(bad) != 1:
                raise Fail("%d of two calls were refused: %s; %s" % (len(bad), *answers))
            refused(bad[0], "regionserver.LeaseException", "exceptions.OutOfOrderScannerNextException", "UnknownScannerException", retry=False)
            told.add(bad[0].error.rsplit(".", 1)[-1])
    return ", ".join(sorted(told))


@case
def scanners_left_open(cluster):
    """A thousand, on a connection that ends. They go with their lease; until then they must not hurt."""
    with cluster.client() as c:
        for _ in range(1000):
            open_scanner(c, cluster.low)


@case
def scan_start_behind_stop(cluster):
    """An empty range is no error."""
    answer = cluster.once("Scan", wire.scan_request(cluster.low, wire.encode((3, b"l"), (4, b"b")), rows=10))
    accepted(answer)
    if answer.cells or answer.message.one(8, 1):
        raise Fail("rows, or more of them: %s" % answer)


@case
def scan_of_a_huge_budget(cluster):
    """2^63 - 1 bytes and 2^31 - 1 rows asked for: the server bounds the answer."""
    accepted(cluster.once("Scan", wire.scan_request(cluster.high, wire.encode((10, (1 << 63) - 1)), rows=0x7FFFFFFF, close=True), timeout=60))


@case
def scan_of_too_many_rows(cluster):
    """2^32 - 1, which is -1 to HBase."""
    return either(cluster.once("Scan", wire.scan_request(cluster.low, wire.encode(), rows=0xFFFFFFFF, close=True)), "DoNotRetryIOException", IO)


@case
def unknown_coprocessor(cluster):
    call = wire.encode((1, b"a"), (2, "hbase.pb.NoSuchService"), (3, "NoSuchMethod"), (4, b""))
    answer = cluster.once("ExecService", wire.encode((1, wire.region(cluster.low)), (2, call)))
    return refused(answer, "exceptions.UnknownProtocolException", retry=False)


# The master.
@case
def table_exists(cluster):
    return refused(create(cluster, cluster.table, [b"f"]), "TableExistsException", retry=False)


@case
def table_without_families(cluster):
    return final(create(cluster, b"badinput_families", []), "exceptions.FailedSanityCheckException")


@case
def table_with_illegal_name(cluster):
    return final(create(cluster, b"bad input/", [b"f"]), "exceptions.FailedSanityCheckException", hbase=IO)


@case
def table_with_illegal_family(cluster):
    return final(create(cluster, b"badinput_family", [b"f:g"]), "exceptions.FailedSanityCheckException", hbase=IO)


@case
def table_in_unknown_namespace(cluster):
    answer = create(cluster, b"badinput_namespace", [b"f"], (), b"no_such_namespace")
    return refused(answer, "NamespaceNotFoundException", retry=False)


@case(harms_hbase=True)
def table_with_split_key_twice(cluster):
    """HBase leaves that to its client and makes the table."""
    return refused(create(cluster, b"badinput_split", [b"f"], [b"m", b"m"]), "DoNotRetryIOException", IO)


@case(harms_hbase=True)
def table_with_empty_split_key(cluster):
    """HBase leaves that to its client and makes the table."""
    return refused(create(cluster, b"badinput_split", [b"f"], [b"", b"m"]), "DoNotRetryIOException", IO)


@case
def unknown_table_disabled(cluster):
    return refused(cluster.master_once("DisableTable", wire.encode((1, wire.table_name(b"no_such_table")))), "TableNotFoundException", retry=False)


@case
def enabled_table_deleted(cluster):
    return refused(cluster.master_once("DeleteTable", wire.encode((1, wire.table_name(cluster.table)))), "TableNotDisabledException", retry=False)


@case
def unknown_procedure(cluster):
    answer = accepted(cluster.master_once("getProcedureResult", wire.encode((1, 987654321))))
    if answer.one(1) != 0:
        raise Fail("state %s" % answer.one(1))
