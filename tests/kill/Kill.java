import java.io.*;
import java.net.ServerSocket;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import java.util.function.Function;
import java.util.regex.*;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.*;
import org.apache.hadoop.hbase.client.*;
import org.apache.hadoop.hbase.util.Bytes;
import org.apache.zookeeper.*;
import org.apache.zookeeper.data.Stat;

/**
 * Rounds of kill -9: starts the server, loads it through one long-lived connection, kills it in the middle, starts it again on the same data
 * and ports while the load goes on trying, pauses the load and reads everything back. README.md tells what is checked.
 */
public class Kill {
  static final byte[] F = Bytes.toBytes("f"), G = Bytes.toBytes("g"), S = Bytes.toBytes("s"), NOSUCH = Bytes.toBytes("nosuch");
  static final TableName TABLE = TableName.valueOf("kill_load");
  static final int ROWS = 30;

  static final AtomicLong ids = new AtomicLong();
  static final Map<String, AtomicInteger> errors = new ConcurrentSkipListMap<>();
  static PrintWriter journal;
  static Checker checker = new Checker();
  static int passed, failed;

  // The server.
  static String binary;
  static Path data, log;
  static int[] ports = new int[3];
  static Process process;
  static long pid;

  // Writers run while the gate is open, and are parked behind it while everything is read back.
  static final Gate gate = new Gate();
  static Connection connection;
  static volatile boolean over;

  public static void main(String[] args) throws Exception {
    Map<String, String> o = new HashMap<>();
    for (int i = 0; i + 1 < args.length; i += 2) o.put(args[i], args[i + 1]);
    binary = o.get("--binary");
    int rounds = Integer.parseInt(o.get("--rounds")), writers = Integer.parseInt(o.get("--writers"));
    long end = System.currentTimeMillis() + 1000 * Long.parseLong(o.get("--max-seconds"));
    long seed = Long.parseLong(o.get("--seed"));
    int startSeconds = Integer.parseInt(o.get("--start-seconds"));
    Random random = new Random(seed);
    Path work = Paths.get(o.get("--work"));
    data = Files.createDirectories(work.resolve("data"));
    log = work.resolve("server.log");
    journal = new PrintWriter(Files.newBufferedWriter(work.resolve("journal")));
    ports = freePorts(ports.length);
    Runtime.getRuntime().addShutdownHook(new Thread(Kill::kill));
    System.out.println("seed " + seed + ", " + writers + " writers, data in " + data);

    start(startSeconds);
    Configuration conf = HBaseConfiguration.create();
    conf.set("hbase.client.registry.impl", "org.apache.hadoop.hbase.client.ZKConnectionRegistry");
    conf.set("hbase.zookeeper.quorum", "127.0.0.1");
    conf.setInt("hbase.zookeeper.property.clientPort", ports[0]);
    // An idle ZooKeeper session must live through the rounds.
    conf.setInt("zookeeper.registry.async.get.timeout", 60000);
    conf.setInt("hbase.rpc.timeout", 20000);
    conf.setInt("hbase.client.pause", 50);
    // The client keeps away for 2 s from an address that failed, and for 1 s from ZooKeeper: longer than the server is down.
    conf.setInt("hbase.ipc.client.failed.servers.expiry", 100);
    conf.setInt("zookeeper.recovery.retry.intervalmill", 100);
    conf.setInt("hbase.client.retries.number", 100);
    conf.setInt("hbase.client.operation.timeout", 120000);
    conf.setInt("hbase.client.meta.operation.timeout", 120000);
    connection = ConnectionFactory.createConnection(conf);
    try (Admin admin = connection.getAdmin()) {
      admin.createTable(TableDescriptorBuilder.newBuilder(TABLE).setColumnFamily(ColumnFamilyDescriptorBuilder.newBuilder(F).setMaxVersions(3).build())
        .setColumnFamily(ColumnFamilyDescriptorBuilder.of(G)).build(), new byte[][] { Bytes.toBytes("shared"), Bytes.toBytes("w2") });
    }
    session = new Session(ports[0]);
    session.check(startSeconds);
    List<Thread> threads = new ArrayList<>();
    for (int i = 0; i < writers; i++) {
      Thread t = new Thread(new Writer(i, new Random(seed * 1000 + i)), "writer-" + i);
      t.start();
      threads.add(t);
    }
    long slowest = 0;
    int round = 0;
    while (round < rounds && System.currentTimeMillis() < end) {
      round++;
      long before = ids.get();
      gate.open();
      Thread flush = null;
      if (random.nextInt(2) == 0) {
        // Every other kill may meet a flush.
        int wait = random.nextInt(800);
        flush = new Thread(() -> {
          try (Admin admin = connection.getAdmin()) { Thread.sleep(wait); admin.flush(TABLE); } catch (Throwable t) { count("flush " + name(t)); }
        });
        flush.setDaemon(true);
        flush.start();
      }
      Thread.sleep(200 + random.nextInt(1800));
      kill();
      Thread.sleep(random.nextInt(3) == 0 ? random.nextInt(500) : 0);
      long began = System.currentTimeMillis();
      try {
        start(startSeconds);
      } catch (IOException e) {
        check(round, "restart", e.getMessage());
        break;
      }
      slowest = Math.max(slowest, System.currentTimeMillis() - began);
      Thread.sleep(random.nextInt(300));
      if (!gate.close(150)) { check(round, "operations end", "some still under way after 150 s"); break; }
      check(round, "session", session.check(60));
      check(round, "read back", readBack(writers));
      System.out.println("round " + round + ": " + (ids.get() - before) + " operations, ready again after " + (System.currentTimeMillis() - began) + " ms");
    }
    over = true;
    gate.open();
    for (Thread t : threads) t.join(1000);
    kill();
    synchronized (journal) { journal.close(); }
    System.out.println(round + " rounds, " + checker.acknowledged + " acknowledged, " + checker.refused + " refused, " + checker.unknown + " unknown, "
      + checker.reads + " read back, slowest start " + slowest + " ms, ZooKeeper sessions expired " + session.expired);
    System.out.println("errors seen by the writers: " + errors);
    if (checker.acknowledged < 50L * round) check(round, "load", "only " + checker.acknowledged + " operations acknowledged in " + round + " rounds");
    System.out.println(passed + " passed, " + failed + " failed");
    Runtime.getRuntime().halt(failed == 0 ? 0 : 1);
  }

  static void check(int round, String what, String fault) {
    if (fault == null) { passed++; return; }
    failed++;
    System.out.println("FAIL round " + round + " " + what + ": " + fault);
  }

  /** Free ports below those that the system gives to outgoing connections: nobody's connection has one of them while the server is down. */
  static int[] freePorts(int count) throws IOException {
    Path range = Paths.get("/proc/sys/net/ipv4/ip_local_port_range");
    int end = Files.exists(range) ? Integer.parseInt(Files.readAllLines(range).get(0).trim().split("\\s+")[0]) : 32768;
    Set<Integer> free = new TreeSet<>();
    for (Random random = new Random(); free.size() < count;) {
      int port = 10000 + random.nextInt(end - 10000);
      try (ServerSocket s = new ServerSocket(port)) { free.add(port); } catch (IOException e) { /* taken */ }
    }
    return free.stream().mapToInt(i -> i).toArray();
  }

  static void start(int seconds) throws Exception {
    process = new ProcessBuilder(binary, "start", "--data", data.toString(), "--json", "--zookeeper-port", "" + ports[0], "--master-port", "" + ports[1],
      "--region-server-port", "" + ports[2], "--admin-port", "0").redirectError(ProcessBuilder.Redirect.appendTo(log.toFile())).start();
    pid = process.pid();
    Process p = process;
    CompletableFuture<String> ready = new CompletableFuture<>();
    Thread reader = new Thread(() -> {
      try (BufferedReader in = p.inputReader()) {
        for (String line; (line = in.readLine()) != null;) if (line.contains("\"event\":\"ready\"") || line.contains("\"event\": \"ready\"")) ready.complete(line);
      } catch (IOException e) {
        // The server was killed.
      }
      ready.completeExceptionally(new IOException("the server ended before it was ready, see " + log));
    });
    reader.setDaemon(true);
    reader.start();
    try {
      Matcher m = Pattern.compile("\"pid\"\\s*:\\s*(\\d+)").matcher(ready.get(seconds, TimeUnit.SECONDS));
      // The program may be a wrapper of the one that serves.
      if (m.find()) pid = Long.parseLong(m.group(1));
    } catch (TimeoutException e) {
      throw new IOException("not ready after " + seconds + " s, see " + log);
    } catch (ExecutionException e) {
      throw (IOException) e.getCause();
    }
  }

  /** kill -9 */
  static void kill() {
    if (process == null) return;
    ProcessHandle.of(pid).ifPresent(h -> { h.destroyForcibly(); h.onExit().join(); });
    process.destroyForcibly();
    try { process.waitFor(); } catch (InterruptedException e) { Thread.currentThread().interrupt(); }
  }

  static synchronized void write(String line) { synchronized (journal) { journal.println(line); checker.line(line); } }
  static void count(String error) { errors.computeIfAbsent(error, k -> new AtomicInteger()).incrementAndGet(); }

  static String name(Throwable t) {
    String n = t.getClass().getSimpleName();
    return t.getCause() != null && t.getCause() != t && (n.startsWith("Retries") || n.startsWith("Execution")) ? n + "/" + name(t.getCause()) : n;
  }

  /** A value that tells its operation and shows damage: the id, and a filling that follows from it. */
  static byte[] value(long id) {
    StringBuilder s = new StringBuilder().append(id).append(':');
    int length = id % 50 == 0 ? 20000 : (int) (id * 7919 % 400);
    for (int i = 0; i < length; i++) s.append((char) ('a' + (id + i) % 26));
    return Bytes.toBytes(s.toString());
  }

  static String id(byte[] value) {
    if (value == null) return Checker.ABSENT;
    String s = Bytes.toString(value);
    int colon = s.indexOf(':');
    String id = colon < 0 ? "" : s.substring(0, colon);
    return id.matches("[0-9]{1,18}") && Arrays.equals(value, value(Long.parseLong(id))) ? id : "damaged";
  }

  static class Writer implements Runnable {
    final int number;
    final Random random;
    // A row whose last operation has no known outcome rests until it was read back: a straggler of it must not meet the next operation.
    final Set<String> resting = new HashSet<>();
    final Map<String, Long> deleted = new HashMap<>();
    long visit;
    int appends, text;

    Writer(int number, Random random) { this.number = number; this.random = random; }

    public void run() {
      // Odd writers give up soon, and so leave operations of unknown outcome; even ones go on trying until the server is back.
      try (Table table = connection.getTableBuilder(TABLE, null).setOperationTimeout(number % 2 == 1 ? 500 : 120000).build()) {
        while (!over) {
          long v = gate.enter();
          try {
            if (v != visit) { visit = v; resting.clear(); }
            step(table);
          } finally {
            gate.leave();
          }
        }
      } catch (Throwable t) {
        count("writer ended " + t);
        t.printStackTrace();
      }
    }

    String row() { return "w" + number + "-" + random.nextInt(ROWS); }

    void step(Table table) throws InterruptedException {
      int dice = random.nextInt(100);
      if (dice < 40) {
        String row = row();
        if (resting.contains(row)) return;
        long id = begin("put", row);
        done(id, row, () -> { table.put(put(row, id)); return ""; });
      } else if (dice < 55) {
        Set<String> chosen = new TreeSet<>();
        while (chosen.size() < 10) chosen.add(row());
        chosen.removeAll(resting);
        batch(table, new ArrayList<>(chosen));
      } else if (dice < 65) {
        String row = row();
        if (resting.contains(row)) return;
        long id = begin("delete", row);
        done(id, row, () -> { table.delete(own(row) ? new Delete(Bytes.toBytes(row), id) : new Delete(Bytes.toBytes(row))); return ""; });
        deleted.put(row, System.currentTimeMillis());
      } else if (dice < 70) {
        String row = row();
        if (resting.contains(row)) return;
        long id = begin("put", row);
        try {
          table.put(put(row, id).addColumn(NOSUCH, S, value(id)));
          write("ok " + id);
          count("a put into an unknown family was acknowledged");
        } catch (IOException e) {
          refusal(id, row, e);
        }
      } else if (dice < 90) {
        String row = dice < 80 ? "shared" + random.nextInt(3) : "own" + number;
        if (resting.contains(row)) return;
        long id = begin("increment", row);
        // Both families in one call; nonces as the client sends them by default.
        done(id, row, () -> result(table.increment(new Increment(Bytes.toBytes(row)).addColumn(F, S, 1).addColumn(G, S, 1)), v -> Bytes.toLong(v)));
      } else {
        if (appends++ % 40 == 39) text++;
        String row = "append" + number + "-" + text;
        if (resting.contains(row)) return;
        texts.add(row);
        long id = begin("append", row);
        done(id, row, () -> result(table.append(new Append(Bytes.toBytes(row)).addColumn(F, S, Bytes.toBytes(id + ","))), v -> Bytes.toString(v)));
      }
    }

    /** HBase answers a retry whose nonce it knows from its log with an empty result: acknowledged, the value untold. */
    String result(Result r, Function<byte[], Object> value) {
      if (r.isEmpty()) { count("empty result of a retry"); return ""; }
      return " " + value.apply(r.getValue(F, S));
    }

    /** Rows of even number get the client's time stamps, the others the server's. */
    boolean own(String row) { return (row.charAt(row.length() - 1) - '0') % 2 == 0; }

    Put put(String row, long id) throws InterruptedException {
      // A put in the millisecond of the delete before would stay masked: HBase's rule, no loss.
      Long at = deleted.remove(row);
      if (at != null && !own(row)) while (System.currentTimeMillis() <= at + 2) Thread.sleep(1);
      byte[] r = Bytes.toBytes(row), v = value(id);
      return own(row) ? new Put(r, id).addColumn(F, S, v).addColumn(G, S, v) : new Put(r).addColumn(F, S, v).addColumn(G, S, v);
    }

    void batch(Table table, List<String> rows) throws InterruptedException {
      if (rows.isEmpty()) return;
      List<Put> puts = new ArrayList<>();
      List<Long> started = new ArrayList<>();
      for (String row : rows) {
        long id = begin("put", row);
        started.add(id);
        puts.add(put(row, id));
      }
      Object[] results = new Object[puts.size()];
      try {
        table.batch(puts, results);
      } catch (Throwable t) {
        count("batch " + name(t));
      }
      for (int i = 0; i < results.length; i++) {
        if (results[i] instanceof Result) write("ok " + started.get(i));
        else { write("unknown " + started.get(i)); resting.add(rows.get(i)); }
      }
    }

    long begin(String kind, String row) {
      long id = ids.incrementAndGet();
      write(kind + " " + id + " " + row);
      return id;
    }

    void done(long id, String row, Callable<String> call) throws InterruptedException {
      try {
        write("ok " + id + call.call());
      } catch (Throwable t) {
        // Whatever the error: an attempt before it may have reached the server.
        count(name(t));
        if (!(t instanceof IOException)) t.printStackTrace();
        write("unknown " + id);
        if (!row.startsWith("shared")) resting.add(row);
        Thread.sleep(5);
      }
    }

    void refusal(long id, String row, Throwable t) {
      for (Throwable c = t; c != null; c = c.getCause()) {
        if (c.toString().contains("NoSuchColumnFamilyException")) { write("failed " + id); return; }
        if (c instanceof RetriesExhaustedWithDetailsException && ((RetriesExhaustedWithDetailsException) c).getCause(0).toString().contains("NoSuchColumnFamilyException")) { write("failed " + id); return; }
      }
      // No answer; but never an effect. Whether it had one is seen by the read: "unknown" would allow it.
      count("refusal " + name(t));
      write("failed " + id);
      resting.add(row);
    }
  }

  static final Set<String> texts = new ConcurrentSkipListSet<>();

  /** Reads every row of every writer by gets and by a scan; null, or what is wrong. */
  static String readBack(int writers) throws Exception {
    int before = checker.faults.size();
    List<String> rows = new ArrayList<>();
    for (int w = 0; w < writers; w++) for (int i = 0; i < ROWS; i++) rows.add("w" + w + "-" + i);
    List<String> counters = new ArrayList<>(Arrays.asList("shared0", "shared1", "shared2"));
    for (int w = 0; w < writers; w++) counters.add("own" + w);
    List<String> all = new ArrayList<>(rows);
    all.addAll(counters);
    all.addAll(texts);
    try (Table table = connection.getTable(TABLE); RegionLocator locator = connection.getRegionLocator(TABLE)) {
      // So that meta and ZooKeeper are asked again by the old connection.
      locator.clearRegionLocationCache();
      List<Get> gets = new ArrayList<>();
      for (String r : all) gets.add(new Get(Bytes.toBytes(r)));
      Result[] results = table.get(gets);
      Map<String, Result> scanned = new HashMap<>();
      try (ResultScanner s = table.getScanner(new Scan())) { for (Result r : s) scanned.put(Bytes.toString(r.getRow()), r); }
      for (int i = 0; i < all.size(); i++) {
        String row = all.get(i);
        Result r = results[i], s = scanned.getOrDefault(row, Result.EMPTY_RESULT);
        if (i < rows.size()) {
          write("read " + row + " " + id(r.getValue(F, S)) + " " + id(r.getValue(G, S)));
          write("scan " + row + " " + id(s.getValue(F, S)) + " " + id(s.getValue(G, S)));
        } else if (i < rows.size() + counters.size()) {
          write("count " + row + " " + number(r.getValue(F, S)) + " " + number(r.getValue(G, S)));
        } else {
          write("text " + row + " " + (r.isEmpty() ? Checker.ABSENT : Bytes.toString(r.getValue(F, S))));
        }
      }
      scanned.keySet().removeAll(all);
      if (!scanned.isEmpty()) return "rows that nobody wrote: " + scanned.keySet();
    } catch (IOException e) {
      return "cannot read: " + e;
    }
    synchronized (journal) { journal.flush(); }
    List<String> found = checker.faults.subList(before, checker.faults.size());
    return found.isEmpty() ? null : found.size() + " faults, " + String.join("; ", found.subList(0, Math.min(5, found.size())));
  }

  static String number(byte[] value) { return value == null ? Checker.ABSENT : value.length == 8 ? "" + Bytes.toLong(value) : "-1"; }

  static Session session;

  /** One ZooKeeper client for all rounds: it must be served again after each start, by its old session or by a new one after "expired". */
  static class Session implements Watcher {
    final int port;
    ZooKeeper zk;
    int expired;
    long lastCreated;
    Session(int port) throws IOException { this.port = port; zk = new ZooKeeper("127.0.0.1:" + port, 30000, this); }
    public void process(WatchedEvent e) { }

    String check(int seconds) throws Exception {
      String why = "";
      for (long end = System.currentTimeMillis() + 1000L * seconds; System.currentTimeMillis() < end; Thread.sleep(100)) {
        try {
          Stat stat = new Stat();
          zk.getData("/hbase/meta-region-server", true, stat);
          zk.getData("/hbase/master", true, stat);
          // The transaction ids must not go back: a client refuses a server that has seen less than itself.
          if (stat.getCzxid() < lastCreated) return "/hbase/master was created at zxid " + stat.getCzxid() + ", before that of the last round, " + lastCreated;
          lastCreated = stat.getCzxid();
          return null;
        } catch (KeeperException.SessionExpiredException e) {
          expired++;
          zk.close();
          zk = new ZooKeeper("127.0.0.1:" + port, 30000, this);
        } catch (KeeperException e) {
          why = e.toString();
        }
      }
      return "the ZooKeeper client is not served after " + seconds + " s: " + why;
    }
  }

  /** Lets writers in while open; close waits until the last is out. */
  static class Gate {
    private boolean open;
    private int inside;
    private long visit;
    synchronized long enter() throws InterruptedException { while (!open) wait(); inside++; return visit; }
    synchronized void leave() { inside--; notifyAll(); }
    synchronized void open() { open = true; visit++; notifyAll(); }
    synchronized boolean close(int seconds) throws InterruptedException {
      open = false;
      for (long end = System.currentTimeMillis() + 1000L * seconds; inside > 0;) {
        long left = end - System.currentTimeMillis();
        if (left <= 0) return false;
        wait(left);
      }
      return true;
    }
  }
}
