//! Comparators of conditions and filters (hbase-protocol.md 5.3). Pure.

use std::cmp::Ordering;

use bytes::Bytes;
use cadastre_types::{CompareOp, EncodedFilter, Error, Result};
use cadastre_wire::pb;

use crate::java_regex::JavaRegex;

/// Package of HBase's filters and comparators.
const PACKAGE: &str = "org.apache.hadoop.hbase.filter.";

/// How a value is compared with an expected one.
#[derive(Debug, Clone)]
pub(crate) enum Comparator {
    /// Unsigned bytes.
    Binary(Bytes),
    /// Unsigned bytes, only the first as many as expected.
    BinaryPrefix(Bytes),
    /// Unsigned bytes from an offset, as many as expected.
    BinaryComponent { value: Bytes, offset: usize },
    /// Java's BigDecimal: 4-byte scale, two's complement unscaled value.
    BigDecimal(Bytes),
    /// 0 if any byte of (expected OP actual) is not zero.
    Bit {
        value: Bytes,
        op: pb::bit_comparator::BitwiseOp,
    },
    /// Signed 64-bit numbers.
    Long(i64),
    /// 0 only for an absent value.
    Null,
    /// 0 if the expression is found.
    Regex(Box<JavaRegex>),
    /// 0 if the lower-cased text contains this.
    Substring(String),
}

impl Comparator {
    /// Decodes what came over the wire.
    ///
    /// # Errors
    /// `DoNotRetryIo` for classes that are not HBase's own and for damaged messages.
    pub(crate) fn decode(encoded: &EncodedFilter) -> Result<Self> {
        let body = encoded.body.clone();
        let bytes = |comparable: Option<Bytes>| comparable.unwrap_or_default();
        Ok(match encoded.class.strip_prefix(PACKAGE) {
            Some("BinaryComparator") => {
                let m: pb::BinaryComparator = cadastre_wire::decode(body)?;
                Self::Binary(bytes(m.comparable.value))
            }
            Some("BinaryPrefixComparator") => {
                let m: pb::BinaryPrefixComparator = cadastre_wire::decode(body)?;
                Self::BinaryPrefix(bytes(m.comparable.value))
            }
            Some("BinaryComponentComparator") => {
                let m: pb::BinaryComponentComparator = cadastre_wire::decode(body)?;
                Self::BinaryComponent {
                    value: m.value,
                    offset: m.offset as usize,
                }
            }
            Some("BigDecimalComparator") => {
                let m: pb::BigDecimalComparator = cadastre_wire::decode(body)?;
                Self::BigDecimal(bytes(m.comparable.value))
            }
            Some("BitComparator") => {
                let m: pb::BitComparator = cadastre_wire::decode(body)?;
                Self::Bit {
                    op: m.bitwise_op(),
                    value: bytes(m.comparable.value),
                }
            }
            Some("LongComparator") => {
                let m: pb::LongComparator = cadastre_wire::decode(body)?;
                Self::Long(
                    long(&bytes(m.comparable.value)).ok_or_else(|| {
                        Error::invalid("a LongComparator takes a value of 8 bytes")
                    })?,
                )
            }
            Some("NullComparator") => Self::Null,
            Some("RegexStringComparator") => {
                Self::Regex(Box::new(JavaRegex::new(&cadastre_wire::decode(body)?)?))
            }
            Some("SubstringComparator") => {
                let m: pb::SubstringComparator = cadastre_wire::decode(body)?;
                Self::Substring(m.substr.to_lowercase())
            }
            _ => {
                return Err(Error::invalid(format!(
                    "{} cannot be loaded: only HBase's own comparators can be evaluated outside a JVM",
                    encoded.class
                )));
            }
        })
    }

    /// The bytes the client expects, as a condition looks at them.
    pub(crate) fn expected_is_empty(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Binary(value)
            | Self::BinaryPrefix(value)
            | Self::BigDecimal(value)
            | Self::BinaryComponent { value, .. }
            | Self::Bit { value, .. } => value.is_empty(),
            Self::Long(_) | Self::Regex(_) => false,
            Self::Substring(text) => text.is_empty(),
        }
    }

    /// Expected against actual, as HBase's `compareTo` gives it.
    pub(crate) fn compare(&self, actual: &[u8]) -> Ordering {
        let found = |found: bool| {
            if found {
                Ordering::Equal
            } else {
                Ordering::Greater
            }
        };
        match self {
            Self::Binary(expected) => expected[..].cmp(actual),
            Self::BinaryPrefix(expected) => {
                expected[..].cmp(&actual[..expected.len().min(actual.len())])
            }
            Self::BinaryComponent { value, offset } => {
                let from = (*offset).min(actual.len());
                let to = from.saturating_add(value.len()).min(actual.len());
                value[..].cmp(&actual[from..to])
            }
            Self::BigDecimal(expected) => compare_decimals(expected, actual),
            Self::Bit { value, op } => found(bits_meet(value, actual, *op)),
            Self::Long(expected) => {
                long(actual).map_or(Ordering::Greater, |actual| expected.cmp(&actual))
            }
            Self::Null => Ordering::Greater,
            Self::Regex(regex) => found(regex.is_found(actual)),
            Self::Substring(text) => found(
                String::from_utf8_lossy(actual)
                    .to_lowercase()
                    .contains(text.as_str()),
            ),
        }
    }
}

/// Whether **expected OP actual** holds, `order` being expected against actual: how conditions read it.
pub(crate) fn expected_op_actual(order: Ordering, op: CompareOp) -> bool {
    match op {
        CompareOp::Less => order.is_lt(),
        CompareOp::LessOrEqual => order.is_le(),
        CompareOp::Equal => order.is_eq(),
        CompareOp::NotEqual => order.is_ne(),
        CompareOp::GreaterOrEqual => order.is_ge(),
        CompareOp::Greater => order.is_gt(),
        CompareOp::NoOp => false,
    }
}

fn long(bytes: &[u8]) -> Option<i64> {
    Some(i64::from_be_bytes(bytes.try_into().ok()?))
}

fn bits_meet(expected: &[u8], actual: &[u8], op: pb::bit_comparator::BitwiseOp) -> bool {
    use pb::bit_comparator::BitwiseOp;
    expected.len() == actual.len()
        && expected.iter().zip(actual).any(|(a, b)| {
            0 != match op {
                BitwiseOp::And => a & b,
                BitwiseOp::Or => a | b,
                BitwiseOp::Xor => a ^ b,
            }
        })
}

/// Compares two of Java's serialised BigDecimals by value: sign, then digits aligned by scale. Values that are no decimals
/// compare by their bytes.
fn compare_decimals(expected: &[u8], actual: &[u8]) -> Ordering {
    match (Decimal::decode(expected), Decimal::decode(actual)) {
        (Some(a), Some(b)) => a.compare(&b),
        _ => expected.cmp(actual),
    }
}

/// Digits a decimal may have (INV-9): alignment by scale writes that many.
const DECIMAL_DIGITS_MAX: i64 = 10_000;

struct Decimal {
    negative: bool,
    /// Decimal digits of the absolute unscaled value, most significant first, without leading zeros.
    digits: Vec<u8>,
    scale: i64,
}

impl Decimal {
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (scale, unscaled) = bytes.split_at_checked(4)?;
        let scale = i64::from(i32::from_be_bytes(scale.try_into().ok()?));
        if unscaled.is_empty() || unscaled.len() as i64 > DECIMAL_DIGITS_MAX / 3 {
            return None;
        }
        let negative = unscaled[0] & 0x80 != 0;
        let mut magnitude = unscaled.to_vec();
        if negative {
            let mut carry = true;
            for byte in magnitude.iter_mut().rev() {
                let (value, overflow) = (!*byte).overflowing_add(u8::from(carry));
                (*byte, carry) = (value, overflow);
            }
        }
        let mut digits = Vec::new();
        while magnitude.iter().any(|byte| *byte != 0) {
            let mut remainder = 0_u16;
            for byte in &mut magnitude {
                let value = (remainder << 8) | u16::from(*byte);
                *byte = (value / 10) as u8;
                remainder = value % 10;
            }
            digits.push(remainder as u8);
        }
        digits.reverse();
        Some(Self {
            negative,
            digits,
            scale,
        })
    }

    fn compare(&self, other: &Self) -> Ordering {
        let sign = |d: &Self| match (d.digits.is_empty(), d.negative) {
            (true, _) => 0,
            (false, false) => 1,
            (false, true) => -1,
        };
        match sign(self).cmp(&sign(other)) {
            Ordering::Equal if self.digits.is_empty() => return Ordering::Equal,
            Ordering::Equal => {}
            order => return order,
        }
        // The place of the most significant digit decides; else the digits from there on.
        let top = |d: &Self| d.digits.len() as i64 - d.scale;
        let (a, b) = (&self.digits, &other.digits);
        let trailing = |d: &[u8]| {
            d.iter()
                .rposition(|digit| *digit != 0)
                .map_or(0, |at| at + 1)
        };
        let magnitude = top(self)
            .cmp(&top(other))
            .then_with(|| a[..trailing(a)].cmp(&b[..trailing(b)]));
        if self.negative {
            magnitude.reverse()
        } else {
            magnitude
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(scale: i32, unscaled: &[u8]) -> Vec<u8> {
        [&scale.to_be_bytes(), unscaled].concat()
    }

    #[test]
    fn decimals_compare_by_value() {
        let one = decimal(0, &[1]);
        let one_point_zero = decimal(1, &[10]);
        let minus = decimal(0, &[0xff]);
        let big = decimal(-3, &[2]);
        assert_eq!(compare_decimals(&one, &one_point_zero), Ordering::Equal);
        assert_eq!(compare_decimals(&minus, &one), Ordering::Less);
        assert_eq!(compare_decimals(&big, &one), Ordering::Greater);
        for scale in [-3, 0, 1, 7] {
            assert_eq!(
                compare_decimals(&decimal(scale, &[0]), &decimal(2, &[0, 0])),
                Ordering::Equal,
                "nothing is nothing at any scale"
            );
        }
        assert_eq!(
            compare_decimals(&decimal(0, &[0]), &minus),
            Ordering::Greater
        );
        assert_eq!(
            compare_decimals(&decimal(2, &[0xff, 0x00]), &minus),
            Ordering::Less
        );
    }

    #[test]
    fn prefix_component_and_bits() {
        let prefix = Comparator::BinaryPrefix(Bytes::from_static(b"ab"));
        assert_eq!(prefix.compare(b"abc"), Ordering::Equal);
        assert_eq!(prefix.compare(b"a"), Ordering::Greater);
        let component = Comparator::BinaryComponent {
            value: Bytes::from_static(b"bc"),
            offset: 1,
        };
        assert_eq!(component.compare(b"abcd"), Ordering::Equal);
        assert_eq!(component.compare(b"a"), Ordering::Greater);
        let bit = Comparator::Bit {
            value: Bytes::from_static(&[1]),
            op: pb::bit_comparator::BitwiseOp::And,
        };
        assert_eq!(bit.compare(&[3]), Ordering::Equal);
        assert_eq!(bit.compare(&[2]), Ordering::Greater);
        assert_eq!(bit.compare(&[1, 1]), Ordering::Greater);
    }
}
