//! From a condition to alternatives, each of which bounds every field on its own (disjunctive normal form). Whatever is
//! not understood, or would be too much, widens the answer and is named.

use super::{
    Comparison, Predicate,
    set::{Point, Set, Span},
};
use crate::{
    limits,
    value::{Literal, Type},
};

/// Most alternatives. Beyond, they are joined into one that bounds less.
const CONJUNCTS_MAX: usize = 256;
/// Deepest nesting of conditions that is followed: they may come from anybody too.
const DEPTH_MAX: usize = limits::DEPTH_MAX;

/// The values that a field may have, and whether it may be null.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FieldSet {
    pub(super) values: Values,
    pub(super) null: bool,
}

/// Values by kind of type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Values {
    Scalars(Set<i128>),
    Blobs(Set<Vec<u8>>),
}

/// Bounds of every field.
#[derive(Clone, Debug)]
pub(super) struct Conjunct {
    pub(super) fields: Vec<FieldSet>,
}

/// All alternatives, and why they bound less than the condition says, if they do.
#[derive(Clone, Debug)]
pub(super) struct Normal {
    pub(super) conjuncts: Vec<Conjunct>,
    pub(super) cause: Option<String>,
}

/// A scalar as a number.
pub(super) fn number(literal: &Literal) -> Option<i128> {
    Some(match literal {
        Literal::Bool(it) => i128::from(*it),
        Literal::I64(it) | Literal::Timestamp(it) => i128::from(*it),
        Literal::U64(it) => i128::from(*it),
        Literal::Date(it) => i128::from(*it),
        Literal::Str(_) | Literal::Bytes(_) | Literal::Uuid(_) => return None,
    })
}

/// All numbers of a scalar type.
pub(super) fn whole_numbers(ty: Type) -> Span<i128> {
    let (low, high) = match ty {
        Type::Bool => (0, 1),
        Type::U64 => (0, i128::from(u64::MAX)),
        Type::Date => (limits::DATE_MIN.into(), limits::DATE_MAX.into()),
        Type::Timestamp => (limits::TIMESTAMP_MIN.into(), limits::TIMESTAMP_MAX.into()),
        _ => (i64::MIN.into(), i64::MAX.into()),
    };
    Span {
        low,
        high: Some(high + 1),
    }
}

fn all_blobs() -> Span<Vec<u8>> {
    Span {
        low: Vec::new(),
        high: None,
    }
}

impl Values {
    pub(super) fn all(ty: Type) -> Values {
        if ty.is_scalar() {
            Values::Scalars(Set::from_spans(vec![whole_numbers(ty)]))
        } else {
            Values::Blobs(Set::from_spans(vec![all_blobs()]))
        }
    }

    fn none(ty: Type) -> Values {
        match ty.is_scalar() {
            true => Values::Scalars(Set::empty()),
            false => Values::Blobs(Set::empty()),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Values::Scalars(it) => it.is_empty(),
            Values::Blobs(it) => it.is_empty(),
        }
    }

    pub(super) fn contains(&self, literal: &Literal) -> bool {
        match (self, number(literal), literal.blob()) {
            (Values::Scalars(set), Some(number), _) => set.contains(&number),
            (Values::Blobs(set), _, Some(blob)) => set.contains(&blob.to_vec()),
            _ => false,
        }
    }

    /// Whether any value lies from `low`, included, to `high`, excluded; none is no bound.
    pub(super) fn overlaps(&self, low: Option<&Literal>, high: Option<&Literal>) -> bool {
        match self {
            Values::Scalars(set) => {
                let of = |it: Option<&Literal>| it.and_then(number);
                set.overlaps(of(low).as_ref(), of(high).as_ref())
            }
            Values::Blobs(set) => {
                let of = |it: Option<&Literal>| it.and_then(Literal::blob).map(<[u8]>::to_vec);
                set.overlaps(of(low).as_ref(), of(high).as_ref())
            }
        }
    }

    /// How many spans, which is what working with it costs.
    pub(super) fn size(&self) -> usize {
        match self {
            Values::Scalars(set) => set.spans().len(),
            Values::Blobs(set) => set.spans().len(),
        }
    }

    pub(super) fn union(&self, other: &Values) -> Values {
        match (self, other) {
            (Values::Scalars(a), Values::Scalars(b)) => Values::Scalars(a.union(b)),
            (Values::Blobs(a), Values::Blobs(b)) => Values::Blobs(a.union(b)),
            (a, _) => a.clone(),
        }
    }

    pub(super) fn intersection(&self, other: &Values) -> Values {
        match (self, other) {
            (Values::Scalars(a), Values::Scalars(b)) => Values::Scalars(a.intersection(b)),
            (Values::Blobs(a), Values::Blobs(b)) => Values::Blobs(a.intersection(b)),
            (a, _) => a.clone(),
        }
    }

    pub(super) fn complement(&self, ty: Type) -> Values {
        match self {
            Values::Scalars(it) => Values::Scalars(it.complement(&whole_numbers(ty))),
            Values::Blobs(it) => Values::Blobs(it.complement(&all_blobs())),
        }
    }

    /// The values that stand so to a constant.
    pub(super) fn compared(comparison: Comparison, literal: &Literal) -> Values {
        let ty = literal.ty();
        let values = match (number(literal), literal.blob()) {
            (Some(number), _) => Values::Scalars(side(comparison, number, &whole_numbers(ty))),
            (None, blob) => {
                let blob = blob.unwrap_or_default().to_vec();
                Values::Blobs(side(comparison, blob, &all_blobs()))
            }
        };
        match comparison {
            Comparison::NotEqual => values.complement(ty),
            _ => values,
        }
    }

    pub(super) fn one_of(literals: &[Literal], ty: Type) -> Values {
        if ty.is_scalar() {
            let points = literals.iter().filter_map(number).map(|it| Span {
                low: it,
                high: Some(it + 1),
            });
            return Values::Scalars(Set::from_spans(points.collect()));
        }
        let points = literals.iter().filter_map(Literal::blob).map(|it| Span {
            low: it.to_vec(),
            high: Some(it.to_vec().next()),
        });
        Values::Blobs(Set::from_spans(points.collect()))
    }

    /// The least text behind all that begin with this.
    pub(super) fn prefix_end(prefix: &str) -> Option<Vec<u8>> {
        after_text(prefix)
    }

    fn prefixed(prefix: &Literal) -> Values {
        let low = prefix.blob().unwrap_or_default().to_vec();
        let high = match prefix {
            Literal::Str(text) => after_text(text),
            _ => after_bytes(&low),
        };
        Values::Blobs(Set::span(low, high))
    }
}

/// The values on one side of a point; the point itself for `=` and `!=`.
fn side<T: Point>(comparison: Comparison, point: T, whole: &Span<T>) -> Set<T> {
    let low = whole.low.clone();
    let high = whole.high.clone();
    match comparison {
        Comparison::Equal | Comparison::NotEqual => Set::point(point),
        Comparison::Less => Set::span(low, Some(point)),
        Comparison::LessEqual => Set::span(low, Some(point.next())),
        Comparison::Greater => Set::span(point.next(), high),
        Comparison::GreaterEqual => Set::span(point, high),
    }
}

/// The least text behind all that begin with this. The order of bytes is the order of characters.
fn after_text(prefix: &str) -> Option<Vec<u8>> {
    let mut text = prefix.to_owned();
    while let Some(last) = text.pop() {
        let next = match last {
            '\u{d7ff}' => Some('\u{e000}'),
            last => char::from_u32(u32::from(last) + 1),
        };
        if let Some(next) = next {
            text.push(next);
            return Some(text.into_bytes());
        }
    }
    None
}

fn after_bytes(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = prefix.to_vec();
    while let Some(last) = bytes.pop() {
        if let Some(next) = last.checked_add(1) {
            bytes.push(next);
            return Some(bytes);
        }
    }
    None
}

impl FieldSet {
    pub(super) fn all(ty: Type) -> FieldSet {
        FieldSet {
            values: Values::all(ty),
            null: true,
        }
    }

    fn is_empty(&self) -> bool {
        !self.null && self.values.is_empty()
    }
}

impl Conjunct {
    /// Bounds nothing.
    pub(super) fn all(types: &[Type]) -> Conjunct {
        Conjunct {
            fields: types.iter().map(|ty| FieldSet::all(*ty)).collect(),
        }
    }

    fn and(&self, other: &Conjunct) -> Option<Conjunct> {
        let fields = self.fields.iter().zip(&other.fields);
        let fields: Vec<_> = fields
            .map(|(a, b)| FieldSet {
                values: a.values.intersection(&b.values),
                null: a.null && b.null,
            })
            .collect();
        (!fields.iter().any(FieldSet::is_empty)).then_some(Conjunct { fields })
    }

    /// Takes the other in, if they differ in the values of one field at most: then nothing is lost.
    fn absorb(&mut self, other: &Conjunct) -> bool {
        let pairs = self.fields.iter().zip(&other.fields).enumerate();
        let mut different = pairs.filter(|(_, (a, b))| a != b).map(|(at, _)| at);
        match (different.next(), different.next()) {
            (None, _) => true,
            (Some(at), None) => {
                let field = &other.fields[at];
                self.fields[at].values = self.fields[at].values.union(&field.values);
                self.fields[at].null |= field.null;
                true
            }
            _ => false,
        }
    }

    /// Bounds no more than either.
    fn join(&self, other: &Conjunct) -> Conjunct {
        let fields = self.fields.iter().zip(&other.fields);
        let fields = fields.map(|(a, b)| FieldSet {
            values: a.values.union(&b.values),
            null: a.null || b.null,
        });
        Conjunct {
            fields: fields.collect(),
        }
    }
}

/// The alternatives of a condition on fields of these types, at most so many.
pub(super) fn normal(predicate: &Predicate, types: &[Type], conjuncts_max: usize) -> Normal {
    let mut normalizer = Normalizer {
        types,
        conjuncts_max: conjuncts_max.clamp(1, CONJUNCTS_MAX),
        cause: None,
    };
    let conjuncts = normalizer.visit(predicate, false, 0);
    Normal {
        conjuncts,
        cause: normalizer.cause,
    }
}

struct Normalizer<'t> {
    types: &'t [Type],
    conjuncts_max: usize,
    cause: Option<String>,
}

impl Normalizer<'_> {
    fn blame(&mut self, cause: impl FnOnce() -> String) -> Vec<Conjunct> {
        self.cause.get_or_insert_with(cause);
        vec![Conjunct::all(self.types)]
    }

    fn visit(&mut self, predicate: &Predicate, negated: bool, depth: usize) -> Vec<Conjunct> {
        if depth > DEPTH_MAX {
            return self.blame(|| format!("conditions nested deeper than {DEPTH_MAX}"));
        }
        match predicate {
            Predicate::True if !negated => vec![Conjunct::all(self.types)],
            Predicate::False if negated => vec![Conjunct::all(self.types)],
            Predicate::True | Predicate::False => Vec::new(),
            Predicate::Not(inner) => self.visit(inner, !negated, depth + 1),
            Predicate::And(terms) if !negated => self.all(terms, negated, depth),
            Predicate::Or(terms) if negated => self.all(terms, negated, depth),
            Predicate::And(terms) | Predicate::Or(terms) => self.any(terms, negated, depth),
            Predicate::Opaque(opaque) => {
                self.cause.get_or_insert_with(|| opaque.text.clone());
                vec![Conjunct::all(self.types)]
            }
            atom => self.atom(atom, negated),
        }
    }

    fn all(&mut self, terms: &[Predicate], negated: bool, depth: usize) -> Vec<Conjunct> {
        let mut product = vec![Conjunct::all(self.types)];
        for term in terms {
            let alternatives = self.visit(term, negated, depth + 1);
            if product.len() * alternatives.len() > self.conjuncts_max {
                let max = self.conjuncts_max;
                self.cause
                    .get_or_insert_with(|| format!("more than {max} alternatives"));
                // Leaving a term out bounds less, so it is safe; joining it bounds more than that.
                let joined = alternatives.into_iter().reduce(|a, b| a.join(&b));
                let Some(joined) = joined else {
                    return Vec::new();
                };
                product = product.iter().filter_map(|it| it.and(&joined)).collect();
                continue;
            }
            product = product
                .iter()
                .flat_map(|a| alternatives.iter().filter_map(|b| a.and(b)))
                .collect();
        }
        product
    }

    fn any(&mut self, terms: &[Predicate], negated: bool, depth: usize) -> Vec<Conjunct> {
        let mut sum: Vec<Conjunct> = Vec::new();
        for term in terms {
            for alternative in self.visit(term, negated, depth + 1) {
                if !sum.iter_mut().any(|it| it.absorb(&alternative)) {
                    sum.push(alternative);
                }
            }
            if sum.len() > self.conjuncts_max {
                let max = self.conjuncts_max;
                self.cause
                    .get_or_insert_with(|| format!("more than {max} alternatives"));
                sum = sum
                    .into_iter()
                    .reduce(|a, b| a.join(&b))
                    .into_iter()
                    .collect();
            }
        }
        sum
    }

    fn atom(&mut self, atom: &Predicate, negated: bool) -> Vec<Conjunct> {
        let (field, values, null) = match atom {
            Predicate::Compare(field, comparison, literal) => {
                (*field, Values::compared(*comparison, literal), false)
            }
            Predicate::In(field, literals) => {
                let ty = literals.first().map_or(Type::I64, Literal::ty);
                (*field, Values::one_of(literals, ty), false)
            }
            Predicate::Between(field, low, high) => {
                let low = Values::compared(Comparison::GreaterEqual, low);
                let high = Values::compared(Comparison::LessEqual, high);
                (*field, low.intersection(&high), false)
            }
            Predicate::Prefix(field, prefix) => (*field, Values::prefixed(prefix), false),
            Predicate::IsNull(field) => {
                let ty = self.types.get(usize::from(*field));
                (*field, Values::none(ty.copied().unwrap_or(Type::I64)), true)
            }
            _ => return vec![Conjunct::all(self.types)],
        };
        let Some(ty) = self.types.get(usize::from(field)).copied() else {
            return self.blame(|| format!("there is no field {field}"));
        };
        let is_empty_list = matches!(atom, Predicate::In(_, it) if it.is_empty());
        if !is_empty_list && !fits(atom, ty) {
            return self
                .blame(|| format!("field {field} is {ty}, it is compared with another type"));
        }
        // A comparison with null is neither true nor false; only `is null` can be negated into null.
        let set = match (atom, negated) {
            (Predicate::IsNull(_), false) => FieldSet { values, null },
            (Predicate::IsNull(_), true) => FieldSet {
                values: Values::all(ty),
                null: false,
            },
            (_, false) if is_empty_list => FieldSet {
                values: Values::none(ty),
                null: false,
            },
            (_, true) if is_empty_list => FieldSet {
                values: Values::all(ty),
                null: false,
            },
            (_, false) => FieldSet {
                values,
                null: false,
            },
            (_, true) => FieldSet {
                values: values.complement(ty),
                null: false,
            },
        };
        if set.is_empty() {
            return Vec::new();
        }
        let mut conjunct = Conjunct::all(self.types);
        conjunct.fields[usize::from(field)] = set;
        vec![conjunct]
    }
}

/// Whether all constants of a term have the field's type.
fn fits(atom: &Predicate, ty: Type) -> bool {
    match atom {
        Predicate::Compare(_, _, literal) => literal.ty() == ty,
        Predicate::In(_, literals) => literals.iter().all(|it| it.ty() == ty),
        Predicate::Between(_, low, high) => low.ty() == ty && high.ty() == ty,
        Predicate::Prefix(_, prefix) => prefix.ty() == ty && matches!(ty, Type::Str | Type::Bytes),
        _ => true,
    }
}
