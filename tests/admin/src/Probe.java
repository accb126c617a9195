import java.util.*;
import java.util.concurrent.*;
import java.util.function.*;
import java.util.regex.Pattern;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.*;
import org.apache.hadoop.hbase.client.*;
import org.apache.hadoop.hbase.client.security.SecurityCapability;
import org.apache.hadoop.hbase.filter.*;
import org.apache.hadoop.hbase.ipc.CoprocessorRpcChannel;
import org.apache.hadoop.hbase.protobuf.generated.MultiRowMutationProtos.*;
import org.apache.hadoop.hbase.quotas.*;
import org.apache.hadoop.hbase.replication.*;
import org.apache.hadoop.hbase.security.access.*;
import org.apache.hadoop.hbase.util.*;

/** Calls every method of Admin and Table of HBase's Java client and prints what came of each: the kind of result, or the exception. */
public class Probe {
  interface Call { Object run() throws Exception; }

  static final Map<String, String> outcomes = new LinkedHashMap<>();
  static Pattern only;
  static long slowest;

  static byte[] b(String text) { return Bytes.toBytes(text); }

  static void probe(String name, Call call) {
    if (only != null && !only.matcher(name).find() && !name.startsWith("setup")) return;
    long start = System.nanoTime();
    String outcome;
    try {
      outcome = shown(call.run());
    } catch (Throwable error) {
      outcome = failed(error);
    }
    long ms = (System.nanoTime() - start) / 1_000_000;
    if (outcomes.put(name, outcome) != null) throw new IllegalStateException("two cases named " + name);
    System.out.println(name + "\t" + outcome + (times ? "\t" + ms : ""));
  }

  static boolean times;

  static Throwable inner(Throwable error) {
    while ((error instanceof ExecutionException || error instanceof java.io.UncheckedIOException || error instanceof CompletionException)
      && error.getCause() != null) error = error.getCause();
    return error;
  }

  /** The exception's class; of retries that ran out, the last failure's class, too; of a refusal, what it is caused by. */
  static String failed(Throwable error) {
    error = inner(error);
    if (verbose) error.printStackTrace();
    String name = error.getClass().getName();
    if (error instanceof RetriesExhaustedException && error.getCause() != null) name += " of " + inner(error.getCause()).getClass().getName();
    if (error instanceof RetriesExhaustedWithDetailsException r) name += " of " + new TreeSet<>(r.getCauses().stream().map(c -> c.getClass().getName()).toList());
    if (error.getMessage() != null && error.getMessage().contains("UnsupportedOperationException")) name += " (unsupported)";
    return "! " + name.replace("org.apache.hadoop.hbase.", "");
  }

  static boolean verbose;

  static String shown(Object result) {
    if (result instanceof Future<?> future) {
      try { result = future.get(60, TimeUnit.SECONDS); } catch (Throwable error) { return failed(error); }
    }
    if (result == null) return "nothing";
    if (result instanceof Text text) return text.whole;
    if (result instanceof String text) return "String " + (text.length() > 80 ? "of " + text.length() : text);
    if (result instanceof Boolean || result instanceof Integer || result instanceof Long || result instanceof Double
      || result instanceof Enum<?>) return result.getClass().getSimpleName() + " " + result;
    if (result instanceof Object[] array) return array.length + " x " + array.getClass().getComponentType().getSimpleName();
    if (result instanceof boolean[] flags) return "flags " + Arrays.toString(flags);
    if (result instanceof Collection<?> all) return "list of " + all.size();
    if (result instanceof Map<?, ?> map) return "map of " + map.size();
    if (result instanceof Pair<?, ?> pair) return "pair " + pair.getFirst() + " " + pair.getSecond();
    return result.getClass().getSimpleName();
  }

  /** A result that is shown as it is. */
  record Text(String whole) { }

  /** Nothing, as soon as the condition holds; a failure after half a minute. */
  static Object until(Callable<Boolean> condition) throws Exception {
    long end = System.nanoTime() + 30_000_000_000L;
    while (!condition.call()) {
      if (System.nanoTime() > end) throw new TimeoutException("not within 30 s");
      Thread.sleep(20);
    }
    return null;
  }

  /** What is not the same at each run: only whether it is there. */
  static Object some(Object value) { return value == null ? null : "some"; }

  static TableDescriptorBuilder table(String name, String... families) {
    TableDescriptorBuilder builder = TableDescriptorBuilder.newBuilder(TableName.valueOf(name));
    for (String family : families) builder.setColumnFamily(ColumnFamilyDescriptorBuilder.of(family));
    return builder;
  }

  static ColumnFamilyDescriptorBuilder family(String name) { return ColumnFamilyDescriptorBuilder.newBuilder(b(name)); }

  static void drop(Admin admin, TableName name) {
    try {
      if (!admin.tableExists(name)) return;
      if (admin.isTableEnabled(name)) admin.disableTable(name);
      admin.deleteTable(name);
    } catch (Exception error) { System.err.println("dropping " + name + ": " + error); }
  }

  static void clean(Admin admin) throws Exception {
    for (TableName name : admin.listTableNames(Pattern.compile("(default:)?probe_.*|probe_ns:.*"), true)) drop(admin, name);
    for (String ns : admin.listNamespaces()) if (ns.startsWith("probe_")) admin.deleteNamespace(ns);
    try { admin.deleteSnapshots(Pattern.compile("probe_.*")); } catch (Exception e) { /* no snapshots there */ }
    try { for (ReplicationPeerDescription p : admin.listReplicationPeers()) if (p.getPeerId().startsWith("probe")) admin.removeReplicationPeer(p.getPeerId()); } catch (Exception e) { /* none */ }
  }

  static ServerName server;

  public static void main(String[] args) throws Exception {
    Configuration conf = HBaseConfiguration.create();
    for (String arg : args) {
      String[] part = arg.split("=", 2);
      switch (part[0]) {
        case "--zookeeper" -> {
          String[] at = part[1].split(":");
          conf.set("hbase.zookeeper.quorum", at[0]);
          conf.set("hbase.zookeeper.property.clientPort", at[1]);
        }
        case "--only" -> only = Pattern.compile(part[1]);
        case "--times" -> times = true;
        case "--verbose" -> verbose = true;
        default -> throw new IllegalArgumentException(arg);
      }
    }
    conf.setInt("hbase.client.retries.number", 3);
    conf.setInt("hbase.client.pause", 50);
    conf.setInt("hbase.client.operation.timeout", 30_000);
    conf.setInt("hbase.client.meta.operation.timeout", 30_000);
    conf.setInt("hbase.rpc.timeout", 20_000);
    conf.setInt("hbase.client.sync.wait.timeout.msec", 60_000);
    try (Connection connection = ConnectionFactory.createConnection(conf); Admin admin = connection.getAdmin()) {
      clean(admin);
      server = admin.getRegionServers().iterator().next();
      Tables.run(connection, admin);
      Rest.settled(connection, admin);
      Tables.regions(connection, admin);
      Data.run(connection, admin);
      Endpoints.run(connection, admin, conf);
      Filters.run(connection, admin);
      Rest.run(connection, admin);
      clean(admin);
    }
    uncovered(Admin.class, Set.of("abort", "isAborted", "getConnection", "close", "shutdown", "stopMaster", "stopRegionServer", "getConfiguration",
      "getOperationTimeout", "getSyncWaitTimeout", "takeSnapshotAsync", "enableTableReplication",
      "disableTableReplication"));
    uncovered(Hbck.class, Set.of("abort", "isAborted", "close", "scheduleServerCrashProcedure"));
    uncovered(Table.class, Set.of("getName", "getConfiguration", "close", "getRequestAttributes", "getRpcTimeout", "setRpcTimeout", "getReadRpcTimeout",
      "setReadRpcTimeout", "getWriteRpcTimeout", "setWriteRpcTimeout", "getOperationTimeout", "setOperationTimeout", "getRegionLocator"));
  }

  static void uncovered(Class<?> type, Set<String> skipped) {
    if (only != null) return;
    Set<String> left = new TreeSet<>();
    for (java.lang.reflect.Method method : type.getMethods()) left.add(method.getName());
    left.removeAll(skipped);
    for (String name : outcomes.keySet()) {
      String[] part = name.split("[. (]");
      if (part.length > 1 && part[0].equals(type.getSimpleName())) left.remove(part[1]);
    }
    for (String name : left) System.out.println("uncovered " + type.getSimpleName() + "." + name + "\tno case");
  }
}
