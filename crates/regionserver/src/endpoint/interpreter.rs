//! The column interpreters of HBase's client: how the bytes of a cell become a number, and how numbers are added, compared and
//! sent. Pure.

use std::cmp::Ordering;

use bigdecimal::num_bigint::BigInt;
use bigdecimal::{BigDecimal, RoundingMode};
use bytes::Bytes;
use cadastre_types::{Cell, Error, Result};
use cadastre_wire::pb;

/// Package of the interpreters that ship with HBase's client.
const PACKAGE: &str = "org.apache.hadoop.hbase.client.coprocessor.";

/// Digits behind the point that HBase's interpreter rounds every decimal to, half to even.
const DECIMAL_SCALE: i64 = 2;

/// Largest scale of a stored decimal, either way, and longest value in bytes: rounding to [`DECIMAL_SCALE`] makes the number as
/// long as its scale says (INV-9).
const DECIMAL_SCALE_MAX: i32 = 10_000;
const DECIMAL_BYTES_MAX: usize = 4_096;

/// Java's `Double.MIN_VALUE`, which HBase takes for the least number of both interpreters with fractions: the smallest above 0.
const DOUBLE_MIN: f64 = f64::from_bits(1);

/// What it is as a Java `BigDecimal`: 49 with 325 digits behind the point.
const DECIMAL_MIN: (i64, i64) = (49, 325);

/// Which numbers a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interpreter {
    /// 8 bytes, big endian.
    Long,
    /// 8 bytes, IEEE 754, big endian.
    Double,
    /// Java's `BigDecimal` as HBase's `Bytes` writes it: scale, 4 bytes, and the unscaled number, two's complement.
    Decimal,
}

/// A number of an interpreter.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Number {
    /// Of [`Interpreter::Long`].
    Long(i64),
    /// Of [`Interpreter::Double`].
    Double(f64),
    /// Of [`Interpreter::Decimal`].
    Decimal(BigDecimal),
}

impl Interpreter {
    /// The interpreter of this Java class.
    ///
    /// # Errors
    /// `DoNotRetryIo` for a class that does not ship with HBase.
    pub(super) fn of(class: &str) -> Result<Self> {
        match class.strip_prefix(PACKAGE) {
            Some("LongColumnInterpreter") => Ok(Self::Long),
            Some("DoubleColumnInterpreter") => Ok(Self::Double),
            Some("BigDecimalColumnInterpreter") => Ok(Self::Decimal),
            _ => Err(Error::invalid(format!(
                "java.lang.ClassNotFoundException: {class} (only the column interpreters of HBase's own client exist)"
            ))),
        }
    }

    /// The number that a cell holds; `None` if HBase passes over it.
    ///
    /// # Errors
    /// `DoNotRetryIo` for what is no decimal.
    pub(super) fn value(self, cell: &Cell) -> Result<Option<Number>> {
        let eight = || <[u8; 8]>::try_from(&cell.value[..]).ok();
        Ok(match self {
            Self::Long => eight().map(|bytes| Number::Long(i64::from_be_bytes(bytes))),
            Self::Double => eight().map(|bytes| Number::Double(f64::from_be_bytes(bytes))),
            Self::Decimal => Some(Number::Decimal(decimal(&cell.value)?)),
        })
    }

    /// Nothing summed up.
    pub(super) fn zero(self) -> Number {
        match self {
            Self::Long => Number::Long(0),
            Self::Double => Number::Double(0.0),
            Self::Decimal => Number::Decimal(BigDecimal::from(0)),
        }
    }

    /// What HBase calls the least number.
    pub(super) fn least(self) -> Number {
        match self {
            Self::Long => Number::Long(i64::MIN),
            Self::Double => Number::Double(DOUBLE_MIN),
            Self::Decimal => {
                let (unscaled, scale) = DECIMAL_MIN;
                Number::Decimal(BigDecimal::new(BigInt::from(unscaled), scale))
            }
        }
    }
}

fn decimal(value: &[u8]) -> Result<BigDecimal> {
    let bad = |why: &str| Error::invalid(format!("a cell is no BigDecimal: {why}"));
    let (scale, unscaled) = value
        .split_first_chunk::<4>()
        .filter(|(_, unscaled)| !unscaled.is_empty())
        .ok_or_else(|| bad("it has less than 5 bytes"))?;
    let scale = i32::from_be_bytes(*scale);
    if scale
        .checked_abs()
        .is_none_or(|abs| abs > DECIMAL_SCALE_MAX)
        || unscaled.len() > DECIMAL_BYTES_MAX
    {
        return Err(bad("it is too long to be computed with"));
    }
    let unscaled = BigInt::from_signed_bytes_be(unscaled);
    Ok(rounded(&BigDecimal::new(unscaled, i64::from(scale))))
}

fn rounded(number: &BigDecimal) -> BigDecimal {
    number.with_scale_round(DECIMAL_SCALE, RoundingMode::HalfEven)
}

impl Number {
    /// Java's `compareTo`: for doubles NaN is the greatest and -0 is less than 0.
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Long(a), Self::Long(b)) => a.cmp(b),
            (Self::Double(a), Self::Double(b)) => match (a.is_nan(), b.is_nan()) {
                (false, false) => a.total_cmp(b),
                (a, b) => a.cmp(&b),
            },
            (Self::Decimal(a), Self::Decimal(b)) => a.cmp(b),
            _ => unreachable!("one interpreter makes numbers of one kind"),
        }
    }

    fn plus(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Long(a), Self::Long(b)) => Self::Long(a.wrapping_add(*b)),
            (Self::Double(a), Self::Double(b)) => Self::Double(a + b),
            (Self::Decimal(a), Self::Decimal(b)) => Self::Decimal(a + b),
            _ => unreachable!("one interpreter makes numbers of one kind"),
        }
    }

    /// The square, as HBase multiplies: longs wrap, decimals are rounded.
    pub(super) fn square(&self) -> Self {
        match self {
            Self::Long(a) => Self::Long(a.wrapping_mul(*a)),
            Self::Double(a) => Self::Double(a * a),
            Self::Decimal(a) => Self::Decimal(rounded(&a.square())),
        }
    }

    /// The interpreter's message for it.
    pub(super) fn encode(&self) -> Bytes {
        match self {
            Self::Long(number) => cadastre_wire::encode(&pb::LongMsg { long_msg: *number }),
            Self::Double(number) => cadastre_wire::encode(&pb::DoubleMsg {
                double_msg: *number,
            }),
            Self::Decimal(number) => {
                let (unscaled, scale) = number.as_bigint_and_exponent();
                let scale = i32::try_from(scale).expect("rounded, or the least number");
                let mut bytes = scale.to_be_bytes().to_vec();
                bytes.extend(unscaled.to_signed_bytes_be());
                cadastre_wire::encode(&pb::BigDecimalMsg {
                    bigdecimal_msg: bytes.into(),
                })
            }
        }
    }
}

/// The sum, where nothing and a number is the number.
pub(super) fn add(a: Option<Number>, b: Option<Number>) -> Option<Number> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.plus(&b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(value: &[u8]) -> Cell {
        let text = Bytes::from_static;
        Cell::put(
            text(b"r"),
            text(b"f"),
            text(b"q"),
            1,
            Bytes::copy_from_slice(value),
        )
    }

    fn stored(unscaled: i64, scale: i32) -> Vec<u8> {
        let unscaled = BigInt::from(unscaled).to_signed_bytes_be();
        [&scale.to_be_bytes()[..], &unscaled].concat()
    }

    #[test]
    fn classes() {
        let of = |class: &str| Interpreter::of(&format!("{PACKAGE}{class}"));
        assert_eq!(of("LongColumnInterpreter").unwrap(), Interpreter::Long);
        assert_eq!(of("DoubleColumnInterpreter").unwrap(), Interpreter::Double);
        assert_eq!(
            of("BigDecimalColumnInterpreter").unwrap(),
            Interpreter::Decimal
        );
        assert!(
            of("MyInterpreter")
                .unwrap_err()
                .message()
                .contains("MyInterpreter")
        );
    }

    #[test]
    fn longs_and_doubles_pass_over_values_of_other_lengths() {
        for interpreter in [Interpreter::Long, Interpreter::Double] {
            assert_eq!(interpreter.value(&cell(b"1234567")).unwrap(), None);
            assert_eq!(interpreter.value(&cell(b"")).unwrap(), None);
        }
        let long = Interpreter::Long.value(&cell(&(-3_i64).to_be_bytes()));
        assert_eq!(long.unwrap(), Some(Number::Long(-3)));
    }

    /// Golden: what Java's interpreters write for these numbers.
    #[test]
    fn messages() {
        assert_eq!(&Number::Long(5).encode()[..], [8, 5]);
        assert_eq!(
            &Number::Double(1.5).encode()[..],
            [9, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f]
        );
        let read = Interpreter::Decimal
            .value(&cell(&stored(12_345, 3)))
            .unwrap();
        assert_eq!(
            &read.unwrap().encode()[..],
            [10, 6, 0, 0, 0, 2, 0x04, 0xd2],
            "12.345 is 12.34: half to even"
        );
        assert_eq!(
            &Interpreter::Decimal.least().encode()[..],
            [10, 5, 0, 0, 1, 0x45, 49]
        );
    }

    #[test]
    fn decimals_are_bounded() {
        let read = |value: &[u8]| Interpreter::Decimal.value(&cell(value));
        for bad in [
            stored(1, i32::MIN),
            stored(1, i32::MAX),
            stored(1, DECIMAL_SCALE_MAX + 1),
            vec![0; 4],
            vec![1; DECIMAL_BYTES_MAX + 5],
        ] {
            assert!(read(&bad).is_err());
        }
        let big = read(&stored(7, -DECIMAL_SCALE_MAX)).unwrap().unwrap();
        assert_eq!(big.compare(&Interpreter::Decimal.zero()), Ordering::Greater);
        let square = big.square();
        assert_eq!(square.compare(&big), Ordering::Greater);
    }

    #[test]
    fn sums_and_squares() {
        let long = |n| Some(Number::Long(n));
        assert_eq!(add(None, None), None);
        assert_eq!(add(None, long(1)), long(1));
        assert_eq!(add(long(i64::MAX), long(1)), long(i64::MIN));
        assert_eq!(Number::Long(-4).square(), Number::Long(16));
        let nan = Number::Double(f64::NAN);
        assert_eq!(
            nan.compare(&Number::Double(f64::INFINITY)),
            Ordering::Greater
        );
        assert_eq!(nan.compare(&nan), Ordering::Equal);
        assert_eq!(
            Number::Double(-0.0).compare(&Number::Double(0.0)),
            Ordering::Less
        );
    }
}
