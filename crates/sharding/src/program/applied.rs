//! One operation of a rule on its own: what enumeration asks when few arguments are possible.

use super::{Program, lower, op::Code, run::Record};
use crate::{
    rule::Expr,
    value::{Literal, Type, Value},
};

/// A function or lookup, ready for arguments.
pub(crate) struct Applied {
    code: Code,
    result: Type,
}

impl Program {
    /// The outermost operation of an expression, a call or lookup, on arguments of these types.
    pub(crate) fn applied(&self, expr: &Expr, types: &[Type]) -> Option<Applied> {
        let field = |at: usize| Expr::Field(u16::try_from(at).unwrap_or(u16::MAX));
        let expr = match expr {
            Expr::Call(function, arguments) => {
                Expr::Call(*function, (0..arguments.len()).map(field).collect())
            }
            Expr::Lookup(at, _) => Expr::Lookup(*at, Box::new(field(0))),
            _ => return None,
        };
        let code = lower::lower_operation(&self.rule, types, &expr).ok()?;
        let result = lower::type_of(&self.rule, types, &expr)?;
        Some(Applied { code, result })
    }
}

impl Applied {
    /// The answer, or none if it is an error.
    pub(crate) fn apply(&self, arguments: &[Value<'_>]) -> Option<Literal> {
        let record = Record {
            fields: arguments,
            nulls: &[],
        };
        let (scalar, blob) = self.code.run_expression(&record).ok()?;
        Some(match self.result {
            Type::Bool => Literal::Bool(scalar != 0),
            Type::I64 => Literal::I64(scalar as i64),
            Type::U64 => Literal::U64(scalar),
            Type::Date => Literal::Date(i32::try_from(scalar as i64).ok()?),
            Type::Timestamp => Literal::Timestamp(scalar as i64),
            Type::Str => Literal::Str(String::from_utf8(blob).ok()?),
            Type::Bytes => Literal::Bytes(blob),
            Type::Uuid => Literal::Uuid(blob.try_into().ok()?),
        })
    }
}
