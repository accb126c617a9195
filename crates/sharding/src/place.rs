//! Places: where a slot lives, by lines of the rule with templates. Names are made once, when a rule is loaded.

use std::collections::BTreeMap;
use std::fmt;

use crate::{
    error::RuleError,
    limits,
    slot::{Shape, Slot},
};

/// Where rows live: a table, on a cluster if the rule names clusters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The cluster, empty if there is but one.
    pub cluster: String,
    /// The table.
    pub table: String,
}

/// `cluster/table`, or the table alone.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.cluster.is_empty() {
            write!(f, "{}/", self.cluster)?;
        }
        f.write_str(&self.table)
    }
}

/// The number of a place in a [`SlotMap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlaceId(pub u32);

/// One line of the slot map: `place (7, *) cluster "a" table "hot_{day:2}";`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceLine {
    /// Which slots: one span per dimension, `None` = all; empty = all slots.
    pub slots: Vec<Option<(i64, i64)>>,
    /// Cluster, empty if there is but one.
    pub cluster: Template,
    /// Table.
    pub table: Template,
}

/// A name with coordinates in it: `"table_{shard:4}_{day:2}"`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Template {
    /// Pieces in order.
    pub pieces: Vec<Piece>,
}

/// A piece of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Text as it stands.
    Text(String),
    /// A coordinate: `{shard / 256 % 4 + 1:2}`.
    Coordinate {
        /// Number of the dimension.
        dimension: u8,
        /// Divisor, floors; 1 if none.
        divide: u32,
        /// Modulus, Euclidean; 0 if none.
        modulo: u32,
        /// Added last.
        add: i64,
        /// Padded with zeros to this many digits (R49).
        width: u8,
    },
}

/// The slot map: slot to place in one look-up, every name made once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotMap {
    places: Vec<Place>,
    slots: Vec<u32>,
}

/// Widest padding.
pub(crate) const WIDTH_MAX: u8 = 20;

impl SlotMap {
    /// Makes the names of all slots. Every slot must have a place.
    pub fn new(shape: &Shape, lines: &[PlaceLine]) -> Result<SlotMap, RuleError> {
        let winners = winners(shape, lines)?;
        let mut ids: BTreeMap<Place, u32> = BTreeMap::new();
        let mut places = Vec::new();
        let mut slots = Vec::with_capacity(shape.slots() as usize);
        let pieces = winners.iter().flatten().filter_map(|at| lines.get(*at));
        let pieces = pieces.map(|it| it.cluster.pieces.len() + it.table.pieces.len());
        if pieces.sum::<usize>() > PIECES_MAX {
            return Err(RuleError::new(format!(
                "the names of all places have more than {PIECES_MAX} pieces together"
            )));
        }
        let mut bytes = 0_usize;
        for (slot, winner) in (0..shape.slots()).map(Slot).zip(winners) {
            let coordinates = shape.coordinates(slot);
            let Some(line) = winner.and_then(|at| lines.get(at)) else {
                return Err(RuleError::new(format!(
                    "slot {coordinates:?} has no place; a line without slots covers all"
                )));
            };
            let place = Place {
                cluster: line.cluster.render(&coordinates)?,
                table: line.table.render(&coordinates)?,
            };
            let id = match ids.get(&place) {
                Some(id) => *id,
                None => {
                    bytes += place.cluster.len() + place.table.len();
                    if bytes > NAMES_BYTES_MAX {
                        return Err(RuleError::new(format!(
                            "the names of all places have more than {NAMES_BYTES_MAX} bytes together"
                        )));
                    }
                    let next = u32::try_from(places.len()).unwrap_or(u32::MAX);
                    places.push(place.clone());
                    ids.insert(place, next);
                    next
                }
            };
            slots.push(id);
        }
        Ok(SlotMap { places, slots })
    }

    /// The number of the place of a slot.
    #[inline]
    pub fn id(&self, slot: Slot) -> PlaceId {
        PlaceId(self.slots[slot.0 as usize])
    }

    /// The place of a slot.
    #[inline]
    pub fn place(&self, slot: Slot) -> &Place {
        &self.places[self.slots[slot.0 as usize] as usize]
    }

    /// All places, by number.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// How many slots there are.
    pub fn slots(&self) -> u32 {
        u32::try_from(self.slots.len()).unwrap_or(u32::MAX)
    }
}

/// Most pieces of templates that are filled in for all slots together: sixteen for each slot of the largest rule, a second.
const PIECES_MAX: usize = 16 * limits::SLOTS_MAX as usize;

/// Longest names of all places together, bytes: sixty for each slot of the largest rule. They are held twice while they are made.
const NAMES_BYTES_MAX: usize = 64 << 20;

/// Most slots that all lines together may name: each slot eight times over, and some.
const COVERED_MAX: u64 = 8 * limits::SLOTS_MAX + 8 * limits::PLACES_MAX as u64;

/// The number of the last line that names each slot: a line after the other paints over what was before.
fn winners(shape: &Shape, lines: &[PlaceLine]) -> Result<Vec<Option<usize>>, RuleError> {
    let mut winners = vec![None; shape.slots() as usize];
    let mut covered = 0_u64;
    for (number, line) in lines.iter().enumerate() {
        let spans: Vec<(u32, u32)> = shape
            .dimensions()
            .iter()
            .enumerate()
            .map(|(at, dimension)| {
                let whole = (dimension.first, dimension.last);
                let (first, last) = line.slots.get(at).copied().flatten().unwrap_or(whole);
                let index = |it: i64| {
                    let inside = it.clamp(dimension.first, dimension.last);
                    u32::try_from(inside - dimension.first).unwrap_or(0)
                };
                (index(first), index(last))
            })
            .collect();
        let slots: u64 = spans.iter().map(|(a, b)| u64::from(b - a) + 1).product();
        covered = covered.saturating_add(slots);
        if covered > COVERED_MAX {
            return Err(RuleError::new(format!(
                "the lines of places name more than {COVERED_MAX} slots, most of them again and again"
            )));
        }
        paint(shape, &spans, 0, number, &mut winners);
    }
    Ok(winners)
}

fn paint(
    shape: &Shape,
    spans: &[(u32, u32)],
    base: u32,
    number: usize,
    winners: &mut [Option<usize>],
) {
    let Some(((first, last), rest)) = spans.split_first() else {
        winners[base as usize] = Some(number);
        return;
    };
    let stride = shape.stride(shape.dimensions().len() - spans.len());
    for index in *first..=*last {
        paint(shape, rest, base + index * stride, number, winners);
    }
}

impl PlaceLine {
    /// Whether the slot of these coordinates is meant.
    pub fn matches(&self, coordinates: &[i64]) -> bool {
        self.slots.is_empty()
            || self
                .slots
                .iter()
                .zip(coordinates)
                .all(|(span, at)| span.is_none_or(|(first, last)| first <= *at && *at <= last))
    }
}

impl Template {
    /// A template without coordinates.
    pub fn text(text: impl Into<String>) -> Template {
        Template {
            pieces: vec![Piece::Text(text.into())],
        }
    }

    /// The name for these coordinates.
    pub fn render(&self, coordinates: &[i64]) -> Result<String, RuleError> {
        let mut name = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => name.push_str(text),
                Piece::Coordinate {
                    dimension,
                    divide,
                    modulo,
                    add,
                    width,
                } => {
                    let value = coordinates.get(usize::from(*dimension)).copied();
                    let value = value.unwrap_or(0).div_euclid(i64::from(*divide).max(1));
                    let value = match *modulo {
                        0 => value,
                        modulo => value.rem_euclid(i64::from(modulo)),
                    };
                    let value = value
                        .checked_add(*add)
                        .ok_or_else(|| RuleError::new("a name's number overflows"))?;
                    let width = usize::from(*width);
                    if value < 0 {
                        name.push_str(&format!("-{:0width$}", value.unsigned_abs()));
                    } else {
                        name.push_str(&format!("{value:0width$}"));
                    }
                }
            }
        }
        if name.len() > limits::NAME_BYTES_MAX {
            return Err(RuleError::new(format!(
                "name {name} is longer than {} bytes",
                limits::NAME_BYTES_MAX
            )));
        }
        Ok(name)
    }
}
