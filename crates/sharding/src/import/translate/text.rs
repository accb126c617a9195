//! Texts and conditions of Groovy in our language.
//!
//! Must not know of numbers' bounds or of names.

use crate::import::ImportError;
use crate::import::groovy::{Expression, Node};

use super::{ColumnType, Translator, is_text, quoted};

impl Translator<'_> {
    /// A text, as an expression of our language.
    pub(super) fn text(&mut self, expression: &Expression) -> Result<String, ImportError> {
        let line = expression.line;
        match &expression.node {
            Node::Column(name) => self.column(line, name, ColumnType::Text),
            Node::Text(text) => Ok(quoted(text)),
            Node::Cast(ty, inner) if ty == "String" => self.text(inner),
            Node::Call(name, receiver, arguments) => {
                match (name.as_str(), receiver.as_deref(), arguments.as_slice()) {
                    ("toString", Some(inner), []) | ("String.valueOf", None, [inner]) => {
                        if let Node::Column(name) = &inner.node
                            && self.known(inner) != Some(ColumnType::Integer)
                        {
                            return self.column(line, name, ColumnType::Text);
                        }
                        Ok(format!("text({})", self.number(inner)?.text))
                    }
                    ("substring", Some(inner), [from, rest @ ..]) if rest.len() < 2 => {
                        self.substring(line, inner, from, rest.first())
                    }
                    ("right", None, [inner, size]) => {
                        let size = self.constant(size, 0, 1_000_000)?;
                        Ok(format!("right({}, {size})", self.text(inner)?))
                    }
                    _ => Err(ImportError::new(
                        line,
                        format!("the function '{name}' of a text cannot be imported"),
                    )),
                }
            }
            _ => Err(ImportError::new(line, "a text is expected here")),
        }
    }

    fn substring(
        &mut self,
        line: u32,
        inner: &Expression,
        from: &Expression,
        to: Option<&Expression>,
    ) -> Result<String, ImportError> {
        let from = self.constant(from, 0, 1_000_000)?;
        let count = match to {
            Some(to) => self.constant(to, from, 1_000_000)? - from,
            None => 1_000_000,
        };
        self.warn(
            line,
            "substring counts UTF-16 units there, characters here, and fails there for a text that is too short",
        );
        Ok(format!("substring({}, {from}, {count})", self.text(inner)?))
    }

    pub(super) fn condition(&mut self, expression: &Expression) -> Result<String, ImportError> {
        let line = expression.line;
        match &expression.node {
            Node::Not(inner) => Ok(format!("(not {})", self.condition(inner)?)),
            Node::Binary(sign @ ("&&" | "||"), left, right) => {
                let word = if *sign == "&&" { "and" } else { "or" };
                let (a, b) = (self.condition(left)?, self.condition(right)?);
                Ok(format!("({a} {word} {b})"))
            }
            Node::Binary(sign @ ("==" | "!=" | "<" | "<=" | ">" | ">="), left, right) => {
                let is_text = |it: &Self, side: &Expression| {
                    is_text(side) || it.known(side) == Some(ColumnType::Text)
                };
                let (a, b) = if is_text(self, left) || is_text(self, right) {
                    if !matches!(*sign, "==" | "!=") {
                        self.warn(
                            line,
                            "texts are ordered by UTF-16 units there, by UTF-8 bytes here",
                        );
                    }
                    (self.text(left)?, self.text(right)?)
                } else {
                    (self.number(left)?.text, self.number(right)?.text)
                };
                Ok(format!("({a} {sign} {b})"))
            }
            Node::Call(name, Some(inner), arguments)
                if name == "equals" && arguments.len() == 1 =>
            {
                let (a, b) = (self.text(inner)?, self.text(&arguments[0])?);
                Ok(format!("({a} == {b})"))
            }
            _ => Err(ImportError::new(line, "this condition cannot be imported")),
        }
    }
}
