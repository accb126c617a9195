//! Whether others on the core get their turn.

use super::*;
use crate::testing::{nothing_passes, on_region, row};

const ROWS: usize = 50_000;

#[test]
fn c11_a_scan_of_which_nothing_passes_lets_others_have_their_turn() {
    on_region(|bench| async move {
        for from in (0..ROWS).step_by(5_000) {
            let rows = (from..from + 5_000).map(row);
            bench.write(rows, &Bytes::from_static(b"v")).await;
        }
        let scan = Scan {
            filter: Some(nothing_passes()),
            ..Scan::whole()
        };
        let mut scanner = open_here(&bench.env, &bench.hosted(), scan).await.unwrap();
        let budget = Budget {
            results: 100,
            rows: None,
            bytes: limits::SCAN_RESULT_MAX,
            partials: true,
            until: None,
            no_look_ahead: true,
        };
        let turns = bench.turns_of_others(async {
            let answer = scanner.next(&bench.env, &budget).await.unwrap();
            assert_eq!(answer.filtered, ROWS as u64);
            assert!(answer.parts.is_empty() && !answer.more_in_region);
        });
        let turns = turns.await;
        assert!(turns >= 5, "{turns} turns");
    });
}
