//! Whether regions cover each table exactly once (INV-1): no key without a region, none with two. Pure and of constant size: regions
//! come one by one, in the directory's order, and faults come out as they are seen. It must not know where the regions come from.

use bytes::Bytes;
use cadastre_types::{RegionInfo, TableName};

use crate::notation;

/// What is wrong with a table's regions. An empty `to` is the end of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Keys that no region holds.
    Hole {
        /// Table.
        table: TableName,
        /// First key without a region.
        from: Bytes,
        /// First key with one again.
        to: Bytes,
    },
    /// Keys that more than one region holds.
    Overlap {
        /// Table.
        table: TableName,
        /// First key with two.
        from: Bytes,
        /// First key behind them.
        to: Bytes,
        /// Encoded name of the region that reaches into another one.
        region: String,
    },
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let key = |key: &Bytes| format!("'{}'", notation::to_text(key));
        match self {
            Self::Hole { table, from, to } => {
                write!(
                    f,
                    "hole in {table}: no region from {} to {}",
                    key(from),
                    key(to)
                )
            }
            Self::Overlap {
                table,
                from,
                to,
                region,
            } => write!(
                f,
                "overlap in {table}: {region} and another region from {} to {}",
                key(from),
                key(to)
            ),
        }
    }
}

/// How far a table is covered.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Reach {
    /// Everything before this key.
    To(Bytes),
    /// Everything.
    End,
}

/// Watches regions go by.
#[derive(Debug, Default)]
pub struct Cover {
    table: Option<(TableName, Reach)>,
}

impl Cover {
    /// The next region that counts: no split or merged parent, no replica. Gives the faults that show with it.
    pub fn push(&mut self, region: &RegionInfo) -> Vec<Fault> {
        let mut faults = Vec::new();
        let is_new = self
            .table
            .as_ref()
            .is_none_or(|(table, _)| *table != region.table);
        if is_new {
            faults.extend(self.end());
        }
        let table = &region.table;
        let reach = match self.table.take() {
            Some((_, reach)) => reach,
            None => Reach::To(Bytes::new()),
        };
        let overlap = |to: Bytes| Fault::Overlap {
            table: table.clone(),
            from: region.start_key.clone(),
            to,
            region: region.encoded_name().to_string(),
        };
        let to_end = region.end_key.is_empty();
        let reach = match reach {
            Reach::End => {
                faults.push(overlap(region.end_key.clone()));
                Reach::End
            }
            Reach::To(key) => {
                if region.start_key > key {
                    faults.push(Fault::Hole {
                        table: table.clone(),
                        from: key.clone(),
                        to: region.start_key.clone(),
                    });
                } else if region.start_key < key {
                    let end = &region.end_key;
                    let both = if to_end { &key } else { end.min(&key) };
                    faults.push(overlap(both.clone()));
                }
                if to_end {
                    Reach::End
                } else {
                    Reach::To(region.end_key.clone().max(key))
                }
            }
        };
        self.table = Some((table.clone(), reach));
        faults
    }

    /// The last table has no more regions.
    pub fn end(&mut self) -> Option<Fault> {
        match self.table.take()? {
            (_, Reach::End) => None,
            (table, Reach::To(from)) => Some(Fault::Hole {
                table,
                from,
                to: Bytes::new(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn table(name: &str) -> TableName {
        TableName::parse(name).unwrap()
    }

    fn region(name: &str, start: &str, end: &str) -> RegionInfo {
        let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
        RegionInfo::new(table(name), bytes(start), bytes(end), 1)
    }

    fn faults(regions: &[RegionInfo]) -> Vec<String> {
        let mut cover = Cover::default();
        let mut found: Vec<Fault> = regions.iter().flat_map(|one| cover.push(one)).collect();
        found.extend(cover.end());
        found.iter().map(ToString::to_string).collect()
    }

    /// INV-1.
    #[test]
    fn holes_and_overlaps_are_told() {
        let good = [
            region("t", "", "b"),
            region("t", "b", "c"),
            region("t", "c", ""),
            region("u", "", ""),
        ];
        assert_eq!(faults(&good), [""; 0]);
        assert_eq!(faults(&good[1..]), ["hole in t: no region from '' to 'b'"]);
        assert_eq!(
            faults(&[good[0].clone(), good[2].clone()]),
            ["hole in t: no region from 'b' to 'c'"]
        );
        assert_eq!(
            faults(&[good[0].clone(), good[1].clone(), good[3].clone()]),
            ["hole in t: no region from 'c' to ''"]
        );
        let wide = region("t", "a", "c");
        let name = wide.encoded_name();
        assert_eq!(
            faults(&[good[0].clone(), wide, good[2].clone()]),
            [format!(
                "overlap in t: {name} and another region from 'a' to 'b'"
            )]
        );
        let twice = faults(&[good[3].clone(), good[3].clone()]);
        assert!(twice[0].starts_with("overlap in u"), "{twice:?}");
        assert_eq!(faults(&[]), [""; 0]);
    }

    proptest! {
        /// Against the plain sense of it: every key of a small alphabet is counted.
        #[test]
        fn faults_show_exactly_if_a_key_is_not_held_once(
            mut bounds in proptest::collection::vec((0_u8..6, 1_u8..7), 1..6)
        ) {
            bounds.retain(|(start, end)| start < end);
            bounds.sort_unstable();
            let key = |number: u8| match number {
                0 | 6 => String::new(),
                number => number.to_string(),
            };
            let regions: Vec<RegionInfo> = bounds
                .iter()
                .map(|(start, end)| region("t", &key(*start), &key(*end)))
                .collect();
            let once = (0..6_u8).all(|at| {
                bounds.iter().filter(|(start, end)| (*start..*end).contains(&at)).count() == 1
            });
            // Without any region there is no table.
            prop_assert_eq!(faults(&regions).is_empty(), once || regions.is_empty());
        }
    }
}
