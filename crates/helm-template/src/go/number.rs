//! Number literals, and the Go number types that each can have.

use super::quote::unquote;

/// A parsed literal. It can have several types at once: `1` is an integer and a float.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Number {
    pub int: Option<i64>,
    pub uint: Option<u64>,
    pub float: Option<f64>,
    pub complex: Option<(f64, f64)>,
    /// Whether the literal defaults to a float: it has a point or an exponent.
    pub is_float_literal: bool,
}

/// Why a text is not a number literal.
#[derive(Debug, PartialEq, Eq)]
pub enum NumberSyntaxError {
    Syntax,
    /// An integer that is too large.
    Overflow,
}

impl Number {
    /// Parses a literal, including character constants.
    pub fn parse(text: &str) -> Result<Self, NumberSyntaxError> {
        if text.starts_with('\'') {
            let text = unquote(text).map_err(|_| NumberSyntaxError::Syntax)?;
            let first = std::str::from_utf8(&text).ok().and_then(|text| text.chars().next());
            let code = u32::from(first.ok_or(NumberSyntaxError::Syntax)?);
            return Ok(Self::from_int(i64::from(code)));
        }
        if let Some(number) = text.strip_suffix('i') {
            return complex(number).ok_or(NumberSyntaxError::Syntax);
        }
        let (int, uint) = (int(text), uint(text));
        if int.is_some() || uint.is_some() {
            #[expect(clippy::cast_precision_loss, reason = "as Go does")]
            let float = int.map(|n| n as f64).or_else(|| uint.map(|n| n as f64));
            // A hexadecimal integer may contain an `e`.
            return Ok(Self { int, uint, float, complex: None, is_float_literal: false });
        }
        let float = float(text).ok_or(NumberSyntaxError::Syntax)?;
        if !text.contains(['.', 'e', 'E', 'p', 'P']) {
            return Err(NumberSyntaxError::Overflow);
        }
        let whole = float.fract() == 0.0 && float.abs() < 9.3e18;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is whole and in range"
        )]
        let (int, uint) = (
            (whole && float.abs() < 9.223_372_036_854_775e18).then_some(float as i64),
            (whole && float >= 0.0).then_some(float as u64),
        );
        Ok(Self { int, uint, float: Some(float), complex: None, is_float_literal: true })
    }

    fn from_int(n: i64) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "as Go does")]
        let float = n as f64;
        Self {
            int: Some(n),
            uint: u64::try_from(n).ok(),
            float: Some(float),
            complex: None,
            is_float_literal: false,
        }
    }
}

/// Parses `1+2`, after the `i` suffix was removed.
fn complex(text: &str) -> Option<Number> {
    let split = text.char_indices().skip(1).filter(|(at, c)| {
        let before = text[..*at].chars().last();
        let exponent =
            matches!(before, Some('e' | 'E')) && !text.starts_with("0x") || matches!(before, Some('p' | 'P'));
        matches!(c, '+' | '-') && !exponent
    });
    let (re, im) = match split.last() {
        Some((at, _)) => (float(&text[..at])?, float(&text[at..])?),
        None => (0.0, float(text)?),
    };
    Some(Number { complex: Some((re, im)), ..Number::default() })
}

/// Sign, radix, and digits without underscores; `None` if an underscore is misplaced.
fn digits(text: &str) -> Option<(bool, u32, String)> {
    let (negative, rest) = match text.strip_prefix(['+', '-']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    let lower = rest.to_ascii_lowercase();
    let (radix, digits) = if let Some(digits) = lower.strip_prefix("0x") {
        (16, digits)
    } else if let Some(digits) = lower.strip_prefix("0o") {
        (8, digits)
    } else if let Some(digits) = lower.strip_prefix("0b") {
        (2, digits)
    } else if lower.len() > 1 && lower.starts_with('0') {
        (8, &lower[1..])
    } else {
        (10, lower.as_str())
    };
    let prefixed = radix != 10;
    if digits.is_empty()
        || digits.ends_with('_')
        || digits.contains("__")
        || (digits.starts_with('_') && !prefixed)
    {
        return None;
    }
    Some((negative, radix, digits.replace('_', "")))
}

/// `strconv.ParseInt` with base 0: `010` is octal.
pub fn int(text: &str) -> Option<i64> {
    let (negative, radix, digits) = digits(text)?;
    let sign = if negative { "-" } else { "" };
    if digits.starts_with(['+', '-']) {
        return None;
    }
    i64::from_str_radix(&format!("{sign}{digits}"), radix).ok()
}

fn uint(text: &str) -> Option<u64> {
    if text.starts_with(['+', '-']) {
        return None;
    }
    let (_, radix, digits) = digits(text)?;
    if digits.starts_with(['+', '-']) {
        return None;
    }
    u64::from_str_radix(&digits, radix).ok()
}

/// `strconv.ParseFloat`, which also accepts `inf`, `infinity` and `nan`.
pub fn any_float(text: &str) -> Option<f64> {
    let (negative, rest) = match text.strip_prefix(['+', '-']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    if rest.eq_ignore_ascii_case("inf") || rest.eq_ignore_ascii_case("infinity") {
        return Some(if negative { f64::NEG_INFINITY } else { f64::INFINITY });
    }
    if text.eq_ignore_ascii_case("nan") {
        return Some(f64::NAN);
    }
    float(text)
}

/// A decimal float, or a hexadecimal one with a binary exponent.
fn float(text: &str) -> Option<f64> {
    let (negative, rest) = match text.strip_prefix(['+', '-']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    // Underscores are allowed between digits and after a prefix.
    let digit =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_hexdigit() || matches!(byte, b'x' | b'X'));
    let bytes = rest.as_bytes();
    let between =
        |at: usize| digit(at.checked_sub(1).and_then(|at| bytes.get(at))) && digit(bytes.get(at + 1));
    if !memchr::memchr_iter(b'_', bytes).all(between) {
        return None;
    }
    let plain = rest.replace('_', "").to_ascii_lowercase();
    let size = if let Some(hex) = plain.strip_prefix("0x") {
        hex_float(hex)?
    } else {
        // The standard library's parser also accepts words such as `inf`.
        let is_number = plain.starts_with(|c: char| c.is_ascii_digit() || c == '.');
        plain.parse::<f64>().ok().filter(|f| is_number && f.is_finite())?
    };
    Some(if negative { -size } else { size })
}

fn hex_float(text: &str) -> Option<f64> {
    let (mantissa, exponent) = text.split_once('p')?;
    let exponent: i32 = exponent.parse().ok()?;
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && part.is_empty() {
        return None;
    }
    let mut value = 0.0_f64;
    for c in whole.chars().chain(part.chars()) {
        value = value * 16.0 + f64::from(c.to_digit(16)?);
    }
    let shift = i32::try_from(part.len()).ok()?.checked_mul(4)?;
    Some(value * 2.0_f64.powi(exponent.checked_sub(shift)?)).filter(|f| f.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_parse_like_go() {
        let int = |text| Number::parse(text).map(|n| (n.int, n.is_float_literal));
        for (text, n) in [
            ("0", 0),
            ("-7", -7),
            ("+7", 7),
            ("0x1F", 31),
            ("0b101", 5),
            ("0o17", 15),
            ("017", 15),
            ("1_000", 1000),
            ("'a'", 97),
            ("0x_1", 1),
        ] {
            assert_eq!(int(text), Ok((Some(n), false)), "{text}");
        }
        let float = |text| Number::parse(text).map(|n| (n.float, n.is_float_literal));
        for (text, n) in [
            ("1.5", 1.5),
            ("1e3", 1000.0),
            ("0x1p20", 1_048_576.0),
            (".5", 0.5),
            ("-1.", -1.0),
            ("0x1.8p1", 3.0),
        ] {
            assert_eq!(float(text), Ok((Some(n), true)), "{text}");
        }
        assert_eq!(Number::parse("1e3").unwrap().int, Some(1000));
        assert_eq!(Number::parse("18446744073709551615").unwrap().uint, Some(u64::MAX));
        assert_eq!(Number::parse("1+2i").unwrap().complex, Some((1.0, 2.0)));
        assert_eq!(Number::parse("1e+2i").unwrap().complex, Some((0.0, 100.0)));
        assert_eq!(Number::parse("99999999999999999999"), Err(NumberSyntaxError::Overflow));
        for text in ["", "1__0", "0x", "08", "1_", "--1", "'ab'"] {
            assert!(Number::parse(text).is_err(), "{text}");
        }
    }
}
