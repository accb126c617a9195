//! Fuzzes the script tier: whatever a script says, it ends, within its memory, and does no harm.

#![no_main]

use cadastre_sharding::function::Zone;
use cadastre_sharding::script::Script;
use cadastre_sharding::{Type, Value};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let fields = [("id".to_owned(), Type::I64), ("name".to_owned(), Type::Str)];
    if let Ok(script) = Script::new(text, &fields, 1, &Zone::utc()) {
        let _ = script.evaluate(&[Value::I64(7), Value::Str("中😀")]);
    }
});
