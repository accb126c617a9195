//! A connection's first bytes (hbase-protocol.md 1): preamble and connection header. What follows is `frame`'s.

use bytes::{BufMut, Bytes, BytesMut};
use cadastre_types::{Code, Error, Result};

use crate::cells::{Codec, Compressor};
use crate::{Service, decode, encode, frame, pb};

/// Length of a preamble, bytes.
pub const PREAMBLE_LEN: usize = 6;

/// Largest connection header taken, bytes. Clients send some hundred; attributes (2.6+) are few and short.
pub const CONNECTION_HEADER_MAX: usize = 64 * 1024;

/// Answer to a client that asks for SASL while security is off (1.4): status 0, then the "switch to simple" mark, -88.
pub const SASL_SWITCH_TO_SIMPLE: [u8; 8] = [0, 0, 0, 0, 0xff, 0xff, 0xff, 0xa8];

const MAGIC: &[u8; 4] = b"HBas";
const VERSION: u8 = 0;
const AUTH_SIMPLE: u8 = 0x50;
const AUTH_KERBEROS: u8 = 0x51;
const AUTH_DIGEST: u8 = 0x52;

/// How a client wants to prove who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auth {
    /// Not at all.
    Simple,
    /// By SASL; the code says which mechanism: 81 Kerberos, 82 token digest.
    Sasl(u8),
}

/// What the first six bytes of a connection say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preamble {
    /// An ordinary connection; its header follows.
    Hbase(Auth),
    /// `Regist`: answer with the cluster id ([`registry_answer`]), then close.
    Registry,
    /// `Securi`: answer with [`security_answer`], then read another preamble.
    Security,
}

impl Preamble {
    /// Reads the first six bytes.
    ///
    /// # Errors
    /// What 1.6 wants to be sent with call id [`frame::CONNECTION_CALL_ID`] before closing: [`Code::FatalConnection`],
    /// [`Code::WrongVersion`] or [`Code::BadAuth`].
    pub fn parse(bytes: &[u8; PREAMBLE_LEN]) -> Result<Self> {
        match bytes {
            b"Regist" => return Ok(Self::Registry),
            b"Securi" => return Ok(Self::Security),
            _ => {}
        }
        if &bytes[..4] != MAGIC {
            // A 2.6 client that probes with an unknown word looks at how this text begins.
            return Err(Error::new(
                Code::FatalConnection,
                format!(
                    "Expected HEADER=HBas but received HEADER={}",
                    bytes[..4].escape_ascii()
                ),
            ));
        }
        if bytes[4] != VERSION {
            return Err(Error::new(
                Code::WrongVersion,
                format!("RPC version {} is not {VERSION}", bytes[4]),
            ));
        }
        match bytes[5] {
            AUTH_SIMPLE => Ok(Self::Hbase(Auth::Simple)),
            code @ (AUTH_KERBEROS | AUTH_DIGEST) => Ok(Self::Hbase(Auth::Sasl(code))),
            code => Err(Error::new(
                Code::BadAuth,
                format!("authentication method {code} is unknown"),
            )),
        }
    }
}

/// What a connection header says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionInfo {
    /// The user to act as; empty if the client did not say.
    pub user: String,
    /// The user behind it, if it acts for another one.
    pub real_user: Option<String>,
    /// What the connection is for.
    pub service: Service,
    /// How cell blocks are written; `None` = no cell blocks on this connection, either way.
    pub codec: Option<Codec>,
    /// How cell blocks are compressed, either way.
    pub compressor: Option<Compressor>,
    /// The client's version, major and minor; gohbase, npm and Python clients do not say.
    pub version: Option<(u32, u32)>,
}

/// Reads a connection header, without its four bytes of length.
///
/// # Errors
/// All of them mean "close without a reply" (1.6): [`Code::Corrupt`], [`Code::RequestTooBig`], [`Code::UnknownService`],
/// [`Code::UnsupportedCellCodec`], [`Code::UnsupportedCompressionCodec`].
pub fn connection_header(bytes: Bytes) -> Result<ConnectionInfo> {
    if bytes.len() > CONNECTION_HEADER_MAX {
        return Err(Error::new(
            Code::RequestTooBig,
            format!(
                "a connection header of {} bytes is over the limit of {CONNECTION_HEADER_MAX}",
                bytes.len()
            ),
        ));
    }
    let header: pb::ConnectionHeader = decode(bytes)?;
    let name = header.service_name.unwrap_or_default();
    let service = Service::from_name(&name)
        .ok_or_else(|| Error::new(Code::UnknownService, format!("service '{name}' is unknown")))?;
    let codec = named(
        header.cell_block_codec_class,
        Codec::from_class,
        Code::UnsupportedCellCodec,
    )?;
    let compressor = named(
        header.cell_block_compressor_class,
        Compressor::from_class,
        Code::UnsupportedCompressionCodec,
    )?;
    if compressor.is_some() && codec.is_none() {
        return Err(Error::new(
            Code::UnsupportedCompressionCodec,
            "a compressor without a cell codec",
        ));
    }
    let user = header.user_info.unwrap_or_default();
    Ok(ConnectionInfo {
        user: user.effective_user,
        real_user: user.real_user,
        service,
        codec,
        compressor,
        version: header.version_info.as_ref().and_then(version),
    })
}

/// An absent or empty class name means none; an unknown one is an error.
fn named<T>(
    class: Option<String>,
    find: impl Fn(&str) -> Option<T>,
    code: Code,
) -> Result<Option<T>> {
    match class.as_deref() {
        None | Some("") => Ok(None),
        Some(class) => find(class)
            .map(Some)
            .ok_or_else(|| Error::new(code, format!("class '{class}' is not supported"))),
    }
}

fn version(info: &pb::VersionInfo) -> Option<(u32, u32)> {
    if let (Some(major), Some(minor)) = (info.version_major, info.version_minor) {
        return Some((major, minor));
    }
    let mut parts = info.version.split(['.', '-']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// A client's first bytes: preamble for simple authentication, length and connection header.
pub fn connection_start(info: &ConnectionInfo, version_text: &str) -> Bytes {
    let header = pb::ConnectionHeader {
        user_info: Some(pb::UserInformation {
            effective_user: info.user.clone(),
            real_user: info.real_user.clone(),
        }),
        service_name: Some(info.service.name().to_owned()),
        cell_block_codec_class: info.codec.map(|codec| codec.class().to_owned()),
        cell_block_compressor_class: info.compressor.map(|it| it.class().to_owned()),
        version_info: info.version.map(|(major, minor)| pb::VersionInfo {
            version: version_text.to_owned(),
            version_major: Some(major),
            version_minor: Some(minor),
            ..Default::default()
        }),
        ..Default::default()
    };
    let header = encode(&header);
    let length = u32::try_from(header.len()).expect("a header holds a few short names");
    let mut out = BytesMut::with_capacity(PREAMBLE_LEN + 4 + header.len());
    out.put_slice(MAGIC);
    out.put_u8(VERSION);
    out.put_u8(AUTH_SIMPLE);
    out.put_u32(length);
    out.put_slice(&header);
    out.freeze()
}

/// Answer to [`Preamble::Registry`] (1.5).
pub fn registry_answer(out: &mut BytesMut, cluster_id: &str) {
    let body = encode(&pb::GetConnectionRegistryResponse {
        cluster_id: cluster_id.to_owned(),
    });
    frame::encode_response(out, frame::CONNECTION_CALL_ID, Ok((&body, &[])));
}

/// Answer to [`Preamble::Security`] while security is off (1.5).
pub fn security_answer(out: &mut BytesMut) {
    let error = Error::new(Code::SecurityNotEnabled, "security is not enabled");
    frame::encode_response(out, frame::CONNECTION_CALL_ID, Err(&error));
}

#[cfg(test)]
mod tests;
