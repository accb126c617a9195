//! Whether a record meets a condition, by SQL's logic of three values: what enumeration narrows to tables, this narrows to rows.
//! Also holds for terms that enumeration does not understand. Knows nothing of slots.

use super::{
    Comparison, Predicate,
    predicate::{Opaque, Test},
};
use crate::{
    EvalError, Program, RuleError,
    place::{PlaceLine, Template},
    rule::{Body, Definition, Expr, Field, Kind, NullPolicy, Otherwise, Rule, Statement},
    slot::{Dimension, Slot},
    value::{Fields, Literal, Value},
};

/// A condition, compiled.
#[derive(Debug)]
pub struct Filter {
    root: Node,
}

#[derive(Debug)]
enum Node {
    Constant(bool),
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
    Compare(u16, Comparison, Literal),
    In(u16, Vec<Literal>),
    Between(u16, Literal, Literal),
    Prefix(u16, Vec<u8>),
    IsNull(u16),
    Like(u16, Vec<char>),
    /// An expression that gives slot 1 if it holds.
    Expression(Box<Program>),
}

impl Filter {
    /// Compiles a condition on the fields of a rule.
    ///
    /// # Errors
    /// If a term of it is too large for a rule of its own.
    pub fn new(rule: &Rule, predicate: &Predicate) -> Result<Filter, RuleError> {
        Ok(Filter {
            root: node(rule, predicate)?,
        })
    }

    /// Whether it lets every record through.
    pub fn is_open(&self) -> bool {
        match &self.root {
            Node::Constant(it) => *it,
            Node::And(terms) => terms.iter().all(|it| matches!(it, Node::Constant(true))),
            _ => false,
        }
    }

    /// Whether the record is selected; what is unknown because of null is not.
    ///
    /// # Errors
    /// If an expression cannot be evaluated for this record, by an overflow for example.
    pub fn matches(&self, fields: &Fields<'_>) -> Result<bool, EvalError> {
        Ok(holds(&self.root, fields)? == Some(true))
    }
}

fn node(rule: &Rule, predicate: &Predicate) -> Result<Node, RuleError> {
    let many = |terms: &[Predicate]| {
        let nodes: Result<Vec<Node>, RuleError> = terms.iter().map(|it| node(rule, it)).collect();
        nodes
    };
    Ok(match predicate {
        Predicate::True => Node::Constant(true),
        Predicate::False => Node::Constant(false),
        Predicate::And(terms) => Node::And(many(terms)?),
        Predicate::Or(terms) => Node::Or(many(terms)?),
        Predicate::Not(inner) => Node::Not(Box::new(node(rule, inner)?)),
        Predicate::Compare(at, comparison, literal) => {
            Node::Compare(*at, *comparison, literal.clone())
        }
        Predicate::In(at, list) => {
            let mut list = list.clone();
            list.sort_unstable();
            Node::In(*at, list)
        }
        Predicate::Between(at, low, high) => Node::Between(*at, low.clone(), high.clone()),
        Predicate::Prefix(at, prefix) => {
            Node::Prefix(*at, prefix.blob().unwrap_or_default().to_vec())
        }
        Predicate::IsNull(at) => Node::IsNull(*at),
        Predicate::Opaque(Opaque { test, .. }) => match test {
            Test::Like(at, pattern) => Node::Like(*at, pattern.chars().collect()),
            Test::Expression(expr) => Node::Expression(Box::new(expression(rule, expr)?)),
        },
    })
}

/// A rule that puts what the expression holds for into slot 1.
fn expression(rule: &Rule, expr: &Expr) -> Result<Program, RuleError> {
    let slot = |number| vec![Expr::Literal(Literal::I64(number))];
    Program::compile(Rule {
        kind: Kind::Cache,
        name: rule.name.clone(),
        version: rule.version,
        zone: rule.zone.clone(),
        zone_data: rule.zone_data.clone(),
        fields: rule
            .fields
            .iter()
            .map(|it| Field {
                null: NullPolicy::Error,
                domain: None,
                ..it.clone()
            })
            .collect(),
        dimensions: vec![Dimension {
            name: "holds".to_owned(),
            first: 0,
            last: 1,
        }],
        key: None,
        definitions: rule.definitions.iter().map(Definition::clone).collect(),
        body: Body::Statements(
            vec![Statement::When {
                condition: expr.clone(),
                slot: slot(1),
            }],
            Otherwise::Slot(slot(0)),
        ),
        places: vec![PlaceLine {
            slots: Vec::new(),
            cluster: Template::default(),
            table: Template::text("t"),
        }],
    })
}

fn holds(node: &Node, fields: &Fields<'_>) -> Result<Option<bool>, EvalError> {
    let field = |at: &u16| fields.get(usize::from(*at)).copied().unwrap_or(Value::Null);
    let known = |at: &u16, test: &dyn Fn(Value<'_>) -> bool| match field(at) {
        Value::Null => None,
        value => Some(test(value)),
    };
    Ok(match node {
        Node::Constant(it) => Some(*it),
        Node::And(terms) => all(terms, fields, true)?,
        Node::Or(terms) => all(terms, fields, false)?,
        Node::Not(inner) => holds(inner, fields)?.map(|it| !it),
        Node::Compare(at, comparison, literal) => known(at, &|value| {
            let literal = literal.value();
            match comparison {
                Comparison::Equal => value == literal,
                Comparison::NotEqual => value != literal,
                Comparison::Less => value < literal,
                Comparison::LessEqual => value <= literal,
                Comparison::Greater => value > literal,
                Comparison::GreaterEqual => value >= literal,
            }
        }),
        Node::In(at, list) => known(at, &|value| {
            list.binary_search_by(|it| it.value().cmp(&value)).is_ok()
        }),
        Node::Between(at, low, high) => {
            known(at, &|value| low.value() <= value && value <= high.value())
        }
        Node::Prefix(at, prefix) => known(at, &|value| match value {
            Value::Str(it) => it.as_bytes().starts_with(prefix),
            Value::Bytes(it) => it.starts_with(prefix),
            _ => false,
        }),
        Node::IsNull(at) => Some(field(at) == Value::Null),
        Node::Like(at, pattern) => known(at, &|value| match value {
            Value::Str(it) => like(it, pattern),
            _ => false,
        }),
        Node::Expression(program) => {
            let is_null = |at: &u16| field(at) == Value::Null;
            match program.used_fields().iter().any(is_null) {
                true => None,
                false => Some(program.evaluate(fields)? == Slot(1)),
            }
        }
    })
}

/// The first term that decides does (`and`: false, `or`: true); else unknown if one is.
fn all(terms: &[Node], fields: &Fields<'_>, neutral: bool) -> Result<Option<bool>, EvalError> {
    let mut unknown = false;
    for term in terms {
        match holds(term, fields)? {
            Some(it) if it == neutral => {}
            Some(it) => return Ok(Some(it)),
            None => unknown = true,
        }
    }
    Ok((!unknown).then_some(neutral))
}

/// `%` any text, `_` any character. In time of the lengths' product at most.
fn like(text: &str, pattern: &[char]) -> bool {
    let mut left = text.chars();
    let mut at = 0;
    // Where to go on when what stands behind the last `%` does not fit.
    let mut retry: Option<(usize, std::str::Chars<'_>)> = None;
    loop {
        let mut ahead = left.clone();
        match (pattern.get(at), ahead.next()) {
            (Some('%'), _) => {
                at += 1;
                retry = Some((at, left.clone()));
            }
            (Some(wanted), Some(found)) if *wanted == '_' || *wanted == found => {
                at += 1;
                left = ahead;
            }
            (None, None) => return true,
            _ => {
                let Some((behind, from)) = retry.as_mut() else {
                    return false;
                };
                if from.next().is_none() {
                    return false;
                }
                at = *behind;
                left = from.clone();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule() -> Rule {
        crate::parse(
            "rule r version 1; field id: i64; field name: string; list big = [7, 9]; dimension n 0 to 1; else (id % 2); \
             place table \"t\";",
        )
        .unwrap()
    }

    fn matches(condition: &str, id: Value<'_>, name: Value<'_>) -> bool {
        let rule = rule();
        let predicate = Predicate::parse(&rule, condition, None).unwrap();
        let filter = Filter::new(&rule, &predicate).unwrap();
        filter.matches(&[id, name]).unwrap()
    }

    #[test]
    fn records_are_selected_by_sql_s_logic() {
        let yes = |condition| matches(condition, Value::I64(7), Value::Str("ada"));
        for condition in [
            "id = 7 and name = 'ada'",
            "id in big",
            "id between 7 and 7 or id = 1",
            "not (id < 7)",
            "name like 'a%'",
            "name like '%d_'",
            "id % 3 = 1",
            "length(name) + id = 10",
            "not name is null",
            "id % 3 = 1 and name like '%a'",
        ] {
            assert!(yes(condition), "{condition}");
        }
        for condition in [
            "id = 8",
            "id % 3 != 1",
            "name like '_d'",
            "not (id % 3 = 1)",
            "false",
        ] {
            assert!(!yes(condition), "{condition}");
        }
        // Null is neither, and its contrary is neither.
        for condition in ["id = 7", "not (id = 7)", "id % 3 = 1", "not (id % 3 = 1)"] {
            assert!(
                !matches(condition, Value::Null, Value::Str("a")),
                "{condition}"
            );
        }
        assert!(matches(
            "id = 7 or id is null",
            Value::Null,
            Value::Str("a")
        ));
    }

    #[test]
    fn what_cannot_be_evaluated_is_an_error() {
        let rule = rule();
        let predicate = Predicate::parse(&rule, "id + 1 > 5", None).unwrap();
        let filter = Filter::new(&rule, &predicate).unwrap();
        let fields = [Value::I64(i64::MAX), Value::Str("")];
        assert!(filter.matches(&fields).is_err());
    }

    #[test]
    fn likes_match_whole_texts() {
        for (text, pattern, expected) in [
            ("", "%", true),
            ("", "_", false),
            ("abcabd", "%ab_", true),
            ("abcabd", "a%d", true),
            ("abcabd", "a%c", false),
            ("aaaaaaaaaaaaaaaaaaaaaaaab", "%a%a%a%a%a%a%c", false),
            ("ää", "_ä", true),
        ] {
            let pattern: Vec<char> = pattern.chars().collect();
            assert_eq!(like(text, &pattern), expected, "{text} {pattern:?}");
        }
    }
}
