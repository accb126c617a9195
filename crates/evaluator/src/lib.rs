//! One rule, several languages (R47): the evaluator behind a C ABI, as a WebAssembly module or a shared library.
//!
//! Whoever calls asks for room ([`cadastre_input`]), writes bytes into it, calls a function, and reads the answer
//! ([`cadastre_output`], [`cadastre_output_length`]). A record is one line of text, its fields separated by tabs as in
//! `golden/rules.tsv`: `-` is null, text is `s:` and bytes are `b:` in hexadecimal, all else as docs/rules.md writes it.
//! All state belongs to one thread. Must not know of anything but rules and records.
//!
//! `unsafe_code` is allowed for the attribute `no_mangle` alone, which only promises that no other symbol of the name
//! exists: all begin with `cadastre_`, and a test lists them. No pointer is ever read through here: the two that are given
//! away point into buffers that this thread owns, and are valid until its next call.
#![allow(unsafe_code, reason = "exported names; see above")]

use std::cell::RefCell;

use cadastre_sharding::record::{Reading, TimeUnit};
use cadastre_sharding::{Literal, Program, Slot, Type, Value, decode, limits, parse_bytes, script};

/// Most rules open at a time in one thread.
const RULES_MAX: usize = 1_024;

/// What published bytes begin with.
const BYTES_MAGIC: &[u8] = b"CDRULE";

/// A rule and how its records are read.
struct Open {
    program: Program,
    reading: Reading,
}

#[derive(Default)]
struct State {
    input: Vec<u8>,
    output: Vec<u8>,
    /// Closed ones leave a hole, so that handles stay what they were.
    rules: Vec<Option<Open>>,
}

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

/// Room for `length` bytes of input, to be written before the next call. A length above what any rule may have gets no
/// room: null.
#[unsafe(no_mangle)]
pub extern "C" fn cadastre_input(length: u32) -> *mut u8 {
    let length = length as usize;
    if length > limits::CODE_BYTES_MAX {
        return std::ptr::null_mut();
    }
    STATE.with_borrow_mut(|state| {
        state.input.clear();
        state.input.resize(length, 0);
        state.input.as_mut_ptr()
    })
}

/// Where the last answer is.
#[unsafe(no_mangle)]
pub extern "C" fn cadastre_output() -> *const u8 {
    STATE.with_borrow(|state| state.output.as_ptr())
}

/// How many bytes the last answer has.
#[unsafe(no_mangle)]
pub extern "C" fn cadastre_output_length() -> u32 {
    // Answers are names and messages, far below 4 GiB.
    STATE.with_borrow(|state| state.output.len() as u32)
}

/// Opens the rule in the input, text or published bytes. Gives its handle; or -1, and the answer says why.
#[unsafe(no_mangle)]
pub extern "C" fn cadastre_open() -> i32 {
    STATE.with_borrow_mut(|state| match open(&state.input) {
        Ok(rule) => {
            let hole = state.rules.iter().position(Option::is_none);
            let at = hole.unwrap_or(state.rules.len());
            if at >= RULES_MAX {
                state.output = format!("more than {RULES_MAX} rules are open").into_bytes();
                return -1;
            }
            state.output = rule.program.hash().to_string().into_bytes();
            if at == state.rules.len() {
                state.rules.push(None);
            }
            state.rules[at] = Some(rule);
            // Below RULES_MAX.
            at as i32
        }
        Err(message) => {
            state.output = message.into_bytes();
            -1
        }
    })
}

/// Closes a rule; nothing happens if there is none of that handle.
#[unsafe(no_mangle)]
pub extern "C" fn cadastre_close(handle: i32) {
    STATE.with_borrow_mut(|state| {
        if let Some(rule) = usize::try_from(handle)
            .ok()
            .and_then(|at| state.rules.get_mut(at))
        {
            *rule = None;
        }
    });
}

/// The slot of the record in the input, as one number; -1 if it has none. The answer is the slot's coordinates with commas
/// between them, or `!` and what is wrong.
#[unsafe(no_mangle)]
pub extern "C" fn cadastre_evaluate(handle: i32) -> i64 {
    STATE.with_borrow_mut(|state| {
        let rule = usize::try_from(handle)
            .ok()
            .and_then(|at| state.rules.get(at))
            .and_then(Option::as_ref);
        let outcome = match rule {
            Some(rule) => rule.evaluate(&state.input),
            None => Err("there is no rule of that handle".to_owned()),
        };
        match outcome {
            Ok((slot, coordinates)) => {
                state.output = coordinates.into_bytes();
                slot.0.into()
            }
            Err(message) => {
                state.output = format!("!{message}").into_bytes();
                -1
            }
        }
    })
}

/// The place of a slot: the answer is the cluster, a tab, and the table. Gives 0; -1 if there is no such rule or slot.
#[unsafe(no_mangle)]
pub extern "C" fn cadastre_place(handle: i32, slot: u32) -> i32 {
    STATE.with_borrow_mut(|state| {
        let rule = usize::try_from(handle)
            .ok()
            .and_then(|at| state.rules.get(at))
            .and_then(Option::as_ref);
        let Some(rule) = rule.filter(|rule| slot < rule.program.shape().slots()) else {
            state.output.clear();
            return -1;
        };
        let place = rule.program.map().place(Slot(slot));
        state.output = format!("{}\t{}", place.cluster, place.table).into_bytes();
        0
    })
}

fn open(bytes: &[u8]) -> Result<Open, String> {
    let rule = if bytes.starts_with(BYTES_MAGIC) {
        decode(bytes)
    } else {
        parse_bytes(bytes)
    };
    let program = rule
        .and_then(|rule| Program::compile_with(rule, &script::compile))
        .map_err(|error| error.to_string())?;
    let zone = program.rule().load_zone();
    let zone = zone.map_err(|error| error.to_string())?;
    Ok(Open {
        program,
        reading: Reading {
            zone,
            time_unit: TimeUnit::Refused,
        },
    })
}

impl Open {
    fn evaluate(&self, line: &[u8]) -> Result<(Slot, String), String> {
        let line = std::str::from_utf8(line).map_err(|error| error.to_string())?;
        let types = self.program.types();
        let cells: Vec<&str> = line.splitn(types.len() + 1, '\t').collect();
        if cells.len() != types.len() {
            return Err(format!(
                "{} fields given, the rule declares {}",
                cells.len(),
                types.len()
            ));
        }
        let values = cells
            .iter()
            .zip(types)
            .map(|(cell, ty)| self.value(*ty, cell))
            .collect::<Result<Vec<Option<Literal>>, String>>()?;
        let fields: Vec<Value<'_>> = values
            .iter()
            .map(|value| value.as_ref().map_or(Value::Null, Literal::value))
            .collect();
        let slot = self
            .program
            .evaluate(&fields)
            .map_err(|error| error.to_string())?;
        let coordinates = self.program.shape().coordinates(slot);
        let coordinates: Vec<String> = coordinates.iter().map(i64::to_string).collect();
        Ok((slot, coordinates.join(",")))
    }

    fn value(&self, ty: Type, cell: &str) -> Result<Option<Literal>, String> {
        if cell == "-" {
            return Ok(None);
        }
        let text = match (ty, cell.strip_prefix("s:"), cell.strip_prefix("b:")) {
            (Type::Bytes, _, Some(hex)) => return self.reading.value(ty, hex).map(Some),
            (Type::Str, Some(hex), _) => match self.reading.value(Type::Bytes, hex)? {
                Literal::Bytes(bytes) => {
                    String::from_utf8(bytes).map_err(|error| error.to_string())?
                }
                _ => return Err("no text".to_owned()),
            },
            (Type::Str | Type::Bytes, _, _) => {
                return Err(format!("'{cell}' does not begin with s: or b:"));
            }
            _ => cell.to_owned(),
        };
        self.reading.value(ty, &text).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a caller in another language does.
    fn call(input: &[u8], function: impl FnOnce() -> i64) -> (i64, String) {
        assert!(!cadastre_input(input.len() as u32).is_null());
        // A caller writes through the pointer; here the buffer is reached by its name instead.
        STATE.with_borrow_mut(|state| state.input.copy_from_slice(input));
        let number = function();
        let text = STATE.with_borrow(|state| state.output.clone());
        assert_eq!(text.len(), cadastre_output_length() as usize);
        (number, String::from_utf8(text).unwrap())
    }

    #[test]
    fn a_rule_is_opened_asked_and_closed() {
        let rule =
            b"rule t version 1; field id: i64; field s: string null slot (0); dimension n 0 to 7; \
                     else ((id + length(s)) % 8); place cluster \"c\" table \"t_{n}\";";
        let (handle, _) = call(rule, || cadastre_open().into());
        assert_eq!(handle, 0);
        assert_eq!(
            call(b"5\ts:6162", || cadastre_evaluate(0)),
            (7, "7".to_owned())
        );
        assert_eq!(call(b"5\t-", || cadastre_evaluate(0)), (0, "0".to_owned()));
        assert_eq!(
            call(b"", || cadastre_place(0, 7).into()),
            (0, "c\tt_7".to_owned())
        );
        assert_eq!(cadastre_place(0, 8), -1);
        for (line, message) in [
            (b"-\ts:".as_slice(), "!field 0 is null"),
            (b"5", "!1 fields given, the rule declares 2"),
            (b"x\ts:", "!'x' is no i64: a whole number of 64 bits"),
            (b"5\tab", "!'ab' does not begin with s: or b:"),
            (b"5\ts:ff", "!invalid utf-8"),
        ] {
            let (slot, text) = call(line, || cadastre_evaluate(0));
            assert!(slot == -1 && text.starts_with(message), "{text}");
        }
        assert_eq!(call(b"5\ts:", || cadastre_evaluate(1)).0, -1);
        cadastre_close(0);
        cadastre_close(7);
        assert_eq!(call(b"5\ts:", || cadastre_evaluate(0)).0, -1);
        let (code, message) = call(b"rule t", || cadastre_open().into());
        assert!(code == -1 && message.starts_with("line 1"), "{message}");
        assert!(cadastre_input(u32::MAX).is_null());
    }
}
