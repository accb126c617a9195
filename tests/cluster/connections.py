"""Driver of connections.sh; see there."""
import argparse
import hashlib
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
import zlib

import hbase_wire as wire
from harness import Cluster, Fail
from server import Refused, Server

STOP_SECONDS = 10  # after SIGTERM
SILENT_SECONDS = 15  # a connection that says nothing is closed within this time
REFUSE_SECONDS = 20
GROWTH_MIB = 256  # resident memory that the connections may cost: 26 kB each
LEFT_MIB = 1024  # resident memory that bad input may leave behind: all caches and memtables by default
GET_SECONDS = 2  # an ordinary call meanwhile; two cores are shared with this program


class Run:
    def __init__(self, options, work):
        self.binary, self.count, self.work = options.binary, options.connections, work
        self.data, self.log = os.path.join(work, "data"), os.path.join(work, "server.log")
        self.passed = self.failed = 0
        self.server = self.cluster = None
        self.connections = []

    def check(self, name, function):
        try:
            remark = function()
        except (Fail, Refused, wire.Closed, wire.Silent, ValueError, OSError, KeyError, subprocess.SubprocessError) as e:
            self.failed += 1
            print("FAIL %s %s: %s" % (name, type(e).__name__, e), flush=True)
            return False
        self.passed += 1
        print(" ".join(filter(None, ("ok", name, remark))), flush=True)
        return True

    def start(self):
        self.server = Server(self.binary, self.data, self.log)
        ready = self.server.ready
        at = [wire.address(a) for a in (ready["zookeeper"], ready["master"], ready["region_servers"][0])]
        if self.cluster:
            self.cluster.zookeeper, self.cluster.master, self.cluster.region_server = at
            self.cluster.admin = wire.Admin(at[1], at[2])
        else:
            self.cluster = Cluster(*at)
        return "ready after %.2f s" % self.server.seconds

    def health(self):
        if "admin" not in self.server.ready:
            return "no admin port told"
        for path in ("/healthz", "/metrics"):
            with urllib.request.urlopen("http://%s%s" % (self.server.ready["admin"], path), timeout=10) as answer:
                if answer.status != 200:
                    raise Fail("%s answers %d" % (path, answer.status))

    def table(self):
        self.cluster.set_up()

    def get(self, connection=None):
        """An ordinary call; how long it took, its connection included if it is a new one."""
        began = time.monotonic()
        c = connection or self.cluster.client()
        answer = c.call("Get", wire.get_request(self.cluster.low, b"a", wire.columns(b"f")))
        if answer.error or wire.cells_of(answer.cells) != [(b"a", b"f", b"q", b"v")]:
            raise Fail("a get answers %s" % answer)
        if not connection:
            c.close()
        return time.monotonic() - began

    # 10,000 connections

    def open(self):
        """One in ten says who it is, one in a hundred calls, the others say nothing."""
        self.rss_before, self.files_before = self.server.rss_mib(), self.server.open_files()
        began, slowest = time.monotonic(), 0.0
        for i in range(self.count):
            c = wire.Connection(self.cluster.region_server, "ClientService" if i % 10 == 0 else None)
            self.connections.append(c)
            if i % 100 == 0:
                self.get(c)
            if i % 500 == 250:
                slowest = max(slowest, self.get(self.cluster.witness), self.get())
        self.opened = time.monotonic()
        if slowest > GET_SECONDS:
            raise Fail("an ordinary get took %.2f s meanwhile" % slowest)
        return "%d in %.1f s, slowest get meanwhile %.0f ms" % (self.count, self.opened - began, slowest * 1000)

    def all_open(self):
        files = self.server.open_files()
        age = time.monotonic() - self.opened
        slowest = max(self.get(c) for c in (self.cluster.witness, None) for _ in range(50))
        if slowest > GET_SECONDS:
            raise Fail("an ordinary get took %.2f s" % slowest)
        return "%d open files after %.1f s, slowest of 100 gets %.0f ms" % (files, age, slowest * 1000)

    def memory(self):
        now = self.server.rss_mib()
        told = "%.0f MiB before, %.0f MiB with %d connections" % (self.rss_before, now, self.count)
        if now - self.rss_before > GROWTH_MIB:
            raise Fail(told)
        return told

    def silent_closed(self):
        """The server closes who says nothing, and nobody else."""
        time.sleep(max(0.0, self.opened + SILENT_SECONDS - time.monotonic()))
        silent = [c for i, c in enumerate(self.connections) if i % 10]
        still = [c for c in silent if not c.closed_within(0.001)]
        late = len(still)
        # The server's time begins when it accepts: on a busy machine that may be seconds after our connect.
        until = time.monotonic() + SILENT_SECONDS
        while still and time.monotonic() < until:
            still = [c for c in still if not c.closed_within(0.1)]
        for c in silent:
            c.close()
        if still:
            raise Fail("%d of %d silent connections are open after %d s" % (len(still), len(silent), 2 * SILENT_SECONDS))
        return "%d, %d of them late" % (len(silent), late)

    def others_serve(self):
        rest = self.connections[::10]
        slowest = max(self.get(c) for c in rest)
        return "%d calls on idle connections, slowest %.0f ms" % (len(rest), slowest * 1000)

    def all_closed(self):
        for c in self.connections:
            c.close()
        end = time.monotonic() + 10
        while (files := self.server.open_files()) > self.files_before + 20:
            if time.monotonic() > end:
                raise Fail("%d open files, %d before" % (files, self.files_before))
            time.sleep(0.1)
        return "%d open files, %d before, %.0f MiB" % (files, self.files_before, self.server.rss_mib())

    def bad_input(self):
        ready = self.server.ready
        command = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "badinput.py"), "--zookeeper", ready["zookeeper"],
                   "--master", ready["master"], "--region-server", ready["region_servers"][0], "--silent-seconds", str(SILENT_SECONDS)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=600)
        lines = done.stdout.splitlines()
        bad = [line for line in lines if line.startswith("FAIL")]
        for line in bad:
            print("     " + line)
        if done.returncode or bad:
            raise Fail("%s, exit code %d" % (lines[-1] if lines else "nothing said", done.returncode))
        return lines[-1]

    def memory_afterwards(self):
        """What bad input leaves behind: dropped tables, scanners until their lease ends, caches."""
        now = self.server.rss_mib()
        if now - self.rss_before > LEFT_MIB:
            raise Fail("%.0f MiB" % now)
        return "%.0f MiB" % now

    # processes and files

    def refused(self, *words):
        """Another start on the same data must end by itself, not with 0, saying why in one of the words."""
        began = time.monotonic()
        try:
            other = Server(self.binary, self.data, os.path.join(self.work, "refused.log"))
        except Refused as e:
            took = time.monotonic() - began
            if not isinstance(e.code, int) or e.code <= 0:
                raise Fail("exit code %s" % e.code) from None
            if took > REFUSE_SECONDS:
                raise Fail("only after %.0f s" % took) from None
            said = e.stderr + e.stdout
            if "panicked" in said:
                raise Fail("a panic: %s" % said.strip()[-300:]) from None
            last = [line for line in said.splitlines() if any(w in line for w in words)]
            if not last:
                raise Fail("the message names none of %s: %s" % (", ".join(words), said.strip()[-300:])) from None
            return "exit code %d after %.1f s: %s" % (e.code, took, last[-1][:200])
        other.kill()
        raise Fail("it got ready")

    def second_process(self):
        told = self.refused(self.data, "data directory")
        self.get()
        return told

    def stop(self):
        """With clients connected, one of them in the middle of a frame."""
        clients = [self.cluster.client() for _ in range(20)]
        clients[0].send(wire.request(1, "Get", b"x" * 100)[:-5])
        for c in clients[1:]:
            self.get(c)
        code, took = self.server.terminate(STOP_SECONDS)
        if code is None:
            self.server.kill()
            raise Fail("still there after %d s" % STOP_SECONDS)
        for c in clients:
            c.close()
        if code != 0:
            raise Fail("exit code %d; the log ends with: %s" % (code, self.server.logged().strip()[-400:]))
        return "exit code 0 after %.1f s" % took

    def asked_to_stop(self, method):
        """By a client of the master, as Java's Admin.shutdown and stopMaster do."""
        with self.cluster.client("MasterService") as c:
            c.must(method)
        try:
            code = self.server.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.server.kill()
            raise Fail("still there after %d s" % STOP_SECONDS) from None
        if code != 0:
            raise Fail("exit code %d; the log ends with: %s" % (code, self.server.logged().strip()[-400:]))

    def restart(self):
        told = self.start()
        began = time.monotonic()
        self.cluster.witness.close()
        self.cluster.witness = self.cluster.client()
        while True:
            try:
                self.get()
                return told + ", row read %.2f s later" % (time.monotonic() - began)
            except Fail:
                if time.monotonic() - began > 30:
                    raise
                time.sleep(0.05)

    def state_of_data(self):
        """Name, size and digest of every file but the lock."""
        found = {}
        for folder, _, names in os.walk(self.data):
            for name in names:
                path = os.path.join(folder, name)
                if name != "LOCK":
                    with open(path, "rb") as f:
                        found[path] = hashlib.sha256(f.read()).hexdigest()
        return found

    def refused_for_cluster_file(self, change):
        path = os.path.join(self.data, "cluster")
        with open(path, "rb") as f:
            good = f.read()
        try:
            with open(path, "wb") as f:
                f.write(change(good))
            before = self.state_of_data()
            told = self.refused("'cluster'", path)
            after = self.state_of_data()
            if before != after:
                differing = sorted(p for p in before.keys() | after.keys() if before.get(p) != after.get(p))
                raise Fail("files were touched: %s" % ", ".join(differing[:5]))
            return told
        finally:
            with open(path, "wb") as f:
                f.write(good)

    def flipped(self):
        return self.refused_for_cluster_file(lambda good: good[:30] + bytes([good[30] ^ 1]) + good[31:])

    def emptied(self):
        return self.refused_for_cluster_file(lambda good: b"")

    def newer(self):
        """Format 2 with a right checksum, as a later program would write it."""
        def change(good):
            head = b"".join(good.splitlines(True)[:3]).replace(b"format 1", b"format 2")
            return head + b"crc32 %08x\n" % zlib.crc32(head)
        return self.refused_for_cluster_file(change)

    def missing(self):
        path = os.path.join(self.data, "cluster")
        os.rename(path, self.work + "/cluster")
        try:
            before = self.state_of_data()
            told = self.refused("'cluster'", path)
            if before != self.state_of_data():
                raise Fail("files were touched")
            return told
        finally:
            os.rename(self.work + "/cluster", path)

    def all(self, bad_input):
        if not self.check("start-on-empty-directory", self.start):
            return
        self.check("health-and-metrics", self.health)
        if self.check("table", self.table):
            if self.check("connections-open", self.open):
                self.check("calls-with-all-open", self.all_open)
                self.check("memory", self.memory)
                self.check("silent-connections-closed", self.silent_closed)
                self.check("idle-connections-serve", self.others_serve)
            self.check("connections-closed", self.all_closed)
        if bad_input:
            self.check("bad-input", self.bad_input)
            self.check("memory-after-bad-input", self.memory_afterwards)
        self.check("second-process-refused", self.second_process)
        if not self.check("sigterm", self.stop):
            self.server.kill()
        self.check("restart", self.restart)
        self.check("shutdown", lambda: self.asked_to_stop("Shutdown"))
        self.check("cluster-file-damaged", self.flipped)
        self.check("cluster-file-empty", self.emptied)
        self.check("cluster-file-newer", self.newer)
        self.check("cluster-file-missing", self.missing)
        self.check("restart-after-repair", self.restart)
        self.check("stop-master", lambda: self.asked_to_stop("StopMaster"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--connections", type=int, default=10000)
    parser.add_argument("--keep")
    parser.add_argument("--skip-badinput", action="store_true")
    options = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = options.connections + 200
    if soft < wanted:
        if hard != resource.RLIM_INFINITY and hard < wanted:
            print("open files are limited to %d, %d are needed" % (hard, wanted), file=sys.stderr)
            return 2
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    work = options.keep or tempfile.mkdtemp(prefix="cadastre-connections.")
    if os.path.exists(os.path.join(work, "data")):
        print("%s holds data already" % work, file=sys.stderr)
        return 2
    os.makedirs(work, exist_ok=True)
    run = Run(options, work)
    try:
        run.all(not options.skip_badinput)
    finally:
        if run.server:
            run.server.kill()
    if run.failed:
        print("kept: %s" % work, file=sys.stderr)
    elif not options.keep:
        shutil.rmtree(work)
    print("%d passed, %d failed" % (run.passed, run.failed))
    return 1 if run.failed else 0


sys.exit(main())
