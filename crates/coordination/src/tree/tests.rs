//! The tree by itself: time, sessions, watches, and a naive model.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::jute::{Acl, Create, CreateForm, EventType, Item, SetWatches, op};

fn at(seconds: u64) -> Now {
    Now {
        mono: Duration::from_secs(seconds),
        wall: 1_796_000_000_000 + seconds * 1_000,
    }
}

fn tree() -> Tree {
    Tree::new(TreeConfig::default(), 100, at(0))
}

fn hello(session_id: i64, password: &[u8], last_zxid_seen: i64) -> ConnectRequest {
    ConnectRequest {
        protocol_version: 0,
        last_zxid_seen,
        timeout_ms: 10_000,
        session_id,
        password: Bytes::copy_from_slice(password),
        read_only: Some(false),
    }
}

/// A new session on a connection.
fn join(tree: &mut Tree, connection: ConnectionId) -> i64 {
    let (response, outputs) = tree.connect(connection, &hello(0, &[0; 16], 0), [7; 16], at(0));
    assert!(outputs.is_empty());
    response.unwrap().session_id
}

fn ask(
    tree: &mut Tree,
    connection: ConnectionId,
    request: &Request,
) -> Result<Response, ErrorCode> {
    tree.request(connection, request, at(1)).0.result
}

/// The events of a request, by connection.
fn events(
    tree: &mut Tree,
    connection: ConnectionId,
    request: &Request,
) -> Vec<(u64, EventType, String)> {
    told(tree.request(connection, request, at(1)).1)
}

fn told(outputs: Vec<Output>) -> Vec<(u64, EventType, String)> {
    let event = |output| match output {
        Output::Event { connection, event } => Some((connection, event.kind, event.path)),
        Output::Close { .. } => None,
    };
    outputs.into_iter().filter_map(event).collect()
}

fn create(path: &str, flags: i32) -> Request {
    Request::Create(Create {
        form: CreateForm::Plain,
        path: path.into(),
        data: Some(Bytes::from_static(b"x")),
        acl: Acl::open(),
        flags,
    })
}

fn delete(path: &str) -> Request {
    Request::Delete {
        path: path.into(),
        version: -1,
    }
}

fn set(path: &str) -> Request {
    Request::SetData {
        path: path.into(),
        data: None,
        version: -1,
    }
}

fn exists(path: &str, watch: bool) -> Request {
    Request::Exists {
        path: path.into(),
        watch,
    }
}

fn get(path: &str, watch: bool) -> Request {
    Request::GetData {
        path: path.into(),
        watch,
    }
}

fn children(path: &str, watch: bool) -> Request {
    Request::GetChildren {
        path: path.into(),
        watch,
    }
}

#[test]
fn a_session_lives_from_frame_to_frame_and_takes_its_ephemerals_along() {
    let mut tree = tree();
    join(&mut tree, 1);
    join(&mut tree, 2);
    ask(&mut tree, 1, &create("/e", 1)).unwrap();
    ask(&mut tree, 2, &exists("/e", true)).unwrap();
    assert_eq!(tree.next_expiry(), Some(at(11).mono));
    tree.request(1, &Request::Ping, at(9));
    tree.touch(2, at(12));
    assert!(tree.expire(at(18)).is_empty());
    tree.disconnect(1);
    assert!(
        tree.expire(at(18)).is_empty(),
        "a lost connection ends nothing"
    );
    let outputs = tree.expire(at(19));
    assert_eq!(told(outputs), [(2, EventType::Deleted, "/e".into())]);
    assert_eq!(tree.figures().sessions, 1);
    assert_eq!(tree.figures().ephemerals, 0);
    let outputs = tree.expire(at(22));
    assert_eq!(outputs, [Output::Close { connection: 2 }], "without a word");
    let (reply, _) = tree.request(2, &Request::Ping, at(22));
    assert_eq!(
        (reply.result, reply.close),
        (Err(ErrorCode::SessionExpired), true)
    );
}

#[test]
fn timeouts_are_clamped() {
    let mut tree = tree();
    for (connection, (asked, agreed)) in (1..).zip([
        (1, 4_000),
        (0, 4_000),
        (-1, 4_000),
        (10_000, 10_000),
        (90_000, 40_000),
    ]) {
        let mut request = hello(0, &[], 0);
        request.timeout_ms = asked;
        let (response, _) = tree.connect(connection, &request, [0; 16], at(0));
        assert_eq!(response.unwrap().timeout_ms, agreed, "{asked}");
    }
}

#[test]
fn closing_ends_the_session_at_once_and_for_ever() {
    let mut tree = tree();
    let session = join(&mut tree, 1);
    ask(&mut tree, 1, &create("/e", 1)).unwrap();
    let before = tree.zxid();
    let (reply, _) = tree.request(1, &Request::CloseSession, at(1));
    assert_eq!((reply.zxid, reply.close), (before + 1, true));
    assert_eq!(tree.figures().ephemerals, 0);
    let (response, _) = tree.connect(2, &hello(session, &[7; 16], 0), [0; 16], at(2));
    assert_eq!(response.unwrap().session_id, 0);
}

#[test]
fn only_sessions_of_earlier_runs_and_of_old_clients_are_adopted_and_only_once() {
    let mut tree = tree();
    let own = join(&mut tree, 1);
    let mut old = hello(0x0100_0005_0000_0007, &[5; 16], 0);
    let id = |answer: (Option<ConnectResponse>, Vec<Output>)| answer.0.unwrap().session_id;
    assert_eq!(
        id(tree.connect(2, &old, [0; 16], at(1))),
        0,
        "with readOnly byte"
    );
    old.read_only = None;
    assert_eq!(id(tree.connect(3, &old, [0; 16], at(1))), old.session_id);
    let wrong = ConnectRequest {
        password: vec![6; 16].into(),
        ..old.clone()
    };
    assert_eq!(id(tree.connect(4, &wrong, [0; 16], at(1))), 0);
    assert_eq!(tree.session_of(3), Some(old.session_id), "not kicked off");
    assert!(!tree.expire(at(20)).is_empty());
    assert_eq!(
        id(tree.connect(5, &old, [0; 16], at(21))),
        0,
        "ended in this run"
    );
    let mut ended = hello(own, &[7; 16], 0);
    ended.read_only = None;
    assert_eq!(
        id(tree.connect(6, &ended, [0; 16], at(21))),
        0,
        "ended in this run"
    );
    // An id that this run will give one day is not to be taken beforehand.
    ended.session_id = own + 5;
    assert_eq!(id(tree.connect(7, &ended, [0; 16], at(21))), 0);
    ended.session_id = -5;
    assert_eq!(id(tree.connect(8, &ended, [0; 16], at(21))), 0);
}

#[test]
fn zxids_go_on_above_what_clients_have_seen() {
    let mut tree = tree();
    let (response, _) = tree.connect(1, &hello(0, &[], 5_000), [0; 16], at(0));
    assert!(response.unwrap().session_id != 0, "never refused for it");
    assert_eq!(tree.zxid(), 5_001);
    tree.connect(2, &hello(0, &[], i64::MAX), [0; 16], at(0));
    assert_eq!(
        tree.zxid(),
        ZXID_TAKEN_MAX + 1,
        "a liar cannot use the numbers up"
    );
    tree.connect(3, &hello(0, &[], i64::MIN), [0; 16], at(0));
    assert_eq!(tree.zxid(), ZXID_TAKEN_MAX + 2);
    let (early, late) = (
        initial_zxid(1_796_000_000_000),
        initial_zxid(1_796_000_000_001),
    );
    assert!(early + 1_000_000 < late, "a million writes a millisecond");
    assert!(initial_zxid(u64::MAX) <= ZXID_TAKEN_MAX);
}

#[test]
fn one_shot_watches() {
    use EventType::{ChildrenChanged, Created, DataChanged, Deleted};
    let mut tree = tree();
    for connection in [1, 2] {
        join(&mut tree, connection);
    }
    // getData and getChildren that find nothing leave no watch; exists does.
    assert!(ask(&mut tree, 1, &get("/a", true)).is_err());
    assert!(ask(&mut tree, 1, &children("/a", true)).is_err());
    assert!(events(&mut tree, 2, &create("/a", 0)).is_empty());
    events(&mut tree, 2, &delete("/a"));
    assert!(ask(&mut tree, 1, &exists("/a", true)).is_err());
    assert!(ask(&mut tree, 1, &exists("/a", true)).is_err());
    ask(&mut tree, 1, &children("/", true)).unwrap();
    assert_eq!(
        events(&mut tree, 2, &create("/a", 0)),
        [(1, Created, "/a".into()), (1, ChildrenChanged, "/".into())]
    );
    assert!(events(&mut tree, 2, &set("/a")).is_empty(), "used up");
    // One deleted event for data, exist and child watch together.
    ask(&mut tree, 1, &get("/a", true)).unwrap();
    ask(&mut tree, 1, &children("/a", true)).unwrap();
    ask(&mut tree, 2, &get("/a", true)).unwrap();
    assert_eq!(
        events(&mut tree, 2, &delete("/a")),
        [(1, Deleted, "/a".into()), (2, Deleted, "/a".into())]
    );
    assert_eq!(tree.figures().watches, 0);
    // Watches go with the connection.
    ask(&mut tree, 2, &create("/a", 0)).unwrap();
    ask(&mut tree, 1, &get("/a", true)).unwrap();
    tree.disconnect(1);
    assert!(events(&mut tree, 2, &set("/a")).is_empty());
    // A refused write tells nobody.
    ask(&mut tree, 2, &get("/a", true)).unwrap();
    let multi = Request::Multi(vec![set("/a"), delete("/none")]);
    assert!(events(&mut tree, 2, &multi).is_empty());
    assert_eq!(
        events(&mut tree, 2, &set("/a")),
        [(2, DataChanged, "/a".into())]
    );
}

#[test]
fn persistent_and_recursive_watches_stay() {
    use EventType::{ChildrenChanged, Created, DataChanged, Deleted};
    let mut tree = tree();
    join(&mut tree, 1);
    let add = |path: &str, mode| Request::AddWatch {
        path: path.into(),
        mode,
    };
    ask(&mut tree, 1, &create("/a", 0)).unwrap();
    ask(&mut tree, 1, &add("/a", 0)).unwrap();
    for _ in 0..2 {
        ask(&mut tree, 1, &get("/a", true)).unwrap();
        assert_eq!(
            events(&mut tree, 1, &set("/a")),
            [(1, DataChanged, "/a".into())]
        );
    }
    assert_eq!(
        events(&mut tree, 1, &create("/a/b", 0)),
        [(1, ChildrenChanged, "/a".into())]
    );
    ask(&mut tree, 1, &add("/a", 1)).unwrap();
    let remove = |kind| Request::RemoveWatches {
        path: "/a".into(),
        kind,
    };
    assert_eq!(
        events(&mut tree, 1, &create("/a/b/c", 0)),
        [(1, Created, "/a/b/c".into())]
    );
    assert_eq!(ask(&mut tree, 1, &remove(1)), Err(ErrorCode::NoWatcher));
    assert_eq!(ask(&mut tree, 1, &remove(3)), Ok(Response::Empty));
    assert!(events(&mut tree, 1, &delete("/a/b/c")).is_empty());
    assert_eq!(
        ask(&mut tree, 1, &add("/a", 2)),
        Err(ErrorCode::BadArguments)
    );
    // For the root and all below.
    ask(&mut tree, 1, &add("/", 1)).unwrap();
    assert_eq!(
        events(&mut tree, 1, &delete("/a/b")),
        [(1, Deleted, "/a/b".into())]
    );
}

#[test]
fn set_watches_tells_what_was_missed_and_sets_the_rest() {
    use EventType::{ChildrenChanged, Created, DataChanged, Deleted};
    let mut tree = tree();
    join(&mut tree, 1);
    for path in ["/same", "/set", "/kids", "/made"] {
        ask(&mut tree, 1, &create(path, 0)).unwrap();
    }
    let relative_zxid = tree.zxid();
    ask(&mut tree, 1, &set("/set")).unwrap();
    ask(&mut tree, 1, &create("/kids/x", 0)).unwrap();
    let paths = |list: &[&str]| {
        list.iter()
            .map(|path| (*path).to_owned())
            .collect::<Vec<_>>()
    };
    let watches = SetWatches {
        relative_zxid,
        data: paths(&["/same", "/set", "/gone", "/kids"]),
        exist: paths(&["/made", "/later"]),
        child: paths(&["/same", "/kids", "/gone2"]),
        persistent: None,
    };
    assert_eq!(
        events(&mut tree, 1, &Request::SetWatches(watches.clone())),
        [
            (1, DataChanged, "/set".into()),
            (1, Deleted, "/gone".into()),
            (1, Created, "/made".into()),
            (1, ChildrenChanged, "/kids".into()),
            (1, Deleted, "/gone2".into()),
        ]
    );
    assert_eq!(
        events(&mut tree, 1, &create("/later", 0)),
        [(1, Created, "/later".into())]
    );
    assert_eq!(
        events(&mut tree, 1, &delete("/same")),
        [(1, Deleted, "/same".into())]
    );
    // A client from another run with higher zxids: its zxids say nothing, all is told as changed.
    let high = tree.zxid() + 1_000;
    tree.connect(2, &hello(0, &[], high), [0; 16], at(1));
    let all = SetWatches {
        relative_zxid: high,
        data: paths(&["/set"]),
        child: paths(&["/kids"]),
        ..SetWatches::default()
    };
    assert_eq!(events(&mut tree, 2, &Request::SetWatches(all)).len(), 2);
}

#[test]
fn watches_are_limited_and_a_client_that_sets_too_many_is_cut() {
    let config = TreeConfig {
        watches_per_session_max: 2,
        ..TreeConfig::default()
    };
    let mut tree = Tree::new(config, 1, at(0));
    join(&mut tree, 1);
    for path in ["/a", "/b"] {
        assert_eq!(
            ask(&mut tree, 1, &exists(path, true)),
            Err(ErrorCode::NoNode)
        );
    }
    assert_eq!(
        ask(&mut tree, 1, &exists("/c", true)),
        Err(ErrorCode::QuotaExceeded)
    );
    assert_eq!(
        ask(&mut tree, 1, &exists("/c", false)),
        Err(ErrorCode::NoNode)
    );
    let watches = SetWatches {
        exist: vec!["/c".into()],
        ..SetWatches::default()
    };
    let (reply, _) = tree.request(1, &Request::SetWatches(watches), at(1));
    assert!(reply.close);
}

#[test]
fn znodes_and_bytes_and_sessions_are_limited() {
    let config = TreeConfig {
        znodes_max: 6,
        sessions_max: 1,
        bytes_max: 100_000,
        ..TreeConfig::default()
    };
    let mut tree = Tree::new(config, 1, at(0));
    join(&mut tree, 1);
    assert!(
        tree.connect(2, &hello(0, &[], 0), [0; 16], at(0))
            .0
            .is_none()
    );
    ask(&mut tree, 1, &create("/a", 0)).unwrap();
    ask(&mut tree, 1, &create("/b", 0)).unwrap();
    let bytes = tree.figures().bytes;
    assert_eq!(
        ask(&mut tree, 1, &create("/c", 0)),
        Err(ErrorCode::QuotaExceeded)
    );
    let large = Request::SetData {
        path: "/a".into(),
        data: Some(vec![0; 100_000].into()),
        version: -1,
    };
    assert_eq!(ask(&mut tree, 1, &large), Err(ErrorCode::QuotaExceeded));
    assert_eq!(tree.figures().bytes, bytes, "nothing of it stays");
    assert_eq!(ask(&mut tree, 1, &get("/c", false)), Err(ErrorCode::NoNode));
    ask(&mut tree, 1, &delete("/b")).unwrap();
    ask(&mut tree, 1, &create("/c", 0)).unwrap();
}

#[test]
fn paths_flags_and_lists_that_cannot_be() {
    let mut tree = tree();
    join(&mut tree, 1);
    for bad in [
        "", "x", "/a/", "//a", "/a//b", "/.", "/a/..", "/a\0", "/a\u{7f}",
    ] {
        assert_eq!(
            ask(&mut tree, 1, &create(bad, 0)),
            Err(ErrorCode::BadArguments),
            "{bad:?}"
        );
        assert_eq!(
            ask(&mut tree, 1, &delete(bad)),
            Err(ErrorCode::BadArguments),
            "{bad:?}"
        );
        assert_eq!(
            ask(&mut tree, 1, &get(bad, true)),
            Err(ErrorCode::NoNode),
            "{bad:?}"
        );
        assert_eq!(
            ask(&mut tree, 1, &exists(bad, true)),
            Err(ErrorCode::NoNode),
            "{bad:?}"
        );
    }
    assert_eq!(tree.figures().watches, 0, "none on what can never be");
    assert_eq!(
        ask(&mut tree, 1, &delete("/")),
        Err(ErrorCode::BadArguments)
    );
    assert_eq!(
        ask(&mut tree, 1, &create("/", 0)),
        Err(ErrorCode::NodeExists)
    );
    assert_eq!(
        ask(&mut tree, 1, &create("/a", 7)),
        Err(ErrorCode::BadArguments)
    );
    assert_eq!(
        ask(&mut tree, 1, &create("/a", 5)),
        Err(ErrorCode::Unimplemented)
    );
    assert_eq!(
        ask(&mut tree, 1, &set("/zookeeper/config")),
        Err(ErrorCode::NoAuth)
    );
    assert_eq!(
        ask(&mut tree, 1, &create("/a/b", 0)),
        Err(ErrorCode::NoNode)
    );
    let with = |acl: Vec<Acl>, path: &str| {
        Request::Create(Create {
            form: CreateForm::Plain,
            path: path.into(),
            data: None,
            acl,
            flags: 0,
        })
    };
    let acl = |perms, scheme: &str, id: &str| Acl {
        perms,
        scheme: scheme.into(),
        id: id.into(),
    };
    assert_eq!(
        ask(&mut tree, 1, &with(vec![], "/a")),
        Err(ErrorCode::InvalidACL)
    );
    let auth = vec![acl(31, "auth", "")];
    assert_eq!(
        ask(&mut tree, 1, &with(auth, "/a")),
        Err(ErrorCode::InvalidACL)
    );
    // A list that would have to keep others out is refused rather than ignored; read-only is read-only.
    let digest = vec![acl(31, "digest", "u:x")];
    assert_eq!(
        ask(&mut tree, 1, &with(digest, "/a")),
        Err(ErrorCode::InvalidACL)
    );
    ask(&mut tree, 1, &with(vec![acl(1, "world", "anyone")], "/a")).unwrap();
    assert_eq!(ask(&mut tree, 1, &set("/a")), Err(ErrorCode::NoAuth));
    assert_eq!(
        ask(&mut tree, 1, &create("/a/b", 0)),
        Err(ErrorCode::NoAuth)
    );
    ask(&mut tree, 1, &get("/a", false)).unwrap();
    // A sequential name may be nothing but its number.
    ask(&mut tree, 1, &create("/d", 0)).unwrap();
    let path = Response::Path("/d/0000000000".into());
    assert_eq!(ask(&mut tree, 1, &create("/d/", 2)), Ok(path));
}

#[test]
fn emptied_containers_go() {
    let mut tree = tree();
    join(&mut tree, 1);
    let container = Request::Create(Create {
        form: CreateForm::Container,
        path: "/c".into(),
        data: None,
        acl: Acl::open(),
        flags: 4,
    });
    ask(&mut tree, 1, &container).unwrap();
    tree.touch(1, at(60));
    tree.expire(at(60));
    assert_eq!(
        tree.nodes.names("/"),
        ["c", "zookeeper"],
        "never had children"
    );
    ask(&mut tree, 1, &create("/c/x", 0)).unwrap();
    ask(&mut tree, 1, &delete("/c/x")).unwrap();
    tree.expire(at(61));
    assert_eq!(tree.nodes.names("/"), ["c", "zookeeper"], "not yet");
    tree.expire(at(121));
    assert_eq!(tree.nodes.names("/"), ["zookeeper"]);
}

#[test]
fn what_else_can_be_asked() {
    let mut tree = tree();
    join(&mut tree, 1);
    for (path, flags) in [("/a", 0), ("/a/e", 1), ("/a/f", 1), ("/ab", 0)] {
        ask(&mut tree, 1, &create(path, flags)).unwrap();
    }
    let ephemerals = Request::GetEphemerals { path: "/a/".into() };
    let names = vec!["/a/e".to_owned(), "/a/f".to_owned()];
    assert_eq!(ask(&mut tree, 1, &ephemerals), Ok(Response::Names(names)));
    let count = |path: &str| Request::GetAllChildrenNumber { path: path.into() };
    assert_eq!(ask(&mut tree, 1, &count("/a")), Ok(Response::Number(2)));
    assert_eq!(ask(&mut tree, 1, &count("/")), Ok(Response::Number(7)));
    let reads = Request::MultiRead(vec![get("/none", true), children("/a", true)]);
    let names = Response::Names(vec!["e".into(), "f".into()]);
    assert_eq!(
        ask(&mut tree, 1, &reads),
        Ok(Response::Multi(vec![
            Item::Failed(-101),
            Item::Done(op::GET_CHILDREN, names)
        ]))
    );
    assert_eq!(tree.figures().watches, 0);
    let sasl = tree.request(1, &Request::Sasl { token: None }, at(1)).0;
    assert_eq!((sasl.zxid, sasl.result), (0, Ok(Response::Token(None))));
    let auth = Request::Auth {
        scheme: "ip".into(),
        auth: None,
    };
    assert!(tree.request(1, &auth, at(1)).0.close);
}

/// As simple as can be: no indexes, multi by copying everything.
#[derive(Debug, Clone, Default, PartialEq)]
struct Model {
    nodes: BTreeMap<String, (i32, i64, i32)>,
}

impl Model {
    fn parent(path: &str) -> String {
        match path.rsplit_once('/').unwrap().0 {
            "" => "/".into(),
            parent => parent.into(),
        }
    }

    fn apply(&mut self, session: i64, request: &Request) -> Result<Option<String>, ErrorCode> {
        match request {
            Request::Create(create) => {
                let parent = Self::parent(&create.path);
                let &(_, owner, created) = self.nodes.get(&parent).ok_or(ErrorCode::NoNode)?;
                let path = match create.flags & 2 {
                    0 => create.path.clone(),
                    _ => format!("{}{created:010}", create.path),
                };
                if self.nodes.contains_key(&path) {
                    return Err(ErrorCode::NodeExists);
                }
                if owner != 0 {
                    return Err(ErrorCode::NoChildrenForEphemerals);
                }
                self.nodes.get_mut(&parent).unwrap().2 += 1;
                let owner = if create.flags & 1 == 1 { session } else { 0 };
                self.nodes.insert(path.clone(), (0, owner, 0));
                Ok(Some(path))
            }
            Request::Delete { path, version } => {
                let &(now, ..) = self.nodes.get(path).ok_or(ErrorCode::NoNode)?;
                if *version != -1 && *version != now {
                    return Err(ErrorCode::BadVersion);
                }
                if self
                    .nodes
                    .keys()
                    .any(|other| other.starts_with(&format!("{path}/")))
                {
                    return Err(ErrorCode::NotEmpty);
                }
                self.nodes.remove(path);
                Ok(None)
            }
            Request::SetData { path, version, .. } => {
                let node = self.nodes.get_mut(path).ok_or(ErrorCode::NoNode)?;
                if *version != -1 && *version != node.0 {
                    return Err(ErrorCode::BadVersion);
                }
                node.0 += 1;
                Ok(None)
            }
            _ => unreachable!(),
        }
    }

    fn end(&mut self, session: i64) {
        self.nodes.retain(|_, node| node.1 != session);
    }
}

fn write() -> impl Strategy<Value = Request> {
    let path = prop_oneof![
        Just("/a"),
        Just("/b"),
        Just("/a/c"),
        Just("/a/d"),
        Just("/a/c/e"),
        Just("/a/c-x")
    ];
    let version = prop_oneof![3 => Just(-1), 1 => 0..3_i32];
    (path, version, 0..6_i32).prop_map(|(path, version, what)| match what {
        0..=3 => create(path, what),
        4 => Request::Delete {
            path: path.into(),
            version,
        },
        _ => Request::SetData {
            path: path.into(),
            data: None,
            version,
        },
    })
}

#[derive(Debug, Clone)]
enum Step {
    Write(u64, Request),
    Multi(u64, Vec<Request>),
    Close(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (1..4_u64, write()).prop_map(|(by, request)| Step::Write(by, request)),
        4 => (1..4_u64, proptest::collection::vec(write(), 0..5)).prop_map(|(by, all)| Step::Multi(by, all)),
        1 => (1..4_u64).prop_map(Step::Close),
    ]
}

fn check(tree: &mut Tree, model: &Model) {
    let mut ephemerals = 0;
    for (path, &(version, owner, created)) in &model.nodes {
        let Ok(Response::Stat(stat)) = ask(tree, 9, &exists(path, false)) else {
            panic!("{path} is missing");
        };
        let names: Vec<_> = model
            .nodes
            .keys()
            .filter(|other| *other != "/" && Model::parent(other) == *path)
            .collect();
        let Ok(Response::Names(found)) = ask(tree, 9, &children(path, false)) else {
            panic!("{path} is missing");
        };
        let found: Vec<_> = found.iter().filter(|name| *name != "zookeeper").collect();
        assert_eq!(found.len(), names.len(), "{path}");
        let root = i32::from(path == "/");
        assert_eq!(stat.num_children - root, names.len() as i32, "{path}");
        assert_eq!(
            (stat.version, stat.ephemeral_owner),
            (version, owner),
            "{path}"
        );
        assert_eq!(stat.cversion, 2 * created - stat.num_children, "{path}");
        ephemerals += usize::from(owner != 0);
    }
    // /zookeeper and its two.
    assert_eq!(tree.figures().znodes, model.nodes.len() + 3);
    assert_eq!(tree.figures().ephemerals, ephemerals);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_tree_does_what_the_model_does(steps in proptest::collection::vec(step(), 1..60)) {
        let mut tree = tree();
        let empty = tree.figures().bytes;
        let mut model = Model::default();
        model.nodes.insert("/".into(), (0, 0, 0));
        let mut sessions = BTreeMap::new();
        for connection in [1, 2, 3, 9] {
            sessions.insert(connection, join(&mut tree, connection));
        }
        for step in steps {
            let before = tree.zxid();
            match step {
                Step::Write(by, request) => {
                    let expected = model.apply(sessions[&by], &request);
                    let found = ask(&mut tree, by, &request);
                    match (expected, found) {
                        (Ok(Some(path)), Ok(Response::Path(found))) => prop_assert_eq!(path, found),
                        (Ok(None), Ok(_)) => {}
                        (Err(code), Err(found)) => prop_assert_eq!(code, found),
                        (expected, found) => prop_assert!(false, "{:?} {:?}", expected, found),
                    }
                    prop_assert_eq!(tree.zxid(), before + 1);
                }
                Step::Multi(by, requests) => {
                    let mut copy = model.clone();
                    let failed = requests.iter().enumerate().find_map(|(index, request)| {
                        copy.apply(sessions[&by], request).err().map(|code| (index, code))
                    });
                    let Ok(Response::Multi(items)) = ask(&mut tree, by, &Request::Multi(requests.clone())) else {
                        panic!("a multi answers with items");
                    };
                    prop_assert_eq!(items.len(), requests.len());
                    match failed {
                        None => {
                            model = copy;
                            let done = items.iter().all(|item| matches!(item, Item::Done(..)));
                            prop_assert!(done);
                        }
                        Some((index, code)) => {
                            for (at, item) in items.iter().enumerate() {
                                let expected = match at.cmp(&index) {
                                    std::cmp::Ordering::Less => 0,
                                    std::cmp::Ordering::Equal => code.code(),
                                    std::cmp::Ordering::Greater => -2,
                                };
                                prop_assert_eq!(item, &Item::Failed(expected));
                            }
                        }
                    }
                    prop_assert_eq!(tree.zxid(), before + 1);
                }
                Step::Close(by) => {
                    model.end(sessions[&by]);
                    ask(&mut tree, by, &Request::CloseSession).unwrap();
                    sessions.insert(by, join(&mut tree, by));
                }
            }
            check(&mut tree, &model);
        }
        // Deepest first: all goes, and no byte stays counted.
        for path in model.nodes.keys().rev().filter(|path| *path != "/") {
            ask(&mut tree, 9, &delete(path)).unwrap();
        }
        prop_assert_eq!(tree.figures().bytes, empty);
    }
}
