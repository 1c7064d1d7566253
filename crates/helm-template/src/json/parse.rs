//! JSON decoder.
//!
//! Go validates the syntax of the whole text before it decodes any value, so a syntax error anywhere takes precedence.

use crate::data::{Data, Members};
use crate::go::{lossy_text, quote};
use crate::value::Str;
use crate::yaml::json_kind;

/// Maximum nesting of arrays and objects. Go allows ten thousand, which would need too much stack here.
const MAX_DEPTH: usize = 1_000;

/// Decodes one JSON text. Errors carry Go's message.
pub fn parse(text: impl AsRef<[u8]>) -> Result<Data, Str> {
    let (data, unfit) = parse_partial(text)?;
    unfit.map_or(Ok(data), Err)
}

/// Like [`parse`], but keeps partial results: a number that does not fit a float becomes null, and the first such error is returned
/// beside the data, as in Go.
pub fn parse_partial(text: impl AsRef<[u8]>) -> Result<(Data, Option<Str>), Str> {
    let mut reader = JsonDecoder { text: text.as_ref(), at: 0, depth: 0, number_error: None };
    let data = reader.document()?;
    Ok((data, reader.number_error))
}

/// Go's error for data of the wrong type; `go_type` is the name of the target type.
pub fn mismatch(data: &Data, go_type: &str) -> Str {
    format!("json: cannot unmarshal {} into Go value of type {go_type}", json_kind(data)).into()
}

/// The decoder's position in its text.
struct JsonDecoder<'t> {
    text: &'t [u8],
    at: usize,
    depth: usize,
    /// The error for the first number that does not fit a float. A later syntax error takes precedence.
    number_error: Option<Str>,
}

/// Contexts of Go's error for an unexpected character.
const VALUE_CONTEXT: &str = "looking for beginning of value";
const KEY_CONTEXT: &str = "looking for beginning of object key string";

impl JsonDecoder<'_> {
    fn document(&mut self) -> Result<Data, Str> {
        self.skip_space();
        let data = self.value()?;
        self.skip_space();
        match self.peek() {
            None => Ok(data),
            Some(byte) => Err(unexpected(byte, "after top-level value")),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// The next byte. Fails at the end of the text.
    fn next_byte(&mut self) -> Result<u8, Str> {
        let byte = self.peek().ok_or("unexpected end of JSON input")?;
        self.at += 1;
        Ok(byte)
    }

    /// The next byte of a literal; at the end of the text, a space.
    fn next_byte_or_space(&mut self) -> u8 {
        let byte = self.peek().unwrap_or(b' ');
        self.at += 1;
        byte
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    fn value(&mut self) -> Result<Data, Str> {
        let start = self.at;
        match self.next_byte()? {
            b'{' => self.nested(Self::object),
            b'[' => self.nested(Self::array),
            b'"' => self.string().map(Data::String),
            b't' => self.literal("true", Data::Bool(true)),
            b'f' => self.literal("false", Data::Bool(false)),
            b'n' => self.literal("null", Data::Null),
            byte @ (b'-' | b'0'..=b'9') => self.number(start, byte),
            byte => Err(unexpected(byte, VALUE_CONTEXT)),
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Data, Str>) -> Result<Data, Str> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("exceeded max depth".into());
        }
        let data = read(self);
        self.depth -= 1;
        data
    }

    fn array(&mut self) -> Result<Data, Str> {
        let mut items = Vec::new();
        self.skip_space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Data::List(items));
        }
        loop {
            self.skip_space();
            items.push(self.value()?);
            self.skip_space();
            match self.next_byte()? {
                b',' => {}
                b']' => return Ok(Data::List(items)),
                byte => return Err(unexpected(byte, "after array element")),
            }
        }
    }

    fn object(&mut self) -> Result<Data, Str> {
        let mut members = Members::new();
        self.skip_space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Data::Map(members));
        }
        loop {
            self.skip_space();
            let key = match self.next_byte()? {
                b'"' => self.string()?,
                byte => return Err(unexpected(byte, KEY_CONTEXT)),
            };
            self.skip_space();
            match self.next_byte()? {
                b':' => {}
                byte => return Err(unexpected(byte, "after object key")),
            }
            self.skip_space();
            let value = self.value()?;
            members.insert(key, value);
            self.skip_space();
            match self.next_byte()? {
                b',' => {}
                b'}' => return Ok(Data::Map(members)),
                byte => return Err(unexpected(byte, "after object key:value pair")),
            }
        }
    }

    fn literal(&mut self, word: &str, data: Data) -> Result<Data, Str> {
        for expected in word.bytes().skip(1) {
            let byte = self.next_byte_or_space();
            if byte != expected {
                let context = format!("in literal {word} (expecting '{}')", char::from(expected));
                return Err(unexpected(byte, &context));
            }
        }
        Ok(data)
    }

    fn number(&mut self, start: usize, first: u8) -> Result<Data, Str> {
        let digit = if first == b'-' { self.next_byte_or_space() } else { first };
        match digit {
            b'0' => {}
            b'1'..=b'9' => self.skip_digits(),
            byte => return Err(unexpected(byte, "in numeric literal")),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        let literal = self.text.get(start..self.at).map(lossy_text).unwrap_or_default();
        match literal.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Data::Float(number)),
            _ => {
                self.number_error.get_or_insert_with(|| {
                    format!("json: cannot unmarshal number {literal} into Go value of type float64").into()
                });
                Ok(Data::Null)
            }
        }
    }

    fn digits(&mut self, context: &str) -> Result<(), Str> {
        match self.next_byte_or_space() {
            b'0'..=b'9' => self.skip_digits(),
            byte => return Err(unexpected(byte, context)),
        }
        Ok(())
    }

    fn skip_digits(&mut self) {
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
    }

    /// Decodes a string after its opening quote.
    fn string(&mut self) -> Result<Str, Str> {
        let start = self.at;
        // Fast path for strings without escapes.
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => {
                    let bytes = self.text.get(start..self.at).unwrap_or_default();
                    self.at += 1;
                    return Ok(match std::str::from_utf8(bytes) {
                        Ok(text) => text.into(),
                        Err(_) => lossy_text(bytes).into(),
                    });
                }
                b'\\' | ..0x20 => break,
                _ => self.at += 1,
            }
        }
        let mut bytes = self.text.get(start..self.at).unwrap_or_default().to_vec();
        loop {
            match self.next_byte()? {
                b'"' => return Ok(lossy_text(&bytes).into()),
                b'\\' => self.escape(&mut bytes)?,
                byte @ ..0x20 => return Err(unexpected(byte, "in string literal")),
                byte => bytes.push(byte),
            }
        }
    }

    fn escape(&mut self, bytes: &mut Vec<u8>) -> Result<(), Str> {
        bytes.push(match self.next_byte_or_space() {
            byte @ (b'"' | b'\\' | b'/') => byte,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let c = self.code_point()?;
                bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            byte => return Err(unexpected(byte, "in string escape code")),
        });
        Ok(())
    }

    /// Decodes four hexadecimal digits, or a surrogate pair. An unpaired surrogate becomes U+FFFD.
    fn code_point(&mut self) -> Result<char, Str> {
        let high = self.four_digits()?;
        if let Some(c) = char::from_u32(high) {
            return Ok(c);
        }
        let before = self.at;
        if matches!(self.text.get(self.at..), Some([b'\\', b'u', ..])) {
            self.at += 2;
            let low = self.four_digits()?;
            if (0xD800..0xDC00).contains(&high) && (0xDC00..0xE000).contains(&low) {
                let code = 0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00);
                return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            // The second escape is decoded on its own.
            self.at = before;
        }
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn four_digits(&mut self) -> Result<u32, Str> {
        let mut code = 0;
        for _ in 0..4 {
            let byte = self.next_byte_or_space();
            let digit = char::from(byte)
                .to_digit(16)
                .ok_or_else(|| unexpected(byte, "in \\u hexadecimal character escape"))?;
            code = code * 16 + digit;
        }
        Ok(code)
    }
}

fn unexpected(byte: u8, context: &str) -> Str {
    let shown = match byte {
        b'\'' => "'\\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        // Go shows a byte as the character with that code point.
        byte => {
            let quoted = quote(char::from(byte).encode_utf8(&mut [0; 4]));
            format!("'{}'", quoted.trim_matches('"'))
        }
    };
    format!("invalid character {shown} {context}").into()
}
