//! Texts that a rule reads parts and numbers of: one for each combination of what the rule can find in them, among those of a
//! set. Each part is a small automaton that reads the text character by character; all run side by side over every text
//! there is, which are finitely many states. Knows nothing of rules.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use super::{
    looks::Looks,
    set::{Point, Set},
};
use crate::limits;

mod reading;

use reading::{Cuts, Reader, Reading, Run};

/// Most states of all automata together, and never more than the evaluations that may be spent; some hundred milliseconds for rules made
/// to be slow.
const STATES_MAX: usize = 60_000;
/// Most breaks of one number that is read from a text.
const CUTS_MAX: usize = 20_000;
/// Greatest period that is followed digit by digit.
const PERIOD_MAX: i128 = 65_536;

/// What is taken of a text, step by step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Chain(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// The first characters.
    Left(u32),
    /// The last characters.
    Right(u32),
    /// All behind the first characters.
    Behind(u32),
    /// A part between separators, the first is 0. The separator is not empty.
    Part {
        separator: Vec<char>,
        at: u32,
    },
    Lower,
    Upper,
}

/// A count of characters: no text has more than the greatest.
fn capped(count: u64) -> u32 {
    // At most 32,767.
    u32::try_from(count.min(limits::STRING_BYTES_MAX as u64)).unwrap_or(u32::MAX)
}

impl Chain {
    fn then(mut self, step: Step) -> Chain {
        self.0.push(step);
        self
    }

    pub(super) fn left(self, count: u64) -> Chain {
        match count >= limits::STRING_BYTES_MAX as u64 {
            true => self,
            false => self.then(Step::Left(capped(count))),
        }
    }

    pub(super) fn right(self, count: u64) -> Chain {
        match count >= limits::STRING_BYTES_MAX as u64 {
            true => self,
            false => self.then(Step::Right(capped(count))),
        }
    }

    pub(super) fn behind(self, count: u64) -> Chain {
        self.then(Step::Behind(capped(count)))
    }

    pub(super) fn part(self, separator: &str, at: u64) -> Chain {
        match separator.is_empty() {
            true => self.then(Step::Left(0)),
            false => self.then(Step::Part {
                separator: separator.chars().collect(),
                at: capped(at),
            }),
        }
    }

    pub(super) fn lower(self) -> Chain {
        self.then(Step::Lower)
    }

    pub(super) fn upper(self) -> Chain {
        self.then(Step::Upper)
    }
}

/// How a number comes from a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    /// The text in decimal digits.
    Digits,
    /// How many characters it has.
    Length,
}

/// What is asked of a part of a text.
pub(super) enum Ask<'p> {
    /// Where it lies among constants.
    Part { chain: Chain, points: Vec<Vec<u8>> },
    /// A number, and what is looked at in it.
    Number {
        chain: Chain,
        of: Of,
        looks: Looks<'p>,
    },
}

impl<'p> Ask<'p> {
    pub(super) fn part(chain: Chain, points: Vec<Vec<u8>>) -> Ask<'p> {
        Ask::Part { chain, points }
    }

    pub(super) fn number(chain: Chain, of: Of, looks: Looks<'p>) -> Ask<'p> {
        Ask::Number { chain, of, looks }
    }

    /// Which automaton answers it, or none if there is too much to tell apart.
    fn reader(&self) -> Option<Reader> {
        Some(match self {
            Ask::Part { chain, points } => {
                let points = points.iter().map(|it| characters(it, false));
                Reader::new(
                    &chain.0,
                    Reading::among(points.collect::<Option<Vec<_>>>()?),
                )
            }
            Ask::Number { chain, of, looks } => {
                let (low, high) = match of {
                    Of::Digits => (i64::MIN.into(), i64::MAX.into()),
                    Of::Length => (0, limits::STRING_BYTES_MAX as i128),
                };
                let mut cuts = cuts(looks, low, high)?;
                let reading = match of {
                    Of::Digits => {
                        // From here on it is no number of the type.
                        cuts.starts(high + 1);
                        Reading::digits(cuts)
                    }
                    Of::Length => Reading::length(cuts),
                };
                Reader::new(&chain.0, reading)
            }
        })
    }
}

/// The pieces of a number's values, as far as they can be told apart.
fn cuts(looks: &Looks<'_>, low: i128, high: i128) -> Option<Cuts> {
    let mut cuts = Cuts::default();
    let mut complete = true;
    looks.stretches(low, high, &mut |low, high, steps| {
        let period = steps.period(true).filter(|it| *it <= PERIOD_MAX);
        let period = period.filter(|period| high - low >= *period);
        match period {
            Some(period) => complete &= cuts.repeating(low, period, PERIOD_MAX),
            None => {
                let mut from = low;
                while from <= high && complete {
                    cuts.starts(from);
                    complete = cuts.len() <= CUTS_MAX;
                    from = steps
                        .next_break(from)
                        .map_or(high + 1, |it| it.max(from + 1));
                }
            }
        }
        complete &= cuts.len() <= CUTS_MAX;
    });
    complete.then_some(cuts)
}

/// The texts that may be.
pub(super) enum Texts<'s> {
    /// Of these spans: characters, or bytes.
    Spans { set: &'s Set<Vec<u8>>, bytes: bool },
    /// The decimal texts of these numbers.
    Decimals(&'s Set<i128>),
}

/// A text for each combination of answers that some text gives, or none if there are too many to tell. `points` are what the text itself
/// is compared with; `whole` is what is looked at in the number that it is.
pub(super) fn samples(
    asks: &[Ask<'_>],
    points: &[Vec<u8>],
    whole: Option<&Looks<'_>>,
    texts: &Texts<'_>,
    max: usize,
) -> Option<Vec<Vec<u8>>> {
    let bytes = matches!(texts, Texts::Spans { bytes: true, .. });
    // Those that say which texts are wanted come first: what they refuse is asked of no other.
    let mut readers = Vec::new();
    match texts {
        Texts::Spans { set, .. } => {
            readers.push(Reader::new(&[], within(set, bytes)?));
            let points = points.iter().map(|it| characters(it, bytes));
            readers.push(Reader::new(
                &[],
                Reading::among(points.collect::<Option<_>>()?),
            ));
        }
        Texts::Decimals(set) => {
            let mut inside = Cuts::default();
            for (low, high) in set.runs() {
                inside.starts(low);
                inside.starts(high + 1);
            }
            readers.push(Reader::new(&[], Reading::decimals(inside)));
            if let (Some(whole), Some((low, high))) = (whole, set.bounds()) {
                let mut cuts = cuts(whole, low, high)?;
                cuts.starts(high + 1);
                readers.push(Reader::new(&[], Reading::digits(cuts)));
            }
        }
    }
    for ask in asks {
        readers.push(ask.reader()?);
    }
    let alphabet = alphabet(&readers, bytes);
    let found = Search::new(readers, alphabet).run(max)?;
    let encoded = found.into_iter().map(|text| match bytes {
        // Each stands for one byte.
        true => text
            .into_iter()
            .filter_map(|it| u8::try_from(u32::from(it)).ok())
            .collect(),
        false => text.into_iter().collect::<String>().into_bytes(),
    });
    Some(encoded.collect())
}

/// The characters of a text; with `bytes` each byte is one of its own.
fn characters(text: &[u8], bytes: bool) -> Option<Vec<char>> {
    match bytes {
        true => Some(text.iter().copied().map(char::from).collect()),
        false => Some(std::str::from_utf8(text).ok()?.chars().collect()),
    }
}

/// Tells texts of a set from others.
fn within(set: &Set<Vec<u8>>, bytes: bool) -> Option<Reading> {
    let ends = set
        .spans()
        .iter()
        .flat_map(|it| [Some(&it.low), it.high.as_ref()]);
    let ends: BTreeSet<&Vec<u8>> = ends.flatten().collect();
    // Behind each end and at it: the set begins and ends nowhere else.
    let first = set.contains(&Vec::new());
    let mut inside = vec![first && !ends.contains(&Vec::new())];
    for end in &ends {
        inside.push(set.contains(end));
        inside.push(set.contains(&end.next()));
    }
    let points = ends.into_iter().map(|it| characters(it, bytes));
    Some(Reading::within(points.collect::<Option<_>>()?, inside))
}

/// Characters that stand for all: those that make a difference by themselves, and one of each gap between them.
fn alphabet(readers: &[Reader], bytes: bool) -> Vec<char> {
    let mut own = BTreeSet::new();
    readers.iter().for_each(|it| it.characters(&mut own));
    if readers.iter().any(Reader::folds_case) {
        let cases = own
            .iter()
            .flat_map(|it| [it.to_ascii_lowercase(), it.to_ascii_uppercase()]);
        own = cases.collect();
        // Of the other letters one for each place among those, and for its other case's.
        let place = |it: char| own.range(..=it).count();
        let letters = ('a'..='z').chain('A'..='Z');
        let places = letters.map(|it| {
            let cases = [it.to_ascii_lowercase(), it.to_ascii_uppercase()];
            ((place(it), cases.map(place), own.contains(&it)), it)
        });
        let places: BTreeMap<_, char> = places.collect();
        own.extend(places.into_values());
    }
    let last = if bytes { '\u{ff}' } else { char::MAX };
    let next = |it: char| (it..=last).nth(1);
    let mut all: BTreeSet<char> = own.iter().copied().collect();
    all.insert('\0');
    all.extend(own.iter().filter_map(|it| next(*it)));
    all.into_iter().filter(|it| *it <= last).collect()
}

/// Goes through all states that some text leads to, the shortest texts first.
struct Search {
    readers: Vec<Tabled>,
    alphabet: Vec<char>,
    states: Vec<Box<[u32]>>,
    known: HashMap<Box<[u32]>, u32>,
    /// From which state each was reached, and by which character.
    before: Vec<(u32, char)>,
}

/// An automaton whose states have numbers.
struct Tabled {
    reader: Reader,
    runs: Vec<Run>,
    known: HashMap<Run, u32>,
    /// By state and character.
    next: HashMap<(u32, u32), Vec<u32>>,
    /// What a text that ends here is, by state.
    end: HashMap<u32, Vec<u32>>,
}

impl Tabled {
    fn new(reader: Reader) -> Tabled {
        let first = reader.begin();
        Tabled {
            runs: vec![first.clone()],
            known: HashMap::from([(first, 0)]),
            reader,
            next: HashMap::new(),
            end: HashMap::new(),
        }
    }

    fn number(&mut self, run: Run) -> u32 {
        let fresh = u32::try_from(self.runs.len()).unwrap_or(u32::MAX);
        *self.known.entry(run).or_insert_with_key(|run| {
            self.runs.push(run.clone());
            fresh
        })
    }

    fn next(&mut self, state: u32, at: u32, character: char) -> Vec<u32> {
        if let Some(known) = self.next.get(&(state, at)) {
            return known.clone();
        }
        let runs = self.reader.read(&self.runs[state as usize], character);
        let next: Vec<u32> = runs.into_iter().map(|it| self.number(it)).collect();
        self.next.insert((state, at), next.clone());
        next
    }

    fn end(&mut self, state: u32) -> Vec<u32> {
        if let Some(known) = self.end.get(&state) {
            return known.clone();
        }
        let end = self.reader.end(&self.runs[state as usize]);
        self.end.insert(state, end.clone());
        end
    }
}

impl Search {
    fn new(readers: Vec<Reader>, alphabet: Vec<char>) -> Search {
        let first: Box<[u32]> = vec![0; readers.len()].into();
        Search {
            readers: readers.into_iter().map(Tabled::new).collect(),
            alphabet,
            states: vec![first.clone()],
            known: HashMap::from([(first, 0)]),
            before: vec![(0, '\0')],
        }
    }

    fn run(mut self, max: usize) -> Option<Vec<Vec<char>>> {
        let mut answers: HashSet<Vec<u32>> = HashSet::new();
        let mut found = Vec::new();
        let mut queue = VecDeque::from([0_u32]);
        while let Some(state) = queue.pop_front() {
            let at = self.states[state as usize].clone();
            let ends: Vec<_> = self
                .readers
                .iter_mut()
                .zip(&at)
                .map(|(it, at)| it.end(*at))
                .collect();
            for answer in combinations(&ends) {
                if answers.insert(answer) {
                    found.push(self.text(state));
                }
            }
            if found.len() > max {
                return None;
            }
            for number in 0..self.alphabet.len() {
                let character = self.alphabet[number];
                let number = u32::try_from(number).unwrap_or(u32::MAX);
                let mut next = Vec::with_capacity(at.len());
                for (reader, at) in self.readers.iter_mut().zip(&at) {
                    let of = reader.next(*at, number, character);
                    if of.is_empty() {
                        break;
                    }
                    next.push(of);
                }
                if next.len() < at.len() {
                    continue;
                }
                for next in combinations(&next) {
                    let fresh = u32::try_from(self.states.len()).unwrap_or(u32::MAX);
                    let next: Box<[u32]> = next.into();
                    if self.known.contains_key(&next) {
                        continue;
                    }
                    if self.states.len() >= STATES_MAX.min(max) {
                        return None;
                    }
                    self.known.insert(next.clone(), fresh);
                    self.states.push(next);
                    self.before.push((state, character));
                    queue.push_back(fresh);
                }
            }
        }
        Some(found)
    }

    /// A shortest text that leads to a state.
    fn text(&self, state: u32) -> Vec<char> {
        let mut text = Vec::new();
        let mut at = state;
        while at != 0 {
            let (before, character) = self.before[at as usize];
            text.push(character);
            at = before;
        }
        text.reverse();
        text
    }
}

/// One of each, in every way; none if one has none.
fn combinations(of: &[Vec<u32>]) -> Vec<Vec<u32>> {
    // The rule: only guesses have more than one.
    if of.iter().all(|it| it.len() == 1) {
        return vec![of.iter().flatten().copied().collect()];
    }
    let mut all = vec![Vec::with_capacity(of.len())];
    for choices in of {
        all = all
            .into_iter()
            .flat_map(|it| {
                choices.iter().map(move |choice| {
                    let mut it = it.clone();
                    it.push(*choice);
                    it
                })
            })
            .collect();
    }
    all
}
