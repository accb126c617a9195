"""HBase's RPC and ZooKeeper's protocol by hand, for tests that must send what no client would send.

Knows bytes only: protobuf fields by number, frames, the preamble. Nothing here validates what it sends. Times are seconds.
Sources: the tables of hbase-protocol.md (1, 2, 4, 8) and zookeeper-protocol.md (3)."""
import hashlib
import socket
import struct
import time

HBASE = "org.apache.hadoop.hbase."
CODEC = HBASE + "codec.KeyValueCodec"
CONNECTION_CALL_ID = 0xFFFFFFFF  # the call id of answers to a bad start
FRAME_MAX = 512 << 20  # of an answer that these tests accept
META_REGION = b"hbase:meta,,1"
PUT, DELETE, INCREMENT, APPEND = 2, 3, 1, 0  # MutationProto.MutationType


class Closed(Exception):
    """The server ended the connection, by FIN or by RST."""


class Silent(Exception):
    """Nothing came within the time, and the connection is still open."""


class Message(dict):
    """A decoded protobuf message: number of the field -> list of values (int or bytes)."""

    def one(self, number, default=None):
        return self[number][-1] if number in self else default

    def text(self, number):
        return self.one(number, b"").decode("utf-8", "replace")

    def sub(self, number):
        return decode(self.one(number, b""))


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode(*fields):
    """Fields as (number, value): int and bool as varint, bytes and str as length-delimited, None is left out, a list repeats."""
    out = bytearray()
    for number, value in fields:
        if value is None:
            continue
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, int):
                out += varint(number << 3) + varint(int(item))
            else:
                item = item.encode() if isinstance(item, str) else bytes(item)
                out += varint(number << 3 | 2) + varint(len(item)) + item
    return bytes(out)


def delimited(message):
    return varint(len(message)) + message


def read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def read_delimited(data, at):
    size, at = read_varint(data, at)
    if at + size > len(data):
        raise ValueError("a delimited message of %d bytes where %d are left" % (size, len(data) - at))
    return data[at:at + size], at + size


def decode(data):
    message, at = Message(), 0
    while at < len(data):
        key, at = read_varint(data, at)
        wire = key & 7
        if wire == 0:
            value, at = read_varint(data, at)
        elif wire == 2:
            value, at = read_delimited(data, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            value, at = data[at:at + size], at + size
        else:
            raise ValueError("wire type %d" % wire)
        message.setdefault(key >> 3, []).append(value)
    return message


def address(text):
    host, port = text.rsplit(":", 1)
    return host, int(port)


def preamble(magic=b"HBas", version=0, auth=0x50):
    return magic + bytes([version, auth])


def connection_header(service="ClientService", codec=CODEC, compressor=None, user="badinput", version=True):
    """With a version, so that the server uses cell blocks for Get too (4.2)."""
    info = encode((1, "2.6.4"), (2, "-"), (3, "-"), (4, "-"), (5, "-"), (6, "-"), (7, 2), (8, 6)) if version else None
    header = encode((1, encode((1, user))), (2, service), (3, codec), (4, compressor), (5, info))
    return struct.pack(">I", len(header)) + header


def request(call_id, method, param=b"", cells=b"", timeout_ms=None, request_param=True, cell_length=None, priority=None):
    """A whole frame. cell_length overrides what the header says of the cell block."""
    length = cell_length if cell_length is not None else (len(cells) or None)
    header = encode((1, call_id), (3, method), (4, request_param), (5, None if length is None else encode((1, length))), (6, priority), (7, timeout_ms))
    body = delimited(header) + (delimited(param) if request_param else b"") + cells
    return struct.pack(">I", len(body)) + body


class Response:
    """One answer: call_id, and either error (class, text, do_not_retry) or message and cells."""

    def __init__(self, frame):
        raw, at = read_delimited(frame, 0)
        header = decode(raw)
        self.call_id = header.one(1)
        self.error, self.text, self.do_not_retry, self.message, self.cells = None, "", False, None, b""
        if 2 in header:
            exception = header.sub(2)
            self.error, self.text, self.do_not_retry = exception.text(1), exception.text(2), bool(exception.one(5, 0))
            if at != len(frame):
                raise ValueError("%d bytes behind an exception" % (len(frame) - at))
        else:
            body, at = read_delimited(frame, at)
            self.message = decode(body)
            self.cells = frame[at:]
            length = header.sub(3).one(1, 0) if 3 in header else 0
            if length != len(self.cells):
                raise ValueError("a cell block of %d bytes where the header says %d" % (len(self.cells), length))

    def __str__(self):
        if self.error is None:
            return "call %s: answer %r, %d bytes of cells" % (self.call_id, dict(self.message), len(self.cells))
        return "call %s: %s (do_not_retry %s): %s" % (self.call_id, self.error, self.do_not_retry, self.text.split("\n")[0][:300])


class Connection:
    """A TCP connection whose every byte the test decides. With service=None nothing is sent at the start."""

    def __init__(self, where, service="ClientService", timeout=20.0, receive_buffer=None, **header):
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(timeout)
        self.socket.connect(where)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.timeout = timeout
        self.last_id = 0
        if service:
            self.send(preamble() + connection_header(service, **header))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def reset(self):
        """Ends with RST instead of FIN."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def send(self, data):
        try:
            self.socket.settimeout(self.timeout)
            self.socket.sendall(data)
        except (ConnectionError, BrokenPipeError) as e:
            raise Closed(str(e)) from None
        except TimeoutError:
            raise Silent("the server takes no more bytes") from None

    def receive_exactly(self, size, timeout=None):
        end = time.monotonic() + (self.timeout if timeout is None else timeout)
        out = bytearray()
        while len(out) < size:
            left = end - time.monotonic()
            if left <= 0:
                raise Silent("%d of %d bytes" % (len(out), size))
            self.socket.settimeout(left)
            try:
                part = self.socket.recv(min(size - len(out), 1 << 20))
            except TimeoutError:
                continue
            except ConnectionError as e:
                raise Closed("%s after %d of %d bytes" % (e, len(out), size)) from None
            if not part:
                raise Closed("end after %d of %d bytes" % (len(out), size))
            out += part
        return bytes(out)

    def receive(self, timeout=None):
        size = struct.unpack(">I", self.receive_exactly(4, timeout))[0]
        if size > FRAME_MAX:
            raise ValueError("an answer of %d bytes" % size)
        return Response(self.receive_exactly(size, timeout))

    def start(self, method, param=b"", **options):
        """Sends a call, returns its id."""
        self.last_id += 1
        self.send(request(self.last_id, method, param, **options))
        return self.last_id

    def call(self, method, param=b"", timeout=None, **options):
        call_id = self.start(method, param, **options)
        response = self.receive(timeout)
        if response.call_id != call_id:
            raise ValueError("the answer to call %d says call %s" % (call_id, response.call_id))
        return response

    def must(self, method, param=b"", **options):
        response = self.call(method, param, **options)
        if response.error:
            raise ValueError("%s: %s" % (method, response))
        return response.message

    def closed_within(self, seconds):
        """True if the server ends the connection in that time; bytes it sends before are thrown away."""
        try:
            while True:
                self.receive_exactly(1, seconds)
        except Closed:
            return True
        except Silent:
            return False


# Messages of ClientService, by the tables of section 4.
def region(name):
    return encode((1, 1), (2, name))


def get_request(region_name, row, *more):
    return encode((1, region(region_name)), (2, encode((1, row), *more)))


def columns(*families):
    return (2, [encode((1, f)) for f in families])


def mutation(kind, row, family=b"f", qualifier=b"q", value=b"v", *more):
    column = encode((1, family), (2, encode((1, qualifier), (2, value))))
    return encode((1, row), (2, kind), (3, column), *more)


def mutate_request(region_name, mutation_message, condition=None):
    return encode((1, region(region_name)), (2, mutation_message), (3, condition))


def equal_condition(row, family, qualifier, value):
    comparator = encode((1, HBASE + "filter.BinaryComparator"), (2, encode((1, encode((1, value))))))
    return encode((1, row), (2, family), (3, qualifier), (4, 2), (5, comparator))


def multi_request(region_name, mutations, atomic=None):
    actions = [encode((1, i), (2, m)) for i, m in enumerate(mutations)]
    return encode((1, encode((1, region(region_name)), (2, atomic), (3, actions))))


def scan_request(region_name=None, scan=None, scanner_id=None, rows=None, close=None, next_call_seq=None):
    specifier = None if region_name is None else region(region_name)
    return encode((1, specifier), (2, scan), (3, scanner_id), (4, rows), (5, close), (6, next_call_seq), (7, 1), (8, 1))


def key_value(row, family, qualifier, value, kind=4, timestamp=(1 << 63) - 1):
    """A cell of KeyValueCodec, with the 4 bytes of length before it (3.1, 3.2)."""
    key = struct.pack(">H", len(row)) + row + bytes([len(family)]) + family + qualifier + struct.pack(">QB", timestamp, kind)
    cell = struct.pack(">II", len(key), len(value)) + key + value
    return struct.pack(">I", len(cell)) + cell


def cells_of(block):
    """(row, family, qualifier, value) of each cell of a block."""
    at, out = 0, []
    while at < len(block):
        key_length, value_length, row_length = struct.unpack_from(">IIH", block, at + 4)
        row_at = at + 14
        row = block[row_at:row_at + row_length]
        family_at = row_at + row_length + 1
        family = block[family_at:family_at + block[family_at - 1]]
        key_end = at + 12 + key_length
        out.append((row, family, block[family_at + len(family):key_end - 9], block[key_end:key_end + value_length]))
        at += 4 + struct.unpack_from(">I", block, at)[0]
    return out


def region_name(table, start=b"", region_id=1700000000000):
    """A whole region name with its md5, as a client would have it of a region that once was (6.2)."""
    name = b"%s,%s,%d" % (table, start, region_id)
    return name + b"." + hashlib.md5(name).hexdigest().encode() + b"."


# MasterService.
def table_name(table, namespace=b"default"):
    return encode((1, namespace), (2, table))


def schema(table, families, namespace=b"default"):
    return encode((1, table_name(table, namespace)), (3, [encode((1, f)) for f in families]))


def create_table_request(table, families, splits=(), namespace=b"default"):
    return encode((1, schema(table, families, namespace)), (2, list(splits)))


class Admin:
    """What a test needs of the master, and where regions are by hbase:meta."""

    def __init__(self, master, region_server, timeout=60.0):
        self.master, self.region_server, self.timeout = master, region_server, timeout

    def procedure(self, method, param):
        """Runs a master operation to its end; raises ValueError with the exception if it fails."""
        with Connection(self.master, "MasterService", self.timeout) as c:
            proc_id = c.must(method, param).one(1)
            end = time.monotonic() + self.timeout
            while time.monotonic() < end:
                result = c.must("getProcedureResult", encode((1, proc_id)))
                if result.one(1) == 1:
                    time.sleep(0.05)
                    continue
                if 5 in result:
                    raise ValueError("%s: %r" % (method, result.sub(5)))
                return
            raise ValueError("%s: not finished after %d s" % (method, self.timeout))

    def create(self, table, families, splits=()):
        self.procedure("CreateTable", create_table_request(table, families, splits))

    def drop(self, table):
        self.procedure("DisableTable", encode((1, table_name(table))))
        self.procedure("DeleteTable", encode((1, table_name(table))))

    def regions(self, table):
        """[(region name, server)] of a table, in order."""
        scan = encode((1, encode((1, b"info"))), (3, table + b",,"), (4, table + b" ,,"), (17, 100))
        with Connection(self.region_server, timeout=self.timeout) as c:
            response = c.call("Scan", scan_request(META_REGION, scan, rows=100, close=True))
            if response.error:
                raise ValueError(str(response))
            found = {}
            for row, _, qualifier, value in cells_of(response.cells):
                if qualifier == b"server":
                    found[row] = value.decode()
            return sorted(found.items())


# ZooKeeper.
def zk_connect(session=0, password=bytes(16), timeout_ms=30000):
    body = struct.pack(">IqIqI", 0, 0, timeout_ms, session, len(password)) + password + b"\0"
    return struct.pack(">I", len(body)) + body


def zk_request(xid, opcode, body=b""):
    return struct.pack(">Iii", 8 + len(body), xid, opcode) + body


def zk_path(path, watch=False):
    return struct.pack(">I", len(path)) + path + bytes([watch])
