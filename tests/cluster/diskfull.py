"""A data directory on a disk that fills up: writes are refused so that clients repeat them, reads go on, and when there is space again the
server takes writes by itself; nothing that was acknowledged is lost, over a kill too (C17). Needs root, to mount a file system in a file."""
import errno
import os
import subprocess
import threading
import time

import hbase_wire as wire
from harness import Fail, java
from server import Server

DISK_MIB = 1400  # of the file system in a sparse file; the server refuses writes with less than 512 MiB left
TABLE = b"full"
TELL_SECONDS = 30  # until a full disk is noticed, and until space is


def usable():
    """Why this cannot be tried here, or nothing."""
    if os.geteuid() != 0:
        return "not root: no file system can be mounted"
    for tool in ("mkfs.ext4", "mount", "umount"):
        if subprocess.run(["sh", "-c", "command -v " + tool], capture_output=True).returncode:
            return "%s is missing" % tool
    return None


class Writer(threading.Thread):
    """Puts one row after the other until it is stopped; knows which were acknowledged and how the others ended."""

    def __init__(self, at, region):
        super().__init__()
        self.at, self.region = at, region
        self.acknowledged, self.refused = [], {}
        self.last_good = time.monotonic()
        self.stop = threading.Event()

    def run(self):
        number = 0
        while not self.stop.is_set():
            try:
                with wire.Connection(self.at) as c:
                    while not self.stop.is_set():
                        number += 1
                        row = b"%08d" % number
                        answer = c.call("Mutate", wire.mutate_request(self.region, wire.mutation(wire.PUT, row, b"f", b"q", b"v" * 2000)))
                        if answer.error:
                            self.refused[answer.error] = self.refused.get(answer.error, 0) + 1
                            time.sleep(0.05)
                        else:
                            self.acknowledged.append(row)
                            self.last_good = time.monotonic()
            except (wire.Closed, wire.Silent, OSError) as e:
                self.refused[repr(e)] = self.refused.get(repr(e), 0) + 1
                time.sleep(0.05)


class DiskFull:
    def __init__(self, binary, work, log):
        self.binary, self.log = binary, log
        self.image, self.disk = work + "/disk.img", work + "/disk"
        self.data = self.disk + "/data"
        self.filler = self.disk + "/filler"

    def __enter__(self):
        with open(self.image, "wb") as f:
            f.truncate(DISK_MIB << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", self.image], check=True, capture_output=True)
        os.makedirs(self.disk)
        subprocess.run(["mount", "-o", "loop", self.image, self.disk], check=True)
        return self

    def __exit__(self, *_):
        subprocess.run(["umount", self.disk], check=False)
        os.remove(self.image)

    def fill(self, leave_mib):
        """Takes all space but so much."""
        with open(self.filler, "ab") as f:
            part = 64 << 20
            while part >= 4096:
                free = os.statvfs(self.disk)
                if free.f_bavail * free.f_bsize - (leave_mib << 20) < part:
                    part //= 2
                    continue
                try:
                    os.posix_fallocate(f.fileno(), os.fstat(f.fileno()).st_size, part)
                except OSError as e:
                    if e.errno != errno.ENOSPC:
                        raise
                    part //= 2  # the file system needs some for itself

    def get(self, region, row):
        with wire.Connection(self.at) as c:
            answer = c.call("Get", wire.get_request(region, row, wire.columns(b"f")))
        if answer.error or not wire.cells_of(answer.cells):
            raise Fail("a get of row %s answers %s" % (row, answer))

    def until(self, what, condition):
        end = time.monotonic() + TELL_SECONDS
        while not condition():
            if self.server.process.poll() is not None:
                raise Fail("%s: the server has ended; its log: %s" % (what, self.server.logged()[-500:]))
            if time.monotonic() > end:
                raise Fail("%s: not within %d s; refused %s" % (what, TELL_SECONDS, self.writer.refused))
            time.sleep(0.1)

    def start(self):
        self.server = Server(self.binary, self.data, self.log, "--memory", "128MB")
        self.at = wire.address(self.server.ready["region_servers"][0])
        self.admin = wire.Admin(wire.address(self.server.ready["master"]), self.at)

    def run(self):
        self.start()
        try:
            self.admin.create(TABLE, [b"f"])
            (region, _), = self.admin.regions(TABLE)
            self.writer = Writer(self.at, region)
            self.writer.start()
            self.until("first writes", lambda: len(self.writer.acknowledged) > 100)
            busy = java("RegionTooBusyException")
            told = []
            for leave_mib in (100, 0):
                self.writer.refused.clear()
                self.fill(leave_mib)
                self.until("%d MiB left" % leave_mib, lambda: self.writer.refused.get(busy, 0) > 20)
                for row in self.writer.acknowledged[::len(self.writer.acknowledged) // 20]:
                    self.get(region, row)
                strange = {e: n for e, n in self.writer.refused.items() if e != busy}
                if strange:
                    raise Fail("with %d MiB left: %s" % (leave_mib, strange))
                self.table_meanwhile(leave_mib)
                os.remove(self.filler)
                freed = time.monotonic()
                self.until("space again", lambda: self.writer.last_good > freed)
                told.append("%.1f s" % (self.writer.last_good - freed))
                count = len(self.writer.acknowledged)
                self.until("writes again", lambda: len(self.writer.acknowledged) > count + 100)
            self.admin.create(b"after", [b"f"])
            self.writer.stop.set()
            self.writer.join()
            self.server.kill()
            self.start()
            for row in self.writer.acknowledged[::max(1, len(self.writer.acknowledged) // 3000)]:
                self.get(region, row)
            code, _ = self.server.terminate(20)
            if code != 0:
                raise Fail("exit code %s" % code)
        finally:
            if getattr(self, "writer", None):
                self.writer.stop.set()
            self.server.kill()
        return "%d rows acknowledged, writes again %s after there was space" % (len(self.writer.acknowledged), " and ".join(told))

    def table_meanwhile(self, leave_mib):
        """A table that is asked for now is refused so that clients repeat it, or made later; the master lives on."""
        with wire.Connection(self.admin.master, "MasterService", timeout=10) as c:
            answer = c.call("CreateTable", wire.create_table_request(b"later%d" % leave_mib, [b"f"]))
            if answer.error and answer.error != java("RegionTooBusyException"):
                raise Fail("a table while the disk is full: %s" % answer)
            c.must("IsMasterRunning")
