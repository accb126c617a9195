//! A table's schema as reads and writes of a region need it: what its families' attributes say of keeping cells, read from their text once
//! and not for each row.
//!
//! It must not know of keys or of rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use cadastre_types::{Error, FamilyDescriptor, Qualifiers, Query, Result, TableDescriptor};

use crate::retain::Rules;

/// A descriptor and what follows from it.
pub(crate) struct Schema {
    pub(crate) descriptor: Arc<TableDescriptor>,
    /// By family name: the same families in the same order as the descriptor's.
    rules: BTreeMap<Bytes, Rules>,
}

/// A family that is read.
pub(crate) struct Wanted<'a> {
    pub(crate) family: &'a FamilyDescriptor,
    pub(crate) rules: &'a Rules,
    pub(crate) qualifiers: &'a Qualifiers,
}

static ALL: Qualifiers = Qualifiers::All;

impl Schema {
    pub(crate) fn new(descriptor: Arc<TableDescriptor>) -> Self {
        let families = descriptor.families.iter();
        let rules = families.map(|(name, family)| (name.clone(), Rules::of(family)));
        Self {
            rules: rules.collect(),
            descriptor,
        }
    }

    /// A family and its rules.
    ///
    /// # Errors
    /// `NoSuchColumnFamily`.
    pub(crate) fn family(&self, name: &Bytes) -> Result<(&FamilyDescriptor, &Rules)> {
        Ok((self.descriptor.family(name)?, &self.rules[name]))
    }

    /// The rules of the family with this id, if there is one.
    pub(crate) fn rules(&self, id: u16) -> Option<&Rules> {
        let mut families = self.descriptor.families.values().zip(self.rules.values());
        families.find_map(|(family, rules)| (family.id == id).then_some(rules))
    }

    /// The families of a query in the order of their names (C6).
    ///
    /// # Errors
    /// `NoSuchColumnFamily`; `DoNotRetryIo` for a raw query of single columns.
    pub(crate) fn wanted<'a>(&'a self, query: &'a Query) -> Result<Vec<Wanted<'a>>> {
        let is_single = |it: &Qualifiers| matches!(it, Qualifiers::These(_));
        if query.raw && query.columns.values().any(is_single) {
            return Err(Error::invalid("Cannot specify any column for a raw scan"));
        }
        if query.columns.is_empty() {
            let families = self.descriptor.families.values().zip(self.rules.values());
            let all = families.map(|(family, rules)| Wanted {
                family,
                rules,
                qualifiers: &ALL,
            });
            return Ok(all.collect());
        }
        let named = query.columns.iter().map(|(name, qualifiers)| {
            let (family, rules) = self.family(name)?;
            Ok(Wanted {
                family,
                rules,
                qualifiers,
            })
        });
        named.collect()
    }
}
