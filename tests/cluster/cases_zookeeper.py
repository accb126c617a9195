"""The ZooKeeper port: garbage, frames too long, sessions that are none, four-letter words."""
import struct
import time

import hbase_wire as wire
from harness import Fail, case, closed

FRAME_MAX = 0xFFFFF  # jute.maxbuffer
RESPONSE = 41  # a ConnectResponse with its length and the readOnly byte


def session(cluster):
    c = cluster.raw(cluster.zookeeper)
    c.send(wire.zk_connect())
    response = c.receive_exactly(RESPONSE)
    if struct.unpack_from(">q", response, 12)[0] == 0:
        raise Fail("no session")
    return c


def reply(c):
    size = struct.unpack(">I", c.receive_exactly(4))[0]
    body = c.receive_exactly(size)
    return struct.unpack_from(">iqi", body) + (body[16:],)


def ended(cluster, data, connected=False):
    c = session(cluster) if connected else cluster.raw(cluster.zookeeper)
    c.send(data)
    closed(c)
    c.close()


@case
def zookeeper_garbage(cluster):
    ended(cluster, b"\xff" * 64)


@case
def zookeeper_http(cluster):
    ended(cluster, b"GET / HTTP/1.1\r\n\r\n")


@case
def zookeeper_frame_too_long(cluster):
    ended(cluster, struct.pack(">I", FRAME_MAX + 1) + bytes(64))


@case
def zookeeper_frame_negative(cluster):
    ended(cluster, struct.pack(">i", -2) + bytes(64))


@case
def zookeeper_frame_too_long_in_session(cluster):
    ended(cluster, struct.pack(">I", 0x7FFFFFFF) + bytes(64), connected=True)


@case
def zookeeper_connect_garbage(cluster):
    """The right length, nothing of sense."""
    with cluster.raw(cluster.zookeeper) as c:
        c.send(struct.pack(">I", 45) + b"\xff" * 45)
        try:
            return "answered %s" % c.receive_exactly(8, 5).hex()
        except wire.Closed:
            return "closed"


@case
def zookeeper_connect_cut(cluster):
    """A frame that ends in the middle of the record."""
    ended(cluster, struct.pack(">I", 10) + bytes(10))


@case
def zookeeper_unknown_session(cluster):
    with cluster.raw(cluster.zookeeper) as c:
        c.send(wire.zk_connect(session=0x123456789, password=b"x" * 16))
        response = c.receive_exactly(RESPONSE)
        timeout, identity = struct.unpack_from(">iq", response, 8)
        if (timeout, identity) != (0, 0):
            raise Fail("timeout %d, session %#x" % (timeout, identity))
        closed(c)


@case
def zookeeper_wrong_password(cluster):
    """The session's owner keeps it: HBase's ZooKeeper ends the owner's connection, ours should not (zookeeper-protocol.md 2)."""
    with cluster.raw(cluster.zookeeper) as owner:
        owner.send(wire.zk_connect())
        identity = struct.unpack_from(">q", owner.receive_exactly(RESPONSE), 12)[0]
        with cluster.raw(cluster.zookeeper) as thief:
            thief.send(wire.zk_connect(session=identity, password=b"x" * 16))
            response = thief.receive_exactly(RESPONSE)
            if struct.unpack_from(">iq", response, 8) != (0, 0):
                raise Fail("the thief got the session")
        try:
            owner.send(wire.zk_request(-2, 11))
            reply(owner)
            return "the owner goes on"
        except wire.Closed:
            return "the owner was cut off"


@case
def zookeeper_request_before_connect(cluster):
    ended(cluster, wire.zk_request(1, 4, wire.zk_path(b"/hbase/hbaseid")))


@case
def zookeeper_unknown_opcode(cluster):
    with session(cluster) as c:
        c.send(wire.zk_request(5, 77))
        xid, _, error, body = reply(c)
        if (xid, error, body) != (5, -6, b""):
            raise Fail("xid %d, error %d" % (xid, error))
        closed(c)


@case
def zookeeper_body_cut(cluster):
    """getData whose path is longer than the frame: -5."""
    with session(cluster) as c:
        c.send(wire.zk_request(3, 4, struct.pack(">I", 1000) + b"/hbase"))
        xid, _, error, _ = reply(c)
        if (xid, error) != (3, -5):
            raise Fail("xid %d, error %d" % (xid, error))


@case
def zookeeper_paths_that_are_none(cluster):
    with session(cluster) as c:
        told = []
        for i, path in enumerate((b"x", b"/a//b", b"/hbase/", b"/hbase/../hbase/hbaseid", b"/\xff\xfe", b"/" + b"x" * 100000)):
            c.send(wire.zk_request(i + 1, 4, wire.zk_path(path)))
            xid, _, error, body = reply(c)
            if xid != i + 1 or error >= 0 or body:
                raise Fail("path %r: xid %d, error %d" % (path[:30], xid, error))
            told.append(error)
        return str(told)


@case
def zookeeper_watches_that_lie(cluster):
    """setWatches with two billion paths announced."""
    with session(cluster) as c:
        c.send(wire.zk_request(9, 101, struct.pack(">qI", 0, 0x7FFFFFFF) + bytes(20)))
        try:
            xid, _, error, _ = reply(c)
        except wire.Closed:
            return "closed"
        return "error %d" % error


@case
def zookeeper_delete_root(cluster):
    with session(cluster) as c:
        c.send(wire.zk_request(1, 2, struct.pack(">I", 1) + b"/" + struct.pack(">i", -1)))
        _, _, error, _ = reply(c)
        if error != -8:
            raise Fail("error %d" % error)


@case
def zookeeper_frame_cut_then_silence(cluster):
    c = session(cluster)
    c.send(wire.zk_request(1, 4, wire.zk_path(b"/hbase/hbaseid"))[:-3])
    cluster.well()
    c.close()


@case
def zookeeper_slow_client(cluster):
    with cluster.raw(cluster.zookeeper) as c:
        for byte in wire.zk_connect() + wire.zk_request(1, 4, wire.zk_path(b"/hbase/hbaseid")):
            c.send(bytes([byte]))
        c.receive_exactly(RESPONSE)
        xid, _, error, body = reply(c)
        if (xid, error) != (1, 0) or b"PBUF" not in body:
            raise Fail("xid %d, error %d, %r" % (xid, error, body[:80]))


def word(cluster, text):
    with cluster.raw(cluster.zookeeper) as c:
        c.send(text)
        out = b""
        try:
            while True:
                out += c.receive_exactly(1)
        except wire.Closed:
            return out.decode()
        except wire.Silent:
            raise Fail("%s: still open after %r" % (text.decode(), out[:100])) from None


@case
def zookeeper_four_letter_words(cluster):
    for text, start in ((b"ruok", "imok"), (b"isro", "rw"), (b"srvr", "Zookeeper version:"), (b"stat", "Zookeeper version:"), (b"mntr", "zk_version"),
                        (b"envi", "Environment:"), (b"conf", "clientPort=")):
        got = word(cluster, text)
        if not got.startswith(start):
            raise Fail("%s answers %r" % (text.decode(), got[:100]))


@case
def zookeeper_connections_of_one_address(cluster):
    """400 sessions from here: those over the limit (300 in HBase) are closed, and there is room again when the others go."""
    connections, served = [], 0
    for _ in range(400):
        c = cluster.raw(cluster.zookeeper)
        connections.append(c)
        try:
            c.send(wire.zk_connect(timeout_ms=4000))
            c.receive_exactly(RESPONSE)
            served += 1
        except wire.Closed:
            pass
    for c in connections:
        c.close()
    if served < 200:
        raise Fail("only %d were served" % served)
    time.sleep(0.5)
    return "%d of 400 served" % served


@case
def zookeeper_unknown_word(cluster):
    ended(cluster, b"wxyz")
