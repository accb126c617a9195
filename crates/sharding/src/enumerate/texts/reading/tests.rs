//! Tests: what the automata tell, against the functions of texts themselves.

use proptest::prelude::*;

use super::{Cuts, Reader, Reading};
use crate::{
    enumerate::{
        set::{Point, Set},
        texts::{Chain, Search, alphabet, characters, within},
    },
    function::text,
};

/// A function of texts, and its chain.
#[derive(Clone, Debug)]
enum Taken {
    Left(u64),
    Right(u64),
    Substring(u64, u64),
    Part(String, u64),
    Lower,
    Upper,
}

impl Taken {
    fn of(&self, it: &str) -> String {
        match self {
            Taken::Left(count) => text::left(it, *count).to_owned(),
            Taken::Right(count) => text::right(it, *count).to_owned(),
            Taken::Substring(from, count) => text::substring(it, *from, *count).to_owned(),
            Taken::Part(separator, at) => text::split_part(it, separator, *at).to_owned(),
            Taken::Lower => text::lower(it),
            Taken::Upper => text::upper(it),
        }
    }

    fn chained(&self, chain: Chain) -> Chain {
        match self {
            Taken::Left(count) => chain.left(*count),
            Taken::Right(count) => chain.right(*count),
            Taken::Substring(from, count) => chain.behind(*from).left(*count),
            Taken::Part(separator, at) => chain.part(separator, *at),
            Taken::Lower => chain.lower(),
            Taken::Upper => chain.upper(),
        }
    }
}

fn taken() -> impl Strategy<Value = Vec<Taken>> {
    let one = prop_oneof![
        (0_u64..5).prop_map(Taken::Left),
        (0_u64..5).prop_map(Taken::Right),
        (0_u64..4, 0_u64..4).prop_map(|(from, count)| Taken::Substring(from, count)),
        ("[-a]{0,3}", 0_u64..3).prop_map(|(separator, at)| Taken::Part(separator, at)),
        Just(Taken::Lower),
        Just(Taken::Upper),
    ];
    prop::collection::vec(one, 0..4)
}

fn reader(taken: &[Taken], reading: Reading) -> Reader {
    let chain = taken
        .iter()
        .fold(Chain::default(), |chain, it| it.chained(chain));
    Reader::new(&chain.0, reading)
}

/// What the automaton says of a text: exactly one thing.
fn said(reader: &Reader, text: &str) -> u32 {
    let mut runs = vec![reader.begin()];
    for character in text.chars() {
        runs = runs
            .iter()
            .flat_map(|it| reader.read(it, character))
            .collect();
    }
    let mut ends: Vec<u32> = runs.iter().flat_map(|it| reader.end(it)).collect();
    ends.dedup();
    assert_eq!(ends.len(), 1, "{text}: {ends:?}");
    ends[0]
}

fn chars(of: &[String]) -> Vec<Vec<char>> {
    of.iter().map(|it| it.chars().collect()).collect()
}

/// A number's piece, told plainly.
fn piece(number: Option<i64>, starts: &[i128], period: i128) -> Option<(usize, i128)> {
    let number = i128::from(number?);
    let below = starts.partition_point(|it| *it <= number);
    // Every second piece repeats.
    let rest = if below % 2 == 0 {
        number.rem_euclid(period)
    } else {
        0
    };
    Some((below, rest))
}

fn cuts(starts: &[i128], period: i128) -> Cuts {
    let mut cuts = Cuts::default();
    for (at, start) in starts.iter().enumerate() {
        match at % 2 == 1 {
            true => assert!(cuts.repeating(*start, period, 1_000)),
            false => cuts.starts(*start),
        }
    }
    cuts
}

/// Those of numbers of 64 bits.
fn numbers(starts: &[i128], period: i128) -> Cuts {
    let mut cuts = cuts(starts, period);
    cuts.starts(i128::from(i64::MAX) + 1);
    cuts
}

proptest! {
    #[test]
    fn parts_lie_where_they_lie(taken in taken(), texts in prop::collection::vec("[-aAbé]{0,7}", 1..20), mut points in prop::collection::vec("[-aAbé]{0,3}", 0..5)) {
        points.sort();
        points.dedup();
        let reader = reader(&taken, Reading::among(chars(&points)));
        for text in texts {
            let part = taken.iter().fold(text.clone(), |text, it| it.of(&text));
            let below = points.partition_point(|it| *it < part);
            let expected = 2 * below + usize::from(points.contains(&part));
            prop_assert_eq!(said(&reader, &text) as usize, expected, "{} gives {}", text, part);
        }
    }

    #[test]
    fn numbers_are_what_they_are(
        taken in taken(),
        texts in prop::collection::vec("[-+0-3a]{0,6}|[-+]?[0-9]{0,22}|-?922337203685477580[0-9]", 1..20),
        mut starts in prop::collection::vec(prop_oneof![-300_i128..300, -1_i128 << 63..1 << 63], 0..6),
        period in 1_i128..12,
    ) {
        starts.push(i64::MIN.into());
        starts.sort_unstable();
        starts.dedup();
        let reader = reader(&taken, Reading::digits(numbers(&starts, period)));
        let mut known = std::collections::HashMap::new();
        for text in texts {
            let part = taken.iter().fold(text.clone(), |text, it| it.of(&text));
            let expected = piece(text::parse_integer(&part).ok(), &starts, period);
            // The same thing is said of all texts of a piece, and something else of others.
            let said = said(&reader, &text);
            prop_assert_eq!(*known.entry(said).or_insert(expected), expected, "{} gives {}", text, part);
            prop_assert_eq!(known.values().filter(|it| **it == expected).count(), 1, "{} gives {}", text, part);
        }
    }

    #[test]
    fn lengths_are_what_they_are(taken in taken(), texts in prop::collection::vec("[-aé]{0,9}", 1..20), mut starts in prop::collection::btree_set(1_i128..9, 0..4), period in 1_i128..5) {
        starts.insert(0);
        let starts: Vec<i128> = starts.into_iter().collect();
        let reader = reader(&taken, Reading::length(cuts(&starts, period)));
        let mut known = std::collections::HashMap::new();
        for text in texts {
            let part = taken.iter().fold(text.clone(), |text, it| it.of(&text));
            let expected = piece(Some(text::length(&part) as i64), &starts, period);
            let said = said(&reader, &text);
            prop_assert_eq!(*known.entry(said).or_insert(expected), expected, "{} gives {}", text, part);
            prop_assert_eq!(known.values().filter(|it| **it == expected).count(), 1);
        }
    }

    /// Every combination of answers that some short text between two others gives is found, and no text that lies elsewhere.
    #[test]
    fn all_that_can_be_is_found(
        first in taken(), second in taken(), ends in prop::collection::vec("[-a1]{0,3}", 0..4),
        points in prop::collection::vec("[-a1]{0,2}", 0..3), period in 1_i128..4,
    ) {
        let readers = || [
            reader(&first, Reading::among(chars(&points))),
            reader(&second, Reading::digits(numbers(&[i64::MIN.into(), -5, 12], period))),
        ];
        let mut ends: Vec<Vec<u8>> = ends.into_iter().map(String::into_bytes).collect();
        ends.sort();
        let mut set = Set::empty();
        for pair in ends.chunks(2) {
            set = set.union(&Set::span(pair[0].clone(), pair.get(1).cloned()));
            if pair[0].len() == 2 {
                set = set.union(&Set::point(pair[0].next()));
            }
        }
        let mut all: Vec<Reader> = readers().into();
        all.push(Reader::new(&[], within(&set, false).unwrap()));
        let signs = alphabet(&all, false);
        // Long guesses are too much to tell apart, which is said.
        let Some(found) = Search::new(all, signs).run(10_000) else {
            return Ok(());
        };
        let found: Vec<String> = found.into_iter().map(|it| it.into_iter().collect()).collect();
        let [a, b] = readers();
        let answers = |it: &str| (said(&a, it), said(&b, it));
        let told: std::collections::BTreeSet<_> = found.iter().map(|it| answers(it)).collect();
        prop_assert_eq!(told.len(), found.len());
        for text in &found {
            prop_assert!(set.contains(&text.clone().into_bytes()), "{text}");
            prop_assert!(characters(text.as_bytes(), false).is_some());
        }
        let mut texts = vec![String::new()];
        for _ in 0..4 {
            let longer = texts.iter().flat_map(|it| ["-", "a", "1", "A"].map(|sign| format!("{it}{sign}")));
            texts = longer.chain([String::new()]).collect();
            texts.sort();
            texts.dedup();
            for text in texts.iter().filter(|it| set.contains(&it.as_bytes().to_vec())) {
                prop_assert!(told.contains(&answers(text)), "{text}");
            }
        }
    }
}
