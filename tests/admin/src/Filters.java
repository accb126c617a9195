import java.math.BigDecimal;
import java.util.*;

import org.apache.hadoop.hbase.*;
import org.apache.hadoop.hbase.client.*;
import org.apache.hadoop.hbase.filter.*;
import org.apache.hadoop.hbase.filter.BitComparator.BitwiseOp;
import org.apache.hadoop.hbase.filter.MultiRowRangeFilter.RowRange;
import org.apache.hadoop.hbase.ipc.HBaseRpcControllerImpl;
import org.apache.hadoop.hbase.shaded.protobuf.*;
import org.apache.hadoop.hbase.shaded.protobuf.generated.*;
import org.apache.hadoop.hbase.util.*;
import org.apache.hbase.thirdparty.com.google.protobuf.*;

/**
 * Every filter and comparator of HBase's own, as messages on the wire, in Gets, Scans, reversed Scans and Scans of all versions of one small table of
 * two regions. What came is shown as rows with their cells (family, qualifier, timestamp), `*` for all cells that the same read gives without a
 * filter, and `=bytes` behind a cell whose value is not the stored one.
 */
class Filters extends Probe {
  static final TableName NAME = TableName.valueOf("probe_filters");
  static final byte[] F = b("f"), G = b("g");
  static final String[] ROWS = { "ra1", "ra2", "rb1", "rb2", "rc1", "rc2", "rd1", "sd2" };
  /** Of which Gets are made. */
  static final String[] GETS = { "ra1", "rb2", "rd1" };

  enum Read { get, scan, reversed, versions }

  static Connection connection;
  static Table table;
  static final Map<String, byte[]> stored = new HashMap<>();
  /** Each row's cells without a filter, by kind of read and row. */
  static final Map<String, String> whole = new HashMap<>();

  static void run(Connection c, Admin admin) throws Exception {
    if (only != null && !only.matcher("Filter").find() && !only.pattern().contains("Filter")) return;
    connection = c;
    drop(admin, NAME);
    admin.createTable(TableDescriptorBuilder.newBuilder(NAME).setColumnFamily(family("f").setMaxVersions(3).build()).setColumnFamily(family("g").build()).build(),
      new byte[][] { b("rc1") });
    try (Table t = connection.getTable(NAME)) {
      table = t;
      for (int i = 0; i < ROWS.length; i++) row(i);
      for (Read read : Read.values()) probe("Filter none, " + read, () -> noted(read));
      columns();
      rows();
      values();
      comparators();
      lists();
      messages();
    }
    drop(admin, NAME);
  }

  static void add(Put put, byte[] family, String qualifier, long at, byte[] value) {
    put.addColumn(family, b(qualifier), at, value);
    stored.put(Bytes.toString(put.getRow()) + Bytes.toString(family) + qualifier + at, value);
  }

  /** Columns that some rows lack, several versions in some, values of every kind that a comparator reads. */
  static void row(int i) throws Exception {
    Put put = new Put(b(ROWS[i]));
    for (int at = 1; at <= 1 + i % 3; at++) add(put, F, "a", at, b("v" + i + "." + at));
    if (i != 3) add(put, F, "b", 2, b("x" + i % 2));
    if (i % 2 == 0) add(put, F, "ba", 3, b("Abc" + i));
    add(put, F, "c", 1, b(i == 5 ? "" : "c"));
    add(put, G, "a", 1 + i % 3, b("d"));
    add(put, G, "l", 2, Bytes.toBytes(i - 4L));
    add(put, G, "n", 2, Bytes.toBytes(BigDecimal.valueOf(i - 3).multiply(new BigDecimal("1.5")).setScale(1 + i % 3)));
    add(put, G, "x", 3, new byte[] { (byte) i, (byte) (i * 16) });
    table.put(put);
  }

  static List<Result> read(Read read, org.apache.hadoop.hbase.filter.Filter filter) throws Exception {
    List<Result> all = new ArrayList<>();
    if (read == Read.get) {
      for (String row : GETS) all.add(table.get(new Get(b(row)).setFilter(filter)));
      return all;
    }
    // HBase refuses a reversed scan that asks for the families on demand, which this client does with some filters by itself.
    Scan scan = new Scan().setFilter(filter).setReversed(read == Read.reversed).setLoadColumnFamiliesOnDemand(read != Read.reversed);
    if (read == Read.versions) scan.readAllVersions();
    try (ResultScanner scanner = table.getScanner(scan)) { for (Result result : scanner) all.add(result); }
    return all;
  }

  static String cells(Result result) {
    StringBuilder text = new StringBuilder();
    for (Cell cell : result.rawCells()) {
      String name = Bytes.toString(CellUtil.cloneFamily(cell)) + Bytes.toString(CellUtil.cloneQualifier(cell)) + cell.getTimestamp();
      byte[] value = CellUtil.cloneValue(cell), was = stored.get(Bytes.toString(result.getRow()) + name);
      text.append(text.length() == 0 ? "" : " ").append(name);
      if (!Arrays.equals(value, was)) text.append('=').append(Bytes.toStringBinary(value));
    }
    return text.toString();
  }

  /** The unfiltered read, which the others are shown against. */
  static Object noted(Read read) throws Exception {
    StringJoiner text = new StringJoiner("; ");
    for (Result result : read(read, null)) {
      String row = Bytes.toString(result.getRow());
      whole.put(read + row, cells(result));
      text.add(row + " " + cells(result));
    }
    return new Text(text.toString());
  }

  static Text shown(Read read, List<Result> results) {
    StringJoiner text = new StringJoiner("; ");
    for (Result result : results) {
      if (result.isEmpty()) { text.add("-"); continue; }
      String row = Bytes.toString(result.getRow()), cells = cells(result);
      text.add(row + (cells.equals(whole.get(read + row)) ? "*" : " " + cells));
    }
    return new Text(text.length() == 0 ? "nothing passed" : text.toString());
  }

  interface Make { org.apache.hadoop.hbase.filter.Filter filter() throws Exception; }

  static void all(String name, Make make) {
    for (Read read : Read.values()) probe("Filter " + name + ", " + read, () -> shown(read, read(read, make.filter())));
    probe("Filter " + name + ", counted", () -> counted(make.filter()));
  }

  /** What the servers say of a scan: rows whose cells they read, rows that the filter dropped. */
  static Text counted(org.apache.hadoop.hbase.filter.Filter filter) throws Exception {
    Scan scan = new Scan().setFilter(filter).setScanMetricsEnabled(true);
    try (ResultScanner scanner = table.getScanner(scan)) {
      for (Result result : scanner) { }
      Map<String, Long> told = scanner.getScanMetrics().getMetricsMap(false);
      return new Text("scanned " + told.get("ROWS_SCANNED") + ", filtered " + told.get("ROWS_FILTERED"));
    }
  }

  /** HBase 2.6.4 never ends a reversed scan with some of the fuzzy keys: it is not asked for one. */
  static void forward(String name, Make make) {
    for (Read read : Read.values()) if (read != Read.reversed) probe("Filter " + name + ", " + read, () -> shown(read, read(read, make.filter())));
  }

  /** Only as a Scan: of what differs but in its comparator. */
  static void scan(String name, Make make) {
    probe("Filter " + name, () -> shown(Read.scan, read(Read.scan, make.filter())));
  }

  static BinaryComparator binary(String text) { return new BinaryComparator(b(text)); }

  static void columns() {
    all("ColumnCountGet 2", () -> new ColumnCountGetFilter(2));
    all("ColumnCountGet 20", () -> new ColumnCountGetFilter(20));
    all("ColumnPagination 2 from 1", () -> new ColumnPaginationFilter(2, 1));
    all("ColumnPagination 3 from 3", () -> new ColumnPaginationFilter(3, 3));
    all("ColumnPagination 2 from b", () -> new ColumnPaginationFilter(2, b("b")));
    all("ColumnPrefix b", () -> new ColumnPrefixFilter(b("b")));
    all("MultipleColumnPrefix a ba", () -> new MultipleColumnPrefixFilter(new byte[][] { b("ba"), b("a") }));
    all("MultipleColumnPrefix b ba", () -> new MultipleColumnPrefixFilter(new byte[][] { b("b"), b("ba") }));
    all("ColumnRange b to c", () -> new ColumnRangeFilter(b("b"), true, b("c"), false));
    all("ColumnRange behind b", () -> new ColumnRangeFilter(b("b"), false, null, false));
    all("ColumnRange up to b", () -> new ColumnRangeFilter(null, true, b("b"), true));
    all("FirstKeyOnly", FirstKeyOnlyFilter::new);
    all("FirstKeyValueMatchingQualifiers b x", () -> new FirstKeyValueMatchingQualifiersFilter(names("b", "x")));
    all("FirstKeyValueMatchingQualifiers none", () -> new FirstKeyValueMatchingQualifiersFilter(names("none")));
    all("KeyOnly", () -> new KeyOnlyFilter());
    all("KeyOnly lengths", () -> new KeyOnlyFilter(true));
    all("Timestamps 1 3", () -> new TimestampsFilter(List.of(3L, 1L)));
    all("Timestamps 2 hinting", () -> new TimestampsFilter(List.of(2L), true));
    all("DependentColumn fa", () -> new DependentColumnFilter(F, b("a")));
    all("DependentColumn fa dropped", () -> new DependentColumnFilter(F, b("a"), true));
    all("DependentColumn fb = x0", () -> new DependentColumnFilter(F, b("b"), false, CompareOperator.EQUAL, binary("x0")));
    all("DependentColumn fb != x0 dropped", () -> new DependentColumnFilter(F, b("b"), true, CompareOperator.NOT_EQUAL, binary("x0")));
    all("DependentColumn none", () -> new DependentColumnFilter(F, b("none")));
  }

  static Set<byte[]> names(String... names) {
    Set<byte[]> set = new TreeSet<>(Bytes.BYTES_COMPARATOR);
    for (String name : names) set.add(b(name));
    return set;
  }

  static void rows() {
    all("Prefix rb", () -> new PrefixFilter(b("rb")));
    all("Prefix none", () -> new PrefixFilter(b("rbx")));
    all("InclusiveStop rb1", () -> new InclusiveStopFilter(b("rb1")));
    all("InclusiveStop between rows", () -> new InclusiveStopFilter(b("rc0")));
    all("Page 1", () -> new PageFilter(1));
    all("Page 3", () -> new PageFilter(3));
    all("RandomRow 0", () -> new RandomRowFilter(0.0f));
    all("RandomRow 1", () -> new RandomRowFilter(1.0f));
    all("RandomRow -1", () -> new RandomRowFilter(-1.0f));
    all("MultiRowRange", () -> ranges(new RowRange(b("ra2"), true, b("rb1"), true), new RowRange(b("rc1"), false, b("rd1"), false)));
    all("MultiRowRange open", () -> ranges(new RowRange(null, true, b("ra1"), true), new RowRange(b("rd1"), true, null, false)));
    all("MultiRowRange prefixes", () -> new MultiRowRangeFilter(new byte[][] { b("ra"), b("s") }));
    all("Row < rb2", () -> new RowFilter(CompareOperator.LESS, binary("rb2")));
    all("Row >= rc2", () -> new RowFilter(CompareOperator.GREATER_OR_EQUAL, binary("rc2")));
    all("Row without operator", () -> new RowFilter(CompareOperator.NO_OP, binary("rb2")));
    all("Row ends in 1", () -> new RowFilter(CompareOperator.EQUAL, new RegexStringComparator("1$")));
    forward("FuzzyRow r?1", () -> new FuzzyRowFilter(List.of(new Pair<>(b("r?1"), new byte[] { 0, 1, 0 }))));
    all("FuzzyRow two keys", () -> new FuzzyRowFilter(List.of(new Pair<>(b("?b?"), new byte[] { 1, 0, 1 }), new Pair<>(b("s??"), new byte[] { 0, 1, 1 }))));
    all("FuzzyRow all fixed", () -> new FuzzyRowFilter(List.of(new Pair<>(b("rc2"), new byte[] { 0, 0, 0 }))));
    all("FuzzyRow short key", () -> new FuzzyRowFilter(List.of(new Pair<>(b("?d"), new byte[] { 1, 0 }))));
    all("Skip value", () -> new SkipFilter(new ValueFilter(CompareOperator.NOT_EQUAL, binary("x1"))));
    all("Skip qualifier", () -> new SkipFilter(new QualifierFilter(CompareOperator.NOT_EQUAL, binary("ba"))));
    all("Skip of a first key", () -> new SkipFilter(new FirstKeyOnlyFilter()));
    all("WhileMatch row", () -> new WhileMatchFilter(new RowFilter(CompareOperator.NOT_EQUAL, binary("rb1"))));
    all("WhileMatch value", () -> new WhileMatchFilter(new ValueFilter(CompareOperator.NOT_EQUAL, binary("v3.1"))));
    all("WhileMatch page", () -> new WhileMatchFilter(new PageFilter(2)));
    all("WhileMatch single column", () -> new WhileMatchFilter(new SingleColumnValueFilter(F, b("c"), CompareOperator.EQUAL, b("c"))));
    all("WhileMatch single column missing", () -> new WhileMatchFilter(missing(new SingleColumnValueFilter(F, b("b"), CompareOperator.GREATER, b("a")))));
  }

  static MultiRowRangeFilter ranges(RowRange... ranges) { return new MultiRowRangeFilter(new ArrayList<>(List.of(ranges))); }

  static SingleColumnValueFilter missing(SingleColumnValueFilter filter) {
    filter.setFilterIfMissing(true);
    return filter;
  }

  static SingleColumnValueFilter anyVersion(SingleColumnValueFilter filter) {
    filter.setLatestVersionOnly(false);
    return filter;
  }

  static void values() {
    all("Family = g", () -> new FamilyFilter(CompareOperator.EQUAL, binary("g")));
    all("Family < g", () -> new FamilyFilter(CompareOperator.LESS, binary("g")));
    all("Family none", () -> new FamilyFilter(CompareOperator.GREATER, binary("g")));
    all("Qualifier > b", () -> new QualifierFilter(CompareOperator.GREATER, binary("b")));
    all("Qualifier without operator", () -> new QualifierFilter(CompareOperator.NO_OP, binary("b")));
    all("Value <= d", () -> new ValueFilter(CompareOperator.LESS_OR_EQUAL, binary("d")));
    all("Value of an older version", () -> new ValueFilter(CompareOperator.EQUAL, new SubstringComparator(".1")));
    all("Value empty", () -> new ValueFilter(CompareOperator.EQUAL, binary("")));
    all("ColumnValue fa", () -> new ColumnValueFilter(F, b("a"), CompareOperator.GREATER_OR_EQUAL, binary("v4")));
    all("ColumnValue of an older version", () -> new ColumnValueFilter(F, b("a"), CompareOperator.EQUAL, new SubstringComparator(".1")));
    all("ColumnValue none", () -> new ColumnValueFilter(F, b("none"), CompareOperator.EQUAL, binary("v")));
    all("SingleColumnValue fb = x1", () -> new SingleColumnValueFilter(F, b("b"), CompareOperator.EQUAL, b("x1")));
    all("SingleColumnValue fb = x1 or none", () -> missing(new SingleColumnValueFilter(F, b("b"), CompareOperator.EQUAL, b("x1"))));
    all("SingleColumnValue older version", () -> anyVersion(new SingleColumnValueFilter(F, b("a"), CompareOperator.EQUAL, new SubstringComparator(".1"))));
    all("SingleColumnValue newest version", () -> new SingleColumnValueFilter(F, b("a"), CompareOperator.EQUAL, new SubstringComparator(".1")));
    all("SingleColumnValue of the second family", () -> new SingleColumnValueFilter(G, b("x"), CompareOperator.LESS, new byte[] { 3 }));
    all("SingleColumnValueExclude fb = x1", () -> new SingleColumnValueExcludeFilter(F, b("b"), CompareOperator.EQUAL, b("x1")));
    all("SingleColumnValueExclude fb = x1 or none", () -> missing(new SingleColumnValueExcludeFilter(F, b("b"), CompareOperator.EQUAL, binary("x1"))));
    all("SingleColumnValueExclude older version", () -> anyVersion(new SingleColumnValueExcludeFilter(F, b("a"), CompareOperator.EQUAL, new SubstringComparator(".1"))));
  }

  static void column(String name, byte[] family, String qualifier, CompareOperator op, ByteArrayComparable comparator) {
    scan(name, () -> new ColumnValueFilter(family, b(qualifier), op, comparator));
  }

  /** Each comparator with each operator, on a column whose values it can read; as a filter of rows, or of values, where it could go wrong. */
  static void comparators() {
    for (CompareOperator op : CompareOperator.values()) {
      column("Binary " + op, F, "a", op, binary("v3.1"));
      column("BinaryPrefix " + op, F, "a", op, new BinaryPrefixComparator(b("v3")));
      column("BinaryComponent " + op, F, "a", op, new BinaryComponentComparator(b("3."), 1));
      column("BigDecimal " + op, G, "n", op, new BigDecimalComparator(new BigDecimal("1.50")));
      column("Bit and " + op, G, "x", op, new BitComparator(new byte[] { 1, 0x20 }, BitwiseOp.AND));
      column("Bit or " + op, G, "x", op, new BitComparator(new byte[] { 0, 0 }, BitwiseOp.OR));
      column("Bit xor " + op, G, "x", op, new BitComparator(new byte[] { 3, 0x30 }, BitwiseOp.XOR));
      column("Long " + op, G, "l", op, new LongComparator(-1));
      column("Null " + op, F, "c", op, new NullComparator());
      column("RegexString " + op, F, "a", op, new RegexStringComparator("^v[2-4]\\."));
      column("Substring " + op, F, "ba", op, new SubstringComparator("bC2"));
    }
    column("BinaryPrefix longer than the value", F, "c", CompareOperator.EQUAL, new BinaryPrefixComparator(b("cc")));
    column("BinaryPrefix empty", F, "c", CompareOperator.EQUAL, new BinaryPrefixComparator(b("")));
    column("BinaryComponent behind the value", F, "c", CompareOperator.EQUAL, new BinaryComponentComparator(b("c"), 5));
    column("BigDecimal zero", G, "n", CompareOperator.EQUAL, new BigDecimalComparator(BigDecimal.ZERO));
    column("BigDecimal huge", G, "n", CompareOperator.LESS, new BigDecimalComparator(new BigDecimal("1e30")));
    column("Bit of another length", G, "x", CompareOperator.EQUAL, new BitComparator(new byte[] { 1 }, BitwiseOp.AND));
    column("RegexString flags", F, "ba", CompareOperator.EQUAL, new RegexStringComparator("abc[0-4]", java.util.regex.Pattern.CASE_INSENSITIVE));
    column("RegexString joni", F, "ba", CompareOperator.EQUAL, new RegexStringComparator("^Abc[0-4]$", RegexStringComparator.EngineType.JONI));
    scan("Row BinaryComponent", () -> new RowFilter(CompareOperator.EQUAL, new BinaryComponentComparator(b("c"), 1)));
    scan("Row BinaryPrefix", () -> new RowFilter(CompareOperator.LESS_OR_EQUAL, new BinaryPrefixComparator(b("rb"))));
    scan("Row Bit", () -> new RowFilter(CompareOperator.EQUAL, new BitComparator(new byte[] { 0, 0, 2 }, BitwiseOp.AND)));
    scan("Qualifier Substring", () -> new QualifierFilter(CompareOperator.EQUAL, new SubstringComparator("A")));
    scan("Family Null", () -> new FamilyFilter(CompareOperator.NOT_EQUAL, new NullComparator()));
  }

  static FilterList and(org.apache.hadoop.hbase.filter.Filter... filters) { return new FilterList(FilterList.Operator.MUST_PASS_ALL, filters); }

  static FilterList or(org.apache.hadoop.hbase.filter.Filter... filters) { return new FilterList(FilterList.Operator.MUST_PASS_ONE, filters); }

  static ColumnPrefixFilter prefix(String text) { return new ColumnPrefixFilter(b(text)); }

  static void lists() {
    all("FilterList empty", () -> and());
    all("FilterList and", () -> and(new PrefixFilter(b("rb")), prefix("b")));
    all("FilterList or", () -> or(new PrefixFilter(b("rb")), prefix("b")));
    all("FilterList page before", () -> and(new PageFilter(1), new RowFilter(CompareOperator.NOT_EQUAL, binary("ra1"))));
    all("FilterList page behind", () -> and(new RowFilter(CompareOperator.NOT_EQUAL, binary("ra1")), new PageFilter(1)));
    all("FilterList column and page", () -> and(missing(new SingleColumnValueFilter(F, b("b"), CompareOperator.EQUAL, b("x1"))), new PageFilter(1)));
    all("FilterList page and column", () -> and(new PageFilter(2), missing(new SingleColumnValueFilter(F, b("b"), CompareOperator.EQUAL, b("x1")))));
    all("FilterList while and page", () -> and(new WhileMatchFilter(new ValueFilter(CompareOperator.NOT_EQUAL, binary("c"))), new PageFilter(3)));
    all("FilterList pages", () -> or(new PageFilter(1), new PageFilter(2)));
    all("FilterList or of counts", () -> or(new FirstKeyOnlyFilter(), new ColumnPaginationFilter(1, 2)));
    all("FilterList and of counts", () -> and(new FirstKeyOnlyFilter(), new KeyOnlyFilter(true)));
    all("FilterList or of keys only", () -> or(and(new PrefixFilter(b("ra")), new KeyOnlyFilter()), new PrefixFilter(b("rd"))));
    all("FilterList nested", () -> or(and(new FamilyFilter(CompareOperator.EQUAL, binary("g")), prefix("l")), and(new RowFilter(CompareOperator.LESS, binary("rb1")), or(prefix("ba"), prefix("c")))));
    all("FilterList single columns", () -> or(missing(new SingleColumnValueFilter(F, b("b"), CompareOperator.EQUAL, b("x1"))), missing(new SingleColumnValueFilter(F, b("ba"), CompareOperator.EQUAL, b("Abc2")))));
    all("FilterList single columns both", () -> and(missing(new SingleColumnValueFilter(F, b("b"), CompareOperator.EQUAL, b("x0"))), new SingleColumnValueExcludeFilter(F, b("ba"), CompareOperator.GREATER, b("Abc2"))));
    all("FilterList of skip", () -> and(new SkipFilter(new ValueFilter(CompareOperator.NOT_EQUAL, binary("x1"))), prefix("a")));
    all("FilterList of while", () -> or(new WhileMatchFilter(new RowFilter(CompareOperator.NOT_EQUAL, binary("ra2"))), new RowFilter(CompareOperator.EQUAL, binary("rd1"))));
    all("FilterList of dependent", () -> and(new DependentColumnFilter(F, b("b")), prefix("a")));
    all("FilterList of timestamps", () -> and(new TimestampsFilter(List.of(2L)), new ColumnCountGetFilter(1)));
    all("FilterList of ranges", () -> or(ranges(new RowRange(b("ra1"), true, b("ra2"), false)), new InclusiveStopFilter(b("ra2"))));
    all("FilterList of fuzzy", () -> or(new FuzzyRowFilter(List.of(new Pair<>(b("?a?"), new byte[] { 1, 0, 1 }))), new FuzzyRowFilter(List.of(new Pair<>(b("??2"), new byte[] { 1, 1, 0 })))));
  }

  /** Messages that this client does not write: classes of the server's only, and the forms of a fuzzy row's mask that other clients send. */
  static void messages() {
    String packaged = "org.apache.hadoop.hbase.filter.";
    message("FilterAll", packaged + "FilterAllFilter", FilterProtos.FilterAllFilter.getDefaultInstance());
    message("FilterWrapper of Prefix", packaged + "FilterWrapper", FilterProtos.FilterWrapper.newBuilder().setFilter(FilterProtos.Filter.newBuilder()
      .setName(packaged + "PrefixFilter").setSerializedFilter(FilterProtos.PrefixFilter.newBuilder().setPrefix(ByteString.copyFromUtf8("rb")).build().toByteString())).build());
    message("FilterWrapper of ColumnCountGet", packaged + "FilterWrapper", FilterProtos.FilterWrapper.newBuilder().setFilter(FilterProtos.Filter.newBuilder()
      .setName(packaged + "ColumnCountGetFilter").setSerializedFilter(FilterProtos.ColumnCountGetFilter.newBuilder().setLimit(2).build().toByteString())).build());
    message("FuzzyRow mask -1 2, marked", packaged + "FuzzyRowFilter", fuzzy("r?1", new byte[] { -1, 2, -1 }).setIsMaskV2(true).build());
    message("FuzzyRow mask -1 0", packaged + "FuzzyRowFilter", fuzzy("r?1", new byte[] { -1, 0, -1 }).build());
    message("FuzzyRow mask 0 1", packaged + "FuzzyRowFilter", fuzzy("r?1", new byte[] { 0, 1, 0 }).build());
    message("FuzzyRow mask 0 1, marked", packaged + "FuzzyRowFilter", fuzzy("r?1", new byte[] { 0, 1, 0 }).setIsMaskV2(true).build());
    message("Timestamps without any", packaged + "TimestampsFilter", FilterProtos.TimestampsFilter.getDefaultInstance());
    message("FilterList of an unknown one", packaged + "FilterList", FilterProtos.FilterList.newBuilder().setOperator(FilterProtos.FilterList.Operator.MUST_PASS_ALL)
      .addFilters(FilterProtos.Filter.newBuilder().setName("org.example.Mine")).build());
    message("in another package", "org.example.PrefixFilter", FilterProtos.PrefixFilter.getDefaultInstance());
  }

  static FilterProtos.FuzzyRowFilter.Builder fuzzy(String key, byte[] mask) {
    return FilterProtos.FuzzyRowFilter.newBuilder().addFuzzyKeysData(HBaseProtos.BytesBytesPair.newBuilder().setFirst(ByteString.copyFromUtf8(key)).setSecond(ByteString.copyFrom(mask)));
  }

  static void message(String name, String type, Message body) {
    FilterProtos.Filter filter = FilterProtos.Filter.newBuilder().setName(type).setSerializedFilter(body.toByteString()).build();
    for (Read read : Read.values()) if (read != Read.reversed || !type.endsWith("FuzzyRowFilter")) probe("Filter message " + name + ", " + read, () -> shown(read, sent(read, filter)));
  }

  /** A read with this filter, past the client's own classes of filters. */
  static List<Result> sent(Read read, FilterProtos.Filter filter) throws Exception {
    try {
      return read == Read.get ? sentGets(filter) : sentScans(read, filter);
    } catch (ServiceException error) {
      throw ProtobufUtil.handleRemoteException(error);
    }
  }

  static ClientProtos.ClientService.BlockingInterface server(HRegionLocation at) throws Exception {
    return ((ClusterConnection) connection).getClient(at.getServerName());
  }

  static List<Result> sentGets(FilterProtos.Filter filter) throws Exception {
    List<Result> all = new ArrayList<>();
    for (String row : GETS) {
      HRegionLocation at = connection.getRegionLocator(NAME).getRegionLocation(b(row));
      ClientProtos.GetRequest.Builder request = RequestConverter.buildGetRequest(at.getRegion().getRegionName(), new Get(b(row))).toBuilder();
      request.getGetBuilder().setFilter(filter);
      HBaseRpcControllerImpl controller = new HBaseRpcControllerImpl();
      ClientProtos.GetResponse response = server(at).get(controller, request.build());
      all.add(ProtobufUtil.toResult(response.getResult(), controller.cellScanner()));
    }
    return all;
  }

  static List<Result> sentScans(Read read, FilterProtos.Filter filter) throws Exception {
    List<Result> all = new ArrayList<>();
    List<HRegionLocation> regions = new ArrayList<>(connection.getRegionLocator(NAME).getAllRegionLocations());
    if (read == Read.reversed) Collections.reverse(regions);
    Scan scan = new Scan().setReversed(read == Read.reversed).setLoadColumnFamiliesOnDemand(false);
    if (read == Read.versions) scan.readAllVersions();
    for (HRegionLocation at : regions) {
      ClientProtos.ScanRequest.Builder request = RequestConverter.buildScanRequest(at.getRegion().getRegionName(), scan, 100, true).toBuilder();
      request.getScanBuilder().setFilter(filter);
      HBaseRpcControllerImpl controller = new HBaseRpcControllerImpl();
      ClientProtos.ScanResponse response = server(at).scan(controller, request.build());
      all.addAll(List.of(ResponseConverter.getResults(controller.cellScanner(), response)));
    }
    return all;
  }
}
