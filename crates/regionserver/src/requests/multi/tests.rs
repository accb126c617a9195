//! Whether others on the core get their turn.

use super::*;
use crate::testing::{on_region, row};

const GETS: usize = 5_000;

fn gets() -> Vec<Action> {
    let get = |number| Get {
        row: row(number),
        query: cadastre_types::Query::default(),
        filter: None,
        store_limit: None,
        store_offset: 0,
        existence_only: false,
        closest_row_before: false,
        query_metrics: false,
    };
    (0..GETS).map(|number| Action::Get(get(number))).collect()
}

#[test]
fn c11_many_gets_of_cached_rows_let_others_have_their_turn() {
    on_region(|bench| async move {
        let value = bytes::Bytes::from_static(b"v");
        bench.write((0..GETS).map(row), &value).await;
        let (hosted, terms) = (bench.hosted(), bench.terms());
        let turns = bench.turns_of_others(async {
            let answers = run_plain(&bench.env, &hosted, gets(), terms).await;
            let found = |answer: &Result<Answer>| {
                matches!(answer, Ok(Answer::Read(read)) if read.cells.len() == 1)
            };
            assert_eq!(answers.iter().filter(|it| found(it)).count(), GETS);
        });
        let turns = turns.await;
        assert!(turns >= 5, "{turns} turns");
    });
}
