//! Translation of Go's regular expression syntax to that of the `regex` crate.
//!
//! The translation follows Go's parser step by step, because that parser determines which expressions are errors, their messages,
//! and the part of the expression that is reported. Flags in the output never extend beyond one character or class, so the result
//! does not depend on flag scoping in the `regex` crate.

use super::class::perl;
use super::tokens::{counted, escape};
use crate::profile::Profile;

/// Maximum nesting of groups. Go allows 1,000; the `regex` crate is recursive, and real expressions stay far below 100.
const MAX_GROUP_DEPTH: usize = 100;

/// Go's maximum for a repetition count and for the product of nested counts.
const MAX_REPEAT_COUNT: i64 = 1_000;

/// A syntax error and the part of the expression that it reports.
pub(super) enum RegexSyntaxError<'p> {
    Range(&'p str),
    Escape(&'p str),
    NamedCapture(&'p str),
    PerlOperator(&'p str),
    NestedRepeat(&'p str),
    RepeatSize(&'p str),
    MissingBracket(&'p str),
    MissingRepeatArgument(&'p str),
    TrailingBackslash,
    /// The following variants report the whole expression.
    MissingParen,
    UnexpectedParen,
    TooDeep,
    TooLarge,
}

impl RegexSyntaxError<'_> {
    /// Go's error message.
    pub fn message(self, whole: &str) -> String {
        let (says, part) = match self {
            Self::Range(part) => ("invalid character class range", part),
            Self::Escape(part) => ("invalid escape sequence", part),
            Self::NamedCapture(part) => ("invalid named capture", part),
            Self::PerlOperator(part) => ("invalid or unsupported Perl syntax", part),
            Self::NestedRepeat(part) => ("invalid nested repetition operator", part),
            Self::RepeatSize(part) => ("invalid repeat count", part),
            Self::MissingBracket(part) => ("missing closing ]", part),
            Self::MissingRepeatArgument(part) => ("missing argument to repetition operator", part),
            Self::TrailingBackslash => ("trailing backslash at end of expression", ""),
            Self::MissingParen => ("missing closing )", whole),
            Self::UnexpectedParen => ("unexpected )", whole),
            Self::TooDeep => ("expression nests too deeply", whole),
            Self::TooLarge => ("expression too large", whole),
        };
        format!("error parsing regexp: {says}: `{part}`")
    }
}

/// A translated expression, and the names of its groups.
pub(super) struct TranslatedPattern {
    pub pattern: String,
    pub names: Vec<Box<str>>,
}

pub(super) fn translate(pattern: &str, profile: Profile) -> Result<TranslatedPattern, String> {
    let translation = Translator {
        pattern,
        profile,
        out: String::with_capacity(pattern.len() * 2),
        flags: Flags::default(),
        groups: vec![Group::default()],
        names: vec!["".into()],
    };
    translation.run().map_err(|flaw| flaw.message(pattern))
}

/// The flags `i`, `m`, `s` and `U`.
#[derive(Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "these are the flags that there are")]
struct Flags {
    fold: bool,
    multi_line: bool,
    dot_matches_newline: bool,
    lazy: bool,
}

/// Parser state since an opening parenthesis.
#[derive(Clone, Copy, Default)]
struct Group {
    /// The start of the group in the output.
    start: usize,
    /// The flags before the group, which apply again after it.
    flags: Flags,
    /// Product of the repetition counts within the last item; `None` if there is no item to repeat.
    last_repeats: Option<i64>,
    /// The maximum of that product over all previous items.
    max_repeats: i64,
    /// The start of the last item in the output.
    item_start: usize,
    /// The number of repetition operators on the last item. They cannot be adjacent, but flags may separate them.
    repeat_operators: usize,
}

impl Group {
    fn push(&mut self, start: usize, repeats: i64) {
        *self = Self {
            flags: self.flags,
            max_repeats: self.repeats(),
            last_repeats: Some(repeats),
            item_start: start,
            repeat_operators: 0,
            start: self.start,
        };
    }

    fn repeats(&self) -> i64 {
        self.max_repeats.max(self.last_repeats.unwrap_or(1)).max(1)
    }
}

/// The state of one translation.
pub(super) struct Translator<'p> {
    pattern: &'p str,
    pub profile: Profile,
    out: String,
    flags: Flags,
    groups: Vec<Group>,
    names: Vec<Box<str>>,
}

/// A repetition operator: `*`, `{2,}`.
struct Repeat {
    written: String,
    /// Minimum and maximum count, -1 for no maximum; `None` for `*`, `+` and `?`.
    count: Option<(i64, i64)>,
}

impl<'p> Translator<'p> {
    fn run(mut self) -> Result<TranslatedPattern, RegexSyntaxError<'p>> {
        let mut rest = self.pattern;
        let mut last_repeat = "";
        while let Some(c) = rest.chars().next() {
            let mut repeat = "";
            let after = &rest[c.len_utf8()..];
            rest = match c {
                '(' if after.starts_with('?') => self.flags_or_group(rest)?,
                '(' => {
                    self.names.push("".into());
                    self.open("(")?;
                    after
                }
                '|' => {
                    let group = self.group();
                    (group.max_repeats, group.last_repeats) = (group.repeats(), None);
                    self.out.push('|');
                    after
                }
                ')' => {
                    self.close()?;
                    after
                }
                '^' => self.push_item(if self.flags.multi_line { "(?m:^)" } else { r"\A" }, after),
                '$' => self.push_item(if self.flags.multi_line { "(?m:$)" } else { r"\z" }, after),
                '.' => {
                    self.push_item(if self.flags.dot_matches_newline { "(?s:.)" } else { r"[^\n]" }, after)
                }
                '[' => self.class(rest)?,
                '*' | '+' | '?' => {
                    repeat = rest;
                    self.repeat(&Repeat { written: c.to_string(), count: None }, rest, after, last_repeat)?
                }
                '{' => {
                    if let Some((min, max, after)) = counted(rest) {
                        let written = &rest[..rest.len() - after.len()];
                        if !(0..=MAX_REPEAT_COUNT).contains(&min)
                            || max > MAX_REPEAT_COUNT
                            || (max >= 0 && min > max)
                        {
                            return Err(RegexSyntaxError::RepeatSize(written));
                        }
                        repeat = rest;
                        let counted = Repeat { written: written.to_owned(), count: Some((min, max)) };
                        self.repeat(&counted, rest, after, last_repeat)?
                    } else {
                        self.literal('{');
                        after
                    }
                }
                '\\' => self.backslash(rest)?,
                c => {
                    self.literal(c);
                    after
                }
            };
            last_repeat = repeat;
        }
        if self.groups.len() > 1 {
            return Err(RegexSyntaxError::MissingParen);
        }
        Ok(TranslatedPattern { pattern: self.out, names: self.names })
    }

    fn group(&mut self) -> &mut Group {
        if self.groups.is_empty() {
            self.groups.push(Group::default());
        }
        let last = self.groups.len() - 1;
        &mut self.groups[last]
    }

    fn open(&mut self, written: &str) -> Result<(), RegexSyntaxError<'p>> {
        if self.groups.len() > MAX_GROUP_DEPTH {
            return Err(RegexSyntaxError::TooDeep);
        }
        self.groups.push(Group { start: self.out.len(), flags: self.flags, ..Group::default() });
        self.out.push_str(written);
        Ok(())
    }

    fn close(&mut self) -> Result<(), RegexSyntaxError<'p>> {
        if self.groups.len() < 2 {
            return Err(RegexSyntaxError::UnexpectedParen);
        }
        let Some(group) = self.groups.pop() else { return Err(RegexSyntaxError::UnexpectedParen) };
        self.flags = group.flags;
        self.group().push(group.start, group.repeats());
        self.out.push(')');
        Ok(())
    }

    /// Appends an item in the syntax of the `regex` crate.
    fn push_item<'t>(&mut self, written: &str, rest: &'t str) -> &'t str {
        let start = self.out.len();
        self.group().push(start, 1);
        self.out.push_str(written);
        rest
    }

    /// Appends an item that is subject to case folding: a character or a class.
    pub(super) fn atom(&mut self, written: &str) {
        let (before, after) = if self.flags.fold { ("(?i:", ")") } else { ("", "") };
        self.push_item(before, "");
        self.out.push_str(written);
        self.out.push_str(after);
    }

    fn literal(&mut self, c: char) {
        self.push_code_point(u32::from(c));
    }

    fn push_code_point(&mut self, code: u32) {
        match char::from_u32(code) {
            Some(c) if c.is_ascii_alphanumeric() || !c.is_ascii() => self.atom(c.encode_utf8(&mut [0; 4])),
            Some(_) => self.atom(&format!(r"\x{{{code:X}}}")),
            // A surrogate, which no text contains.
            None => self.atom(r"[^\x{0}-\x{10FFFF}]"),
        }
    }

    fn repeat(
        &mut self,
        repeat: &Repeat,
        from: &'p str,
        after: &'p str,
        last_repeat: &'p str,
    ) -> Result<&'p str, RegexSyntaxError<'p>> {
        let (lazy, rest) = match after.strip_prefix('?') {
            Some(rest) => (!self.flags.lazy, rest),
            None => (self.flags.lazy, after),
        };
        if !last_repeat.is_empty() {
            return Err(RegexSyntaxError::NestedRepeat(&last_repeat[..last_repeat.len() - rest.len()]));
        }
        let written = &from[..from.len() - rest.len()];
        let group = self.group();
        let Some(inside) = group.last_repeats else {
            return Err(RegexSyntaxError::MissingRepeatArgument(written));
        };
        if let Some((min, max)) = repeat.count {
            let times = match max {
                // The item does not occur at all.
                0 => 0,
                max if max < 0 => min.max(1) * inside,
                max => max * inside,
            };
            if (min >= 2 || max >= 2) && times > MAX_REPEAT_COUNT {
                return Err(RegexSyntaxError::RepeatSize(written));
            }
            group.last_repeats = Some(times.max(1));
        }
        group.repeat_operators += 1;
        if group.repeat_operators > MAX_GROUP_DEPTH {
            return Err(RegexSyntaxError::TooDeep);
        }
        if group.repeat_operators > 1 {
            let start = group.item_start;
            self.out.insert_str(start, "(?:");
            self.out.push(')');
        }
        self.out.push_str(&repeat.written);
        if lazy {
            self.out.push('?');
        }
        Ok(rest)
    }

    /// Parses `(?i)`, `(?i:` or `(?P<name>`.
    fn flags_or_group(&mut self, text: &'p str) -> Result<&'p str, RegexSyntaxError<'p>> {
        let named = [("(?P<", 4), ("(?<", 3)]
            .into_iter()
            .find(|(start, at)| text.starts_with(start) && text.len() > *at);
        if let Some((_, at)) = named {
            let end = text.find('>').ok_or(RegexSyntaxError::NamedCapture(text))?;
            let name = text.get(at..end).unwrap_or_default();
            let fine = |byte: u8| byte == b'_' || byte.is_ascii_alphanumeric();
            if name.is_empty() || !name.bytes().all(fine) {
                return Err(RegexSyntaxError::NamedCapture(&text[..=end]));
            }
            // Go allows names to start with a digit and to repeat, so they are stored here and not in the expression.
            self.names.push(name.into());
            self.open("(")?;
            return Ok(&text[end + 1..]);
        }
        let mut flags = self.flags;
        let (mut on, mut any) = (true, false);
        let mut end = text.len();
        for (at, c) in text.char_indices().skip(2) {
            end = at + c.len_utf8();
            match c {
                'i' => flags.fold = on,
                'm' => flags.multi_line = on,
                's' => flags.dot_matches_newline = on,
                'U' => flags.lazy = on,
                '-' if on => on = false,
                ':' | ')' if on || any => {
                    if c == ':' {
                        self.open("(?:")?;
                    }
                    self.flags = flags;
                    return Ok(&text[end..]);
                }
                _ => break,
            }
            any = c != '-';
        }
        Err(RegexSyntaxError::PerlOperator(&text[..end]))
    }

    fn backslash(&mut self, text: &'p str) -> Result<&'p str, RegexSyntaxError<'p>> {
        match text.as_bytes() {
            [_, b'A', ..] => return Ok(self.push_item(r"\A", &text[2..])),
            [_, b'b', ..] => return Ok(self.push_item(r"(?-u:\b)", &text[2..])),
            [_, b'B', ..] => return Ok(self.push_item(r"(?-u:\B)", &text[2..])),
            [_, b'z', ..] => return Ok(self.push_item(r"\z", &text[2..])),
            [_, b'C', ..] => return Err(RegexSyntaxError::Escape(&text[..2])),
            [_, b'Q', ..] => {
                let (quoted, rest) = text[2..].split_once(r"\E").unwrap_or((&text[2..], ""));
                quoted.chars().for_each(|c| self.literal(c));
                return Ok(rest);
            }
            _ => {}
        }
        if let Some((set, rest)) = self.unicode(text)? {
            self.atom(&set);
            return Ok(rest);
        }
        if let Some((set, rest)) = perl(text) {
            self.atom(&format!("[{set}]"));
            return Ok(rest);
        }
        let (code, rest) = escape(text)?;
        self.push_code_point(code);
        Ok(rest)
    }
}
