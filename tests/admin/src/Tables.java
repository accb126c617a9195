import java.util.*;
import java.util.regex.Pattern;

import org.apache.hadoop.hbase.*;
import org.apache.hadoop.hbase.client.*;
import org.apache.hadoop.hbase.util.Bytes;

/** Admin: tables, families, namespaces, regions. */
class Tables extends Probe {
  static final TableName T = TableName.valueOf("probe_t"), D = TableName.valueOf("probe_d"), NONE = TableName.valueOf("probe_none"),
    C = TableName.valueOf("probe_c"), S = TableName.valueOf("probe_s"), R = TableName.valueOf("probe_r");

  static void run(Connection connection, Admin admin) throws Exception {
    create(admin);
    lists(admin);
    families(admin);
    states(admin);
    namespaces(admin);
    descriptors(admin);
  }

  static void create(Admin admin) {
    probe("setup Admin.createTable", () -> { admin.createTable(table("probe_t", "f", "g").build(), new byte[][] { b("h"), b("p") }); return null; });
    probe("Admin.createTable exists", () -> { admin.createTable(table("probe_t", "f").build()); return null; });
    probe("Admin.createTable range", () -> { admin.createTable(table("probe_c", "f").build(), b("a"), b("y"), 5); return null; });
    probe("Admin.createTable no family", () -> { admin.createTable(table("probe_x").build()); return null; });
    probe("Admin.createTable no namespace", () -> { admin.createTable(table("probe_nons:x", "f").build()); return null; });
    probe("Admin.createTable in hbase", () -> { admin.createTable(table("hbase:probe_x", "f").build()); return null; });
    probe("Admin.deleteTable in hbase", () -> { admin.disableTable(TableName.valueOf("hbase:probe_x")); admin.deleteTable(TableName.valueOf("hbase:probe_x")); return null; });
    probe("Admin.createTable double splits", () -> { admin.createTable(table("probe_x", "f").build(), new byte[][] { b("h"), b("h") }); return null; });
    probe("Admin.createTable empty split", () -> { admin.createTable(table("probe_x", "f").build(), new byte[][] { b("") }); return null; });
    probe("Admin.createTableAsync", () -> admin.createTableAsync(table("probe_d", "f").build()));
    probe("Admin.createTableAsync splits", () -> admin.createTableAsync(table("probe_r", "f").build(), new byte[][] { b("m") }));
  }

  static void lists(Admin admin) {
    probe("Admin.tableExists", () -> admin.tableExists(T));
    probe("Admin.tableExists none", () -> admin.tableExists(NONE));
    probe("Admin.tableExists meta", () -> admin.tableExists(TableName.META_TABLE_NAME));
    probe("Admin.tableExists namespace", () -> admin.tableExists(TableName.valueOf("hbase:namespace")));
    probe("Admin.listTables", () -> some(admin.listTables()));
    probe("Admin.listTables pattern", () -> admin.listTables(Pattern.compile("probe_[td]")));
    probe("Admin.listTables text", () -> admin.listTables("probe_t"));
    probe("Admin.listTables hbase", () -> admin.listTables("hbase:.*", true));
    probe("Admin.listTableDescriptors", () -> some(admin.listTableDescriptors()));
    probe("Admin.listTableDescriptors pattern", () -> admin.listTableDescriptors(Pattern.compile("probe_[td]")));
    probe("Admin.listTableDescriptors hbase", () -> admin.listTableDescriptors(Pattern.compile("hbase:.*"), true));
    probe("Admin.listTableDescriptors names", () -> admin.listTableDescriptors(List.of(T, NONE)));
    probe("Admin.listTableDescriptorsByState", () -> some(admin.listTableDescriptorsByState(true)));
    probe("Admin.listTableDescriptorsByState disabled", () -> admin.listTableDescriptorsByState(false));
    probe("Admin.listTableNames", () -> some(admin.listTableNames()));
    probe("Admin.listTableNames pattern", () -> admin.listTableNames(Pattern.compile("probe_[td]")));
    probe("Admin.listTableNames hbase", () -> admin.listTableNames(Pattern.compile("hbase:.*"), true));
    probe("Admin.listTableNames look-ahead", () -> admin.listTableNames(Pattern.compile("probe_(?!t).*")));
    probe("Admin.listTableNamesByState", () -> some(admin.listTableNamesByState(true)));
    probe("Admin.getTableDescriptor", () -> admin.getTableDescriptor(T));
    probe("Admin.getDescriptor", () -> admin.getDescriptor(T));
    probe("Admin.getDescriptor none", () -> admin.getDescriptor(NONE));
    probe("Admin.getDescriptor meta", () -> admin.getDescriptor(TableName.META_TABLE_NAME));
    probe("Admin.getTableDescriptors", () -> admin.getTableDescriptors(List.of("probe_t", "probe_none")));
    probe("Admin.getTableDescriptorsByTableName", () -> admin.getTableDescriptorsByTableName(List.of(T, D)));
    probe("Admin.listTableDescriptorsByNamespace", () -> admin.listTableDescriptorsByNamespace("hbase"));
    probe("Admin.listTableDescriptorsByNamespace bytes", () -> admin.listTableDescriptorsByNamespace(b("hbase")));
    probe("Admin.listTableDescriptorsByNamespace none", () -> admin.listTableDescriptorsByNamespace("probe_nons"));
    probe("Admin.listTableNamesByNamespace", () -> admin.listTableNamesByNamespace("hbase"));
    probe("Admin.listTableNamesByNamespace none", () -> admin.listTableNamesByNamespace("probe_nons"));
  }

  static void families(Admin admin) {
    probe("Admin.addColumn", () -> { admin.addColumn(T, ColumnFamilyDescriptorBuilder.of("a")); return null; });
    probe("Admin.addColumnFamily", () -> { admin.addColumnFamily(T, ColumnFamilyDescriptorBuilder.of("h")); return null; });
    probe("Admin.addColumnFamily exists", () -> { admin.addColumnFamily(T, ColumnFamilyDescriptorBuilder.of("h")); return null; });
    probe("Admin.addColumnFamily no table", () -> { admin.addColumnFamily(NONE, ColumnFamilyDescriptorBuilder.of("h")); return null; });
    probe("Admin.addColumnFamilyAsync", () -> admin.addColumnFamilyAsync(T, ColumnFamilyDescriptorBuilder.of("i")));
    probe("Admin.modifyColumn", () -> { admin.modifyColumn(T, family("h").setMaxVersions(3).build()); return null; });
    probe("Admin.modifyColumnFamily", () -> { admin.modifyColumnFamily(T, family("h").setMaxVersions(4).build()); return null; });
    probe("Admin.modifyColumnFamily none", () -> { admin.modifyColumnFamily(T, family("z").build()); return null; });
    probe("Admin.modifyColumnFamilyAsync", () -> admin.modifyColumnFamilyAsync(T, family("h").setMaxVersions(5).build()));
    probe("Admin.modifyColumnFamilyStoreFileTracker", () -> { admin.modifyColumnFamilyStoreFileTracker(T, b("h"), "FILE"); return null; });
    probe("Admin.modifyColumnFamilyStoreFileTrackerAsync", () -> admin.modifyColumnFamilyStoreFileTrackerAsync(T, b("h"), "FILE"));
    probe("Admin.getAlterStatus", () -> admin.getAlterStatus(T));
    probe("Admin.getAlterStatus bytes", () -> admin.getAlterStatus(b("probe_t")));
    probe("Admin.deleteColumn", () -> { admin.deleteColumn(T, b("a")); return null; });
    probe("Admin.deleteColumnFamily", () -> { admin.deleteColumnFamily(T, b("i")); return null; });
    probe("Admin.deleteColumnFamily none", () -> { admin.deleteColumnFamily(T, b("z")); return null; });
    probe("Admin.deleteColumnFamily last", () -> { admin.deleteColumnFamily(D, b("f")); return null; });
    probe("Admin.deleteColumnFamilyAsync", () -> admin.deleteColumnFamilyAsync(T, b("h")));
    probe("Admin.modifyTable", () -> { admin.modifyTable(T, TableDescriptorBuilder.newBuilder(admin.getDescriptor(T)).setValue("k", "v").build()); return null; });
    probe("Admin.modifyTable one argument", () -> { admin.modifyTable(TableDescriptorBuilder.newBuilder(admin.getDescriptor(T)).setValue("k", "w").build()); return null; });
    probe("Admin.modifyTable none", () -> { admin.modifyTable(table("probe_none", "f").build()); return null; });
    probe("Admin.modifyTable without reopening", () -> { admin.modifyTable(TableDescriptorBuilder.newBuilder(admin.getDescriptor(T)).setMaxFileSize(1L << 33).build(), false); return null; });
    probe("Admin.modifyTable without reopening, family", () -> { admin.modifyTable(TableDescriptorBuilder.newBuilder(admin.getDescriptor(T)).setColumnFamily(ColumnFamilyDescriptorBuilder.of("j")).build(), false); return null; });
    probe("Admin.modifyTableAsync", () -> admin.modifyTableAsync(TableDescriptorBuilder.newBuilder(admin.getDescriptor(T)).setValue("k", "x").build()));
    probe("Admin.modifyTableStoreFileTracker", () -> { admin.modifyTableStoreFileTracker(D, "FILE"); return null; });
    probe("Admin.modifyTableStoreFileTracker unknown", () -> { admin.modifyTableStoreFileTracker(D, "SOME"); return null; });
    probe("Admin.modifyTableStoreFileTrackerAsync", () -> admin.modifyTableStoreFileTrackerAsync(D, "FILE"));
    probe("Admin.cloneTableSchema", () -> { admin.cloneTableSchema(T, S, true); return admin.getRegions(S); });
    probe("Admin.cloneTableSchema exists", () -> { admin.cloneTableSchema(T, S, true); return null; });
    probe("Admin.cloneTableSchema none", () -> { admin.cloneTableSchema(NONE, C, true); return null; });
  }

  static void states(Admin admin) {
    probe("Admin.isTableEnabled", () -> admin.isTableEnabled(T));
    probe("Admin.isTableEnabled none", () -> admin.isTableEnabled(NONE));
    probe("Admin.isTableDisabled", () -> admin.isTableDisabled(T));
    probe("Admin.isTableDisabled none", () -> admin.isTableDisabled(NONE));
    probe("Admin.isTableAvailable", () -> admin.isTableAvailable(T));
    probe("Admin.isTableAvailable none", () -> admin.isTableAvailable(NONE));
    probe("Admin.isTableAvailable splits", () -> admin.isTableAvailable(T, new byte[][] { b("h"), b("p") }));
    probe("Admin.enableTable enabled", () -> { admin.enableTable(T); return null; });
    probe("Admin.enableTable none", () -> { admin.enableTable(NONE); return null; });
    probe("Admin.disableTable none", () -> { admin.disableTable(NONE); return null; });
    probe("Admin.disableTable meta", () -> { admin.disableTable(TableName.META_TABLE_NAME); return null; });
    probe("Admin.deleteTable enabled", () -> { admin.deleteTable(T); return null; });
    probe("Admin.deleteTable none", () -> { admin.deleteTable(NONE); return null; });
    probe("Admin.truncateTable enabled", () -> { admin.truncateTable(T, true); return null; });
    probe("Admin.truncateTable none", () -> { admin.truncateTable(NONE, true); return null; });
    probe("Admin.disableTable", () -> { admin.disableTable(D); return null; });
    probe("Admin.disableTable disabled", () -> { admin.disableTable(D); return null; });
    probe("Admin.addColumnFamily disabled", () -> { admin.addColumnFamily(D, ColumnFamilyDescriptorBuilder.of("h")); return null; });
    probe("Admin.enableTableAsync", () -> admin.enableTableAsync(D));
    probe("Admin.disableTableAsync", () -> admin.disableTableAsync(D));
    probe("Admin.truncateTableAsync", () -> admin.truncateTableAsync(D, false));
    probe("Admin.disableTables", () -> admin.disableTables("probe_d"));
    probe("Admin.disableTables pattern", () -> admin.disableTables(Pattern.compile("probe_d")));
    probe("Admin.enableTables", () -> admin.enableTables(Pattern.compile("probe_d")));
    probe("Admin.disableTable again", () -> { admin.disableTable(C); return null; });
    probe("Admin.deleteTableAsync", () -> admin.deleteTableAsync(C));
    probe("Admin.disableTable clone", () -> { admin.disableTable(S); return null; });
    probe("Admin.deleteTables", () -> admin.deleteTables(Pattern.compile("probe_s")));
  }

  static void namespaces(Admin admin) {
    NamespaceDescriptor ns = NamespaceDescriptor.create("probe_ns").addConfiguration("k", "v").build();
    probe("Admin.createNamespace", () -> { admin.createNamespace(ns); return null; });
    probe("Admin.createNamespace exists", () -> { admin.createNamespace(ns); return null; });
    probe("Admin.createNamespace reserved", () -> { admin.createNamespace(NamespaceDescriptor.create("hbase").build()); return null; });
    probe("Admin.createNamespaceAsync", () -> admin.createNamespaceAsync(NamespaceDescriptor.create("probe_ns2").build()));
    probe("Admin.modifyNamespace", () -> { admin.modifyNamespace(NamespaceDescriptor.create("probe_ns").addConfiguration("k", "w").build()); return null; });
    probe("Admin.modifyNamespace none", () -> { admin.modifyNamespace(NamespaceDescriptor.create("probe_nons").build()); return null; });
    probe("Admin.modifyNamespaceAsync", () -> admin.modifyNamespaceAsync(NamespaceDescriptor.create("probe_ns").build()));
    probe("Admin.getNamespaceDescriptor", () -> admin.getNamespaceDescriptor("probe_ns").getConfiguration());
    probe("Admin.getNamespaceDescriptor none", () -> admin.getNamespaceDescriptor("probe_nons"));
    probe("Admin.listNamespaces", () -> some(admin.listNamespaces()));
    probe("Admin.listNamespaceDescriptors", () -> some(admin.listNamespaceDescriptors()));
    probe("Admin.createTable in namespace", () -> { admin.createTable(table("probe_ns:t", "f").build()); return null; });
    probe("Admin.deleteNamespace not empty", () -> { admin.deleteNamespace("probe_ns"); return null; });
    probe("Admin.deleteNamespace reserved", () -> { admin.deleteNamespace("default"); return null; });
    probe("Admin.deleteNamespace none", () -> { admin.deleteNamespace("probe_nons"); return null; });
    probe("Admin.deleteNamespace", () -> { admin.deleteNamespace("probe_ns2"); return null; });
    probe("Admin.deleteNamespaceAsync", () -> { drop(admin, TableName.valueOf("probe_ns:t")); return admin.deleteNamespaceAsync("probe_ns"); });
  }

  /** Attributes of tables and families that HBase takes or refuses. */
  static void descriptors(Admin admin) {
    String[][] table = { { "SPLIT_ENABLED", "false" }, { "NORMALIZATION_ENABLED", "true" }, { "PRIORITY", "10" }, { "FLUSH_POLICY", "x.Y" }, { "MAX_FILESIZE", "1" },
      { "MEMSTORE_FLUSHSIZE", "1" }, { "REGION_REPLICATION", "2" }, { "DURABILITY", "SKIP_WAL" }, { "READONLY", "true" }, { "ERASURE_CODING_POLICY", "XOR-2-1-1024k" },
      { "coprocessor$1", "|org.example.Nothing|1|" }, { "coprocessor$1", "|org.apache.hadoop.hbase.coprocessor.MultiRowMutationEndpoint|1|" }, { "MERGE_ENABLED", "x" },
      { "SPLIT_POLICY", "org.example.Nothing" }, { "REGION_MEMSTORE_REPLICATION", "false" }, { "RPC_GROUP", "default" } };
    for (String[] pair : table) described(admin, "Admin.createTable with " + pair[0] + "=" + pair[1], table("probe_x", "f").setValue(pair[0], pair[1]));
    String[][] family = { { "COMPRESSION", "GZ" }, { "COMPRESSION", "LZ4" }, { "COMPRESSION", "ZSTD" }, { "COMPRESSION", "SNAPPY" }, { "COMPRESSION", "LZO" }, { "COMPRESSION", "BZIP2" },
      { "COMPRESSION", "LZMA" }, { "COMPRESSION", "BROTLI" }, { "COMPRESSION", "NONE" }, { "COMPRESSION", "MAGIC" }, { "COMPRESSION_COMPACT_MAJOR", "GZ" }, { "BLOOMFILTER", "ROWPREFIX_FIXED_LENGTH" },
      { "BLOOMFILTER", "NONE" }, { "BLOOMFILTER", "SOME" }, { "DATA_BLOCK_ENCODING", "ROW_INDEX_V1" }, { "BLOCKSIZE", "100" }, { "VERSIONS", "0" }, { "MIN_VERSIONS", "2" },
      { "TTL", "0" }, { "TTL", "60" }, { "IS_MOB", "true" }, { "MOB_THRESHOLD", "10" }, { "STORAGE_POLICY", "HOT" },
      { "REPLICATION_SCOPE", "1" }, { "REPLICATION_SCOPE", "2" }, { "DFS_REPLICATION", "2" }, { "ENCRYPTION", "AES" }, { "NEW_VERSION_BEHAVIOR", "true" }, { "SOMETHING", "else" } };
    for (String[] pair : family) described(admin, "Admin.createTable with family " + pair[0] + "=" + pair[1], table("probe_x").setColumnFamily(family("f").setValue(pair[0], pair[1]).build()));
    described(admin, "Admin.createTable with tiering", table("probe_x").setColumnFamily(family("f").setConfiguration("hbase.hstore.datatiering.type", "TIME_RANGE").build()));
    described(admin, "Admin.createTable with tracker", table("probe_x", "f").setValue("hbase.store.file-tracker.impl", "FILE"));
    described(admin, "Admin.createTable with unknown tracker", table("probe_x", "f").setValue("hbase.store.file-tracker.impl", "SOME"));
    described(admin, "Admin.createTable with migration tracker", table("probe_x", "f").setValue("hbase.store.file-tracker.impl", "MIGRATION"));
  }

  static void described(Admin admin, String name, TableDescriptorBuilder descriptor) {
    TableName x = TableName.valueOf("probe_x");
    probe(name, () -> {
      try { admin.createTable(descriptor.build()); return null; } finally { drop(admin, x); }
    });
  }

  static void regions(Connection connection, Admin admin) throws Exception {
    if (!admin.tableExists(T)) return;
    RegionInfo first = admin.getRegions(T).get(0);
    byte[] name = first.getRegionName(), encoded = first.getEncodedNameAsBytes(), unknown = b("0123456789abcdef0123456789abcdef");
    probe("Admin.getOnlineRegions", () -> some(admin.getOnlineRegions(server)));
    probe("Admin.getRegions server", () -> some(admin.getRegions(server)));
    probe("Admin.getRegions", () -> admin.getRegions(T));
    probe("Admin.getRegions none", () -> admin.getRegions(NONE));
    probe("Admin.getTableRegions", () -> admin.getTableRegions(T));
    probe("Admin.flush", () -> { admin.flush(T); return null; });
    probe("Admin.flush none", () -> { admin.flush(NONE); return null; });
    probe("Admin.flush disabled", () -> { try { admin.disableTable(D); admin.flush(D); return null; } finally { admin.enableTable(D); } });
    probe("Admin.flush family", () -> { admin.flush(T, b("f")); return null; });
    probe("Admin.flush unknown family", () -> { admin.flush(T, b("z")); return null; });
    probe("Admin.flush families", () -> { admin.flush(T, List.of(b("f"), b("g"))); return null; });
    probe("Admin.flushAsync", () -> admin.flushAsync(T, List.of(b("f"))));
    probe("Admin.flushRegion", () -> { admin.flushRegion(name); return null; });
    probe("Admin.flushRegion family", () -> { admin.flushRegion(name, b("f")); return null; });
    probe("Admin.flushRegion unknown", () -> { admin.flushRegion(unknown); return null; });
    probe("Admin.flushRegionServer", () -> { admin.flushRegionServer(server); return null; });
    probe("Admin.compact", () -> { admin.compact(T); return null; });
    probe("Admin.compact none", () -> { admin.compact(NONE); return null; });
    probe("Admin.compact family", () -> { admin.compact(T, b("f")); return null; });
    probe("Admin.compact unknown family", () -> { admin.compact(T, b("z")); return null; });
    probe("Admin.compact normal", () -> { admin.compact(T, CompactType.NORMAL); return null; });
    probe("Admin.compact mob", () -> { admin.compact(T, CompactType.MOB); return null; });
    probe("Admin.compactRegion", () -> { admin.compactRegion(name); return null; });
    probe("Admin.compactRegion encoded", () -> { admin.compactRegion(encoded); return null; });
    probe("Admin.compactRegion unknown", () -> { admin.compactRegion(unknown); return null; });
    probe("Admin.majorCompact", () -> { admin.majorCompact(T); return null; });
    probe("Admin.majorCompactRegion", () -> { admin.majorCompactRegion(name); return null; });
    probe("Admin.compactRegionServer", () -> { admin.compactRegionServer(server); return null; });
    probe("Admin.majorCompactRegionServer", () -> { admin.majorCompactRegionServer(server); return null; });
    probe("Admin.compactionSwitch", () -> { Object off = admin.compactionSwitch(false, List.of()); admin.compactionSwitch(true, List.of()); return off; });
    probe("Admin.compactionSwitch server", () -> admin.compactionSwitch(true, List.of(server.getServerName())));
    probe("Admin.getCompactionState", () -> some(admin.getCompactionState(T)));
    probe("Admin.getCompactionState none", () -> admin.getCompactionState(NONE));
    probe("Admin.getCompactionState normal", () -> some(admin.getCompactionState(T, CompactType.NORMAL)));
    probe("Admin.getCompactionState mob", () -> admin.getCompactionState(T, CompactType.MOB));
    probe("Admin.getCompactionStateForRegion", () -> some(admin.getCompactionStateForRegion(name)));
    probe("Admin.getLastMajorCompactionTimestamp", () -> some(admin.getLastMajorCompactionTimestamp(T)));
    probe("Admin.getLastMajorCompactionTimestamp none", () -> admin.getLastMajorCompactionTimestamp(NONE));
    probe("Admin.getLastMajorCompactionTimestampForRegion", () -> some(admin.getLastMajorCompactionTimestampForRegion(name)));
    probe("Admin.getLastMajorCompactionTimestampForRegion unknown", () -> admin.getLastMajorCompactionTimestampForRegion(unknown));
    probe("Admin.clearCompactionQueues", () -> { admin.clearCompactionQueues(server, Set.of("long", "short")); return null; });
    probe("Admin.clearBlockCache", () -> some(admin.clearBlockCache(T)));
    probe("Admin.clearBlockCache none", () -> some(admin.clearBlockCache(NONE)));
    probe("Admin.move", () -> { admin.move(encoded); return null; });
    probe("Admin.move server", () -> { admin.move(encoded, server); return null; });
    probe("Admin.move server as bytes", () -> { admin.move(encoded, b(server.getServerName())); return null; });
    probe("Admin.move unknown region", () -> { admin.move(unknown); return null; });
    probe("Admin.move unknown server", () -> { admin.move(encoded, ServerName.valueOf("nowhere,1,1")); return null; });
    probe("Admin.assign", () -> { admin.assign(name); return null; });
    probe("Admin.assign unknown", () -> { admin.assign(unknown); return null; });
    probe("Admin.unassign", () -> { admin.unassign(name); return null; });
    probe("Admin.unassign force", () -> { admin.unassign(name, true); return null; });
    probe("Admin.assign after unassign", () -> { admin.assign(name); return null; });
    probe("Admin.unassign unknown", () -> { admin.unassign(unknown); return null; });
    probe("Admin.closeRegion", () -> { admin.closeRegion(first.getRegionNameAsString(), server.getServerName()); return null; });
    probe("Admin.closeRegionWithEncodedRegionName", () -> admin.closeRegionWithEncodedRegionName(first.getEncodedName(), server.getServerName()));
    probe("Admin.offline unknown", () -> { admin.offline(unknown); return null; });
    probe("Admin.assign at last", () -> { admin.assign(name); return null; });
    probe("Admin.truncateRegion", () -> {
      RegionInfo region = admin.getRegions(R).get(0);
      admin.truncateRegion(region.getRegionName());
      return admin.getRegions(R);
    });
    probe("Admin.truncateRegion unknown", () -> { admin.truncateRegion(unknown); return null; });
    probe("Admin.truncateRegionAsync", () -> admin.truncateRegionAsync(admin.getRegions(R).get(1).getRegionName()));
    probe("Admin.getRegionMetrics", () -> some(admin.getRegionMetrics(server)));
    probe("Admin.getRegionMetrics table", () -> some(admin.getRegionMetrics(server, T)));
    probe("Admin.getCachedFilesList", () -> some(admin.getCachedFilesList(server)));
  }
}
