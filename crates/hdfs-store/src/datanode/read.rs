//! READ_BLOCK: a piece of a block from one DataNode, every chunk checked.

use bytes::{Bytes, BytesMut};
use cadastre_env::{Env, HostPort, Net};
use cadastre_types::{Code, Error, Result};
use cadastre_wire::hadoop::{pb, transfer};
use tokio::io::AsyncWriteExt;

use super::connection::{Connection, Reader, broken};
use super::{DataNodes, SILENCE, header};

type Stream<E> = <<E as Env>::Net as Net>::Stream;

/// A read of one block.
struct Reading<'a> {
    request: pb::OpReadBlockProto,
    peer: &'a HostPort,
}

pub(super) async fn read<E: Env>(
    nodes: &DataNodes<E>,
    block: &pb::LocatedBlockProto,
    node: &pb::DatanodeInfoProto,
    client: &str,
    (offset, len): (u64, u64),
) -> Result<Bytes> {
    let peer = nodes.address(node)?;
    let reading = Reading {
        request: pb::OpReadBlockProto {
            header: header(block, client),
            offset,
            len,
            send_checksums: Some(true),
        },
        peer: &peer,
    };
    // A kept connection may have been closed at the other end meanwhile.
    if let Some(mut kept) = nodes.take_idle(&peer)
        && let Ok(data) = reading.over(nodes, &mut kept).await
    {
        nodes.keep_idle(&peer, kept);
        return Ok(data);
    }
    let mut fresh = nodes.connect(&peer).await?;
    match reading.over(nodes, &mut fresh).await {
        Ok(data) => {
            nodes.keep_idle(&peer, fresh);
            Ok(data)
        }
        Err(error) => {
            nodes.note_failure(&peer);
            Err(error)
        }
    }
}

impl Reading<'_> {
    async fn over<E: Env>(
        &self,
        nodes: &DataNodes<E>,
        connection: &mut Connection<Stream<E>>,
    ) -> Result<Bytes> {
        let peer = self.peer;
        let mut out = BytesMut::new();
        transfer::put_operation(&mut out, transfer::READ_BLOCK, &self.request);
        let Connection { stream, inbound } = connection;
        stream
            .write_all(&out)
            .await
            .map_err(|error| broken(peer, &error))?;
        let mut reader = Reader {
            stream: &mut *stream,
            inbound,
            clock: nodes.env.clock(),
            peer,
            silence: SILENCE,
        };
        let answer: pb::BlockOpResponseProto = reader.message().await?;
        if answer.status != pb::Status::Success as i32 {
            let why = format!(
                "the read was refused: {:?} {}",
                answer.status(),
                answer.message()
            );
            return Err(broken(peer, &why));
        }
        let data = self.data(&mut reader, &answer).await?;
        out.clear();
        // Lets the connection be used again, and the DataNode know that the block is whole.
        let status = pb::ClientReadStatusProto {
            status: pb::Status::ChecksumOk as i32,
        };
        transfer::put_message(&mut out, &status);
        stream
            .write_all(&out)
            .await
            .map_err(|error| broken(peer, &error))?;
        Ok(data)
    }

    /// The packets' data, cut to what was asked for: DataNodes send whole chunks.
    async fn data<R, C>(
        &self,
        reader: &mut Reader<'_, R, C>,
        answer: &pb::BlockOpResponseProto,
    ) -> Result<Bytes>
    where
        R: tokio::io::AsyncRead + Unpin + Send,
        C: cadastre_env::Clock,
    {
        let info = answer.read_op_checksum_info.as_ref();
        let info = info.ok_or_else(|| Error::corrupt("a read without checksums"))?;
        let checksum =
            transfer::Checksum::of(&info.checksum).map_err(|error| reader.of_peer(error))?;
        let (from, len) = (self.request.offset, self.request.len);
        let start = info.chunk_offset;
        let strange =
            |what: String| Error::new(Code::Corrupt, format!("DataNode {}: {what}", self.peer));
        if start > from || from - start >= checksum.chunk() as u64 {
            return Err(strange(format!("data from byte {start} instead of {from}")));
        }
        // What comes at most: up to the end of the last chunk.
        let end = (from + len).next_multiple_of(checksum.chunk() as u64);
        // What was asked for, at most a piece; the rest of the last chunk is little.
        let mut data = BytesMut::with_capacity(usize::try_from(len).unwrap_or(0));
        loop {
            let packet = reader.packet().await?;
            if packet.seqno == transfer::HEARTBEAT {
                continue;
            }
            if packet.last {
                break;
            }
            let at = start + data.len() as u64;
            if packet.offset != at || at + packet.data.len() as u64 > end {
                return Err(strange(format!(
                    "a packet of {} bytes at {}, expected at {at}, up to {end}",
                    packet.data.len(),
                    packet.offset
                )));
            }
            packet
                .check(checksum)
                .map_err(|error| reader.of_peer(error))?;
            data.extend_from_slice(&packet.data);
        }
        let data = data.freeze();
        let cut = usize::try_from(from - start).unwrap_or(usize::MAX);
        let until = usize::try_from(from - start + len).unwrap_or(usize::MAX);
        if data.len() < until {
            return Err(strange(format!(
                "{} bytes from {start} on, {len} from {from} were wanted",
                data.len()
            )));
        }
        Ok(data.slice(cut..until))
    }
}
