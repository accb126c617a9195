//! Whether the condition of a check-and-mutate holds (hbase-protocol.md 4.4). Pure, but for the cell it is given.

use cadastre_types::{Cell, CompareOp, Condition, Qualifiers, Query, Result};

use crate::comparator::{Comparator, expected_op_actual};

/// A decoded condition on one column.
#[derive(Debug)]
pub(crate) struct ColumnCondition {
    comparator: Comparator,
    op: CompareOp,
}

impl ColumnCondition {
    /// Decodes the comparator.
    ///
    /// # Errors
    /// `DoNotRetryIo` for comparators that cannot be evaluated here.
    pub(crate) fn decode(condition: &Condition) -> Result<Self> {
        let comparator = match &condition.comparator {
            Some(encoded) => Comparator::decode(encoded)?,
            None => Comparator::Null,
        };
        Ok(Self {
            comparator,
            op: condition.op,
        })
    }

    /// Whether it holds as a condition of `MutateRows`, which reads a condition without a value otherwise than a check-and-mutate
    /// does: it holds for a cell that is absent or empty, whatever the operator (read from HBase 2.6.4's endpoint).
    pub(crate) fn holds_in_rows(&self, cell: Option<&Cell>) -> bool {
        if self.comparator.expected_is_empty() {
            return cell.is_none_or(|cell| cell.value.is_empty());
        }
        self.holds(cell)
    }

    /// Whether it holds for the newest cell of the column.
    pub(crate) fn holds(&self, cell: Option<&Cell>) -> bool {
        let wants_absence = self.comparator.expected_is_empty();
        match cell {
            None => wants_absence && self.op != CompareOp::NotEqual,
            Some(cell) if wants_absence => {
                (self.op == CompareOp::NotEqual) != cell.value.is_empty()
            }
            Some(cell) => expected_op_actual(self.comparator.compare(&cell.value), self.op),
        }
    }
}

/// The read that a condition on a column needs.
pub(crate) fn query(condition: &Condition) -> Query {
    Query {
        columns: [(
            condition.family.clone(),
            Qualifiers::These([condition.qualifier.clone()].into()),
        )]
        .into(),
        time_range: condition.time_range,
        ..Query::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn cell(value: &'static str) -> Cell {
        let text = |s: &'static str| Bytes::from_static(s.as_bytes());
        Cell::put(text("r"), text("f"), text("q"), 1, text(value))
    }

    fn condition(op: CompareOp, expected: Option<&'static str>) -> ColumnCondition {
        let comparator = match expected {
            Some(text) => Comparator::Binary(Bytes::from_static(text.as_bytes())),
            None => Comparator::Null,
        };
        ColumnCondition { comparator, op }
    }

    /// The table of hbase-protocol.md 4.4, row by row.
    #[test]
    fn the_table_of_the_fact_sheet() {
        use CompareOp::{Equal, Greater, Less, NotEqual};
        for expected in [None, Some("")] {
            assert!(condition(Equal, expected).holds(None));
            assert!(condition(Less, expected).holds(None));
            assert!(!condition(NotEqual, expected).holds(None));
            assert!(condition(Equal, expected).holds(Some(&cell(""))));
            assert!(!condition(Equal, expected).holds(Some(&cell("v"))));
            assert!(condition(NotEqual, expected).holds(Some(&cell("v"))));
            assert!(!condition(NotEqual, expected).holds(Some(&cell(""))));
        }
        assert!(
            !condition(NotEqual, Some("v")).holds(None),
            "absent never matches a value"
        );
        assert!(condition(Equal, Some("v")).holds(Some(&cell("v"))));
        for op in [Equal, NotEqual, Less] {
            assert!(condition(op, None).holds_in_rows(None));
            assert!(condition(op, None).holds_in_rows(Some(&cell(""))));
            assert!(!condition(op, None).holds_in_rows(Some(&cell("v"))));
            assert!(!condition(op, Some("w")).holds_in_rows(None));
        }
        assert!(condition(NotEqual, Some("w")).holds_in_rows(Some(&cell("v"))));
        // Expected LESS than actual.
        assert!(condition(Less, Some("a")).holds(Some(&cell("b"))));
        assert!(!condition(Greater, Some("a")).holds(Some(&cell("b"))));
    }
}
