//! The master's znodes in our own coordination server, over loopback.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use cadastre_env::{Clock, Env, HostPort, Listener, Net, RealEnv, RealEnvConfig};
use cadastre_types::{TableName, TableState};
use tokio::sync::watch;

use super::*;
use crate::schema::Namespace;

const SESSION_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs a test on a real environment with a coordination server; gives it a maker of masters' znodes.
fn with_server<F>(test: impl FnOnce(RealEnv, Vec<HostPort>) -> F + Send + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    let dir = tempfile::tempdir().unwrap();
    let env = RealEnv::start(&RealEnvConfig {
        data_dir: dir.path().to_path_buf(),
        cores: 1,
        background_threads: 1,
    })
    .unwrap();
    let here = env.clone();
    let ended = env.block_on(async move {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener = here.net().listen(any).await.unwrap();
        let at = HostPort::new("127.0.0.1", listener.local_addr().port());
        let zxid = cadastre_coordination::initial_zxid(here.clock().wall());
        let config = cadastre_coordination::ServerConfig::new(zxid);
        let (stop, stopping) = watch::channel(false);
        let serving = cadastre_coordination::serve(here.clone(), listener, config, stopping);
        here.spawn("coordination", serving);
        test(here, vec![at]).await;
        stop.send_replace(true);
    });
    env.shutdown();
    assert!(ended.is_some());
}

async fn znodes(env: &RealEnv, at: &[HostPort], port: u16) -> Znodes {
    let session = Session::connect(env.clone(), at.to_vec(), SESSION_TIMEOUT)
        .await
        .unwrap();
    Znodes::new(session, "/hbase", port, 7)
}

fn name(port: u16) -> ServerName {
    ServerName {
        host: "h".into(),
        port,
        start_code: 1,
    }
}

#[test]
fn one_master_leads_and_the_next_one_follows_when_it_goes() {
    with_server(|env, at| async move {
        let first = znodes(&env, &at, 1).await;
        let second = znodes(&env, &at, 2).await;
        first.prepare().await.unwrap();
        second.prepare().await.unwrap();
        assert!(first.claim(&name(1)).await.unwrap());
        assert!(
            first.claim(&name(1)).await.unwrap(),
            "a claim whose answer was lost"
        );
        assert!(!second.claim(&name(2)).await.unwrap());
        second.stand_by(&name(2)).await.unwrap();
        assert_eq!(
            first.servers_below("backup-masters").await.unwrap(),
            [name(2)]
        );
        assert_eq!(second.active_master().await.unwrap(), Some(name(1)));
        let (vacant, mut told) = watch::channel(false);
        let waiting = second.clone();
        env.spawn("wait", async move {
            waiting.wait_for_vacancy().await.unwrap();
            vacant.send_replace(true);
        });
        assert!(!*told.borrow());
        first.session().clone().close().await;
        told.wait_for(|vacant| *vacant).await.unwrap();
        assert!(second.claim(&name(2)).await.unwrap());
        second.stand_up(&name(2)).await.unwrap();
        second.stand_up(&name(2)).await.unwrap();
        assert!(
            second
                .servers_below("backup-masters")
                .await
                .unwrap()
                .is_empty()
        );
        assert_eq!(second.active_master().await.unwrap(), Some(name(2)));
    });
}

#[test]
fn what_clients_read_is_there_and_another_clusters_id_is_refused() {
    with_server(|env, at| async move {
        let master = znodes(&env, &at, 1).await;
        master.prepare().await.unwrap();
        assert!(master.claim(&name(1)).await.unwrap());
        master.put_cluster_id("one").await.unwrap();
        master.put_cluster_id("one").await.unwrap();
        let error = master.put_cluster_id("two").await.unwrap_err();
        assert!(error.message().contains("one") && error.message().contains("two"));
        assert_eq!(master.meta_place().await.unwrap(), None);
        let table = TableName::parse("ns:t").unwrap();
        for notice in [
            Notice::MetaPlace(name(5)),
            Notice::MetaPlace(name(6)),
            Notice::Table(table.clone(), TableState::Enabled),
            Notice::Table(table.clone(), TableState::Disabled),
            Notice::Namespace(Namespace::new("ns")),
        ] {
            master.announce(&notice).await.unwrap();
        }
        assert_eq!(master.meta_place().await.unwrap(), Some(name(6)));
        let session = master.session();
        let value = |path: &'static str| async move { session.get(path).await.unwrap().unwrap().0 };
        let state = znode::read_table(&value("/hbase/table/ns:t").await).unwrap();
        assert_eq!(state, TableState::Disabled);
        let namespace = znode::read_namespace(&value("/hbase/namespace/ns").await).unwrap();
        assert_eq!(&namespace.name[..], b"ns");
        assert_eq!(
            master.announced().await.unwrap(),
            BTreeSet::from([Lock::Table(table.clone()), Lock::Namespace("ns".into())])
        );
        for notice in [
            Notice::TableGone(table.clone()),
            Notice::TableGone(table),
            Notice::NamespaceGone("ns".into()),
        ] {
            master.announce(&notice).await.unwrap();
        }
        assert_eq!(
            session.children("/hbase/table").await.unwrap(),
            Some(Vec::new())
        );
        // asynchbase asks for it and must not find it (zookeeper-protocol.md 10).
        assert!(
            session
                .exists("/hbase/root-region-server")
                .await
                .unwrap()
                .is_none()
        );
    });
}

#[test]
fn a_master_that_was_replaced_writes_over_nothing_of_its_successors() {
    with_server(|env, at| async move {
        let old = znodes(&env, &at, 1).await;
        old.prepare().await.unwrap();
        assert!(old.claim(&name(1)).await.unwrap());
        let table = TableName::parse("t").unwrap();
        let place = |port| Notice::MetaPlace(name(port));
        let state = |state| Notice::Table(table.clone(), state);
        old.announce(&place(11)).await.unwrap();
        old.announce(&state(TableState::Enabled)).await.unwrap();
        // Its own writes follow each other, and somebody else's are written over while it leads.
        old.announce(&state(TableState::Disabled)).await.unwrap();
        let tool = znodes(&env, &at, 3).await;
        tool.session()
            .set("/hbase/table/t", &b"x"[..], None)
            .await
            .unwrap();
        old.announce(&state(TableState::Disabled)).await.unwrap();
        // A person deletes its znode, and the next master comes, though the old one's session lives.
        tool.session().delete("/hbase/master", None).await.unwrap();
        let new = znodes(&env, &at, 2).await;
        assert!(new.claim(&name(2)).await.unwrap());
        new.announce(&place(12)).await.unwrap();
        new.announce(&state(TableState::Enabled)).await.unwrap();
        for late in [
            place(13),
            state(TableState::Disabled),
            Notice::TableGone(table.clone()),
        ] {
            let refused = old.announce(&late).await.unwrap_err();
            assert_eq!(refused.code(), Code::MasterDeposed, "{late:?}");
        }
        assert_eq!(new.meta_place().await.unwrap(), Some(name(12)));
        new.announce(&Notice::TableGone(table.clone()))
            .await
            .unwrap();
        new.announce(&Notice::TableGone(table.clone()))
            .await
            .unwrap();
        for znodes in [old, new, tool] {
            znodes.session().clone().close().await;
        }
    });
}

#[test]
fn live_servers_are_followed() {
    with_server(|env, at| async move {
        let master = znodes(&env, &at, 1).await;
        master.prepare().await.unwrap();
        let (found, mut servers) = watch::channel(BTreeSet::new());
        let follower = master.clone();
        env.spawn(
            "follow",
            async move { follower.follow_servers(&found).await },
        );
        let server = Session::connect(env.clone(), at, SESSION_TIMEOUT)
            .await
            .unwrap();
        let path = format!("/hbase/rs/{}", name(9));
        server
            .create(&path, Bytes::new(), Mode::Ephemeral)
            .await
            .unwrap();
        master
            .session()
            .create("/hbase/rs/nonsense", Bytes::new(), Mode::Persistent)
            .await
            .unwrap();
        servers
            .wait_for(|servers| *servers == BTreeSet::from([name(9)]))
            .await
            .unwrap();
        server.close().await;
        servers.wait_for(BTreeSet::is_empty).await.unwrap();
        master.session().clone().close().await;
        assert!(
            servers.changed().await.is_err(),
            "the follower ends with its session"
        );
    });
}
