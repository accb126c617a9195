//! Regions and servers by name.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use md5::{Digest, Md5};

use crate::{Code, Error, META_TABLE, Result, TableName};

/// Full name of the one region of `hbase:meta`; it has no `.md5.` end.
pub const META_REGION_NAME: &[u8] = b"hbase:meta,,1";

/// Encoded name of the one region of `hbase:meta`: the Jenkins hash of its full name.
pub const META_ENCODED_NAME: &str = "1588230740";

/// The short name of a region: 32 hex digits, or the decimal hash of a region with an old-format name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EncodedName(Arc<str>);

impl EncodedName {
    /// The encoded name inside what a client put in a `RegionSpecifier`, whatever its `type` says (hbase-protocol.md 4.1): the
    /// 32 digits before a final dot, else a bare encoded name as it is, else the hash of the whole.
    pub fn from_specifier(value: &[u8]) -> Self {
        let hex = |digits: &[u8]| digits.iter().all(|b| b.is_ascii_hexdigit());
        let text = |digits: &[u8]| Self(String::from_utf8_lossy(digits).as_ref().into());
        if let Some(head) = value.strip_suffix(b".")
            && let Some(at) = head.len().checked_sub(32)
            && hex(&head[at..])
        {
            return text(&head[at..]);
        }
        if value.len() == 32 && hex(value) || value == META_ENCODED_NAME.as_bytes() {
            return text(value);
        }
        Self(jenkins_name(value).to_string().into())
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EncodedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One region: a range of rows of a table.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RegionInfo {
    /// Its table.
    pub table: TableName,
    /// First row, inclusive; empty = from the beginning.
    pub start_key: Bytes,
    /// End, exclusive; empty = to the end.
    pub end_key: Bytes,
    /// Creation time, ms; makes names unique. 1 for `hbase:meta`.
    pub region_id: u64,
    /// 0 for the default replica.
    pub replica_id: u32,
    /// Not to be served (a split parent).
    pub offline: bool,
    /// Has been split.
    pub split: bool,
}

impl RegionInfo {
    /// A new region of a table.
    pub fn new(table: TableName, start_key: Bytes, end_key: Bytes, region_id: u64) -> Self {
        Self {
            table,
            start_key,
            end_key,
            region_id,
            replica_id: 0,
            offline: false,
            split: false,
        }
    }

    /// The region of `hbase:meta`.
    pub fn meta() -> Self {
        Self::new(TableName::meta(), Bytes::new(), Bytes::new(), 1)
    }

    /// Whether this is `hbase:meta`.
    pub fn is_meta(&self) -> bool {
        self.table.as_str() == META_TABLE
    }

    /// Whether a row lies inside, by plain byte order; `hbase:meta`'s one region holds every row.
    pub fn contains(&self, row: &[u8]) -> bool {
        row >= &self.start_key[..] && (self.end_key.is_empty() || row < &self.end_key[..])
    }

    fn name_without_md5(&self) -> Vec<u8> {
        let mut name = self.table.as_str().as_bytes().to_vec();
        name.push(b',');
        name.extend_from_slice(&self.start_key);
        name.push(b',');
        name.extend_from_slice(self.region_id.to_string().as_bytes());
        if self.replica_id > 0 {
            name.extend_from_slice(format!("_{:04X}", self.replica_id).as_bytes());
        }
        name
    }

    /// Full name, the row key of `hbase:meta`: `table,start,id.md5.` (hbase-protocol.md 6.2).
    pub fn name(&self) -> Bytes {
        let mut name = self.name_without_md5();
        if !self.is_meta() {
            let digest = md5_hex(&name);
            name.push(b'.');
            name.extend_from_slice(digest.as_bytes());
            name.push(b'.');
        }
        name.into()
    }

    /// Encoded name.
    pub fn encoded_name(&self) -> EncodedName {
        let name = self.name_without_md5();
        if self.is_meta() {
            return EncodedName(jenkins_name(&name).to_string().into());
        }
        EncodedName(md5_hex(&name).into())
    }
}

/// A server and one start of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerName {
    /// Host as clients reach it.
    pub host: String,
    /// RPC port.
    pub port: u16,
    /// When it started, ms: the same host and port with another start code is another server.
    pub start_code: u64,
}

impl ServerName {
    /// Reads `host,port,startcode`.
    ///
    /// # Errors
    /// [`Code::DoNotRetryIo`] if it is not of that form.
    pub fn parse(text: &str) -> Result<Self> {
        let mut parts = text.splitn(3, ',');
        let mut next = || parts.next().unwrap_or_default();
        let (host, port, start_code) = (next(), next(), next());
        match (port.parse(), start_code.parse()) {
            (Ok(port), Ok(start_code)) if !host.is_empty() => Ok(Self {
                host: host.to_owned(),
                port,
                start_code,
            }),
            _ => Err(Error::new(
                Code::DoNotRetryIo,
                format!("a server name is host,port,startcode, not '{text}'"),
            )),
        }
    }

    /// `host:port`.
    pub fn host_port(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},{}", self.host, self.port, self.start_code)
    }
}

fn md5_hex(bytes: &[u8]) -> String {
    use fmt::Write;
    Md5::digest(bytes)
        .iter()
        .fold(String::with_capacity(32), |mut hex, byte| {
            // Writing to a String cannot fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        })
}

/// Encoded name of a region with an old-format name: |hash|, Bob Jenkins' lookup3 `hashlittle` with initial value 0.
fn jenkins_name(bytes: &[u8]) -> u32 {
    (jenkins_lookup3(bytes) as i32).unsigned_abs()
}

fn jenkins_lookup3(bytes: &[u8]) -> u32 {
    let word = |chunk: &[u8]| {
        let mut padded = [0_u8; 4];
        padded[..chunk.len()].copy_from_slice(chunk);
        u32::from_le_bytes(padded)
    };
    let seed = 0xdead_beef_u32.wrapping_add(bytes.len() as u32);
    let (mut a, mut b, mut c) = (seed, seed, seed);
    let mut rest = bytes;
    while rest.len() > 12 {
        a = a.wrapping_add(word(&rest[..4]));
        b = b.wrapping_add(word(&rest[4..8]));
        c = c.wrapping_add(word(&rest[8..12]));
        a = a.wrapping_sub(c) ^ c.rotate_left(4);
        c = c.wrapping_add(b);
        b = b.wrapping_sub(a) ^ a.rotate_left(6);
        a = a.wrapping_add(c);
        c = c.wrapping_sub(b) ^ b.rotate_left(8);
        b = b.wrapping_add(a);
        a = a.wrapping_sub(c) ^ c.rotate_left(16);
        c = c.wrapping_add(b);
        b = b.wrapping_sub(a) ^ a.rotate_left(19);
        a = a.wrapping_add(c);
        c = c.wrapping_sub(b) ^ b.rotate_left(4);
        b = b.wrapping_add(a);
        rest = &rest[12..];
    }
    if rest.is_empty() {
        return c;
    }
    let part = |from: usize| &rest[from.min(rest.len())..(from + 4).min(rest.len())];
    a = a.wrapping_add(word(part(0)));
    b = b.wrapping_add(word(part(4)));
    c = c.wrapping_add(word(part(8)));
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    (c ^ b).wrapping_sub(b.rotate_left(24))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Published or computed values, hbase-protocol.md sections 6.2 and 12.
    #[test]
    fn encoded_names() {
        assert_eq!(jenkins_name(b"hbase:meta,,1"), 1_588_230_740);
        assert_eq!(jenkins_name(b".META.,,1"), 1_028_785_192);
        assert_eq!(jenkins_name(b"-ROOT-,,0"), 70_236_052);
        assert_eq!(jenkins_name(b"hbase:meta,,1_0001"), 534_574_363);
        let name = |table: &str, start: &'static str, id, replica| {
            let mut info = RegionInfo::new(
                TableName::parse(table).unwrap(),
                Bytes::from_static(start.as_bytes()),
                Bytes::new(),
                id,
            );
            info.replica_id = replica;
            info.encoded_name().to_string()
        };
        assert_eq!(
            name("t1", "", 1_700_000_000_000, 0),
            "43ae7364b4a555b93267937f9bc49ec1"
        );
        assert_eq!(
            name("t1", "m", 1_700_000_000_000, 0),
            "940359fa5dccd7cdcd7a148f2f568482"
        );
        assert_eq!(
            name("ns:t1", "", 1_700_000_000_000, 1),
            "bc4d7e7a6c75db5353e5f6eccff2c831"
        );
        assert_eq!(
            name("TestTable", "0094429456", 1_289_497_600_452, 0),
            "527db22f95c8a9e0116f0cc13c680396"
        );
        assert_eq!(
            RegionInfo::meta().encoded_name().as_str(),
            META_ENCODED_NAME
        );
        assert_eq!(&RegionInfo::meta().name()[..], META_REGION_NAME);
    }

    #[test]
    fn specifiers_name_a_region_in_every_form() {
        let info = RegionInfo::new(
            TableName::parse("t1").unwrap(),
            Bytes::from_static(b"a.b,c"),
            Bytes::new(),
            17,
        );
        let encoded = info.encoded_name();
        assert_eq!(EncodedName::from_specifier(&info.name()), encoded);
        assert_eq!(
            EncodedName::from_specifier(encoded.as_str().as_bytes()),
            encoded
        );
        assert_eq!(
            EncodedName::from_specifier(META_REGION_NAME).as_str(),
            META_ENCODED_NAME
        );
        assert_eq!(
            EncodedName::from_specifier(b"1588230740").as_str(),
            META_ENCODED_NAME
        );
        // Garbage names some region that does not exist, it is never a panic.
        let _ = EncodedName::from_specifier(b".");
        let _ = EncodedName::from_specifier(&[0xff; 40]);
    }

    #[test]
    fn server_names() {
        let name = ServerName::parse("h1,16020,1700000000000").unwrap();
        assert_eq!(name.to_string(), "h1,16020,1700000000000");
        assert_eq!(name.host_port(), "h1:16020");
        for bad in ["", "h", "h,1", "h,x,1", ",1,1", "h,70000,1"] {
            assert!(ServerName::parse(bad).is_err(), "{bad}");
        }
    }
}
