"""Tables that are made, changed, split, merged and dropped while the server is killed. Each table has one worker, which knows what its table must be:
after a restart the operation that was under way is sent again with the same nonce, must end well, and the table is then what the worker
wanted: whole or not at all, covered once by regions (INV-1), with the rows that were acknowledged."""
import random
import threading
import time

import hbase_wire as wire
from harness import Fail
from server import Server

RESTART_SECONDS = 20  # until the master serves again
CALM_SECONDS = 60  # until an operation that was sent again has ended
GROUP = 77  # nonce group of this program
DISABLED, ENABLED = 1, 0  # TableState.State
OPEN, CLOSED, SPLIT = b"OPEN", b"CLOSED", b"SPLIT"


class Table:
    """A table and what it must be. starts: of its regions; rows: acknowledged since it was made or truncated, with their families."""

    def __init__(self, name):
        self.name = name
        self.state = None  # no such table
        self.starts, self.families, self.rows = [], [], {}
        self.tried = set()  # (row, family) that was sent since then, acknowledged or not
        self.nonce = 0
        self.pending = None  # what the worker has begun: (method, request, effect)

    def __str__(self):
        return "%s: state %s, %d regions, families %s" % (self.name.decode(), self.state, len(self.starts), self.families)


def outcome(master, proc_id, seconds):
    """Waits for a procedure's end; None, or the class of its failure."""
    end = time.monotonic() + seconds
    while True:
        result = master.must("getProcedureResult", wire.encode((1, proc_id)))
        if result.one(1) == 2:
            return result.sub(5).sub(2).text(1) if 5 in result else None
        if result.one(1) == 0:
            raise Fail("procedure %d is not known" % proc_id)
        if time.monotonic() > end:
            raise Fail("procedure %d has not ended after %d s" % (proc_id, seconds))
        time.sleep(0.01)


def meta_rows(server):
    """Rows of hbase:meta: row -> {column: value}."""
    rows = {}
    with wire.Connection(server) as c:
        response = c.call("Scan", wire.scan_request(wire.META_REGION, b"", rows=10000, close=True))
        if response.error:
            raise Fail("hbase:meta: %s" % response)
        for row, family, qualifier, value in wire.cells_of(response.cells):
            rows.setdefault(row, {})[family + b":" + qualifier] = value
    return rows


class Worker:
    """Chooses operations for one table and sends them."""

    def __init__(self, table, seed):
        self.table, self.random = table, random.Random(seed)
        self.done = 0
        self.failure = None

    def regions(self, admin):
        """RegionInfo messages of the regions that are served, by their start keys."""
        infos = {}
        for row, columns in meta_rows(admin.region_server).items():
            if b"info:regioninfo" in columns:
                message = columns[b"info:regioninfo"][4:]
                info = wire.decode(message)
                if info.sub(2).one(2) == self.table.name and not info.one(6, 0):
                    infos[info.one(3, b"")] = (row, message)
        if sorted(infos) != self.table.starts:
            raise Fail("%s has regions from %s, expected %s" % (self.table, sorted(infos), self.table.starts))
        return infos

    def replace(self, admin, choice, nonces):
        """A region is split, or two neighbours are merged."""
        table, pick = self.table, self.random
        free = [key for key in (b"%02d" % i for i in range(1, 100)) if key not in table.starts]
        if choice == "SplitRegion" and len(table.starts) < 12:
            key = pick.choice(free)
            start = max(s for s in table.starts if s < key)
            _, info = self.regions(admin)[start]
            request = wire.encode((1, info), (2, key), *nonces(3))
            return choice, request, dict(starts=sorted(table.starts + [key]))
        if choice == "MergeTableRegions" and len(table.starts) > 1:
            at = pick.randrange(len(table.starts) - 1)
            infos = self.regions(admin)
            pair = [infos[start][0] for start in table.starts[at:at + 2]]
            request = wire.encode((1, [wire.region(name) for name in pair]), *nonces(4))
            return choice, request, dict(starts=[s for s in table.starts if s != table.starts[at + 1]])
        return None

    def begin(self, admin):
        """Decides the next operation: method, request and the table as it is afterwards."""
        table, pick = self.table, self.random
        table.nonce += 1
        nonces = lambda at: [(at, GROUP), (at + 1, table.nonce << 8 | int(table.name[-1:], 36))]
        name = wire.table_name(table.name)
        if table.state is None:
            splits = sorted(pick.sample([b"%02d" % i for i in range(1, 100)], pick.randrange(12)))
            families = sorted(pick.sample([b"a", b"b", b"c", b"d"], pick.randrange(1, 4)))
            request = wire.create_table_request(table.name, families, splits) + wire.encode(*nonces(3))
            after = dict(state=ENABLED, starts=[b""] + splits, families=families, rows={}, tried=set())
            return "CreateTable", request, after
        if table.state == ENABLED:
            choice = pick.choice(["DisableTable", "SplitRegion", "SplitRegion", "MergeTableRegions", "AddColumn", "DeleteColumn"])
            replaced = self.replace(admin, choice, nonces)
            if replaced:
                return replaced
        else:
            choice = pick.choice(["EnableTable", "truncateTable", "DeleteTable", "AddColumn"])
        free = [f for f in [b"a", b"b", b"c", b"d"] if f not in table.families]
        if choice == "AddColumn" and free:
            family = pick.choice(free)
            request = wire.encode((1, name), (2, wire.encode((1, family))), *nonces(3))
            return choice, request, dict(families=sorted(table.families + [family]))
        if choice == "DeleteColumn" and len(table.families) > 1:
            family = pick.choice(table.families)
            request = wire.encode((1, name), (2, family), *nonces(3))
            rows = {row: f for row, f in table.rows.items() if f != family}
            tried = {(row, f) for row, f in table.tried if f != family}
            return choice, request, dict(families=[f for f in table.families if f != family], rows=rows, tried=tried)
        if choice == "truncateTable":
            keep = pick.randrange(2)
            request = wire.encode((1, name), (2, keep), *nonces(3))
            return choice, request, dict(state=ENABLED, starts=table.starts if keep else [b""], rows={}, tried=set())
        if choice == "DeleteTable":
            return choice, wire.encode((1, name), *nonces(2)), dict(state=None, starts=[], families=[], rows={}, tried=set())
        choice, state = ("DisableTable", DISABLED) if table.state == ENABLED else ("EnableTable", ENABLED)
        return choice, wire.encode((1, name), *nonces(2)), dict(state=state)

    def finish(self, master, seconds):
        """Sends what is pending, for the first time or again, and takes its effect over."""
        method, request, after = self.table.pending
        response = master.call(method, request)
        if response.error:
            raise Fail("%s, %s: %s" % (self.table, method, response))
        failure = outcome(master, response.message.one(1), seconds)
        if failure:
            raise Fail("%s, %s ended with %s" % (self.table, method, failure))
        vars(self.table).update(after)
        self.table.pending = None
        self.done += 1

    def write(self, admin):
        """A row into each region of an enabled table. Regions that are not there yet by meta are not written."""
        table = self.table
        for region, _ in admin.regions(table.name):
            row = region.split(b",")[1] + b"-%d" % self.random.randrange(1000)
            family = self.random.choice(table.families)
            with wire.Connection(admin.region_server) as c:
                put = wire.mutation(wire.PUT, row, family, b"q", row)
                table.tried.add((row, family))
                response = c.call("Mutate", wire.mutate_request(region, put))
            if response.error is None:
                table.rows[row] = family

    def run(self, at, stop):
        """Until the server is gone."""
        try:
            with wire.Connection(at["master"], "MasterService") as master:
                admin = wire.Admin(at["master"], at["server"])
                while not stop.is_set():
                    if self.table.pending is None:
                        self.table.pending = self.begin(admin)
                    self.finish(master, CALM_SECONDS)
                    if self.table.state == ENABLED and self.random.random() < 0.5:
                        self.write(admin)
        except (wire.Closed, wire.Silent, OSError):
            pass
        except (Fail, ValueError) as e:
            # An answer of a dying server may be anything; what is still wrong afterwards is found then.
            self.failure = e if not stop.is_set() else None


class Ddl:
    def __init__(self, binary, work, log, seed):
        self.binary, self.data, self.log, self.random = binary, work + "/ddl", log, random.Random(seed)
        self.workers = [Worker(Table(b"t%d" % i), seed * 100 + i) for i in range(4)]
        self.server = None
        self.epoch = 0

    def start(self):
        self.server = Server(self.binary, self.data, self.log, "--log", "info")
        ready = self.server.ready
        self.at = {"master": wire.address(ready["master"]), "server": wire.address(ready["region_servers"][0])}
        self.servers = {wire.address(a)[1] for a in ready["region_servers"]}

    def rounds(self, seconds):
        """Rounds of work, kill and check until the time is over."""
        end = time.monotonic() + seconds
        rounds = 0
        while time.monotonic() < end or rounds < 3:
            self.start()
            self.settle()
            self.check()
            stop = threading.Event()
            threads = [threading.Thread(target=w.run, args=(self.at, stop)) for w in self.workers]
            for thread in threads:
                thread.start()
            time.sleep(self.random.choice([0.02, 0.1, 0.3, 0.6]) * self.random.random() * 2)
            stop_late = self.random.random() < 0.1
            self.server.kill()
            stop.set()
            for thread in threads:
                thread.join()
            for worker in self.workers:
                if worker.failure:
                    raise Fail("before the kill: %s" % worker.failure)
            if stop_late:
                self.start()  # killed once more in the middle of its start's work
                self.server.kill()
            rounds += 1
        self.start()
        self.settle()
        self.check()
        code, _ = self.server.terminate(20)
        if code != 0:
            raise Fail("the exit code after SIGTERM is %s" % code)
        return "%d kills, %d operations" % (rounds, sum(w.done for w in self.workers))

    def settle(self):
        """Everything that was under way ends by itself, and what the kill interrupted is what was wanted."""
        with wire.Connection(self.at["master"], "MasterService", timeout=CALM_SECONDS) as master:
            end = time.monotonic() + CALM_SECONDS
            while True:
                procedures = [wire.decode(p) for p in master.must("GetProcedures").get(1, [])]
                running = [p.text(1) for p in procedures if p.one(6) not in (5, 6, 7)]
                if not running:
                    break
                if time.monotonic() > end:
                    raise Fail("not ended after %d s: %s" % (CALM_SECONDS, running))
                time.sleep(0.02)
            for worker in self.workers:
                if worker.table.pending:
                    worker.finish(master, CALM_SECONDS)
        # Regions that no procedure worked on get their servers beside it.
        while not self.all_placed():
            if time.monotonic() > end:
                raise Fail("regions have no server after %d s" % CALM_SECONDS)
            time.sleep(0.02)

    def all_placed(self):
        """Whether hbase:meta names a server that lives for every region that is to be served."""
        rows = meta_rows(self.at["server"]).values()
        places = (columns[b"info:server"] for columns in rows if columns.get(b"info:state") == OPEN)
        return all(int(place.rsplit(b":", 1)[1]) in self.servers for place in places)

    def check(self):
        """The master's list, hbase:meta and the regions themselves say what the workers know."""
        tables = {w.table.name: w.table for w in self.workers if w.table.state is not None}
        with wire.Connection(self.at["master"], "MasterService") as master:
            schemas = [wire.decode(s) for s in master.must("GetTableDescriptors").get(1, [])]
        listed = {s.sub(1).one(2): sorted(wire.decode(f).one(1) for f in s.get(3, [])) for s in schemas}
        wanted = {t.name: sorted(t.families) for t in tables.values()}
        if listed != wanted:
            raise Fail("tables %s, expected %s" % (listed, wanted))
        meta = meta_rows(self.at["server"])
        epoch = int.from_bytes(meta.pop(b"hbase:meta", {}).get(b"table:cadastre-master-epoch", b""), "big")
        if epoch <= self.epoch:
            raise Fail("the master's epoch in hbase:meta is %d after a start, and was %d before" % (epoch, self.epoch))
        self.epoch = epoch
        states = {row: wire.decode(columns[b"table:state"]).one(1) for row, columns in meta.items() if b"table:state" in columns}
        if states.pop(b"hbase:namespace", None) != ENABLED:
            raise Fail("hbase:namespace is not enabled after a start")
        wanted = {t.name: t.state for t in tables.values()}
        if states != wanted:
            raise Fail("states %s, expected %s" % (states, wanted))
        regions = {}
        for row, columns in meta.items():
            if b"info:regioninfo" in columns:
                info = wire.decode(columns[b"info:regioninfo"][4:])
                if info.sub(2).one(1) == b"hbase":
                    continue  # hbase:namespace: no worker of ours
                if info.one(6, 0):
                    # A split parent, whose data waits until its daughters have their own.
                    if columns.get(b"info:state") != SPLIT or not {b"info:splitA", b"info:splitB"} <= set(columns):
                        raise Fail("a split parent is %s" % columns)
                    continue
                regions.setdefault(info.sub(2).one(2), []).append((info.one(3, b""), info.one(4, b""), row, columns))
        if set(regions) != set(tables):
            raise Fail("regions of %s, tables %s" % (sorted(regions), sorted(tables)))
        for table in tables.values():
            self.check_regions(table, sorted(regions[table.name]))

    def check_regions(self, table, regions):
        starts = [start for start, _, _, _ in regions]
        if starts != table.starts:
            raise Fail("%s has regions from %s, expected %s" % (table, starts, table.starts))
        ends = [end for _, end, _, _ in regions]
        if ends != starts[1:] + [b""]:
            raise Fail("%s is not covered once: %s to %s" % (table, starts, ends))
        inside = lambda row, start, end: start <= row and (not end or row < end)
        for start, end, name, columns in regions:
            state = columns.get(b"info:state")
            if state != (OPEN if table.state == ENABLED else CLOSED):
                raise Fail("%s: the region from %s is %s" % (table, start, state))
            if table.state != ENABLED:
                continue
            if int(columns[b"info:server"].rsplit(b":", 1)[1]) not in self.servers:
                raise Fail("%s: the region from %s is on %s" % (table, start, columns[b"info:server"]))
            with wire.Connection(self.at["server"]) as c:
                response = c.call("Scan", wire.scan_request(name, b"", rows=10000, close=True))
                if response.error:
                    raise Fail("%s: a scan of the region from %s: %s" % (table, start, response))
                found = {(row, family) for row, family, _, _ in wire.cells_of(response.cells)}
            missing = [(row, f) for row, f in table.rows.items() if inside(row, start, end) and (row, f) not in found]
            if missing:
                raise Fail("%s has lost %s" % (table, missing))
            if found - table.tried:
                raise Fail("%s has in the region from %s what nobody wrote, or what is deleted: %s" % (table, start, found - table.tried))
