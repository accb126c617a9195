//! SlateDB's merge operator for packed values: writes are operands, so a put never reads.
//!
//! It only merges lists of cells by coordinates; what is kept of them is [`crate::retain`]'s affair.

use bytes::Bytes;
use slatedb::{MergeOperator, MergeOperatorError};

use crate::packed::{self, Packed, StoredCell};

/// Merges packed values; associative, and the flag "has overflow" sticks.
pub(crate) struct CellMerge;

impl MergeOperator for CellMerge {
    fn merge(
        &self,
        key: &Bytes,
        existing_value: Option<Bytes>,
        value: Bytes,
    ) -> Result<Bytes, MergeOperatorError> {
        self.merge_batch(key, existing_value, &[value])
    }

    fn merge_batch(
        &self,
        _key: &Bytes,
        existing_value: Option<Bytes>,
        operands: &[Bytes],
    ) -> Result<Bytes, MergeOperatorError> {
        if existing_value.is_none() && operands.is_empty() {
            return Err(MergeOperatorError::EmptyBatch);
        }
        if let (None, [only]) = (&existing_value, operands) {
            return Ok(only.clone());
        }
        let mut overflow = false;
        let mut lists = Vec::with_capacity(operands.len() + 1);
        for value in existing_value.iter().chain(operands) {
            let list =
                Packed::decode(value.clone()).map_err(|error| MergeOperatorError::Callback {
                    message: error.to_string(),
                })?;
            overflow |= list.overflow;
            lists.push(list.cells);
        }
        Ok(packed::encode(overflow, &merge_balanced(lists)))
    }
}

/// Merges neighbours first, so that n lists cost n log n and not n².
fn merge_balanced(mut lists: Vec<Vec<StoredCell>>) -> Vec<StoredCell> {
    while lists.len() > 1 {
        let mut halved = Vec::with_capacity(lists.len().div_ceil(2));
        let mut rest = lists.into_iter();
        while let Some(older) = rest.next() {
            halved.push(match rest.next() {
                Some(newer) => packed::merge(older, newer),
                None => older,
            });
        }
        lists = halved;
    }
    lists.pop().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::packed::tests::cells;

    proptest! {
        #[test]
        fn a_batch_equals_one_by_one(lists in prop::collection::vec((cells(), any::<bool>()), 1..8)) {
            let values: Vec<_> = lists.iter().map(|(cells, flag)| packed::encode(*flag, cells)).collect();
            let key = Bytes::new();
            let at_once = CellMerge.merge_batch(&key, None, &values).unwrap();
            let one_by_one = values.iter().fold(None, |sum, value| {
                Some(CellMerge.merge(&key, sum, value.clone()).unwrap())
            });
            prop_assert_eq!(Some(at_once), one_by_one);
        }
    }

    #[test]
    fn damaged_operands_are_an_error() {
        let bad = Bytes::from_static(b"\x01\0\xff");
        assert!(
            CellMerge
                .merge(&Bytes::new(), Some(bad.clone()), bad)
                .is_err()
        );
        assert!(CellMerge.merge_batch(&Bytes::new(), None, &[]).is_err());
    }
}
