//! Slots: the integers that a rule answers, one per dimension, flattened to one number.

use crate::{error::RuleError, limits};

/// A slot: the flattened coordinates, first dimension most significant. Meaningful only beside its [`Shape`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

/// One dimension: `dimension day 1 to 31`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Dimension {
    /// Name, for templates.
    pub name: String,
    /// First value.
    pub first: i64,
    /// Last value, inclusive.
    pub last: i64,
}

impl Dimension {
    /// How many values it has, at most `SLOTS_MAX` + 1.
    pub fn len(&self) -> u64 {
        let span = i128::from(self.last) - i128::from(self.first) + 1;
        u64::try_from(span.clamp(0, i128::from(limits::SLOTS_MAX) + 1)).unwrap_or(0)
    }

    /// Whether it has no value at all; such a dimension is refused.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The declared topology: all dimensions of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    dimensions: Vec<Dimension>,
    /// How far apart, in slots, neighbouring values of each dimension are.
    strides: Vec<u32>,
    slots: u32,
}

impl Shape {
    /// Checks the dimensions: at least one, none empty, at most `SLOTS_MAX` slots.
    pub fn new(dimensions: Vec<Dimension>) -> Result<Shape, RuleError> {
        if dimensions.is_empty() || dimensions.len() > limits::DIMENSIONS_MAX {
            return Err(RuleError::new(format!(
                "a rule has 1 to {} dimensions, not {}",
                limits::DIMENSIONS_MAX,
                dimensions.len()
            )));
        }
        let mut slots = 1_u64;
        let mut strides = vec![0; dimensions.len()];
        for (at, dimension) in dimensions.iter().enumerate().rev() {
            if dimension.is_empty() {
                return Err(RuleError::new(format!(
                    "dimension {} is empty: {} to {}",
                    dimension.name, dimension.first, dimension.last
                )));
            }
            strides[at] = u32::try_from(slots).unwrap_or(u32::MAX);
            slots = slots.saturating_mul(dimension.len());
            if slots > limits::SLOTS_MAX {
                return Err(RuleError::new(format!(
                    "more than {} slots",
                    limits::SLOTS_MAX
                )));
            }
        }
        let slots = u32::try_from(slots).map_err(|_| RuleError::new("too many slots"))?;
        Ok(Shape {
            dimensions,
            strides,
            slots,
        })
    }

    /// The dimensions.
    pub fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }

    /// How many slots there are.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// How far apart, in slots, neighbouring values of the dimension are.
    pub(crate) fn stride(&self, dimension: usize) -> u32 {
        self.strides[dimension]
    }

    /// The slot of coordinates, or the number of the first dimension that they leave.
    pub fn slot(&self, coordinates: &[i64]) -> Result<Slot, usize> {
        if coordinates.len() != self.dimensions.len() {
            return Err(coordinates.len().min(self.dimensions.len()));
        }
        let mut slot = 0;
        for (at, (value, dimension)) in coordinates.iter().zip(&self.dimensions).enumerate() {
            if *value < dimension.first || *value > dimension.last {
                return Err(at);
            }
            let index = u32::try_from(value - dimension.first).map_err(|_| at)?;
            slot += index * self.strides[at];
        }
        Ok(Slot(slot))
    }

    /// The coordinate of a slot in one dimension.
    pub fn coordinate(&self, slot: Slot, dimension: usize) -> i64 {
        let one = &self.dimensions[dimension];
        let index = u64::from(slot.0 / self.strides[dimension]) % one.len();
        one.first + i64::try_from(index).unwrap_or(0)
    }

    /// All coordinates of a slot.
    pub fn coordinates(&self, slot: Slot) -> Vec<i64> {
        (0..self.dimensions.len())
            .map(|dimension| self.coordinate(slot, dimension))
            .collect()
    }
}
