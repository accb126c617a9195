//! Bounds on rules, which may come from strangers (INV-9, issue 6 section 7). Each is named with its reason; nothing is
//! allocated from a number that was read before it was held against one of these.

/// Longest rule text, bytes: a list of 100,000 sellers fits several times.
pub const TEXT_BYTES_MAX: usize = 4 << 20;
/// Longest bytecode, bytes. Bytecode is never longer than twice its text (a `u64` of ten digits takes five bytes).
pub const CODE_BYTES_MAX: usize = 8 << 20;
/// Deepest expression. Every walk over an expression is recursive, so this bounds the stack they need.
pub const DEPTH_MAX: usize = 200;
/// Most expression nodes of one rule: a point evaluation can never take longer than this many steps.
pub const NODES_MAX: usize = 65_536;
/// Most entries of all lists, tables and ranges of one rule together.
pub const ENTRIES_MAX: usize = 1 << 20;
/// Most slots of one rule (the product of its dimensions): the slot map holds four bytes for each.
pub const SLOTS_MAX: u64 = 1 << 20;
/// Most fields of a rule. A record's shape, not its content.
pub const FIELDS_MAX: usize = 64;
/// Most dimensions of a rule. TDDL had two; four leave room.
pub const DIMENSIONS_MAX: usize = 4;
/// Most `let`, list, table and ring definitions of a rule.
pub const DEFINITIONS_MAX: usize = 1_024;
/// Most `when` and `let` statements of a rule.
pub const STATEMENTS_MAX: usize = 8_192;
/// Most lines that place slots: one for each moved slot of a rule that was changed slot by slot for years.
pub const PLACES_MAX: usize = 65_536;
/// Longest name of a rule, field, dimension, list, cluster or table pattern, bytes.
pub const NAME_BYTES_MAX: usize = 256;
/// Longest string or byte string that a rule reads or holds, bytes: HBase's longest row key.
pub const STRING_BYTES_MAX: usize = 32_767;
/// Longest script, bytes.
pub const SCRIPT_BYTES_MAX: usize = 65_536;
/// Longest separator of a row key, bytes.
pub const SEPARATOR_BYTES_MAX: usize = 16;
/// Deepest evaluation stack: an operand is pushed for each open level of an expression, at most four by a call.
pub const STACK_MAX: usize = DEPTH_MAX * 4;
/// Earliest timestamp, microseconds: the first of January of the year 1. Before it calendars disagree.
pub const TIMESTAMP_MIN: i64 = -62_135_596_800_000_000;
/// Latest timestamp, microseconds: the end of the year 9999.
pub const TIMESTAMP_MAX: i64 = 253_402_300_799_999_999;
/// Earliest date, days since 1970: the first of January of the year 1.
pub const DATE_MIN: i32 = -719_162;
/// Latest date, days since 1970: the last of December 9999.
pub const DATE_MAX: i32 = 2_932_896;
