//! Java's named classes of characters, as items of a bracketed class of the `regex` crate.

use super::Flags;

/// `\v`.
pub(super) const VERTICAL: &str = r"\x{a}-\x{d}\x{85}\x{2028}\x{2029}";
/// `\h`.
pub(super) const HORIZONTAL: &str =
    r"\x{9}\x{20}\x{a0}\x{1680}\x{180e}\x{2000}-\x{200a}\x{202f}\x{205f}\x{3000}";
/// White space of ASCII.
const SPACE: &str = r"\x{9}-\x{d}\x{20}";
/// Letters of a case; without case they are one class.
const CASED: &str = r"\p{Lu}\p{Ll}\p{Lt}";

/// The general categories of Unicode, and those that Java adds.
const CATEGORIES: &[&str] = &[
    "Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Me", "Mc", "Nd", "Nl", "No", "Zs", "Zl", "Zp", "Cc",
    "Cf", "Co", "Cs", "Pd", "Ps", "Pe", "Pc", "Po", "Sm", "Sc", "Sk", "So", "Pi", "Pf", "L", "M",
    "N", "Z", "C", "P", "S",
];

/// `\d`, `\s`, `\w`, `\h` and `\v`, by their letter in lower case: ASCII only, unless UNICODE_CHARACTER_CLASS is on.
pub(super) fn short(letter: char, flags: Flags) -> Option<&'static str> {
    let unicode = flags.has(Flags::UNICODE_CHARACTER_CLASS);
    Some(match letter {
        'd' if unicode => r"\d",
        'd' => "0-9",
        's' if unicode => r"\s",
        's' => SPACE,
        'w' if unicode => r"\w",
        'w' => "0-9A-Za-z_",
        'h' => HORIZONTAL,
        'v' => VERTICAL,
        _ => return None,
    })
}

/// What stands between the braces of `\p{…}`. With CASE_INSENSITIVE a class of letters of one case is that of all.
pub(super) fn property(name: &str, flags: Flags) -> Result<String, String> {
    let folds = flags.has(Flags::CASE_INSENSITIVE);
    let found = if let Some((key, value)) = name.split_once('=') {
        match key.to_ascii_lowercase().as_str() {
            "sc" | "script" => script(value),
            "gc" | "general_category" => category(value, folds),
            _ => None,
        }
    } else if let Some(name) = name.strip_prefix("Is") {
        binary(name, folds)
            .map(str::to_owned)
            .or_else(|| category(name, folds))
            .or_else(|| script(name))
    } else {
        let posix = match flags.has(Flags::UNICODE_CHARACTER_CLASS) {
            true => unicode_posix(name, folds).or_else(|| posix(name, folds)),
            false => posix(name, folds),
        };
        posix.map(str::to_owned).or_else(|| category(name, folds))
    };
    found.ok_or_else(|| format!("the character property {name} is not known here"))
}

fn posix(name: &str, folds: bool) -> Option<&'static str> {
    Some(match name {
        "Lower" | "Upper" if folds => "A-Za-z",
        "Lower" => "a-z",
        "Upper" => "A-Z",
        "ASCII" => r"\x{0}-\x{7f}",
        "Alpha" => "A-Za-z",
        "Digit" => "0-9",
        "Alnum" => "0-9A-Za-z",
        "Punct" => r"\x{21}-\x{2f}\x{3a}-\x{40}\x{5b}-\x{60}\x{7b}-\x{7e}",
        "Graph" => r"\x{21}-\x{7e}",
        "Print" => r"\x{20}-\x{7e}",
        "Blank" => r"\x{20}\x{9}",
        "Cntrl" => r"\x{0}-\x{1f}\x{7f}",
        "XDigit" => "0-9A-Fa-f",
        "Space" => SPACE,
        _ => return None,
    })
}

/// POSIX's names under UNICODE_CHARACTER_CLASS.
fn unicode_posix(name: &str, folds: bool) -> Option<&'static str> {
    let name = match name.to_ascii_lowercase().as_str() {
        "lower" => "lowercase",
        "upper" => "uppercase",
        "alpha" => "alphabetic",
        "punct" => "punctuation",
        "cntrl" => "control",
        "xdigit" => "hexdigit",
        "space" => "whitespace",
        "digit" => "digit",
        "alnum" => "alnum",
        "graph" => "graph",
        "print" => "print",
        "blank" => "blank",
        _ => return None,
    };
    binary(name, folds)
}

/// Java's binary properties, `\p{Is…}`.
fn binary(name: &str, folds: bool) -> Option<&'static str> {
    let name: String = name.chars().filter(|c| *c != '_').collect();
    Some(match name.to_ascii_lowercase().as_str() {
        "lowercase" | "uppercase" | "titlecase" if folds => r"\p{Lowercase}\p{Uppercase}\p{Lt}",
        "lowercase" => r"\p{Lowercase}",
        "uppercase" => r"\p{Uppercase}",
        "titlecase" => r"\p{Lt}",
        "alphabetic" => r"\p{Alphabetic}",
        "letter" => r"\p{L}",
        "ideographic" => r"\p{Ideographic}",
        "whitespace" => r"\p{White_Space}",
        "control" => r"\p{Cc}",
        "punctuation" => r"\p{P}",
        "hexdigit" => r"\p{Nd}\p{Hex_Digit}",
        "digit" => r"\p{Nd}",
        "alnum" => r"\p{Alphabetic}\p{Nd}",
        "blank" => r"\p{Zs}\x{9}",
        "graph" => r"[^\p{White_Space}\p{Cc}\p{Cn}]",
        "print" => r"[^\p{Zl}\p{Zp}\p{Cc}\p{Cn}]",
        "word" => r"\w",
        "assigned" => r"\P{Cn}",
        "joincontrol" => r"\p{Join_Control}",
        "noncharactercodepoint" => r"\p{Noncharacter_Code_Point}",
        _ => return None,
    })
}

fn category(name: &str, folds: bool) -> Option<String> {
    Some(match name {
        "Lu" | "Ll" | "Lt" if folds => CASED.to_owned(),
        "LC" => CASED.to_owned(),
        "LD" => r"\p{L}\p{Nd}".to_owned(),
        "L1" => r"\x{0}-\x{ff}".to_owned(),
        "all" => r"\x{0}-\x{10ffff}".to_owned(),
        // No text holds half a character.
        "Cs" => r"[a&&b]".to_owned(),
        name if CATEGORIES.contains(&name) => format!(r"\p{{{name}}}"),
        _ => return None,
    })
}

/// A script, by its name or its four letters; whether there is such a one the `regex` crate says.
fn script(name: &str) -> Option<String> {
    let is_name = |c: char| c.is_ascii_alphabetic() || c == '_';
    let named = !name.is_empty() && name.chars().all(is_name);
    named.then(|| format!(r"\p{{sc={name}}}"))
}
