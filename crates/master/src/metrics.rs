//! What the master counts (names as in docs/operations.md: `cadastre_master_…`).

use std::time::Duration;

use metrics::{counter, gauge, histogram};

use crate::procedure::Operation;

/// A procedure has ended.
pub(crate) fn procedure_ended(operation: &Operation, took: Duration) {
    let class = operation.class_name();
    let short = class.rsplit('.').next().unwrap_or_default().to_owned();
    counter!("cadastre_master_procedures_total", "class" => short.clone()).increment(1);
    histogram!("cadastre_master_procedure_seconds", "class" => short).record(took);
}

/// Procedures under way now.
pub(crate) fn procedures_running(count: usize) {
    gauge!("cadastre_master_procedures_running").set(count as f64);
}

/// What a pass of the reconciler found.
pub(crate) fn reconciled(live_servers: usize, homeless: usize, strays: usize) {
    gauge!("cadastre_master_region_servers").set(live_servers as f64);
    gauge!("cadastre_master_regions_without_server").set(homeless as f64);
    counter!("cadastre_master_regions_reassigned_total").increment(homeless as u64);
    counter!("cadastre_master_stray_regions_total").increment(strays as u64);
}

/// What a check of `hbase:meta` found that somebody asked for.
pub(crate) fn checked(faults: usize) {
    gauge!("cadastre_master_meta_faults").set(faults as f64);
}

/// A batch on `hbase:meta` had to be tried again.
pub(crate) fn meta_write_failed() {
    counter!("cadastre_master_meta_write_failures_total").increment(1);
}

/// Regions that were split or merged were closed for so long.
pub(crate) fn held(held: Duration) {
    histogram!("cadastre_master_hold_seconds").record(held);
}
