//! The text of rules and conditions: words, grammar, names and types. The grammar itself is `grammar.lalrpop`, for people
//! in docs/rules.md. Knows nothing of evaluation.

mod literal;
mod nodes;
mod raw;
mod resolve;
mod template;
mod token;

lalrpop_util::lalrpop_mod!(
    #[allow(
        clippy::all,
        clippy::unwrap_used,
        unreachable_pub,
        unused,
        missing_docs,
        reason = "generated"
    )]
    grammar,
    "/text/grammar.rs"
);

use lalrpop_util::ParseError;

pub(crate) use literal::{form, from_text};
pub(crate) use raw::{At, Fault, RawExpr, RawList, RawLiteral, RawNode};
pub(crate) use resolve::Resolver;

use crate::{
    error::RuleError,
    limits,
    rule::{self, Rule},
};
use raw::{Builder, Whole};
use token::Token;

/// Reads a rule. The fault that is reported is the first one in the text.
pub fn parse(text: &str) -> Result<Rule, RuleError> {
    let Whole::Rule(raw) = read(Token::ARule, text)? else {
        return Err(RuleError::new("this is a condition, no rule"));
    };
    let rule = resolve::resolve(raw).map_err(|fault| located(text, fault))?;
    rule::check(&rule)?;
    Ok(rule)
}

/// Reads a rule from bytes that may be no text at all.
pub fn parse_bytes(bytes: &[u8]) -> Result<Rule, RuleError> {
    match std::str::from_utf8(bytes) {
        Ok(text) => parse(text),
        Err(error) => {
            let valid = bytes.get(..error.valid_up_to()).unwrap_or_default();
            let valid = String::from_utf8_lossy(valid);
            Err(RuleError::at(&valid, valid.len(), "not UTF-8"))
        }
    }
}

/// Reads a condition as far as the grammar goes.
pub(crate) fn parse_condition(text: &str) -> Result<RawExpr, RuleError> {
    match read(Token::ACondition, text)? {
        Whole::Condition(raw) => Ok(raw),
        Whole::Rule(_) => Err(RuleError::new("this is a rule, no condition")),
    }
}

/// Reads what the first token says.
fn read(what: Token<'_>, text: &str) -> Result<Whole, RuleError> {
    bounded(text)?;
    let tokens = std::iter::once(Ok((0, what, 0))).chain(token::tokens(text));
    grammar::WholeParser::new()
        .parse(&Builder::new(), tokens)
        .map_err(|error| located(text, syntax(text, error)))
}

fn bounded(text: &str) -> Result<(), RuleError> {
    if text.len() > limits::TEXT_BYTES_MAX {
        return Err(RuleError::new(format!(
            "the text has more than {} bytes",
            limits::TEXT_BYTES_MAX
        )));
    }
    Ok(())
}

pub(crate) fn located(text: &str, fault: Fault) -> RuleError {
    RuleError::at(text, fault.at, fault.message).expecting(fault.expected)
}

fn syntax(text: &str, error: ParseError<usize, Token<'_>, Fault>) -> Fault {
    match error {
        ParseError::User { error } => error,
        ParseError::InvalidToken { location } => Fault::new(location, "not understood"),
        ParseError::UnrecognizedEof { location, expected } => {
            Fault::new(location, "the text ends too early").expecting(words(expected))
        }
        ParseError::UnrecognizedToken {
            token: (from, _, to),
            expected,
        } => {
            let found = text.get(from..to).unwrap_or_default();
            let found: String = found.chars().take(40).collect();
            Fault::new(from, format!("{found} cannot stand here")).expecting(words(expected))
        }
        ParseError::ExtraToken { token: (from, ..) } => {
            Fault::new(from, "the text should end here")
        }
    }
}

/// What the parser expected, for people: where any name may stand, words that are names there are left out.
fn words(expected: Vec<String>) -> Vec<String> {
    let has_name = expected.iter().any(|it| it == "NAME");
    expected
        .into_iter()
        .map(|it| match it.as_str() {
            "NAME" => "a name".to_owned(),
            "NUMBER" => "a number".to_owned(),
            "TEXT" => "\"text\"".to_owned(),
            quoted => quoted.trim_matches('"').to_owned(),
        })
        .filter(|it| !has_name || !token::SOFT_WORDS.contains(&it.as_str()))
        .collect()
}

impl std::str::FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Rule, RuleError> {
        parse(text)
    }
}

#[cfg(test)]
pub(crate) mod tests;
