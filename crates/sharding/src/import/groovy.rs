//! The part of Groovy that sharding rules are written in: arithmetic, comparison, conditionals, concatenation, calls.
//!
//! Reads text into a tree with lines; knows nothing of what the calls mean. Statements other than `return` and
//! `if`/`else`, loops and closures are refused by name. Must not know of our own language.

use super::{ImportError, limits};

/// An expression and the line it stands in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Expression {
    pub(super) line: u32,
    pub(super) node: Node,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Node {
    Integer(i64),
    Text(String),
    /// A column: a bare name, or what stands between TDDL's `#` signs.
    Column(String),
    /// `-a`
    Negate(Box<Expression>),
    /// `!a`
    Not(Box<Expression>),
    Binary(&'static str, Box<Expression>, Box<Expression>),
    /// `condition ? a : b`, and `if`/`else` whose branches return.
    Conditional(Box<[Expression; 3]>),
    /// `(long) a`
    Cast(String, Box<Expression>),
    /// `f(a)`, `a.f(b)`, `Math.abs(a)`: the name with what stands before it if that is a class, the receiver, arguments.
    Call(String, Option<Box<Expression>>, Vec<Expression>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Integer(i64),
    Text(String),
    Name(String),
    Column(String),
    Sign(&'static str),
}

/// All signs, longer ones before their beginnings.
const SIGNS: &[&str] = &[
    ">>>", "==", "!=", "<=", ">=", "&&", "||", "<<", ">>", "+", "-", "*", "/", "%", "(", ")", "{",
    "}", "[", "]", ",", ".", ";", "?", ":", "<", ">", "!", "=", "&", "|", "^", "~",
];

/// Binary operators by how tightly they bind, the loosest first.
const LEVELS: &[&[&str]] = &[
    &["||"],
    &["&&"],
    &["==", "!="],
    &["<", "<=", ">", ">="],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

/// Types that casts name.
const TYPES: &[&str] = &[
    "long", "int", "Long", "Integer", "String", "short", "Number",
];

/// Reads an expression or a body that returns one; the text begins in `line` of its document.
pub(super) fn parse(text: &str, line: u32) -> Result<Expression, ImportError> {
    let tokens = tokens(text, line)?;
    let last = tokens.last().map_or(line, |(line, _)| *line);
    let mut parser = Parser {
        tokens: &tokens,
        at: 0,
        last,
        depth: 0,
    };
    let body = parser.statement()?;
    while parser.takes(";") {}
    match parser.tokens.get(parser.at) {
        None => Ok(body),
        Some((line, token)) => Err(ImportError::new(
            *line,
            format!("{} cannot be imported here", describe(token)),
        )),
    }
}

fn describe(token: &Token) -> String {
    match token {
        Token::Integer(number) => format!("the number {number}"),
        Token::Text(text) => format!("the text \"{text}\""),
        Token::Name(name) => format!("'{name}'"),
        Token::Column(name) => format!("#{name}#"),
        Token::Sign(sign) => format!("'{sign}'"),
    }
}

fn tokens(text: &str, first_line: u32) -> Result<Vec<(u32, Token)>, ImportError> {
    let mut tokens = Vec::new();
    let mut line = first_line;
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        if next == '\n' {
            line += 1;
        }
        if next.is_whitespace() {
            rest = &rest[next.len_utf8()..];
            continue;
        }
        if let Some(comment) = rest.strip_prefix("//") {
            rest = &comment[comment.find('\n').unwrap_or(comment.len())..];
            continue;
        }
        let (token, length) = token(rest, next, line)?;
        line += newlines(&rest[..length]);
        rest = &rest[length..];
        tokens.push((line, token));
        if tokens.len() > limits::TOKENS_MAX {
            let message = format!("the expression is longer than {} words", limits::TOKENS_MAX);
            return Err(ImportError::new(line, message));
        }
    }
    Ok(tokens)
}

/// Lines that a piece of a bounded document ends.
fn newlines(text: &str) -> u32 {
    u32::try_from(text.matches('\n').count()).unwrap_or(u32::MAX)
}

fn token(rest: &str, next: char, line: u32) -> Result<(Token, usize), ImportError> {
    let fault = |message: String| ImportError::new(line, message);
    if next.is_ascii_digit() {
        let digits = rest.len()
            - rest
                .trim_start_matches(|it: char| it.is_ascii_digit())
                .len();
        let number = rest[..digits]
            .parse()
            .map_err(|_| fault(format!("the number {} is too large", &rest[..digits])))?;
        let after = rest[digits..].chars().next();
        return match after {
            Some('L' | 'l') => Ok((Token::Integer(number), digits + 1)),
            Some(it) if it.is_alphanumeric() || it == '_' => Err(fault(format!(
                "'{}{it}' is no whole number",
                &rest[..digits]
            ))),
            _ => Ok((Token::Integer(number), digits)),
        };
    }
    if next == '"' || next == '\'' {
        let inner = &rest[1..];
        let end = inner
            .find(next)
            .ok_or_else(|| fault("a text without an end".to_owned()))?;
        let text = &inner[..end];
        if text.contains(['\\', '$']) {
            return Err(fault(format!(
                "the text \"{text}\" with \\ or $ cannot be imported"
            )));
        }
        return Ok((Token::Text(text.to_owned()), end + 2));
    }
    if next == '#' {
        let inner = &rest[1..];
        let end = inner
            .find('#')
            .ok_or_else(|| fault("a column without its second #".to_owned()))?;
        return Ok((Token::Column(inner[..end].to_owned()), end + 2));
    }
    if next.is_alphabetic() || next == '_' {
        let end = rest
            .find(|it: char| !it.is_alphanumeric() && it != '_')
            .unwrap_or(rest.len());
        return Ok((Token::Name(rest[..end].to_owned()), end));
    }
    SIGNS
        .iter()
        .find(|sign| rest.starts_with(**sign))
        .map(|sign| (Token::Sign(sign), sign.len()))
        .ok_or_else(|| fault(format!("'{next}' cannot be imported")))
}

struct Parser<'a> {
    tokens: &'a [(u32, Token)],
    at: usize,
    /// The last line, for what is missing at the end.
    last: u32,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(_, token)| token)
    }

    fn line(&self) -> u32 {
        self.tokens
            .get(self.at)
            .map_or(self.last, |(line, _)| *line)
    }

    fn takes(&mut self, sign: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Sign(it)) if *it == sign);
        self.at += usize::from(found);
        found
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Name(it)) if it == word);
        self.at += usize::from(found);
        found
    }

    fn wants(&mut self, sign: &str) -> Result<(), ImportError> {
        if self.takes(sign) {
            return Ok(());
        }
        let found = self.peek().map_or("the end".to_owned(), describe);
        Err(ImportError::new(
            self.line(),
            format!("{found} where '{sign}' is expected"),
        ))
    }

    /// Runs a rule of the grammar one level deeper.
    fn deeper<T>(
        &mut self,
        rule: impl FnOnce(&mut Self) -> Result<T, ImportError>,
    ) -> Result<T, ImportError> {
        if self.depth == limits::DEPTH_MAX {
            let message = format!("the expression is deeper than {}", limits::DEPTH_MAX);
            return Err(ImportError::new(self.line(), message));
        }
        self.depth += 1;
        let result = rule(self);
        self.depth -= 1;
        result
    }

    fn statement(&mut self) -> Result<Expression, ImportError> {
        self.deeper(|it| {
            let line = it.line();
            if it.takes("{") {
                let body = it.statement()?;
                while it.takes(";") {}
                it.wants("}")?;
                return Ok(body);
            }
            if it.takes_word("if") {
                it.wants("(")?;
                let condition = it.expression()?;
                it.wants(")")?;
                let then = it.statement()?;
                while it.takes(";") {}
                // Without `else` the other branch is what follows: both return.
                it.takes_word("else");
                let otherwise = it.statement()?;
                return Ok(Expression {
                    line,
                    node: Node::Conditional(Box::new([condition, then, otherwise])),
                });
            }
            if let Some(Token::Name(word)) = it.peek()
                && ["def", "for", "while", "switch", "import", "try"].contains(&word.as_str())
            {
                return Err(ImportError::new(
                    line,
                    format!("the statement '{word}' cannot be imported"),
                ));
            }
            it.takes_word("return");
            it.expression()
        })
    }

    fn expression(&mut self) -> Result<Expression, ImportError> {
        self.deeper(|it| {
            let condition = it.level(0)?;
            if !it.takes("?") {
                return Ok(condition);
            }
            let then = it.expression()?;
            it.wants(":")?;
            let otherwise = it.expression()?;
            Ok(Expression {
                line: condition.line,
                node: Node::Conditional(Box::new([condition, then, otherwise])),
            })
        })
    }

    fn level(&mut self, level: usize) -> Result<Expression, ImportError> {
        let Some(signs) = LEVELS.get(level) else {
            return self.deeper(Self::unary);
        };
        let mut left = self.level(level + 1)?;
        let mut links = 0;
        while let Some(sign) = signs.iter().find(|sign| self.takes(sign)) {
            let right = self.level(level + 1)?;
            left = Expression {
                line: left.line,
                node: Node::Binary(sign, Box::new(left), Box::new(right)),
            };
            links += 1;
            // A chain becomes a tree as deep as it is long.
            if links > limits::DEPTH_MAX {
                let message = format!("more than {} operations in a row", limits::DEPTH_MAX);
                return Err(ImportError::new(self.line(), message));
            }
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expression, ImportError> {
        let line = self.line();
        if self.takes("-") {
            let inner = Box::new(self.deeper(Self::unary)?);
            return Ok(Expression {
                line,
                node: Node::Negate(inner),
            });
        }
        if self.takes("!") {
            let inner = Box::new(self.deeper(Self::unary)?);
            return Ok(Expression {
                line,
                node: Node::Not(inner),
            });
        }
        if let [
            (_, Token::Sign("(")),
            (_, Token::Name(name)),
            (_, Token::Sign(")")),
            ..,
        ] = &self.tokens[self.at.min(self.tokens.len())..]
            && TYPES.contains(&name.as_str())
        {
            let name = name.clone();
            self.at += 3;
            let inner = Box::new(self.deeper(Self::unary)?);
            return Ok(Expression {
                line,
                node: Node::Cast(name, inner),
            });
        }
        self.postfix()
    }

    fn postfix(&mut self) -> Result<Expression, ImportError> {
        let mut value = self.primary()?;
        let mut links = 0;
        while self.takes(".") {
            let line = self.line();
            let Some(Token::Name(method)) = self.peek().cloned() else {
                return Err(ImportError::new(line, "a method without a name"));
            };
            self.at += 1;
            self.wants("(")?;
            let arguments = self.arguments()?;
            // A class in front is part of the name.
            value = match value.node {
                Node::Column(class) if class.starts_with(|it: char| it.is_ascii_uppercase()) => {
                    Expression {
                        line,
                        node: Node::Call(format!("{class}.{method}"), None, arguments),
                    }
                }
                _ => Expression {
                    line,
                    node: Node::Call(method, Some(Box::new(value)), arguments),
                },
            };
            links += 1;
            if links > limits::DEPTH_MAX {
                let message = format!("more than {} calls in a row", limits::DEPTH_MAX);
                return Err(ImportError::new(line, message));
            }
        }
        Ok(value)
    }

    fn arguments(&mut self) -> Result<Vec<Expression>, ImportError> {
        let mut arguments = Vec::new();
        if self.takes(")") {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.expression()?);
            if !self.takes(",") {
                break;
            }
        }
        self.wants(")")?;
        Ok(arguments)
    }

    fn primary(&mut self) -> Result<Expression, ImportError> {
        let line = self.line();
        if self.takes("(") {
            let inner = self.expression()?;
            self.wants(")")?;
            return Ok(inner);
        }
        let Some(token) = self.peek().cloned() else {
            return Err(ImportError::new(line, "the expression ends too early"));
        };
        self.at += 1;
        let node = match token {
            Token::Integer(number) => Node::Integer(number),
            Token::Text(text) => Node::Text(text),
            Token::Column(name) => Node::Column(name),
            Token::Name(name) if self.takes("(") => Node::Call(name, None, self.arguments()?),
            Token::Name(name) => Node::Column(name),
            Token::Sign(sign) => {
                return Err(ImportError::new(
                    line,
                    format!("'{sign}' cannot be imported here"),
                ));
            }
        };
        Ok(Expression { line, node })
    }
}
