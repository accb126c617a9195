//! Golden bytes of section 12, and what readers take.

use cadastre_types::Code;

use super::*;
use crate::testing::unhex;

const WRITER: Writer<'_> = Writer {
    id: "master:16000",
    salt: 0x0102_0304_0506_0708,
};

fn server() -> ServerName {
    ServerName::parse("h1,16020,1700000000000").unwrap()
}

#[test]
fn golden_meta_region_server() {
    use pb::region_state::State;
    let golden = unhex(
        "ff000000146d61737465723a31363030300102030405060708504255460a0e0a02683110947d1880d095ffbc3110001803",
    );
    assert_eq!(meta_region_server(WRITER, &server(), State::Open), golden);
    assert_eq!(
        read_meta_region_server(&golden).unwrap(),
        (server(), State::Open)
    );
}

#[test]
fn every_value_comes_back() {
    assert_eq!(read_cluster_id(&cluster_id(WRITER, "c1")).unwrap(), "c1");
    assert_eq!(
        read_master(&master(WRITER, &server(), 16010)).unwrap(),
        server()
    );
    let info = read_region_server(&region_server(WRITER, 16030, "2.6.4")).unwrap();
    assert_eq!(info.info_port, Some(16030));
    let version = info.version_info.unwrap();
    assert_eq!(
        (version.version_major, version.version_minor),
        (Some(2), Some(6))
    );
    assert_eq!(read_running(&running(WRITER, "today")).unwrap(), "today");
    for state in [TableState::Enabled, TableState::Disabling] {
        assert_eq!(read_table(&table(WRITER, state)).unwrap(), state);
    }
    let namespace_message = pb::NamespaceDescriptor {
        name: Bytes::from_static(b"ns"),
        configuration: Vec::new(),
    };
    let value = namespace(WRITER, &namespace_message);
    assert_eq!(read_namespace(&value).unwrap(), namespace_message);
    assert!(
        !value.windows(4).any(|bytes| bytes == PBUF),
        "HBase writes none here"
    );
}

#[test]
fn prefixes() {
    let message = b"m";
    assert_eq!(&unwrap(&wrap("id", 1, message)).unwrap()[..], message);
    // Java takes a value without prefix as it is.
    assert_eq!(&unwrap(&pbuf(message)).unwrap()[..], message);
    for bad in [
        &b""[..],
        b"\xff",
        b"\xff\0\0\0",
        b"\xff\0\0\0\x05PBUFm",
        b"\xff\xff\xff\xff\xffPBUFm",
        b"\xff\0\0\0\x01aPBU",
        b"PBU",
    ] {
        assert_eq!(unwrap(bad).unwrap_err().code(), Code::Corrupt, "{bad:?}");
    }
}
