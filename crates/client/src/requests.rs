//! Requests of `ClientService` as bytes, and their answers as rows (hbase-protocol.md 4). Knows nothing of tries, locations or
//! sockets.

use bytes::{Bytes, BytesMut};
use cadastre_types::{
    Condition, Error, Get, Mutation, MutationKind, RegionInfo, Result, Scan, limits,
};
use cadastre_wire::cells::{CellReader, Codec};
use cadastre_wire::{convert, decode, encode, exception, pb};

use crate::call::RegionRequest;
use crate::row::Row;
use crate::scan::Piece;

/// The codec that connections of the client declare.
const CODEC: Codec = Codec::KeyValue;

/// Longest tags of a cell: a 16-bit length.
const TAGS_MAX: usize = u16::MAX as usize;

/// Refuses a row key that no server can take (L14's sense: no request is made).
pub(crate) fn check_row(row: &Bytes) -> Result<()> {
    if row.is_empty() {
        return Err(Error::invalid("Row length is 0"));
    }
    if row.len() > limits::ROW_MAX {
        return Err(Error::invalid(format!(
            "Row length {} is > {}",
            row.len(),
            limits::ROW_MAX
        )));
    }
    Ok(())
}

/// Refuses a mutation that no server can take.
pub(crate) fn check_mutation(mutation: &Mutation, cell_max: usize) -> Result<()> {
    check_row(&mutation.row)?;
    if mutation.cells.is_empty() && mutation.kind != MutationKind::Delete {
        return Err(Error::invalid("No columns to insert"));
    }
    for cell in &mutation.cells {
        if cell.row != mutation.row {
            return Err(Error::invalid("a mutation's cells are all of its row"));
        }
        if cell.family.is_empty() || cell.family.len() > limits::FAMILY_MAX {
            return Err(Error::invalid(format!(
                "a family name has 1 to {} bytes",
                limits::FAMILY_MAX
            )));
        }
        if cell.key_value_len() > cell_max || cell.tags.len() > TAGS_MAX {
            return Err(Error::invalid("KeyValue size too large"));
        }
    }
    Ok(())
}

fn row_of(result: &pb::Result, block: &mut CellReader) -> Result<Row> {
    Ok(Row {
        cells: convert::result(result, block)?,
        exists: result.exists,
        partial: result.partial(),
    })
}

/// A get.
pub(crate) struct GetRequest<'a>(pub(crate) &'a Get);

impl RegionRequest for GetRequest<'_> {
    type Answer = Row;

    fn method(&self) -> &'static str {
        "Get"
    }

    fn encode(&self, region: &RegionInfo) -> Result<(Bytes, Bytes)> {
        let request = pb::GetRequest {
            region: convert::region_specifier(region),
            get: convert::get_pb(self.0),
        };
        Ok((encode(&request), Bytes::new()))
    }

    fn decode(&self, body: Bytes, cells: Bytes) -> Result<Row> {
        let answer: pb::GetResponse = decode(body)?;
        match answer.result {
            Some(result) => row_of(&result, &mut CellReader::new(cells, CODEC)),
            None => Ok(Row::default()),
        }
    }
}

/// What a mutation answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Mutated {
    /// Whether it was applied; false only if a condition did not hold.
    pub applied: bool,
    /// New cells of an increment or append.
    pub row: Row,
}

/// A mutation of one row, with or without a condition.
pub(crate) struct MutateRequest<'a> {
    pub(crate) mutation: &'a Mutation,
    pub(crate) condition: Option<&'a Condition>,
    pub(crate) nonce_group: u64,
}

impl RegionRequest for MutateRequest<'_> {
    type Answer = Mutated;

    fn method(&self) -> &'static str {
        "Mutate"
    }

    fn encode(&self, region: &RegionInfo) -> Result<(Bytes, Bytes)> {
        let request = pb::MutateRequest {
            region: convert::region_specifier(region),
            mutation: convert::mutation_pb(self.mutation),
            condition: self.condition.map(convert::condition_pb),
            nonce_group: (self.mutation.nonce != 0).then_some(self.nonce_group),
        };
        Ok((encode(&request), Bytes::new()))
    }

    fn decode(&self, body: Bytes, cells: Bytes) -> Result<Mutated> {
        let answer: pb::MutateResponse = decode(body)?;
        let row = match &answer.result {
            Some(result) => row_of(result, &mut CellReader::new(cells, CODEC))?,
            None => Row::default(),
        };
        Ok(Mutated {
            // Not set for increments and appends without a condition.
            applied: answer.processed.unwrap_or(true),
            row,
        })
    }

    fn is_repeatable(&self) -> bool {
        // After a first, unheard success the condition may not hold any more: a second answer would be false.
        self.condition.is_none()
            && match self.mutation.kind {
                MutationKind::Put | MutationKind::Delete => true,
                MutationKind::Increment | MutationKind::Append => self.mutation.nonce != 0,
            }
    }
}

/// Several mutations of one row that apply together, with or without a condition (`RowMutations`).
pub(crate) struct RowMutationsRequest<'a> {
    pub(crate) mutations: &'a [Mutation],
    pub(crate) condition: Option<&'a Condition>,
    pub(crate) nonce_group: u64,
}

impl RegionRequest for RowMutationsRequest<'_> {
    type Answer = Mutated;

    fn method(&self) -> &'static str {
        "Multi"
    }

    fn encode(&self, region: &RegionInfo) -> Result<(Bytes, Bytes)> {
        let mut block = BytesMut::new();
        let action = self
            .mutations
            .iter()
            .enumerate()
            .map(|(index, mutation)| {
                Ok(pb::Action {
                    index: Some(action_index(index)?),
                    mutation: Some(convert::mutation_pb_cells(mutation, &mut block, CODEC)),
                    ..Default::default()
                })
            })
            .collect::<Result<_>>()?;
        let request = pb::MultiRequest {
            region_action: vec![pb::RegionAction {
                region: convert::region_specifier(region),
                atomic: Some(true),
                action,
                condition: self.condition.map(convert::condition_pb),
            }],
            nonce_group: Some(self.nonce_group),
            condition: None,
            master_epoch: None,
        };
        Ok((encode(&request), block.freeze()))
    }

    fn decode(&self, body: Bytes, cells: Bytes) -> Result<Mutated> {
        let answer: pb::MultiResponse = decode(body)?;
        let [result] = &answer.region_action_result[..] else {
            return Err(Error::corrupt("not one result for one region"));
        };
        if let Some(exception) = &result.exception {
            return Err(exception::from_pair(exception));
        }
        let mut block = CellReader::new(cells, CODEC);
        let mut row = Row::default();
        for one in &result.result_or_exception {
            if let Some(exception) = &one.exception {
                return Err(exception::from_pair(exception));
            }
            if let Some(result) = &one.result {
                row.cells.extend(row_of(result, &mut block)?.cells);
            }
        }
        Ok(Mutated {
            applied: result.processed.or(answer.processed).unwrap_or(true),
            row,
        })
    }

    fn is_repeatable(&self) -> bool {
        self.condition.is_none()
            && self.mutations.iter().all(|mutation| {
                MutateRequest {
                    mutation,
                    condition: None,
                    nonce_group: self.nonce_group,
                }
                .is_repeatable()
            })
    }
}

/// One action of a batch.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Read a row.
    Get(Get),
    /// Change a row.
    Mutate(Mutation),
}

impl Action {
    /// Its row.
    pub fn row(&self) -> &Bytes {
        match self {
            Self::Get(get) => &get.row,
            Self::Mutate(mutation) => &mutation.row,
        }
    }

    /// About how much room it takes in a request, bytes.
    pub(crate) fn weight(&self) -> usize {
        /// Message overhead of an action.
        const ACTION: usize = 64;
        match self {
            Self::Get(get) => ACTION + get.row.len(),
            Self::Mutate(mutation) => {
                let cells = mutation.cells.iter().map(|cell| cell.key_value_len());
                ACTION + mutation.row.len() + cells.sum::<usize>()
            }
        }
    }

    /// Whether twice has the same effect as once.
    pub(crate) fn is_repeatable(&self) -> bool {
        match self {
            Self::Get(_) => true,
            Self::Mutate(mutation) => MutateRequest {
                mutation,
                condition: None,
                nonce_group: 0,
            }
            .is_repeatable(),
        }
    }
}

fn action_index(index: usize) -> Result<u32> {
    u32::try_from(index).map_err(|_| Error::invalid("more actions than a batch can number"))
}

/// Writes a Multi request: per region the actions with their place in the caller's batch.
pub(crate) fn multi<'a>(
    regions: impl IntoIterator<Item = (&'a RegionInfo, Vec<(usize, &'a Action)>)>,
    nonce_group: u64,
) -> Result<(Bytes, Bytes)> {
    let mut block = BytesMut::new();
    let mut region_action = Vec::new();
    for (region, actions) in regions {
        let mut action = Vec::with_capacity(actions.len());
        for (index, one) in actions {
            let (get, mutation) = match one {
                Action::Get(get) => (Some(convert::get_pb(get)), None),
                Action::Mutate(mutation) => {
                    let mutation = convert::mutation_pb_cells(mutation, &mut block, CODEC);
                    (None, Some(mutation))
                }
            };
            action.push(pb::Action {
                index: Some(action_index(index)?),
                mutation,
                get,
                service_call: None,
            });
        }
        region_action.push(pb::RegionAction {
            region: convert::region_specifier(region),
            atomic: None,
            action,
            condition: None,
        });
    }
    let request = pb::MultiRequest {
        region_action,
        nonce_group: Some(nonce_group),
        condition: None,
        master_epoch: None,
    };
    Ok((encode(&request), block.freeze()))
}

/// What a Multi answered for one region: an error for all its actions, or an answer for each by its index.
pub(crate) type RegionAnswer = Result<Vec<(usize, Result<Row>)>>;

/// Reads a Multi answer for `regions` regions, in their order.
pub(crate) fn multi_answer(body: Bytes, cells: Bytes, regions: usize) -> Result<Vec<RegionAnswer>> {
    let answer: pb::MultiResponse = decode(body)?;
    if answer.region_action_result.len() != regions {
        return Err(Error::corrupt(format!(
            "{} region results for {regions} regions",
            answer.region_action_result.len()
        )));
    }
    let mut block = CellReader::new(cells, CODEC);
    let mut answers = Vec::with_capacity(regions);
    for region in &answer.region_action_result {
        if let Some(exception) = &region.exception {
            answers.push(Err(exception::from_pair(exception)));
            continue;
        }
        let mut actions = Vec::with_capacity(region.result_or_exception.len());
        for (place, one) in region.result_or_exception.iter().enumerate() {
            let index = one.index.map_or(place, |index| index as usize);
            let outcome = match (&one.exception, &one.result) {
                (Some(exception), _) => Err(exception::from_pair(exception)),
                (None, Some(result)) => Ok(row_of(result, &mut block)?),
                (None, None) => Ok(Row::default()),
            };
            actions.push((index, outcome));
        }
        answers.push(Ok(actions));
    }
    Ok(answers)
}

/// Writes the opening of a scanner.
pub(crate) fn open_scanner(
    region: &RegionInfo,
    scan: &Scan,
    rows: u32,
    limit: Option<u64>,
    close: bool,
) -> Bytes {
    encode(&pb::ScanRequest {
        region: Some(convert::region_specifier(region)),
        scan: Some(convert::scan_pb(scan)),
        number_of_rows: Some(rows),
        close_scanner: Some(close),
        client_handles_partials: Some(true),
        client_handles_heartbeats: Some(true),
        limit_of_rows: limit_of_rows(limit),
        ..Default::default()
    })
}

/// Writes the next call of a scanner.
pub(crate) fn next_rows(scanner_id: u64, sequence: u64, rows: u32, limit: Option<u64>) -> Bytes {
    encode(&pb::ScanRequest {
        scanner_id: Some(scanner_id),
        number_of_rows: Some(rows),
        close_scanner: Some(false),
        next_call_seq: Some(sequence),
        client_handles_partials: Some(true),
        client_handles_heartbeats: Some(true),
        limit_of_rows: limit_of_rows(limit),
        ..Default::default()
    })
}

/// Writes the closing of a scanner.
pub(crate) fn close_scanner(scanner_id: u64) -> Bytes {
    encode(&pb::ScanRequest {
        scanner_id: Some(scanner_id),
        number_of_rows: Some(0),
        close_scanner: Some(true),
        ..Default::default()
    })
}

fn limit_of_rows(limit: Option<u64>) -> Option<u32> {
    // More than the field can say is not told; the client stops by itself.
    limit.and_then(|limit| u32::try_from(limit).ok())
}

/// One answer of a scanner.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ScanAnswer {
    pub(crate) scanner_id: Option<u64>,
    pub(crate) pieces: Vec<Piece>,
    /// False: the whole scan is over.
    pub(crate) more_results: bool,
    /// False: this region has no more.
    pub(crate) more_results_in_region: Option<bool>,
    /// Only the time was up.
    pub(crate) heartbeat: bool,
    pub(crate) read_point: u64,
}

/// Reads an answer of a scanner; cells come inline or in the block.
pub(crate) fn scan_answer(body: Bytes, cells: Bytes) -> Result<ScanAnswer> {
    let answer: pb::ScanResponse = decode(body)?;
    let mut block = CellReader::new(cells, CODEC);
    let mut pieces = Vec::new();
    for (at, count) in answer.cells_per_result.iter().enumerate() {
        pieces.push(Piece {
            cells: block.take_cells(*count as usize)?,
            partial: answer
                .partial_flag_per_result
                .get(at)
                .copied()
                .unwrap_or(false),
        });
    }
    for result in &answer.results {
        let row = row_of(result, &mut block)?;
        pieces.push(Piece {
            cells: row.cells,
            partial: row.partial,
        });
    }
    Ok(ScanAnswer {
        scanner_id: answer.scanner_id,
        pieces,
        more_results: answer.more_results.unwrap_or(true),
        more_results_in_region: answer.more_results_in_region,
        heartbeat: answer.heartbeat_message(),
        read_point: answer.mvcc_read_point(),
    })
}

#[cfg(test)]
mod tests {
    use cadastre_types::{Cell, Durability, LATEST_TIMESTAMP, TimeRange};

    use super::*;

    fn mutation(kind: MutationKind, nonce: u64) -> Mutation {
        let text = Bytes::from_static;
        Mutation {
            row: text(b"r"),
            kind,
            cells: vec![Cell::put(
                text(b"r"),
                text(b"f"),
                text(b"q"),
                LATEST_TIMESTAMP,
                text(b"v"),
            )],
            timestamp: LATEST_TIMESTAMP,
            durability: Durability::UseDefault,
            time_range: TimeRange::ALL,
            nonce,
            return_results: true,
            ttl_ms: None,
        }
    }

    /// INV-5: without a nonce an increment of unknown outcome is never repeated.
    #[test]
    fn what_may_be_repeated() {
        let repeatable = |kind, nonce| Action::Mutate(mutation(kind, nonce)).is_repeatable();
        assert!(repeatable(MutationKind::Put, 0) && repeatable(MutationKind::Delete, 0));
        assert!(!repeatable(MutationKind::Increment, 0) && !repeatable(MutationKind::Append, 0));
        assert!(repeatable(MutationKind::Increment, 7));
    }

    #[test]
    fn mutations_no_server_can_take_are_refused() {
        let good = mutation(MutationKind::Put, 0);
        check_mutation(&good, 1000).unwrap();
        assert!(check_mutation(&good, 10).is_err(), "too large");
        let without = |change: fn(&mut Mutation)| {
            let mut bad = mutation(MutationKind::Put, 0);
            change(&mut bad);
            check_mutation(&bad, 1000).unwrap_err().message().to_owned()
        };
        assert_eq!(without(|bad| bad.row = Bytes::new()), "Row length is 0");
        assert_eq!(without(|bad| bad.cells.clear()), "No columns to insert");
        without(|bad| bad.cells[0].row = Bytes::from_static(b"s"));
        without(|bad| bad.cells[0].family = Bytes::from(vec![b'f'; 128]));
        without(|bad| bad.cells[0].tags = Bytes::from(vec![0; 65_536]));
        let long = Bytes::from(vec![b'r'; 32_768]);
        assert_eq!(
            check_row(&long).unwrap_err().message(),
            "Row length 32768 is > 32767"
        );
    }

    #[test]
    fn scan_answers_come_inline_or_in_the_block() {
        let inline = pb::ScanResponse {
            results: vec![pb::Result {
                partial: Some(true),
                ..convert::result_pb(&mutation(MutationKind::Put, 0).cells)
            }],
            scanner_id: Some(9),
            more_results_in_region: Some(false),
            ..Default::default()
        };
        let answer = scan_answer(encode(&inline), Bytes::new()).unwrap();
        assert!(answer.pieces[0].partial && answer.more_results);
        assert_eq!(answer.more_results_in_region, Some(false));
        let mut block = BytesMut::new();
        let cell = &mutation(MutationKind::Put, 0).cells[0];
        for _ in 0..3 {
            cadastre_wire::cells::write_cell(&mut block, cell, CODEC);
        }
        let counted = pb::ScanResponse {
            cells_per_result: vec![2, 1],
            partial_flag_per_result: vec![true, false],
            more_results: Some(false),
            ..Default::default()
        };
        let answer = scan_answer(encode(&counted), block.clone().freeze()).unwrap();
        let shape: Vec<_> = answer
            .pieces
            .iter()
            .map(|piece| (piece.cells.len(), piece.partial))
            .collect();
        assert_eq!(shape, [(2, true), (1, false)]);
        assert!(!answer.more_results);
        let lying = pb::ScanResponse {
            cells_per_result: vec![u32::MAX],
            ..Default::default()
        };
        assert!(scan_answer(encode(&lying), block.freeze()).is_err());
    }
}
