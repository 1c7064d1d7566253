//! Directives, anchors, aliases and tags.

use super::problem::YamlSyntaxError;
use super::scan::{Scanner, Token, YamlTokenKind};

impl<'a> Scanner<'a> {
    pub(super) fn scan_directive(&mut self) -> Result<Token<'a>, YamlSyntaxError> {
        let line = self.line;
        self.skip();
        self.require(1)?;
        let name = self.take_word()?;
        if name.is_empty() {
            return Err(self.problem("could not find expected directive name"));
        }
        if !self.is_blank_or_end(0) {
            return Err(self.problem("found unexpected non-alphabetical character"));
        }
        let token = match name {
            "YAML" => self.scan_version(line)?,
            "TAG" => self.scan_tag_directive(line)?,
            _ => return Err(self.problem("found unknown directive name")),
        };
        self.skip_rest_of_line()?;
        Ok(token)
    }

    /// Skips blanks, a comment and the line break after a directive or block scalar header.
    pub(super) fn skip_rest_of_line(&mut self) -> Result<(), YamlSyntaxError> {
        self.require(1)?;
        self.skip_blanks()?;
        if self.byte(0) == b'#' {
            self.advance_to(self.line_end());
            self.require(1)?;
        }
        if !self.is_break_or_end(0) {
            return Err(self.problem("did not find expected comment or line break"));
        }
        if self.is_break(0) {
            self.require(2)?;
            self.take_break();
        }
        Ok(())
    }

    fn skip_blanks(&mut self) -> Result<(), YamlSyntaxError> {
        while self.is_blank(0) {
            self.skip();
        }
        self.require(1)
    }

    /// Takes a run of letters, digits, `_` and `-`.
    fn take_word(&mut self) -> Result<&'a str, YamlSyntaxError> {
        let start = self.at;
        while is_word(self.byte(0)) {
            self.skip();
        }
        self.require(1)?;
        Ok(self.text.get(start..self.at).unwrap_or_default())
    }

    fn scan_version(&mut self, line: usize) -> Result<Token<'a>, YamlSyntaxError> {
        self.require(1)?;
        self.skip_blanks()?;
        let major = self.scan_version_number()?;
        if self.byte(0) != b'.' {
            return Err(self.problem("did not find expected digit or '.' character"));
        }
        self.skip();
        let minor = self.scan_version_number()?;
        Ok(Token {
            kind: YamlTokenKind::Version { known: (major, minor) == (1, 1) },
            line,
            ..Token::default()
        })
    }

    fn scan_version_number(&mut self) -> Result<u8, YamlSyntaxError> {
        self.require(1)?;
        let (mut value, mut length) = (0, 0);
        while self.byte(0).is_ascii_digit() {
            length += 1;
            if length > 2 {
                return Err(self.problem("found extremely long version number"));
            }
            value = value * 10 + (self.byte(0) - b'0');
            self.skip();
            self.require(1)?;
        }
        if length == 0 {
            return Err(self.problem("did not find expected version number"));
        }
        Ok(value)
    }

    fn scan_tag_directive(&mut self, line: usize) -> Result<Token<'a>, YamlSyntaxError> {
        self.require(1)?;
        self.skip_blanks()?;
        let handle = self.scan_tag_handle(true)?;
        self.require(1)?;
        if !self.is_blank(0) {
            return Err(self.problem("did not find expected whitespace"));
        }
        self.skip_blanks()?;
        let prefix = self.scan_tag_uri(None)?;
        self.require(1)?;
        if !self.is_blank_or_end(0) {
            return Err(self.problem("did not find expected whitespace or line break"));
        }
        Ok(Token {
            kind: YamlTokenKind::TagDirective,
            line,
            text: handle.into(),
            suffix: Some(prefix.into()),
        })
    }

    pub(super) fn scan_anchor(&mut self, kind: YamlTokenKind) -> Result<Token<'a>, YamlSyntaxError> {
        let line = self.line;
        self.skip();
        self.require(1)?;
        let name = self.take_word()?;
        let is_terminated = self.is_blank_or_end(0)
            || matches!(self.byte(0), b'?' | b':' | b',' | b']' | b'}' | b'%' | b'@' | b'`');
        if name.is_empty() || !is_terminated {
            return Err(self.problem("did not find expected alphabetic or numeric character"));
        }
        Ok(Token { kind, line, text: name.into(), suffix: None })
    }

    pub(super) fn scan_tag(&mut self) -> Result<Token<'a>, YamlSyntaxError> {
        let line = self.line;
        self.require(2)?;
        let (handle, suffix) = if self.byte(1) == b'<' {
            self.skip();
            self.skip();
            let uri = self.scan_tag_uri(None)?;
            if self.byte(0) != b'>' {
                return Err(self.problem("did not find the expected '>'"));
            }
            self.skip();
            ("", uri)
        } else {
            let handle = self.scan_tag_handle(false)?;
            if handle.len() > 1 && handle.ends_with('!') {
                (handle, self.scan_tag_uri(None)?)
            } else {
                let suffix = self.scan_tag_uri(Some(handle))?;
                // A lone `!` is a tag, not a handle.
                if suffix.is_empty() { ("", handle.to_owned()) } else { ("!", suffix) }
            }
        };
        self.require(1)?;
        if !self.is_blank_or_end(0) {
            return Err(self.problem("did not find expected whitespace or line break"));
        }
        Ok(Token { kind: YamlTokenKind::Tag, line, text: handle.into(), suffix: Some(suffix.into()) })
    }

    fn scan_tag_handle(&mut self, is_directive: bool) -> Result<&'a str, YamlSyntaxError> {
        self.require(1)?;
        let start = self.at;
        if self.byte(0) != b'!' {
            return Err(self.problem("did not find expected '!'"));
        }
        self.skip();
        self.require(1)?;
        let name = self.take_word()?;
        if self.byte(0) == b'!' {
            self.skip();
        } else if is_directive && !name.is_empty() {
            return Err(self.problem("did not find expected '!'"));
        }
        Ok(self.text.get(start..self.at).unwrap_or_default())
    }

    /// Scans a tag URI or suffix. `head` was scanned as a handle but begins the suffix; its leading `!` is dropped.
    fn scan_tag_uri(&mut self, scanned: Option<&str>) -> Result<String, YamlSyntaxError> {
        let mut uri = scanned.and_then(|head| head.get(1..)).unwrap_or_default().as_bytes().to_vec();
        let mut has_content = scanned.is_some();
        self.require(1)?;
        while is_word(self.byte(0)) || b";/?:@&=+$,.!~*'()[]%".contains(&self.byte(0)) {
            if self.byte(0) == b'%' {
                self.scan_uri_escapes(&mut uri)?;
            } else {
                uri.push(self.byte(0));
                self.skip();
            }
            self.require(1)?;
            has_content = true;
        }
        if !has_content {
            return Err(self.problem("did not find expected tag URI"));
        }
        Ok(String::from_utf8_lossy(&uri).into_owned())
    }

    /// Scans one character that is written as percent-escaped bytes.
    fn scan_uri_escapes(&mut self, uri: &mut Vec<u8>) -> Result<(), YamlSyntaxError> {
        let mut remaining = None;
        while remaining != Some(0) {
            self.require(3)?;
            let (Some(high), Some(low)) = (hex(self.byte(1)), hex(self.byte(2))) else {
                return Err(self.problem("did not find URI escaped octet"));
            };
            if self.byte(0) != b'%' {
                return Err(self.problem("did not find URI escaped octet"));
            }
            let octet = high << 4 | low;
            remaining = Some(match remaining {
                None => match octet {
                    0..=0x7F => 0,
                    0xC0..=0xDF => 1,
                    0xE0..=0xEF => 2,
                    0xF0..=0xF7 => 3,
                    _ => return Err(self.problem("found an incorrect leading UTF-8 octet")),
                },
                Some(_) if octet & 0xC0 != 0x80 => {
                    return Err(self.problem("found an incorrect trailing UTF-8 octet"));
                }
                Some(left) => left - 1,
            });
            uri.push(octet);
            self.advance_to(self.at + 3);
        }
        Ok(())
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

pub(super) fn hex(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}
