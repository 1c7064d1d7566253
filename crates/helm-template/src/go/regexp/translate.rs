//! Translation of Go's regular expression syntax to that of the `regex` crate.
//!
//! The translation follows Go's parser step by step, because that parser decides what is an error, its message, and the part of the
//! expression that is reported. Flags in the output never extend beyond one character or class, so the result does not depend on
//! flag scoping in the `regex` crate.

use super::class::perl;
use super::tokens::{counted, escape};
use crate::profile::Profile;

/// Maximum nesting of groups. Go allows 1,000; the `regex` crate is recursive, and real expressions stay far below 100.
const DEEPEST: usize = 100;

/// Go's maximum for a repetition count and for the product of nested counts.
const MOST: i64 = 1_000;

/// A syntax error and the part of the expression that it reports.
pub(super) enum Flaw<'p> {
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

impl Flaw<'_> {
    /// Go's error message.
    pub fn words(self, whole: &str) -> String {
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
pub(super) struct Translated {
    pub pattern: String,
    pub names: Vec<Box<str>>,
}

pub(super) fn translate(pattern: &str, profile: Profile) -> Result<Translated, String> {
    let translation = Translation {
        whole: pattern,
        profile,
        out: String::with_capacity(pattern.len() * 2),
        flags: Flags::default(),
        groups: vec![Group::default()],
        names: vec!["".into()],
    };
    translation.run().map_err(|flaw| flaw.words(pattern))
}

/// The flags `i`, `m`, `s` and `U`.
#[derive(Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "these are the flags that there are")]
struct Flags {
    fold: bool,
    many_lines: bool,
    dot_is_all: bool,
    lazy: bool,
}

/// Parser state since an opening parenthesis.
#[derive(Clone, Copy, Default)]
struct Group {
    /// The start of the group in the output.
    opened: usize,
    /// The flags before the group, which apply again after it.
    flags: Flags,
    /// Product of the repetition counts within the last item; `None` if there is no item to repeat.
    last: Option<i64>,
    /// The maximum of that product over all previous items.
    most: i64,
    /// The start of the last item in the output.
    start: usize,
    /// The number of repetition operators on the last item. They cannot be adjacent, but flags may separate them.
    repeated: usize,
}

impl Group {
    fn push(&mut self, start: usize, repeats: i64) {
        *self = Self {
            flags: self.flags,
            most: self.repeats(),
            last: Some(repeats),
            start,
            repeated: 0,
            opened: self.opened,
        };
    }

    fn repeats(&self) -> i64 {
        self.most.max(self.last.unwrap_or(1)).max(1)
    }
}

/// The state of one translation.
pub(super) struct Translation<'p> {
    whole: &'p str,
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

impl<'p> Translation<'p> {
    fn run(mut self) -> Result<Translated, Flaw<'p>> {
        let mut rest = self.whole;
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
                    (group.most, group.last) = (group.repeats(), None);
                    self.out.push('|');
                    after
                }
                ')' => {
                    self.close()?;
                    after
                }
                '^' => self.then(if self.flags.many_lines { "(?m:^)" } else { r"\A" }, after),
                '$' => self.then(if self.flags.many_lines { "(?m:$)" } else { r"\z" }, after),
                '.' => self.then(if self.flags.dot_is_all { "(?s:.)" } else { r"[^\n]" }, after),
                '[' => self.class(rest)?,
                '*' | '+' | '?' => {
                    repeat = rest;
                    self.repeat(&Repeat { written: c.to_string(), count: None }, rest, after, last_repeat)?
                }
                '{' => {
                    if let Some((min, max, after)) = counted(rest) {
                        let written = &rest[..rest.len() - after.len()];
                        if !(0..=MOST).contains(&min) || max > MOST || (max >= 0 && min > max) {
                            return Err(Flaw::RepeatSize(written));
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
            return Err(Flaw::MissingParen);
        }
        Ok(Translated { pattern: self.out, names: self.names })
    }

    fn group(&mut self) -> &mut Group {
        if self.groups.is_empty() {
            self.groups.push(Group::default());
        }
        let last = self.groups.len() - 1;
        &mut self.groups[last]
    }

    fn open(&mut self, written: &str) -> Result<(), Flaw<'p>> {
        if self.groups.len() > DEEPEST {
            return Err(Flaw::TooDeep);
        }
        self.groups.push(Group { opened: self.out.len(), flags: self.flags, ..Group::default() });
        self.out.push_str(written);
        Ok(())
    }

    fn close(&mut self) -> Result<(), Flaw<'p>> {
        if self.groups.len() < 2 {
            return Err(Flaw::UnexpectedParen);
        }
        let Some(group) = self.groups.pop() else { return Err(Flaw::UnexpectedParen) };
        self.flags = group.flags;
        self.group().push(group.opened, group.repeats());
        self.out.push(')');
        Ok(())
    }

    /// Appends an item in the syntax of the `regex` crate.
    fn then<'t>(&mut self, written: &str, rest: &'t str) -> &'t str {
        let start = self.out.len();
        self.group().push(start, 1);
        self.out.push_str(written);
        rest
    }

    /// Appends an item that is subject to case folding: a character or a class.
    pub(super) fn atom(&mut self, written: &str) {
        let (before, after) = if self.flags.fold { ("(?i:", ")") } else { ("", "") };
        self.then(before, "");
        self.out.push_str(written);
        self.out.push_str(after);
    }

    fn literal(&mut self, c: char) {
        self.code(u32::from(c));
    }

    fn code(&mut self, code: u32) {
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
    ) -> Result<&'p str, Flaw<'p>> {
        let (lazy, rest) = match after.strip_prefix('?') {
            Some(rest) => (!self.flags.lazy, rest),
            None => (self.flags.lazy, after),
        };
        if !last_repeat.is_empty() {
            return Err(Flaw::NestedRepeat(&last_repeat[..last_repeat.len() - rest.len()]));
        }
        let written = &from[..from.len() - rest.len()];
        let group = self.group();
        let Some(inside) = group.last else { return Err(Flaw::MissingRepeatArgument(written)) };
        if let Some((min, max)) = repeat.count {
            let times = match max {
                // The item does not occur at all.
                0 => 0,
                max if max < 0 => min.max(1) * inside,
                max => max * inside,
            };
            if (min >= 2 || max >= 2) && times > MOST {
                return Err(Flaw::RepeatSize(written));
            }
            group.last = Some(times.max(1));
        }
        group.repeated += 1;
        if group.repeated > DEEPEST {
            return Err(Flaw::TooDeep);
        }
        if group.repeated > 1 {
            let start = group.start;
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
    fn flags_or_group(&mut self, text: &'p str) -> Result<&'p str, Flaw<'p>> {
        let named = [("(?P<", 4), ("(?<", 3)]
            .into_iter()
            .find(|(start, at)| text.starts_with(start) && text.len() > *at);
        if let Some((_, at)) = named {
            let end = text.find('>').ok_or(Flaw::NamedCapture(text))?;
            let name = text.get(at..end).unwrap_or_default();
            let fine = |byte: u8| byte == b'_' || byte.is_ascii_alphanumeric();
            if name.is_empty() || !name.bytes().all(fine) {
                return Err(Flaw::NamedCapture(&text[..=end]));
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
                'm' => flags.many_lines = on,
                's' => flags.dot_is_all = on,
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
        Err(Flaw::PerlOperator(&text[..end]))
    }

    fn backslash(&mut self, text: &'p str) -> Result<&'p str, Flaw<'p>> {
        match text.as_bytes() {
            [_, b'A', ..] => return Ok(self.then(r"\A", &text[2..])),
            [_, b'b', ..] => return Ok(self.then(r"(?-u:\b)", &text[2..])),
            [_, b'B', ..] => return Ok(self.then(r"(?-u:\B)", &text[2..])),
            [_, b'z', ..] => return Ok(self.then(r"\z", &text[2..])),
            [_, b'C', ..] => return Err(Flaw::Escape(&text[..2])),
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
        self.code(code);
        Ok(rest)
    }
}
