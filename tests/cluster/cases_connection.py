"""Bad starts, frames that are none, clients that are silent, slow or gone."""
import os
import random
import struct
import time

import hbase_wire as wire
from harness import Fail, accepted, case, closed, java, refused, silent

def good(cluster):
    return wire.get_request(cluster.low, b"a", wire.columns(b"f"))


def start_refused(cluster, data, *classes, text=None):
    with cluster.raw() as c:
        c.send(data)
        answer = c.receive()
        if answer.call_id != wire.CONNECTION_CALL_ID:
            raise Fail("the answer is for call %s, not for the connection" % answer.call_id)
        told = refused(answer, *classes, text=text)
        closed(c)
        return told, answer


@case
def silent_client_connects(cluster):
    """Judged by the last case: what the server does with connections that never say anything."""
    for where in (cluster.region_server, cluster.master, cluster.zookeeper):
        cluster.left_silent.append((cluster.raw(where), time.monotonic()))
    half = cluster.raw()
    half.send(b"HBas")
    cluster.left_silent.append((half, time.monotonic()))
    headless = cluster.raw()
    headless.send(wire.preamble() + struct.pack(">I", 100) + b"\x0a")
    cluster.left_silent.append((headless, time.monotonic()))


@case
def preamble_garbage(cluster):
    told, answer = start_refused(cluster, b"\xde\xad\xbe\xef\x00\x50", "ipc.FatalConnectionException", text="Expected HEADER=HBas but received HEADER=")
    if not answer.text.startswith("Expected HEADER="):
        raise Fail("clients of 2.6 look for a text that starts with Expected HEADER=, got %s" % answer)
    return told


@case
def preamble_http(cluster):
    start_refused(cluster, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "ipc.FatalConnectionException", text="Expected HEADER=HBas")


@case
def preamble_tls(cluster):
    start_refused(cluster, bytes.fromhex("16030100c8010000c40303") + bytes(200), "ipc.FatalConnectionException", text="Expected HEADER=HBas")


@case
def preamble_garbage_at_master(cluster):
    with cluster.raw(cluster.master) as c:
        c.send(b"\xde\xad\xbe\xef\x00\x50")
        refused(c.receive(), "ipc.FatalConnectionException", text="Expected HEADER=HBas")
        closed(c)


@case
def preamble_bad_version(cluster):
    return start_refused(cluster, wire.preamble(version=9), "ipc.WrongVersionException")[0]


@case
def preamble_bad_auth(cluster):
    return start_refused(cluster, wire.preamble(auth=0x01), "ipc.BadAuthException")[0]


@case
def preamble_sasl_without_security(cluster):
    """The server says "switch to simple", skips the first token and goes on (1.4)."""
    with cluster.raw() as c:
        c.send(wire.preamble(auth=0x51))
        told = c.receive_exactly(8)
        if told != struct.pack(">ii", 0, -88):
            raise Fail("expected 0 and -88, got %s" % told.hex())
        c.send(struct.pack(">I", 4) + b"tokn" + wire.connection_header())
        accepted(c.call("Get", good(cluster)))


@case
def preamble_registry(cluster):
    """Not bad, but rare: the 6 bytes of clients of 2.6 and 3.0 (1.5)."""
    with cluster.raw() as c:
        c.send(b"Regist")
        answer = c.receive()
        if answer.call_id != wire.CONNECTION_CALL_ID or not accepted(answer).text(1):
            raise Fail("no cluster id: %s" % answer)
        closed(c)


@case
def preamble_security(cluster):
    with cluster.raw() as c:
        c.send(b"Securi")
        refused(c.receive(), "ipc.SecurityNotEnabledException")
        c.send(wire.preamble() + wire.connection_header())
        accepted(c.call("Get", good(cluster)))


@case
def preamble_in_pieces_then_gone(cluster):
    for end in range(6):
        with cluster.raw() as c:
            c.send(wire.preamble()[:end])


@case
def header_garbage(cluster):
    with cluster.raw() as c:
        c.send(wire.preamble() + struct.pack(">I", 64) + b"\xff" * 64)
        closed(c)


@case
def header_length_negative(cluster):
    with cluster.raw() as c:
        c.send(wire.preamble() + struct.pack(">i", -5) + b"x" * 64)
        return closed_or_refused(c)


@case
def header_length_huge(cluster):
    with cluster.raw() as c:
        c.send(wire.preamble() + struct.pack(">I", 0x7FFFFFFF) + b"x" * 64)
        return closed_or_refused(c)


def closed_or_refused(c):
    """HBase may say something about call 0 or the connection before it closes; what counts is that it closes."""
    try:
        answer = c.receive()
    except wire.Closed:
        return "closed without an answer"
    closed(c)
    return "closed after %s" % answer.error


@case
def header_unknown_service(cluster):
    with cluster.raw() as c:
        c.send(wire.preamble() + wire.connection_header("NoSuchService"))
        closed(c)


@case
def header_masters_service_at_region_server(cluster):
    with cluster.raw() as c:
        c.send(wire.preamble() + wire.connection_header("MasterService"))
        closed(c)


@case
def header_unknown_codec(cluster):
    with cluster.raw() as c:
        c.send(wire.preamble() + wire.connection_header(codec=wire.HBASE + "codec.NoSuchCodec"))
        closed(c)


@case
def header_unknown_compressor(cluster):
    with cluster.raw() as c:
        c.send(wire.preamble() + wire.connection_header(compressor="org.apache.hadoop.io.compress.NoSuchCodec"))
        closed(c)


@case
def header_empty(cluster):
    """No field of ConnectionHeader is required. HBase takes the connection's calls or ends it; it must not stay silent."""
    with cluster.raw() as c:
        c.send(wire.preamble() + struct.pack(">I", 0) + wire.request(1, "Get", good(cluster)))
        return closed_or_refused(c)


@case
def frame_oversize(cluster):
    """257 MiB announced: refused for its call id, which has to be read from the frame's beginning (1.6)."""
    with cluster.client() as c:
        frame = wire.request(77, "Get", good(cluster))
        c.send(struct.pack(">I", 257 << 20) + frame[4:] + bytes(2048))
        answer = c.receive()
        if answer.call_id != 77:
            raise Fail("the answer is for call %s, not 77" % answer.call_id)
        told = refused(answer, "exceptions.RequestTooBigException", retry=False)
        closed(c)
        return told


@case
def frame_of_2_gib(cluster):
    with cluster.client() as c:
        frame = wire.request(78, "Get", good(cluster))
        c.send(struct.pack(">I", 0x7FFFFFFF) + frame[4:] + bytes(2048))
        return closed_or_refused(c)


@case
def frame_length_negative(cluster):
    with cluster.client() as c:
        c.send(struct.pack(">i", -1) + bytes(64))
        return closed_or_refused(c)


@case
def frame_empty(cluster):
    with cluster.client() as c:
        c.send(struct.pack(">I", 0))
        return closed_or_refused(c)


@case
def frame_garbage(cluster):
    with cluster.client() as c:
        c.send(struct.pack(">I", 100) + b"\xff" * 100)
        return closed_or_refused(c)


@case
def frame_random(cluster):
    """Two hundred frames of noise, each on its own connection; whatever the answer, nothing may come of it."""
    dice = random.Random(20261130)
    for _ in range(200):
        with cluster.client() as c:
            size = dice.choice((1, 2, 7, 40, 300, 4000))
            try:
                c.send(struct.pack(">I", size) + dice.randbytes(size))
            except wire.Closed:
                pass


@case
def frame_truncated_then_silence(cluster):
    """The rest never comes. The server may wait; others are served meanwhile (checked after every case)."""
    c = cluster.client()
    c.send(wire.request(1, "Get", good(cluster))[:-5])
    silent(c, 1.0)
    cluster.well()
    c.close()


@case
def frame_truncated_then_end(cluster):
    with cluster.client() as c:
        c.send(wire.request(1, "Get", good(cluster))[:-5])
        c.socket.shutdown(1)
        closed(c)


@case
def calls_then_reset(cluster):
    """A hundred clients that go with RST while their calls run."""
    for _ in range(100):
        c = cluster.client()
        for _ in range(5):
            c.start("Get", good(cluster))
        c.reset()


@case
def slow_client(cluster):
    """One byte at a time, from the preamble to the end of a call."""
    with cluster.raw() as c:
        for byte in wire.preamble() + wire.connection_header() + wire.request(1, "Get", good(cluster)):
            c.send(bytes([byte]))
            time.sleep(0.002)
        accepted(c.receive())


@case
def slow_reader(cluster):
    """64 MiB of answers that nobody reads for 2 s: others are served, and then every answer is there."""
    row = wire.get_request(cluster.high, b"slow", wire.columns(b"big"))
    with cluster.client() as c:
        accepted(c.call("Mutate", wire.mutate_request(cluster.high, wire.mutation(wire.PUT, b"slow", b"big", b"q", bytes(1 << 20)))))
    with cluster.client(receive_buffer=4096, timeout=60) as c:
        ids = {c.start("Get", row) for _ in range(64)}
        end = time.monotonic() + 2
        while time.monotonic() < end:
            cluster.well()
            time.sleep(0.2)
        told = {}
        while ids:
            answer = c.receive()
            ids.remove(answer.call_id)
            kind = answer.error or "answered"
            told[kind] = told.get(kind, 0) + 1
        other = set(told) - {"answered", wire.HBASE + "CallQueueTooBigException"}
        if other or not told.get("answered"):
            raise Fail("answers: %r" % told)
        return ", ".join("%d %s" % (n, k.rsplit(".", 1)[-1]) for k, n in sorted(told.items()))


@case
def many_calls_at_once(cluster):
    """Two thousand calls in one write: each is answered once, or refused as too many."""
    with cluster.client(timeout=60) as c:
        c.send(b"".join(wire.request(i, "Get", good(cluster)) for i in range(2000)))
        seen, refusals = set(), 0
        for _ in range(2000):
            answer = c.receive()
            if answer.call_id in seen:
                raise Fail("two answers to call %d" % answer.call_id)
            seen.add(answer.call_id)
            if answer.error:
                refused(answer, "CallQueueTooBigException", retry=True)
                refusals += 1
        return "%d refused" % refusals


SCANS = 40  # more than HBase's 30 handlers


def unread_scans(cluster, c, budget):
    """Starts scans of `budget` bytes each, at most 16 MiB; their ids."""
    for i in range(64):
        c.must("Mutate", wire.mutate_request(cluster.low, wire.mutation(wire.PUT, b"deadline%02d" % i, b"big", b"q", os.urandom(1 << 18))))
    heavy = wire.scan_request(cluster.low, wire.encode((1, wire.encode((1, b"big"))), (10, budget)), rows=1000, close=True)
    return {c.start("Scan", heavy) for _ in range(SCANS)}


def collect(c, calls):
    """The answers to these calls, and to others that come before the last of them."""
    answered = {}
    while not calls <= set(answered):
        answer = c.receive()
        answered[answer.call_id] = answer
    return answered


@case
def deadline_passed(cluster):
    """A call whose time is up when its turn comes is not answered, the next one is (2.2). When its turn comes is the server's affair: it is
    sent behind scans of 4 MiB each, and an answer in time is right too."""
    with cluster.client(timeout=60) as c:
        scans = unread_scans(cluster, c, 4 << 20)
        late = c.start("Get", good(cluster), timeout_ms=1)
        after = c.start("Get", good(cluster))
        answered = collect(c, scans | {after})
        for i in scans | {after}:
            if answered[i].error != java("CallQueueTooBigException"):
                accepted(answered[i])
        if late not in answered:
            try:
                answered[late] = c.receive(0.5)
            except wire.Silent:
                return "not answered"
        return answered[late].error or "answered in time"


@case
def scans_of_640_mib_at_once(cluster):
    """What one connection may be owed is bounded. HBase answers all; to be closed is right too, to die of it is not."""
    with cluster.client(timeout=60) as c:
        try:
            for answer in collect(c, unread_scans(cluster, c, 16 << 20)).values():
                if answer.error:
                    refused(answer, "CallQueueTooBigException", retry=True)
        except wire.Closed:
            return "closed"
        return "answered"


@case
def call_id_used_twice(cluster):
    """Both calls run; what they answer carries the same id."""
    with cluster.client() as c:
        c.send(wire.request(5, "Get", good(cluster)) * 2)
        for _ in range(2):
            answer = c.receive()
            if answer.call_id != 5:
                raise Fail(str(answer))
            accepted(answer)
