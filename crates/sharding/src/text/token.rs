//! Words and signs of the language. Knows nothing of grammar.

use logos::Logos;

#[derive(Logos, Clone, Copy, Debug, PartialEq, Eq)]
#[logos(skip r"[ \t\r\n]+")]
#[logos(skip(r"#[^\n]*", allow_greedy = true))]
pub(crate) enum Token<'t> {
    /// Nothing in a text: a rule follows.
    ARule,
    /// Nothing in a text: a condition follows.
    ACondition,
    #[token("and")]
    And,
    #[token("or")]
    Or,
    #[token("not")]
    Not,
    #[token("in")]
    In,
    #[token("if")]
    If,
    #[token("then")]
    Then,
    #[token("else")]
    Else,
    #[token("when")]
    When,
    #[token("let")]
    Let,
    #[token("is")]
    Is,
    #[token("between")]
    Between,
    #[token("true")]
    True,
    #[token("false")]
    False,
    // From here to `like`: words only where the grammar looks for them; names elsewhere.
    #[token("rule")]
    Rule,
    #[token("cache")]
    Cache,
    #[token("version")]
    Version,
    #[token("zone")]
    Zone,
    #[token("field")]
    Field,
    #[token("null")]
    Null,
    #[token("slot")]
    Slot,
    #[token("value")]
    Value,
    #[token("error")]
    Error,
    #[token("all")]
    All,
    #[token("dimension")]
    Dimension,
    #[token("to")]
    To,
    #[token("key")]
    Key,
    #[token("fixed")]
    Fixed,
    #[token("reversed")]
    Reversed,
    #[token("until")]
    Until,
    #[token("decimal")]
    Decimal,
    #[token("rest")]
    Rest,
    #[token("skip")]
    Skip,
    #[token("list")]
    List,
    #[token("table")]
    Table,
    #[token("ranges")]
    Ranges,
    #[token("ring")]
    Ring,
    #[token("rendezvous")]
    Rendezvous,
    #[token("maglev")]
    Maglev,
    #[token("weight")]
    Weight,
    #[token("virtual")]
    Virtual,
    #[token("entries")]
    Entries,
    #[token("seed")]
    Seed,
    #[token("bounded")]
    Bounded,
    #[token("script")]
    Script,
    #[token("place")]
    Place,
    #[token("cluster")]
    Cluster,
    #[token("domain")]
    Domain,
    #[token("step")]
    Step,
    #[token("data")]
    Data,
    #[token("like")]
    Like,
    #[token("(")]
    OpenParen,
    #[token(")")]
    CloseParen,
    #[token("[")]
    OpenBracket,
    #[token("]")]
    CloseBracket,
    #[token("{")]
    OpenBrace,
    #[token("}")]
    CloseBrace,
    #[token(",")]
    Comma,
    #[token(";")]
    Semicolon,
    #[token(":")]
    Colon,
    #[token("=")]
    Assign,
    #[token("=>")]
    Arrow,
    #[token("==")]
    Equal,
    #[token("!=")]
    #[token("<>")]
    NotEqual,
    #[token("<")]
    Less,
    #[token("<=")]
    LessEqual,
    #[token(">")]
    Greater,
    #[token(">=")]
    GreaterEqual,
    #[token("|")]
    Pipe,
    #[token("^")]
    Caret,
    #[token("&")]
    Ampersand,
    #[token("<<")]
    ShiftLeft,
    #[token(">>")]
    ShiftRight,
    #[token("+")]
    Plus,
    #[token("-")]
    Minus,
    #[token("*")]
    Star,
    #[token("/")]
    Slash,
    #[token("%")]
    Percent,
    #[regex(r"[A-Za-z_][A-Za-z0-9_]*")]
    Name(&'t str),
    #[regex(r"[0-9][0-9_]*u?")]
    Number(&'t str),
    /// With its quotes and escapes.
    #[regex(r#""([^"\\]|\\.)*""#)]
    #[regex(r#"'([^'\\]|\\.)*'"#)]
    Text(&'t str),
}

/// How the grammar calls the words that are names elsewhere: left out where a name is expected anyway.
pub(crate) const SOFT_WORDS: &[&str] = &[
    "rule",
    "cache",
    "version",
    "zone",
    "field",
    "null",
    "slot",
    "value",
    "error",
    "all",
    "dimension",
    "to",
    "key",
    "fixed",
    "reversed",
    "until",
    "decimal",
    "rest",
    "skip",
    "list",
    "table",
    "ranges",
    "ring",
    "rendezvous",
    "maglev",
    "weight",
    "virtual",
    "entries",
    "seed",
    "bounded",
    "script",
    "place",
    "cluster",
    "domain",
    "step",
    "data",
    "like",
];

/// The tokens of a text with where they begin and end, bytes; an error is where no token begins.
pub(crate) fn tokens(
    text: &str,
) -> impl Iterator<Item = Result<(usize, Token<'_>, usize), super::raw::Fault>> {
    Token::lexer(text)
        .spanned()
        .map(|(token, span)| match token {
            Ok(token) => Ok((span.start, token, span.end)),
            Err(()) => Err(super::raw::Fault::new(
                span.start,
                "no word or sign of the language begins here",
            )),
        })
}

/// The text that a quoted token stands for.
pub(crate) fn unquote(quoted: &str, at: usize) -> Result<String, super::raw::Fault> {
    let inner = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or("");
    let mut text = String::with_capacity(inner.len());
    let mut characters = inner.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            text.push(character);
            continue;
        }
        match characters.next() {
            Some('n') => text.push('\n'),
            Some('t') => text.push('\t'),
            Some('r') => text.push('\r'),
            Some('0') => text.push('\0'),
            Some(same @ ('\\' | '"' | '\'')) => text.push(same),
            Some('u') => text.push(unicode(&mut characters, at)?),
            _ => return Err(bad_escape(at)),
        }
    }
    Ok(text)
}

/// `{1f600}` after `\u`.
fn unicode(characters: &mut std::str::Chars<'_>, at: usize) -> Result<char, super::raw::Fault> {
    let rest = characters.as_str();
    let (digits, after) = rest
        .strip_prefix('{')
        .and_then(|rest| rest.split_once('}'))
        .ok_or_else(|| bad_escape(at))?;
    *characters = after.chars();
    u32::from_str_radix(digits, 16)
        .ok()
        .and_then(char::from_u32)
        .ok_or_else(|| bad_escape(at))
}

fn bad_escape(at: usize) -> super::raw::Fault {
    super::raw::Fault::new(at, "unknown escape in text")
        .expecting([r"\n", r"\t", r"\r", r"\0", r"\\", r#"\""#, r"\u{…}"])
}
