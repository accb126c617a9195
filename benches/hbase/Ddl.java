import java.util.Arrays;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.HBaseConfiguration;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.ColumnFamilyDescriptorBuilder;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.hbase.client.TableDescriptorBuilder;

/**
 * How long Java's client takes to create a table of one family, and to disable and delete it, one table after the other.
 * Argument: tables that count (two before them do not), fewer if {@link #SECONDS} are over. Prints for each of both
 * name, tables, seconds in all, and p50, p95 and p99 in microseconds, separated by tabs.
 */
public final class Ddl {
  /** HBase takes about two seconds for a table; the whole bench is to end soon. */
  private static final long SECONDS = 30;

  public static void main(String[] arguments) throws Exception {
    int tables = Integer.parseInt(arguments[0]);
    long[] create = new long[tables];
    long[] drop = new long[tables];
    int done = 0;
    Configuration conf = HBaseConfiguration.create();
    try (Connection connection = ConnectionFactory.createConnection(conf); Admin admin = connection.getAdmin()) {
      once(admin, "BenchDdlWarm1");
      once(admin, "BenchDdlWarm2");
      long end = System.nanoTime() + SECONDS * 1_000_000_000L;
      while (done < tables && (done == 0 || System.nanoTime() < end)) {
        long[] took = once(admin, "BenchDdl" + done);
        create[done] = took[0];
        drop[done] = took[1];
        done++;
      }
    }
    line("ddl_create", Arrays.copyOf(create, done));
    line("ddl_drop", Arrays.copyOf(drop, done));
  }

  private static long[] once(Admin admin, String name) throws Exception {
    TableName table = TableName.valueOf(name);
    long begun = System.nanoTime();
    admin.createTable(TableDescriptorBuilder.newBuilder(table).setColumnFamily(ColumnFamilyDescriptorBuilder.of("f")).build());
    long created = System.nanoTime();
    admin.disableTable(table);
    admin.deleteTable(table);
    return new long[] { created - begun, System.nanoTime() - created };
  }

  private static void line(String name, long[] nanos) {
    Arrays.sort(nanos);
    System.out.printf("%s\t%d\t%.3f\t%d\t%d\t%d%n", name, nanos.length, Arrays.stream(nanos).sum() / 1e9, at(nanos, 50), at(nanos, 95), at(nanos, 99));
  }

  private static long at(long[] sorted, int percent) {
    return sorted[Math.min(sorted.length - 1, sorted.length * percent / 100)] / 1000;
  }
}
