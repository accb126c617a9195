//! Whole numbers, checked: nothing wraps, `%` is never negative, division floors (rules-and-migration.md, B5.3).
//!
//! Must not know of rules; every function is total or says why it has no answer.

use super::{Fault, Runs};

/// `a + b`.
///
/// # Errors
/// [`Fault::Overflow`].
pub fn add(a: i64, b: i64) -> Result<i64, Fault> {
    a.checked_add(b).ok_or(Fault::Overflow)
}

/// `a - b`.
///
/// # Errors
/// [`Fault::Overflow`].
pub fn subtract(a: i64, b: i64) -> Result<i64, Fault> {
    a.checked_sub(b).ok_or(Fault::Overflow)
}

/// `a * b`.
///
/// # Errors
/// [`Fault::Overflow`].
pub fn multiply(a: i64, b: i64) -> Result<i64, Fault> {
    a.checked_mul(b).ok_or(Fault::Overflow)
}

/// The magnitude of `a`.
///
/// # Errors
/// [`Fault::Overflow`] for the least integer, whose magnitude Java's `abs` gives as a negative number (B1, defect 3).
pub fn absolute(a: i64) -> Result<i64, Fault> {
    a.checked_abs().ok_or(Fault::Overflow)
}

/// The greatest integer not above `a / b`.
///
/// # Errors
/// [`Fault::DivisionByZero`], [`Fault::Overflow`].
pub fn floor_divide(a: i64, b: i64) -> Result<i64, Fault> {
    if b == 0 {
        return Err(Fault::DivisionByZero);
    }
    let quotient = a.checked_div(b).ok_or(Fault::Overflow)?;
    // Rust truncates towards zero; one less where that went up. It cannot overflow: |b| is at least 2 here.
    Ok(if a % b != 0 && (a < 0) != (b < 0) {
        quotient - 1
    } else {
        quotient
    })
}

/// `a` modulo `modulus`, from 0 to `modulus - 1` for negative `a` also.
///
/// # Errors
/// [`Fault::DivisionByZero`] for a modulus of 0, [`Fault::OutOfRange`] for a negative one.
pub fn modulo(a: i64, modulus: i64) -> Result<i64, Fault> {
    match modulus {
        0 => Err(Fault::DivisionByZero),
        1.. => Ok(a.rem_euclid(modulus)),
        _ => Err(Fault::OutOfRange),
    }
}

/// `a` modulo `modulus` of unsigned numbers, which hashes are.
///
/// # Errors
/// [`Fault::DivisionByZero`].
pub fn modulo_unsigned(a: u64, modulus: u64) -> Result<u64, Fault> {
    a.checked_rem(modulus).ok_or(Fault::DivisionByZero)
}

/// `a` times two to the power of `bits`.
///
/// # Errors
/// [`Fault::OutOfRange`] if `bits` is not from 0 to 63, [`Fault::Overflow`] if bits were lost.
pub fn shift_left(a: i64, bits: i64) -> Result<i64, Fault> {
    let bits = shift(bits)?;
    let shifted = a << bits;
    if shifted >> bits == a {
        Ok(shifted)
    } else {
        Err(Fault::Overflow)
    }
}

/// `a` shifted right, the sign kept: division by a power of two that floors.
///
/// # Errors
/// [`Fault::OutOfRange`] if `bits` is not from 0 to 63.
pub fn shift_right(a: i64, bits: i64) -> Result<i64, Fault> {
    Ok(a >> shift(bits)?)
}

/// How far to shift. ShardingSphere #21475 is the tale of a language that takes this modulo 32.
fn shift(bits: i64) -> Result<u32, Fault> {
    u32::try_from(bits)
        .ok()
        .filter(|bits| *bits < i64::BITS)
        .ok_or(Fault::OutOfRange)
}

/// The exact image of `low..=high` under [`modulo`].
///
/// # Errors
/// As [`modulo`].
pub fn modulo_image(low: i64, high: i64, modulus: i64) -> Result<Runs, Fault> {
    let (first, last) = (modulo(low, modulus)?, modulo(high, modulus)?);
    let mut image = Runs::new();
    if low > high {
        return Ok(image);
    }
    if low.abs_diff(high) >= modulus.unsigned_abs() - 1 {
        image.add(0, modulus - 1);
    } else if first <= last {
        image.add(first, last);
    } else {
        image.add(first, modulus - 1);
        image.add(0, last);
    }
    Ok(image)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_hard_cases() {
        assert_eq!(modulo(-1, 4), Ok(3));
        assert_eq!(modulo(i64::MIN, 1024), Ok(0));
        assert_eq!(modulo(i64::MIN, i64::MAX), Ok(i64::MAX - 1));
        assert_eq!(modulo(5, 0), Err(Fault::DivisionByZero));
        assert_eq!(modulo(5, -3), Err(Fault::OutOfRange));
        assert_eq!(floor_divide(-7, 2), Ok(-4));
        assert_eq!(floor_divide(7, -2), Ok(-4));
        assert_eq!(floor_divide(-8, 2), Ok(-4));
        assert_eq!(floor_divide(i64::MIN, -1), Err(Fault::Overflow));
        assert_eq!(floor_divide(i64::MIN, 1), Ok(i64::MIN));
        assert_eq!(absolute(i64::MIN), Err(Fault::Overflow));
        assert_eq!(shift_left(1, 62), Ok(1 << 62));
        assert_eq!(shift_left(1, 63), Err(Fault::Overflow));
        assert_eq!(shift_left(-1, 63), Ok(i64::MIN));
        assert_eq!(shift_left(1, 64), Err(Fault::OutOfRange));
        assert_eq!(shift_right(-1, 63), Ok(-1));
        assert_eq!(shift_right(1, -1), Err(Fault::OutOfRange));
        assert_eq!(modulo_unsigned(u64::MAX, 10), Ok(5));
    }

    proptest! {
        #[test]
        fn nothing_panics(a: i64, b: i64) {
            let _ = (add(a, b), subtract(a, b), multiply(a, b), absolute(a), floor_divide(a, b), modulo(a, b));
            let _ = (shift_left(a, b), shift_right(a, b), shift_left(a, b & 63), shift_right(a, b & 63));
            let _ = (modulo_unsigned(a as u64, b as u64), modulo_image(a, b, b), modulo_image(a, b, a));
        }

        #[test]
        fn quotient_and_rest_agree(a: i64, b in 1_i64..) {
            let quotient = floor_divide(a, b).unwrap();
            prop_assert_eq!(i128::from(quotient) * i128::from(b) + i128::from(modulo(a, b).unwrap()), i128::from(a));
        }

        #[test]
        fn a_modulo_image_is_exact(low: i64, length in 0_i64..200, modulus in 1_i64..150) {
            let high = low.saturating_add(length);
            let mut brute = Runs::new();
            for value in low..=high {
                let rest = modulo(value, modulus).unwrap();
                brute.add(rest, rest);
            }
            prop_assert_eq!(modulo_image(low, high, modulus).unwrap(), brute);
        }
    }
}
