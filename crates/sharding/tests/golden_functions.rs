//! R40, R47: the built-in functions give what other implementations give (golden/functions.tsv).
#![allow(clippy::unwrap_used, reason = "a test: a malformed line shall fail it")]

use cadastre_sharding::function::calendar::{self, Part};
use cadastre_sharding::function::{Zone, arithmetic, foreign, hash, nodes};

struct Line<'a> {
    function: &'a str,
    cells: Vec<&'a str>,
}

impl Line<'_> {
    fn bytes(&self, at: usize) -> Vec<u8> {
        let hex = &self.cells[at][2..];
        (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
            .collect()
    }

    fn text(&self, at: usize) -> String {
        String::from_utf8(self.bytes(at)).unwrap()
    }

    fn signed(&self, at: usize) -> i64 {
        self.cells[at].parse().unwrap()
    }

    fn unsigned(&self, at: usize) -> u64 {
        self.cells[at].parse().unwrap()
    }

    fn count(&self, at: usize) -> u32 {
        self.cells[at].parse().unwrap()
    }

    /// Our answer, and how many of the cells it is.
    fn answer(&self) -> Vec<String> {
        if self.function == "calendar" {
            return self.calendar();
        }
        let one: i128 = match self.function {
            "modulo" => arithmetic::modulo(self.signed(0), self.signed(1))
                .unwrap()
                .into(),
            "floor_divide" => arithmetic::floor_divide(self.signed(0), self.signed(1))
                .unwrap()
                .into(),
            "jump" => nodes::jump(self.unsigned(0), self.count(1)).into(),
            "vitess_hash" => foreign::vitess_hash(self.unsigned(0)).into(),
            "java_string" => foreign::java_string(&self.text(0)).into(),
            "java_long" => foreign::java_long(self.signed(0)).into(),
            "postgres_integer" => foreign::postgres_integer(self.signed(0)).into(),
            "postgres_integer_extended" => {
                foreign::postgres_integer_extended(self.signed(0), self.unsigned(1)).into()
            }
            "postgres_partition_integer" => {
                foreign::postgres_partition_integer(self.signed(0), self.count(1))
                    .unwrap()
                    .into()
            }
            _ => self.of_bytes(&self.bytes(0)),
        };
        vec![one.to_string()]
    }

    fn of_bytes(&self, bytes: &[u8]) -> i128 {
        match self.function {
            "java_bytes" => foreign::java_bytes(bytes).into(),
            "postgres_bytes" => foreign::postgres_bytes(bytes).into(),
            "postgres_bytes_extended" => {
                foreign::postgres_bytes_extended(bytes, self.unsigned(1)).into()
            }
            "postgres_partition_bytes" => foreign::postgres_partition_bytes(bytes, self.count(1))
                .unwrap()
                .into(),
            "redis_slot" => foreign::redis_slot(bytes).into(),
            "mysql_crc32" => foreign::mysql_crc32(bytes).into(),
            "vitess_xxhash" => foreign::vitess_xxhash(bytes).into(),
            "vitess_binary_md5" => foreign::vitess_binary_md5(bytes).into(),
            "kafka_partition" => foreign::kafka_partition(bytes, self.count(1))
                .unwrap()
                .into(),
            _ => self.hash(bytes, self.unsigned(1)).into(),
        }
    }

    fn hash(&self, bytes: &[u8], seed: u64) -> u64 {
        let hash = match self.function {
            "xxh3_64" => hash::xxh3_64,
            "xxh64" => hash::xxh64,
            "xxh32" => hash::xxh32,
            "murmur3_32" => hash::murmur3_32,
            "murmur3_128" => hash::murmur3_128,
            "siphash24" => hash::siphash24,
            "crc32" => hash::crc32,
            "fnv1a_64" => hash::fnv1a_64,
            "fnv1a_32" => hash::fnv1a_32,
            "md5_high" => hash::md5_high,
            "sha1_high" => hash::sha1_high,
            other => panic!("golden/functions.tsv names {other}"),
        };
        hash(bytes, seed)
    }

    fn calendar(&self) -> Vec<String> {
        let zone = Zone::load(&self.text(0)).unwrap();
        let parts = [
            Part::Year,
            Part::Quarter,
            Part::Month,
            Part::DayOfMonth,
            Part::DayOfWeek,
            Part::DayOfYear,
            Part::Week,
            Part::WeekYear,
            Part::Hour,
            Part::Minute,
            Part::Second,
        ];
        let micros = self.signed(1);
        parts
            .into_iter()
            .map(|part| calendar::part(part, micros, &zone).to_string())
            .collect()
    }
}

#[test]
fn r40_functions_give_what_others_give() {
    let file = include_str!("../golden/functions.tsv");
    let mut lines = 0;
    for text in file.lines() {
        let mut cells = text.split('\t');
        let line = Line {
            function: cells.next().unwrap(),
            cells: cells.collect(),
        };
        let answer = line.answer();
        let results = &line.cells[line.cells.len() - answer.len()..];
        assert_eq!(results, answer, "{text}");
        lines += 1;
    }
    assert_eq!(lines, 15_243);
}
