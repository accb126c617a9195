"""Damaged data directories. In a copy of a good directory one file is changed: bytes flipped, cut, emptied, said to be of a newer format.
Then the start is refused, naming the file, with an exit code, and nothing in the directory is touched; or the server serves, and every row
that was acknowledged is there or answered with an error: never a wrong or a silently missing one, never a panic, never a hang. What no power
cut does to a file of the log is refused, always."""
import hashlib
import os
import shutil
import struct
import time
import zlib

import hbase_wire as wire
from harness import Fail
from server import Refused, Server

ROWS = 300
LOG_KINDS = ("log segment", "log-segments")
LOG_HEADER = 64  # bytes of a segment before its first group
TELL_SECONDS = 30  # until the server is ready or has refused
TABLE = b"damage"


def files_of(data):
    """Path below the directory -> digest, without the lock."""
    found = {}
    for folder, _, names in os.walk(data):
        for name in names:
            path = os.path.join(folder, name)
            if name != "LOCK":
                with open(path, "rb") as f:
                    found[os.path.relpath(path, data)] = hashlib.sha256(f.read()).hexdigest()
    return found


def kind_of(path):
    """What a file is, for people: one of each kind is enough where there are many."""
    parts = path.split(os.sep)
    where = {"master": "master's store", "meta": "hbase:meta", "data": "region"}.get(parts[0])
    if where is None:
        return "log segment" if parts[0] == "log" else parts[0]
    return "%s, %s" % (where, "SST" if path.endswith(".sst") else os.path.basename(os.path.dirname(path)))


def flip(at):
    def change(data):
        where = int(len(data) * at) if at < 1 else min(at, len(data) - 1)
        return data[:where] + bytes([data[where] ^ 0x41]) + data[where + 1:]
    return change


CHANGES = [
    ("first byte flipped", flip(0)),
    ("a byte in the first tenth flipped", flip(0.07)),
    ("a byte in the middle flipped", flip(0.5)),
    ("last byte flipped", lambda data: flip(len(data) - 1)(data)),
    ("cut in half", lambda data: data[:len(data) // 2]),
    ("last byte cut off", lambda data: data[:-1]),
    ("emptied", lambda data: b""),
    ("zeros", lambda data: bytes(len(data))),
]
# Of files of the log these are refused in any case; flipped bytes may be behind all that was written.
LOG_CHANGES = CHANGES + [
    ("taken away", lambda data: None),
    ("all but the header zeros", lambda data: data[:LOG_HEADER] + bytes(len(data) - LOG_HEADER)),
]
LOG_REFUSED = ("cut in half", "last byte cut off", "emptied", "zeros", "taken away", "all but the header zeros")


class Damage:
    def __init__(self, binary, work, log):
        self.binary, self.work, self.log = binary, work, log
        self.good, self.data = work + "/good", work + "/damaged"
        self.told = []

    def prepare(self):
        """A directory with everything in it: files of regions, and rows that are only in the log."""
        server = Server(self.binary, self.good, self.log)
        try:
            at = wire.address(server.ready["master"]), wire.address(server.ready["region_servers"][0])
            admin = wire.Admin(*at)
            admin.create(TABLE, [b"f"], [b"m"])
            in_log = set(range(0, ROWS, 5))
            self.put(admin, sorted(set(range(0, ROWS, 2)) - in_log))
            for name in [region for region, _ in admin.regions(TABLE)] + [wire.META_REGION]:
                with wire.Connection(at[1], "AdminService") as c:
                    c.must("FlushRegion", wire.encode((1, wire.region(name))))
            self.put(admin, sorted(set(range(1, ROWS, 2)) - in_log))
            # So that the master's store has files of its own.
            code, _ = server.terminate(20)
            if code != 0:
                raise Fail("exit code %s" % code)
            server = Server(self.binary, self.good, self.log)
            at = wire.address(server.ready["master"]), wire.address(server.ready["region_servers"][0])
            admin = wire.Admin(*at)
            self.put(admin, sorted(in_log))
            admin.create(b"more", [b"f"])
        finally:
            server.kill()
        self.files = files_of(self.good)
        return "%d files: %s" % (len(self.files), ", ".join(sorted({kind_of(f) for f in self.files})))

    @staticmethod
    def row(i):
        return b"%s%05d" % (b"az"[i % 2:i % 2 + 1], i)

    def put(self, admin, numbers):
        regions = [region for region, _ in admin.regions(TABLE)]
        for side, region in enumerate(regions):
            puts = [wire.mutation(wire.PUT, self.row(i), b"f", b"q", b"value of %d " % i + b"x" * 200) for i in numbers if i % 2 == side]
            if puts:
                with wire.Connection(admin.region_server) as c:
                    c.must("Multi", wire.multi_request(region, puts))

    def cases(self):
        """One file of each kind, the largest one, with every change; and newer formats."""
        chosen = {}
        for path in sorted(self.files):
            kind = kind_of(path)
            if kind.startswith("region") and "/damage/" not in path:
                continue
            size = os.path.getsize(os.path.join(self.good, path))
            # Of the manifests only the newest counts.
            newest = "manifest" in kind or "SST" not in kind
            if kind in LOG_KINDS:
                continue
            if kind not in chosen or newest or size > chosen[kind][1]:
                chosen[kind] = (path, size)
        for kind, (path, size) in sorted(chosen.items()):
            for name, change in CHANGES:
                if size:
                    yield kind, path, name, change
        for path in sorted(f for f in self.files if kind_of(f) in LOG_KINDS):
            for name, change in LOG_CHANGES:
                yield kind_of(path), path, name, change
        for path in sorted(f for f in self.files if kind_of(f) == "log segment"):
            yield "log segment", path, "newer format", self.newer_log
        yield "cluster", "cluster", "newer format", lambda data: data.replace(b"format 1", b"format 2")

    @staticmethod
    def newer_log(data):
        """The version stands behind the magic of a segment, and the header has a checksum (store, log/format.rs)."""
        head = data[:8] + struct.pack("<I", 77) + data[12:40]
        return head + struct.pack("<I", zlib.crc32(head)) + data[44:]

    def check(self, kind, path, name, change):
        """What comes of one damage, in words; fails if it is none of what may be."""
        shutil.rmtree(self.data, ignore_errors=True)
        shutil.copytree(self.good, self.data)
        target = os.path.join(self.data, path)
        with open(target, "rb") as f:
            data = f.read()
        changed = change(data)
        if changed == data:
            return "the same"
        if changed is None:
            os.remove(target)
        else:
            with open(target, "wb") as f:
                f.write(changed)
        before = files_of(self.data)
        size = os.path.getsize(self.log) if os.path.exists(self.log) else 0
        try:
            server = Server(self.binary, self.data, self.log, "--log", "warn", seconds=TELL_SECONDS)
        except Refused as e:
            said = e.stdout + e.stderr
            if "panicked" in said:
                raise Fail("a panic: %s" % said[-600:])
            if not isinstance(e.code, int) or e.code <= 0:
                raise Fail("neither ready nor refused: exit code %s; %s" % (e.code, said[-600:]))
            folder = os.path.dirname(path).split(os.sep)[0]
            if not any(word in said for word in (path, os.path.basename(path), folder or path)):
                raise Fail("the refusal does not name %s: %s" % (path, said[-600:]))
            after = files_of(self.data)
            touched = sorted(p for p in before if before[p] != after.get(p))
            new = sorted(after.keys() - before.keys())
            if touched or new:
                raise Fail("refused, but touched %s, made %s" % (touched[:4], new[:4]))
            return "refused"
        try:
            wrong, errors = self.read(server)
        finally:
            server.kill()
        said = server.logged(size)
        if "panicked" in said:
            raise Fail("a panic: %s" % said[said.index("panicked") - 200:][:600])
        if kind in LOG_KINDS and name in LOG_REFUSED:
            raise Fail("served, with %d rows wrong or missing" % len(wrong))
        if wrong:
            raise Fail("served, with %d rows wrong or missing: %s" % (len(wrong), wrong[:3]))
        return "served, %d of %d rows answered with errors" % (errors, ROWS) if errors else "served whole"

    def read(self, server):
        """Rows that are not as acknowledged, and the number of those answered with an error."""
        at = wire.address(server.ready["master"]), wire.address(server.ready["region_servers"][0])
        try:
            regions = [region for region, _ in wire.Admin(*at).regions(TABLE)]
        except ValueError:
            return [], ROWS
        if len(regions) != 2:
            return [("regions", len(regions))], 0
        wrong, errors = [], 0
        end = time.monotonic() + 10
        with wire.Connection(at[1]) as c:
            for i in range(ROWS):
                get = wire.get_request(regions[i % 2], self.row(i), wire.columns(b"f"))
                answer = c.call("Get", get)
                while answer.error and "NotServing" not in answer.error and not answer.do_not_retry and time.monotonic() < end:
                    time.sleep(0.05)
                    answer = c.call("Get", get)
                if answer.error:
                    errors += 1
                    continue
                cells = wire.cells_of(answer.cells)
                if [value for _, _, _, value in cells] != [b"value of %d " % i + b"x" * 200]:
                    wrong.append((self.row(i), cells[:1]))
        return wrong, errors
