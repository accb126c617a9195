//! The ZooKeeper registry against the embedded server of the same protocol.

use cadastre_coordination::{Mode, ServerConfig, Session, serve};
use cadastre_env::{HostPort, Listener, Net};
use cadastre_types::{Code, Error, ServerName};
use cadastre_wire::{pb, znode};
use tokio::sync::watch;

use super::fake::{Cluster, Fault};
use super::*;
use crate::{Registry, data::new_get};

const WRITER: znode::Writer<'static> = znode::Writer {
    id: "master:16000",
    salt: 7,
};

struct ZooKeeper {
    at: HostPort,
    session: Session,
    _stop: watch::Sender<bool>,
}

impl ZooKeeper {
    async fn start(env: &RealEnv) -> Self {
        let listener = env
            .net()
            .listen("127.0.0.1:0".parse().unwrap())
            .await
            .unwrap();
        let at = HostPort::new("127.0.0.1", listener.local_addr().port());
        let (stop, stopped) = watch::channel(false);
        env.spawn(
            "zookeeper",
            serve(env.clone(), listener, ServerConfig::new(1), stopped),
        );
        let session = Session::connect(env.clone(), vec![at.clone()], Duration::from_secs(20));
        let session = session.await.unwrap();
        for path in ["/hbase", "/hbase/rs"] {
            session
                .create(path, Bytes::new(), Mode::Persistent)
                .await
                .unwrap();
        }
        Self {
            at,
            session,
            _stop: stop,
        }
    }

    async fn put(&self, name: &str, value: Bytes) {
        let path = format!("/hbase/{name}");
        if self.session.exists(&path).await.unwrap().is_some() {
            self.session.set(&path, value, None).await.unwrap();
        } else {
            self.session
                .create(&path, value, Mode::Persistent)
                .await
                .unwrap();
        }
    }

    fn client(&self, env: &RealEnv) -> Client<RealEnv> {
        let registry = Registry::ZooKeeper(vec![self.at.clone()], "/hbase".to_owned());
        let config = ClientConfig {
            zookeeper_timeout_ms: 10_000,
            ..config()
        };
        Client::connect(env.clone(), registry, config).unwrap()
    }
}

fn meta_on(server: &ServerName) -> Bytes {
    znode::meta_region_server(WRITER, server, pb::region_state::State::Open)
}

#[test]
fn znodes_say_where_everything_is() {
    run(|env| async move {
        let zookeeper = ZooKeeper::start(&env).await;
        let cluster = Cluster::start(&env, 2).await;
        cluster.create(&table("t"), &["m"]);
        let client = zookeeper.client(&env);
        let empty = client.cluster_id().await.unwrap_err();
        assert_eq!(empty.code(), Code::Io, "{empty}");
        zookeeper
            .put("hbaseid", znode::cluster_id(WRITER, "c1"))
            .await;
        zookeeper
            .put("master", znode::master(WRITER, &cluster.servers[0], 0))
            .await;
        // Found as soon as it is there.
        let waiting = client.clone();
        let put = async move { waiting.put(&table("t"), vec![cell("z", "v")]).await };
        let appear = async {
            env.clock().sleep(Duration::from_millis(1)).await;
            zookeeper
                .put("meta-region-server", meta_on(&cluster.servers[0]))
                .await;
        };
        let (outcome, ()) = futures::join!(put, appear);
        outcome.unwrap();
        assert_eq!(client.cluster_id().await.unwrap(), "c1");
        let found = client.get(&table("t"), &new_get(bytes("z"))).await.unwrap();
        assert_eq!(found.value(b"f", b"q"), Some(&bytes("v")));
        client.admin().list_tables(false).await.unwrap();
        assert_eq!(cluster.count("registry"), 0);
        client.close().await;
    });
}

/// L19: a server whose znode is gone is dead, and what the directory says of it is not believed.
#[test]
fn a_server_without_its_znode_is_dead() {
    run(|env| async move {
        let zookeeper = ZooKeeper::start(&env).await;
        let cluster = Cluster::start(&env, 3).await;
        cluster.create(&table("t"), &["m"]);
        zookeeper
            .put("meta-region-server", meta_on(&cluster.servers[0]))
            .await;
        for server in &cluster.servers {
            let value = znode::region_server(WRITER, 0, "2.6.4");
            zookeeper.put(&format!("rs/{server}"), value).await;
        }
        let client = zookeeper.client(&env);
        client.put(&table("t"), vec![cell("a", "v")]).await.unwrap();
        client.put(&table("t"), vec![cell("z", "v")]).await.unwrap();
        // The server of z stops; the directory does not know yet.
        let path = format!("/hbase/rs/{}", cluster.servers[1]);
        zookeeper.session.delete(&path, None).await.unwrap();
        let stopped = Error::new(Code::RegionServerStopped, "bye");
        cluster.fault("Get", Fault::Fail(stopped));
        cluster.reset_counts();
        let reading = client.clone();
        let get = async move { reading.get(&table("t"), &new_get(bytes("z"))).await };
        let reassign = async {
            while cluster.count("meta-scan") < 3 {
                tokio::task::yield_now().await;
            }
            cluster.move_region(&table("t"), "z", 2, false);
        };
        let (found, ()) = futures::join!(get, reassign);
        assert_eq!(found.unwrap().value(b"f", b"q"), Some(&bytes("v")));
        assert_eq!(cluster.count("Get"), 2, "the dead one was asked once");
        // The other server's locations were not touched.
        cluster.reset_counts();
        client.get(&table("t"), &new_get(bytes("a"))).await.unwrap();
        assert_eq!(cluster.count("meta-scan"), 0);
    });
}
