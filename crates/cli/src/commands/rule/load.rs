//! Loads, as people read them.

use cadastre_sharding::versions::{Count, Evenness, Load};
use cadastre_sharding::{Program, Slot};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

use super::source::slot_text;

/// Slots that are named as the hottest.
pub(super) const HOTTEST: usize = 5;

/// The rows of every place that the rule has, by name; of the empty ones too.
pub(super) fn rows_by_place(load: &Load, program: &Program) -> BTreeMap<String, u64> {
    let places = load.places(program).into_iter();
    places
        .map(|(place, count)| (place.to_string(), count.rows))
        .collect()
}

/// `heaviest 1.50 of the mean, lightest 0.50, 1 empty`
pub(super) fn evenness_text(even: Evenness) -> String {
    let empty = match even.empty {
        0 => String::new(),
        n => format!(", {n} empty"),
    };
    format!(
        "heaviest {:.2} of the mean, lightest {:.2}{empty}",
        share(even.max_permille),
        share(even.min_permille)
    )
}

pub(super) fn evenness_json(even: Evenness) -> Json {
    json!({ "highest": share(even.max_permille), "lowest": share(even.min_permille), "empty": even.empty })
}

/// Of the mean.
pub(super) fn share(permille: u64) -> f64 {
    permille as f64 / 1000.0
}

/// `(7, 31) 12 rows` for each of the hottest slots.
pub(super) fn hottest_texts(load: &Load, program: &Program) -> Vec<String> {
    let text =
        |(slot, count): (Slot, Count)| format!("{} {} rows", slot_text(program, slot), count.rows);
    load.hottest(HOTTEST).into_iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evenness_is_told_in_means() {
        let program = Program::parse(
            "rule r version 1; field a: i64; dimension d 0 to 1; else (a % 2); place table \"t_{d}\";",
        )
        .unwrap();
        let of = |rows: [u64; 2]| {
            let mut load = Load::default();
            for (slot, rows) in rows.into_iter().enumerate().filter(|it| it.1 > 0) {
                load.add(Slot(slot as u32), rows, 0);
            }
            evenness_text(load.evenness(&program))
        };
        assert_eq!(of([1, 3]), "heaviest 1.50 of the mean, lightest 0.50");
        assert_eq!(
            of([0, 4]),
            "heaviest 2.00 of the mean, lightest 0.00, 1 empty"
        );
        assert_eq!(
            of([0, 0]),
            "heaviest 1.00 of the mean, lightest 1.00, 2 empty"
        );
    }
}
