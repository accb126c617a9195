//! How row keys of a table are ordered: as bytes, as rows of `hbase:meta`, or as rows of a root above it (requirements.md L2, L6).
//! Pure; it must not know what is cached or asked.

use std::cmp::Ordering;

use bytes::Bytes;
use cadastre_types::RegionInfo;
use cadastre_wire::meta;

/// How row keys of a table are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyOrder {
    /// As bytes.
    Plain,
    /// As rows of `hbase:meta` (hbase-protocol.md 6.4).
    Meta,
    /// As rows of the table that holds the regions of `hbase:meta`, whose start keys are rows of `hbase:meta` themselves.
    Root,
}

impl KeyOrder {
    /// Compares two row keys.
    pub(crate) fn compare(self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Self::Plain => a.cmp(b),
            Self::Meta => meta::compare_rows(a, b),
            Self::Root => compare_root(a, b),
        }
    }

    /// Whether a region holds a row.
    pub(crate) fn contains(self, region: &RegionInfo, row: &[u8]) -> bool {
        // The empty key is the beginning of the table, whatever the order says of it.
        (region.start_key.is_empty() || self.compare(row, &region.start_key).is_ge())
            && (region.end_key.is_empty() || self.compare(row, &region.end_key).is_lt())
    }

    pub(super) fn overlap(self, a: &RegionInfo, b: &RegionInfo) -> bool {
        let begins_before_end = |start: &Bytes, end: &Bytes| {
            start.is_empty() || end.is_empty() || self.compare(start, end).is_lt()
        };
        begins_before_end(&a.start_key, &b.end_key) && begins_before_end(&b.start_key, &a.end_key)
    }
}

/// A row of the root is a row of meta inside a region name: the outer table and the last id are taken off, what is left is compared as
/// rows of meta are, and the id decides between equals (L6). A row without commas comes before all of its table, as in meta.
fn compare_root(a: &[u8], b: &[u8]) -> Ordering {
    let (a, b) = (meta::row_parts(a), meta::row_parts(b));
    let inner = || match (a.rest, b.rest) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Less,
        (Some(_), None) => Ordering::Greater,
        (Some(a), Some(b)) => {
            meta::compare_rows(a.start_key, b.start_key).then_with(|| a.id.cmp(&b.id))
        }
    };
    a.table.cmp(b.table).then_with(inner)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// L6: `t,a` before `t,a+`, one tier down as in meta itself, where plain bytes and meta's own order say otherwise.
    #[test]
    fn root_rows_are_ordered_as_the_meta_rows_in_them() {
        let rows: [&[u8]; 9] = [
            b"hbase:meta",
            b"hbase:meta,,",
            b"hbase:meta,,1",
            b"hbase:meta,s,z,1,5",
            b"hbase:meta,t,,1,5",
            b"hbase:meta,t,a,1,5",
            b"hbase:meta,t,a,1,7",
            b"hbase:meta,t,a+,1,5",
            b"hbase:meta,t,a,b,99999999999999,99999999999999",
        ];
        for (at, a) in rows.iter().enumerate() {
            for (other, b) in rows.iter().enumerate() {
                let expected = at.cmp(&other);
                assert_eq!(KeyOrder::Root.compare(a, b), expected, "{at} {other}");
            }
        }
        // Here meta's own comparator, which takes all up to the last comma for the start key, is wrong.
        let (a, b): (&[u8], &[u8]) = (b"hbase:meta,t,a,1,5", b"hbase:meta,t,a+,1,5");
        assert!(KeyOrder::Meta.compare(a, b).is_gt() && KeyOrder::Root.compare(a, b).is_lt());
    }

    fn any_row() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(proptest::sample::select(b"ab,,+1".to_vec()), 0..12)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]
        /// L6: what stands in a root row decides as it would in meta, whatever bytes the keys hold.
        #[test]
        fn wrapping_keeps_the_order(a in any_row(), b in any_row(), id in 0_u64..100) {
            let wrap = |row: &[u8]| {
                let id = id.to_string();
                [b"hbase:meta,", row, b",", id.as_bytes()].concat()
            };
            prop_assert_eq!(
                KeyOrder::Root.compare(&wrap(&a), &wrap(&b)),
                KeyOrder::Meta.compare(&a, &b)
            );
        }

        /// L2, L6: each order is one: antisymmetric and transitive, and only equal keys are equal.
        #[test]
        fn every_order_is_total(a in any_row(), b in any_row(), c in any_row()) {
            for order in [KeyOrder::Plain, KeyOrder::Meta, KeyOrder::Root] {
                prop_assert_eq!(order.compare(&a, &b), order.compare(&b, &a).reverse());
                prop_assert_eq!(order.compare(&a, &b).is_eq(), a == b, "{:?}", order);
                if order.compare(&a, &b).is_le() && order.compare(&b, &c).is_le() {
                    prop_assert!(order.compare(&a, &c).is_le(), "{:?}", order);
                }
            }
        }
    }
}
