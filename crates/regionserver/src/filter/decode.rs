//! From the class and message on the wire to a filter.

use bytes::Bytes;
use cadastre_env::Rng;
use cadastre_types::{EncodedFilter, Error, Result};
use cadastre_wire::{convert, decode as message, pb};
use rand::SeedableRng;

use super::value::{Column, SingleColumnValue, Test};
use super::{Filter, column, list, row, value};
use crate::comparator::Comparator;

/// Package of HBase's filters.
const PACKAGE: &str = "org.apache.hadoop.hbase.filter.";

/// How deep filters may be nested (INV-9): the decoder recurses.
const DEPTH_MAX: usize = 64;

/// Bytes of a pre-processed fuzzy mask: "must match" (-1), and "any" of both its forms.
const FUZZY_FIXED: u8 = 0xff;
const FUZZY_ANY: u8 = 0;
const FUZZY_ANY_V2: u8 = 2;

/// Decodes a filter and what is nested in it. `reversed` is the direction of the scan.
///
/// # Errors
/// `DoNotRetryIo` for classes that are not HBase's own, for damaged messages and for too deep a nesting.
pub(crate) fn decode(
    encoded: &EncodedFilter,
    reversed: bool,
    rng: &mut Rng,
) -> Result<Box<dyn Filter>> {
    Decoder { reversed, rng }.filter(&encoded.class, encoded.body.clone(), 0)
}

struct Decoder<'a> {
    reversed: bool,
    rng: &'a mut Rng,
}

impl Decoder<'_> {
    fn nested(&mut self, inner: &pb::Filter, depth: usize) -> Result<Box<dyn Filter>> {
        let body = inner.serialized_filter.clone().unwrap_or_default();
        self.filter(&inner.name, body, depth + 1)
    }

    fn filter(&mut self, class: &str, body: Bytes, depth: usize) -> Result<Box<dyn Filter>> {
        if depth > DEPTH_MAX {
            return Err(Error::invalid(format!(
                "filters are nested deeper than {DEPTH_MAX}"
            )));
        }
        let Some(name) = class.strip_prefix(PACKAGE) else {
            return Err(unknown(class));
        };
        if let Some(filter) = simple(name, body.clone())? {
            return Ok(filter);
        }
        Ok(match name {
            "PrefixFilter" => {
                let m: pb::PrefixFilter = message(body)?;
                let prefix = m.prefix.unwrap_or_default();
                Box::new(row::Prefix {
                    prefix,
                    reversed: self.reversed,
                    passed: false,
                    drop: true,
                })
            }
            "InclusiveStopFilter" => {
                let m: pb::InclusiveStopFilter = message(body)?;
                let stop = m.stop_row_key.unwrap_or_default();
                Box::new(row::InclusiveStop {
                    stop,
                    reversed: self.reversed,
                    done: false,
                })
            }
            "MultiRowRangeFilter" => {
                let m: pb::MultiRowRangeFilter = message(body)?;
                Box::new(row::MultiRowRange {
                    ranges: m.row_range_list.into_iter().map(range).collect(),
                    reversed: self.reversed,
                    done: false,
                    drop: false,
                })
            }
            "FuzzyRowFilter" => {
                let m: pb::FuzzyRowFilter = message(body)?;
                let v2 = m.is_mask_v2.unwrap_or(false);
                let keys = m.fuzzy_keys_data.iter();
                Box::new(row::FuzzyRow {
                    keys: keys.map(|pair| fuzzy_key(pair, v2)).collect(),
                    reversed: self.reversed,
                })
            }
            "RandomRowFilter" => {
                let m: pb::RandomRowFilter = message(body)?;
                let rng = Rng::from_rng(self.rng);
                Box::new(row::RandomRow {
                    chance: m.chance,
                    rng,
                    drop: false,
                })
            }
            "SkipFilter" => {
                let m: pb::SkipFilter = message(body)?;
                Box::new(row::Skip {
                    inner: self.nested(&m.filter, depth)?,
                    drop: false,
                })
            }
            "WhileMatchFilter" => {
                let m: pb::WhileMatchFilter = message(body)?;
                Box::new(row::WhileMatch {
                    inner: self.nested(&m.filter, depth)?,
                    done: false,
                })
            }
            "FilterWrapper" => {
                let m: pb::FilterWrapper = message(body)?;
                self.nested(&m.filter, depth)?
            }
            "FilterList" => {
                let m: pb::FilterList = message(body)?;
                let filters = m
                    .filters
                    .iter()
                    .map(|f| self.nested(f, depth))
                    .collect::<Result<Vec<_>>>()?;
                match m.operator() {
                    pb::filter_list::Operator::MustPassAll => Box::new(list::And(filters)),
                    pb::filter_list::Operator::MustPassOne => Box::new(list::Or::new(filters)),
                }
            }
            _ => return Err(unknown(class)),
        })
    }
}

fn unknown(class: &str) -> Error {
    Error::invalid(format!(
        "java.lang.ClassNotFoundException: {class}: only HBase's own filters can be evaluated outside a JVM"
    ))
}

/// Filters that need neither direction, nor chance, nor nesting.
fn simple(name: &str, body: Bytes) -> Result<Option<Box<dyn Filter>>> {
    Ok(Some(match name {
        "ColumnCountGetFilter" => {
            let m: pb::ColumnCountGetFilter = message(body)?;
            Box::new(column::ColumnCountGet {
                limit: i64::from(m.limit),
                count: 0,
            })
        }
        "ColumnPaginationFilter" => {
            let m: pb::ColumnPaginationFilter = message(body)?;
            Box::new(column::ColumnPagination {
                limit: i64::from(m.limit),
                offset: i64::from(m.offset.unwrap_or(0)),
                column_offset: m.column_offset,
                count: 0,
            })
        }
        "ColumnPrefixFilter" => {
            let m: pb::ColumnPrefixFilter = message(body)?;
            Box::new(column::ColumnPrefixes(vec![m.prefix]))
        }
        "MultipleColumnPrefixFilter" => {
            let m: pb::MultipleColumnPrefixFilter = message(body)?;
            Box::new(column::ColumnPrefixes(m.sorted_prefixes))
        }
        "ColumnRangeFilter" => {
            let m: pb::ColumnRangeFilter = message(body)?;
            Box::new(column::ColumnRange {
                min: m.min_column,
                min_inclusive: m.min_column_inclusive.unwrap_or(false),
                max: m.max_column,
                max_inclusive: m.max_column_inclusive.unwrap_or(false),
            })
        }
        "FirstKeyOnlyFilter" => Box::new(column::FirstKeyOnly::default()),
        "FirstKeyValueMatchingQualifiersFilter" => {
            let m: pb::FirstKeyValueMatchingQualifiersFilter = message(body)?;
            Box::new(column::FirstKeyValueMatchingQualifiers {
                qualifiers: m.qualifiers.into_iter().collect(),
                found: false,
            })
        }
        "KeyOnlyFilter" => {
            let m: pb::KeyOnlyFilter = message(body)?;
            Box::new(column::KeyOnly {
                length_as_value: m.len_as_val,
            })
        }
        "TimestampsFilter" => {
            let m: pb::TimestampsFilter = message(body)?;
            Box::new(column::Timestamps(m.timestamps.into_iter().collect()))
        }
        "PageFilter" => {
            let m: pb::PageFilter = message(body)?;
            Box::new(row::Page {
                size: m.page_size,
                accepted: 0,
            })
        }
        "FilterAllFilter" => Box::new(row::All),
        _ => return comparing(name, body),
    }))
}

/// Filters that compare.
fn comparing(name: &str, body: Bytes) -> Result<Option<Box<dyn Filter>>> {
    Ok(Some(match name {
        "FamilyFilter" => {
            let m: pb::FamilyFilter = message(body)?;
            Box::new(value::Family(compare_filter(&m.compare_filter)?))
        }
        "QualifierFilter" => {
            let m: pb::QualifierFilter = message(body)?;
            Box::new(value::Qualifier(compare_filter(&m.compare_filter)?))
        }
        "ValueFilter" => {
            let m: pb::ValueFilter = message(body)?;
            Box::new(value::Value(compare_filter(&m.compare_filter)?))
        }
        "RowFilter" => {
            let m: pb::RowFilter = message(body)?;
            Box::new(value::Row {
                test: compare_filter(&m.compare_filter)?,
                drop: false,
            })
        }
        "ColumnValueFilter" => {
            let m: pb::ColumnValueFilter = message(body)?;
            let test = test(m.compare_op(), Some(&m.comparator))?;
            let column = Column {
                family: m.family,
                qualifier: m.qualifier,
            };
            Box::new(value::ColumnValue {
                column,
                test,
                found: false,
            })
        }
        "SingleColumnValueFilter" => Box::new(single_column(&message(body)?, false)?),
        "SingleColumnValueExcludeFilter" => {
            let m: pb::SingleColumnValueExcludeFilter = message(body)?;
            Box::new(single_column(&m.single_column_value_filter, true)?)
        }
        "DependentColumnFilter" => {
            let m: pb::DependentColumnFilter = message(body)?;
            let test = match m.compare_filter.comparator {
                Some(_) => Some(compare_filter(&m.compare_filter)?),
                None => None,
            };
            Box::new(value::DependentColumn {
                column: Column {
                    family: m.column_family.unwrap_or_default(),
                    qualifier: m.column_qualifier.unwrap_or_default(),
                },
                test,
                drop_reference: m.drop_dependent_column.unwrap_or(false),
                stamps: std::collections::BTreeSet::new(),
            })
        }
        _ => return Ok(None),
    }))
}

fn compare_filter(filter: &pb::CompareFilter) -> Result<Test> {
    test(filter.compare_op(), filter.comparator.as_ref())
}

fn test(op: pb::CompareType, comparator: Option<&pb::Comparator>) -> Result<Test> {
    let op = convert::compare_op(op as i32)?;
    let comparator = comparator
        .map(|comparator| Comparator::decode(&convert::encoded_comparator(comparator)))
        .transpose()?;
    Ok(Test { op, comparator })
}

fn single_column(m: &pb::SingleColumnValueFilter, exclude: bool) -> Result<SingleColumnValue> {
    Ok(SingleColumnValue {
        column: Column {
            family: m.column_family.clone().unwrap_or_default(),
            qualifier: m.column_qualifier.clone().unwrap_or_default(),
        },
        test: test(m.compare_op(), Some(&m.comparator))?,
        drop_if_missing: m.filter_if_missing.unwrap_or(false),
        // Java's default; it always sends the field.
        latest_version_only: m.latest_version_only.unwrap_or(true),
        exclude,
        found: false,
        matched: false,
    })
}

fn range(range: pb::RowRange) -> row::Range {
    row::Range {
        start: range.start_row.unwrap_or_default(),
        start_inclusive: range.start_row_inclusive.unwrap_or(true),
        stop: range.stop_row.unwrap_or_default(),
        stop_inclusive: range.stop_row_inclusive.unwrap_or(false),
    }
}

/// Three forms of masks are on the wire (hbase-protocol.md 5.2): the public one (0 must match, 1 any), and two that 2.x clients have
/// pre-processed (-1 must match, 0 or 2 any). Only whether all bytes are of it tells the form: clients mark the public one with `is_mask_v2`, too, on
/// Java machines that do not let them read words at any address. A mask of zeros alone, unmarked, is the public one, as HBase 3 sends it.
pub(super) fn fuzzy_key(pair: &pb::BytesBytesPair, v2: bool) -> row::FuzzyKey {
    let (key, mask) = (&pair.first, &pair.second);
    let any = if v2 { FUZZY_ANY_V2 } else { FUZZY_ANY };
    let of_form = |byte: &u8| *byte == FUZZY_FIXED || *byte == any;
    let processed = mask.iter().all(of_form) && (v2 || mask.contains(&FUZZY_FIXED));
    key.iter()
        .zip(mask)
        .map(|(byte, mask)| {
            let fixed = if processed {
                *mask == FUZZY_FIXED
            } else {
                *mask == 0 || *mask == FUZZY_FIXED
            };
            fixed.then_some(*byte)
        })
        .collect()
}
