"""What the cases of badinput.py share: the server under test, its table, and how an answer is judged."""
import os
import time

import hbase_wire as wire

CASES = []  # (name, function of Cluster), in the order of definition
HARM_HBASE = set()  # names of cases after which HBase 2.6.4's process or its table is beyond use


class Fail(Exception):
    pass


def case(function=None, harms_hbase=False):
    """Registers a case. It may return a remark, which is printed behind its name."""
    if function is None:
        return lambda f: case(f, harms_hbase)
    name = function.__name__.replace("_", "-")
    CASES.append((name, function))
    if harms_hbase:
        HARM_HBASE.add(name)
    return function


def java(name):
    return name if "." in name and name.startswith(("java.", "org.")) else wire.HBASE + name


def first_line(text):
    return text.split("\n")[0][:160]


def refused(answer, *classes, hbase=None, retry=None, text=None):
    """The answer is an exception of one of the classes (without org.apache.hadoop.hbase.). hbase: the class that HBase itself uses, where
    that makes clients try again what can never work or names a class that they cannot build; both are right, see README.md. retry: whether
    clients may try again. text: what clients or people look for in it."""
    if answer.error is None or answer.error not in [java(c) for c in classes + ((hbase,) if hbase else ())]:
        raise Fail("expected %s, got %s" % (" or ".join(classes), answer))
    if not answer.text:
        raise Fail("no stack_trace, which gohbase dereferences: %s" % answer)
    if text is not None and text not in answer.text:
        raise Fail("expected a text with %r, got %s" % (text, answer))
    if hbase and answer.error == java(hbase):
        return first_line(answer.text)
    if retry is not None and answer.do_not_retry == retry:
        raise Fail("do_not_retry is %s in %s" % (answer.do_not_retry, answer))
    return first_line(answer.text)


def accepted(answer):
    if answer.error:
        raise Fail("expected an answer, got %s" % answer)
    return answer.message


def pair_refused(pair, *classes):
    """An exception inside a Multi's answer: NameBytesPair."""
    got = wire.decode(pair).text(1)
    if got not in [java(c) for c in classes]:
        raise Fail("expected %s, got %s: %s" % (" or ".join(classes), got, wire.decode(pair).text(2)[:300]))
    return first_line(wire.decode(pair).text(2))


def multi_refused(answer, *classes, hbase=None):
    """A Multi of one action: the call, its region or the action is refused. Which of them is the server's affair: clients read all three."""
    if answer.error:
        return "call: " + refused(answer, *classes, hbase=hbase)
    region = answer.message.sub(1)
    action = region.sub(1)
    if 2 in region:
        return "region: " + pair_refused(region.one(2), *classes, *filter(None, [hbase]))
    if 3 in action:
        return "action: " + pair_refused(action.one(3), *classes, *filter(None, [hbase]))
    raise Fail("expected %s, got %s" % (" or ".join(classes), answer))


def closed(connection, seconds=10.0):
    """The server ends the connection and says nothing before."""
    try:
        got = connection.receive_exactly(1, seconds)
    except wire.Closed:
        return
    except wire.Silent:
        raise Fail("still open after %g s" % seconds) from None
    raise Fail("expected the end of the connection, got byte %s" % got.hex())


def silent(connection, seconds):
    """Nothing comes, and the connection stays open."""
    try:
        got = connection.receive_exactly(1, seconds)
    except wire.Silent:
        return
    raise Fail("expected silence, got byte %s" % got.hex())


class Cluster:
    """The running server, and a table with the regions ["", m) and [m, "") and the families f and big."""

    def __init__(self, zookeeper, master, region_server, silent_seconds=None):
        self.zookeeper, self.master, self.region_server = zookeeper, master, region_server
        self.silent_seconds = silent_seconds
        self.admin = wire.Admin(master, region_server)
        self.table = b"badinput_%d" % os.getpid()
        self.low = self.high = None
        self.witness = None
        self.left_silent = []  # connections of the first case, judged in the last

    def set_up(self):
        self.admin.create(self.table, [b"f", b"big"], [b"m"])
        end = time.monotonic() + 60
        while True:
            regions = self.admin.regions(self.table)
            if len(regions) == 2:
                break
            if time.monotonic() > end:
                raise Fail("hbase:meta has %d regions of the new table" % len(regions))
            time.sleep(0.1)
        (self.low, _), (self.high, _) = regions
        while True:  # HBase writes info:server a moment before the region takes calls
            with self.client() as c:
                answers = [c.call("Mutate", wire.mutate_request(r, wire.mutation(wire.PUT, row))) for r, row in ((self.low, b"a"), (self.high, b"z"))]
            if not any(a.error for a in answers):
                break
            if time.monotonic() > end:
                raise Fail("a first put: %s, %s" % tuple(answers))
            time.sleep(0.1)
        self.witness = self.client()

    def tear_down(self):
        if self.witness:
            self.witness.close()
        if self.low:
            self.admin.drop(self.table)

    def client(self, service="ClientService", **options):
        return wire.Connection(self.master if service == "MasterService" else self.region_server, service, **options)

    def raw(self, where=None):
        """A connection on which nothing has been sent."""
        return wire.Connection(where or self.region_server, None)

    def once(self, method, param=b"", **options):
        with self.client() as c:
            return c.call(method, param, **options)

    def master_once(self, method, param=b""):
        with self.client("MasterService") as c:
            return c.call(method, param, timeout=30)

    def well(self):
        """After every case: an old connection, a new one, the master and ZooKeeper still serve. A server may still be busy with what the
        case sent and say so; then it is asked again for 10 s."""
        end = time.monotonic() + 10
        with self.client() as fresh:
            for c in (self.witness, fresh):
                answer = c.call("Get", wire.get_request(self.low, b"a", wire.columns(b"f")))
                while answer.error == java("CallQueueTooBigException") and time.monotonic() < end:
                    time.sleep(0.1)
                    answer = c.call("Get", wire.get_request(self.low, b"a", wire.columns(b"f")))
                accepted(answer)
                if wire.cells_of(answer.cells) != [(b"a", b"f", b"q", b"v")]:
                    raise Fail("afterwards a get answers %r" % wire.cells_of(answer.cells))
        with self.client("MasterService") as c:
            c.must("IsMasterRunning")
        with self.raw(self.zookeeper) as c:
            c.send(wire.zk_connect() + wire.zk_request(1, -11))
            c.receive_exactly(41)
