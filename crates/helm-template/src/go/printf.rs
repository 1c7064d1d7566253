//! `fmt.Sprintf`: parsing of the format string. [`super::verbs`] formats the values.

use super::print::{into_text, write_checked};
use super::verbs::FormatSpec;
use crate::value::Value;

/// Go's maximum for a width or precision.
const MAX_WIDTH: usize = 1_000_000;

/// `fmt.Sprintf`, with U+FFFD for invalid UTF-8.
pub fn printf(format: &str, arguments: &[Value]) -> String {
    into_text(printf_within(usize::MAX, format.as_bytes(), arguments).unwrap_or_default())
}

/// `fmt.Sprintf` on bytes, because Go strings may hold any bytes. Returns `None` if the result would be much longer than `most`: a
/// short format can request any width, and can print one argument any number of times.
pub(crate) fn printf_within(most: usize, format: &[u8], arguments: &[Value]) -> Option<Vec<u8>> {
    let mut printer = FormatState {
        out: Vec::with_capacity(format.len() + 16),
        rest: format,
        arguments,
        next_index: 0,
        reordered: false,
        has_valid_index: true,
        is_unclosed: false,
        max_len: most,
        is_too_long: false,
    };
    while let Some(at) = memchr::memchr(b'%', printer.rest) {
        printer.out.extend_from_slice(&printer.rest[..at]);
        printer.rest = &printer.rest[at + 1..];
        printer.directive();
        if printer.is_too_long {
            return None;
        }
    }
    printer.out.extend_from_slice(printer.rest);
    printer.report_unused();
    Some(printer.out)
}

/// The state of one `Sprintf` call.
#[expect(clippy::struct_excessive_bools, reason = "each is a thing to remember of its own")]
struct FormatState<'p> {
    out: Vec<u8>,
    /// The unparsed rest of the format.
    rest: &'p [u8],
    arguments: &'p [Value],
    /// The index of the next argument.
    next_index: usize,
    /// An argument was selected by index; unused arguments are then not reported.
    reordered: bool,
    /// All bracketed indexes so far were valid.
    has_valid_index: bool,
    /// The rest of the format has no closing bracket, so it need not be searched again.
    is_unclosed: bool,
    /// Maximum length of the output, and whether the output would exceed it.
    max_len: usize,
    is_too_long: bool,
}

impl<'p> FormatState<'p> {
    /// Handles one directive, after its `%`.
    fn directive(&mut self) {
        self.has_valid_index = true;
        let mut spec = self.flags();
        let mut after_index = self.index();
        if self.accept(b'*') {
            let width = self.number();
            if width.is_none() {
                self.out.extend_from_slice(b"%!(BADWIDTH)");
            }
            if width.is_some_and(|width| width < 0) {
                spec.minus = true;
                spec.zero = false;
            }
            spec.width = width.and_then(|width| usize::try_from(width.unsigned_abs()).ok());
            after_index = false;
        } else {
            spec.width = self.digits();
            if after_index && spec.width.is_some() {
                self.has_valid_index = false;
            }
        }
        // A dot at the very end is an unknown verb, not a precision.
        if self.rest.len() > 1 && self.accept(b'.') {
            if after_index {
                self.has_valid_index = false;
            }
            after_index = self.index();
            if self.accept(b'*') {
                let precision = self.number().filter(|precision| *precision >= 0);
                spec.precision = precision.and_then(|precision| usize::try_from(precision).ok());
                if precision.is_none() {
                    self.out.extend_from_slice(b"%!(BADPREC)");
                }
                after_index = false;
            } else {
                spec.precision = Some(self.digits().unwrap_or(0));
            }
        }
        if !after_index {
            self.index();
        }
        match self.verb() {
            None => self.out.extend_from_slice(b"%!(NOVERB)"),
            Some('%') => self.out.push(b'%'),
            Some(verb) if !self.has_valid_index => self.report(verb, "(BADINDEX)"),
            Some(verb) => match self.next_argument() {
                None => self.report(verb, "(MISSING)"),
                Some(value) => {
                    if verb == 'v' {
                        // With `%v`, plus asks for field names and sharp for Go syntax.
                        spec = FormatSpec {
                            plus: false,
                            sharp: false,
                            names: spec.plus,
                            source: spec.sharp,
                            ..spec
                        };
                    }
                    if spec.length(value) > self.max_len.saturating_sub(self.out.len()) {
                        self.is_too_long = true;
                    } else {
                        write_checked(&mut self.out, spec, verb, value);
                    }
                }
            },
        }
    }

    fn flags(&mut self) -> FormatSpec {
        let mut spec = FormatSpec::default();
        while let Some(flag) = self.rest.first() {
            match flag {
                b'#' => spec.sharp = true,
                b'0' => spec.zero = true,
                b'+' => spec.plus = true,
                b'-' => spec.minus = true,
                b' ' => spec.space = true,
                _ => break,
            }
            self.rest = &self.rest[1..];
        }
        spec
    }

    fn verb(&mut self) -> Option<char> {
        let first = *self.rest.first()?;
        let (verb, length) = if first.is_ascii() {
            (char::from(first), 1)
        } else {
            let start = &self.rest[..self.rest.len().min(4)];
            let valid = start.utf8_chunks().next().map_or("", |chunk| chunk.valid());
            valid.chars().next().map_or((char::REPLACEMENT_CHARACTER, 1), |verb| (verb, verb.len_utf8()))
        };
        self.rest = &self.rest[length..];
        Some(verb)
    }

    fn report(&mut self, verb: char, why: &str) {
        self.out.extend_from_slice(format!("%!{verb}{why}").as_bytes());
    }

    fn accept(&mut self, byte: u8) -> bool {
        let here = self.rest.first() == Some(&byte);
        if here {
            self.rest = &self.rest[1..];
        }
        here
    }

    fn digits(&mut self) -> Option<usize> {
        let mut number = None;
        while let Some(digit) = self.rest.first().filter(|byte| byte.is_ascii_digit()) {
            let so_far = number.unwrap_or(0);
            if so_far > MAX_WIDTH {
                // Go ignores the rest of the format after a number that is too large.
                self.rest = &[];
                return None;
            }
            number = Some(so_far * 10 + usize::from(digit - b'0'));
            self.rest = &self.rest[1..];
        }
        number
    }

    fn next_argument(&mut self) -> Option<&'p Value> {
        let value = self.arguments.get(self.next_index)?;
        self.next_index += 1;
        Some(value)
    }

    /// A width or precision given as an argument (`*`).
    fn number(&mut self) -> Option<i64> {
        let number = match self.next_argument()? {
            Value::Int(n) | Value::Int64(n) => Some(*n),
            Value::Uint8(n) => Some(i64::from(*n)),
            Value::Uint64(n) => i64::try_from(*n).ok(),
            Value::Object(object) => object.int(),
            _ => None,
        };
        number.filter(|n| n.unsigned_abs() <= MAX_WIDTH as u64)
    }

    /// Parses an argument index `[n]`, if present. Returns whether a number was read.
    fn index(&mut self) -> bool {
        if self.rest.first() != Some(&b'[') {
            return false;
        }
        self.reordered = true;
        let end = if self.is_unclosed { None } else { memchr::memchr(b']', self.rest) };
        self.is_unclosed = end.is_none();
        let Some(end) = end.filter(|_| self.rest.len() >= 3) else {
            self.has_valid_index = false;
            self.rest = &self.rest[1..];
            return false;
        };
        let number = std::str::from_utf8(&self.rest[1..end]).ok().filter(|digits| {
            !digits.is_empty() && digits.len() < 8 && digits.bytes().all(|byte| byte.is_ascii_digit())
        });
        let number = number.and_then(|digits| digits.parse::<usize>().ok());
        self.rest = &self.rest[end + 1..];
        match number {
            Some(number) if (1..=self.arguments.len()).contains(&number) => self.next_index = number - 1,
            _ => self.has_valid_index = false,
        }
        number.is_some()
    }

    /// Reports unused arguments.
    fn report_unused(&mut self) {
        let Some(left) =
            self.arguments.get(self.next_index..).filter(|left| !left.is_empty() && !self.reordered)
        else {
            return;
        };
        self.out.extend_from_slice(b"%!(EXTRA ");
        for (at, value) in left.iter().enumerate() {
            if at > 0 {
                self.out.extend_from_slice(b", ");
            }
            if value.is_some() {
                self.out.extend_from_slice(value.type_name().as_bytes());
                self.out.push(b'=');
            }
            write_checked(&mut self.out, FormatSpec::default(), 'v', value);
        }
        self.out.push(b')');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{List, Map};

    #[test]
    fn infinities_and_nan_are_not_zero_padded() {
        for (value, expected) in [
            (f64::INFINITY, "+Inf|+Inf| +Inf| Inf|    +Inf|+Inf    |"),
            (f64::NEG_INFINITY, "-Inf|-Inf| -Inf|-Inf|    -Inf|-Inf    |"),
            (f64::NAN, "NaN|NaN|  NaN| NaN|     NaN|NaN     |"),
        ] {
            let arguments: Vec<_> = (0..6).map(|_| Value::Float(value)).collect();
            assert_eq!(printf("%v|%f|%5.1f|% v|%08.1f|%-8v|", &arguments), expected);
        }
    }

    #[test]
    fn printf_matches_go() {
        let (int, float) = (Value::Int, Value::Float);
        let listed = || Value::from(List::any(["a".into(), Value::Int(1)]));
        let table: &[(&str, &[Value], &str)] = &[
            ("%d %s %v", &[float(3.0), int(5), Value::Nil], "%!d(float64=3) %!s(int=5) <nil>"),
            ("|%5d|%-5d|%05d|%+d|", &[int(42), int(42), int(42), int(42)], "|   42|42   |00042|+42|"),
            (
                "%x %X %o %b %c %U",
                &[int(255), int(255), int(8), int(5), int(120), int(120)],
                "ff FF 10 101 x U+0078",
            ),
            ("%8.3f|%q|%#q|%%", &[float(4.5678), "a\"b".into(), "a`".into()], "   4.568|\"a\\\"b\"|\"a`\"|%"),
            (
                "%s|%-4s|%4s|%.2s",
                &[listed(), "ab".into(), "cd".into(), "xyz".into()],
                "[a %!s(int=1)]|ab  |  cd|xy",
            ),
            ("%d", &[int(1), int(2)], "1%!(EXTRA int=2)"),
            ("%d %d", &[int(1)], "1 %!d(MISSING)"),
            ("%[2]d %[1]d", &[int(1), int(2)], "2 1"),
            ("%*d", &[int(4), int(7)], "   7"),
            ("%s %q", &[Value::Bool(true), int(65)], "%!s(bool=true) 'A'"),
            ("%6.2f", &["str".into()], "%!f(string=    st)"),
            ("%08.3f|%+.2e|%g", &[float(-4.5678), float(12345.678), float(1e-7)], "-004.568|+1.23e+04|1e-07"),
            ("%x % x %#x", &["hi".into(), "hi".into(), int(255)], "6869 68 69 0xff"),
            ("%t %5t", &[int(1), Value::Bool(true)], "%!t(int=1)  true"),
            ("%#v", &[listed()], "[]interface {}{\"a\", 1}"),
            ("%T %T", &[float(1.0), Map::new().into()], "float64 map[string]interface {}"),
            ("%s", &[Value::Nil], "%!s(<nil>)"),
            ("%!", &[int(1)], "%!!(int=1)"),
            ("50%", &[], "50%!(NOVERB)"),
            (
                "%x|%X|%b|%.2x",
                &[float(1.5), float(-0.1), float(1.0), float(1.999)],
                "0x1.8p+00|-0X1.999999999999AP-04|4503599627370496p-52|0x1.00p+01",
            ),
            (
                "%#g|%#.3g|%#v|%#x",
                &[float(1.0), float(100.0), float(1e6), float(1.0)],
                "1.00000|100.|1e+06|0x1.0000p+00",
            ),
            (
                "%.2T|%#.2x|%#o|%#o|%O",
                &[int(1), "abc".into(), int(0), int(8), int(8)],
                "in|0x6162|0|010|0o10",
            ),
            (
                "%U|%#U|%.6U",
                &[int(-1), int(0x65e5), int(65)],
                "U+FFFFFFFFFFFFFFFF|U+65E5 '\u{65e5}'|U+000041",
            ),
            ("%+q|%+q|%#q", &["h\u{e9}".into(), int(0xe9), "a\tb".into()], "\"h\\u00e9\"|'\\u00e9'|`a\tb`"),
            (
                "%8v|%-8d|%5v|",
                &[listed(), listed(), Value::Nil],
                "[       a        1]|[%!d(string=a       ) 1       ]|<nil>|",
            ),
            (
                "%d|%d|%#v|%w",
                &[List::any([Value::Nil]).into(), Value::Nil, Value::Nil, listed()],
                "[<nil>]|%!d(<nil>)|<nil>|%!w([]interface {}=[a 1])",
            ),
            (
                "%[1].2v|%[1]2v|%[|%.*f|%-05d|",
                &[int(1), float(2.5), int(3)],
                "%!v(BADINDEX)|%!v(BADINDEX)|%!|(BADINDEX)2.5|3    |",
            ),
        ];
        for (format, arguments, expected) in table {
            assert_eq!(printf(format, arguments), *expected, "{format}");
        }
    }
}
