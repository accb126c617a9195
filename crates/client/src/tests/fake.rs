//! A cluster of a few servers on ports of their own, over one world in memory. Each server is a region server, a registry and,
//! the first one, the active master. It does what a test scripts, and counts what it is asked.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::{Bytes, BytesMut};
use cadastre_env::{Env, HostPort, Listener, Net, RealEnv};
use cadastre_rpc::{Call, Handler, Reply, ServerConfig, serve};
use cadastre_types::{
    Cell, CellType, Code, Detail, EncodedName, Error, MovedTo, Mutation, MutationKind, RegionInfo,
    Result, Scan, ServerName, TableDescriptor, TableName, TableState,
};
use cadastre_wire::cells::{CellReader, Codec, write_cell};
use cadastre_wire::meta::{self, MetaEntry};
use cadastre_wire::{Service, convert, decode, encode, exception, pb};
use tokio::sync::watch;

use crate::locate::KeyOrder;
use crate::{Registry, notation};

/// Rows of one scan answer.
const SCAN_ROWS: usize = 4;

/// Cells after which an answer cuts a row.
const SCAN_CELLS: usize = 5;

/// What happens to the next call of a method.
pub(super) enum Fault {
    /// It fails and is not executed.
    Fail(Error),
    /// It is executed and never answered.
    Deaf,
    /// It is not executed and never answered.
    Hang,
}

#[derive(Default)]
pub(super) struct World {
    regions: BTreeMap<TableName, Vec<Region>>,
    states: BTreeMap<TableName, TableState>,
    /// With three tiers: regions of `hbase:meta` and their servers, as the root on server 0 has them. Empty: one region, on server 0.
    meta_regions: Vec<(RegionInfo, usize)>,
    pub(super) rows: BTreeMap<(TableName, Bytes), Vec<Cell>>,
    nonces: BTreeMap<(u64, u64), Vec<Cell>>,
    pub(super) faults: BTreeMap<String, VecDeque<Fault>>,
    /// Calls by what they were for.
    pub(super) counts: BTreeMap<String, usize>,
    scanners: BTreeMap<u64, OpenScan>,
    next_scanner: u64,
    pub(super) descriptors: BTreeMap<TableName, TableDescriptor>,
    procedures: BTreeMap<u64, u32>,
    pub(super) master: usize,
    /// Actions of a Multi that are done, 0 for all; the others are to be sent again.
    pub(super) actions_max: usize,
    /// Scans of `hbase:meta` that were being answered at the same time, now and at most.
    at_once: usize,
    pub(super) most_at_once: usize,
    /// Answer some scans with nothing but a heartbeat.
    pub(super) heartbeats: bool,
}

#[derive(Clone)]
struct Region {
    info: RegionInfo,
    server: usize,
    seq: u64,
    state: &'static str,
    /// Where it went, told to those who still ask here.
    moved_from: Option<usize>,
}

struct OpenScan {
    server: usize,
    region: RegionInfo,
    left: VecDeque<Cell>,
    next_call_seq: u64,
}

pub(super) struct Cluster {
    world: Mutex<World>,
    pub(super) servers: Vec<ServerName>,
    _stop: Vec<watch::Sender<bool>>,
}

impl Cluster {
    pub(super) async fn start(env: &RealEnv, servers: usize) -> Arc<Self> {
        let mut names = Vec::new();
        let mut listeners = Vec::new();
        for start_code in 1..=servers {
            let listener = env
                .net()
                .listen("127.0.0.1:0".parse().unwrap())
                .await
                .unwrap();
            names.push(ServerName {
                host: "127.0.0.1".to_owned(),
                port: listener.local_addr().port(),
                start_code: start_code as u64,
            });
            listeners.push(listener);
        }
        let (stops, stopped): (Vec<_>, Vec<_>) =
            (0..servers).map(|_| watch::channel(false)).unzip();
        let cluster = Arc::new(Self {
            world: Mutex::default(),
            servers: names,
            _stop: stops,
        });
        for (index, (listener, stop)) in listeners.into_iter().zip(stopped).enumerate() {
            let server = Arc::new(Server {
                cluster: Arc::clone(&cluster),
                index,
            });
            env.spawn(
                "fake",
                serve(env.clone(), listener, server, ServerConfig::default(), stop),
            );
        }
        cluster
    }

    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    pub(super) fn address(&self, index: usize) -> HostPort {
        HostPort::new(self.servers[index].host.clone(), self.servers[index].port)
    }

    pub(super) fn registry(&self) -> Registry {
        Registry::Rpc(vec![self.address(0)])
    }

    /// A table with regions at these keys, spread over the servers, the first one on server 0.
    pub(super) fn create(&self, name: &TableName, splits: &[&str]) {
        let keys = || {
            splits
                .iter()
                .map(|key| Bytes::copy_from_slice(key.as_bytes()))
        };
        let starts = std::iter::once(Bytes::new()).chain(keys());
        let ends = keys().chain(std::iter::once(Bytes::new()));
        let regions = starts
            .zip(ends)
            .enumerate()
            .map(|(index, (start, end))| Region {
                info: RegionInfo::new(name.clone(), start, end, 1_000),
                server: index % self.servers.len(),
                seq: 2,
                state: "OPEN",
                moved_from: None,
            })
            .collect();
        let mut world = self.world();
        world.regions.insert(name.clone(), regions);
        world.states.insert(name.clone(), TableState::Enabled);
    }

    /// Splits `hbase:meta` at a row, its parts on servers 1 and 2; the root that says so is on server 0.
    pub(super) fn split_meta(&self, at: &str) {
        let key = Bytes::copy_from_slice(at.as_bytes());
        let region = |start, end| RegionInfo::new(TableName::meta(), start, end, 1);
        self.world().meta_regions = vec![
            (region(Bytes::new(), key.clone()), 1),
            (region(key, Bytes::new()), 2),
        ];
    }

    /// Moves a region of `hbase:meta`.
    pub(super) fn move_meta(&self, index: usize, to: usize) {
        self.world().meta_regions[index].1 = to;
    }

    /// Moves the region that holds a row; its old server says where to, or only that it is not there.
    pub(super) fn move_region(&self, name: &TableName, row: &str, to: usize, told: bool) {
        let mut world = self.world();
        let regions = world.regions.get_mut(name).unwrap();
        let region = regions
            .iter_mut()
            .find(|region| region.info.contains(row.as_bytes()))
            .unwrap();
        region.moved_from = told.then_some(region.server);
        region.server = to;
        region.seq += 10;
    }

    /// Splits the region that holds a key, at that key.
    pub(super) fn split(&self, name: &TableName, at: &str) {
        let mut world = self.world();
        let regions = world.regions.get_mut(name).unwrap();
        let place = regions
            .iter()
            .position(|region| region.info.contains(at.as_bytes()) && region.state == "OPEN")
            .unwrap();
        let key = Bytes::copy_from_slice(at.as_bytes());
        let parent = regions[place].clone();
        let daughter = |start: Bytes, end: Bytes| Region {
            info: RegionInfo::new(name.clone(), start, end, parent.info.region_id + 1),
            seq: parent.seq + 1,
            moved_from: None,
            ..parent.clone()
        };
        regions.push(daughter(parent.info.start_key.clone(), key.clone()));
        regions.push(daughter(key, parent.info.end_key.clone()));
        regions[place].state = "SPLIT";
        regions[place].info.split = true;
        regions[place].info.offline = true;
    }

    pub(super) fn set_state(
        &self,
        name: &TableName,
        region_state: &'static str,
        table_state: TableState,
    ) {
        let mut world = self.world();
        for region in world.regions.get_mut(name).unwrap() {
            region.state = region_state;
        }
        world.states.insert(name.clone(), table_state);
    }

    pub(super) fn fault(&self, method: &str, fault: Fault) {
        let mut world = self.world();
        world
            .faults
            .entry(method.to_owned())
            .or_default()
            .push_back(fault);
    }

    pub(super) fn count(&self, what: &str) -> usize {
        self.world().counts.get(what).copied().unwrap_or(0)
    }

    pub(super) fn reset_counts(&self) {
        self.world().counts.clear();
    }
}

struct Server {
    cluster: Arc<Cluster>,
    index: usize,
}

impl Handler for Server {
    fn serves(&self, _service: Service) -> bool {
        true
    }

    fn cluster_id(&self) -> String {
        "fake".to_owned()
    }

    async fn call(&self, call: Call) -> Result<Reply> {
        let what = self.purpose(&call);
        let fault = {
            let mut world = self.cluster.world();
            *world.counts.entry(what.clone()).or_default() += 1;
            world.faults.get_mut(&what).and_then(VecDeque::pop_front)
        };
        match fault {
            Some(Fault::Fail(error)) => return Err(error),
            Some(Fault::Hang) => std::future::pending().await,
            Some(Fault::Deaf) => {
                self.answer(&call).unwrap();
                std::future::pending().await
            }
            None => {}
        }
        if what != "meta-scan" {
            return self.answer(&call);
        }
        {
            let mut world = self.cluster.world();
            world.at_once += 1;
            world.most_at_once = world.most_at_once.max(world.at_once);
        }
        // Others that are under way get here, too.
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        self.cluster.world().at_once -= 1;
        self.answer(&call)
    }
}

impl Server {
    /// `meta-scan`, `meta-get`, `registry` or the method.
    fn purpose(&self, call: &Call) -> String {
        let on_meta = |region: &pb::RegionSpecifier| {
            EncodedName::from_specifier(&region.value).as_str() == cadastre_types::META_ENCODED_NAME
                || region.value.starts_with(b"hbase:meta,")
        };
        let on_root = |region: &pb::RegionSpecifier| region.value == root().name();
        match (call.service, call.method.as_str()) {
            (Service::ClientMeta, "GetMetaRegionLocations") => "registry".to_owned(),
            (Service::Client, "Scan") => {
                let scan: pb::ScanRequest = decode(call.param.clone()).unwrap();
                let region = scan.region.as_ref();
                if region.is_some_and(on_meta) {
                    "meta-scan"
                } else if region.is_some_and(on_root) {
                    "root-scan"
                } else {
                    "Scan"
                }
                .to_owned()
            }
            (Service::Client, "Get") => {
                let get: pb::GetRequest = decode(call.param.clone()).unwrap();
                if on_meta(&get.region) {
                    "meta-get"
                } else {
                    "Get"
                }
                .to_owned()
            }
            (_, method) => method.to_owned(),
        }
    }

    fn answer(&self, call: &Call) -> Result<Reply> {
        match (call.service, call.method.as_str()) {
            (Service::ClientMeta, method) => self.registry(method),
            (Service::Client, "Get") => self.get(call),
            (Service::Client, "Mutate") => self.mutate(call),
            (Service::Client, "Multi") => self.multi(call),
            (Service::Client, "Scan") => self.scan(call),
            (Service::Master, method) => self.master(method, call),
            _ => Err(Error::unsupported(&call.method)),
        }
    }

    fn registry(&self, method: &str) -> Result<Reply> {
        let world = self.cluster.world();
        let body = match method {
            "GetMetaRegionLocations" => encode(&pb::GetMetaRegionLocationsResponse {
                meta_locations: vec![pb::RegionLocation {
                    region_info: convert::region_info_pb(&RegionInfo::meta()),
                    server_name: Some(convert::server_name_pb(&self.cluster.servers[0])),
                    seq_num: 1,
                }],
            }),
            "GetActiveMaster" => encode(&pb::GetActiveMasterResponse {
                server_name: Some(convert::server_name_pb(&self.cluster.servers[world.master])),
            }),
            "GetClusterId" => encode(&pb::GetClusterIdResponse {
                cluster_id: Some("fake".to_owned()),
            }),
            _ => return Err(Error::unsupported(method)),
        };
        Ok(reply(body))
    }

    /// The region, if it is here.
    fn region(&self, world: &World, specifier: &pb::RegionSpecifier) -> Result<RegionInfo> {
        let name = EncodedName::from_specifier(&specifier.value);
        let found = world
            .regions
            .values()
            .flatten()
            .find(|region| region.info.encoded_name() == name);
        match found {
            Some(region) if region.server == self.index && region.state == "OPEN" => {
                Ok(region.info.clone())
            }
            Some(region) if region.moved_from == Some(self.index) => {
                let to = MovedTo {
                    server: self.cluster.servers[region.server].clone(),
                    sequence_number: region.seq,
                };
                Err(Error::new(Code::RegionMoved, "moved").with_detail(Detail::Moved(to)))
            }
            _ => Err(Error::new(
                Code::NotServingRegion,
                notation::to_text(&specifier.value),
            )),
        }
    }

    fn get(&self, call: &Call) -> Result<Reply> {
        let request: pb::GetRequest = decode(call.param.clone())?;
        let world = self.cluster.world();
        let row = request.get.row.clone();
        let cells = if request.region.value == RegionInfo::meta().name() {
            let name = TableName::parse(std::str::from_utf8(&row).unwrap())?;
            let state = world.states.get(&name);
            state
                .map(|state| meta::table_state_cell(&name, *state))
                .into_iter()
                .collect()
        } else {
            let region = self.region(&world, &request.region)?;
            in_region(&region, &row)?;
            world
                .rows
                .get(&(region.table, row))
                .cloned()
                .unwrap_or_default()
        };
        let (result, block) = counted(&cells);
        Ok(Reply {
            body: encode(&pb::GetResponse {
                result: Some(result),
            }),
            cells: block,
        })
    }

    fn mutate(&self, call: &Call) -> Result<Reply> {
        let request: pb::MutateRequest = decode(call.param.clone())?;
        let mut reader = CellReader::new(call.cells.clone(), Codec::KeyValue);
        let mutation = convert::mutation(&request.mutation, &mut reader)?;
        let mut world = self.cluster.world();
        let region = self.region(&world, &request.region)?;
        let mut processed = true;
        if let Some(condition) = &request.condition {
            // The only condition that tests use: the row does not exist.
            assert_eq!(condition.row, mutation.row);
            let key = (region.table.clone(), mutation.row.clone());
            processed = !world.rows.contains_key(&key);
        }
        let cells = if processed {
            apply(
                &mut world,
                &region,
                &mutation,
                request.nonce_group.unwrap_or(0),
            )?
        } else {
            Vec::new()
        };
        Ok(reply(encode(&pb::MutateResponse {
            result: (!cells.is_empty()).then(|| convert::result_pb(&cells)),
            processed: Some(processed),
            metrics: None,
        })))
    }

    fn multi(&self, call: &Call) -> Result<Reply> {
        let request: pb::MultiRequest = decode(call.param.clone())?;
        let mut reader = CellReader::new(call.cells.clone(), Codec::KeyValue);
        let mut world = self.cluster.world();
        let mut block = BytesMut::new();
        let mut results = Vec::new();
        let mut done = 0;
        for action in &request.region_action {
            let region = self.region(&world, &action.region);
            let mut one_result = pb::RegionActionResult::default();
            for one in &action.action {
                let mutation = one
                    .mutation
                    .as_ref()
                    .map(|mutation| convert::mutation(mutation, &mut reader))
                    .transpose()?;
                let Ok(region) = &region else {
                    continue;
                };
                done += 1;
                let is_over = world.actions_max > 0 && done > world.actions_max;
                let outcome = match (mutation, &one.get) {
                    _ if is_over => Err(Error::new(Code::MultiActionResultTooLarge, "again")),
                    (Some(mutation), _) => apply(
                        &mut world,
                        region,
                        &mutation,
                        request.nonce_group.unwrap_or(0),
                    ),
                    (None, Some(get)) => {
                        let key = (region.table.clone(), get.row.clone());
                        Ok(world.rows.get(&key).cloned().unwrap_or_default())
                    }
                    (None, None) => panic!("an action without anything"),
                };
                one_result.result_or_exception.push(match outcome {
                    Ok(cells) => {
                        for cell in &cells {
                            write_cell(&mut block, cell, Codec::KeyValue);
                        }
                        pb::ResultOrException {
                            index: one.index,
                            result: Some(convert::result_by_count(cells.len())?),
                            ..Default::default()
                        }
                    }
                    Err(error) => pb::ResultOrException {
                        index: one.index,
                        exception: Some(exception::to_pair(&error)),
                        ..Default::default()
                    },
                });
            }
            if let Err(error) = region {
                one_result.exception = Some(exception::to_pair(&error));
            }
            results.push(one_result);
        }
        Ok(Reply {
            body: encode(&pb::MultiResponse {
                region_action_result: results,
                ..Default::default()
            }),
            cells: block.freeze(),
        })
    }

    fn scan(&self, call: &Call) -> Result<Reply> {
        let request: pb::ScanRequest = decode(call.param.clone())?;
        let mut world = self.cluster.world();
        let (id, mut open) = match request.scanner_id {
            Some(id) => {
                let open = world
                    .scanners
                    .remove(&id)
                    .filter(|open| open.server == self.index)
                    .ok_or_else(|| Error::new(Code::UnknownScanner, id.to_string()))?;
                if request.close_scanner() {
                    return Ok(reply(encode(&pb::ScanResponse::default())));
                }
                // The region may have gone meanwhile.
                let specifier = convert::region_specifier(&open.region);
                self.region(&world, &specifier)?;
                assert_eq!(request.next_call_seq, Some(open.next_call_seq));
                (
                    id,
                    OpenScan {
                        next_call_seq: open.next_call_seq + 1,
                        ..open
                    },
                )
            }
            None => self.open_scan(&mut world, &request)?,
        };
        let heartbeat = world.heartbeats && id % 2 == 0 && open.next_call_seq == 1;
        let limit = request.limit_of_rows.filter(|limit| *limit > 0);
        let rows = request.number_of_rows().min(limit.unwrap_or(u32::MAX)) as usize;
        let (rows, cells) = if open.region.is_meta() || open.region == root() {
            (rows, usize::MAX)
        } else {
            (rows.min(SCAN_ROWS), SCAN_CELLS)
        };
        let mut answer = pb::ScanResponse {
            scanner_id: Some(id),
            more_results: Some(true),
            heartbeat_message: Some(heartbeat),
            mvcc_read_point: Some(1),
            ..Default::default()
        };
        let mut block = BytesMut::new();
        let whole = if heartbeat {
            0
        } else {
            cut(&mut open.left, rows, cells, &mut answer, &mut block)
        };
        answer.more_results_in_region = Some(!open.left.is_empty());
        if limit.is_some_and(|limit| whole >= limit as usize) {
            answer.more_results = Some(false);
        } else if !open.left.is_empty() && !request.close_scanner() {
            world.scanners.insert(id, open);
        }
        Ok(Reply {
            body: encode(&answer),
            cells: block.freeze(),
        })
    }

    fn open_scan(&self, world: &mut World, request: &pb::ScanRequest) -> Result<(u64, OpenScan)> {
        let scan = convert::scan(request.scan.as_ref().unwrap())?;
        let specifier = request.region.as_ref().unwrap();
        let servers = &self.cluster.servers;
        let (region, left) = if specifier.value == root().name() {
            let entries = world.meta_regions.iter().map(|(info, server)| MetaEntry {
                info: info.clone(),
                server: Some(servers[*server].clone()),
                open_seq: 1,
                state: "OPEN".to_owned(),
                split_daughters: None,
                merged_from: Vec::new(),
            });
            let cells = directory_cells(entries.collect(), KeyOrder::Root, &root(), &scan);
            (root(), cells)
        } else if specifier.value.starts_with(b"hbase:meta,") {
            let here = |(info, server): &&(RegionInfo, usize)| {
                info.name() == specifier.value && *server == self.index
            };
            let region = match world.meta_regions.iter().find(here) {
                Some((info, _)) => info.clone(),
                None if world.meta_regions.is_empty() => RegionInfo::meta(),
                None => return Err(Error::new(Code::NotServingRegion, "hbase:meta")),
            };
            let entries = meta_entries(&self.cluster, world);
            let cells = directory_cells(entries, KeyOrder::Meta, &region, &scan);
            (region, cells)
        } else {
            let region = self.region(world, specifier)?;
            let left = region_cells(world, &region, &scan);
            (region, left)
        };
        world.next_scanner += 1;
        let open = OpenScan {
            server: self.index,
            region,
            left,
            next_call_seq: 0,
        };
        Ok((world.next_scanner, open))
    }

    fn master(&self, method: &str, call: &Call) -> Result<Reply> {
        let mut world = self.cluster.world();
        if world.master != self.index {
            return Err(Error::new(
                Code::ServerNotRunningYet,
                "Server is not running yet",
            ));
        }
        let body = match method {
            "CreateTable" => {
                let request: pb::CreateTableRequest = decode(call.param.clone())?;
                let descriptor = convert::table_descriptor(&request.table_schema)?;
                assert_ne!(request.nonce(), 0);
                if world.descriptors.contains_key(&descriptor.name) {
                    return Err(Error::new(Code::TableExists, descriptor.name.to_string()));
                }
                world
                    .descriptors
                    .insert(descriptor.name.clone(), descriptor);
                // Asked twice, it still runs; the third time it is done.
                world.procedures.insert(7, 2);
                encode(&pb::CreateTableResponse { proc_id: Some(7) })
            }
            "EnableTable" => {
                world.procedures.insert(8, u32::MAX);
                encode(&pb::EnableTableResponse { proc_id: Some(8) })
            }
            "getProcedureResult" => procedure(&mut world, call)?,
            "GetTableDescriptors" => {
                let request: pb::GetTableDescriptorsRequest = decode(call.param.clone())?;
                let names: Vec<TableName> = request
                    .table_names
                    .iter()
                    .map(|name| convert::table_name(name).unwrap())
                    .collect();
                let wanted = |name: &TableName| names.is_empty() || names.contains(name);
                encode(&pb::GetTableDescriptorsResponse {
                    table_schema: world
                        .descriptors
                        .values()
                        .filter(|descriptor| wanted(&descriptor.name))
                        .map(|descriptor| convert::table_schema(descriptor, false))
                        .collect(),
                })
            }
            _ => return Err(Error::unsupported(method)),
        };
        Ok(reply(body))
    }
}

fn procedure(world: &mut World, call: &Call) -> Result<Bytes> {
    use pb::get_procedure_result_response::State;
    let request: pb::GetProcedureResultRequest = decode(call.param.clone())?;
    let left = world.procedures.get_mut(&request.proc_id);
    let (state, exception) = match left {
        None => (State::NotFound, None),
        Some(&mut u32::MAX) => {
            let generic = pb::GenericExceptionMessage {
                class_name: Some(exception::class(Code::TableNotDisabled)),
                message: Some("t is enabled".to_owned()),
                ..Default::default()
            };
            let exception = pb::ForeignExceptionMessage {
                generic_exception: Some(generic),
                ..Default::default()
            };
            (State::Finished, Some(exception))
        }
        Some(0) => {
            world.procedures.remove(&request.proc_id);
            (State::Finished, None)
        }
        Some(left) => {
            *left -= 1;
            (State::Running, None)
        }
    };
    Ok(encode(&pb::GetProcedureResultResponse {
        state: state as i32,
        exception,
        ..Default::default()
    }))
}

fn reply(body: Bytes) -> Reply {
    Reply {
        body,
        cells: Bytes::new(),
    }
}

fn counted(cells: &[Cell]) -> (pb::Result, Bytes) {
    let mut block = BytesMut::new();
    for cell in cells {
        write_cell(&mut block, cell, Codec::KeyValue);
    }
    (
        convert::result_by_count(cells.len()).unwrap(),
        block.freeze(),
    )
}

fn in_region(region: &RegionInfo, row: &[u8]) -> Result<()> {
    if region.contains(row) {
        return Ok(());
    }
    Err(Error::new(Code::WrongRegion, notation::to_text(row)))
}

/// Puts replace columns, increments add, a delete takes the row.
fn apply(
    world: &mut World,
    region: &RegionInfo,
    mutation: &Mutation,
    group: u64,
) -> Result<Vec<Cell>> {
    in_region(region, &mutation.row)?;
    if mutation.cells.iter().any(|cell| &cell.family[..] != b"f") {
        return Err(Error::new(Code::NoSuchColumnFamily, "only f"));
    }
    let nonce = (group, mutation.nonce);
    if mutation.nonce != 0
        && let Some(done) = world.nonces.get(&nonce)
    {
        return Ok(done.clone());
    }
    let key = (region.table.clone(), mutation.row.clone());
    let row = world.rows.entry(key.clone()).or_default();
    let mut answer = Vec::new();
    for cell in &mutation.cells {
        let place = row.iter().position(|held| held.qualifier == cell.qualifier);
        let mut new = Cell {
            timestamp: 1,
            cell_type: CellType::Put,
            ..cell.clone()
        };
        if mutation.kind == MutationKind::Increment {
            let number = |value: &Bytes| i64::from_be_bytes(value[..].try_into().unwrap());
            let old = place.map_or(0, |place| number(&row[place].value));
            let sum = old + number(&cell.value);
            new.value = Bytes::copy_from_slice(&sum.to_be_bytes());
            answer.push(new.clone());
        }
        if mutation.kind == MutationKind::Append {
            let old = place.map_or(&b""[..], |place| &row[place].value[..]);
            new.value = [old, &cell.value[..]].concat().into();
            answer.push(new.clone());
        }
        match place {
            Some(place) => row[place] = new,
            None => row.push(new),
        }
    }
    row.sort_by(Cell::cmp_hbase);
    if mutation.kind == MutationKind::Delete {
        world.rows.remove(&key);
    }
    if mutation.nonce != 0 {
        world.nonces.insert(nonce, answer.clone());
    }
    Ok(answer)
}

/// The region of a table above `hbase:meta`.
fn root() -> RegionInfo {
    RegionInfo::new(super::root_table(), Bytes::new(), Bytes::new(), 1)
}

fn meta_entries(cluster: &Cluster, world: &World) -> Vec<MetaEntry> {
    let regions = world.regions.values().flatten();
    regions
        .map(|region| MetaEntry {
            info: region.info.clone(),
            server: Some(cluster.servers[region.server].clone()),
            open_seq: region.seq,
            state: region.state.to_owned(),
            split_daughters: None,
            merged_from: Vec::new(),
        })
        .collect()
}

/// Rows of one region of the directory in the range of a scan, as cells in scan order.
fn directory_cells(
    entries: Vec<MetaEntry>,
    order: KeyOrder,
    region: &RegionInfo,
    scan: &Scan,
) -> VecDeque<Cell> {
    let mut rows: Vec<Vec<Cell>> = entries
        .iter()
        .map(|entry| {
            let cells = entry.to_cells().into_iter();
            cells
                .map(|cell| Cell {
                    timestamp: 1,
                    ..cell
                })
                .collect()
        })
        .collect();
    rows.sort_by(|a, b| order.compare(&a[0].row, &b[0].row));
    if scan.reversed {
        rows.reverse();
    }
    let in_scan_order = |row: &[u8], key: &[u8]| {
        let order = order.compare(row, key);
        if scan.reversed {
            order.reverse()
        } else {
            order
        }
    };
    let from_start = |row: &[u8]| {
        let order = in_scan_order(row, &scan.start_row);
        scan.start_row.is_empty() || order.is_gt() || order.is_eq() && scan.include_start_row
    };
    let to_stop = |row: &[u8]| {
        let order = in_scan_order(row, &scan.stop_row);
        scan.stop_row.is_empty() || order.is_lt() || order.is_eq() && scan.include_stop_row
    };
    rows.into_iter()
        .filter(|cells| {
            let row = &cells[0].row;
            from_start(row) && to_stop(row) && order.contains(region, row)
        })
        .flatten()
        .collect()
}

/// Rows of a region in the range of a scan, as cells in scan order.
fn region_cells(world: &World, region: &RegionInfo, scan: &Scan) -> VecDeque<Cell> {
    let inside = |row: &Bytes| {
        let (low, low_in, high, high_in) = if scan.reversed {
            (
                &scan.stop_row,
                scan.include_stop_row,
                &scan.start_row,
                scan.include_start_row,
            )
        } else {
            (
                &scan.start_row,
                scan.include_start_row,
                &scan.stop_row,
                scan.include_stop_row,
            )
        };
        region.contains(row)
            && (low.is_empty() || row > low || row == low && low_in)
            && (high.is_empty() || row < high || row == high && high_in)
    };
    let mut rows: Vec<&Vec<Cell>> = world
        .rows
        .iter()
        .filter(|((table, row), _)| *table == region.table && inside(row))
        .map(|(_, cells)| cells)
        .collect();
    if scan.reversed {
        rows.reverse();
    }
    rows.into_iter().flatten().cloned().collect()
}

/// Fills an answer with rows and cells up to both limits; gives the whole rows in it.
fn cut(
    left: &mut VecDeque<Cell>,
    rows: usize,
    cells: usize,
    answer: &mut pb::ScanResponse,
    block: &mut BytesMut,
) -> usize {
    let (mut whole, mut sent) = (0, 0);
    while whole < rows && sent < cells {
        let Some(first) = left.front() else {
            break;
        };
        let row = first.row.clone();
        let mut count = 0;
        while sent < cells && left.front().is_some_and(|cell| cell.row == row) {
            write_cell(block, &left.pop_front().unwrap(), Codec::KeyValue);
            count += 1;
            sent += 1;
        }
        let partial = left.front().is_some_and(|cell| cell.row == row);
        answer.cells_per_result.push(count);
        answer.partial_flag_per_result.push(partial);
        whole += usize::from(!partial);
    }
    whole
}
