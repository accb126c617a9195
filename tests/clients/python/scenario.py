"""The scenario of README.md with hbase-driver 1.1.1, as far as that client goes (README.md says what is left out)."""
import argparse
import sys
import threading
import time

from hbasedriver.client.client import Client
from hbasedriver.common.table_name import TableName
from hbasedriver.operations.append import Append
from hbasedriver.operations.delete import Delete
from hbasedriver.operations.get import Get
from hbasedriver.operations.increment import CheckAndPut, Increment
from hbasedriver.operations.put import Put
from hbasedriver.operations.row_mutations import RowMutations
from hbasedriver.operations.scan import Scan
from hbasedriver.protobuf_py.HBase_pb2 import BytesBytesPair, ColumnFamilySchema

ROWS = 10000
F, G, V, N, A, B, C = b"f", b"g", b"v", b"n", b"a", b"b", b"c"
arguments = argparse.ArgumentParser()
for name in ("--zookeeper", "--bootstrap", "--table", "--expected"):
    arguments.add_argument(name)
arguments = arguments.parse_args()

expected, mine = {}, []
for line in open(arguments.expected):
    if line.strip() and not line.startswith("#"):
        name, clients, answer = line.rstrip("\n").split("\t")
        expected[name] = answer
        if "python" in clients.split(","):
            mine.append(name)
passed = failed = 0


def check(name, what):
    global passed, failed
    note = ""
    try:
        actual = what()
        actual = str(actual).lower() if isinstance(actual, bool) else str(actual)
    except Exception as e:
        # hbase-driver puts the server's class name into the message.
        actual = (e.args[0] if e.args and isinstance(e.args[0], str) and e.args[0].startswith("org.") else type(e).__name__).rsplit(".", 1)[-1]
        note = " (%s)" % repr(e)[:300]
    if name not in mine:
        actual = "not a check of this client, or done twice"
    else:
        mine.remove(name)
    if actual == expected.get(name):
        passed += 1
        print("ok " + name, flush=True)
    else:
        failed += 1
        print("FAIL %s expected %s got %s%s" % (name, expected.get(name), actual, note), flush=True)


def cells(row):
    if row is None:
        return "empty"
    return " ".join("%s:%s=%s" % (f.decode(), q.decode(), v.decode()) for f, qs in sorted(row.kv.items()) for q, v in sorted(qs.items()))


def with_row(row):
    return "empty" if row is None else row.rowkey.decode() + " " + cells(row)


def rows(scan, limit=20000):
    """The rows of a scan within one region: this client's scans do not go on to the next."""
    scanner = table.scan(scan)
    keys = []
    while len(keys) < limit:
        some = scanner.next_batch(min(50, limit - len(keys)))
        if not some:
            break
        keys += [r.rowkey.decode() for r in some]
    scanner.close()
    if not keys:
        return "0 rows"
    return "%d rows, %s to %s, %s" % (len(keys), keys[0], keys[-1], "in order" if keys == sorted(set(keys)) else "out of order")


def region(start, stop):
    return Scan().with_start_row(start).with_end_row(stop, inclusive=False)


def put(row, family, qualifier, value, ts=None):
    return table.put(Put(row).add_column(family, qualifier, value, ts))


def get(row, versions=1):
    g = Get(row)
    g.read_versions(versions)
    return table.get(g)


def value(row, versions=1):
    """Of several versions this client keeps the last, which is the oldest."""
    row = get(row, versions)
    return "empty" if row is None else row.get(F, V).decode()


client = Client({"hbase.zookeeper.quorum": arguments.zookeeper})
admin = client.get_admin()
name = TableName.value_of(b"default", arguments.table.encode())
if admin.table_exists(name):
    if admin.is_table_enabled(name):
        admin.disable_table(name)
    admin.delete_table(name)
table = client.get_table(b"default", arguments.table.encode())


def create():
    # The builder's set_max_versions writes an attribute that HBase does not know.
    families = [ColumnFamilySchema(name=F, attributes=[BytesBytesPair(first=b"VERSIONS", second=b"3")]), ColumnFamilySchema(name=G)]
    admin.create_table(name, families, [b"r02500", b"r05000", b"r07500"])
    return admin.table_exists(name)


def touch(i):
    """This client looks a region's very first row up in the region before, unless it knows the region already."""
    if i % 2500 == 0 and i > 0:
        get(b"r%05d" % (i + 1))


def write():
    for i in range(ROWS):
        touch(i)
        table.put(Put(b"r%05d" % i).add_column(F, V, b"value-%05d" % i).add_column(G, N, b"%d" % (i % 10)))
    return ROWS


def read():
    right = 0
    for i in range(ROWS):
        touch(i)
        right += with_row(get(b"r%05d" % i)) == "r%05d f:v=value-%05d g:n=%d" % (i, i, i % 10)
    return "%d right, %d wrong" % (right, ROWS - right)


check("connect", lambda: client.master_conn is not None)
check("cluster.servers", lambda: len(admin.list_region_servers()) >= 1)
check("table.absent", lambda: admin.table_exists(name))
check("table.create.python", create)
check("table.create.again", create)
check("table.list", lambda: any(t.table_name.qualifier == name.tb for t in admin.list_tables().table_schema))
check("write.rows", write)
check("read.rows", read)
check("get.row", lambda: with_row(get(b"r01234")))
check("get.column", lambda: with_row(table.get(Get(b"r01234").add_column(F, V))))
check("get.family", lambda: with_row(table.get(Get(b"r01234").add_family(G))))
check("get.absent", lambda: with_row(get(b"absent")))
check("get.exists", lambda: "%s %s" % tuple(str(table.exists(Get(r))).lower() for r in (b"r01234", b"absent")))
check("scan.region", lambda: rows(region(b"r00100", b"r00190")))
check("scan.limit.region", lambda: rows(region(b"r00100", b"r00190"), 25))
check("scan.family", lambda: " ".join(r.get(G, N).decode() for r in table.scan(region(b"r00000", b"r00005").add_family(G)).next_batch(5)))
check("scan.none", lambda: rows(region(b"s", b"t")))

for ts, v in ((1000, b"a"), (2000, b"b"), (3000, b"c")):
    put(b"x-versions", F, V, v, ts)
check("versions.newest", lambda: value(b"x-versions"))
check("versions.oldest.of.two", lambda: value(b"x-versions", 2))
check("versions.oldest", lambda: value(b"x-versions", 10))
put(b"x-versions", F, V, b"d", 4000)
check("versions.fourth.oldest", lambda: value(b"x-versions", 10))


def concurrent():
    def work():
        own = client.get_table(b"default", arguments.table.encode())
        for _ in range(25):
            own.increment(Increment(b"x-counter").add_column(F, C, 1))
    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return int.from_bytes(get(b"x-counter").get(F, C), "big")


check("increment.concurrent", concurrent)
check("increment.result", lambda: table.increment(Increment(b"x-counter").add_column(F, C, 7)))
put(b"x-append", F, V, b"ab")
check("append.result", lambda: table.append(Append(b"x-append").add_column(F, V, b"cd")).get(F, V).decode())
check("append.read", lambda: value(b"x-append"))


def compare(old):
    c = CheckAndPut(b"x-check").set_check(F, V, old)
    c.set_put(Put(b"x-check").add_column(F, V, b"new"))
    return str(table.check_and_put(c)).lower()


put(b"x-check", F, V, b"old", 1000)
check("check.equal", lambda: compare(b"other") + " " + compare(b"old"))
check("check.value", lambda: value(b"x-check"))


def mutate():
    table.mutate_row(RowMutations(b"x-mutate").add(Put(b"x-mutate").add_column(F, B, b"2")).add(Put(b"x-mutate").add_column(G, C, b"3")))
    return cells(get(b"x-mutate"))


check("mutate.row", mutate)


def three_versions(row):
    for ts, v in ((1, b"one"), (2, b"two"), (3, b"three")):
        put(row, F, V, v, ts)
    return row


def three_columns(row):
    table.put(Put(row).add_column(F, A, b"a").add_column(F, B, b"b").add_column(G, C, b"c"))
    return row


def delete(d):
    table.delete(d)
    return d.rowkey


check("delete.latest.value", lambda: value(delete(Delete(three_versions(b"x-delete-1")).add_column(F, V))))
check("delete.exact.value", lambda: value(delete(Delete(three_versions(b"x-delete-2")).add_column(F, V, 3))))
check("delete.column.up.to.value", lambda: value(delete(Delete(three_versions(b"x-delete-4")).add_columns(F, V, 2)), 10))
check("delete.column", lambda: cells(get(delete(Delete(three_columns(b"x-delete-3")).add_columns(F, A, 0x7fffffffffffffff)))))
check("delete.family", lambda: cells(get(delete(Delete(three_columns(b"x-delete-5")).add_family(F)))))
check("delete.row", lambda: with_row(get(delete(Delete(three_columns(b"x-delete-7"))))))


def again():
    time.sleep(0.005)  # a put in the delete's own millisecond would stay masked
    put(b"x-delete-7", F, A, b"again")
    return cells(get(b"x-delete-7"))


check("delete.then.put", again)
check("error.unknown.family.put", lambda: put(A, b"nosuch", A, A))
check("error.unknown.family.get", lambda: cells(table.get(Get(A).add_family(b"nosuch"))))


def add_family():
    admin.add_column_family(name, b"h")
    for end in range(100):
        try:
            put(b"r00000", b"h", b"new", b"1")
            break
        except Exception:
            time.sleep(0.2)  # this client does not wait for the procedure
    return cells(get(b"r00000"))


check("family.add.write", add_family)
check("disable", lambda: (admin.disable_table(name), admin.is_table_disabled(name))[1])
check("enable", lambda: (admin.enable_table(name), admin.is_table_enabled(name))[1])


def read_again():
    # The table is ENABLED in hbase:meta when the procedure ends, and this client does not ask for a region again.
    for end in range(100):
        try:
            fresh = client.get_table(b"default", arguments.table.encode())
            fresh.get(Get(b"r05001"))
            return fresh.get(Get(b"r05000").add_column(F, V)).get(F, V).decode()
        except Exception:
            time.sleep(0.2)


check("enable.read", read_again)


def drop():
    admin.disable_table(name)
    admin.delete_table(name)
    for end in range(100):
        if not admin.table_exists(name):
            break
        time.sleep(0.2)
    return admin.table_exists(name)


check("drop", drop)
for name in mine:
    failed += 1
    print("FAIL %s expected %s got nothing: not run" % (name, expected[name]))
print("%d passed, %d failed" % (passed, failed))
sys.stdout.flush()
client.close()
sys.exit(1 if failed else 0)
