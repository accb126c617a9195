//! A DataNode of the test's own: what it says wrong is found, and whose fault it is.

use bytes::BytesMut;
use cadastre_env::{Listener, RealEnv, RealEnvConfig};
use cadastre_types::Code;
use cadastre_wire::hadoop::transfer::{self, Checksum, PacketLength};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

type Stream = <<RealEnv as Env>::Net as Net>::Stream;

fn status(status: pb::Status) -> pb::BlockOpResponseProto {
    pb::BlockOpResponseProto {
        status: status as i32,
        ..Default::default()
    }
}

/// What the DataNode sends once it has an operation; then it reads until the client goes.
#[derive(Clone)]
struct Script(Bytes);

async fn serve(mut listener: <<RealEnv as Env>::Net as Net>::Listener, script: Script) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let mut start = [0; transfer::OP_BYTES];
        stream.read_exact(&mut start).await.unwrap();
        transfer::operation(start).unwrap();
        skip_message(&mut stream).await;
        stream.write_all(&script.0).await.unwrap();
        let mut rest = Vec::new();
        // Its end, however the client ends.
        let _ = stream.read_to_end(&mut rest).await;
    }
}

async fn skip_message(stream: &mut Stream) {
    let mut prefix = Vec::new();
    let length = loop {
        prefix.push(stream.read_u8().await.unwrap());
        if let Some(length) = transfer::message_length(&prefix).unwrap() {
            break length;
        }
    };
    let mut message = vec![0; length];
    stream.read_exact(&mut message).await.unwrap();
}

fn located(ports: &[u16]) -> pb::LocatedBlockProto {
    let node = |port: &u16| pb::DatanodeInfoProto {
        id: pb::DatanodeIdProto {
            ip_addr: "127.0.0.1".to_owned(),
            xfer_port: u32::from(*port),
            ..Default::default()
        },
        ..Default::default()
    };
    pb::LocatedBlockProto {
        locs: ports.iter().map(node).collect(),
        ..Default::default()
    }
}

/// Runs a test against a DataNode with this script. It is the first of the block's two.
fn against<F: Future<Output = ()> + Send>(
    script: BytesMut,
    test: impl FnOnce(Arc<DataNodes<RealEnv>>, pb::LocatedBlockProto) -> F + Send + 'static,
) {
    let dir = tempfile::tempdir().unwrap();
    let env = RealEnv::start(&RealEnvConfig {
        data_dir: dir.path().to_owned(),
        cores: 1,
        background_threads: 1,
    })
    .unwrap();
    let here = env.clone();
    let done = env.block_on(async move {
        let listener = here.net().listen(([127, 0, 0, 1], 0).into()).await.unwrap();
        let port = listener.local_addr().port();
        here.spawn("datanode", serve(listener, Script(script.freeze())));
        test(DataNodes::new(here.clone(), false), located(&[port, 9])).await;
    });
    env.shutdown();
    done.expect("the test failed");
}

fn message(of: &impl cadastre_wire::Message) -> BytesMut {
    let mut out = BytesMut::new();
    transfer::put_message(&mut out, of);
    out
}

fn read_answer(chunk_offset: u64) -> BytesMut {
    message(&pb::BlockOpResponseProto {
        read_op_checksum_info: Some(pb::ReadOpChecksumInfoProto {
            checksum: Checksum::crc32c(4).unwrap().message(),
            chunk_offset,
        }),
        ..status(pb::Status::Success)
    })
}

fn packet(out: &mut BytesMut, offset: u64, last: bool, data: &[u8]) {
    let checksum = Checksum::crc32c(4).unwrap();
    transfer::put_packet(out, checksum, (offset, 0), (last, false), data);
}

fn reads(script: BytesMut, check: impl FnOnce(Result<Bytes>) + Send + 'static) {
    against(script, async |nodes, block| {
        check(nodes.read(&block, &block.locs[0], "c", (5, 4)).await);
    });
}

#[test]
fn a_piece_is_cut_out_of_whole_chunks() {
    let mut script = read_answer(4);
    packet(&mut script, 4, false, b"4567");
    packet(&mut script, 8, false, b"89ab");
    packet(&mut script, 12, true, b"");
    reads(script, |read| assert_eq!(read.unwrap(), "5678"));
}

#[test]
fn wrong_reads_are_refused() {
    let corrupt = |script: BytesMut| {
        reads(script, |read| {
            assert_eq!(read.unwrap_err().code(), Code::Corrupt)
        });
    };
    // A byte that is another one.
    let mut script = read_answer(4);
    packet(&mut script, 4, false, b"4567");
    let at = script.len() - 1;
    script[at] ^= 1;
    packet(&mut script, 8, true, b"");
    corrupt(script);
    // Too little, too much, not where it was asked for, a hole.
    let mut script = read_answer(4);
    packet(&mut script, 4, false, b"4567");
    packet(&mut script, 8, true, b"");
    corrupt(script);
    let mut script = read_answer(4);
    packet(&mut script, 4, false, b"456789abcdef");
    corrupt(script);
    corrupt(read_answer(0));
    corrupt(read_answer(8));
    let mut script = read_answer(4);
    packet(&mut script, 8, false, b"89ab");
    corrupt(script);
    // Refused, cut off, a packet that cannot be.
    let other = |script: BytesMut| {
        reads(script, |read| {
            assert_ne!(read.unwrap_err().code(), Code::Internal)
        });
    };
    other(message(&status(pb::Status::ErrorInvalid)));
    let mut script = read_answer(4);
    script.extend_from_slice(&[0x7f; 6]);
    assert!(PacketLength::parse([0x7f; 6]).is_err());
    other(script);
}

fn writes(script: BytesMut, check: impl FnOnce(Result<(), NotWritten>) + Send + 'static) {
    against(script, async |nodes, block| {
        let data = Bytes::from_static(b"data");
        check(nodes.write(&block, "c", &data).await);
    });
}

fn ack(seqno: i64, reply: &[pb::Status]) -> BytesMut {
    message(&pb::PipelineAckProto {
        seqno,
        reply: reply.iter().map(|status| *status as i32).collect(),
    })
}

#[test]
fn a_block_is_written_when_its_last_packet_is_acknowledged() {
    use pb::Status::Success;
    let mut script = message(&status(Success));
    for seqno in [0, transfer::HEARTBEAT, 1] {
        script.extend_from_slice(&ack(seqno, &[Success, Success]));
    }
    writes(script, |written| written.unwrap());
}

#[test]
fn who_is_at_fault_is_told() {
    use pb::Status::{Error, Success};
    let culprit = |script: BytesMut, expected: Option<usize>| {
        writes(script, move |written| {
            let failure = written.unwrap_err();
            assert_eq!(failure.culprit, expected, "{}", failure.error);
        });
    };
    let begun = || message(&status(Success));
    let mut script = begun();
    script.extend_from_slice(&ack(0, &[Success, Error]));
    culprit(script, Some(1));
    let mut script = begun();
    script.extend_from_slice(&ack(7, &[Success, Success]));
    culprit(script, Some(0));
    culprit(
        message(&pb::BlockOpResponseProto {
            first_bad_link: Some("127.0.0.1:9".to_owned()),
            ..status(Error)
        }),
        Some(1),
    );
    culprit(BytesMut::from(&[0xff; 8][..]), None);
}

#[test]
fn nobody_there() {
    against(BytesMut::new(), async |nodes, _| {
        let block = located(&[1, 2]);
        let failure = nodes.write(&block, "c", &Bytes::new()).await.unwrap_err();
        assert_eq!(failure.culprit, Some(0));
        // Asked last from now on.
        assert_eq!(nodes.order(&block), [1, 0]);
        let nowhere = located(&[0]);
        let failure = nodes.write(&nowhere, "c", &Bytes::new()).await.unwrap_err();
        assert_eq!(failure.error.code(), Code::Corrupt);
    });
}
