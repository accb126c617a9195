//! The progress of a scan over answers, regions and broken scanners.

use cadastre_types::{Query, TableName};
use proptest::prelude::*;

use super::*;
use crate::scan::new_scan;

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn cells(row: &str, numbers: std::ops::Range<u8>) -> Vec<Cell> {
    numbers
        .map(|number| {
            Cell::put(
                bytes(row),
                bytes("f"),
                Bytes::from(vec![number]),
                1,
                Bytes::new(),
            )
        })
        .collect()
}

fn piece(row: &str, numbers: std::ops::Range<u8>, partial: bool) -> Piece {
    Piece {
        cells: cells(row, numbers),
        partial,
    }
}

fn region(start: &str, end: &str) -> RegionInfo {
    RegionInfo::new(TableName::parse("t").unwrap(), bytes(start), bytes(end), 1)
}

fn lens(rows: &[Row]) -> Vec<(String, usize)> {
    rows.iter()
        .map(|row| {
            let key = String::from_utf8(row.cells[0].row.to_vec()).unwrap();
            (key, row.cells.len())
        })
        .collect()
}

fn start(progress: &Progress) -> Option<(String, bool, Position)> {
    progress.start().map(|start| {
        let row = String::from_utf8(start.row.to_vec()).unwrap();
        (row, start.include, start.position)
    })
}

#[test]
fn partial_results_become_whole_rows() {
    let mut progress = Progress::new(&new_scan(), None);
    assert!(progress.take(vec![piece("a", 0..2, true)]).is_empty());
    let rows = progress.take(vec![piece("a", 2..3, false), piece("b", 0..1, true)]);
    assert_eq!(lens(&rows), [("a".to_owned(), 3)]);
    // Cut exactly at the end of the row: the next row ends it.
    let rows = progress.take(vec![piece("c", 0..1, false)]);
    assert_eq!(lens(&rows), [("b".to_owned(), 1), ("c".to_owned(), 1)]);
    assert!(progress.take(vec![piece("d", 0..4, true)]).is_empty());
    let last = progress.leave_region(&region("", "m")).unwrap();
    assert_eq!(last.cells.len(), 4);
    assert_eq!(
        start(&progress),
        Some(("m".to_owned(), true, Position::Holding))
    );
}

#[test]
fn a_break_reads_the_unfinished_row_again_and_nothing_else() {
    let mut progress = Progress::new(&new_scan(), None);
    progress.take(vec![piece("a", 0..1, false), piece("b", 0..2, true)]);
    progress.interrupted();
    assert_eq!(
        start(&progress),
        Some(("a".to_owned(), false, Position::Holding))
    );
    let rows = progress.take(vec![piece("b", 0..3, false)]);
    assert_eq!(lens(&rows), [("b".to_owned(), 3)]);
}

#[test]
fn a_break_in_pieces_passes_over_what_was_handed_out() {
    let mut scan = new_scan();
    scan.batch = 2;
    let mut progress = Progress::new(&scan, None);
    let rows = progress.take(vec![piece("a", 0..2, true), piece("a", 2..4, true)]);
    assert_eq!(rows.len(), 2);
    assert!(progress.is_inside_row());
    progress.interrupted();
    assert_eq!(
        start(&progress),
        Some(("a".to_owned(), true, Position::Holding))
    );
    let rows = progress.take(vec![
        piece("a", 0..3, true),
        piece("a", 3..5, true),
        piece("a", 5..6, false),
        piece("b", 0..1, false),
    ]);
    let seen: Vec<_> = rows
        .iter()
        .map(|row| row.cells.iter().map(|cell| cell.qualifier[0]).collect())
        .collect::<Vec<Vec<u8>>>();
    assert_eq!(seen, [vec![4], vec![5], vec![0]]);
}

#[test]
fn the_stop_row_ends_the_walk() {
    let walk = |reversed, stop: &str, include, (from, to): (&str, &str)| {
        let mut scan = new_scan();
        scan.reversed = reversed;
        scan.stop_row = bytes(stop);
        scan.include_stop_row = include;
        let mut progress = Progress::new(&scan, None);
        progress.leave_region(&region(from, to));
        start(&progress).map(|(row, include, _)| (row, include))
    };
    let at = |row: &str, include| Some((row.to_owned(), include));
    assert_eq!(walk(false, "", false, ("", "m")), at("m", true));
    assert_eq!(walk(false, "", false, ("m", "")), None);
    assert_eq!(walk(false, "n", false, ("", "m")), at("m", true));
    assert_eq!(walk(false, "m", false, ("", "m")), None);
    assert_eq!(walk(false, "m", true, ("", "m")), at("m", true));
    assert_eq!(walk(false, "f", true, ("", "m")), None);
    assert_eq!(walk(true, "", false, ("m", "")), at("m", false));
    assert_eq!(walk(true, "", false, ("", "m")), None);
    assert_eq!(walk(true, "m", true, ("m", "")), None);
    assert_eq!(walk(true, "f", false, ("m", "")), at("m", false));
}

#[test]
fn descending_scans_open_before_the_row_unless_it_belongs() {
    let mut scan = new_scan();
    scan.reversed = true;
    let opens = |scan: &Scan| start(&Progress::new(scan, None)).unwrap().2;
    assert_eq!(opens(&scan), Position::Before);
    scan.start_row = bytes("m");
    assert_eq!(opens(&scan), Position::Holding);
    scan.include_start_row = false;
    assert_eq!(opens(&scan), Position::Before);
}

#[test]
fn the_limit_counts_whole_rows() {
    let mut progress = Progress::new(&new_scan(), Some(2));
    let rows = progress.take(vec![
        piece("a", 0..1, true),
        piece("a", 1..2, false),
        piece("b", 0..1, false),
        piece("c", 0..1, false),
    ]);
    assert_eq!(lens(&rows), [("a".to_owned(), 2), ("b".to_owned(), 1)]);
    assert_eq!(start(&progress), None);
    assert_eq!(Progress::new(&new_scan(), Some(0)).start(), None);
    assert_eq!(new_scan().query, Query::default());
}

proptest! {
    /// Whatever way rows are cut into pieces, and wherever the scanner breaks, the same rows come out once, whole and in order.
    #[test]
    fn rows_survive_every_cut_and_break(
        sizes in proptest::collection::vec(1_usize..6, 1..8),
        cuts in proptest::collection::vec(1_usize..4, 40),
        breaks in proptest::collection::vec(0_u8..5, 40),
        in_pieces: bool,
    ) {
        let stored: Vec<Cell> = sizes
            .iter()
            .enumerate()
            .flat_map(|(row, size)| cells(&format!("r{row}"), 0..*size as u8))
            .collect();
        let mut scan = new_scan();
        scan.batch = u32::from(in_pieces);
        let mut progress = Progress::new(&scan, None);
        let mut out: Vec<Row> = Vec::new();
        let (mut cuts, mut breaks) = (cuts.into_iter().cycle(), breaks.into_iter());
        'scanner: loop {
            let start = progress.start().unwrap();
            let mut left: Vec<Cell> = stored
                .iter()
                .filter(|cell| cell.row > start.row || start.include && cell.row == start.row)
                .cloned()
                .collect();
            while !left.is_empty() {
                if breaks.next() == Some(0) {
                    progress.interrupted();
                    continue 'scanner;
                }
                let row = left[0].row.clone();
                let in_row = left.iter().take_while(|cell| cell.row == row).count();
                let take = cuts.next().unwrap().min(in_row);
                let cells: Vec<Cell> = left.drain(..take).collect();
                // A cut at the row's end may or may not be known to be one.
                let partial = take < in_row || take % 2 == 0 && !in_pieces;
                out.extend(progress.take(vec![Piece { cells, partial }]));
            }
            break;
        }
        out.extend(progress.end());
        let cells: Vec<Cell> = out.iter().flat_map(|row| row.cells.clone()).collect();
        prop_assert_eq!(cells, stored);
        if !in_pieces {
            prop_assert_eq!(out.len(), sizes.len(), "whole rows");
        }
        prop_assert_eq!(progress.start(), None);
    }
}
