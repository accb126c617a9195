//! Instructions of a compiled rule: never stored, so that they may change with every release.

use crate::{
    function::{
        Zone,
        calendar::{Part, Unit},
    },
    rule::{Binary, Function},
    slot::Slot,
    value::Literal,
};

use super::lookup::Lookup;

/// One instruction. "Top" is the scalar that was pushed last; blobs have a stack of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// Pushes.
    Const(u64),
    /// Pushes a field.
    Field(u16),
    /// Pushes a let.
    Local(u16),
    /// Pops into a let.
    SetLocal(u16),
    /// Pushes a constant blob.
    Blob(u32),
    /// Pushes a field's blob.
    FieldBlob(u16),
    /// Pushes a let's blob.
    LocalBlob(u16),
    /// Pops into a let.
    SetLocalBlob(u16),

    /// Two i64.
    Signed(Binary),
    /// Two u64, or two truth values.
    Unsigned(Binary),
    /// Two blobs.
    Blobs(Binary),
    /// Top of i64 with a constant.
    SignedConst(Binary, i64),
    /// Top of u64 with a constant.
    UnsignedConst(Binary, u64),
    /// `& mask`: modulo a power of two.
    Mask(u64),
    /// A field, `& mask`.
    FieldMask(u16, u64),
    /// Modulo a constant that is positive.
    ModuloSigned(i64),
    /// Modulo a constant that is not zero.
    ModuloUnsigned(u64),
    /// A field of i64 modulo a positive constant.
    FieldModuloSigned(u16, i64),
    /// A field of u64 modulo a constant.
    FieldModuloUnsigned(u16, u64),
    /// `-top`
    Negate,
    /// `not top`
    Not,

    /// Jumps.
    Jump(u32),
    /// Pops, jumps if it was false.
    Unless(u32),
    /// Jumps if top is false, else pops it.
    And(u32),
    /// Jumps if top is true, else pops it.
    Or(u32),

    /// Top through a lookup of scalars.
    LookupScalar(u32),
    /// Pops a blob, pushes what a lookup says.
    LookupBlob(u32),

    /// A part of a timestamp's date and time in a zone.
    Part(Part, u16),
    /// A count of units up to a timestamp in a zone.
    Index(Unit, u16),
    /// A part of a date.
    DatePart(Part),
    /// A count of units up to a date.
    DateIndex(Unit),
    /// Hash of a scalar's eight bytes.
    HashScalar(Function),
    /// Hash of a scalar's bytes with a seed on top of it.
    HashScalarSeeded(Function),
    /// Hash of a blob.
    HashBlob(Function),
    /// Hash of a blob with a seed.
    HashBlobSeeded(Function),
    /// A function of scalars only, of signed numbers if the flag says so.
    Scalars(Function, bool),
    /// A function that takes one blob and perhaps scalars and answers a scalar.
    BlobToScalar(Function),
    /// The length of a blob in bytes.
    BytesLength,
    /// Java's `Arrays.hashCode` of a blob.
    JavaBytes,
    /// A function that answers a blob; the flag says that it takes a signed scalar, or any for `to_bytes`.
    ToBlob(Function, bool),

    /// Pops a coordinate.
    Dimension(u8, bool),
    /// The slot is complete.
    Done,
    /// `else error`
    NoAlternative,
    /// `else all`
    Everywhere,
}

/// A dimension as the evaluator needs it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    pub(crate) first: i64,
    pub(crate) last: i64,
    pub(crate) stride: u32,
}

/// The lowered rule.
#[derive(Debug)]
pub(crate) struct Code {
    pub(crate) ops: Vec<Op>,
    pub(crate) blobs: Vec<Box<[u8]>>,
    pub(crate) lookups: Vec<Lookup>,
    pub(crate) zones: Vec<Zone>,
    pub(crate) axes: Vec<Axis>,
    /// What each field is when it is null, where the rule says so.
    pub(crate) nulls: Vec<Option<Literal>>,
    /// Lets among scalars.
    pub(crate) locals: usize,
    /// Lets among blobs.
    pub(crate) blob_locals: usize,
    /// Most scalars on the stack at once, lets included.
    pub(crate) scalars_max: usize,
    /// Most blobs at once, lets included.
    pub(crate) blobs_max: usize,
}

impl Code {
    /// No jumps, no blobs: every record runs through the same instructions, so that they can run column by column.
    pub(crate) fn is_straight(&self) -> bool {
        self.blobs_max == 0
            && self.ops.iter().all(|op| {
                !matches!(
                    op,
                    Op::Jump(_)
                        | Op::Unless(_)
                        | Op::And(_)
                        | Op::Or(_)
                        | Op::Everywhere
                        | Op::NoAlternative
                )
            })
    }
}

/// A slot built coordinate by coordinate.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Building(pub(crate) u32);

impl Building {
    pub(crate) fn slot(self) -> Slot {
        Slot(self.0)
    }
}
