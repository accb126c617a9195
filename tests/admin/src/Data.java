import java.util.*;
import java.util.concurrent.TimeUnit;

import org.apache.hadoop.hbase.*;
import org.apache.hadoop.hbase.client.*;
import org.apache.hadoop.hbase.filter.*;
import org.apache.hadoop.hbase.io.TimeRange;
import org.apache.hadoop.hbase.util.Bytes;

/** Table: every way to read and write. */
class Data extends Probe {
  static final byte[] F = b("f"), Q = b("q");

  static Put put(String row, String value) { return new Put(b(row)).addColumn(F, Q, b(value)); }

  static void run(Connection connection, Admin admin) throws Exception {
    TableName name = TableName.valueOf("probe_r");
    if (only != null && !admin.tableExists(name)) admin.createTable(table("probe_r", "f").build(), new byte[][] { b("m") });
    try (Table t = connection.getTable(name)) {
      writes(t);
      reads(t);
      conditions(t);
    }
    try (Table none = connection.getTable(TableName.valueOf("probe_none"))) {
      probe("Table.get no table", () -> none.get(new Get(b("a"))));
      probe("Table.put no table", () -> { none.put(put("a", "1")); return null; });
      probe("Table.getScanner no table", () -> none.getScanner(new Scan()).next());
      probe("Table.getDescriptor no table", () -> none.getDescriptor());
    }
  }

  static void writes(Table t) {
    probe("Table.getDescriptor", () -> t.getDescriptor());
    probe("Table.getTableDescriptor", () -> t.getTableDescriptor());
    probe("Table.put", () -> { t.put(put("a", "1")); return null; });
    probe("Table.put list", () -> { t.put(List.of(put("b", "2"), put("n", "3"))); return null; });
    probe("Table.put unknown family", () -> { t.put(new Put(b("a")).addColumn(b("z"), Q, b("1"))); return null; });
    probe("Table.put list with unknown family", () -> { t.put(List.of(put("b", "2"), new Put(b("n")).addColumn(b("z"), Q, b("1")))); return null; });
    probe("Table.put too large", () -> { t.put(new Put(b("a")).addColumn(F, Q, new byte[10_485_760])); return null; });
    probe("Table.put negative timestamp", () -> { t.put(new Put(b("a")).addColumn(F, Q, -5, b("1"))); return null; });
    probe("Table.increment", () -> Bytes.toLong(t.increment(new Increment(b("i")).addColumn(F, Q, 5)).value()));
    probe("Table.increment no result", () -> t.increment(new Increment(b("i")).addColumn(F, Q, 5).setReturnResults(false)).size());
    probe("Table.increment no number", () -> t.increment(new Increment(b("a")).addColumn(F, Q, 5)));
    probe("Table.increment unknown family", () -> t.increment(new Increment(b("a")).addColumn(b("z"), Q, 5)));
    probe("Table.incrementColumnValue", () -> t.incrementColumnValue(b("i"), F, Q, 1));
    probe("Table.incrementColumnValue durability", () -> t.incrementColumnValue(b("i"), F, Q, 1, Durability.SKIP_WAL));
    probe("Table.append", () -> Bytes.toString(t.append(new Append(b("a")).addColumn(F, Q, b("x"))).value()));
    probe("Table.append new", () -> Bytes.toString(t.append(new Append(b("a2")).addColumn(F, Q, b("x"))).value()));
    probe("Table.delete", () -> { t.delete(new Delete(b("b"))); return t.get(new Get(b("b"))).isEmpty(); });
    probe("Table.delete list", () -> { t.delete(new ArrayList<>(List.of(new Delete(b("n")), new Delete(b("b"))))); return null; });
    probe("Table.delete unknown family", () -> { t.delete(new Delete(b("b")).addFamily(b("z"))); return null; });
    probe("Table.mutateRow", () -> t.mutateRow(RowMutations.of(List.of(put("a", "5"), new Delete(b("a")).addColumns(F, b("r"))))));
    probe("Table.mutateRow with increment", () -> t.mutateRow(RowMutations.of(List.of(new Increment(b("i")).addColumn(F, Q, 1), new Append(b("i")).addColumn(F, b("s"), b("y"))))).size());
    probe("Table.mutateRow unknown family", () -> t.mutateRow(RowMutations.of(List.of(new Put(b("a")).addColumn(b("z"), Q, b("1"))))));
    probe("Table.batch", () -> {
      Object[] results = new Object[5];
      t.batch(List.of(put("c", "1"), new Get(b("a")), new Increment(b("i")).addColumn(F, Q, 1), new Append(b("d")).addColumn(F, Q, b("z")), new Delete(b("zz"))), results);
      return results;
    });
    probe("Table.batch with failures", () -> { t.batch(List.of(put("c", "1"), new Get(b("a")).addFamily(b("z"))), new Object[2]); return null; });
    probe("Table.batchCallback", () -> {
      List<byte[]> seen = new ArrayList<>();
      t.batchCallback(List.of(new Get(b("a")), new Get(b("c"))), new Object[2], (region, row, result) -> seen.add(row));
      return seen;
    });
  }

  static void reads(Table t) {
    probe("Table.get", () -> Bytes.toString(t.get(new Get(b("a"))).value()));
    probe("Table.get list", () -> t.get(List.of(new Get(b("a")), new Get(b("none")))));
    probe("Table.get unknown family", () -> t.get(new Get(b("a")).addFamily(b("z"))));
    probe("Table.get empty row", () -> t.get(new Get(new byte[0])));
    probe("Table.get with filter", () -> t.get(new Get(b("a")).setFilter(new ValueFilter(CompareOperator.EQUAL, new BinaryComparator(b("5"))))).size());
    probe("Table.get unknown filter", () -> t.get(new Get(b("a")).setFilter(new MyFilter())));
    probe("Table.exists", () -> t.exists(new Get(b("a"))));
    probe("Table.exists list", () -> t.exists(List.of(new Get(b("a")), new Get(b("none")))));
    probe("Table.existsAll", () -> t.existsAll(List.of(new Get(b("a")), new Get(b("none")))));
    probe("Table.getScanner", () -> count(t.getScanner(new Scan())));
    probe("Table.getScanner family", () -> count(t.getScanner(F)));
    probe("Table.getScanner column", () -> count(t.getScanner(F, Q)));
    probe("Table.getScanner unknown family", () -> count(t.getScanner(b("z"))));
    probe("Table.getScanner reversed", () -> count(t.getScanner(new Scan().setReversed(true))));
    probe("Table.getScanner limit", () -> count(t.getScanner(new Scan().setLimit(2))));
    probe("Table.getScanner batch", () -> count(t.getScanner(new Scan().setBatch(1))));
    probe("Table.getScanner batch with a filter of rows", () -> count(t.getScanner(new Scan().setFilter(new PageFilter(1)).setBatch(1))));
    probe("Table.getScanner one row", () -> count(t.getScanner(new Scan().withStartRow(b("a")).withStopRow(b("a"), true))));
    probe("Table.getScanner raw", () -> count(t.getScanner(new Scan().setRaw(true).readAllVersions())) > 0);
    probe("Table.getScanner raw column", () -> count(t.getScanner(new Scan().setRaw(true).addColumn(F, Q))));
    probe("Table.getScanner timeline", () -> count(t.getScanner(new Scan().setConsistency(Consistency.TIMELINE))));
    probe("Table.getScanner unknown filter", () -> count(t.getScanner(new Scan().setFilter(new MyFilter()))));
  }

  static int count(ResultScanner scanner) throws Exception {
    int n = 0;
    try (scanner) { while (scanner.next() != null) n++; }
    return n;
  }

  /** A filter that no server knows. */
  static class MyFilter extends FilterBase {
    @Override public ReturnCode filterCell(Cell c) { return ReturnCode.INCLUDE; }
    @Override public byte[] toByteArray() { return new byte[0]; }
  }

  static void conditions(Table t) {
    probe("Table.checkAndPut", () -> t.checkAndPut(b("a"), F, Q, b("5"), put("a", "6")));
    probe("Table.checkAndPut operator", () -> t.checkAndPut(b("a"), F, Q, CompareOperator.LESS, b("5"), put("a", "7")));
    probe("Table.checkAndDelete", () -> t.checkAndDelete(b("a"), F, b("none"), null, new Delete(b("a")).addColumns(F, b("none"))));
    probe("Table.checkAndMutate", () -> t.checkAndMutate(b("a"), F).qualifier(Q).ifEquals(b("5")).thenPut(put("a", "8")));
    probe("Table.checkAndMutate absent", () -> t.checkAndMutate(b("e"), F).qualifier(Q).ifNotExists().thenPut(put("e", "8")));
    probe("Table.checkAndMutate range", () -> t.checkAndMutate(b("e"), F).qualifier(Q).timeRange(TimeRange.between(1, 2)).ifEquals(b("8")).thenPut(put("e", "9")));
    probe("Table.checkAndMutate filter", () -> t.checkAndMutate(b("e"), new SingleColumnValueFilter(F, Q, CompareOperator.EQUAL, b("8"))).thenDelete(new Delete(b("e"))));
    probe("Table.checkAndMutate rows", () -> t.checkAndMutate(b("a"), F, Q, CompareOperator.NOT_EQUAL, b("none"), RowMutations.of(List.of(put("a", "9")))));
    probe("Table.checkAndMutate increment", () -> t.checkAndMutate(CheckAndMutate.newBuilder(b("i")).ifEquals(F, b("s"), b("y")).build(new Increment(b("i")).addColumn(F, Q, 1))).isSuccess());
    probe("Table.checkAndMutate list", () -> t.checkAndMutate(List.of(CheckAndMutate.newBuilder(b("k")).ifNotExists(F, Q).build(put("k", "1")), CheckAndMutate.newBuilder(b("k")).ifNotExists(F, b("r")).build(new Delete(b("k"))))));
    probe("Table.checkAndMutate other row", () -> t.checkAndMutate(b("a"), F).qualifier(Q).ifEquals(b("9")).thenPut(put("b", "8")));
    probe("Table.checkAndMutate unknown family", () -> t.checkAndMutate(b("a"), b("z")).qualifier(Q).ifEquals(b("9")).thenPut(put("a", "8")));
  }
}
