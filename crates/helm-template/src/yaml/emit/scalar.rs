//! Scalar styles: selection and output.

use super::plain::reads_as_text;
use super::{Dialect, Emitter, LeafEncoder};

/// The style of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScalarStyle {
    Plain,
    Single,
    Double,
    Literal,
}

impl ScalarStyle {
    /// The preferred style of a text, which the text may not allow.
    pub fn preferred(text: &str, dialect: Dialect) -> Self {
        if memchr::memchr(b'\n', text.as_bytes()).is_some() {
            Self::Literal
        } else if reads_as_text(text, dialect) {
            Self::Plain
        } else {
            Self::Double
        }
    }
}

/// The styles that a text allows.
#[derive(Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is a question of its own")]
pub(super) struct AllowedStyles {
    pub multiline: bool,
    plain: bool,
    single: bool,
    block: bool,
}

/// Characters that are allowed in a plain scalar everywhere except at its start.
const PLAIN_CHARS: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        #[expect(clippy::cast_possible_truncation, reason = "less than 128")]
        let b = byte as u8;
        table[byte] = b.is_ascii_alphanumeric()
            || matches!(b, b'_' | b'-' | b'.' | b'/' | b'=' | b'$' | b'(' | b')' | b'+' | b'~' | b'^' | b';');
        byte += 1;
    }
    table
};

impl AllowedStyles {
    pub fn from_text(text: &str, dialect: Dialect) -> Self {
        let bytes = text.as_bytes();
        if bytes.iter().all(|b| PLAIN_CHARS[usize::from(*b)])
            && !matches!(bytes, [] | [b'-'] | [b'-', b'-', b'-', ..] | [b'.', b'.', b'.', ..])
        {
            return Self { multiline: false, plain: true, single: true, block: true };
        }
        Self::analyze(text, dialect)
    }

    fn analyze(text: &str, dialect: Dialect) -> Self {
        let (mut indicator, mut breaks, mut special, mut tab) = (false, false, false, false);
        let (mut break_space, mut space_break) = (false, false);
        let (mut after_space, mut after_break, mut after_white) = (false, false, true);
        indicator |= text.starts_with("---") || text.starts_with("...");
        let mut chars = text.chars().peekable();
        let mut first = true;
        while let Some(c) = chars.next() {
            let before_white = chars.peek().is_none_or(|next| matches!(next, ' ' | '\t'));
            indicator |= match c {
                ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`' => {
                    first
                }
                '?' | '-' => first && before_white,
                ':' => before_white,
                '#' => after_white,
                _ => false,
            };
            if c == '\t' && dialect == Dialect::V3 {
                tab = true;
            } else {
                special |= !is_printable(c);
            }
            let (space, line_break) = (c == ' ', is_break(c));
            breaks |= line_break;
            break_space |= space && after_break;
            space_break |= line_break && after_space;
            (after_space, after_break) = (space, line_break);
            after_white = space || line_break || matches!(c, '\t' | '\0');
            first = false;
        }
        let leading = text.starts_with(is_space_or_break);
        let trailing = text.ends_with(is_space_or_break);
        let quoted_only = space_break || special;
        Self {
            multiline: breaks,
            plain: !(leading || trailing || break_space || quoted_only || tab || breaks || indicator),
            single: !(break_space || quoted_only || tab),
            block: !(text.is_empty() || text.ends_with(' ') || quoted_only),
        }
    }

    /// The allowed style closest to the preferred one.
    fn style(self, wanted: ScalarStyle, is_key: bool) -> ScalarStyle {
        let style = match wanted {
            _ if is_key && self.multiline => ScalarStyle::Double,
            ScalarStyle::Literal if is_key || !self.block => ScalarStyle::Double,
            ScalarStyle::Plain if !self.plain => ScalarStyle::Single,
            style => style,
        };
        if style == ScalarStyle::Single && !self.single { ScalarStyle::Double } else { style }
    }
}

fn is_space_or_break(c: char) -> bool {
    c == ' ' || is_break(c)
}

fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Whether a character needs no escape. go-yaml treats everything beyond U+FFFF as not printable.
fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{A0}'..='\u{FFFD}') && c != '\u{FEFF}'
}

impl<L: LeafEncoder> Emitter<L> {
    pub(super) fn scalar(&mut self, text: &str, look: AllowedStyles, wanted: ScalarStyle, is_key: bool) {
        let outer = self.indent;
        self.indent = Some(outer.unwrap_or(0) + 2);
        match look.style(wanted, is_key) {
            ScalarStyle::Plain => self.plain(text, !is_key),
            ScalarStyle::Single => self.single(text, !is_key),
            ScalarStyle::Double => self.double(text, !is_key),
            ScalarStyle::Literal => self.literal(text),
        }
        self.indent = outer;
    }

    /// Writes a text that needs no folding. Returns false, without writing, if it needs folding.
    fn fits(&mut self, text: &str, may_fold: bool) -> bool {
        let fits = !may_fold
            || self.column + text.len() <= L::DIALECT.width()
            || memchr::memchr(b' ', text.as_bytes()).is_none();
        if fits {
            self.out.push_str(text);
            self.column += text.chars().count();
        }
        fits
    }

    fn plain(&mut self, text: &str, may_fold: bool) {
        self.space_unless(self.is_whitespace);
        if !self.fits(text, may_fold) {
            self.folded(text, may_fold, false);
        }
        self.is_whitespace = false;
        self.is_indention = false;
    }

    fn single(&mut self, text: &str, may_fold: bool) {
        self.indicator("'", true, false, false);
        // 0xE2 may start a Unicode line break.
        let is_simple = memchr::memchr2(b'\'', 0xE2, text.as_bytes()).is_none();
        if !(is_simple && self.fits(text, may_fold)) {
            self.folded(text, may_fold, true);
        }
        self.indicator("'", false, false, false);
        self.is_indention = false;
    }

    /// Writes plain or single-quoted text, in which a single space beyond the width becomes a line break. The first and last character
    /// between quotes are never folded.
    fn folded(&mut self, text: &str, may_fold: bool, quoted: bool) {
        let (mut after_space, mut after_break) = (false, false);
        for (at, c) in text.char_indices() {
            if c == ' ' {
                let alone = !after_space && text.as_bytes().get(at + 1) != Some(&b' ');
                let inside = !quoted || (at > 0 && at + 1 < text.len());
                if may_fold && alone && inside && self.column > L::DIALECT.width() {
                    self.start_line();
                } else {
                    self.push_char(' ');
                }
                after_space = true;
            } else if is_break(c) {
                self.line_break(c);
                after_break = true;
            } else {
                if after_break {
                    self.start_line();
                }
                if quoted && c == '\'' {
                    self.push_char(c);
                }
                self.push_char(c);
                self.is_indention = false;
                (after_space, after_break) = (false, false);
            }
        }
    }

    fn line_break(&mut self, c: char) {
        if c == '\n' {
            self.end_line();
        } else {
            self.out.push(c);
            self.column = 0;
            self.is_indention = true;
        }
    }

    fn double(&mut self, text: &str, may_fold: bool) {
        self.indicator("\"", true, false, false);
        // go-yaml intends to escape a byte order mark, but escapes the whole text that starts with one.
        let escape_all = text.starts_with('\u{FEFF}');
        let mut after_space = false;
        for (at, c) in text.char_indices() {
            if escape_all || !is_printable(c) || is_break(c) || matches!(c, '"' | '\\') {
                self.escape(c);
                after_space = false;
            } else if c == ' ' {
                if may_fold
                    && !after_space
                    && self.column > L::DIALECT.width()
                    && at > 0
                    && at + 1 < text.len()
                {
                    self.start_line();
                    if text.as_bytes().get(at + 1) == Some(&b' ') {
                        self.push_char('\\');
                    }
                } else {
                    self.push_char(' ');
                }
                after_space = true;
            } else {
                self.push_char(c);
                after_space = false;
            }
        }
        self.indicator("\"", false, false, false);
        self.is_indention = false;
    }

    fn escape(&mut self, c: char) {
        let short = match c {
            '\0' => '0',
            '\u{7}' => 'a',
            '\u{8}' => 'b',
            '\t' => 't',
            '\n' => 'n',
            '\u{b}' => 'v',
            '\u{c}' => 'f',
            '\r' => 'r',
            '\u{1b}' => 'e',
            '"' | '\\' => c,
            '\u{85}' => 'N',
            '\u{A0}' => '_',
            '\u{2028}' => 'L',
            '\u{2029}' => 'P',
            _ => {
                let code = u32::from(c);
                let hex = match code {
                    0..0x100 => format!("\\x{code:02X}"),
                    0x100..0x1_0000 => format!("\\u{code:04X}"),
                    _ => format!("\\U{code:08X}"),
                };
                return self.push(&hex);
            }
        };
        self.push_char('\\');
        self.push_char(short);
    }

    fn literal(&mut self, text: &str) {
        self.indicator("|", true, false, false);
        if text.starts_with(is_space_or_break) {
            self.push("2");
        }
        let mut from_the_end = text.chars().rev();
        match (from_the_end.next().is_some_and(is_break), from_the_end.next().is_none_or(is_break)) {
            (false, _) => self.push("-"),
            (true, true) => self.push("+"),
            (true, false) => {}
        }
        self.end_line();
        self.is_whitespace = true;
        for piece in text.split_inclusive(is_break) {
            let end = piece.chars().next_back().filter(|c| is_break(*c));
            let line = &piece[..piece.len() - end.map_or(0, char::len_utf8)];
            if !line.is_empty() {
                self.start_line();
                self.out.push_str(line);
                self.column += line.chars().count();
                self.is_indention = false;
            }
            if let Some(end) = end {
                self.line_break(end);
            }
        }
    }
}
