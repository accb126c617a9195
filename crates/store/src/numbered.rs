//! Names of objects that are numbers: of twenty digits, so that they list in their order.

/// Digits of the largest `u64`.
const DIGITS: usize = 20;

/// The name of a number.
pub(crate) fn name(number: u64) -> String {
    format!("{number:0DIGITS$}")
}

/// The number that a name is; `None` for any other name.
pub(crate) fn number(name: &str) -> Option<u64> {
    let is_ours = name.len() == DIGITS && name.bytes().all(|byte| byte.is_ascii_digit());
    is_ours.then(|| name.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_numbers_in_their_order() {
        assert_eq!(name(42), "00000000000000000042");
        for value in [0, 9, 10, u64::MAX] {
            assert_eq!(number(&name(value)), Some(value));
        }
        assert!(name(9) < name(10));
        for strange in ["", "42", "0000000000000000004x", "99999999999999999999"] {
            assert_eq!(number(strange), None, "{strange}");
        }
    }
}
