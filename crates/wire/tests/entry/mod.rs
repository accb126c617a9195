//! Every decoder of bytes that come from a peer or from disk, as a pure function of these bytes. The fuzz targets in `/fuzz` and
//! the ordinary test run both call them; they panic when a decoder breaks its word.

#![allow(
    clippy::unwrap_used,
    reason = "a broken promise of a decoder is found by its panic"
)]

use bytes::{Bytes, BytesMut};
use cadastre_types::Cell;
use cadastre_wire::cells::{CellReader, Codec, Compressor, write_cell};
use cadastre_wire::{
    Message, convert, decode, exception, frame, hadoop, meta, pb, preamble, znode,
};

/// A decoder, and how much it may allocate at once.
pub(crate) struct Entry {
    /// Name, also of its fuzz target.
    pub(crate) name: &'static str,
    /// Runs it.
    run: fn(&[u8]),
    /// Bytes it may hold for each byte of input. Generous where a message has many kinds of elements, since two bytes of input
    /// can be a struct; `message::check` cuts that off for long messages.
    pub(crate) bytes_per_byte: u64,
}

/// All of them.
pub(crate) const ALL: &[Entry] = &[
    entry("request_frame", request_frame, 200),
    entry("response_frame", response_frame, 200),
    entry("preamble", preamble, 200),
    entry("cell_block", cell_block, 40),
    entry("compressed", compressed, 600),
    entry("mutate", mutate, 2000),
    entry("multi", multi, 2000),
    entry("get", get, 2000),
    entry("scan", scan, 2000),
    entry("result", result, 2000),
    entry("schema", schema, 2000),
    entry("names", names, 2000),
    entry("exception", exception, 200),
    entry("meta_row", meta_row, 200),
    entry("znode", znode, 200),
    entry("hadoop_request", hadoop_request, 400),
    entry("hadoop_response", hadoop_response, 400),
    entry("hadoop_messages", hadoop_messages, 2000),
    entry("hadoop_transfer", hadoop_transfer, 2000),
];

const fn entry(name: &'static str, run: fn(&[u8]), bytes_per_byte: u64) -> Entry {
    Entry {
        name,
        run,
        bytes_per_byte,
    }
}

/// Runs the decoder of this name.
pub(crate) fn run(name: &str, data: &[u8]) {
    let entry = ALL.iter().find(|entry| entry.name == name);
    (entry.expect("a target is named after its decoder").run)(data);
}

/// Decompression is allowed this much by its caller.
pub(crate) const DECOMPRESSED_MAX: usize = 64 * 1024;

/// A request frame without its length.
fn request_frame(data: &[u8]) {
    let Ok(request) = frame::parse_request(Bytes::copy_from_slice(data)) else {
        return;
    };
    let mut out = BytesMut::new();
    frame::encode_request(&mut out, &request).unwrap();
    let again = frame::parse_request(out.freeze().slice(4..)).unwrap();
    assert_eq!(again, request);
}

/// A response frame without its length.
fn response_frame(data: &[u8]) {
    let Ok(response) = frame::parse_response(Bytes::copy_from_slice(data)) else {
        return;
    };
    let mut out = BytesMut::new();
    let outcome = response.outcome.as_ref();
    frame::encode_response(
        &mut out,
        response.call_id,
        outcome.map(|(body, cells)| (&body[..], &cells[..])),
    );
    let again = frame::parse_response(out.freeze().slice(4..)).unwrap();
    assert_eq!(again.call_id, response.call_id);
    assert_eq!(again.outcome.is_ok(), response.outcome.is_ok());
}

/// A connection's first six bytes, and its header.
fn preamble(data: &[u8]) {
    if let Some((start, rest)) = data.split_first_chunk() {
        let _ = preamble::Preamble::parse(start);
        let _ = preamble::connection_header(Bytes::copy_from_slice(rest));
    }
}

fn codec(byte: u8) -> Codec {
    if byte & 1 == 0 {
        Codec::KeyValue
    } else {
        Codec::KeyValueWithTags
    }
}

/// A byte that picks the codec, and a cell block.
fn cell_block(data: &[u8]) {
    let Some((pick, block)) = data.split_first() else {
        return;
    };
    let codec = codec(*pick);
    let reader = CellReader::new(Bytes::copy_from_slice(block), codec);
    let cells: Vec<Cell> = reader.map_while(Result::ok).collect();
    let mut out = BytesMut::new();
    for cell in &cells {
        write_cell(&mut out, cell, codec);
    }
    // Nearly the bytes that were read: only an empty field of tags is left out.
    let again: Vec<Cell> = CellReader::new(out.freeze(), codec)
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(again, cells);
}

/// A byte that picks the compressor, and a compressed block.
fn compressed(data: &[u8]) {
    let Some((pick, block)) = data.split_first() else {
        return;
    };
    let compressor = Compressor::ALL[usize::from(*pick) % Compressor::ALL.len()];
    if let Ok(bytes) = compressor.decompress(block, DECOMPRESSED_MAX) {
        assert!(bytes.len() <= DECOMPRESSED_MAX);
        let again = compressor.compress(&bytes).unwrap();
        assert_eq!(compressor.decompress(&again, bytes.len()).unwrap(), bytes);
    }
}

/// Two bytes of length, a message of that length, and a cell block.
fn message_and_block<M: Message>(data: &[u8]) -> Option<(M, CellReader)> {
    let (len, rest) = data.split_first_chunk::<2>()?;
    let (message, block) = rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))?;
    let message = decode(Bytes::copy_from_slice(message)).ok()?;
    Some((
        message,
        CellReader::new(Bytes::copy_from_slice(block), Codec::KeyValueWithTags),
    ))
}

fn one_mutation(proto: &pb::MutationProto, block: &mut CellReader) {
    let Ok(mutation) = convert::mutation(proto, block) else {
        return;
    };
    let inline = convert::mutation_pb(&mutation);
    let again = convert::mutation(&inline, &mut CellReader::empty()).unwrap();
    assert_eq!(again, mutation);
}

fn one_condition(condition: Option<&pb::Condition>) {
    if let Some(Ok(condition)) = condition.map(convert::condition) {
        let again = convert::condition(&convert::condition_pb(&condition)).unwrap();
        assert_eq!(again, condition);
    }
}

/// A mutation with its condition.
fn mutate(data: &[u8]) {
    if let Some((request, mut block)) = message_and_block::<pb::MutateRequest>(data) {
        one_mutation(&request.mutation, &mut block);
        one_condition(request.condition.as_ref());
    }
}

/// A batch.
fn multi(data: &[u8]) {
    let Some((request, mut block)) = message_and_block::<pb::MultiRequest>(data) else {
        return;
    };
    for region in &request.region_action {
        one_condition(region.condition.as_ref());
        for action in &region.action {
            if let Some(mutation) = &action.mutation {
                one_mutation(mutation, &mut block);
            }
            if let Some(get) = &action.get {
                let _ = convert::get(get);
            }
        }
    }
}

/// A get.
fn get(data: &[u8]) {
    if let Ok(request) = decode::<pb::GetRequest>(Bytes::copy_from_slice(data))
        && let Ok(get) = convert::get(&request.get)
    {
        assert_eq!(convert::get(&convert::get_pb(&get)).unwrap(), get);
    }
}

/// A scan.
fn scan(data: &[u8]) {
    if let Ok(request) = decode::<pb::ScanRequest>(Bytes::copy_from_slice(data))
        && let Some(Ok(scan)) = request.scan.as_ref().map(convert::scan)
    {
        assert_eq!(convert::scan(&convert::scan_pb(&scan)).unwrap(), scan);
    }
}

/// A result, as a client reads it.
fn result(data: &[u8]) {
    if let Some((result, mut block)) = message_and_block::<pb::Result>(data) {
        let _ = convert::result(&result, &mut block);
    }
}

/// A table's schema.
fn schema(data: &[u8]) {
    if let Ok(schema) = decode::<pb::TableSchema>(Bytes::copy_from_slice(data))
        && let Ok(table) = convert::table_descriptor(&schema)
    {
        let again = convert::table_descriptor(&convert::table_schema(&table, true)).unwrap();
        assert_eq!(again, table);
    }
}

/// A region's or a server's name.
fn names(data: &[u8]) {
    let data = Bytes::copy_from_slice(data);
    if let Ok(info) = decode::<pb::RegionInfo>(data.clone())
        && let Ok(info) = convert::region_info(&info)
    {
        let again = convert::region_info(&convert::region_info_pb(&info)).unwrap();
        assert_eq!(again, info);
    }
    if let Ok(name) = decode::<pb::ServerName>(data)
        && let Ok(name) = convert::server_name(&name)
    {
        let again = convert::server_name(&convert::server_name_pb(&name)).unwrap();
        assert_eq!(again, name);
    }
}

/// A peer's exception in both forms.
fn exception(data: &[u8]) {
    let data = Bytes::copy_from_slice(data);
    if let Ok(response) = decode::<pb::ExceptionResponse>(data.clone()) {
        let error = exception::from_response(&response);
        let again = exception::from_response(&exception::to_response(&error));
        assert_eq!(again.code(), error.code());
    }
    if let Ok(pair) = decode::<pb::NameBytesPair>(data) {
        exception::from_pair(&pair);
    }
}

/// Rows of `hbase:meta`: their order, and cells.
fn meta_row(data: &[u8]) {
    let (a, b) = data.split_at(data.len() / 2);
    assert_eq!(meta::compare_rows(a, b), meta::compare_rows(b, a).reverse());
    assert_eq!(meta::compare_rows(a, b).is_eq(), a == b);
    let _ = meta::region(&Bytes::copy_from_slice(data));
    let cells: Vec<Cell> = CellReader::new(Bytes::copy_from_slice(data), Codec::KeyValue)
        .map_while(Result::ok)
        .collect();
    if let Ok(Some(entry)) = meta::MetaEntry::from_cells(&cells) {
        let again = meta::MetaEntry::from_cells(&entry.to_cells()).unwrap();
        assert_eq!(again.map(|entry| entry.info), Some(entry.info));
    }
    let _ = meta::table_state_from_cells(&cells);
}

/// Values of znodes.
fn znode(data: &[u8]) {
    if let Ok(message) = znode::unwrap(data) {
        assert_eq!(
            znode::unwrap(&znode::wrap("id", 1, &message)).unwrap(),
            message
        );
    }
    let _ = znode::read_cluster_id(data);
    let _ = znode::read_master(data);
    let _ = znode::read_meta_region_server(data);
    let _ = znode::read_region_server(data);
    let _ = znode::read_running(data);
    let _ = znode::read_table(data);
    let _ = znode::read_namespace(data);
}

/// A frame from a client of Hadoop's IPC, without its length.
fn hadoop_request(data: &[u8]) {
    if let Some((start, _)) = data.split_first_chunk() {
        let _ = hadoop::parse_preamble(start);
    }
    let Ok(hadoop::Incoming::Call(request)) = hadoop::parse_incoming(Bytes::copy_from_slice(data))
    else {
        return;
    };
    if request.call_id < 0 {
        return;
    }
    let mut out = BytesMut::new();
    hadoop::encode_request(&mut out, &request).unwrap();
    let again = hadoop::parse_incoming(out.freeze().slice(4..)).unwrap();
    assert_eq!(again, hadoop::Incoming::Call(request));
}

/// A frame from a server of Hadoop's IPC, without its length.
fn hadoop_response(data: &[u8]) {
    let Ok(response) = hadoop::parse_response(Bytes::copy_from_slice(data)) else {
        return;
    };
    let mut out = BytesMut::new();
    hadoop::encode_response(&mut out, &response).unwrap();
    let again = hadoop::parse_response(out.freeze().slice(4..)).unwrap();
    assert_eq!(again.call_id, response.call_id);
    let _ = hadoop::merge_router_state(Bytes::copy_from_slice(data), Bytes::copy_from_slice(data));
}

/// The largest answers of a NameNode, and a SASL message.
fn hadoop_messages(data: &[u8]) {
    let bytes = || Bytes::copy_from_slice(data);
    let _ = decode::<hadoop::pb::GetListingResponseProto>(bytes());
    let _ = decode::<hadoop::pb::GetBlockLocationsResponseProto>(bytes());
    let _ = decode::<hadoop::pb::GetBlocksResponseProto>(bytes());
    let _ = decode::<hadoop::pb::RpcSaslProto>(bytes());
}

/// What a DataNode sends: messages, their lengths, packets.
fn hadoop_transfer(data: &[u8]) {
    use hadoop::transfer::{Checksum, MESSAGE_MAX, PacketLength, message_length, parse_packet};
    let bytes = Bytes::copy_from_slice(data);
    if let Some((start, rest)) = data.split_first_chunk()
        && let Ok(length) = PacketLength::parse(*start)
        && length.rest() == rest.len()
        && let Ok(packet) = parse_packet(length, bytes.slice_ref(&bytes[start.len()..]))
    {
        assert!(packet.data.len() <= rest.len());
        let _ = packet.check(Checksum::crc32c(512).unwrap());
    }
    if let Ok(Some(length)) = message_length(data) {
        assert!(length <= MESSAGE_MAX);
    }
    let _ = decode::<hadoop::pb::BlockOpResponseProto>(bytes.clone());
    let _ = decode::<hadoop::pb::PipelineAckProto>(bytes);
}
