//! Random rules and records for property tests: made from a string of bytes, so that proptest shrinks them by shrinking
//! the bytes. All that comes out passes `check`.

use crate::{
    key::{KeyPart, KeySchema},
    limits,
    place::{Piece, PlaceLine, Template},
    rule::{
        Binary, Body, Definition, DefinitionBody, Expr, Field, Function, Kind, ListRef, Nodes,
        NodesAlgorithm, NullPolicy, Otherwise, Rule, Statement, Unary,
    },
    slot::Dimension,
    value::{Literal, Type},
};

/// Compares with a file of `testdata/`; with `UPDATE_GOLDEN=1` writes it, to be looked at and committed.
pub(crate) fn golden(name: &str, actual: &str) {
    let path = format!("{}/testdata/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, actual).unwrap();
    }
    assert_eq!(actual, std::fs::read_to_string(&path).unwrap(), "{name}");
}

/// Where choices come from. An empty source answers zero for ever.
pub(crate) struct Source<'b> {
    bytes: &'b [u8],
}

impl<'b> Source<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Source<'b> {
        Source { bytes }
    }

    pub(crate) fn byte(&mut self) -> u8 {
        match self.bytes.split_first() {
            Some((first, rest)) => {
                self.bytes = rest;
                *first
            }
            None => 0,
        }
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        let wide = u64::from(self.byte()) << 8 | u64::from(self.byte());
        wide % bound.max(1)
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    pub(crate) fn chance(&mut self, of_ten: u64) -> bool {
        self.below(10) >= 10 - of_ten
    }

    fn wide(&mut self) -> u64 {
        (0..8).fold(0, |wide, _| wide << 8 | u64::from(self.byte()))
    }

    /// Small numbers mostly, extremes sometimes.
    pub(crate) fn integer(&mut self) -> i64 {
        match self.below(12) {
            0 => self.pick(&[i64::MIN, i64::MAX, i64::MIN + 1, 0, -1]),
            1 => self.wide() as i64,
            _ => self.below(400) as i64 - 200,
        }
    }

    fn text(&mut self) -> String {
        let length = self.below(5);
        (0..length)
            .map(|_| {
                self.pick(&[
                    'a', 'b', 'c', '0', '1', '-', '"', '\\', '\n', 'é', '😀', '\u{1}',
                ])
            })
            .collect()
    }

    pub(crate) fn literal(&mut self, ty: Type) -> Literal {
        match ty {
            Type::Bool => Literal::Bool(self.chance(5)),
            Type::I64 => Literal::I64(self.integer()),
            Type::U64 => Literal::U64(match self.below(10) {
                0 => u64::MAX,
                1 => self.wide(),
                _ => self.below(300),
            }),
            Type::Str => Literal::Str(self.text()),
            Type::Bytes => Literal::Bytes(self.text().into_bytes()),
            Type::Date => Literal::Date(match self.below(10) {
                0 => self.pick(&[limits::DATE_MIN, limits::DATE_MAX]),
                _ => 15_000 + self.below(1_500) as i32,
            }),
            Type::Timestamp => Literal::Timestamp(match self.below(10) {
                0 => self.pick(&[limits::TIMESTAMP_MIN, limits::TIMESTAMP_MAX, 0]),
                _ => {
                    let days = 15_000 + self.below(1_500) as i64;
                    (days * 86_400 + self.below(86_400) as i64) * 1_000_000
                        + self.pick(&[0, 0, 1, 999_999])
                }
            }),
            Type::Uuid => {
                let mut uuid = [0; 16];
                uuid.iter_mut().for_each(|it| *it = self.byte());
                Literal::Uuid(uuid)
            }
        }
    }

    fn list(&mut self, ty: Type) -> Vec<Literal> {
        let count = 1 + self.below(4);
        let mut list: Vec<_> = (0..count).map(|_| self.literal(ty)).collect();
        list.sort();
        list.dedup();
        list
    }
}

/// What a generated rule may use.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flavour {
    /// Everything.
    Any,
    /// What enumeration must be exact for: no hashes, no functions of text.
    Exact,
    /// No hashes: what enumeration must be exact for where it is not too much to tell apart.
    Texts,
}

struct Maker<'s, 'b> {
    source: &'s mut Source<'b>,
    flavour: Flavour,
    fields: Vec<Field>,
    locals: Vec<Type>,
    definitions: Vec<Definition>,
}

/// A rule.
pub(crate) fn rule(source: &mut Source<'_>, flavour: Flavour) -> Rule {
    let dimensions = dimensions(source);
    let fields = fields(source, flavour, &dimensions);
    let mut maker = Maker {
        source,
        flavour,
        fields,
        locals: Vec::new(),
        definitions: Vec::new(),
    };
    maker.define();
    let body = maker.body(&dimensions);
    let Maker {
        fields,
        definitions,
        ..
    } = maker;
    let mut rule = Rule {
        kind: if source.chance(1) {
            Kind::Cache
        } else {
            Kind::Store
        },
        name: "random".to_owned(),
        version: source.below(100),
        zone: source.chance(6).then(|| {
            source
                .pick(&["Asia/Shanghai", "America/New_York", "+05:45"])
                .to_owned()
        }),
        zone_data: None,
        key: key(source, &fields),
        fields,
        places: places(source, &dimensions),
        dimensions,
        definitions,
        body,
    };
    if crate::rule::uses_zones(&rule) {
        rule.zone_data = Some(crate::function::ZONE_DATA_VERSION.to_owned());
    }
    rule
}

fn dimensions(source: &mut Source<'_>) -> Vec<Dimension> {
    let count = 1 + source.below(2);
    (0..count)
        .map(|at| {
            let first = source.pick(&[0, 0, 1, -3]);
            Dimension {
                name: format!("d{at}"),
                first,
                last: first + source.pick(&[30, 3, 0, 11, 62]),
            }
        })
        .collect()
}

fn fields(source: &mut Source<'_>, flavour: Flavour, dimensions: &[Dimension]) -> Vec<Field> {
    let types: &[Type] = match flavour {
        Flavour::Any => &Type::ALL,
        Flavour::Exact | Flavour::Texts => &[
            Type::I64,
            Type::U64,
            Type::Date,
            Type::Timestamp,
            Type::I64,
            Type::Str,
            Type::Bytes,
            Type::Bool,
            Type::Uuid,
        ],
    };
    let count = 1 + source.below(3);
    (0..count)
        .map(|at| {
            let ty = source.pick(types);
            Field {
                name: format!("f{at}"),
                ty,
                null: match source.below(5) {
                    0 => NullPolicy::Slot(dimensions.iter().map(|it| it.first).collect()),
                    1 => NullPolicy::Value(source.literal(ty)),
                    _ => NullPolicy::Error,
                },
                domain: None,
            }
        })
        .collect()
}

fn key(source: &mut Source<'_>, fields: &[Field]) -> Option<KeySchema> {
    if source.chance(7) {
        return None;
    }
    let mut parts = vec![KeyPart::Skip { bytes: Some(2) }];
    for (at, field) in fields.iter().enumerate() {
        let field_number = at as u16;
        parts.push(match field.ty {
            Type::Str | Type::Bytes => KeyPart::Until {
                field: field_number,
                separator: source.pick(&[b"|".as_slice(), b"\xff\0", b"\"\\"]).to_vec(),
            },
            Type::I64 if source.chance(3) => KeyPart::Decimal {
                field: field_number,
                separator: b"_".to_vec(),
            },
            _ if source.chance(3) => KeyPart::Reversed {
                field: field_number,
            },
            _ => KeyPart::Fixed {
                field: field_number,
            },
        });
    }
    Some(KeySchema { parts })
}

fn places(source: &mut Source<'_>, dimensions: &[Dimension]) -> Vec<PlaceLine> {
    let mut pieces = vec![Piece::Text("t{_".to_owned())];
    for at in 0..dimensions.len() {
        pieces.push(Piece::Coordinate {
            dimension: at as u8,
            divide: source.pick(&[1, 1, 2]),
            modulo: source.pick(&[0, 0, 7]),
            add: source.pick(&[0, 1, -4]),
            width: source.pick(&[0, 2, 4]),
        });
        pieces.push(Piece::Text(format!("_{at}")));
    }
    let mut lines = vec![PlaceLine {
        slots: Vec::new(),
        cluster: Template::default(),
        table: Template { pieces },
    }];
    if source.chance(3) {
        let mut slots = vec![None; dimensions.len()];
        slots[0] = Some((dimensions[0].first, dimensions[0].first));
        lines.push(PlaceLine {
            slots,
            cluster: Template::text("other"),
            table: Template::text("moved"),
        });
    }
    lines
}

impl Maker<'_, '_> {
    fn define(&mut self) {
        let count = self.source.below(4);
        for at in 0..count {
            let key = self.fields[self.source.below(self.fields.len() as u64) as usize].ty;
            let key = if key == Type::Bool { Type::I64 } else { key };
            let body = match self.source.below(4) {
                0 => DefinitionBody::List(self.source.list(key)),
                1 => DefinitionBody::Table {
                    key,
                    result: Type::I64,
                    entries: self
                        .source
                        .list(key)
                        .into_iter()
                        .map(|it| (it, Literal::I64(self.source.below(20) as i64)))
                        .collect(),
                    otherwise: Literal::I64(0),
                },
                2 => DefinitionBody::Ranges {
                    key,
                    first: 0,
                    bounds: self
                        .source
                        .list(key)
                        .into_iter()
                        .map(|it| (it, self.source.below(20) as i64))
                        .collect(),
                },
                _ => DefinitionBody::Nodes(Nodes {
                    algorithm: match self.source.chance(5) {
                        true => NodesAlgorithm::Ring { virtual_nodes: 4 },
                        false => NodesAlgorithm::Rendezvous,
                    },
                    nodes: vec![(0, 1), (1, 1), (2, 3), (7, 1)],
                    seed: self.source.below(3),
                }),
            };
            self.definitions.push(Definition {
                name: format!("def{at}"),
                body,
            });
        }
    }

    fn body(&mut self, dimensions: &[Dimension]) -> Body {
        let mut statements = Vec::new();
        for at in 0..self.source.below(4) {
            if self.source.chance(3) {
                let ty = self.source.pick(&[Type::I64, Type::U64, Type::Bool]);
                statements.push(Statement::Let {
                    name: format!("l{at}"),
                    value: self.expr(ty, 2),
                });
                self.locals.push(ty);
            } else {
                statements.push(Statement::When {
                    condition: self.expr(Type::Bool, 2),
                    slot: self.slot(dimensions),
                });
            }
        }
        let otherwise = match self.source.below(8) {
            0 => Otherwise::Error,
            1 => Otherwise::All,
            _ => Otherwise::Slot(self.slot(dimensions)),
        };
        Body::Statements(statements, otherwise)
    }

    /// Numbers that lie in their dimensions, mostly.
    fn slot(&mut self, dimensions: &[Dimension]) -> Vec<Expr> {
        dimensions
            .iter()
            .map(|dimension| {
                let expr = self.expr(Type::I64, 3);
                if self.source.chance(1) {
                    return expr;
                }
                let span = Expr::Literal(Literal::I64(dimension.last - dimension.first + 1));
                let expr = binary(Binary::Modulo, expr, span);
                match dimension.first {
                    0 => expr,
                    first => binary(Binary::Add, expr, Expr::Literal(Literal::I64(first))),
                }
            })
            .collect()
    }

    fn expr(&mut self, ty: Type, depth: u32) -> Expr {
        let leaf = depth == 0 || self.source.chance(2);
        if leaf {
            return self.leaf(ty);
        }
        if self.source.chance(1) {
            let parts = [
                self.expr(Type::Bool, depth - 1),
                self.expr(ty, depth - 1),
                self.expr(ty, depth - 1),
            ];
            return Expr::If(Box::new(parts));
        }
        match ty {
            Type::Bool => self.condition(depth - 1),
            Type::I64 => self.signed(depth - 1),
            Type::U64 => self.unsigned(depth - 1),
            Type::Str if self.flavour != Flavour::Exact => self.text(depth - 1),
            _ => self.leaf(ty),
        }
    }

    fn leaf(&mut self, ty: Type) -> Expr {
        let fields = self.fields.iter().enumerate();
        let fields = fields
            .filter(|(_, it)| it.ty == ty)
            .map(|(at, _)| Expr::Field(at as u16));
        let locals = self.locals.iter().enumerate();
        let locals = locals
            .filter(|(_, it)| **it == ty)
            .map(|(at, _)| Expr::Local(at as u16));
        let named: Vec<_> = fields.chain(locals).collect();
        if named.is_empty() || self.source.chance(1) {
            return Expr::Literal(self.source.literal(ty));
        }
        named[self.source.below(named.len() as u64) as usize].clone()
    }

    /// Type of a field, so that leaves of it are no constants.
    fn some_type(&mut self) -> Type {
        self.fields[self.source.below(self.fields.len() as u64) as usize].ty
    }

    fn condition(&mut self, depth: u32) -> Expr {
        match self.source.below(6) {
            0 => Expr::Unary(Unary::Not, Box::new(self.expr(Type::Bool, depth))),
            1 => {
                let operator = self.source.pick(&[Binary::And, Binary::Or]);
                let a = self.expr(Type::Bool, depth);
                binary(operator, a, self.expr(Type::Bool, depth))
            }
            2 => {
                let ty = self.some_type();
                let a = Box::new(self.expr(ty, depth));
                let named = self.definition(
                    |it| matches!(it, DefinitionBody::List(list) if list[0].ty() == ty),
                );
                match named {
                    Some(at) => Expr::In(a, ListRef::Named(at)),
                    None => Expr::In(a, ListRef::Inline(self.source.list(ty))),
                }
            }
            _ => {
                let ty = self.some_type();
                let a = self.expr(ty, depth);
                let operator = self.source.pick(&[
                    Binary::Less,
                    Binary::GreaterEqual,
                    Binary::Equal,
                    Binary::NotEqual,
                    Binary::LessEqual,
                    Binary::Greater,
                ]);
                binary(operator, a, Expr::Literal(self.source.literal(ty)))
            }
        }
    }

    fn definition(&mut self, fits: impl Fn(&DefinitionBody) -> bool) -> Option<u16> {
        let fitting: Vec<_> = (0..self.definitions.len())
            .filter(|at| fits(&self.definitions[*at].body))
            .collect();
        (!fitting.is_empty())
            .then(|| fitting[self.source.below(fitting.len() as u64) as usize] as u16)
    }

    fn arithmetic(&mut self, ty: Type, depth: u32) -> Expr {
        let a = self.expr(ty, depth);
        let operator = self.source.pick(&[
            Binary::Modulo,
            Binary::Add,
            Binary::Divide,
            Binary::Subtract,
            Binary::Multiply,
            Binary::Modulo,
            Binary::BitAnd,
            Binary::ShiftRight,
            Binary::BitOr,
            Binary::BitXor,
            Binary::ShiftLeft,
        ]);
        let b = match self.source.chance(2) {
            true => self.expr(ty, depth),
            false => {
                let small = 1 + self.source.below(13);
                Expr::Literal(match ty {
                    Type::I64 => Literal::I64(small as i64),
                    _ => Literal::U64(small),
                })
            }
        };
        binary(operator, a, b)
    }

    fn signed(&mut self, depth: u32) -> Expr {
        match self.source.below(12) {
            0 => {
                let a = self.expr(Type::I64, depth);
                match a {
                    Expr::Literal(Literal::I64(0..)) => a,
                    a => Expr::Unary(Unary::Negate, Box::new(a)),
                }
            }
            1..=3 => self.calendar(),
            4 => {
                let at = self.definition(|it| {
                    matches!(
                        it,
                        DefinitionBody::Table { .. } | DefinitionBody::Ranges { .. }
                    )
                });
                let Some(at) = at else {
                    return self.arithmetic(Type::I64, depth);
                };
                let key = match &self.definitions[usize::from(at)].body {
                    DefinitionBody::Table { key, .. } | DefinitionBody::Ranges { key, .. } => *key,
                    _ => Type::I64,
                };
                Expr::Lookup(at, Box::new(self.expr(key, depth)))
            }
            5 => {
                let inner = self.expr(Type::U64, depth);
                let inner = binary(Binary::Modulo, inner, Expr::Literal(Literal::U64(64)));
                Expr::Call(Function::ToI64, vec![inner])
            }
            6 => {
                let function = self.source.pick(&[Function::Min, Function::Max]);
                let a = self.expr(Type::I64, depth);
                Expr::Call(function, vec![a, self.expr(Type::I64, depth)])
            }
            7 if self.flavour != Flavour::Exact => {
                let text = self.text(depth);
                let functions = [Function::ParseInt, Function::Length, Function::JavaHash];
                let function = self.source.pick(match self.flavour {
                    Flavour::Any => &functions,
                    Flavour::Exact | Flavour::Texts => &functions[..2],
                });
                Expr::Call(function, vec![text])
            }
            8 => Expr::Call(Function::Abs, vec![self.expr(Type::I64, depth)]),
            9 => Expr::Call(Function::Micros, vec![self.leaf(Type::Timestamp)]),
            _ => self.arithmetic(Type::I64, depth),
        }
    }

    fn unsigned(&mut self, depth: u32) -> Expr {
        match self.source.below(6) {
            0 | 1 if self.flavour == Flavour::Any => {
                let ty = self.some_type();
                let value = self.expr(ty, depth);
                let function = self.source.pick(&[
                    Function::Xxh3,
                    Function::Crc32,
                    Function::Fnv1a,
                    Function::Murmur3,
                ]);
                let mut arguments = vec![value];
                if self.source.chance(3) {
                    arguments.push(Expr::Literal(Literal::U64(self.source.below(9))));
                }
                Expr::Call(function, arguments)
            }
            2 if self.flavour == Flavour::Any => {
                match self.definition(|it| matches!(it, DefinitionBody::Nodes(_))) {
                    Some(at) => Expr::Lookup(at, Box::new(self.expr(Type::U64, depth))),
                    None => {
                        let key = self.expr(Type::U64, depth);
                        let n = Expr::Literal(Literal::U64(1 + self.source.below(40)));
                        Expr::Call(Function::Jump, vec![key, n])
                    }
                }
            }
            3 => {
                let a = self.expr(Type::I64, depth);
                let a = binary(Binary::Modulo, a, Expr::Literal(Literal::I64(100)));
                Expr::Call(Function::ToU64, vec![a])
            }
            _ => self.arithmetic(Type::U64, depth),
        }
    }

    fn text(&mut self, depth: u32) -> Expr {
        let number = |it: i64| Expr::Literal(Literal::I64(it));
        let mut text = match self.source.below(6) {
            0 => Expr::Call(Function::Text, vec![self.expr(Type::I64, depth)]),
            _ => self.leaf(Type::Str),
        };
        for _ in 0..self.source.below(3) {
            let count = self.source.below(4) as i64;
            text = match self.source.below(6) {
                0 => Expr::Call(Function::Lower, vec![text]),
                1 => Expr::Call(Function::Upper, vec![text]),
                2 => Expr::Call(Function::Left, vec![text, number(count)]),
                3 => Expr::Call(Function::Right, vec![text, number(count)]),
                4 => Expr::Call(Function::Substring, vec![text, number(count), number(2)]),
                _ => {
                    let separator = self.source.pick(&["-", "a", "--"]).to_owned();
                    let separator = Expr::Literal(Literal::Str(separator));
                    Expr::Call(
                        Function::SplitPart,
                        vec![text, separator, number(1 + count / 2)],
                    )
                }
            };
        }
        text
    }

    fn calendar(&mut self) -> Expr {
        let ty = self.source.pick(&[Type::Timestamp, Type::Date]);
        let value = match (ty, self.source.below(10)) {
            (Type::Timestamp, 0) => Expr::Call(Function::FromSeconds, vec![self.leaf(Type::I64)]),
            (Type::Timestamp, 1) => Expr::Call(Function::FromMillis, vec![self.leaf(Type::I64)]),
            (Type::Timestamp, 2) => Expr::Call(Function::FromMicros, vec![self.leaf(Type::I64)]),
            (Type::Date, 0) => Expr::Call(Function::Date, vec![self.leaf(Type::Timestamp)]),
            _ => self.leaf(ty),
        };
        let function = self.source.pick(&[
            Function::Minute,
            Function::Minutes,
            Function::Second,
            Function::Seconds,
            Function::Years,
            Function::Quarters,
            Function::IsoWeekYear,
            Function::Day,
            Function::Month,
            Function::DayOfWeek,
            Function::Days,
            Function::Months,
            Function::Year,
            Function::Weeks,
            Function::IsoWeek,
            Function::Quarter,
            Function::DayOfYear,
            Function::Hour,
            Function::Hours,
        ]);
        let function = match (ty, function) {
            (
                Type::Date,
                Function::Hour
                | Function::Hours
                | Function::Minute
                | Function::Minutes
                | Function::Second
                | Function::Seconds,
            ) => Function::Day,
            _ => function,
        };
        let mut arguments = vec![value];
        if ty == Type::Timestamp && self.source.chance(3) {
            let zone = self
                .source
                .pick(&["UTC", "America/Sao_Paulo", "Europe/Berlin"]);
            arguments.push(Expr::Literal(Literal::Str(zone.to_owned())));
        }
        Expr::Call(function, arguments)
    }
}

fn binary(operator: Binary, a: Expr, b: Expr) -> Expr {
    Expr::Binary(operator, Box::new(a), Box::new(b))
}
