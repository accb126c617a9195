//! An HDFS in memory for property tests: two NameNodes over one namespace with the retry cache that real ones have, a client's proxy before
//! them whose answers get lost, and blocks that are always written. What real ones do besides is tested with real ones (`tests/hdfs`).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use cadastre_env::{Env, RealEnv, RealEnvConfig};
use cadastre_rpc::ha::policy::{Class, Failover, Policy};
use cadastre_rpc::ha::{
    Call, CallIds, Caller, ConfiguredFailover, Executed, Failed, Failure, Invoker, Policies, Proxy,
};
use cadastre_rpc::hadoop::CLIENT_PROTOCOL;
use cadastre_types::{Code, Detail, Error, Result};
use cadastre_wire::hadoop::pb;
use cadastre_wire::hadoop::pb::hdfs_file_status_proto::FileType;
use futures::future::{BoxFuture, join_all};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode};
use proptest::prelude::*;
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::datanode::{Blocks, NotWritten};
use crate::{HdfsStore, HdfsStoreConfig};

const MISSING: &str = "java.io.FileNotFoundException";
const EXISTS: &str = "org.apache.hadoop.fs.FileAlreadyExistsException";

/// A file or folder.
#[derive(Debug, Clone)]
struct Node {
    id: u64,
    is_folder: bool,
    block: Option<u64>,
    length: u64,
}

/// What both NameNodes see.
#[derive(Default)]
struct Namespace {
    nodes: BTreeMap<String, Node>,
    last: u64,
    /// Successful calls by client and call id.
    done: BTreeMap<(usize, i32), Bytes>,
    bytes: BTreeMap<u64, Bytes>,
    /// Whether every file was last changed long ago; else just now.
    all_old: bool,
    /// So many writes of blocks fail from now on.
    failing: u32,
    /// DataNodes that were to be left out, of each block.
    excluded: Vec<usize>,
}

impl Namespace {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    fn status(node: &Node) -> pb::HdfsFileStatusProto {
        pb::HdfsFileStatusProto {
            file_type: if node.is_folder {
                FileType::IsDir
            } else {
                FileType::IsFile
            } as i32,
            length: node.length,
            file_id: Some(node.id),
            locations: Some(pb::LocatedBlocksProto {
                blocks: node
                    .block
                    .map(|id| located(id, node.length))
                    .into_iter()
                    .collect(),
                ..Default::default()
            }),
            ..Default::default()
        }
    }

    fn call(&mut self, method: &str, body: Bytes) -> Result<Bytes, (&'static str, String)> {
        Ok(match method {
            "getServerDefaults" => answer(&pb::GetServerDefaultsResponseProto {
                server_defaults: pb::FsServerDefaultsProto {
                    replication: 1,
                    ..Default::default()
                },
            }),
            "msync" => answer(&pb::MsyncResponseProto {}),
            "renewLease" => answer(&pb::RenewLeaseResponseProto {}),
            "mkdirs" => {
                let request: pb::MkdirsRequestProto = question(body);
                let mut path = String::new();
                for part in request.src.split('/').skip(1) {
                    path = format!("{path}/{part}");
                    let id = self.next();
                    self.nodes.entry(path.clone()).or_insert(Node {
                        id,
                        is_folder: true,
                        block: None,
                        length: 0,
                    });
                }
                answer(&pb::MkdirsResponseProto { result: true })
            }
            "create" => {
                let request: pb::CreateRequestProto = question(body);
                if self.nodes.contains_key(&request.src) {
                    return Err((EXISTS, request.src));
                }
                let node = Node {
                    id: self.next(),
                    is_folder: false,
                    block: None,
                    length: 0,
                };
                let fs = Some(Self::status(&node));
                self.nodes.insert(request.src, node);
                answer(&pb::CreateResponseProto { fs })
            }
            "addBlock" => {
                let request: pb::AddBlockRequestProto = question(body);
                self.excluded.push(request.exclude_nodes.len());
                let id = self.next();
                let node = self.nodes.get_mut(&request.src);
                node.ok_or((MISSING, request.src))?.block = Some(id);
                answer(&pb::AddBlockResponseProto {
                    block: located(id, 0),
                })
            }
            "complete" => {
                let request: pb::CompleteRequestProto = question(body);
                let node = self.nodes.get_mut(&request.src);
                let node = node.ok_or((MISSING, request.src))?;
                node.length = request.last.map_or(0, |last| last.num_bytes());
                answer(&pb::CompleteResponseProto { result: true })
            }
            "rename2" => {
                let request: pb::Rename2RequestProto = question(body);
                if !self.nodes.contains_key(&request.src) {
                    return Err((MISSING, format!("rename source {}", request.src)));
                }
                if self.nodes.contains_key(&request.dst) && !request.overwrite_dest {
                    return Err((EXISTS, request.dst));
                }
                let node = self.nodes.remove(&request.src).expect("it is there");
                self.nodes.insert(request.dst, node);
                answer(&pb::Rename2ResponseProto {})
            }
            "delete" => {
                let request: pb::DeleteRequestProto = question(body);
                let result = self.nodes.remove(&request.src).is_some();
                answer(&pb::DeleteResponseProto { result })
            }
            "getFileInfo" => {
                let request: pb::GetFileInfoRequestProto = question(body);
                let fs = self.nodes.get(&request.src).map(Self::status);
                answer(&pb::GetFileInfoResponseProto { fs })
            }
            "getLocatedFileInfo" => {
                let request: pb::GetLocatedFileInfoRequestProto = question(body);
                let fs = self.nodes.get(request.src()).map(Self::status);
                answer(&pb::GetLocatedFileInfoResponseProto { fs })
            }
            "abandonBlock" => {
                let request: pb::AbandonBlockRequestProto = question(body);
                let node = self.nodes.get_mut(&request.src);
                node.ok_or((MISSING, request.src))?.block = None;
                answer(&pb::AbandonBlockResponseProto {})
            }
            "getListing" => {
                let request: pb::GetListingRequestProto = question(body);
                let folder = format!("{}/", request.src);
                let named = |(path, node): (&String, &Node)| {
                    let name = path.strip_prefix(&folder)?.to_owned();
                    let after = name.as_bytes() > &request.start_after[..];
                    let modification_time = if self.all_old { 0 } else { u64::MAX };
                    (after && !name.contains('/')).then(|| pb::HdfsFileStatusProto {
                        path: name.into(),
                        modification_time,
                        ..Self::status(node)
                    })
                };
                let dir_list = Some(pb::DirectoryListingProto {
                    partial_listing: self.nodes.iter().filter_map(named).collect(),
                    remaining_entries: 0,
                });
                answer(&pb::GetListingResponseProto { dir_list })
            }
            other => panic!("the model does not know {other}"),
        })
    }
}

fn question<M: cadastre_wire::Message>(body: Bytes) -> M {
    cadastre_wire::decode(body).expect("our own client asks")
}

fn answer<M: cadastre_wire::Message>(message: &M) -> Bytes {
    cadastre_wire::encode(message)
}

fn located(id: u64, length: u64) -> pb::LocatedBlockProto {
    pb::LocatedBlockProto {
        b: pb::ExtendedBlockProto {
            block_id: id,
            num_bytes: Some(length),
            ..Default::default()
        },
        locs: vec![pb::DatanodeInfoProto::default()],
        ..Default::default()
    }
}

/// What goes wrong, in parts of a hundred.
#[derive(Debug, Clone, Copy)]
struct Faults {
    /// The request does not arrive.
    lost: u32,
    /// It is done, and the answer does not arrive.
    unanswered: u32,
    /// The server has forgotten what it did (its cache was too small).
    forgotten: u32,
    /// The other server becomes active.
    failover: u32,
}

/// The two servers, and which is active.
struct Servers {
    namespace: Mutex<Namespace>,
    active: Mutex<usize>,
    chance: Mutex<StdRng>,
    faults: Faults,
}

/// A client's way to one of them.
struct Way {
    servers: Arc<Servers>,
    at: usize,
    client: usize,
    name: Arc<str>,
}

impl Way {
    fn try_once(&self, call: &Call) -> Result<Bytes, Failed> {
        let servers = &self.servers;
        let mut chance = servers.chance.lock().unwrap();
        let mut happens = |part: u32| chance.random_range(0..100) < part;
        let mut active = servers.active.lock().unwrap();
        if happens(servers.faults.failover) {
            *active = 1 - *active;
        }
        if happens(servers.faults.lost) {
            return Err(Failure::not_sent(Class::NotSent, &self.name, "lost").into());
        }
        let remote = |class: &str, message: String| {
            Error::new(Code::Remote, message).with_detail(Detail::Remote {
                class: class.to_owned(),
                do_not_retry: true,
            })
        };
        if *active != self.at {
            let error = remote(
                "org.apache.hadoop.ipc.StandbyException",
                "standby".to_owned(),
            );
            return Err(Failure::new(Class::Standby, Executed::No, &self.name, error).into());
        }
        let mut namespace = servers.namespace.lock().unwrap();
        let key = (self.client, call.id);
        if happens(servers.faults.forgotten) {
            namespace.done.remove(&key);
        }
        let known = namespace.done.get(&key).cloned();
        let outcome = match known {
            Some(answer) => Ok(answer),
            None => namespace.call(call.method.name, call.body.clone()),
        };
        if let (Ok(answer), cadastre_rpc::ha::Mark::AtMostOnce) = (&outcome, call.method.mark) {
            namespace.done.insert(key, answer.clone());
        }
        if happens(servers.faults.unanswered) {
            return Err(Failure::unknown(Class::Socket, &self.name, "no answer").into());
        }
        outcome.map_err(|(class, message)| {
            let error = remote(class, message);
            Failure::new(Class::Remote, Executed::Refused, &self.name, error).into()
        })
    }
}

impl Invoker for Way {
    fn name(&self) -> &Arc<str> {
        &self.name
    }

    fn invoke<'a>(&'a self, call: &'a Call) -> BoxFuture<'a, Result<Bytes, Failed>> {
        Box::pin(async move {
            let outcome = self.try_once(call);
            // So that callers come between each other's calls.
            tokio::task::yield_now().await;
            outcome
        })
    }
}

#[async_trait]
impl Blocks for Servers {
    async fn write(
        &self,
        block: &pb::LocatedBlockProto,
        _client: &str,
        data: &Bytes,
    ) -> Result<(), NotWritten> {
        let mut namespace = self.namespace.lock().unwrap();
        if namespace.failing > 0 {
            namespace.failing -= 1;
            return Err(NotWritten {
                culprit: None,
                error: Error::new(Code::Io, "a DataNode is gone"),
            });
        }
        namespace.bytes.insert(block.b.block_id, data.clone());
        Ok(())
    }

    async fn read(
        &self,
        block: &pb::LocatedBlockProto,
        _node: &pb::DatanodeInfoProto,
        _client: &str,
        (offset, len): (u64, u64),
    ) -> Result<Bytes> {
        let namespace = self.namespace.lock().unwrap();
        let bytes = &namespace.bytes[&block.b.block_id];
        Ok(bytes.slice(offset as usize..(offset + len) as usize))
    }
}

fn caller(env: &RealEnv, servers: &Arc<Servers>, client: usize) -> Arc<dyn Caller> {
    let way = |at: usize| -> Arc<dyn Invoker> {
        Arc::new(Way {
            servers: Arc::clone(servers),
            at,
            client,
            name: format!("nn{at}").into(),
        })
    };
    let policy = Policy::failover(Failover {
        // Few, so that outcomes stay unknown.
        failovers_max: 4,
        retries_max: 4,
        sleep_base_ms: 0,
        sleep_max_ms: 0,
    });
    Arc::new(Proxy::new(
        env.clock().clone(),
        &CLIENT_PROTOCOL,
        Box::new(ConfiguredFailover::new(vec![way(0), way(1)])),
        Policies::all(policy),
        CallIds::default(),
        env.rng("delays"),
        None,
    ))
}

/// Puts of several clients to few names; each put's payload is its own.
async fn puts(env: RealEnv, faults: Faults, seed: u64, mode: PutMode) {
    const CLIENTS: usize = 3;
    const NAMES: usize = 4;
    let servers = Arc::new(Servers {
        namespace: Mutex::default(),
        active: Mutex::new(0),
        chance: Mutex::new(StdRng::seed_from_u64(seed)),
        faults,
    });
    let mut stores = Vec::new();
    for client in 0..CLIENTS {
        let config = HdfsStoreConfig {
            root: "/store".to_owned(),
            ..HdfsStoreConfig::default()
        };
        loop {
            let caller = caller(&env, &servers, client);
            let blocks = Arc::clone(&servers) as Arc<dyn Blocks>;
            let opened = HdfsStore::over(env.clone(), caller, blocks, config.clone()).await;
            // A client that cannot start is started again, as another one.
            if let Ok(store) = opened {
                break stores.push(store);
            }
        }
    }
    let put = async |client: usize, name: usize| {
        let path = Path::from(format!("folder/{name}"));
        let payload = format!("{client} {name}").into();
        stores[client]
            .put_opts(&path, payload, mode.clone().into())
            .await
    };
    let all: Vec<(usize, usize)> = (0..NAMES)
        .flat_map(|name| (0..CLIENTS).map(move |client| (client, name)))
        .collect();
    let outcomes = join_all(all.iter().map(|(client, name)| put(*client, *name))).await;
    for name in 0..NAMES {
        let of_name = all.iter().zip(&outcomes).filter(|((_, of), _)| *of == name);
        let of_name: Vec<_> = of_name
            .map(|((client, _), outcome)| (*client, outcome))
            .collect();
        let won: Vec<usize> = of_name
            .iter()
            .filter(|(_, o)| o.is_ok())
            .map(|(c, _)| *c)
            .collect();
        let told_lost = |outcome: &object_store::Result<_>| {
            matches!(outcome, Err(object_store::Error::AlreadyExists { .. }))
        };
        let there = {
            let namespace = servers.namespace.lock().unwrap();
            let node = namespace.nodes.get(&format!("/store/folder/{name}"));
            node.and_then(|node| node.block)
                .map(|id| namespace.bytes[&id].clone())
        };
        let there = there.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap());
        match mode {
            PutMode::Create => {
                assert!(won.len() <= 1, "two have won: {of_name:?}");
                if let [winner] = won[..] {
                    assert_eq!(there, Some(format!("{winner} {name}")));
                }
                // Whoever has the name is never told that he lost: that is what fences a writer by itself.
                for (client, outcome) in &of_name {
                    let has_it = there == Some(format!("{client} {name}"));
                    assert!(!(has_it && told_lost(outcome)), "{client} {of_name:?}");
                }
            }
            _ => assert!(won.is_empty() || there.is_some(), "{of_name:?}"),
        }
    }
}

fn faults() -> impl Strategy<Value = Faults> {
    (0_u32..30, 0_u32..40, 0_u32..20, 0_u32..20).prop_map(
        |(lost, unanswered, forgotten, failover)| Faults {
            lost,
            unanswered,
            forgotten,
            failover,
        },
    )
}

fn with_env(test: impl Future<Output = ()> + Send + 'static, env: &RealEnv) {
    env.block_on(test).expect("the test failed");
}

#[test]
fn two_never_win_and_no_winner_is_told_that_he_lost() {
    let dir = tempfile::tempdir().unwrap();
    let env = RealEnv::start(&RealEnvConfig {
        data_dir: dir.path().to_owned(),
        cores: 1,
        background_threads: 1,
    })
    .unwrap();
    let config = ProptestConfig::with_cases(150);
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let here = env.clone();
    runner
        .run(
            &(faults(), any::<u64>(), any::<bool>()),
            move |(faults, seed, create)| {
                let mode = if create {
                    PutMode::Create
                } else {
                    PutMode::Overwrite
                };
                with_env(puts(here.clone(), faults, seed, mode), &here);
                Ok(())
            },
        )
        .unwrap();
    env.shutdown();
}

/// A test with servers without faults, and stores of two clients.
fn quietly<F: Future<Output = ()> + Send + 'static>(
    test: impl FnOnce(Arc<Servers>, [HdfsStore<RealEnv>; 2]) -> F + Send + 'static,
) {
    let dir = tempfile::tempdir().unwrap();
    let env = RealEnv::start(&RealEnvConfig {
        data_dir: dir.path().to_owned(),
        cores: 1,
        background_threads: 1,
    })
    .unwrap();
    let here = env.clone();
    let all = async move {
        let servers = Arc::new(Servers {
            namespace: Mutex::default(),
            active: Mutex::new(1),
            chance: Mutex::new(StdRng::seed_from_u64(1)),
            faults: Faults {
                lost: 0,
                unanswered: 0,
                forgotten: 0,
                failover: 0,
            },
        });
        let open = async |client| {
            let config = HdfsStoreConfig {
                root: "/store".to_owned(),
                ..HdfsStoreConfig::default()
            };
            let blocks = Arc::clone(&servers) as Arc<dyn Blocks>;
            let proxy = caller(&here, &servers, client);
            let opening = HdfsStore::over(here.clone(), proxy, blocks, config);
            opening.await.unwrap()
        };
        let stores = [open(0).await, open(1).await];
        test(Arc::clone(&servers), stores).await;
    };
    with_env(all, &env);
    env.shutdown();
}

/// A block that fails is given back and written anew, those that failed left out; not without end.
#[test]
fn blocks_are_written_anew() {
    quietly(async |servers, [store, _]| {
        let path = Path::from("x");
        servers.namespace.lock().unwrap().failing = 3;
        store.put(&path, "bytes".into()).await.unwrap();
        assert_eq!(servers.namespace.lock().unwrap().excluded, [0, 1, 2, 3]);
        let got = store.get(&path).await.unwrap().bytes().await.unwrap();
        assert_eq!(got, "bytes");
        servers.namespace.lock().unwrap().failing = 100;
        assert!(store.put(&path, "more".into()).await.is_err());
        servers.namespace.lock().unwrap().failing = 0;
        let got = store.get(&path).await.unwrap().bytes().await.unwrap();
        assert_eq!(got, "bytes", "what was there stays");
    });
}

/// What a dead client left goes, what a living one writes stays.
#[test]
fn what_dead_writers_left_goes() {
    quietly(async |servers, [dead, alive]| {
        use crate::file::FileWriter;
        // Dropped in the middle.
        let left = FileWriter::create(alive.shared()).await.unwrap();
        FileWriter::create(dead.shared()).await.unwrap();
        let files = || {
            let namespace = servers.namespace.lock().unwrap();
            let all = namespace.nodes.keys();
            let files = all.filter(|path| path.starts_with("/store/.cadastre-tmp/"));
            files.cloned().collect::<Vec<String>>()
        };
        assert_eq!(files().len(), 2);
        let age = std::time::Duration::from_secs(1);
        assert_eq!(crate::clean::clean(alive.shared(), age).await.unwrap(), 0);
        servers.namespace.lock().unwrap().all_old = true;
        assert_eq!(crate::clean::clean(alive.shared(), age).await.unwrap(), 1);
        assert_eq!(files(), [left.file().path.clone()]);
    });
}

/// Nothing wrong: the one who is first has it, all others are told so, and their files go.
#[test]
fn without_faults_one_wins_and_nothing_is_left() {
    quietly(async |servers, [store, _]| {
        let path = Path::from("x");
        for at in 0..3 {
            let put = store.put_opts(&path, format!("{at}").into(), PutMode::Create.into());
            assert_eq!(put.await.is_ok(), at == 0);
        }
        assert_eq!(store.get(&path).await.unwrap().bytes().await.unwrap(), "0");
        let namespace = servers.namespace.lock().unwrap();
        let left = namespace
            .nodes
            .keys()
            .filter(|path| path.starts_with("/store/.cadastre-tmp/"));
        assert_eq!(left.count(), 0);
    });
}
