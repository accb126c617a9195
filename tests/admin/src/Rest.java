import java.util.*;
import java.util.regex.Pattern;

import org.apache.hadoop.hbase.*;
import org.apache.hadoop.hbase.client.*;
import org.apache.hadoop.hbase.client.replication.TableCFs;
import org.apache.hadoop.hbase.quotas.*;
import org.apache.hadoop.hbase.replication.*;
import org.apache.hadoop.hbase.security.access.*;
import org.apache.hadoop.hbase.util.Bytes;

/** Admin: the cluster, switches, and what Cadastre does not have. */
class Rest extends Probe {
  static final TableName T = TableName.valueOf("probe_t");

  /** While no region is in transition. */
  static void settled(Connection connection, Admin admin) {
    cluster(admin);
    switches(admin);
  }

  static void run(Connection connection, Admin admin) throws Exception {
    procedures(admin);
    try (Hbck hbck = connection.getHbck()) { repairs(hbck, admin); }
    splits(admin);
    snapshots(admin);
    quotas(admin);
    replication(admin);
    permissions(admin);
    logs(admin);
  }

  static void cluster(Admin admin) {
    probe("Admin.getClusterStatus", () -> admin.getClusterStatus().getServersSize());
    probe("Admin.getClusterMetrics", () -> admin.getClusterMetrics().getLiveServerMetrics());
    probe("Admin.getClusterMetrics parts", () -> admin.getClusterMetrics(EnumSet.of(ClusterMetrics.Option.MASTER, ClusterMetrics.Option.TABLE_TO_REGIONS_COUNT)).getMasterName().getClass().getSimpleName());
    probe("Admin.getMaster", () -> admin.getMaster());
    probe("Admin.getBackupMasters", () -> admin.getBackupMasters());
    probe("Admin.getRegionServers", () -> admin.getRegionServers());
    probe("Admin.getRegionServers without decommissioned", () -> admin.getRegionServers(true));
    probe("Admin.getMasterInfoPort", () -> admin.getMasterInfoPort());
    probe("Admin.getMasterCoprocessors", () -> admin.getMasterCoprocessors());
    probe("Admin.getMasterCoprocessorNames", () -> admin.getMasterCoprocessorNames());
    probe("Admin.listDeadServers", () -> admin.listDeadServers());
    probe("Admin.listUnknownServers", () -> admin.listUnknownServers());
    probe("Admin.clearDeadServers", () -> admin.clearDeadServers(List.of()));
    probe("Admin.clearDeadServers of one", () -> admin.clearDeadServers(List.of(ServerName.valueOf("nowhere,1,1"))));
    probe("Admin.isMasterInMaintenanceMode", () -> admin.isMasterInMaintenanceMode());
    probe("Admin.getSecurityCapabilities", () -> admin.getSecurityCapabilities());
    probe("Admin.updateConfiguration", () -> { admin.updateConfiguration(); return null; });
    probe("Admin.updateConfiguration server", () -> { admin.updateConfiguration(server); return null; });
    probe("Admin.rollWALWriter", () -> { admin.rollWALWriter(server); return null; });
    probe("Admin.decommissionRegionServers", () -> { admin.decommissionRegionServers(List.of(), false); return null; });
    probe("Admin.decommissionRegionServers one", () -> { admin.decommissionRegionServers(List.of(server), false); return admin.listDecommissionedRegionServers(); });
    probe("Admin.recommissionRegionServer", () -> { admin.recommissionRegionServer(server, List.of()); return null; });
    probe("Admin.listDecommissionedRegionServers", () -> admin.listDecommissionedRegionServers());
    probe("Admin.recommissionRegionServer unknown", () -> { admin.recommissionRegionServer(ServerName.valueOf("nowhere,1,1"), List.of()); return null; });
  }

  static void switches(Admin admin) {
    probe("Admin.setBalancerRunning", () -> admin.setBalancerRunning(false, true));
    probe("Admin.isBalancerEnabled", () -> admin.isBalancerEnabled());
    probe("Admin.balancerSwitch", () -> admin.balancerSwitch(true, true));
    probe("Admin.balancer", () -> admin.balancer());
    probe("Admin.balancer force", () -> admin.balancer(true));
    probe("Admin.balance", () -> admin.balance());
    probe("Admin.balance force", () -> admin.balance(true));
    probe("Admin.balance request", () -> some(admin.balance(BalanceRequest.newBuilder().setDryRun(true).build())));
    probe("Admin.normalize", () -> admin.normalize());
    probe("Admin.normalize filtered", () -> admin.normalize(new NormalizeTableFilterParams.Builder().tableNames(List.of(T)).build()));
    probe("Admin.isNormalizerEnabled", () -> admin.isNormalizerEnabled());
    probe("Admin.setNormalizerRunning", () -> admin.setNormalizerRunning(false));
    probe("Admin.normalize off", () -> admin.normalize());
    probe("Admin.normalizerSwitch", () -> admin.normalizerSwitch(true));
    probe("Admin.enableCatalogJanitor", () -> admin.enableCatalogJanitor(false));
    probe("Admin.catalogJanitorSwitch", () -> admin.catalogJanitorSwitch(true));
    probe("Admin.isCatalogJanitorEnabled", () -> admin.isCatalogJanitorEnabled());
    probe("Admin.runCatalogScan", () -> some(admin.runCatalogScan()));
    probe("Admin.runCatalogJanitor", () -> some(admin.runCatalogJanitor()));
    probe("Admin.setCleanerChoreRunning", () -> admin.setCleanerChoreRunning(false));
    probe("Admin.cleanerChoreSwitch", () -> admin.cleanerChoreSwitch(true));
    probe("Admin.isCleanerChoreEnabled", () -> admin.isCleanerChoreEnabled());
    probe("Admin.runCleanerChore", () -> admin.runCleanerChore());
    probe("Admin.setSplitOrMergeEnabled", () -> admin.setSplitOrMergeEnabled(false, true, MasterSwitchType.SPLIT));
    probe("Admin.isSplitOrMergeEnabled", () -> admin.isSplitOrMergeEnabled(MasterSwitchType.SPLIT));
    probe("Admin.splitSwitch", () -> admin.splitSwitch(true, true));
    probe("Admin.mergeSwitch", () -> admin.mergeSwitch(true, true));
    probe("Admin.isSplitEnabled", () -> admin.isSplitEnabled());
    probe("Admin.isMergeEnabled", () -> admin.isMergeEnabled());
    probe("Admin.snapshotCleanupSwitch", () -> { boolean was = admin.snapshotCleanupSwitch(false, true); admin.snapshotCleanupSwitch(true, true); return was; });
    probe("Admin.isSnapshotCleanupEnabled", () -> admin.isSnapshotCleanupEnabled());
    probe("Admin.switchRpcThrottle", () -> { boolean was = admin.switchRpcThrottle(false); admin.switchRpcThrottle(true); return was; });
    probe("Admin.isRpcThrottleEnabled", () -> admin.isRpcThrottleEnabled());
    probe("Admin.exceedThrottleQuotaSwitch", () -> admin.exceedThrottleQuotaSwitch(false));
    probe("Admin.replicationPeerModificationSwitch", () -> { boolean was = admin.replicationPeerModificationSwitch(false); admin.replicationPeerModificationSwitch(true); return was; });
    probe("Admin.isReplicationPeerModificationEnabled", () -> admin.isReplicationPeerModificationEnabled());
  }

  static void procedures(Admin admin) {
    probe("Admin.flushMasterStore", () -> { admin.flushMasterStore(); return null; });
    probe("Admin.getProcedures", () -> some(admin.getProcedures()));
    probe("Admin.getLocks", () -> some(admin.getLocks()));
    probe("Admin.abortProcedure", () -> admin.abortProcedure(1_000_000_007, true));
    probe("Admin.abortProcedureAsync", () -> admin.abortProcedureAsync(1_000_000_007, true));
    probe("Admin.execProcedure", () -> { admin.execProcedure("flush-table-proc", "probe_t", new HashMap<>()); return null; });
    probe("Admin.execProcedure unknown", () -> { admin.execProcedure("my-proc", "probe_t", new HashMap<>()); return null; });
    probe("Admin.execProcedureWithReturn unknown", () -> admin.execProcedureWithReturn("my-proc", "probe_t", new HashMap<>()));
    probe("Admin.execProcedureWithRet unknown", () -> admin.execProcedureWithRet("my-proc", "probe_t", new HashMap<>()));
    probe("Admin.isProcedureFinished", () -> admin.isProcedureFinished("flush-table-proc", "probe_t", new HashMap<>()));
    probe("Admin.isProcedureFinished unknown", () -> admin.isProcedureFinished("my-proc", "probe_t", new HashMap<>()));
  }

  static void repairs(Hbck hbck, Admin admin) {
    TableName h = TableName.valueOf("probe_h"), none = TableName.valueOf("probe_none");
    probe("Hbck.runHbckChore", () -> hbck.runHbckChore());
    probe("setup Hbck table", () -> { admin.createTable(table("probe_h", "f").build()); return null; });
    probe("Hbck.setTableStateInMeta", () -> hbck.setTableStateInMeta(new TableState(h, TableState.State.DISABLED)).getState());
    probe("Hbck.setTableStateInMeta shown", () -> admin.isTableDisabled(h));
    probe("Hbck.setTableStateInMeta same", () -> hbck.setTableStateInMeta(new TableState(h, TableState.State.DISABLED)).getState());
    probe("Hbck.setTableStateInMeta back", () -> hbck.setTableStateInMeta(new TableState(h, TableState.State.ENABLED)).getState());
    probe("Hbck.setTableStateInMeta shown again", () -> admin.isTableEnabled(h));
    probe("Hbck.setTableStateInMeta none", () -> hbck.setTableStateInMeta(new TableState(none, TableState.State.ENABLED)).getState());
    probe("Hbck.setRegionStateInMeta", () -> hbck.setRegionStateInMeta(Map.of()));
    probe("Hbck.assigns", () -> hbck.assigns(List.of("0123456789abcdef0123456789abcdef"), false));
    probe("Hbck.unassigns", () -> hbck.unassigns(List.of("0123456789abcdef0123456789abcdef"), false));
    probe("Hbck.bypassProcedure", () -> hbck.bypassProcedure(List.of(1_000_000_007L), 10, false, false));
    probe("Hbck.scheduleServerCrashProcedures", () -> hbck.scheduleServerCrashProcedures(List.of()));
    probe("Hbck.scheduleSCPsForUnknownServers", () -> hbck.scheduleSCPsForUnknownServers());
    probe("Hbck.fixMeta", () -> { hbck.fixMeta(); return null; });
    drop(admin, h);
  }

  /** A call that does not wait is followed until the regions show it, so that the next one meets the same regions on any machine. */
  static void splits(Admin admin) {
    byte[] unknown = b("0123456789abcdef0123456789abcdef");
    byte[][] merged = new byte[2][];
    probe("Admin.split none", () -> { admin.split(TableName.valueOf("probe_none")); return null; });
    probe("Admin.split", () -> { admin.split(T, b("d")); return until(() -> begins(admin, "d") != null); });
    probe("Admin.splitRegion", () -> { admin.splitRegion(begins(admin, "h").getRegionName(), b("j")); return until(() -> begins(admin, "j") != null); });
    probe("Admin.splitRegion unknown", () -> { admin.splitRegion(unknown); return null; });
    // Row k is in another region.
    probe("Admin.splitRegionAsync", () -> admin.splitRegionAsync(begins(admin, "d").getRegionName(), b("k")));
    probe("Admin.mergeRegions", () -> {
      merged[0] = begins(admin, "").getEncodedNameAsBytes();
      merged[1] = begins(admin, "d").getEncodedNameAsBytes();
      admin.mergeRegions(merged[0], merged[1], false);
      return until(() -> begins(admin, "d") == null);
    });
    // They are no more.
    probe("Admin.mergeRegionsAsync", () -> admin.mergeRegionsAsync(merged[0], merged[1], true));
    probe("Admin.mergeRegionsAsync unknown", () -> admin.mergeRegionsAsync(unknown, b("1123456789abcdef0123456789abcdef"), true));
  }

  static RegionInfo begins(Admin admin, String start) throws java.io.IOException {
    for (RegionInfo info : admin.getRegions(T)) if (Bytes.equals(info.getStartKey(), b(start))) return info;
    return null;
  }

  static void snapshots(Admin admin) {
    TableName clone = TableName.valueOf("probe_k");
    probe("Admin.listSnapshots", () -> admin.listSnapshots());
    probe("Admin.listSnapshots pattern", () -> admin.listSnapshots(Pattern.compile("probe_.*")));
    probe("Admin.listTableSnapshots", () -> admin.listTableSnapshots("probe_t", ".*"));
    probe("Admin.snapshot", () -> { admin.snapshot("probe_s1", T); return null; });
    probe("Admin.snapshot none", () -> { admin.snapshot("probe_s2", TableName.valueOf("probe_none")); return null; });
    probe("Admin.snapshotAsync", () -> admin.snapshotAsync(new SnapshotDescription("probe_s3", T)));
    probe("Admin.isSnapshotFinished", () -> admin.isSnapshotFinished(new SnapshotDescription("probe_s1", T)));
    probe("Admin.cloneSnapshot", () -> { admin.cloneSnapshot("probe_s1", clone); drop(admin, clone); return null; });
    probe("Admin.cloneSnapshotAsync", () -> admin.cloneSnapshotAsync("probe_none", clone));
    probe("Admin.restoreSnapshot none", () -> { admin.restoreSnapshot("probe_none"); return null; });
    probe("Admin.restoreSnapshotAsync none", () -> admin.restoreSnapshotAsync("probe_none"));
    probe("Admin.deleteSnapshot", () -> { admin.deleteSnapshot("probe_s1"); return null; });
    probe("Admin.deleteSnapshot none", () -> { admin.deleteSnapshot("probe_none"); return null; });
    probe("Admin.deleteSnapshots none", () -> { admin.deleteSnapshots(Pattern.compile("probe_none.*")); return null; });
    probe("Admin.deleteTableSnapshots none", () -> { admin.deleteTableSnapshots("probe_none", ".*"); return null; });
  }

  static void quotas(Admin admin) {
    probe("Admin.getQuota", () -> admin.getQuota(new QuotaFilter()));
    probe("Admin.getQuotaRetriever", () -> { try (QuotaRetriever all = admin.getQuotaRetriever(new QuotaFilter())) { return some(all.next()); } });
    probe("Admin.setQuota", () -> { admin.setQuota(QuotaSettingsFactory.throttleTable(T, ThrottleType.REQUEST_NUMBER, 100, java.util.concurrent.TimeUnit.SECONDS)); return null; });
    probe("Admin.getSpaceQuotaTableSizes", () -> admin.getSpaceQuotaTableSizes());
    probe("Admin.getRegionServerSpaceQuotaSnapshots", () -> admin.getRegionServerSpaceQuotaSnapshots(server));
    probe("Admin.getCurrentSpaceQuotaSnapshot", () -> admin.getCurrentSpaceQuotaSnapshot(T));
    probe("Admin.getCurrentSpaceQuotaSnapshot namespace", () -> admin.getCurrentSpaceQuotaSnapshot("default"));
  }

  static void replication(Admin admin) {
    ReplicationPeerConfig peer = ReplicationPeerConfig.newBuilder().setClusterKey("127.0.0.1:2999:/hbase").build();
    probe("Admin.listReplicationPeers", () -> admin.listReplicationPeers());
    probe("Admin.addReplicationPeer", () -> { admin.addReplicationPeer("probe1", peer); return null; });
    probe("Admin.addReplicationPeerAsync", () -> admin.addReplicationPeerAsync("probe2", peer, false));
    probe("Admin.getReplicationPeerConfig", () -> some(admin.getReplicationPeerConfig("probe1")));
    probe("Admin.getReplicationPeerConfig none", () -> admin.getReplicationPeerConfig("probenone"));
    probe("Admin.updateReplicationPeerConfig", () -> { admin.updateReplicationPeerConfig("probe1", peer); return null; });
    probe("Admin.updateReplicationPeerConfigAsync", () -> admin.updateReplicationPeerConfigAsync("probenone", peer));
    probe("Admin.appendReplicationPeerTableCFs", () -> { admin.appendReplicationPeerTableCFs("probe1", Map.of(T, List.of("f"))); return null; });
    probe("Admin.removeReplicationPeerTableCFs", () -> { admin.removeReplicationPeerTableCFs("probe1", Map.of(T, List.of("f"))); return null; });
    probe("Admin.isReplicationPeerEnabled", () -> admin.isReplicationPeerEnabled("probe1"));
    probe("Admin.isReplicationPeerEnabled none", () -> admin.isReplicationPeerEnabled("probenone"));
    probe("Admin.disableReplicationPeer", () -> { admin.disableReplicationPeer("probe1"); return null; });
    probe("Admin.disableReplicationPeerAsync", () -> admin.disableReplicationPeerAsync("probe2"));
    probe("Admin.enableReplicationPeer", () -> { admin.enableReplicationPeer("probe1"); return null; });
    probe("Admin.enableReplicationPeerAsync", () -> admin.enableReplicationPeerAsync("probe2"));
    probe("Admin.listReplicatedTableCFs", () -> admin.listReplicatedTableCFs());
    probe("Admin.removeReplicationPeer", () -> { admin.removeReplicationPeer("probe1"); return null; });
    probe("Admin.removeReplicationPeerAsync", () -> admin.removeReplicationPeerAsync("probe2"));
    probe("Admin.removeReplicationPeer none", () -> { admin.removeReplicationPeer("probenone"); return null; });
  }

  static void permissions(Admin admin) {
    UserPermission read = new UserPermission("somebody", Permission.newBuilder(T).withActions(Permission.Action.READ).build());
    probe("Admin.grant", () -> { admin.grant(read, false); return null; });
    probe("Admin.revoke", () -> { admin.revoke(read); return null; });
    probe("Admin.getUserPermissions", () -> admin.getUserPermissions(GetUserPermissionsRequest.newBuilder(T).build()));
    probe("Admin.hasUserPermissions", () -> admin.hasUserPermissions(List.of(Permission.newBuilder(T).withActions(Permission.Action.READ).build())));
  }

  static void logs(Admin admin) {
    probe("Admin.getSlowLogResponses", () -> some(admin.getSlowLogResponses(Set.of(server), new LogQueryFilter())));
    probe("Admin.clearSlowLogResponses", () -> admin.clearSlowLogResponses(Set.of(server)));
    probe("Admin.getLogEntries", () -> some(admin.getLogEntries(Set.of(server), "SLOW_LOG", ServerType.REGION_SERVER, 10, new HashMap<>())));
    probe("Admin.getLogEntries of the master", () -> some(admin.getLogEntries(null, "BALANCER_DECISION", ServerType.MASTER, 10, new HashMap<>())));
  }
}
