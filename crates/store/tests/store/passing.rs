//! Scans that leave rows behind by their keys.

use crate::common::{descriptor, local, marker, open, put, run, spec, write};
use bytes::Bytes;
use cadastre_env::RealEnv;
use cadastre_store::{Choice, Region, RowRange, Step};
use cadastre_types::{CellType, FamilyDescriptor, Query};

/// Rows of the table: even ones in files, odd ones in memory; every tenth deleted, every seventh with two families.
const ROWS: usize = 300;

fn row(n: usize) -> String {
    format!("r{n:04}")
}

async fn fill(env: &RealEnv, region: &Region<RealEnv>) {
    for half in 0..2 {
        for n in (half..ROWS).step_by(2) {
            let mut cells = vec![put(&row(n), "f", "q", 1, "v")];
            if n % 7 == 0 {
                cells.push(put(&row(n), "g", "q", 1, "w"));
            }
            write(env, region, cells).await;
            if n % 10 == 0 {
                let gone = marker(&row(n), "f", "", 2, CellType::DeleteFamily);
                let too = marker(&row(n), "g", "", 2, CellType::DeleteFamily);
                write(env, region, vec![gone, too]).await;
            }
        }
        if half == 0 {
            region.flush().await.unwrap();
        }
    }
}

/// Rows read of a scan whose rows are chosen by their number, and how many were asked about.
async fn chosen(
    region: &Region<RealEnv>,
    range: RowRange,
    reversed: bool,
    choose: impl Fn(usize) -> Choice + Send + Sync,
) -> (Vec<usize>, usize) {
    let number = |row: &[u8]| std::str::from_utf8(&row[1..]).unwrap().parse().unwrap();
    let at = region.read_point().await.unwrap();
    let mut scanner = region
        .scan(range, reversed, Query::default(), at)
        .await
        .unwrap();
    let (mut found, mut asked) = (Vec::new(), 0);
    loop {
        let mut choose = |row: &Bytes| {
            asked += 1;
            choose(number(row))
        };
        match scanner.next_step(&mut choose).await.unwrap() {
            Step::Row(cells) => found.push(number(&cells[0].row)),
            Step::Hidden | Step::Empty | Step::Passed => {}
            Step::End => return (found, asked),
        }
    }
}

#[test]
fn what_is_not_wanted_is_left_behind() {
    let dir = tempfile::tempdir().unwrap();
    let objects = local(dir.path());
    run(dir.path(), move |env| async move {
        let store = open(&env, objects).await;
        let families = vec![FamilyDescriptor::new("f"), FamilyDescriptor::new("g")];
        let region = store
            .open_region(spec(&descriptor(families)))
            .await
            .unwrap();
        fill(&env, &region).await;
        let expected = |wanted: &dyn Fn(usize) -> bool| -> Vec<usize> {
            (0..ROWS).filter(|n| n % 10 != 0 && wanted(*n)).collect()
        };
        let by_three = |n: usize| match n % 3 {
            0 => Choice::Read,
            _ => Choice::Pass,
        };
        for reversed in [false, true] {
            let (mut found, asked) = chosen(&region, RowRange::all(), reversed, by_three).await;
            if reversed {
                found.reverse();
            }
            assert_eq!(found, expected(&|n| n % 3 == 0));
            assert_eq!(
                asked, ROWS,
                "rows without anything to show are asked about, too"
            );
        }
        // Three rows at each hundred: the scanner seeks between them, forward only.
        let hundreds = |n: usize| match n % 100 {
            1..=3 => Choice::Read,
            0 => Choice::PassUntil(Bytes::from(row(n + 1))),
            _ => Choice::PassUntil(Bytes::from(row((n / 100 + 1) * 100 + 1))),
        };
        let wanted = expected(&|n| (1..=3).contains(&(n % 100)));
        let (found, asked) = chosen(&region, RowRange::all(), false, hundreds).await;
        assert_eq!(found, wanted);
        assert!(asked < 60, "{asked} rows were asked about");
        let (mut found, asked) = chosen(&region, RowRange::all(), true, hundreds).await;
        found.reverse();
        assert_eq!((found, asked), (wanted, ROWS));
        // A hint behind the range ends it.
        let range = RowRange {
            stop: Bytes::from(row(150)),
            ..RowRange::all()
        };
        let far = |n: usize| match n {
            0..20 => Choice::Read,
            _ => Choice::PassUntil(Bytes::from(row(ROWS - 1))),
        };
        let (found, asked) = chosen(&region, range, false, far).await;
        assert_eq!(found, expected(&|n| n < 20));
        assert!(asked < 40, "{asked}");
        store.close().await.unwrap();
    });
}
