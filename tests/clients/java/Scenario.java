import java.io.IOException;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.*;
import org.apache.hadoop.hbase.client.*;
import org.apache.hadoop.hbase.filter.*;
import org.apache.hadoop.hbase.util.Bytes;
import org.apache.hadoop.ipc.RemoteException;

/** The scenario of README.md with HBase's own client; compiled against 2.6.4 and against 3.0.0-beta-1. */
public class Scenario {
  static final int ROWS = 10000;
  static final byte[] F = b("f"), G = b("g"), V = b("v"), N = b("n");
  static TableName name;
  static Connection connection;
  static Table table;

  public static void main(String[] args) throws Exception {
    Map<String, String> o = new HashMap<>();
    for (int i = 0; i + 1 < args.length; i += 2) o.put(args[i], args[i + 1]);
    String only = o.getOrDefault("--only", "all");
    Configuration conf = HBaseConfiguration.create();
    if (o.getOrDefault("--registry", "zk").equals("rpc")) {
      conf.set("hbase.client.registry.impl", "org.apache.hadoop.hbase.client.RpcConnectionRegistry");
      conf.set("hbase.client.bootstrap.servers", o.get("--bootstrap"));
      // A client that asked ZooKeeper after all would then fail.
      conf.set("hbase.zookeeper.quorum", "127.0.0.1");
      conf.setInt("hbase.zookeeper.property.clientPort", 1);
    } else {
      String zk = o.get("--zookeeper");
      conf.set("hbase.client.registry.impl", "org.apache.hadoop.hbase.client.ZKConnectionRegistry");
      conf.set("hbase.zookeeper.quorum", zk.substring(0, zk.lastIndexOf(':')));
      conf.set("hbase.zookeeper.property.clientPort", zk.substring(zk.lastIndexOf(':') + 1));
    }
    conf.setInt("hbase.rpc.timeout", 20000);
    conf.setInt("hbase.client.operation.timeout", 60000);
    conf.setInt("hbase.client.sync.wait.timeout.msec", 60000);
    name = TableName.valueOf(o.get("--table"));
    if (only.equals("all")) Checks.start("java", o.get("--expected"));
    connection = ConnectionFactory.createConnection(conf);
    table = connection.getTable(name);
    try (Admin admin = connection.getAdmin()) {
      // create and drop: for the clients that have no DDL of their own.
      if (only.equals("create") || only.equals("drop")) {
        dropIfThere(admin, name);
        if (only.equals("create")) create(admin);
        return;
      }
      dropIfThere(admin, name);
      ddl(admin);
      writeAndRead();
      scans();
      versions();
      incrementsAndAppends();
      checkAndMutate();
      deletes();
      multi();
      errors(admin);
      async(conf);
      regionsAndFamilies(admin);
      disableAndDrop(admin);
    }
    connection.close();
    System.exit(Checks.end());
  }

  static void dropIfThere(Admin admin, TableName t) throws IOException {
    if (!admin.tableExists(t)) return;
    if (admin.isTableEnabled(t)) admin.disableTable(t);
    admin.deleteTable(t);
  }

  static void create(Admin admin) throws IOException {
    admin.createTable(TableDescriptorBuilder.newBuilder(name)
      .setColumnFamily(ColumnFamilyDescriptorBuilder.newBuilder(F).setMaxVersions(3).build())
      .setColumnFamily(ColumnFamilyDescriptorBuilder.of(G)).build(), new byte[][] { b("r02500"), b("r05000"), b("r07500") });
  }

  static void ddl(Admin admin) throws Exception {
    check("connect", () -> !admin.getClusterMetrics().getClusterId().isEmpty());
    check("cluster.servers", () -> admin.getClusterMetrics().getLiveServerMetrics().size() >= 1);
    check("table.absent", () -> admin.tableExists(name));
    check("table.create", () -> { create(admin); return starts(); });
    check("table.create.again", () -> { create(admin); return "created"; });
    check("table.families", () -> {
      StringJoiner s = new StringJoiner(" ");
      for (ColumnFamilyDescriptor f : admin.getDescriptor(name).getColumnFamilies()) s.add(f.getNameAsString() + ":" + f.getMaxVersions());
      return s;
    });
    check("table.list", () -> Arrays.asList(admin.listTableNames()).contains(name));
    check("namespace", () -> {
      String n = "ns_" + name.getQualifierAsString();
      admin.createNamespace(NamespaceDescriptor.create(n).build());
      boolean there = hasNamespace(admin, n);
      admin.deleteNamespace(n);
      return there + " " + hasNamespace(admin, n);
    });
  }

  static boolean hasNamespace(Admin admin, String n) throws IOException {
    for (NamespaceDescriptor d : admin.listNamespaceDescriptors()) if (d.getName().equals(n)) return true;
    return false;
  }

  /** Start keys of the table's regions. */
  static String starts() throws IOException {
    StringJoiner s = new StringJoiner(",");
    try (RegionLocator l = connection.getRegionLocator(name)) {
      for (byte[] k : l.getStartKeys()) s.add(Bytes.toString(k));
    }
    return s.toString();
  }

  static String row(int i) { return String.format("r%05d", i); }
  static Put rowPut(int i) { return new Put(b(row(i))).addColumn(F, V, b(String.format("value-%05d", i))).addColumn(G, N, b("" + i % 10)); }

  static void writeAndRead() throws Exception {
    check("write.rows", () -> {
      int n = 0;
      // The first half by lists of puts, the second by a BufferedMutator.
      for (; n < ROWS / 2; n += 500) {
        List<Put> puts = new ArrayList<>();
        for (int i = n; i < n + 500; i++) puts.add(rowPut(i));
        table.put(puts);
      }
      try (BufferedMutator m = connection.getBufferedMutator(name)) {
        for (; n < ROWS; n++) m.mutate(rowPut(n));
      }
      return n;
    });
    check("read.rows", () -> {
      int right = 0, wrong = 0;
      for (int n = 0; n < ROWS; n += 500) {
        List<Get> gets = new ArrayList<>();
        for (int i = n; i < n + 500; i++) gets.add(new Get(b(row(i))));
        Result[] results = table.get(gets);
        for (int i = 0; i < 500; i++) if (isRow(results[i], n + i)) right++; else wrong++;
      }
      return right + " right, " + wrong + " wrong";
    });
    check("get.row", () -> withRow(table.get(new Get(b("r01234")))));
    check("get.column", () -> withRow(table.get(new Get(b("r01234")).addColumn(F, V))));
    check("get.family", () -> withRow(table.get(new Get(b("r01234")).addFamily(G))));
    check("get.absent", () -> withRow(table.get(new Get(b("absent")))));
    check("get.exists", () -> table.exists(new Get(b("r01234"))) + " " + table.exists(new Get(b("absent"))));
    check("get.list", () -> {
      StringJoiner s = new StringJoiner("; ");
      for (Result r : table.get(Arrays.asList(new Get(b("r00001")), new Get(b("absent")), new Get(b("r09999"))))) s.add(withRow(r));
      return s;
    });
  }

  static boolean isRow(Result r, int i) {
    return r.size() == 2 && row(i).equals(Bytes.toString(r.getRow())) && String.format("value-%05d", i).equals(Bytes.toString(r.getValue(F, V)))
      && ("" + i % 10).equals(Bytes.toString(r.getValue(G, N)));
  }

  static Scan range(String from, String to) { return new Scan().withStartRow(b(from)).withStopRow(b(to)); }

  static void scans() throws Exception {
    check("scan.all", () -> rows(new Scan()));
    check("scan.range", () -> rows(range("r02400", "r02600")));
    check("scan.region", () -> rows(range("r00100", "r00190")));
    check("scan.inclusive", () -> rows(new Scan().withStartRow(b("r02400"), false).withStopRow(b("r02600"), true)));
    check("scan.limit", () -> rows(new Scan().withStartRow(b("r04990")).setLimit(25)));
    check("scan.caching", () -> rows(range("r02480", "r02520").setCaching(7)));
    check("scan.reversed", () -> rows(new Scan().withStartRow(b("r05010")).setReversed(true).setLimit(20)));
    check("scan.reversed.all", () -> rows(new Scan().setReversed(true)));
    check("scan.batch", () -> {
      StringJoiner s = new StringJoiner(" ");
      try (ResultScanner r = table.getScanner(range("r00010", "r00013").setBatch(1))) {
        for (Result x : r) {
          StringJoiner cells = new StringJoiner("+");
          for (Cell c : x.rawCells()) cells.add(Bytes.toString(x.getRow()) + "/" + column(c));
          s.add(cells.toString());
        }
      }
      return s;
    });
    check("scan.partial", () -> {
      Set<String> seen = new HashSet<>();
      int cells = 0;
      try (ResultScanner r = table.getScanner(range("r02400", "r02600").setAllowPartialResults(true).setMaxResultSize(1))) {
        for (Result x : r) { seen.add(Bytes.toString(x.getRow())); cells += x.size(); }
      }
      return seen.size() + " rows, " + cells + " cells";
    });
    check("scan.small.result", () -> rows(range("r02400", "r02600").setMaxResultSize(1000)));
    check("scan.family", () -> {
      StringJoiner s = new StringJoiner(" ");
      try (ResultScanner r = table.getScanner(range("r00000", "r00005").addFamily(G))) {
        for (Result x : r) s.add(x.size() == 1 ? Bytes.toString(x.value()) : "?");
      }
      return s;
    });
    Filter prefix = new PrefixFilter(b("r0123"));
    Filter seven = new SingleColumnValueFilter(G, N, CompareOperator.EQUAL, b("7"));
    check("scan.filter.prefix", () -> rows(new Scan().setFilter(prefix)));
    check("scan.filter.value", () -> rows(new Scan().setFilter(seven)));
    check("scan.filter.list", () -> rows(new Scan().setFilter(new FilterList(new PrefixFilter(b("r000")), seven))));
    check("scan.none", () -> rows(range("s", "t")));
  }

  static String rows(Scan scan) throws IOException {
    try (ResultScanner r = table.getScanner(scan)) { return rows(r, scan.isReversed()); }
  }

  static String rows(Iterable<Result> results, boolean reversed) {
    int n = 0;
    String first = null, last = null;
    boolean order = true;
    for (Result x : results) {
      String k = Bytes.toString(x.getRow());
      if (first == null) first = k;
      else if (reversed ? last.compareTo(k) <= 0 : last.compareTo(k) >= 0) order = false;
      last = k;
      n++;
    }
    return n == 0 ? "0 rows" : n + " rows, " + first + " to " + last + (order ? ", in order" : ", out of order");
  }

  static void versions() throws Exception {
    byte[] r = b("x-versions");
    for (int i = 1; i <= 3; i++) table.put(new Put(r).addColumn(F, V, i * 1000, b("" + (char) ('a' + i - 1))));
    check("versions.two", () -> stamps(table.get(new Get(r).readVersions(2))));
    check("versions.all", () -> stamps(table.get(new Get(r).readAllVersions())));
    check("versions.time.range", () -> stamps(table.get(new Get(r).readAllVersions().setTimeRange(1000, 3000))));
    check("versions.timestamp", () -> stamps(table.get(new Get(r).setTimestamp(2000))));
    table.put(new Put(r).addColumn(F, V, 4000, b("d")));
    check("versions.fourth", () -> stamps(table.get(new Get(r).readAllVersions())));
    byte[] one = b("x-one");
    table.put(new Put(one).addColumn(G, V, 1000, b("x")));
    table.put(new Put(one).addColumn(G, V, 2000, b("y")));
    check("versions.one", () -> stamps(table.get(new Get(one).readAllVersions())));
  }

  static void incrementsAndAppends() throws Exception {
    byte[] r = b("x-counter"), c = b("c"), d = b("d");
    check("increment.concurrent", () -> {
      threads(4, () -> { for (int i = 0; i < 25; i++) table.incrementColumnValue(r, F, c, 1); return null; });
      return Bytes.toLong(table.get(new Get(r)).getValue(F, c));
    });
    check("increment.result", () -> table.incrementColumnValue(r, F, c, 7));
    check("increment.two", () -> {
      Result x = table.increment(new Increment(r).addColumn(F, c, 1).addColumn(F, d, 5));
      return "f:c=" + Bytes.toLong(x.getValue(F, c)) + " f:d=" + Bytes.toLong(x.getValue(F, d));
    });
    check("increment.negative", () -> table.incrementColumnValue(r, F, c, -10));
    byte[] a = b("x-append");
    table.put(new Put(a).addColumn(F, V, b("ab")));
    check("increment.not.a.number", () -> table.incrementColumnValue(a, F, V, 1));
    check("append.result", () -> Bytes.toString(table.append(new Append(a).addColumn(F, V, b("cd"))).getValue(F, V)));
    check("append.read", () -> Bytes.toString(table.get(new Get(a)).getValue(F, V)));
  }

  static void checkAndMutate() throws Exception {
    byte[] r = b("x-check");
    Put put = new Put(r).addColumn(F, V, b("old"));
    check("check.absent", () -> {
      CheckAndMutate absent = CheckAndMutate.newBuilder(r).ifNotExists(F, V).build(put);
      return table.checkAndMutate(absent).isSuccess() + " " + table.checkAndMutate(absent).isSuccess();
    });
    check("check.equal", () -> {
      Put next = new Put(r).addColumn(F, V, b("new"));
      return table.checkAndMutate(CheckAndMutate.newBuilder(r).ifEquals(F, V, b("other")).build(next)).isSuccess() + " "
        + table.checkAndMutate(CheckAndMutate.newBuilder(r).ifEquals(F, V, b("old")).build(next)).isSuccess();
    });
    check("check.value", () -> Bytes.toString(table.get(new Get(r)).getValue(F, V)));
    check("check.greater", () -> {
      Put p = new Put(r).addColumn(F, b("w"), b("w"));
      // Compared is the given value with the cell's: GREATER holds for given > cell.
      return table.checkAndMutate(CheckAndMutate.newBuilder(r).ifMatches(F, V, CompareOperator.GREATER, b("z")).build(p)).isSuccess() + " "
        + table.checkAndMutate(CheckAndMutate.newBuilder(r).ifMatches(F, V, CompareOperator.GREATER, b("a")).build(p)).isSuccess();
    });
    check("check.delete", () -> {
      Delete d = new Delete(r);
      return table.checkAndMutate(CheckAndMutate.newBuilder(r).ifEquals(F, V, b("old")).build(d)).isSuccess() + " "
        + table.checkAndMutate(CheckAndMutate.newBuilder(r).ifEquals(F, V, b("new")).build(d)).isSuccess();
    });
    byte[] m = b("x-mutate");
    table.put(new Put(m).addColumn(F, b("a"), b("1")));
    check("mutate.row", () -> {
      RowMutations mutations = new RowMutations(m);
      mutations.add((Mutation) new Put(m).addColumn(F, b("b"), b("2")).addColumn(G, b("c"), b("3")));
      mutations.add((Mutation) new Delete(m).addColumns(F, b("a")));
      table.mutateRow(mutations);
      return cells(table.get(new Get(m)));
    });
  }

  static final byte[] A = b("a"), B = b("b"), C = b("c");

  static byte[] threeVersions(String row) throws IOException {
    byte[] r = b(row);
    String[] values = { "one", "two", "three" };
    for (int i = 1; i <= 3; i++) table.put(new Put(r).addColumn(F, A, i, b(values[i - 1])));
    return r;
  }

  static byte[] threeColumns(String row) throws IOException {
    byte[] r = b(row);
    table.put(new Put(r).addColumn(F, A, b("a")).addColumn(F, B, b("b")).addColumn(G, C, b("c")));
    return r;
  }

  static void deletes() throws Exception {
    check("delete.latest.version", () -> {
      byte[] r = threeVersions("x-delete-1");
      table.delete(new Delete(r).addColumn(F, A));
      return stamps(table.get(new Get(r).readAllVersions()));
    });
    check("delete.exact.version", () -> {
      byte[] r = threeVersions("x-delete-2");
      table.delete(new Delete(r).addColumn(F, A, 2));
      return stamps(table.get(new Get(r).readAllVersions()));
    });
    check("delete.column", () -> {
      byte[] r = threeColumns("x-delete-3");
      table.delete(new Delete(r).addColumns(F, A));
      return cells(table.get(new Get(r)));
    });
    check("delete.column.up.to", () -> {
      byte[] r = threeVersions("x-delete-4");
      table.delete(new Delete(r).addColumns(F, A, 2));
      return stamps(table.get(new Get(r).readAllVersions()));
    });
    check("delete.raw", () -> {
      StringJoiner s = new StringJoiner(" ");
      try (ResultScanner x = table.getScanner(range("x-delete-4", "x-delete-5").setRaw(true).readAllVersions())) {
        for (Result y : x) for (Cell c : y.rawCells()) s.add(c.getType() + "@" + c.getTimestamp());
      }
      return s;
    });
    check("delete.family", () -> {
      byte[] r = threeColumns("x-delete-5");
      table.delete(new Delete(r).addFamily(F));
      return cells(table.get(new Get(r)));
    });
    check("delete.family.version", () -> {
      byte[] r = b("x-delete-6");
      table.put(new Put(r).addColumn(F, A, 2, b("2")).addColumn(F, B, 2, b("2")).addColumn(G, C, 2, b("2")));
      table.put(new Put(r).addColumn(F, A, 3, b("3")));
      table.delete(new Delete(r).addFamilyVersion(F, 2));
      return cells(table.get(new Get(r).readAllVersions()));
    });
    check("delete.row", () -> {
      byte[] r = threeColumns("x-delete-7");
      table.delete(new Delete(r));
      return withRow(table.get(new Get(r)));
    });
    check("delete.then.put", () -> {
      // A put in the delete's own millisecond would stay masked.
      Thread.sleep(5);
      table.put(new Put(b("x-delete-7")).addColumn(F, A, b("again")));
      return cells(table.get(new Get(b("x-delete-7"))));
    });
  }

  static void multi() throws Exception {
    byte[][] r = new byte[6][];
    for (int i = 1; i <= 5; i++) r[i] = b("x-multi-" + i);
    table.put(Arrays.asList(new Put(r[2]).addColumn(F, A, b("2")), new Put(r[4]).addColumn(F, V, b("x")), new Put(r[5]).addColumn(F, A, b("1"))));
    check("multi.mixed", () -> {
      RowMutations m = new RowMutations(r[5]);
      m.add((Mutation) new Put(r[5]).addColumn(F, B, b("2")));
      m.add((Mutation) new Delete(r[5]).addColumns(F, A));
      Object[] x = new Object[6];
      table.batch(Arrays.asList(new Put(r[1]).addColumn(F, A, b("1")), new Get(b("r00042")), new Delete(r[2]),
        new Increment(r[3]).addColumn(F, C, 5), new Append(r[4]).addColumn(F, V, b("y")), m), x);
      return "put=" + ok(x[0]) + " get=" + Bytes.toString(((Result) x[1]).getValue(F, V)) + " delete=" + ok(x[2]) + " increment="
        + Bytes.toLong(((Result) x[3]).getValue(F, C)) + " append=" + Bytes.toString(((Result) x[4]).getValue(F, V)) + " rows=" + ok(x[5]);
    });
    check("multi.mixed.read", () -> cells(table.get(new Get(r[1]))) + "; " + cells(table.get(new Get(r[2]))) + "; "
      + Bytes.toLong(table.get(new Get(r[3])).value()) + "; " + Bytes.toString(table.get(new Get(r[4])).value()) + "; " + cells(table.get(new Get(r[5]))));
    byte[][] w = { b("x-wrong-1"), b("x-wrong-2"), b("x-wrong-3") };
    check("multi.wrong.family", () -> {
      Object[] x = new Object[3];
      try {
        table.batch(Arrays.asList(new Put(w[0]).addColumn(F, A, b("1")), new Put(w[1]).addColumn(b("nosuch"), A, b("2")),
          new Put(w[2]).addColumn(F, A, b("3"))), x);
      } catch (IOException e) {
        // The results tell which action it was.
      }
      return ok(x[0]) + " " + ok(x[1]) + " " + ok(x[2]);
    });
    check("multi.wrong.family.read", () -> cells(table.get(new Get(w[0]))) + "; " + cells(table.get(new Get(w[1]))) + "; " + cells(table.get(new Get(w[2]))));
  }

  static String ok(Object o) { return o == null ? "null" : o instanceof Throwable ? Checks.cause((Throwable) o) : "ok"; }

  static void errors(Admin admin) throws Exception {
    check("error.unknown.table", () -> {
      try (Table t = connection.getTable(TableName.valueOf(name.getNameAsString() + "_nosuch"))) { return cells(t.get(new Get(A))); }
    });
    check("error.unknown.family.put", () -> { table.put(new Put(A).addColumn(b("nosuch"), A, A)); return "put"; });
    check("error.unknown.family.get", () -> cells(table.get(new Get(A).addFamily(b("nosuch")))));
    check("error.unknown.family.scan", () -> rows(new Scan().addFamily(b("nosuch"))));
    check("error.unknown.namespace", () -> {
      admin.createTable(TableDescriptorBuilder.newBuilder(TableName.valueOf("nosuch_namespace:t")).setColumnFamily(ColumnFamilyDescriptorBuilder.of(F)).build());
      return "created";
    });
  }

  static void async(Configuration conf) throws Exception {
    try (AsyncConnection c = ConnectionFactory.createAsyncConnection(conf).get(60, TimeUnit.SECONDS)) {
      AsyncTable<?> t = c.getTable(name, ForkJoinPool.commonPool());
      check("async.get", () -> Bytes.toString(t.get(new Get(b("r01234"))).get(60, TimeUnit.SECONDS).getValue(F, V)));
      check("async.scan", () -> rows(t.scanAll(range("r02400", "r02600")).get(60, TimeUnit.SECONDS), false));
      check("async.increment", () -> {
        List<CompletableFuture<Long>> all = new ArrayList<>();
        for (int i = 0; i < 50; i++) all.add(t.incrementColumnValue(b("x-async"), F, C, 1));
        for (CompletableFuture<Long> f : all) f.get(60, TimeUnit.SECONDS);
        return Bytes.toLong(t.get(new Get(b("x-async"))).get(60, TimeUnit.SECONDS).value());
      });
      check("async.get.list", () -> {
        List<Get> gets = new ArrayList<>();
        for (int i = 0; i < ROWS; i += 10) gets.add(new Get(b(row(i))));
        int right = 0, wrong = 0, i = 0;
        for (Result r : t.getAll(gets).get(60, TimeUnit.SECONDS)) { if (isRow(r, i)) right++; else wrong++; i += 10; }
        return right + " right, " + wrong + " wrong";
      });
    }
  }

  static void regionsAndFamilies(Admin admin) throws Exception {
    check("flush", () -> { admin.flush(name); return rows(range("r", "s")); });
    check("family.add", () -> { admin.addColumnFamily(name, ColumnFamilyDescriptorBuilder.of("h")); return families(admin); });
    check("family.add.write", () -> {
      table.put(new Put(b("r00000")).addColumn(b("h"), b("new"), b("1")));
      return cells(table.get(new Get(b("r00000"))));
    });
    check("family.drop", () -> { admin.deleteColumnFamily(name, b("h")); return families(admin); });
  }

  static String families(Admin admin) throws IOException {
    StringJoiner s = new StringJoiner(" ");
    for (ColumnFamilyDescriptor f : admin.getDescriptor(name).getColumnFamilies()) s.add(f.getNameAsString());
    return s.toString();
  }

  static void disableAndDrop(Admin admin) throws Exception {
    check("drop.enabled", () -> { admin.deleteTable(name); return "dropped"; });
    check("enable.again", () -> { admin.enableTable(name); return "enabled"; });
    check("disable", () -> { admin.disableTable(name); return admin.isTableDisabled(name); });
    check("disable.again", () -> { admin.disableTable(name); return "disabled"; });
    check("disable.put", () -> { table.put(rowPut(5000)); return "put"; });
    check("enable", () -> { admin.enableTable(name); return admin.isTableEnabled(name); });
    check("enable.read", () -> Bytes.toString(table.get(new Get(b("r05000"))).getValue(F, V)));
    check("truncate", () -> {
      admin.disableTable(name);
      admin.truncateTable(name, true);
      try (RegionLocator l = connection.getRegionLocator(name)) { l.clearRegionLocationCache(); }
      return rows(new Scan()) + "; " + starts();
    });
    check("drop", () -> { admin.disableTable(name); admin.deleteTable(name); return admin.tableExists(name); });
    check("drop.get", () -> cells(table.get(new Get(A))));
  }

  /** Repeats until the answer fits or 30 s are over: what a client may see late. */
  static String eventually(String expected, Callable<String> what) throws Exception {
    String last = what.call();
    for (long end = System.currentTimeMillis() + 30000; !last.equals(expected) && System.currentTimeMillis() < end; last = what.call()) Thread.sleep(200);
    return last;
  }

  static void threads(int n, Callable<Void> work) throws Exception {
    ExecutorService pool = Executors.newFixedThreadPool(n);
    List<Future<Void>> all = new ArrayList<>();
    for (int i = 0; i < n; i++) all.add(pool.submit(work));
    for (Future<Void> f : all) f.get();
    pool.shutdown();
  }

  static byte[] b(String s) { return Bytes.toBytes(s); }
  static String column(Cell c) { return Bytes.toString(CellUtil.cloneFamily(c)) + ":" + Bytes.toString(CellUtil.cloneQualifier(c)); }

  static String cells(Result r) {
    if (r.isEmpty()) return "empty";
    StringJoiner s = new StringJoiner(" ");
    for (Cell c : r.rawCells()) s.add(column(c) + "=" + Bytes.toString(CellUtil.cloneValue(c)));
    return s.toString();
  }

  static String withRow(Result r) { return r.isEmpty() ? "empty" : Bytes.toString(r.getRow()) + " " + cells(r); }

  static String stamps(Result r) {
    StringJoiner s = new StringJoiner(" ");
    for (Cell c : r.rawCells()) s.add(c.getTimestamp() + "=" + Bytes.toString(CellUtil.cloneValue(c)));
    return r.isEmpty() ? "empty" : s.toString();
  }

  static void check(String n, Callable<?> what) {
    Checks.check(n, what, e -> e instanceof RemoteException ? ((RemoteException) e).getClassName()
      : e instanceof RetriesExhaustedWithDetailsException ? ((RetriesExhaustedWithDetailsException) e).getCause(0).getClass().getName() : null);
  }
}
