//! The automata that read a text: first the steps that take a part of it, then what is told of the part. Each answers with a
//! number that stands for everything that a rule can see of it. A step that takes from the end guesses where that begins; a
//! wrong guess leads nowhere.

use std::collections::BTreeSet;

use super::Step;

/// Digits that a number of 64 bits can have.
const DIGITS_MAX: u8 = 20;

/// Where a run of an automaton stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Run {
    /// Of each step what is left to count, or where it is.
    steps: Vec<[u32; 2]>,
    state: State,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    Among(Among),
    Digits(Digits),
    Length { count: u32, rest: u32 },
}

/// What was read so far, against sorted constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Among {
    /// It begins these constants (from, to): all shorter ones and those before them are below it.
    Begins { from: u32, to: u32, read: u32 },
    /// Whatever follows, so many constants are below it and none is equal.
    Behind(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Digits {
    Start,
    /// A sign and nothing behind it.
    Sign {
        negative: bool,
    },
    Number {
        negative: bool,
        /// Without zeroes in front.
        count: u8,
        among: Among,
        rest: u32,
        /// A zero stands in front, or nothing but the sign.
        zero: bool,
    },
    /// No number, whatever follows.
    None,
}

/// Where the pieces of a number begin, and which of them repeat inside.
#[derive(Clone, Debug, Default)]
pub(super) struct Cuts {
    starts: Vec<i128>,
    /// Repeats after the period from the start of that number on, until the next one.
    repeats: Vec<bool>,
    period: i128,
}

impl Cuts {
    /// A piece begins, behind all others.
    pub(super) fn starts(&mut self, at: i128) {
        if self.starts.last() != Some(&at) {
            self.starts.push(at);
            self.repeats.push(false);
        }
    }

    /// A stretch begins that repeats inside. False if that is too much to follow together with the others.
    pub(super) fn repeating(&mut self, at: i128, period: i128, max: i128) -> bool {
        self.starts(at);
        let Some(last) = self.repeats.last_mut() else {
            return false;
        };
        if period == 1 {
            return true;
        }
        *last = true;
        let (mut a, mut b) = (self.period.max(1), period);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        self.period = self.period.max(1) / a * period;
        self.period <= max
    }

    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    fn modulus(&self) -> u32 {
        // At most the greatest period, which is small.
        u32::try_from(self.period.max(1)).unwrap_or(u32::MAX)
    }

    /// The piece of a number, told by how many starts are not above it.
    fn answer(&self, below: usize, rest: u32) -> u32 {
        let repeats = below.checked_sub(1).is_some_and(|it| self.repeats[it]);
        let rest = if repeats { rest } else { 0 };
        u32::try_from(below).unwrap_or(u32::MAX / self.modulus()) * self.modulus() + rest + 1
    }
}

/// What is told of the part.
pub(super) enum Reading {
    /// Where it lies among constants; if `inside` is there, only some answers are wanted and all stand for one.
    Among {
        points: Vec<Vec<char>>,
        inside: Option<Vec<bool>>,
    },
    Digits(Numbers),
    Length(Cuts),
}

/// How a number is told by its digits.
pub(super) struct Numbers {
    cuts: Cuts,
    /// The digits of the starts above and below zero.
    above: Numerals,
    below: Numerals,
    /// Only numbers as they are written, and only in every other piece.
    written: bool,
}

impl Numbers {
    fn new(cuts: Cuts, written: bool) -> Numbers {
        let numerals = |of: &dyn Fn(&i128) -> bool| {
            let starts = cuts.starts.iter().filter(|it| of(it));
            let digits = starts.map(|it| it.unsigned_abs().to_string().chars().collect());
            Numerals::new(digits.collect())
        };
        Numbers {
            above: numerals(&|it| *it > 0),
            below: numerals(&|it| *it < 0),
            cuts,
            written,
        }
    }

    /// Those on the side of zero that the number is on.
    fn numerals(&self, negative: bool) -> &Numerals {
        match negative {
            true => &self.below,
            false => &self.above,
        }
    }
}

impl Reading {
    pub(super) fn among(mut points: Vec<Vec<char>>) -> Reading {
        points.sort();
        points.dedup();
        Reading::Among {
            points,
            inside: None,
        }
    }

    /// `points` are sorted; `inside` says it for what is below the first, at it, behind it, at the next …
    pub(super) fn within(points: Vec<Vec<char>>, inside: Vec<bool>) -> Reading {
        Reading::Among {
            points,
            inside: Some(inside),
        }
    }

    pub(super) fn digits(cuts: Cuts) -> Reading {
        Reading::Digits(Numbers::new(cuts, false))
    }

    /// The texts of numbers as they are written, from every odd start to the next one.
    pub(super) fn decimals(inside: Cuts) -> Reading {
        Reading::Digits(Numbers::new(inside, true))
    }

    pub(super) fn length(cuts: Cuts) -> Reading {
        Reading::Length(cuts)
    }

    fn begin(&self) -> State {
        match self {
            Reading::Among { points, .. } => State::Among(Among::all(points)),
            Reading::Digits(_) => State::Digits(Digits::Start),
            Reading::Length(_) => State::Length { count: 0, rest: 0 },
        }
    }

    /// The next state, or none if no wanted text goes on so.
    fn read(&self, state: &State, character: char) -> Option<State> {
        Some(match (self, state) {
            (Reading::Among { points, inside }, State::Among(among)) => {
                let next = among.read(points, character);
                if let (Among::Behind(below), Some(inside)) = (next, inside)
                    && !inside[2 * below as usize]
                {
                    return None;
                }
                State::Among(next)
            }
            (Reading::Digits(numbers), State::Digits(digits)) => {
                let next = digits.read(character, numbers);
                if numbers.written && !digits.may_be_written(character, next) {
                    return None;
                }
                State::Digits(next)
            }
            (Reading::Length(cuts), State::Length { count, rest }) => {
                let last = cuts.starts.last().copied().unwrap_or(0);
                let more = i128::from(*count) <= last;
                State::Length {
                    count: count + u32::from(more),
                    rest: (rest + 1) % cuts.modulus(),
                }
            }
            _ => return None,
        })
    }

    fn end(&self, state: &State) -> Option<u32> {
        match (self, state) {
            (Reading::Among { points, inside }, State::Among(among)) => {
                let answer = among.end(points);
                match inside {
                    Some(inside) => inside[answer as usize].then_some(0),
                    None => Some(answer),
                }
            }
            (Reading::Digits(numbers), State::Digits(digits)) => {
                let answer = digits.end(numbers);
                match (numbers.written, answer) {
                    (true, Some((below, _))) => (below % 2 == 1).then_some(0),
                    (true, None) => None,
                    // Below the first start and from the last one on it is no number of the type.
                    (false, Some((below, rest))) if (1..numbers.cuts.len()).contains(&below) => {
                        Some(numbers.cuts.answer(below, rest))
                    }
                    (false, _) => Some(0),
                }
            }
            (Reading::Length(cuts), State::Length { count, rest }) => {
                let below = cuts.starts.partition_point(|it| *it <= i128::from(*count));
                Some(cuts.answer(below, *rest))
            }
            _ => None,
        }
    }
}

impl Among {
    fn all(points: &[Vec<char>]) -> Among {
        match points.len() {
            0 => Among::Behind(0),
            to => Among::Begins {
                from: 0,
                // Bounded by the entries of a rule.
                to: u32::try_from(to).unwrap_or(u32::MAX),
                read: 0,
            },
        }
    }

    fn read(self, points: &[Vec<char>], character: char) -> Among {
        let Among::Begins { from, to, read } = self else {
            return self;
        };
        let (first, at) = (from as usize, read as usize);
        let these = &points[first..to as usize];
        // A constant that ends here comes before all that goes on.
        let below = first + these.partition_point(|it| it.get(at).is_none_or(|it| *it < character));
        let to = first + these.partition_point(|it| it.get(at).is_none_or(|it| *it <= character));
        let number = |it: usize| u32::try_from(it).unwrap_or(u32::MAX);
        match below < to {
            true => Among::Begins {
                from: number(below),
                to: number(to),
                read: read + 1,
            },
            false => Among::Behind(number(below)),
        }
    }

    /// Twice as many as constants are below it, and one more if it is one of them.
    fn end(self, points: &[Vec<char>]) -> u32 {
        match self {
            Among::Behind(below) => 2 * below,
            Among::Begins { from, read, .. } => {
                let equal = points[from as usize].len() == read as usize;
                2 * from + u32::from(equal)
            }
        }
    }
}

impl Digits {
    fn read(self, character: char, numbers: &Numbers) -> Digits {
        let negative = match self {
            Digits::None => return Digits::None,
            Digits::Start if matches!(character, '+' | '-') => {
                return Digits::Sign {
                    negative: character == '-',
                };
            }
            Digits::Start => false,
            Digits::Sign { negative } | Digits::Number { negative, .. } => negative,
        };
        let Some(digit) = character.to_digit(10) else {
            return Digits::None;
        };
        let points = &numbers.numerals(negative).digits;
        let (count, among, rest) = match self {
            Digits::Number {
                count, among, rest, ..
            } => (count, among, rest),
            _ => (0, Among::all(points), 0),
        };
        if count == 0 && digit == 0 {
            return Digits::Number {
                negative,
                count,
                among,
                rest,
                zero: true,
            };
        }
        if count == DIGITS_MAX {
            return Digits::None;
        }
        // Both are small.
        let rest = (u64::from(rest) * 10 + u64::from(digit)) % u64::from(numbers.cuts.modulus());
        Digits::Number {
            negative,
            count: count + 1,
            among: among.read(points, character),
            rest: u32::try_from(rest).unwrap_or(0),
            zero: matches!(self, Digits::Number { zero: true, .. }),
        }
    }

    /// Whether a number that goes on so may be written by the machine: no plus, no zero in front.
    fn may_be_written(self, character: char, next: Digits) -> bool {
        match (self, next) {
            (_, Digits::None) => false,
            (Digits::Start, _) => character != '+',
            (Digits::Sign { .. }, Digits::Number { zero, .. }) => !zero,
            (Digits::Number { count: 0, .. }, _) => false,
            _ => true,
        }
    }

    /// How many starts are not above the number, and what is left of it after division by the modulus; none if it is no number.
    fn end(self, numbers: &Numbers) -> Option<(usize, u32)> {
        let Digits::Number {
            negative,
            count,
            among,
            rest,
            ..
        } = self
        else {
            return None;
        };
        let to_zero = numbers.cuts.starts.partition_point(|it| *it <= 0);
        if count == 0 {
            return Some((to_zero, 0));
        }
        let numerals = numbers.numerals(negative);
        let (smaller, equal) = numerals.smaller(among, usize::from(count));
        let modulus = numbers.cuts.modulus();
        Some(match negative {
            false => (to_zero + smaller + usize::from(equal), rest),
            // Those not above it are those that are as far from zero, or farther.
            true => (numerals.digits.len() - smaller, (modulus - rest) % modulus),
        })
    }
}

/// Numbers as digits, in the order of texts.
#[derive(Clone, Debug)]
pub(super) struct Numerals {
    digits: Vec<Vec<char>>,
    /// By length, of the first so many how many have it.
    of_length: Vec<Vec<u32>>,
}

impl Numerals {
    fn new(mut digits: Vec<Vec<char>>) -> Numerals {
        digits.sort();
        let lengths = 0..=usize::from(DIGITS_MAX);
        let of_length = lengths.map(|length| {
            let mut count = 0;
            let counts = digits.iter().map(|it| {
                count += u32::from(it.len() == length);
                count
            });
            std::iter::once(0).chain(counts).collect()
        });
        Numerals {
            of_length: of_length.collect(),
            digits,
        }
    }

    /// How many are smaller than a number of so many digits, and whether it is one of them.
    fn smaller(&self, among: Among, length: usize) -> (usize, bool) {
        let answer = among.end(&self.digits) as usize;
        let shorter = self.of_length[..length].iter().filter_map(|it| it.last());
        // In the order of texts a shorter one may come behind: only those of its length are compared so.
        let before = self.of_length[length][answer / 2];
        (
            shorter.sum::<u32>() as usize + before as usize,
            answer % 2 == 1,
        )
    }
}

/// An automaton.
pub(super) struct Reader {
    steps: Vec<Step>,
    /// Of a separator how much of it is still matched where its next character does not follow.
    fallbacks: Vec<Vec<u32>>,
    reading: Reading,
}

/// A step from the end has not begun; it waits; it takes, from the beginning of the text or from behind it.
const FRESH: u32 = 0;
const WAITING: u32 = 1;
const TAKING_ALL: u32 = 2;
const TAKING: u32 = 3;

impl Reader {
    pub(super) fn new(steps: &[Step], reading: Reading) -> Reader {
        let fallbacks = steps.iter().map(|it| match it {
            Step::Part { separator, .. } => fallbacks(separator),
            _ => Vec::new(),
        });
        Reader {
            fallbacks: fallbacks.collect(),
            steps: steps.to_vec(),
            reading,
        }
    }

    /// All characters that make a difference by themselves.
    pub(super) fn characters(&self, own: &mut BTreeSet<char>) {
        for step in &self.steps {
            if let Step::Part { separator, .. } = step {
                own.extend(separator);
            }
        }
        match &self.reading {
            Reading::Among { points, .. } => own.extend(points.iter().flatten()),
            Reading::Digits(_) => own.extend(('0'..='9').chain(['+', '-'])),
            Reading::Length(_) => {}
        }
    }

    pub(super) fn folds_case(&self) -> bool {
        let folds = |it: &Step| matches!(it, Step::Lower | Step::Upper);
        self.steps.iter().any(folds)
    }

    pub(super) fn begin(&self) -> Run {
        let steps = self.steps.iter().map(|step| match step {
            Step::Left(count) | Step::Behind(count) => [*count, 0],
            Step::Right(count) => [FRESH, *count],
            Step::Part { .. } | Step::Lower | Step::Upper => [0, 0],
        });
        Run {
            steps: steps.collect(),
            state: self.reading.begin(),
        }
    }

    /// Where the run may stand behind a character.
    pub(super) fn read(&self, run: &Run, character: char) -> Vec<Run> {
        let mut runs = Vec::new();
        self.take(0, run.clone(), character, &mut runs);
        runs
    }

    fn take(&self, at: usize, mut run: Run, character: char, runs: &mut Vec<Run>) {
        let Some(step) = self.steps.get(at) else {
            if let Some(state) = self.reading.read(&run.state, character) {
                run.state = state;
                runs.push(run);
            }
            return;
        };
        match step {
            Step::Left(_) if run.steps[at][0] == 0 => runs.push(run),
            Step::Left(_) => {
                run.steps[at][0] -= 1;
                self.take(at + 1, run, character, runs);
            }
            Step::Behind(_) if run.steps[at][0] == 0 => self.take(at + 1, run, character, runs),
            Step::Behind(_) => {
                run.steps[at][0] -= 1;
                runs.push(run);
            }
            Step::Lower => self.take(at + 1, run, character.to_ascii_lowercase(), runs),
            Step::Upper => self.take(at + 1, run, character.to_ascii_uppercase(), runs),
            Step::Right(_) => self.take_right(at, run, character, runs),
            Step::Part {
                separator,
                at: wanted,
            } => {
                let (run, emitted) = self.split(at, run, character, separator, *wanted);
                runs.extend(self.pass_on(at, run, &emitted));
            }
        }
    }

    fn take_right(&self, at: usize, mut run: Run, character: char, runs: &mut Vec<Run>) {
        let [phase, left] = run.steps[at];
        match phase {
            FRESH | WAITING => {
                let mut waiting = run.clone();
                waiting.steps[at][0] = WAITING;
                runs.push(waiting);
                if left > 0 {
                    let taking = if phase == FRESH { TAKING_ALL } else { TAKING };
                    run.steps[at] = [taking, left - 1];
                    self.take(at + 1, run, character, runs);
                }
            }
            // More would follow than it takes.
            _ if left == 0 => {}
            _ => {
                run.steps[at][1] = left - 1;
                self.take(at + 1, run, character, runs);
            }
        }
    }

    /// What a separator lets through of the wanted part, a character late where it might begin.
    fn split(
        &self,
        at: usize,
        mut run: Run,
        character: char,
        separator: &[char],
        wanted: u32,
    ) -> (Run, Vec<char>) {
        let [part, matched] = run.steps[at];
        if part > wanted {
            return (run, Vec::new());
        }
        let mut emitted = Vec::new();
        let mut matched = matched as usize;
        while matched > 0 && separator[matched] != character {
            let kept = self.fallbacks[at][matched - 1] as usize;
            emitted.extend(&separator[..matched - kept]);
            matched = kept;
        }
        match separator[matched] == character {
            true => matched += 1,
            false => emitted.push(character),
        }
        run.steps[at] = match matched == separator.len() {
            true => [part + 1, 0],
            false => [part, u32::try_from(matched).unwrap_or(0)],
        };
        if part < wanted {
            emitted.clear();
        }
        (run, emitted)
    }

    /// The steps behind a step take characters one after another.
    fn pass_on(&self, at: usize, run: Run, characters: &[char]) -> Vec<Run> {
        let mut runs = vec![run];
        for character in characters {
            let mut next = Vec::new();
            for run in runs {
                self.take(at + 1, run, *character, &mut next);
            }
            runs = next;
        }
        runs
    }

    /// What a text is that ends here.
    pub(super) fn end(&self, run: &Run) -> Vec<u32> {
        let mut runs = vec![run.clone()];
        for (at, step) in self.steps.iter().enumerate() {
            runs = match step {
                // What might have become a separator was none.
                Step::Part {
                    separator,
                    at: wanted,
                } => {
                    let flushed = runs.into_iter().flat_map(|run| {
                        let [part, matched] = run.steps[at];
                        let rest = if part == *wanted { matched as usize } else { 0 };
                        self.pass_on(at, run, &separator[..rest])
                    });
                    flushed.collect()
                }
                Step::Right(count) => {
                    runs.retain(|it| match it.steps[at] {
                        [FRESH | TAKING_ALL, _] => true,
                        [WAITING, _] => *count == 0,
                        [_, left] => left == 0,
                    });
                    runs
                }
                _ => runs,
            };
        }
        let mut ends: Vec<u32> = runs
            .iter()
            .filter_map(|it| self.reading.end(&it.state))
            .collect();
        ends.sort_unstable();
        ends.dedup();
        ends
    }
}

/// How long a beginning of the separator ends each beginning of it.
fn fallbacks(separator: &[char]) -> Vec<u32> {
    let mut of = vec![0_usize; separator.len()];
    for at in 1..separator.len() {
        let mut kept = of[at - 1];
        while kept > 0 && separator[kept] != separator[at] {
            kept = of[kept - 1];
        }
        of[at] = kept + usize::from(separator[kept] == separator[at]);
    }
    of.into_iter()
        .map(|it| u32::try_from(it).unwrap_or(0))
        .collect()
}

#[cfg(test)]
mod tests;
