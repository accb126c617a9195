//! A client that says what it likes: messages as they are on the wire, to a server in simulation that has one table of one region.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cadastre_client::{Client, ClientConfig, Registry};
use cadastre_env::{Clock, Env, HostPort};
use cadastre_rpc::Connections;
use cadastre_sim::{DiskConfig, Fault, SimEnv, World, WorldConfig};
use cadastre_types::{
    Cell, Code, FamilyDescriptor, LATEST_TIMESTAMP, Result, TableDescriptor, TableName,
};
use cadastre_wire::cells::{CellReader, Codec};
use cadastre_wire::{Message, Service, convert, decode, encode, pb};

use super::apart::{REGION_SERVER_PORT, SERVER, ZOOKEEPER, server, zookeeper};

const PACKAGE: &str = "org.apache.hadoop.hbase.filter.";
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn text(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

pub(crate) fn cell_in(family: &str, row: &str, qualifier: &str, value: &str) -> Cell {
    let [row, family, qualifier, value] = [row, family, qualifier, value].map(text);
    Cell::put(row, family, qualifier, LATEST_TIMESTAMP, value)
}

pub(crate) fn cell(row: &str, qualifier: &str, value: &str) -> Cell {
    cell_in("f", row, qualifier, value)
}

fn filter(class: &str, message: &impl Message) -> pb::Filter {
    pb::Filter {
        name: format!("{PACKAGE}{class}"),
        serialized_filter: Some(encode(message)),
    }
}

fn binary(value: &str) -> pb::Comparator {
    let comparable = pb::ByteArrayComparable {
        value: Some(text(value)),
    };
    pb::Comparator {
        name: format!("{PACKAGE}BinaryComparator"),
        serialized_comparator: Some(encode(&pb::BinaryComparator { comparable })),
    }
}

/// Only cells of this value.
pub(crate) fn only_value(value: &str) -> pb::Filter {
    let compare_filter = pb::CompareFilter {
        compare_op: pb::CompareType::Equal as i32,
        comparator: Some(binary(value)),
    };
    filter("ValueFilter", &pb::ValueFilter { compare_filter })
}

/// Nothing that was stored.
pub(crate) fn drops_all() -> pb::Filter {
    only_value("nobody stores this")
}

pub(crate) fn page(page_size: i64) -> pb::Filter {
    filter("PageFilter", &pb::PageFilter { page_size })
}

/// The names and numbers that a scan was told.
pub(crate) fn metrics(answer: &pb::ScanResponse) -> BTreeMap<String, i64> {
    let told = answer.scan_metrics.as_ref().unwrap().metrics.iter();
    told.map(|it| (it.name.clone().unwrap(), it.value.unwrap()))
        .collect()
}

/// An answer with its cell block.
#[derive(Debug)]
pub(crate) struct Scanned {
    pub(crate) answer: pb::ScanResponse,
    cells: Bytes,
}

#[derive(Clone)]
pub(crate) struct Wire {
    pub(crate) env: SimEnv,
    client: Client<SimEnv>,
    connections: Connections<SimEnv>,
    table: TableName,
    region: pb::RegionSpecifier,
}

impl Wire {
    async fn connect(env: SimEnv) -> Self {
        let to = HostPort::new(SERVER, REGION_SERVER_PORT);
        let registry = Registry::Rpc(vec![to]);
        let client = Client::connect(env.clone(), registry, ClientConfig::default()).unwrap();
        let table = TableName::parse("t").unwrap();
        let descriptor = TableDescriptor::new(table.clone())
            .with_family(FamilyDescriptor::new("f").with("VERSIONS", "1"))
            .with_family(FamilyDescriptor::new("g"));
        while client
            .admin()
            .create_table(&descriptor, Vec::new())
            .await
            .err()
            .is_some_and(|error| error.code() != Code::TableExists)
        {
            env.clock().sleep(Duration::from_millis(200)).await;
        }
        let located = client.locate(&table, &text("r"), false).await.unwrap();
        Self {
            connections: Connections::new(env.clone(), "test"),
            region: convert::region_specifier(&located.region),
            env,
            client,
            table,
        }
    }

    async fn call(
        &self,
        service: Service,
        method: &'static str,
        param: &impl Message,
    ) -> Result<(Bytes, Bytes)> {
        let to = HostPort::new(SERVER, REGION_SERVER_PORT);
        self.connections
            .call(&to, service, method, encode(param), Bytes::new(), PATIENCE)
            .await
    }

    async fn ask<M: Message + Default>(&self, method: &'static str, param: &impl Message) -> M {
        let (body, _) = self.call(Service::Client, method, param).await.unwrap();
        decode(body).unwrap()
    }

    pub(crate) async fn put(&self, cells: &[Cell]) {
        for cell in cells {
            self.client
                .put(&self.table, vec![cell.clone()])
                .await
                .unwrap();
        }
    }

    /// All is in one file afterwards, and nothing is in memory.
    pub(crate) async fn flush_and_compact(&self) {
        let admin = self.client.admin();
        admin.flush_table(&self.table).await.unwrap();
        let (before, _) = self.region_load().await;
        admin.compact_table(&self.table, None, true).await.unwrap();
        loop {
            let (load, _) = self.region_load().await;
            if load.last_major_compaction_ts > before.last_major_compaction_ts {
                return;
            }
            self.env.clock().sleep(Duration::from_millis(100)).await;
        }
    }

    /// Of the table's region, and of the server.
    pub(crate) async fn region_load(&self) -> (pb::RegionLoad, pb::ServerLoad) {
        let request = pb::GetRegionLoadRequest {
            table_name: Some(convert::table_name_pb(&self.table)),
        };
        let asked = self.call(Service::Admin, "GetRegionLoad", &request).await;
        let answer: pb::GetRegionLoadResponse = decode(asked.unwrap().0).unwrap();
        let [load] = &answer.region_loads[..] else {
            panic!("the table has one region");
        };
        (load.clone(), answer.server_load.unwrap())
    }

    pub(crate) async fn get(&self, get: pb::Get) -> pb::GetResponse {
        let region = self.region.clone();
        self.ask("Get", &pb::GetRequest { region, get }).await
    }

    async fn multi(&self, action: pb::RegionAction) -> pb::RegionActionResult {
        let request = pb::MultiRequest {
            region_action: vec![action],
            ..Default::default()
        };
        let mut answer: pb::MultiResponse = self.ask("Multi", &request).await;
        answer.region_action_result.remove(0)
    }

    pub(crate) async fn gets(&self, gets: &[pb::Get]) -> Vec<pb::ResultOrException> {
        let action = |get: &pb::Get| pb::Action {
            get: Some(get.clone()),
            ..Default::default()
        };
        let asked = pb::RegionAction {
            region: self.region.clone(),
            action: gets.iter().map(action).collect(),
            ..Default::default()
        };
        self.multi(asked).await.result_or_exception
    }

    /// If column `a` of the row has the expected value, the same is put again.
    fn condition(row: &str, expected: &str, metrics: Option<bool>) -> (pb::Condition, Cell) {
        let condition = pb::Condition {
            row: text(row),
            family: Some(text("f")),
            qualifier: Some(text("a")),
            compare_type: Some(pb::CompareType::Equal as i32),
            comparator: Some(binary(expected)),
            query_metrics_enabled: metrics,
            ..Default::default()
        };
        (condition, cell(row, "a", expected))
    }

    fn mutation(cell: Cell) -> pb::MutationProto {
        let mutation =
            cadastre_client::new_mutation(cadastre_types::MutationKind::Put, cell.row.clone());
        convert::mutation_pb(&cadastre_types::Mutation {
            cells: vec![cell],
            ..mutation
        })
    }

    pub(crate) async fn check_and_put(
        &self,
        row: &str,
        expected: &str,
        metrics: Option<bool>,
    ) -> pb::MutateResponse {
        let (condition, put) = Self::condition(row, expected, metrics);
        let request = pb::MutateRequest {
            region: self.region.clone(),
            mutation: Self::mutation(put),
            condition: Some(condition),
            nonce_group: None,
        };
        self.ask("Mutate", &request).await
    }

    pub(crate) async fn check_and_put_in_batch(
        &self,
        row: &str,
        expected: &str,
    ) -> pb::RegionActionResult {
        let (condition, put) = Self::condition(row, expected, Some(true));
        let action = pb::RegionAction {
            region: self.region.clone(),
            action: vec![pb::Action {
                mutation: Some(Self::mutation(put)),
                ..Default::default()
            }],
            condition: Some(condition),
            ..Default::default()
        };
        self.multi(action).await
    }

    /// To open a scanner and take so many results.
    pub(crate) fn open(&self, scan: pb::Scan, rows: u32) -> pb::ScanRequest {
        pb::ScanRequest {
            region: Some(self.region.clone()),
            scan: Some(scan),
            number_of_rows: Some(rows),
            client_handles_partials: Some(true),
            client_handles_heartbeats: Some(true),
            ..Default::default()
        }
    }

    /// For the next results of a scanner.
    pub(crate) fn next_rows(&self, id: u64, seq: u64, rows: u32) -> pb::ScanRequest {
        pb::ScanRequest {
            scanner_id: Some(id),
            number_of_rows: Some(rows),
            next_call_seq: Some(seq),
            client_handles_partials: Some(true),
            client_handles_heartbeats: Some(true),
            ..Default::default()
        }
    }

    /// For the next result of a scanner.
    pub(crate) fn next(&self, id: u64, seq: u64) -> pb::ScanRequest {
        self.next_rows(id, seq, 1)
    }

    pub(crate) fn close(&self, id: u64) -> pb::ScanRequest {
        pb::ScanRequest {
            scanner_id: Some(id),
            number_of_rows: Some(0),
            close_scanner: Some(true),
            ..Default::default()
        }
    }

    pub(crate) async fn scan(&self, request: pb::ScanRequest) -> Result<Scanned> {
        let (body, cells) = self.call(Service::Client, "Scan", &request).await?;
        let answer = decode(body)?;
        Ok(Scanned { answer, cells })
    }

    /// Of the cells of an answer.
    pub(crate) fn values(&self, scanned: &Scanned) -> Vec<String> {
        let counts = scanned.answer.cells_per_result.iter();
        let count: u32 = counts.sum();
        let mut reader = CellReader::new(scanned.cells.clone(), Codec::KeyValue);
        let cells = reader.take_cells(count as usize).unwrap();
        let value = |cell: &Cell| String::from_utf8(cell.value.to_vec()).unwrap();
        cells.iter().map(value).collect()
    }

    pub(crate) async fn aggregate(&self, method: &str, scan: pb::Scan) -> pb::AggregateResponse {
        let request = pb::AggregateRequest {
            interpreter_class_name:
                "org.apache.hadoop.hbase.client.coprocessor.LongColumnInterpreter".to_owned(),
            scan,
            ..Default::default()
        };
        let call = pb::CoprocessorServiceRequest {
            region: self.region.clone(),
            call: pb::CoprocessorServiceCall {
                row: text("r"),
                service_name: "AggregateService".to_owned(),
                method_name: method.to_owned(),
                request: encode(&request),
            },
        };
        let answer: pb::CoprocessorServiceResponse = self.ask("ExecService", &call).await;
        decode(answer.value.value.unwrap_or_default()).unwrap()
    }
}

/// Runs a history of one client at a server; panics where the history does.
pub(crate) fn run<F>(seed: u64, history: fn(Wire) -> F)
where
    F: Future<Output = ()> + 'static,
{
    let config = WorldConfig {
        disk: DiskConfig {
            capacity_bytes: 64 << 30,
            ..DiskConfig::default()
        },
        ..WorldConfig::default()
    };
    let mut world = World::new(seed, config);
    let service = world.add_node(ZOOKEEPER, |env| Box::pin(zookeeper(env)));
    let serving = world.add_node(SERVER, move |env| Box::pin(server(env, |_| {})));
    let done = Arc::new(Mutex::new(false));
    let told = Arc::clone(&done);
    let asking = world.add_node("client", move |env| {
        let told = Arc::clone(&told);
        Box::pin(async move {
            history(Wire::connect(env).await).await;
            *told.lock().unwrap() = true;
        })
    });
    for node in [service, serving, asking] {
        world.apply(&Fault::Start { node });
    }
    let ended = world
        .run_while(Duration::from_secs(1_000), |_| !*done.lock().unwrap())
        .unwrap_or_else(|failure| panic!("{failure}"));
    assert!(ended, "no end: {:?}", world.exits());
}
