//! Text: parts of it, and numbers in it.
//!
//! Positions count Unicode scalar values ("characters"), never bytes or UTF-16 units, so a cut never falls inside one.
//! Case is folded for ASCII only: Unicode's tables change with its versions, and a rule's answer may not (R40).
//! Must not know of rules.

use super::Fault;

/// The first `count` characters; all of a shorter text.
///
/// Never decreasing in byte order: what begins a text orders it.
#[must_use]
pub fn left(text: &str, count: u64) -> &str {
    &text[..byte_of(text, count)]
}

/// The last `count` characters; all of a shorter text.
#[must_use]
pub fn right(text: &str, count: u64) -> &str {
    let length = length(text);
    &text[byte_of(text, length.saturating_sub(count))..]
}

/// `count` characters from `start` (the first is 0); fewer where the text ends.
#[must_use]
pub fn substring(text: &str, start: u64, count: u64) -> &str {
    left(&text[byte_of(text, start)..], count)
}

/// The number of characters.
#[must_use]
pub fn length(text: &str) -> u64 {
    text.chars().count() as u64
}

/// The part number `index` (the first is 0) of a text split at every `separator`; empty if there are not so many, or if
/// the separator is empty.
#[must_use]
pub fn split_part<'a>(text: &'a str, separator: &str, index: u64) -> &'a str {
    if separator.is_empty() {
        return "";
    }
    usize::try_from(index)
        .ok()
        .and_then(|index| text.split(separator).nth(index))
        .unwrap_or("")
}

/// ASCII letters in lower case, all else as it is.
#[must_use]
pub fn lower(text: &str) -> String {
    text.to_ascii_lowercase()
}

/// ASCII letters in upper case, all else as it is.
#[must_use]
pub fn upper(text: &str) -> String {
    text.to_ascii_uppercase()
}

/// A whole number in decimal digits with or without a sign: no blanks, no other digits than ASCII's.
///
/// # Errors
/// [`Fault::NotANumber`], [`Fault::Overflow`].
pub fn parse_integer(text: &str) -> Result<i64, Fault> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Fault::NotANumber);
    }
    text.parse().map_err(|_| Fault::Overflow)
}

/// The number in decimal, with zeroes in front up to `width` digits; a sign comes before them and does not count.
///
/// # Errors
/// [`Fault::OutOfRange`] for a width above [`WIDTH_MAX`].
pub fn pad(number: i64, width: u32) -> Result<String, Fault> {
    if width > WIDTH_MAX {
        return Err(Fault::OutOfRange);
    }
    let sign = if number < 0 { "-" } else { "" };
    let width = width as usize;
    Ok(format!("{sign}{:0width$}", number.unsigned_abs()))
}

/// Most digits that [`pad`] fills up to; a 64-bit number has at most 20.
pub const WIDTH_MAX: u32 = 20;

/// The byte at which character number `count` begins, or the end.
fn byte_of(text: &str, count: u64) -> usize {
    // A text has at most as many characters as bytes, which spares the walk for large counts.
    let Some(count) = usize::try_from(count).ok().filter(|it| *it < text.len()) else {
        return text.len();
    };
    text.char_indices()
        .nth(count)
        .map_or(text.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_beyond_the_basic_plane_is_cut_between_characters() {
        let text = "a\u{1F600}\u{20BB7}é";
        assert_eq!(left(text, 2), "a\u{1F600}");
        assert_eq!(right(text, 2), "\u{20BB7}é");
        assert_eq!(substring(text, 1, 2), "\u{1F600}\u{20BB7}");
        assert_eq!(length(text), 4);
        assert_eq!(
            (left("", 3), right("", 3), substring("", 0, 1)),
            ("", "", "")
        );
        assert_eq!(substring(text, u64::MAX, u64::MAX), "");
        assert_eq!(right(text, u64::MAX), text);
    }

    #[test]
    fn parts() {
        assert_eq!(split_part("2000|7|x", "|", 1), "7");
        assert_eq!(split_part("2000|7|x", "|", 3), "");
        assert_eq!(split_part("2000", "", 0), "");
        assert_eq!(split_part("a--b", "--", 1), "b");
        assert_eq!(split_part("a", "|", u64::MAX), "");
    }

    #[test]
    fn numbers() {
        assert_eq!(parse_integer("-0012"), Ok(-12));
        assert_eq!(parse_integer("+7"), Ok(7));
        assert_eq!(parse_integer("-9223372036854775808"), Ok(i64::MIN));
        assert_eq!(parse_integer("9223372036854775808"), Err(Fault::Overflow));
        for text in ["", "-", "+", " 1", "1 ", "1.0", "١", "0x1", "--1", "1_000"] {
            assert_eq!(parse_integer(text), Err(Fault::NotANumber), "{text}");
        }
        assert_eq!(pad(7, 4).as_deref(), Ok("0007"));
        assert_eq!(pad(12345, 4).as_deref(), Ok("12345"));
        assert_eq!(pad(-7, 4).as_deref(), Ok("-0007"));
        assert_eq!(pad(i64::MIN, 20).as_deref(), Ok("-09223372036854775808"));
        assert_eq!(pad(1, 21), Err(Fault::OutOfRange));
    }

    #[test]
    fn case_is_ascii() {
        assert_eq!(lower("ÄBC\u{130}K\u{212A}"), "Äbc\u{130}k\u{212A}");
        assert_eq!(upper("äbcß"), "äBCß");
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "\\PC{0,12}", separator in "\\PC{0,2}", a: u64, b in 0_u64..15, c in 0_u64..15) {
            for (start, count) in [(a, b), (b, a), (b, c)] {
                let _ = (left(&text, start), right(&text, start), split_part(&text, &separator, start));
                let cut: String = text.chars().skip(start.min(99) as usize).take(count.min(99) as usize).collect();
                prop_assert_eq!(substring(&text, start, count), cut);
            }
            let _ = (lower(&text), upper(&text), parse_integer(&text));
        }

        #[test]
        fn left_keeps_order(a in "\\PC{0,6}", b in "\\PC{0,6}", count in 0_u64..7) {
            if a <= b {
                prop_assert!(left(&a, count) <= left(&b, count));
            }
        }

        #[test]
        fn numbers_go_through_text(number: i64, width in 0_u32..=20) {
            prop_assert_eq!(parse_integer(&pad(number, width).unwrap()), Ok(number));
        }
    }
}
