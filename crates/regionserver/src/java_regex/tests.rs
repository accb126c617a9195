//! What Java answers, as `Golden.java` wrote it down, and what is refused.

use std::collections::{BTreeMap, BTreeSet};

use cadastre_types::Code;

use super::*;

fn message(pattern: &str, flags: i32, charset: &str) -> pb::RegexStringComparator {
    pb::RegexStringComparator {
        pattern: pattern.to_owned(),
        pattern_flags: flags,
        charset: charset.to_owned(),
        engine: None,
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digit).collect()
}

/// Where the answers differ, as `docs/compatibility.md` says: pattern, flags, value.
const DIFFERENT: &[(&str, i32, &str)] = &[
    ("(?m)^b", 0, "a\\xc2\\x85b"),
    ("(?m)^b", 0, "a\\xe2\\x80\\xa8b"),
    ("[\\W&&\\S]", 66, "\\xe2\\x84\\xaa"),
    ("[\\p{Alpha}\\p{Digit}]", 66, "\\xe2\\x84\\xaa"),
    ("[^\\p{Alpha}]", 66, "\\xe2\\x84\\xaa"),
    ("[^\\w\\s]", 66, "\\xe2\\x84\\xaa"),
    ("\\B", 0, "\\xe2\\x80\\x8d"),
    ("\\B", 2, "\\xe2\\x80\\x8d"),
    ("\\B", 66, "\\xe2\\x80\\x8d"),
    ("^a$", 8, "a\\xc2\\x85b"),
    ("^a$", 8, "a\\xe2\\x80\\xa8b"),
    ("^b", 8, "a\\xc2\\x85b"),
    ("^b", 8, "a\\xe2\\x80\\xa8b"),
    ("^b$", 8, "a\\xc2\\x85b"),
    ("^b$", 8, "a\\xe2\\x80\\xa8b"),
    ("^b$", 8, "b\\xe2\\x80\\xa9"),
    ("a$", 8, "a\\xc2\\x85b"),
    ("a$", 8, "a\\xe2\\x80\\xa8b"),
];

#[test]
fn what_java_answers() {
    let mut values: BTreeMap<&str, Vec<Vec<u8>>> = BTreeMap::new();
    let mut different = BTreeSet::new();
    let mut compared = 0;
    for line in include_str!("golden.tsv").lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        if fields[0] == "value" {
            values.entry(fields[2]).or_default().push(bytes(fields[3]));
            continue;
        }
        let flags: i32 = fields[1].parse().unwrap();
        let pattern = String::from_utf8(bytes(fields[3])).unwrap();
        let regex = JavaRegex::new(&message(&pattern, flags, fields[2]))
            .unwrap_or_else(|error| panic!("{pattern} with {flags}: {error}"));
        let values = &values[fields[2]];
        assert_eq!(values.len(), fields[4].len());
        for (value, found) in values.iter().zip(fields[4].chars()) {
            compared += 1;
            if regex.is_found(value) != (found == '1') {
                let shown = format!("{}", value.escape_ascii());
                different.insert((pattern.clone(), flags, shown));
            }
        }
    }
    assert!(compared > 48_000, "{compared}");
    let known: BTreeSet<_> = DIFFERENT
        .iter()
        .map(|(pattern, flags, value)| ((*pattern).to_owned(), *flags, (*value).to_owned()))
        .collect();
    assert_eq!(different, known);
}

#[test]
fn what_is_refused() {
    for (flags, pattern, why) in [
        (0, "a(?=b)", "look-ahead"),
        (0, "a(?!b)", "look-ahead"),
        (0, "(?<=a)b", "look-behind"),
        (0, "(?<!a)b", "look-behind"),
        (0, r"(a)\1", "back references"),
        (0, r"(?<x>a)\k<x>", "back references"),
        (0, "a++", "possessive"),
        (0, "a{2}+", "possessive"),
        (0, "(?>a)b", "atomic"),
        (0, r"\X", "not supported"),
        (0, r"\b{g}", "not supported"),
        (0, r"\N{DIGIT ONE}", "not supported"),
        (0, r"\p{InGreek}", "not known"),
        (0, r"\p{blk=Greek}", "not known"),
        (0, r"\p{javaLowerCase}", "not known"),
        (0, r"\p{Greek}", "not known"),
        (0, r"\p{IsNothing}", "cannot be used"),
        (0, "(?c)a", "canonical"),
        (128, "a", "canonical"),
        // What Java itself refuses.
        (0, "*a", "repeated"),
        (0, "a**", "repeated"),
        (0, "(?*a)", "flags"),
        (0, "{", "repeats nothing"),
        (0, "a{,2}", "without a number"),
        (0, "a{2", "not closed"),
        (0, "(a", "not closed"),
        (0, "a)", "closes no group"),
        (0, "[a", "not closed"),
        (0, r"[b-\d]", "before it begins"),
        (0, "[b-a]", "before it begins"),
        (0, r"[\b]", "a place"),
        (0, r"\", "backslash"),
        (0, r"\0", "without digits"),
        (0, r"\08", "without digits"),
        (0, r"\E", "not supported"),
        (0, r"\xg", "hexadecimal"),
        (0, r"\x{110000}", "no character"),
        (0, r"\ud83d", "half a character"),
        (0, "(?i", "flags"),
        (0, "(?<1>a)", "name"),
        (0, r"\p{L", "not closed"),
        // What would cost too much.
        (0, "(a{1000}){1000}", "cannot be used"),
    ] {
        let error = JavaRegex::new(&message(pattern, flags, "UTF-8")).expect_err(pattern);
        assert_eq!(error.code(), Code::DoNotRetryIo, "{pattern}");
        assert!(error.message().contains(why), "{pattern}: {error}");
    }
    let nested = "(".repeat(100_000) + &")".repeat(100_000);
    for pattern in [
        &"a".repeat(PATTERN_BYTES_MAX + 1),
        &nested,
        &nested[..60_000],
        &"[".repeat(1000),
    ] {
        assert!(JavaRegex::new(&message(pattern, 0, "UTF-8")).is_err());
    }
    let error = JavaRegex::new(&message("a", 0, "windows-1252")).unwrap_err();
    assert!(error.message().contains("charset"), "{error}");
    // No name at all: HBase goes on with UTF-8.
    for charset in ["", "not a name", "-x"] {
        assert!(
            JavaRegex::new(&message("a", 0, charset))
                .unwrap()
                .is_found(b"a")
        );
    }
}
