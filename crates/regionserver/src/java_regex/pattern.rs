//! A pattern of Java, written anew for the `regex` crate: read once from left to right, with the flags that hold at each place.
//!
//! What comes out uses no flags but those it names itself, no captures and no short forms whose meaning differs.

use super::Flags;
use super::named::{self, VERTICAL};

/// Groups and classes inside of each other at most (INV-9): the reader calls itself for each.
const DEPTH_MAX: usize = 100;

/// Where a line ends, for `.` without DOTALL; `\r\n` is two of them.
const LINE_END: &str = r"\x{a}\x{d}\x{85}\x{2028}\x{2029}";

/// Writes a pattern anew.
///
/// # Errors
/// Why it cannot be used.
pub(super) fn translate(pattern: &str, flags: Flags) -> Result<String, String> {
    if flags.has(Flags::CANON_EQ) {
        return Err("canonical equivalence is not supported".to_owned());
    }
    let mut reader = Reader {
        chars: pattern.chars().collect(),
        at: 0,
        flags,
        depth: 0,
        out: String::new(),
    };
    if flags.has(Flags::LITERAL) {
        for c in pattern.chars() {
            reader.literal(c);
        }
    } else {
        reader.alternatives(false)?;
    }
    Ok(reader.out)
}

/// What an escape stands for.
enum Escaped {
    Char(char),
    /// Items of a bracketed class, and whether it is negated.
    Class(String, bool),
    /// A place, not a character; not inside of a class.
    Place(String),
}

/// One thing in a bracketed class.
enum Item {
    Char(char),
    Class(String),
}

struct Reader {
    chars: Vec<char>,
    at: usize,
    flags: Flags,
    depth: usize,
    out: String,
}

impl Reader {
    /// The next character as it stands.
    fn raw(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn next_raw(&mut self) -> Option<char> {
        let c = self.raw()?;
        self.at += 1;
        Some(c)
    }

    fn take(&mut self, c: char) -> bool {
        let is_next = self.raw() == Some(c);
        self.at += usize::from(is_next);
        is_next
    }

    /// The next character that counts: with COMMENTS, behind white space and remarks.
    fn peek(&mut self) -> Option<char> {
        if self.flags.has(Flags::COMMENTS) {
            while let Some(c) = self.raw() {
                match c {
                    ' ' | '\t'..='\r' => self.at += 1,
                    '#' => {
                        let unix = self.flags.has(Flags::UNIX_LINES);
                        let ends = |c: char| match unix {
                            true => c == '\n',
                            false => matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}'),
                        };
                        while self.raw().is_some_and(|c| !ends(c)) {
                            self.at += 1;
                        }
                    }
                    _ => break,
                }
            }
        }
        self.raw()
    }

    /// Goes one level down for some work.
    fn deeper<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<T, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("more than {DEPTH_MAX} groups inside of each other"));
        }
        let done = work(self);
        self.depth -= 1;
        done
    }

    /// Everything up to the end of the pattern, or of the group.
    fn alternatives(&mut self, in_group: bool) -> Result<(), String> {
        loop {
            match self.peek() {
                None if in_group => return Err("a group is not closed".to_owned()),
                None => return Ok(()),
                Some(')') if in_group => {
                    self.at += 1;
                    return Ok(());
                }
                Some(')') => return Err("a ')' closes no group".to_owned()),
                Some('|') => {
                    self.at += 1;
                    self.out.push('|');
                }
                Some(c) => {
                    self.at += 1;
                    if self.atom(c)? {
                        self.quantifier()?;
                    }
                }
            }
        }
    }

    /// Writes one atom; false if it was none, but flags.
    fn atom(&mut self, c: char) -> Result<bool, String> {
        match c {
            '.' => {
                let any = match (
                    self.flags.has(Flags::DOTALL),
                    self.flags.has(Flags::UNIX_LINES),
                ) {
                    (true, _) => "(?s:.)".to_owned(),
                    (false, true) => r"[^\x{a}]".to_owned(),
                    (false, false) => format!("[^{LINE_END}]"),
                };
                self.out.push_str(&any);
            }
            '^' | '$' if self.flags.has(Flags::MULTILINE) => {
                // Of Java's other line ends the crate knows none.
                let crlf = match self.flags.has(Flags::UNIX_LINES) {
                    true => "",
                    false => "R",
                };
                self.out.push_str(&format!("(?m{crlf}:{c})"));
            }
            '^' => self.out.push_str(r"(?:\A)"),
            '$' => {
                let end = self.end_of_input();
                self.out.push_str(&end);
            }
            '[' => {
                let class = self.deeper(Self::class)?;
                // Without case as the crate folds it, which is Unicode's simple folding.
                match self.flags.folds_all() {
                    true => self.out.push_str(&format!("(?i:{class})")),
                    false => self.out.push_str(&class),
                }
            }
            '(' => return self.group(),
            '\\' => return self.escaped_atom(),
            '*' | '+' | '?' => return Err(format!("nothing stands before '{c}' to be repeated")),
            '{' => return Err("'{' repeats nothing".to_owned()),
            c => self.literal(c),
        }
        Ok(true)
    }

    /// The end, or what is before a last line end; it takes that line end, which makes no difference to whether something is found
    /// unless the pattern goes on with it.
    fn end_of_input(&self) -> String {
        match self.flags.has(Flags::UNIX_LINES) {
            true => r"(?:\x{a}?\z)".to_owned(),
            false => format!(r"(?:(?:\x{{d}}\x{{a}}|[{LINE_END}])?\z)"),
        }
    }

    /// A character that stands for itself.
    fn literal(&mut self, c: char) {
        let code = u32::from(c);
        let other = other_case(c);
        let text = match other {
            Some(other) if self.flags.folds_ascii() => {
                format!(r"[\x{{{code:x}}}\x{{{:x}}}]", u32::from(other))
            }
            _ if self.flags.folds_all() => format!(r"(?i:\x{{{code:x}}})"),
            _ => format!(r"\x{{{code:x}}}"),
        };
        self.out.push_str(&text);
    }

    fn quantifier(&mut self) -> Result<(), String> {
        let repeated = match self.peek() {
            Some(c @ ('*' | '+' | '?')) => {
                self.at += 1;
                c.to_string()
            }
            Some('{') => {
                self.at += 1;
                self.repetition()?
            }
            _ => return Ok(()),
        };
        self.out.push_str(&repeated);
        match self.peek() {
            Some('?') => {
                self.at += 1;
                self.out.push('?');
            }
            Some('+') => return Err("possessive quantifiers are not supported".to_owned()),
            _ => {}
        }
        match self.peek() {
            Some('{') => Err("a repetition of a repetition".to_owned()),
            _ => Ok(()),
        }
    }

    /// What follows a `{`: one or two numbers.
    fn repetition(&mut self) -> Result<String, String> {
        let number = |reader: &mut Self| {
            let mut digits = String::new();
            while let Some(c) = reader.raw().filter(char::is_ascii_digit) {
                reader.at += 1;
                digits.push(c);
            }
            digits
        };
        let least = number(self);
        if least.is_empty() {
            return Err("'{' without a number of repetitions".to_owned());
        }
        let rest = match self.take(',') {
            true => format!(",{}", number(self)),
            false => String::new(),
        };
        if !self.take('}') {
            return Err("a repetition is not closed".to_owned());
        }
        Ok(format!("{{{least}{rest}}}"))
    }

    /// What follows a `(`; false if it was flags for what comes.
    fn group(&mut self) -> Result<bool, String> {
        let before = self.flags;
        if self.take('?') {
            match self.raw() {
                Some(':') => self.at += 1,
                Some('=' | '!') => return Err("look-ahead is not supported".to_owned()),
                Some('>') => return Err("atomic groups are not supported".to_owned()),
                Some('<') => {
                    self.at += 1;
                    self.group_name()?;
                }
                _ => {
                    self.inline_flags()?;
                    match self.next_raw() {
                        Some(')') => return Ok(false),
                        Some(':') => {}
                        _ => return Err("unknown flags".to_owned()),
                    }
                }
            }
        }
        self.out.push_str("(?:");
        self.deeper(|reader| reader.alternatives(true))?;
        self.out.push(')');
        self.flags = before;
        Ok(true)
    }

    fn group_name(&mut self) -> Result<(), String> {
        let mut len = 0;
        loop {
            match self.next_raw() {
                Some('=' | '!') if len == 0 => {
                    return Err("look-behind is not supported".to_owned());
                }
                Some('>') if len > 0 => return Ok(()),
                Some(c) if c.is_ascii_alphabetic() || (len > 0 && c.is_ascii_digit()) => len += 1,
                _ => return Err("a group's name is letters and digits".to_owned()),
            }
        }
    }

    fn inline_flags(&mut self) -> Result<(), String> {
        let mut on = true;
        while let Some(c) = self.raw() {
            let flag = match c {
                'i' => Flags::CASE_INSENSITIVE,
                'm' => Flags::MULTILINE,
                's' => Flags::DOTALL,
                'd' => Flags::UNIX_LINES,
                'u' => Flags::UNICODE_CASE,
                'x' => Flags::COMMENTS,
                'U' => Flags::UNICODE_CHARACTER_CLASS | Flags::UNICODE_CASE,
                'c' => return Err("canonical equivalence is not supported".to_owned()),
                '-' if on => {
                    on = false;
                    0
                }
                _ => break,
            };
            self.at += 1;
            match on {
                true => self.flags.0 |= flag,
                false => self.flags.0 &= !flag,
            }
        }
        Ok(())
    }

    fn escaped_atom(&mut self) -> Result<bool, String> {
        if self.take('Q') {
            let quoted = self.quoted();
            let Some((last, others)) = quoted.split_last() else {
                return Ok(false);
            };
            for c in others {
                self.literal(*c);
            }
            self.literal(*last);
            return Ok(true);
        }
        match self.escape()? {
            Escaped::Char(c) => self.literal(c),
            Escaped::Class(items, negated) => {
                let not = if negated { "^" } else { "" };
                self.out.push_str(&format!("[{not}{items}]"));
            }
            Escaped::Place(text) => self.out.push_str(&text),
        }
        Ok(true)
    }

    /// What stands between `\Q` and `\E`, or the end.
    fn quoted(&mut self) -> Vec<char> {
        let rest = &self.chars[self.at..];
        let end = rest.windows(2).position(|two| two == ['\\', 'E']);
        let quoted = rest[..end.unwrap_or(rest.len())].to_vec();
        self.at += quoted.len() + if end.is_some() { 2 } else { 0 };
        quoted
    }

    /// What follows a backslash.
    fn escape(&mut self) -> Result<Escaped, String> {
        let c = self.next_raw().ok_or("a backslash at the end")?;
        let lower = c.to_ascii_lowercase();
        if let Some(items) = named::short(lower, self.flags) {
            return Ok(Escaped::Class(items.to_owned(), c != lower));
        }
        let place = |text: &str| Ok(Escaped::Place(format!("(?:{text})")));
        match c {
            'b' if self.raw() == Some('{') => Err("\\b{…} is not supported".to_owned()),
            'b' => place(r"\b"),
            'B' => place(r"\B"),
            // Only the first match is looked for.
            'A' | 'G' => place(r"\A"),
            'z' => place(r"\z"),
            'Z' => Ok(Escaped::Place(self.end_of_input())),
            'R' => place(&format!(r"\x{{d}}\x{{a}}|[{VERTICAL}]")),
            'p' | 'P' => {
                let name = self.property_name()?;
                let items = named::property(&name, self.flags)?;
                Ok(Escaped::Class(items, c == 'P'))
            }
            '0' => self.octal().map(Escaped::Char),
            'x' => self.hex().map(Escaped::Char),
            'u' => self.utf16().map(Escaped::Char),
            'c' => {
                let c = self.next_raw().ok_or("\\c at the end")?;
                let code = char::from_u32(u32::from(c) ^ 64).ok_or("\\c of no letter")?;
                Ok(Escaped::Char(code))
            }
            't' => Ok(Escaped::Char('\t')),
            'n' => Ok(Escaped::Char('\n')),
            'r' => Ok(Escaped::Char('\r')),
            'f' => Ok(Escaped::Char('\u{c}')),
            'a' => Ok(Escaped::Char('\u{7}')),
            'e' => Ok(Escaped::Char('\u{1b}')),
            '1'..='9' | 'k' => Err("back references are not supported".to_owned()),
            c if c.is_ascii_alphabetic() => Err(format!("\\{c} is not supported")),
            c => Ok(Escaped::Char(c)),
        }
    }

    fn property_name(&mut self) -> Result<String, String> {
        match self.next_raw() {
            Some('{') => {
                let mut name = String::new();
                loop {
                    match self.next_raw() {
                        Some('}') => return Ok(name),
                        Some(c) => name.push(c),
                        None => return Err("the name of a property is not closed".to_owned()),
                    }
                }
            }
            Some(c) => Ok(c.to_string()),
            None => Err("\\p without a name".to_owned()),
        }
    }

    /// One to three digits, not over `\0377`.
    fn octal(&mut self) -> Result<char, String> {
        let mut code = 0;
        let mut digits = 0;
        while let Some(digit) = self.raw().and_then(|c| c.to_digit(8)) {
            if digits == 3 || code * 8 + digit > 0o377 {
                break;
            }
            self.at += 1;
            code = code * 8 + digit;
            digits += 1;
        }
        match digits {
            0 => Err("\\0 without digits".to_owned()),
            _ => char::from_u32(code).ok_or_else(|| "no character".to_owned()),
        }
    }

    fn hex_digits(&mut self, count: usize) -> Result<u32, String> {
        let mut code = 0;
        for _ in 0..count {
            let digit = self.next_raw().and_then(|c| c.to_digit(16));
            code = code * 16 + digit.ok_or("a hexadecimal digit is missing")?;
        }
        Ok(code)
    }

    fn hex(&mut self) -> Result<char, String> {
        let mut code = 0_u32;
        if !self.take('{') {
            code = self.hex_digits(2)?;
        } else {
            while !self.take('}') {
                let digit = self.hex_digits(1)?;
                code = code
                    .checked_mul(16)
                    .and_then(|code| code.checked_add(digit))
                    .ok_or("no character has so high a number")?;
            }
        }
        char::from_u32(code).ok_or_else(|| format!("there is no character {code:x}"))
    }

    /// Four digits; a character beyond them is written as two such units.
    fn utf16(&mut self) -> Result<char, String> {
        let first = self.hex_digits(4)?;
        let mut code = first;
        if (0xd800..0xdc00).contains(&first) {
            if !(self.take('\\') && self.take('u')) {
                return Err("half a character".to_owned());
            }
            let second = self.hex_digits(4)?;
            if !(0xdc00..0xe000).contains(&second) {
                return Err("half a character".to_owned());
            }
            code = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        }
        char::from_u32(code).ok_or_else(|| "half a character".to_owned())
    }

    /// What follows a `[`, to its end.
    fn class(&mut self) -> Result<String, String> {
        let mut set = "[".to_owned();
        if self.peek() == Some('^') {
            self.at += 1;
            set.push('^');
        }
        let mut is_first = true;
        loop {
            match self.peek() {
                None => return Err("a class of characters is not closed".to_owned()),
                Some(']') if !is_first => {
                    self.at += 1;
                    set.push(']');
                    return Ok(set);
                }
                Some('[') => {
                    self.at += 1;
                    set.push_str(&self.deeper(Self::class)?);
                }
                Some('&') if self.chars.get(self.at + 1) == Some(&'&') => {
                    while self.take('&') {}
                    if is_first || self.peek() == Some(']') {
                        return Err("an intersection of one side".to_owned());
                    }
                    set.push_str("&&");
                }
                Some(c) => {
                    self.at += 1;
                    self.items(c, &mut set)?;
                }
            }
            is_first = false;
        }
    }

    /// A character, a range or a class within a class, of which the first character has been taken.
    fn items(&mut self, c: char, set: &mut String) -> Result<(), String> {
        if c == '\\' && self.take('Q') {
            for c in self.quoted() {
                self.range(c, c, set);
            }
            return Ok(());
        }
        let from = match self.item(c)? {
            Item::Class(class) => {
                set.push_str(&class);
                return Ok(());
            }
            Item::Char(c) => c,
        };
        let is_dash = self.peek() == Some('-');
        let behind = self.chars.get(self.at + 1).copied();
        if !is_dash || matches!(behind, None | Some('[' | ']')) {
            self.range(from, from, set);
            return Ok(());
        }
        self.at += 1;
        let end = self.peek().ok_or("a range has no end")?;
        self.at += 1;
        match self.item(end)? {
            Item::Char(to) if from <= to => self.range(from, to, set),
            _ => return Err("a range ends before it begins".to_owned()),
        }
        Ok(())
    }

    fn item(&mut self, c: char) -> Result<Item, String> {
        if c != '\\' {
            return Ok(Item::Char(c));
        }
        match self.escape()? {
            Escaped::Char(c) => Ok(Item::Char(c)),
            Escaped::Class(items, false) => Ok(Item::Class(format!("[{items}]"))),
            Escaped::Class(items, true) => Ok(Item::Class(format!("[^{items}]"))),
            Escaped::Place(_) => Err("no character, but a place, in a class".to_owned()),
        }
    }

    /// Writes a range, with the other case of its letters of ASCII where that does not matter.
    fn range(&self, from: char, to: char, set: &mut String) {
        let mut write = |from: char, to: char| {
            let (from, to) = (u32::from(from), u32::from(to));
            set.push_str(&match from == to {
                true => format!(r"\x{{{from:x}}}"),
                false => format!(r"\x{{{from:x}}}-\x{{{to:x}}}"),
            });
        };
        write(from, to);
        if !self.flags.folds_ascii() {
            return;
        }
        for (first, last) in [('a', 'z'), ('A', 'Z')] {
            let (from, to) = (from.max(first), to.min(last));
            if let (true, Some(from), Some(to)) = (from <= to, other_case(from), other_case(to)) {
                write(from, to);
            }
        }
    }
}

/// The other case of a letter of ASCII.
fn other_case(c: char) -> Option<char> {
    match c {
        'a'..='z' => Some(c.to_ascii_uppercase()),
        'A'..='Z' => Some(c.to_ascii_lowercase()),
        _ => None,
    }
}
