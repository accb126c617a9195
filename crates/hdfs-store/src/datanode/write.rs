//! WRITE_BLOCK: a whole block through a pipeline of DataNodes, acknowledged packet by packet, on their disks at the end.

use bytes::{Bytes, BytesMut};
use cadastre_env::{Env, HostPort};
use cadastre_types::{Error, Result};
use cadastre_wire::hadoop::{pb, transfer};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use super::connection::{Connection, Reader, broken};
use super::{DataNodes, NotWritten, SILENCE, header};

/// Bytes with one checksum (`dfs.bytes-per-checksum` is this unless somebody changes it); a block's size is a multiple.
const CHUNK: u32 = 512;

/// Data of a packet, bytes: a multiple of the chunk. Large enough that its header and ack cost little.
const PACKET_DATA: usize = 64 * 1024;

fn unknown(error: Error) -> NotWritten {
    NotWritten {
        culprit: None,
        error,
    }
}

fn first(error: Error) -> NotWritten {
    NotWritten {
        culprit: Some(0),
        error,
    }
}

pub(super) async fn write<E: Env>(
    nodes: &DataNodes<E>,
    block: &pb::LocatedBlockProto,
    client: &str,
    data: &Bytes,
) -> Result<(), NotWritten> {
    let Some(node) = block.locs.first() else {
        return Err(unknown(Error::corrupt("a block without DataNodes")));
    };
    let peer = nodes.address(node).map_err(first)?;
    let mut connection = nodes.connect(&peer).await.map_err(first)?;
    let written = Writing {
        block,
        peer: &peer,
        checksum: transfer::Checksum::crc32c(CHUNK).expect("a chunk that can be"),
    }
    .over(nodes, &mut connection, client, data)
    .await;
    if let Err(failure) = &written
        && let Some(node) = failure.culprit.and_then(|place| block.locs.get(place))
        && let Ok(address) = nodes.address(node)
    {
        nodes.note_failure(&address);
    }
    written
}

struct Writing<'a> {
    block: &'a pb::LocatedBlockProto,
    peer: &'a HostPort,
    checksum: transfer::Checksum,
}

impl Writing<'_> {
    async fn over<E: Env, S: AsyncRead + AsyncWrite + Unpin + Send>(
        &self,
        nodes: &DataNodes<E>,
        connection: &mut Connection<S>,
        client: &str,
        data: &Bytes,
    ) -> Result<(), NotWritten> {
        let mut out = BytesMut::new();
        transfer::put_operation(&mut out, transfer::WRITE_BLOCK, &self.request(client));
        let sent = connection.stream.write_all(&out).await;
        sent.map_err(|error| first(broken(self.peer, &error)))?;
        let (incoming, outgoing) = tokio::io::split(&mut connection.stream);
        let mut reader = Reader {
            stream: incoming,
            inbound: &mut connection.inbound,
            clock: nodes.env.clock(),
            peer: self.peer,
            // The first one waits for those behind it, too.
            silence: SILENCE * u32::try_from(self.block.locs.len()).unwrap_or(1),
        };
        let answer: pb::BlockOpResponseProto = reader.message().await.map_err(unknown)?;
        if answer.status != pb::Status::Success as i32 {
            let why = format!(
                "the block was refused: {:?} {} {}",
                answer.status(),
                answer.first_bad_link(),
                answer.message()
            );
            return Err(NotWritten {
                culprit: Some(self.place_of(answer.first_bad_link())),
                error: broken(self.peer, &why),
            });
        }
        let sending = self.send(outgoing, data);
        let acking = self.acks(&mut reader, packets(data) + 1);
        futures::future::try_join(sending, acking).await.map(drop)
    }

    fn request(&self, client: &str) -> pb::OpWriteBlockProto {
        let block = self.block;
        let rest = |from: usize| block.locs.get(from..).unwrap_or_default().to_vec();
        let types = &block.storage_types;
        let ids = &block.storage_i_ds;
        pb::OpWriteBlockProto {
            header: header(block, client),
            targets: rest(1),
            source: None,
            stage: pb::op_write_block_proto::BlockConstructionStage::PipelineSetupCreate as i32,
            pipeline_size: u32::try_from(block.locs.len()).unwrap_or(u32::MAX),
            min_bytes_rcvd: 0,
            max_bytes_rcvd: 0,
            latest_generation_stamp: block.b.generation_stamp,
            requested_checksum: self.checksum.message(),
            storage_type: types.first().copied(),
            target_storage_types: types.get(1..).unwrap_or_default().to_vec(),
            storage_id: ids.first().cloned(),
            target_storage_ids: ids.get(1..).unwrap_or_default().to_vec(),
        }
    }

    /// The DataNode that is named `address:port`; the first if it is none of the others.
    fn place_of(&self, link: &str) -> usize {
        let named = |node: &pb::DatanodeInfoProto| {
            let port = node.id.xfer_port;
            link == format!("{}:{port}", node.id.ip_addr)
                || link == format!("{}:{port}", node.id.host_name)
        };
        self.block.locs.iter().position(named).unwrap_or(0)
    }

    async fn send<W: AsyncWrite + Unpin>(&self, mut to: W, data: &Bytes) -> Result<(), NotWritten> {
        let mut out = BytesMut::new();
        let mut seqno = 0;
        let failed = |error: std::io::Error| unknown(broken(self.peer, &error));
        for (at, piece) in data.chunks(PACKET_DATA).enumerate() {
            out.clear();
            let offset = (at * PACKET_DATA) as u64;
            transfer::put_packet(
                &mut out,
                self.checksum,
                (offset, seqno),
                (false, false),
                piece,
            );
            to.write_all(&out).await.map_err(failed)?;
            seqno += 1;
        }
        out.clear();
        // On the disks before the last ack: a renamed object survives a power cut.
        let end = (data.len() as u64, seqno);
        transfer::put_packet(&mut out, self.checksum, end, (true, true), &[]);
        to.write_all(&out).await.map_err(failed)
    }

    async fn acks<R, C>(
        &self,
        reader: &mut Reader<'_, R, C>,
        wanted: usize,
    ) -> Result<(), NotWritten>
    where
        R: AsyncRead + Unpin + Send,
        C: cadastre_env::Clock,
    {
        let mut next = 0;
        while next < wanted {
            let ack: pb::PipelineAckProto = reader.message().await.map_err(unknown)?;
            let bad = |status: &i32| *status != pb::Status::Success as i32;
            if let Some(place) = ack.reply.iter().position(bad) {
                let why = format!("DataNode {place} of the pipeline: {:?}", ack.reply);
                return Err(NotWritten {
                    culprit: Some(place),
                    error: broken(self.peer, &why),
                });
            }
            if ack.seqno == transfer::HEARTBEAT {
                continue;
            }
            if usize::try_from(ack.seqno) != Ok(next) {
                let why = format!("ack {} instead of {next}", ack.seqno);
                return Err(first(broken(self.peer, &why)));
            }
            next += 1;
        }
        Ok(())
    }
}

/// Packets with data.
fn packets(data: &Bytes) -> usize {
    data.len().div_ceil(PACKET_DATA)
}
