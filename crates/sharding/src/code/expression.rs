//! Expressions as stack code: operands first, then what is done with them. `and`, `or` and `if` skip forward.

use super::{decode::Reader, encode::Writer};
use crate::{
    error::RuleError,
    limits,
    rule::{Binary, Expr, Function, ListRef, Unary},
};

/// Instructions. Numbers never change.
mod op {
    /// Type and value follow: pushes a constant.
    pub(super) const LITERAL: u8 = 0x01;
    /// Number follows: pushes a field.
    pub(super) const FIELD: u8 = 0x02;
    /// Number follows: pushes a let.
    pub(super) const LOCAL: u8 = 0x03;
    /// A list follows: is the top in it?
    pub(super) const IN_LIST: u8 = 0x04;
    /// Number of a definition follows: is the top in that list?
    pub(super) const IN_NAMED: u8 = 0x05;
    /// Function and number of arguments follow.
    pub(super) const CALL: u8 = 0x06;
    /// Number of a definition follows: looks the top up in it.
    pub(super) const LOOKUP: u8 = 0x07;
    /// Distance follows: if the top is false, keeps it and jumps; else drops it.
    pub(super) const AND: u8 = 0x08;
    /// Distance follows: if the top is true, keeps it and jumps; else drops it.
    pub(super) const OR: u8 = 0x09;
    /// Distance follows: drops the top and jumps if it was false.
    pub(super) const UNLESS: u8 = 0x0a;
    /// Distance follows: jumps.
    pub(super) const JUMP: u8 = 0x0b;
    /// Plus the operator's number.
    pub(super) const UNARY: u8 = 0x10;
    /// Plus the operator's number.
    pub(super) const BINARY: u8 = 0x20;
}

/// The code of an expression.
pub(super) fn encode(expr: &Expr) -> Vec<u8> {
    let mut out = Writer::default();
    write(expr, &mut out);
    out.bytes
}

fn write(expr: &Expr, out: &mut Writer) {
    match expr {
        Expr::Literal(literal) => {
            out.byte(op::LITERAL);
            out.literal(literal);
        }
        Expr::Field(at) => {
            out.byte(op::FIELD);
            out.unsigned(u64::from(*at));
        }
        Expr::Local(at) => {
            out.byte(op::LOCAL);
            out.unsigned(u64::from(*at));
        }
        Expr::Unary(operator, a) => {
            write(a, out);
            out.byte(op::UNARY + *operator as u8);
        }
        Expr::Binary(operator @ (Binary::And | Binary::Or), a, b) => {
            write(a, out);
            out.byte(match operator {
                Binary::And => op::AND,
                _ => op::OR,
            });
            out.blob(&encode(b));
        }
        Expr::Binary(operator, a, b) => {
            write(a, out);
            write(b, out);
            out.byte(op::BINARY + *operator as u8);
        }
        Expr::If(parts) => {
            let [condition, then, otherwise] = &**parts;
            write(condition, out);
            let otherwise = encode(otherwise);
            let mut inner = Writer::default();
            write(then, &mut inner);
            inner.byte(op::JUMP);
            inner.count(otherwise.len());
            out.byte(op::UNLESS);
            out.blob(&inner.bytes);
            out.bytes.extend_from_slice(&otherwise);
        }
        Expr::In(a, list) => {
            write(a, out);
            match list {
                ListRef::Inline(entries) => {
                    out.byte(op::IN_LIST);
                    out.list(entries);
                }
                ListRef::Named(at) => {
                    out.byte(op::IN_NAMED);
                    out.unsigned(u64::from(*at));
                }
            }
        }
        Expr::Call(function, arguments) => {
            arguments.iter().for_each(|it| write(it, out));
            out.byte(op::CALL);
            out.byte(*function as u8);
            out.count(arguments.len());
        }
        Expr::Lookup(at, argument) => {
            write(argument, out);
            out.byte(op::LOOKUP);
            out.unsigned(u64::from(*at));
        }
    }
}

/// Something that is open until a place in the code is reached.
enum Open {
    Binary(Binary, Operand, usize),
    Then(Operand, usize),
    Else(Operand, Operand, usize),
}

struct Operand {
    expr: Expr,
    depth: usize,
}

/// Runs the code on expressions instead of values.
struct Decoder<'r, 'b> {
    reader: &'r mut Reader<'b>,
    stack: Vec<Operand>,
    open: Vec<Open>,
    /// How much of the stack belongs to what is open: a branch must not reach below.
    floor: Vec<usize>,
}

/// The expression of `length` bytes of code.
pub(super) fn decode(reader: &mut Reader<'_>, length: usize) -> Result<Expr, RuleError> {
    let end = reader.end_of(length)?;
    let mut decoder = Decoder {
        reader,
        stack: Vec::new(),
        open: Vec::new(),
        floor: Vec::new(),
    };
    loop {
        decoder.close()?;
        if decoder.reader.at() >= end {
            break;
        }
        decoder.step(end)?;
    }
    if decoder.reader.at() != end || !decoder.open.is_empty() {
        return Err(RuleError::new("bytecode: an expression is open at its end"));
    }
    match (decoder.stack.pop(), decoder.stack.is_empty()) {
        (Some(operand), true) => Ok(operand.expr),
        _ => Err(RuleError::new(
            "bytecode: an expression leaves not one value",
        )),
    }
}

impl Decoder<'_, '_> {
    fn pop(&mut self) -> Result<Operand, RuleError> {
        if self.stack.len() <= self.floor.last().copied().unwrap_or(0) {
            return Err(RuleError::new("bytecode: the stack is empty"));
        }
        self.stack
            .pop()
            .ok_or_else(|| RuleError::new("bytecode: the stack is empty"))
    }

    fn push(&mut self, expr: Expr, below: usize) -> Result<(), RuleError> {
        self.reader.count_node()?;
        if below >= limits::DEPTH_MAX || self.stack.len() >= limits::STACK_MAX {
            return Err(RuleError::new(format!(
                "bytecode: an expression deeper than {}",
                limits::DEPTH_MAX
            )));
        }
        self.stack.push(Operand {
            expr,
            depth: below + 1,
        });
        Ok(())
    }

    /// The one value that an open branch left.
    fn branch(&mut self) -> Result<Operand, RuleError> {
        let floor = self.floor.pop().unwrap_or(0);
        if self.stack.len() != floor + 1 {
            return Err(RuleError::new("bytecode: a branch leaves not one value"));
        }
        self.stack
            .pop()
            .ok_or_else(|| RuleError::new("bytecode: the stack is empty"))
    }

    /// Closes what ends here.
    fn close(&mut self) -> Result<(), RuleError> {
        let at = self.reader.at();
        loop {
            match self.open.last() {
                Some(Open::Binary(.., end) | Open::Else(.., end)) if *end == at => {}
                Some(Open::Then(_, end)) if *end <= at => {
                    return Err(RuleError::new("bytecode: then without else"));
                }
                Some(Open::Binary(.., end) | Open::Else(.., end)) if *end < at => {
                    return Err(RuleError::new("bytecode: a jump into an instruction"));
                }
                _ => return Ok(()),
            }
            let right = self.branch()?;
            match self.open.pop() {
                Some(Open::Binary(operator, left, _)) => {
                    let depth = left.depth.max(right.depth);
                    let expr = Expr::Binary(operator, Box::new(left.expr), Box::new(right.expr));
                    self.push(expr, depth)?;
                }
                Some(Open::Else(condition, then, _)) => {
                    let depth = condition.depth.max(then.depth).max(right.depth);
                    let parts = [condition.expr, then.expr, right.expr];
                    self.push(Expr::If(Box::new(parts)), depth)?;
                }
                _ => return Err(RuleError::new("bytecode: nothing is open")),
            }
        }
    }

    fn step(&mut self, end: usize) -> Result<(), RuleError> {
        match self.reader.byte()? {
            op::LITERAL => {
                let literal = self.reader.literal()?;
                self.push(Expr::Literal(literal), 0)
            }
            op::FIELD => {
                let at = self.reader.small()?;
                self.push(Expr::Field(at), 0)
            }
            op::LOCAL => {
                let at = self.reader.small()?;
                self.push(Expr::Local(at), 0)
            }
            op::IN_LIST => {
                let a = self.pop()?;
                let list = self.reader.list()?;
                self.push(Expr::In(Box::new(a.expr), ListRef::Inline(list)), a.depth)
            }
            op::IN_NAMED => {
                let a = self.pop()?;
                let list = ListRef::Named(self.reader.small()?);
                self.push(Expr::In(Box::new(a.expr), list), a.depth)
            }
            op::CALL => self.call(),
            op::LOOKUP => {
                let a = self.pop()?;
                let at = self.reader.small()?;
                self.push(Expr::Lookup(at, Box::new(a.expr)), a.depth)
            }
            lazy @ (op::AND | op::OR) => {
                let operator = if lazy == op::AND {
                    Binary::And
                } else {
                    Binary::Or
                };
                let left = self.pop()?;
                let target = self.target(end)?;
                self.open(Open::Binary(operator, left, target))
            }
            op::UNLESS => {
                let condition = self.pop()?;
                let target = self.target(end)?;
                self.open(Open::Then(condition, target))
            }
            op::JUMP => self.otherwise(end),
            other => self.operator(other),
        }
    }

    fn open(&mut self, open: Open) -> Result<(), RuleError> {
        if self.open.len() >= limits::DEPTH_MAX {
            return Err(RuleError::new("bytecode: too many open branches"));
        }
        self.floor.push(self.stack.len());
        self.open.push(open);
        Ok(())
    }

    /// Where a jump over the next bytes lands; never behind what is open already.
    fn target(&mut self, end: usize) -> Result<usize, RuleError> {
        let length = self.reader.count(limits::CODE_BYTES_MAX)?;
        let target = self.reader.end_of(length)?;
        let bound = self.open.last().map_or(end, |open| match open {
            Open::Binary(.., end) | Open::Then(_, end) | Open::Else(.., end) => *end,
        });
        if target > bound {
            return Err(RuleError::new("bytecode: a jump out of its branch"));
        }
        Ok(target)
    }

    /// The end of a then, which is the beginning of its else.
    fn otherwise(&mut self, end: usize) -> Result<(), RuleError> {
        let then = self.branch()?;
        let Some(Open::Then(condition, start)) = self.open.pop() else {
            return Err(RuleError::new("bytecode: a jump without a condition"));
        };
        let target = self.target(end)?;
        if self.reader.at() != start {
            return Err(RuleError::new("bytecode: then and else do not meet"));
        }
        self.open(Open::Else(condition, then, target))
    }

    fn call(&mut self) -> Result<(), RuleError> {
        let number = self.reader.byte()?;
        let function = Function::from_number(number)
            .ok_or_else(|| RuleError::new(format!("bytecode: there is no function {number}")))?;
        let count = self.reader.count(function.arguments_max())?;
        let mut arguments = Vec::with_capacity(count);
        let mut depth = 0;
        for _ in 0..count {
            let argument = self.pop()?;
            depth = depth.max(argument.depth);
            arguments.push(argument.expr);
        }
        arguments.reverse();
        self.push(Expr::Call(function, arguments), depth)
    }

    fn operator(&mut self, code: u8) -> Result<(), RuleError> {
        let unary = [Unary::Negate, Unary::Not];
        let unary = unary.into_iter().find(|it| op::UNARY + *it as u8 == code);
        if let Some(operator) = unary {
            let a = self.pop()?;
            return self.push(Expr::Unary(operator, Box::new(a.expr)), a.depth);
        }
        let operator = Binary::ALL
            .into_iter()
            .filter(|it| !matches!(it, Binary::And | Binary::Or))
            .find(|it| op::BINARY + *it as u8 == code)
            .ok_or_else(|| RuleError::new(format!("bytecode: there is no instruction {code}")))?;
        let b = self.pop()?;
        let a = self.pop()?;
        let depth = a.depth.max(b.depth);
        self.push(
            Expr::Binary(operator, Box::new(a.expr), Box::new(b.expr)),
            depth,
        )
    }
}
