//! Rule files: text, or the bytes that are published.

use std::io::Read as _;
use std::path::Path;

use cadastre_sharding::Program;
use cadastre_sharding::{Slot, Value, limits, record, script};
use serde_json::{Value as Json, json};

use super::{Stop, second};

/// What published bytes begin with.
const BYTES_MAGIC: &[u8] = b"CDRULE";

/// Reads a file that is not larger than `bytes_max`; `-` is standard input.
pub(super) fn read(path: &Path, bytes_max: usize) -> Result<Vec<u8>, Stop> {
    let fault = |error: std::io::Error| Stop::usage(format!("{}: {error}", path.display()));
    let mut bytes = Vec::new();
    let limit = bytes_max as u64 + 1;
    if path == Path::new("-") {
        std::io::stdin()
            .take(limit)
            .read_to_end(&mut bytes)
            .map_err(fault)?;
    } else {
        let file = std::fs::File::open(path).map_err(fault)?;
        file.take(limit).read_to_end(&mut bytes).map_err(fault)?;
    }
    if bytes.len() > bytes_max {
        return Err(Stop::usage(format!(
            "{}: longer than {bytes_max} bytes",
            path.display()
        )));
    }
    Ok(bytes)
}

/// Reads and compiles a rule; a script that a second process answers otherwise is refused.
pub(in crate::commands) fn program(path: &Path) -> Result<Program, Stop> {
    let program = unrepeated(path)?;
    second::ensure(&program)?;
    Ok(program)
}

/// Reads and compiles a rule, and asks no second process: for who asks it more.
pub(super) fn unrepeated(path: &Path) -> Result<Program, Stop> {
    let bytes = read(path, limits::CODE_BYTES_MAX)?;
    let rule = if bytes.starts_with(BYTES_MAGIC) {
        cadastre_sharding::decode(&bytes)
    } else {
        cadastre_sharding::parse_bytes(&bytes)
    };
    rule.and_then(|rule| Program::compile_with(rule, &script::compile))
        .map_err(|fault| Stop::refused(format!("{}: {fault}", path.display())))
}

/// `orders version 3`
pub(super) fn title(program: &Program) -> String {
    let rule = program.rule();
    format!("{} version {}", rule.name, rule.version)
}

/// `cluster/table`, or the table alone.
pub(super) fn place_text(program: &Program, slot: Slot) -> String {
    program.map().place(slot).to_string()
}

/// `(7, 31)`
pub(super) fn slot_text(program: &Program, slot: Slot) -> String {
    let numbers: Vec<String> = program
        .shape()
        .coordinates(slot)
        .iter()
        .map(i64::to_string)
        .collect();
    format!("({})", numbers.join(", "))
}

/// A slot and its place.
pub(super) fn slot_json(program: &Program, slot: Slot) -> Json {
    let place = program.map().place(slot);
    json!({
        "slot": program.shape().coordinates(slot),
        "cluster": place.cluster,
        "table": place.table,
    })
}

/// A field's value for people and programs.
pub(super) fn value_text(value: &Value<'_>) -> String {
    match value.to_literal() {
        Some(literal) => record::text(&literal),
        None => "null".to_owned(),
    }
}
