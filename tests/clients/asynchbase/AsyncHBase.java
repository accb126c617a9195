import com.stumbleupon.async.Deferred;
import java.nio.charset.StandardCharsets;
import java.nio.ByteBuffer;
import java.util.*;
import java.util.concurrent.Callable;
import org.hbase.async.*;
import org.hbase.async.Scanner;

/** The scenario of README.md with asynchbase 1.8.2. The table must be there: asynchbase has no DDL. */
public class AsyncHBase {
  static final int ROWS = 10000;
  static final byte[] F = b("f"), G = b("g"), V = b("v"), N = b("n"), A = b("a"), B = b("b"), C = b("c");
  static HBaseClient client;
  static byte[] table;

  public static void main(String[] args) throws Exception {
    Map<String, String> o = new HashMap<>();
    for (int i = 0; i + 1 < args.length; i += 2) o.put(args[i], args[i + 1]);
    Checks.start("asynchbase", o.get("--expected"));
    table = b(o.get("--table"));
    Config config = new Config();
    config.overrideConfig("hbase.zookeeper.quorum", o.get("--zookeeper"));
    // Of an unknown table it never hears: it asks until its attempts are used up (10 by default, half a minute).
    config.overrideConfig("hbase.client.retries.number", "4");
    client = new HBaseClient(config);
    // A single put would wait a second for others.
    client.setFlushInterval((short) 20);
    check("connect", () -> { join(client.ensureTableExists(table)); return true; });
    check("table.create", () -> {
      // Made by another client; here its regions are looked up.
      StringJoiner s = new StringJoiner(",");
      for (RegionLocation l : join(client.locateRegions(table))) s.add(s(l.startKey()));
      return s;
    });
    writeAndRead();
    scans();
    versions();
    incrementsAndAppends();
    checks();
    deletes();
    errors(o.get("--table"));
    int rc = Checks.end();
    join(client.shutdown());
    System.exit(rc);
  }

  static String row(int i) { return String.format("r%05d", i); }

  static void writeAndRead() {
    check("write.rows", () -> {
      int n = 0;
      List<Deferred<Object>> all = new ArrayList<>();
      // The client gathers these into Multi calls by itself.
      for (int i = 0; i < ROWS; i++) {
        all.add(client.put(new PutRequest(table, b(row(i)), F, V, b(String.format("value-%05d", i)))));
        all.add(client.put(new PutRequest(table, b(row(i)), G, N, b("" + i % 10))));
        n++;
        if (n % 1000 == 0) { for (Deferred<Object> d : all) join(d); all.clear(); }
      }
      return n;
    });
    check("read.rows", () -> {
      int right = 0, wrong = 0;
      for (int n = 0; n < ROWS; n += 500) {
        List<GetRequest> gets = new ArrayList<>();
        for (int i = n; i < n + 500; i++) gets.add(new GetRequest(table, b(row(i))));
        int i = n;
        for (GetResultOrException r : join(client.get(gets))) {
          if (r.getException() == null && withRow(r.getCells()).equals(String.format("%s f:v=value-%05d g:n=%d", row(i), i, i % 10))) right++;
          else wrong++;
          i++;
        }
      }
      return right + " right, " + wrong + " wrong";
    });
    check("get.row", () -> withRow(get("r01234")));
    check("get.column", () -> withRow(join(client.get(new GetRequest(table, b("r01234"), F, V)))));
    check("get.family", () -> withRow(join(client.get(new GetRequest(table, b("r01234"), G)))));
    check("get.absent", () -> withRow(get("absent")));
    check("get.list", () -> {
      StringJoiner s = new StringJoiner("; ");
      List<GetRequest> gets = new ArrayList<>();
      for (String r : new String[] { "r00001", "absent", "r09999" }) gets.add(new GetRequest(table, b(r)));
      for (GetResultOrException r : join(client.get(gets))) { if (r.getException() != null) throw r.getException(); s.add(withRow(r.getCells())); }
      return s;
    });
  }

  static Scanner scan(String from, String to) {
    Scanner s = client.newScanner(table);
    if (from != null) s.setStartKey(from);
    if (to != null) s.setStopKey(to);
    return s;
  }

  static void scans() {
    check("scan.all", () -> rows(scan(null, null)));
    check("scan.range", () -> rows(scan("r02400", "r02600")));
    check("scan.region", () -> rows(scan("r00100", "r00190")));
    check("scan.caching", () -> { Scanner s = scan("r02480", "r02520"); s.setMaxNumRows(7); return rows(s); });
    check("scan.reversed", () -> { Scanner s = scan("r05010", "r04990"); s.setReversed(true); return rows(s); });
    check("scan.reversed.all", () -> { Scanner s = scan(null, null); s.setReversed(true); return rows(s); });
    check("scan.small.result", () -> { Scanner s = scan("r02400", "r02600"); s.setMaxNumBytes(1000); return rows(s); });
    check("scan.family", () -> {
      Scanner s = scan("r00000", "r00005");
      s.setFamily(G);
      StringJoiner j = new StringJoiner(" ");
      for (ArrayList<KeyValue> r : all(s)) j.add(r.size() == 1 ? s(r.get(0).value()) : "?");
      return j;
    });
    // asynchbase has no prefix filter and no value filter on another column: the row filter and a regular expression serve.
    check("scan.filter.prefix", () -> { Scanner s = scan(null, null); s.setKeyRegexp("^r0123."); return rows(s); });
    check("scan.filter.value", () -> {
      Scanner s = scan(null, null);
      s.setFamily(G);
      s.setFilter(new ValueFilter(CompareFilter.CompareOp.EQUAL, new BinaryComparator(b("7"))));
      return rows(s);
    });
    check("scan.filter.list", () -> {
      Scanner s = scan(null, null);
      s.setFamily(G);
      s.setFilter(new FilterList(Arrays.asList(new KeyRegexpFilter("^r000"),
        new ValueFilter(CompareFilter.CompareOp.EQUAL, new BinaryComparator(b("7"))))));
      return rows(s);
    });
    check("scan.none", () -> rows(scan("s", "t")));
  }

  static List<ArrayList<KeyValue>> all(Scanner s) throws Exception {
    List<ArrayList<KeyValue>> out = new ArrayList<>();
    for (ArrayList<ArrayList<KeyValue>> some; (some = join(s.nextRows())) != null;) out.addAll(some);
    return out;
  }

  static String rows(Scanner scan) throws Exception {
    int n = 0;
    String first = null, last = null;
    boolean order = true;
    for (ArrayList<KeyValue> x : all(scan)) {
      String k = s(x.get(0).key());
      if (first == null) first = k;
      else if (scan.isReversed() ? last.compareTo(k) <= 0 : last.compareTo(k) >= 0) order = false;
      last = k;
      n++;
    }
    return n == 0 ? "0 rows" : n + " rows, " + first + " to " + last + (order ? ", in order" : ", out of order");
  }

  static void versions() throws Exception {
    byte[] r = b("x-versions");
    for (int i = 1; i <= 3; i++) put(r, F, V, "" + (char) ('a' + i - 1), i * 1000);
    check("versions.two", () -> stamps(join(client.get(new GetRequest(table, r).maxVersions(2)))));
    check("versions.all", () -> stamps(join(client.get(new GetRequest(table, r).maxVersions(10)))));
    check("versions.time.range", () -> stamps(join(client.get(new GetRequest(table, r).maxVersions(10).setTimeRange(1000, 3000)))));
    check("versions.timestamp", () -> stamps(join(client.get(new GetRequest(table, r).setTimeRange(2000, 2001)))));
    check("versions.time.range.scan", () -> {
      Scanner s = scan("x-versions", "x-versions0");
      s.setMaxVersions(10);
      s.setTimeRange(1000, 3000);
      return stamps(all(s).get(0));
    });
    put(r, F, V, "d", 4000);
    check("versions.fourth", () -> stamps(join(client.get(new GetRequest(table, r).maxVersions(10)))));
    put(b("x-one"), G, V, "x", 1000);
    put(b("x-one"), G, V, "y", 2000);
    check("versions.one", () -> stamps(join(client.get(new GetRequest(table, b("x-one")).maxVersions(10)))));
  }

  static void incrementsAndAppends() throws Exception {
    byte[] r = b("x-counter");
    check("increment.concurrent", () -> {
      List<Deferred<Long>> all = new ArrayList<>();
      for (int i = 0; i < 100; i++) all.add(client.atomicIncrement(new AtomicIncrementRequest(table, r, F, C)));
      for (Deferred<Long> d : all) join(d);
      return ByteBuffer.wrap(get("x-counter").get(0).value()).getLong();
    });
    check("increment.result", () -> join(client.atomicIncrement(new AtomicIncrementRequest(table, r, F, C, 7))));
    check("increment.negative", () -> join(client.atomicIncrement(new AtomicIncrementRequest(table, r, F, C, -9))));
    put(b("x-append"), F, V, "ab", 0);
    check("increment.not.a.number", () -> join(client.atomicIncrement(new AtomicIncrementRequest(table, b("x-append"), F, V, 1))));
    check("append.result", () -> {
      AppendRequest a = new AppendRequest(table, b("x-append"), F, V, b("cd"));
      a.returnResult(true);
      Object kv = join(client.append(a));
      return kv instanceof KeyValue ? s(((KeyValue) kv).value()) : String.valueOf(kv);
    });
    check("append.read", () -> s(get("x-append").get(0).value()));
  }

  static void checks() throws Exception {
    byte[] r = b("x-check");
    check("check.absent", () -> join(client.atomicCreate(new PutRequest(table, r, F, V, b("old")))) + " "
      + join(client.atomicCreate(new PutRequest(table, r, F, V, b("old")))));
    check("check.equal", () -> join(client.compareAndSet(new PutRequest(table, r, F, V, b("new")), b("other"))) + " "
      + join(client.compareAndSet(new PutRequest(table, r, F, V, b("new")), b("old"))));
    check("check.value", () -> s(get("x-check").get(0).value()));
  }

  static byte[] threeVersions(String row) throws Exception {
    String[] values = { "one", "two", "three" };
    for (int i = 1; i <= 3; i++) put(b(row), F, A, values[i - 1], i);
    return b(row);
  }

  static byte[] threeColumns(String row) throws Exception {
    put(b(row), F, A, "a", 0);
    put(b(row), F, B, "b", 0);
    put(b(row), G, C, "c", 0);
    return b(row);
  }

  static void deletes() {
    check("delete.exact.version", () -> {
      DeleteRequest d = new DeleteRequest(table, threeVersions("x-delete-2"), F, A, 2);
      d.setDeleteAtTimestampOnly(true);
      join(client.delete(d));
      return stamps(join(client.get(new GetRequest(table, b("x-delete-2")).maxVersions(10))));
    });
    check("delete.column", () -> {
      join(client.delete(new DeleteRequest(table, threeColumns("x-delete-3"), F, A)));
      return cells(get("x-delete-3"));
    });
    check("delete.column.up.to", () -> {
      join(client.delete(new DeleteRequest(table, threeVersions("x-delete-4"), F, A, 2)));
      return stamps(join(client.get(new GetRequest(table, b("x-delete-4")).maxVersions(10))));
    });
    check("delete.family", () -> {
      join(client.delete(new DeleteRequest(table, threeColumns("x-delete-5"), F)));
      return cells(get("x-delete-5"));
    });
    check("delete.row", () -> {
      join(client.delete(new DeleteRequest(table, threeColumns("x-delete-7"))));
      return withRow(get("x-delete-7"));
    });
    check("delete.then.put", () -> {
      // A put in the delete's own millisecond would stay masked.
      Thread.sleep(5);
      put(b("x-delete-7"), F, A, "again", 0);
      return cells(get("x-delete-7"));
    });
  }

  static void errors(String name) {
    check("error.unknown.table.asynchbase", () -> { join(client.ensureTableExists(name + "_nosuch")); return "there"; });
    check("error.unknown.family.put", () -> { put(A, b("nosuch"), A, "a", 0); return "put"; });
    check("error.unknown.family.get", () -> withRow(join(client.get(new GetRequest(table, A, b("nosuch"))))));
  }

  static void put(byte[] row, byte[] family, byte[] qualifier, String value, long ts) throws Exception {
    join(client.put(ts == 0 ? new PutRequest(table, row, family, qualifier, b(value)) : new PutRequest(table, row, family, qualifier, b(value), ts)));
  }

  static ArrayList<KeyValue> get(String row) throws Exception { return join(client.get(new GetRequest(table, b(row)))); }
  static <T> T join(Deferred<T> d) throws Exception { return d.join(60000); }
  static byte[] b(String s) { return s.getBytes(StandardCharsets.UTF_8); }
  static String s(byte[] b) { return new String(b, StandardCharsets.UTF_8); }

  static String cells(List<KeyValue> r) {
    StringJoiner j = new StringJoiner(" ");
    for (KeyValue c : r) j.add(s(c.family()) + ":" + s(c.qualifier()) + "=" + s(c.value()));
    return r.isEmpty() ? "empty" : j.toString();
  }

  static String withRow(List<KeyValue> r) { return r.isEmpty() ? "empty" : s(r.get(0).key()) + " " + cells(r); }

  static String stamps(List<KeyValue> r) {
    StringJoiner j = new StringJoiner(" ");
    for (KeyValue c : r) j.add(c.timestamp() + "=" + s(c.value()));
    return r.isEmpty() ? "empty" : j.toString();
  }

  static void check(String n, Callable<?> what) {
    // A class it does not know becomes RemoteException with the class name in the message.
    Checks.check(n, what, e -> e instanceof RemoteException ? e.getMessage().split(":")[0] : null);
  }
}
