import java.util.*;

import com.google.protobuf.ByteString;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hbase.*;
import org.apache.hadoop.hbase.client.*;
import org.apache.hadoop.hbase.client.coprocessor.*;
import org.apache.hadoop.hbase.filter.*;
import org.apache.hadoop.hbase.ipc.CoprocessorRpcChannel;
import org.apache.hadoop.hbase.protobuf.ProtobufUtil;
import org.apache.hadoop.hbase.protobuf.generated.*;
import org.apache.hadoop.hbase.protobuf.generated.MultiRowMutationProtos.*;
import org.apache.hadoop.hbase.util.Bytes;

/** MultiRowMutationService and AggregateService, by the clients that HBase ships. */
class Endpoints extends Probe {
  static final TableName A = TableName.valueOf("probe_a");
  static final byte[] F = b("f"), Q = b("q"), W = b("w");

  static void run(Connection connection, Admin admin, Configuration conf) throws Exception {
    if (only != null && !only.matcher("Endpoint").find()) return;
    drop(admin, A);
    admin.createTable(table("probe_a", "f", "g").build(), new byte[][] { b("05"), b("20") });
    try (Table t = connection.getTable(A)) {
      for (int i = 0; i < 10; i++) t.put(new Put(b(String.format("%02d", i))).addColumn(F, Q, Bytes.toBytes((long) i * 10)).addColumn(F, W, Bytes.toBytes(1L))
        .addColumn(b("g"), b("d"), Bytes.toBytes(i + 0.5)).addColumn(b("g"), b("b"), Bytes.toBytes(new java.math.BigDecimal(i + ".125"))));
      t.put(new Put(b("095")).addColumn(F, b("other"), b("text")));
      rows(t);
    }
    try (AggregationClient client = new AggregationClient(conf)) {
      aggregates(client);
    }
    server(connection, admin);
  }

  static MutationOf put(String row, String value) throws Exception {
    return new MutationOf(ProtobufUtil.toMutation(ClientProtos.MutationProto.MutationType.PUT, new Put(b(row)).addColumn(F, b("m"), b(value))));
  }

  record MutationOf(ClientProtos.MutationProto proto) { }

  static Object mutate(Table t, String at, MutateRowsRequest.Builder request) throws Exception {
    MutateRowsResponse response = MultiRowMutationService.newBlockingStub(t.coprocessorService(b(at))).mutateRows(null, request.build());
    return "processed " + response.getProcessed();
  }

  static ClientProtos.Condition.Builder condition(String row, String value) throws Exception {
    return ProtobufUtil.toCondition(b(row), F, b("m"), CompareOperator.EQUAL, b(value), org.apache.hadoop.hbase.io.TimeRange.allTime()).toBuilder();
  }

  static void rows(Table t) {
    probe("Table.coprocessorService MutateRows", () -> mutate(t, "01", MutateRowsRequest.newBuilder().addMutationRequest(put("01", "x").proto).addMutationRequest(put("02", "x").proto)));
    probe("Table.coprocessorService MutateRows condition", () -> mutate(t, "01", MutateRowsRequest.newBuilder().addMutationRequest(put("01", "y").proto).addCondition(condition("02", "x"))));
    probe("Table.coprocessorService MutateRows condition fails", () -> mutate(t, "01", MutateRowsRequest.newBuilder().addMutationRequest(put("01", "z").proto).addCondition(condition("02", "none"))));
    probe("Table.coprocessorService MutateRows other region", () -> mutate(t, "01", MutateRowsRequest.newBuilder().addMutationRequest(put("01", "x").proto).addMutationRequest(put("09", "x").proto)));
    probe("Table.coprocessorService MutateRows condition outside", () -> mutate(t, "01", MutateRowsRequest.newBuilder().addMutationRequest(put("01", "x").proto).addCondition(condition("09", "x"))));
    probe("Table.coprocessorService MutateRows nothing", () -> mutate(t, "01", MutateRowsRequest.newBuilder()));
    probe("Table.coprocessorService MutateRows unknown family", () -> mutate(t, "01", MutateRowsRequest.newBuilder().addMutationRequest(
      ProtobufUtil.toMutation(ClientProtos.MutationProto.MutationType.PUT, new Put(b("01")).addColumn(b("z"), b("m"), b("1"))))));
    probe("Table.coprocessorService MutateRows value", () -> Bytes.toString(t.get(new Get(b("01")).addColumn(F, b("m"))).value()));
    probe("Table.coprocessorService unknown service", () -> AuthenticationProtos.AuthenticationService.newBlockingStub(t.coprocessorService(b("01")))
      .whoAmI(null, AuthenticationProtos.WhoAmIRequest.getDefaultInstance()));
    probe("Table.batchCoprocessorService", () -> call(() -> "map of " + t.batchCoprocessorService(AggregateProtos.AggregateService.getDescriptor().findMethodByName("GetRowNum"),
      AggregateProtos.AggregateRequest.newBuilder().setInterpreterClassName(LongColumnInterpreter.class.getName()).setScan(ProtobufUtil.toScan(new Scan().addFamily(F))).build(),
      HConstants.EMPTY_START_ROW, HConstants.EMPTY_END_ROW, AggregateProtos.AggregateResponse.getDefaultInstance()).size()));
  }

  static Scan q() { return new Scan().addColumn(F, Q); }

  static void aggregates(AggregationClient c) {
    LongColumnInterpreter longs = new LongColumnInterpreter();
    DoubleColumnInterpreter doubles = new DoubleColumnInterpreter();
    BigDecimalColumnInterpreter decimals = new BigDecimalColumnInterpreter();
    probe("Aggregate max", () -> call(() -> c.max(A, longs, q())));
    probe("Aggregate min", () -> call(() -> c.min(A, longs, q())));
    probe("Aggregate sum", () -> call(() -> c.sum(A, longs, q())));
    probe("Aggregate sum of a range", () -> call(() -> c.sum(A, longs, q().withStartRow(b("02")).withStopRow(b("07")))));
    probe("Aggregate sum filtered", () -> call(() -> c.sum(A, longs, q().setFilter(new PrefixFilter(b("03"))))));
    probe("Aggregate sum of a family", () -> call(() -> c.sum(A, longs, new Scan().addFamily(F))));
    probe("Aggregate rows", () -> call(() -> c.rowCount(A, longs, q())));
    probe("Aggregate rows of a family", () -> call(() -> c.rowCount(A, longs, new Scan().addFamily(F))));
    probe("Aggregate rows of another column", () -> call(() -> c.rowCount(A, longs, new Scan().addColumn(F, b("other")))));
    probe("Aggregate avg", () -> call(() -> c.avg(A, longs, q())));
    probe("Aggregate std", () -> call(() -> c.std(A, longs, q())));
    probe("Aggregate median", () -> call(() -> c.median(A, longs, q().withStopRow(b("10")))));
    probe("Aggregate weighted median", () -> call(() -> c.median(A, longs, q().addColumn(F, W).withStopRow(b("10")))));
    probe("Aggregate doubles", () -> call(() -> c.sum(A, doubles, new Scan().addColumn(b("g"), b("d")))));
    probe("Aggregate doubles max", () -> call(() -> c.max(A, doubles, new Scan().addColumn(b("g"), b("d")))));
    probe("Aggregate doubles std", () -> call(() -> c.std(A, doubles, new Scan().addColumn(b("g"), b("d")))));
    probe("Aggregate decimals", () -> call(() -> c.sum(A, decimals, new Scan().addColumn(b("g"), b("b")))));
    probe("Aggregate decimals min", () -> call(() -> c.min(A, decimals, new Scan().addColumn(b("g"), b("b")))));
    probe("Aggregate decimals std", () -> call(() -> c.std(A, decimals, new Scan().addColumn(b("g"), b("b")))));
    probe("Aggregate no values", () -> call(() -> c.max(A, longs, q().withStartRow(b("2")))));
    probe("Aggregate unknown family", () -> call(() -> c.max(A, longs, new Scan().addFamily(b("z")))));
  }

  interface Sum { Object run() throws Throwable; }

  static Object call(Sum sum) throws Exception {
    try {
      Object value = sum.run();
      return value == null ? null : value.toString();
    } catch (Exception error) {
      throw error;
    } catch (Throwable error) {
      throw new Exception(error);
    }
  }

  static void server(Connection connection, Admin admin) {
    probe("Admin.coprocessorService unknown", () -> AuthenticationProtos.AuthenticationService.newBlockingStub(admin.coprocessorService())
      .whoAmI(null, AuthenticationProtos.WhoAmIRequest.getDefaultInstance()));
    probe("Admin.coprocessorService server, unknown", () -> AuthenticationProtos.AuthenticationService.newBlockingStub(admin.coprocessorService(server))
      .whoAmI(null, AuthenticationProtos.WhoAmIRequest.getDefaultInstance()));
  }
}
