//! Lists, tables, ranges and rings made ready: sorted keys and binary search.

use crate::{
    rule::{DefinitionBody, NodesFunction},
    value::{Literal, Type},
};

/// A lookup from a scalar or blob to a scalar or blob.
#[derive(Debug)]
pub(crate) struct Lookup {
    keys: Keys,
    answers: Answers,
}

#[derive(Debug)]
enum Keys {
    /// In the order of [`Ordered`].
    Scalars(Ordered, Vec<u64>),
    Blobs(Vec<Box<[u8]>>),
    Nodes(NodesFunction),
}

/// How 64 bits are compared: signed numbers after their sign bit was flipped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ordered(u64);

impl Ordered {
    pub(crate) fn of(ty: Type) -> Ordered {
        match ty {
            Type::I64 | Type::Date | Type::Timestamp => Ordered(1 << 63),
            _ => Ordered(0),
        }
    }

    #[inline]
    pub(crate) fn key(self, scalar: u64) -> u64 {
        scalar ^ self.0
    }
}

#[derive(Debug)]
enum Answers {
    /// Is it there?
    Membership,
    /// By key, and else.
    Exact(Vec<Answer>, Answer),
    /// Below the first bound, and from each bound on.
    From(u64, Vec<u64>),
    /// The node.
    Node,
}

/// An answer.
#[derive(Debug)]
pub(crate) enum Answer {
    Scalar(u64),
    Blob(Box<[u8]>),
}

impl Answer {
    fn of(literal: &Literal) -> Answer {
        match (literal.scalar(), literal.blob()) {
            (_, Some(blob)) => Answer::Blob(blob.into()),
            (scalar, None) => Answer::Scalar(scalar.unwrap_or(0)),
        }
    }
}

impl Keys {
    fn of<'l>(ty: Type, literals: impl Iterator<Item = &'l Literal>) -> Keys {
        if ty.is_scalar() {
            let order = Ordered::of(ty);
            let keys = literals.filter_map(Literal::scalar).map(|it| order.key(it));
            return Keys::Scalars(order, keys.collect());
        }
        Keys::Blobs(literals.filter_map(Literal::blob).map(Box::from).collect())
    }
}

impl Lookup {
    /// Of a list in an expression.
    pub(crate) fn list(entries: &[Literal]) -> Lookup {
        let ty = entries.first().map_or(Type::I64, Literal::ty);
        Lookup {
            keys: Keys::of(ty, entries.iter()),
            answers: Answers::Membership,
        }
    }

    pub(crate) fn new(definition: &DefinitionBody) -> Result<Lookup, String> {
        Ok(match definition {
            DefinitionBody::List(entries) => Lookup::list(entries),
            DefinitionBody::Table {
                key,
                entries,
                otherwise,
                ..
            } => Lookup {
                keys: Keys::of(*key, entries.iter().map(|(key, _)| key)),
                answers: Answers::Exact(
                    entries.iter().map(|(_, it)| Answer::of(it)).collect(),
                    Answer::of(otherwise),
                ),
            },
            DefinitionBody::Ranges { key, first, bounds } => Lookup {
                keys: Keys::of(*key, bounds.iter().map(|(bound, _)| bound)),
                answers: Answers::From(
                    *first as u64,
                    bounds.iter().map(|(_, it)| *it as u64).collect(),
                ),
            },
            DefinitionBody::Nodes(nodes) => Lookup {
                keys: Keys::Nodes(NodesFunction::new(nodes)?),
                answers: Answers::Node,
            },
        })
    }

    /// Whether its answers are text, bytes or uuids.
    pub(crate) fn answers_blobs(&self) -> bool {
        matches!(&self.answers, Answers::Exact(_, Answer::Blob(_)))
    }

    /// Where a scalar key is, or would be.
    #[inline]
    fn find_scalar(&self, scalar: u64) -> Result<usize, usize> {
        match &self.keys {
            Keys::Scalars(order, keys) => keys.binary_search(&order.key(scalar)),
            Keys::Blobs(_) | Keys::Nodes(_) => Err(0),
        }
    }

    fn find_blob(&self, blob: &[u8]) -> Result<usize, usize> {
        match &self.keys {
            Keys::Blobs(keys) => keys.binary_search_by(|key| (**key).cmp(blob)),
            Keys::Scalars(..) | Keys::Nodes(_) => Err(0),
        }
    }

    pub(crate) fn scalar_to_scalar(&self, scalar: u64) -> u64 {
        if let Keys::Nodes(nodes) = &self.keys {
            return u64::from(nodes.find(scalar));
        }
        self.to_scalar(self.find_scalar(scalar))
    }

    pub(crate) fn blob_to_scalar(&self, blob: &[u8]) -> u64 {
        self.to_scalar(self.find_blob(blob))
    }

    pub(crate) fn scalar_to_blob(&self, scalar: u64) -> &[u8] {
        self.to_blob(self.find_scalar(scalar))
    }

    pub(crate) fn blob_to_blob(&self, blob: &[u8]) -> &[u8] {
        self.to_blob(self.find_blob(blob))
    }

    fn to_scalar(&self, found: Result<usize, usize>) -> u64 {
        match &self.answers {
            Answers::Membership => u64::from(found.is_ok()),
            Answers::Exact(answers, otherwise) => {
                match found.ok().map_or(otherwise, |at| &answers[at]) {
                    Answer::Scalar(it) => *it,
                    Answer::Blob(_) => 0,
                }
            }
            Answers::From(first, answers) => {
                // A bound belongs to what lies above it.
                let above = found.map_or_else(|at| at, |at| at + 1);
                above.checked_sub(1).map_or(*first, |at| answers[at])
            }
            Answers::Node => 0,
        }
    }

    fn to_blob(&self, found: Result<usize, usize>) -> &[u8] {
        match &self.answers {
            Answers::Exact(answers, otherwise) => {
                match found.ok().map_or(otherwise, |at| &answers[at]) {
                    Answer::Blob(it) => it,
                    Answer::Scalar(_) => &[],
                }
            }
            _ => &[],
        }
    }
}
