import java.io.BufferedReader;
import java.io.File;
import java.io.FileWriter;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.hdfs.MiniDFSNNTopology;
import org.apache.hadoop.hdfs.protocol.HdfsConstants.SafeModeAction;
import org.apache.hadoop.hdfs.server.datanode.DataNode;
import org.apache.hadoop.hdfs.server.namenode.EditLogFileOutputStream;
import org.apache.hadoop.hdfs.server.namenode.NameNode;
import org.apache.hadoop.hdfs.server.namenode.ha.BootstrapStandby;
import org.apache.hadoop.hdfs.tools.DFSHAAdmin;
import org.apache.hadoop.util.ToolRunner;

/**
 * A real HDFS HA pair for tests.
 *
 *   mini   DIR PORT0 PORT1 DNS   both NameNodes in this JVM, commands on stdin
 *   format DIR PORT0 PORT1       write DIR/conf/{core,hdfs}-site.xml for clients, format nn0, copy its image to nn1
 *   boot   DIR PORT0 PORT1       bootstrapStandby for nn1 (nn0 must run)
 *   nn     DIR PORT0 PORT1 N     run NameNode N in this process
 *   dn     DIR PORT0 PORT1 COUNT run COUNT DataNodes in this process
 *   jn     DIR PORT0 PORT1       run one JournalNode (with QJM=1 in the environment of all)
 *   put    DIR PORT0 PORT1 PATH  write three files of one block each, PATH0 and so on
 *   yardstick DIR PORT0 PORT1    what the proxy's long test does, by Hadoop's own client, until DIR/stop is there
 *   load   DIR PORT0 PORT1 CALLERS SECONDS   getFileInfo by Hadoop's own client: a line of JSON
 *   stalls DIR PORT0 PORT1 CALLERS   mkdirs by Hadoop's own client until DIR/stop is there: how long calls took, as a line of JSON
 *   ha     DIR PORT0 PORT1 ARGS  haadmin
 */
public class HdfsHa {
  static final String NS = "peer-ns";
  static final long T0 = System.nanoTime();
  /** Port of a third NameNode, which becomes an observer; null for none. */
  static final String OBSERVER = System.getenv("OBSERVER_PORT");

  static String secs() {
    return String.format("%.2f", (System.nanoTime() - T0) / 1e9);
  }

  static Configuration client(int p0, int p1) {
    Configuration c = new Configuration(false);
    c.set("fs.defaultFS", "hdfs://" + NS);
    c.set("dfs.nameservices", NS);
    c.set("dfs.ha.namenodes." + NS, OBSERVER == null ? "nn0,nn1" : "nn0,nn1,nn2");
    if (OBSERVER != null) {
      c.set("dfs.namenode.rpc-address." + NS + ".nn2", "127.0.0.1:" + OBSERVER);
    }
    c.set("dfs.namenode.rpc-address." + NS + ".nn0", "127.0.0.1:" + p0);
    c.set("dfs.namenode.rpc-address." + NS + ".nn1", "127.0.0.1:" + p1);
    c.set("dfs.client.failover.proxy.provider." + NS,
        "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider");
    return c;
  }

  static void writeXml(Configuration c, File f) throws Exception {
    f.getParentFile().mkdirs();
    try (FileWriter w = new FileWriter(f)) {
      c.writeXml(w);
    }
  }

  static void small(Configuration c) {
    c.setInt("dfs.namenode.handler.count", 8);
    c.setInt("dfs.namenode.service.handler.count", 4);
    c.setInt("dfs.datanode.handler.count", 4);
    c.setInt("dfs.replication", Integer.getInteger("dns", 2));
    c.setInt("dfs.heartbeat.interval", 1);
    c.setInt("dfs.ha.tail-edits.period", 1);
    c.setBoolean("dfs.permissions.enabled", false);
    c.setInt("dfs.namenode.fs-limits.min-block-size", 4096);
    c.setInt("dfs.blocksize", 8 << 20);
    // complete() need not wait for a DataNode's report, so the client does not sleep 500 ms before
    // it asks again; counts only with 2 DataNodes and replication 2 (more than replication.min)
    c.setInt("dfs.namenode.file.close.num-committed-allowed", 1);
    // as many calls as the tests make in ten minutes: with this small heap the usual part holds a few seconds of them
    c.set("dfs.namenode.retrycache.heap.percent", "2.0");
    // safemode leaves at once when all blocks are reported
    c.setInt("dfs.namenode.safemode.extension", 0);
    c.setInt("dfs.namenode.decommission.interval", 3);
    c.setLong("dfs.namenode.resource.du.reserved", 1 << 20);
    c.setLong("dfs.datanode.du.reserved", 0);
  }

  static Configuration server(String dir, int p0, int p1) {
    Configuration c = client(p0, p1);
    // load the defaults that new Configuration(false) left out
    Configuration d = new org.apache.hadoop.hdfs.HdfsConfiguration();
    c.forEach(e -> d.set(e.getKey(), e.getValue()));
    small(d);
    String base = new File(dir).getAbsolutePath();
    d.set("hadoop.tmp.dir", base + "/tmp");
    if (OBSERVER != null) {
      d.setBoolean("dfs.namenode.state.context.enabled", true);
      d.setBoolean("dfs.ha.tail-edits.in-progress", true);
      d.set("dfs.ha.tail-edits.period", "100ms");
    }
    for (int i = 0; i < (OBSERVER == null ? 2 : 3); i++) {
      d.set("dfs.namenode.name.dir." + NS + ".nn" + i, "file://" + base + "/nn" + i);
      d.set("dfs.namenode.http-address." + NS + ".nn" + i, "127.0.0.1:0");
    }
    d.set("dfs.namenode.shared.edits.dir", System.getenv("QJM") == null ? "file://" + base + "/shared-edits"
        : "qjournal://127.0.0.1:" + (p0 + 2000) + "/" + NS);
    // a standby that made checkpoints would need the other's HTTP port
    d.setBoolean("dfs.ha.standby.checkpoints", false);
    d.setBoolean("dfs.ha.log-roll.enabled", false);
    d.set("dfs.ha.fencing.methods", "shell(true)");
    d.setBoolean("dfs.ha.automatic-failover.enabled", false);
    return d;
  }

  public static void main(String[] a) throws Exception {
    String cmd = a[0];
    String dir = a[1];
    int p0 = Integer.parseInt(a[2]), p1 = Integer.parseInt(a[3]);
    switch (cmd) {
      case "mini":
        mini(dir, p0, p1, Integer.parseInt(a[4]));
        break;
      case "format": {
        Configuration own = client(p0, p1);
        writeXml(own, new File(dir, "conf/hdfs-site.xml"));
        writeXml(own, new File(dir, "conf/core-site.xml"));
        Configuration c = server(dir, p0, p1);
        c.set("dfs.ha.namenode.id", "nn0");
        NameNode.initializeGenericKeys(c, NS, "nn0");
        NameNode.format(c);
        for (int i = 1; i < (OBSERVER == null ? 2 : 3); i++) {
          Path from = Paths.get(dir, "nn0"), to = Paths.get(dir, "nn" + i);
          try (var s = Files.walk(from)) {
            for (Path p : (Iterable<Path>) s::iterator) {
              Files.copy(p, to.resolve(from.relativize(p)));
            }
          }
        }
        System.out.println("FORMATTED " + secs());
        System.exit(0);
        break;
      }
      case "boot": {
        Configuration c = server(dir, p0, p1);
        c.set("dfs.ha.namenode.id", "nn1");
        int rc = ToolRunner.run(c, new BootstrapStandby(), new String[] {"-force", "-nonInteractive"});
        System.out.println("BOOTSTRAPPED rc=" + rc + " " + secs());
        System.exit(rc);
        break;
      }
      case "nn": {
        Configuration c = server(dir, p0, p1);
        c.set("dfs.ha.namenode.id", "nn" + a[4]);
        // a killed process loses nothing that the kernel has, so no fsync of each edit (FSYNC=1 keeps it)
        EditLogFileOutputStream.setShouldSkipFsyncForTesting(System.getenv("FSYNC") == null);
        NameNode nn = NameNode.createNameNode(new String[] {}, c);
        System.out.println("NN" + a[4] + " UP " + nn.getNameNodeAddress() + " " + secs());
        nn.join();
        break;
      }
      case "dn": {
        String base = new File(dir).getAbsolutePath();
        org.apache.hadoop.metrics2.lib.DefaultMetricsSystem.setMiniClusterMode(true);
        int n = Integer.parseInt(a[4]);
        for (int i = 0; i < n; i++) {
          Configuration c = server(dir, p0, p1);
          c.set("dfs.datanode.data.dir", "file://" + base + "/dn" + i);
          c.set("dfs.datanode.address", "127.0.0.1:0");
          c.set("dfs.datanode.ipc.address", "127.0.0.1:0");
          c.set("dfs.datanode.http.address", "127.0.0.1:0");
          c.set("dfs.datanode.hostname", "127.0.0.1");
          DataNode dn = DataNode.createDataNode(new String[] {}, c);
          System.out.println("DN" + i + " UP " + dn.getXferPort() + " " + secs());
        }
        System.out.println("DNS UP " + secs());
        Thread.currentThread().join();
        break;
      }
      case "jn": {
        Configuration c = server(dir, p0, p1);
        c.set("dfs.journalnode.rpc-address", "127.0.0.1:" + (p0 + 2000));
        c.set("dfs.journalnode.http-address", "127.0.0.1:0");
        c.set("dfs.journalnode.edits.dir", new File(dir).getAbsolutePath() + "/jn");
        org.apache.hadoop.hdfs.qjournal.server.JournalNode jn = new org.apache.hadoop.hdfs.qjournal.server.JournalNode();
        jn.setConf(c);
        jn.start();
        System.out.println("JN UP " + secs());
        Thread.currentThread().join();
        break;
      }
      case "put": {
        // safe mode lasts until 0.999 of the blocks are reported, rounded down, so one block would not count
        try (FileSystem fs = FileSystem.get(client(p0, p1))) {
          for (int i = 0; i < 3; i++) {
            try (var out = fs.create(new org.apache.hadoop.fs.Path(a[4] + i))) {
              out.write("one block".getBytes());
            }
          }
        }
        System.exit(0);
        break;
      }
      case "yardstick":
        yardstick(client(p0, p1), new File(dir, "stop"));
        System.exit(0);
        break;
      case "load":
        load(client(p0, p1), Integer.parseInt(a[4]), Integer.parseInt(a[5]));
        System.exit(0);
        break;
      case "stalls":
        stalls(client(p0, p1), Integer.parseInt(a[4]), new File(dir, "stop"));
        System.exit(0);
        break;
      case "ha": {
        Configuration c = server(dir, p0, p1);
        DFSHAAdmin t = new DFSHAAdmin();
        t.setConf(c);
        String[] rest = java.util.Arrays.copyOfRange(a, 4, a.length);
        int rc = ToolRunner.run(c, t, rest);
        System.out.println("HA rc=" + rc + " " + secs());
        System.exit(rc);
        break;
      }
      default:
        System.err.println("unknown " + cmd);
        System.exit(2);
    }
  }

  /** The configuration of both clients that are compared: Hadoop's defaults, and no observer. */
  static org.apache.hadoop.hdfs.DFSClient compared(Configuration c) throws Exception {
    c.set("dfs.ha.namenodes." + NS, "nn0,nn1");
    c.setBoolean("dfs.client.failover.random.order", false);
    return new org.apache.hadoop.hdfs.DFSClient(new java.net.URI("hdfs://" + NS), c);
  }

  static long cpuNanos() {
    return ((com.sun.management.OperatingSystemMXBean) java.lang.management.ManagementFactory.getOperatingSystemMXBean())
        .getProcessCpuTime();
  }

  /** As many callers of one client, warm before it counts. */
  static void load(Configuration c, int callers, int seconds) throws Exception {
    try (var fs = compared(c)) {
      fs.mkdirs("/load", new org.apache.hadoop.fs.permission.FsPermission((short) 0755), true);
      var counts = new java.util.concurrent.atomic.AtomicBoolean();
      var ended = new java.util.concurrent.atomic.AtomicBoolean();
      long[][] took = new long[callers][];
      Thread[] threads = new Thread[callers];
      for (int t = 0; t < callers; t++) {
        int own = t;
        threads[t] = new Thread(() -> {
          long[] times = new long[1 << 16];
          int n = 0;
          try {
            while (!ended.get()) {
              long began = System.nanoTime();
              fs.getFileInfo("/load");
              if (counts.get()) {
                if (n == times.length) {
                  times = java.util.Arrays.copyOf(times, 2 * n);
                }
                times[n++] = System.nanoTime() - began;
              }
            }
          } catch (Exception e) {
            System.err.println("FAILED " + e);
          }
          took[own] = java.util.Arrays.copyOf(times, n);
        });
        threads[t].start();
      }
      Thread.sleep(10_000);
      long cpu = cpuNanos(), began = System.nanoTime();
      counts.set(true);
      Thread.sleep(seconds * 1000L);
      long spent = System.nanoTime() - began;
      cpu = cpuNanos() - cpu;
      ended.set(true);
      for (Thread t : threads) {
        t.join();
      }
      long[] all = java.util.Arrays.stream(took).flatMapToLong(java.util.Arrays::stream).sorted().toArray();
      System.out.printf("{\"client\":\"hadoop\",\"callers\":%d,\"calls_per_s\":%.0f,\"cpu_us\":%.1f,\"p50_us\":%d,\"p99_us\":%d}%n",
          callers, all.length / (spent / 1e9), cpu / 1e3 / all.length, all[all.length / 2] / 1000, all[all.length * 99 / 100] / 1000);
    }
  }

  /** Calls of more than this, ms, were held up. */
  static final long HELD_UP_MS = 100;

  static void stalls(Configuration c, int callers, File stop) throws Exception {
    try (var fs = compared(c)) {
      var perm = new org.apache.hadoop.fs.permission.FsPermission((short) 0755);
      var last = new java.util.concurrent.atomic.AtomicLong(System.nanoTime());
      var gaps = new java.util.concurrent.ConcurrentLinkedQueue<Long>();
      var held = new java.util.concurrent.ConcurrentLinkedQueue<Long>();
      var failed = new java.util.concurrent.atomic.AtomicLong();
      Thread[] threads = new Thread[callers];
      for (int t = 0; t < callers; t++) {
        threads[t] = new Thread(() -> {
          while (!stop.exists()) {
            long began = System.nanoTime();
            try {
              fs.mkdirs("/stalls", perm, true);
            } catch (Exception e) {
              failed.incrementAndGet();
              System.err.println("FAILED " + e);
            }
            long now = System.nanoTime();
            long gap = (now - last.getAndSet(now)) / 1_000_000, took = (now - began) / 1_000_000;
            if (gap > HELD_UP_MS) {
              gaps.add(gap);
            }
            if (took > HELD_UP_MS) {
              held.add(took);
            }
          }
        });
        threads[t].start();
      }
      for (Thread t : threads) {
        t.join();
      }
      long longest = held.stream().mapToLong(Long::longValue).max().orElse(0);
      double mean = held.stream().mapToLong(Long::longValue).average().orElse(0);
      System.out.printf("{\"client\":\"hadoop\",\"failed\":%d,\"gaps_ms\":%s,\"held_up\":%d,\"held_up_mean_ms\":%.0f,\"longest_ms\":%d}%n",
          failed.get(), gaps.toString(), held.size(), mean, longest);
    }
  }

  /** Sixteen threads create, append to, rename and delete files of their own; what fails, or was done twice, is wrong. */
  static void yardstick(Configuration c, File stop) throws Exception {
    c.set("dfs.ha.namenodes." + NS, "nn0,nn1");
    c.setInt("dfs.client.failover.sleep.base.millis", 100);
    c.setInt("dfs.client.failover.sleep.max.millis", 1000);
    c.setInt("dfs.client.failover.max.attempts", 120);
    c.setBoolean("dfs.client.failover.random.order", false);
    var done = new java.util.concurrent.atomic.AtomicLong();
    var wrong = new java.util.concurrent.atomic.AtomicLong();
    var longest = new java.util.concurrent.atomic.AtomicLong();
    Thread[] threads = new Thread[16];
    for (int t = 0; t < threads.length; t++) {
      int own = t;
      threads[t] = new Thread(() -> {
        try (FileSystem fs = FileSystem.newInstance(c)) {
          for (long n = 0; !stop.exists(); n++) {
            var from = new org.apache.hadoop.fs.Path("/yardstick/" + own + "/" + n);
            var to = from.suffix(".renamed");
            long began = System.nanoTime();
            try {
              fs.create(from, false).close();
              done.addAndGet(2);
              fs.append(from).close();
              done.addAndGet(2);
              if (!fs.rename(from, to)) {
                wrong.incrementAndGet();
              }
              fs.getFileStatus(to);
              done.addAndGet(2);
              if (!fs.delete(to, false)) {
                wrong.incrementAndGet();
              }
              done.incrementAndGet();
            } catch (Exception e) {
              wrong.incrementAndGet();
              System.out.println("WRONG " + from + " " + e.toString().split("\n")[0]);
            }
            longest.accumulateAndGet((System.nanoTime() - began) / 1_000_000, Math::max);
          }
        } catch (Exception e) {
          System.out.println("ENDED " + e);
        }
      });
      threads[t].start();
    }
    for (Thread t : threads) {
      t.join();
    }
    System.out.println("YARDSTICK " + done + " operations done, " + wrong + " wrong, longest file " + longest + " ms");
  }

  static void mini(String dir, int p0, int p1, int dns) throws Exception {
    System.setProperty("test.build.data", dir);
    System.setProperty("hdfs.minidfs.basedir", dir + "/mini");
    Configuration c = new org.apache.hadoop.hdfs.HdfsConfiguration();
    small(c);
    MiniDFSNNTopology topo = new MiniDFSNNTopology()
        .addNameservice(new MiniDFSNNTopology.NSConf(NS)
            .addNN(new MiniDFSNNTopology.NNConf("nn0").setIpcPort(p0))
            .addNN(new MiniDFSNNTopology.NNConf("nn1").setIpcPort(p1)));
    MiniDFSCluster cl = new MiniDFSCluster.Builder(c).nnTopology(topo).numDataNodes(dns).build();
    cl.transitionToActive(0);
    cl.waitActive();
    Configuration cc = client(p0, p1);
    writeXml(cc, new File(dir, "conf/hdfs-site.xml"));
    writeXml(cc, new File(dir, "conf/core-site.xml"));
    System.out.println("READY ns=" + NS + " nn0=" + cl.getNameNodePort(0) + " nn1=" + cl.getNameNodePort(1)
        + " secs=" + secs());
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    int active = 0;
    for (String l; (l = in.readLine()) != null; ) {
      String[] w = l.trim().split("\\s+");
      long t = System.nanoTime();
      try {
        switch (w[0]) {
          case "":
            continue;
          case "failover":
            cl.transitionToStandby(active);
            active = 1 - active;
            cl.transitionToActive(active);
            break;
          case "active":
            active = Integer.parseInt(w[1]);
            cl.transitionToActive(active);
            break;
          case "standby":
            cl.transitionToStandby(Integer.parseInt(w[1]));
            break;
          case "kill":
            cl.shutdownNameNode(Integer.parseInt(w[1]));
            break;
          case "restart":
            cl.restartNameNode(Integer.parseInt(w[1]), false);
            break;
          case "safemode":
            cl.getNameNodeRpc(active).setSafeMode(
                w[1].equals("on") ? SafeModeAction.SAFEMODE_ENTER : SafeModeAction.SAFEMODE_LEAVE, false);
            break;
          case "state":
            for (int i = 0; i < 2; i++) {
              NameNode nn = cl.getNameNode(i);
              System.out.println("nn" + i + " " + (nn == null ? "down" : nn.getState()));
            }
            break;
          case "quit":
            cl.shutdown();
            System.out.println("BYE");
            System.exit(0);
            break;
          default:
            System.out.println("ERR unknown " + w[0]);
            continue;
        }
        System.out.printf("OK %s %.3f%n", l.trim(), (System.nanoTime() - t) / 1e9);
      } catch (Throwable e) {
        System.out.printf("ERR %s %.3f %s%n", l.trim(), (System.nanoTime() - t) / 1e9, e);
      }
    }
    cl.shutdown();
    System.exit(0);
  }
}
