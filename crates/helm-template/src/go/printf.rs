//! `fmt.Sprintf`.

use std::fmt::Write;

use super::float::{self, Form};
use super::print::{ENDLESS, complex, list, write_checked, write_plain};
use super::quote::{escape, quote};
use crate::value::Value;

/// Beyond this a width or precision is not believed.
const LARGEST: usize = 1_000_000;

#[derive(Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "these are the flags that there are")]
struct Spec {
    minus: bool,
    plus: bool,
    sharp: bool,
    space: bool,
    zero: bool,
    width: Option<usize>,
    precision: Option<usize>,
}

impl Spec {
    /// Roughly how long the text of a value may become: in a list each element is as wide as the width.
    fn length(self, value: &Value) -> usize {
        let extent = value.extent();
        let leaves =
            if matches!(value, Value::List(_) | Value::Map(_) | Value::Bytes(_)) { extent } else { 1 };
        let width = self.width.unwrap_or(0).max(self.precision.unwrap_or(0));
        extent.saturating_add(width.saturating_mul(leaves))
    }
}

/// The arguments, and which comes next.
struct Arguments<'a> {
    all: &'a [Value],
    next: usize,
    /// One was chosen by number: then nobody asks whether all were used.
    reordered: bool,
    /// The last number in brackets made no sense.
    bad_index: bool,
    /// There is no closing bracket in the rest of the format: nobody need look for one again.
    unclosed: bool,
    /// How long the text may become, and that it would be longer.
    most: usize,
    too_long: bool,
}

impl<'a> Arguments<'a> {
    fn take(&mut self) -> Option<&'a Value> {
        let value = self.all.get(self.next)?;
        self.next += 1;
        Some(value)
    }

    /// `[n]`, if it stands here; the rest of the format after it.
    fn index<'f>(&mut self, format: &'f str) -> &'f str {
        let Some(inner) = format.strip_prefix('[') else { return format };
        self.reordered = true;
        let closed = if self.unclosed { None } else { inner.split_once(']') };
        let Some((digits, rest)) = closed else {
            self.unclosed = true;
            self.bad_index = true;
            return inner;
        };
        match digits.parse::<usize>().ok().filter(|n| (1..=self.all.len()).contains(n)) {
            Some(number) => self.next = number - 1,
            None => self.bad_index = true,
        }
        rest
    }

    /// A width or precision given as an argument.
    fn number(&mut self) -> Option<i64> {
        match self.take()? {
            Value::Int(n) | Value::Int64(n) if n.unsigned_abs() <= LARGEST as u64 => Some(*n),
            _ => None,
        }
    }
}

pub fn printf(format: &str, arguments: &[Value]) -> String {
    printf_within(usize::MAX, format, arguments).unwrap_or_default()
}

/// None if it would be much longer than `most`: a few bytes of format can ask for any width, and for one argument any
/// number of times.
pub(crate) fn printf_within(most: usize, format: &str, arguments: &[Value]) -> Option<String> {
    let mut out = String::with_capacity(format.len() + 16);
    let mut args = Arguments {
        all: arguments,
        next: 0,
        reordered: false,
        bad_index: false,
        unclosed: false,
        most,
        too_long: false,
    };
    let mut rest = format;
    while let Some(at) = memchr::memchr(b'%', rest.as_bytes()) {
        out.push_str(&rest[..at]);
        rest = directive(&mut out, &rest[at + 1..], &mut args);
        if args.too_long {
            return None;
        }
    }
    out.push_str(rest);
    if !args.reordered && args.next < arguments.len() {
        out.push_str("%!(EXTRA ");
        for (at, value) in arguments[args.next..].iter().enumerate() {
            if at > 0 {
                out.push_str(", ");
            }
            match value {
                Value::Nil | Value::Null => out.push_str("<nil>"),
                value => {
                    out.push_str(value.type_name());
                    out.push('=');
                    write_checked(&mut out, value);
                }
            }
        }
        out.push(')');
    }
    Some(out)
}

/// What follows a `%`; answers what is left of the format.
fn directive<'f>(out: &mut String, format: &'f str, args: &mut Arguments<'_>) -> &'f str {
    let mut spec = Spec::default();
    let flags = format.bytes().take_while(|flag| b"#0+- ".contains(flag)).count();
    for flag in format[..flags].bytes() {
        match flag {
            b'#' => spec.sharp = true,
            b'0' => spec.zero = true,
            b'+' => spec.plus = true,
            b'-' => spec.minus = true,
            _ => spec.space = true,
        }
    }
    let mut rest = args.index(&format[flags..]);
    if let Some(after) = rest.strip_prefix('*') {
        rest = after;
        match args.number() {
            Some(width) => {
                spec.minus |= width < 0;
                spec.width = usize::try_from(width.unsigned_abs()).ok();
            }
            None => out.push_str("%!(BADWIDTH)"),
        }
    } else {
        (spec.width, rest) = digits(rest);
    }
    if let Some(after) = rest.strip_prefix('.') {
        rest = args.index(after);
        if let Some(after) = rest.strip_prefix('*') {
            rest = after;
            match args.number() {
                Some(precision) => spec.precision = usize::try_from(precision).ok(),
                None => out.push_str("%!(BADPREC)"),
            }
        } else {
            let (precision, after) = digits(rest);
            spec.precision = Some(precision.unwrap_or(0));
            rest = after;
        }
    }
    rest = args.index(rest);
    if spec.minus {
        spec.zero = false;
    }
    let Some(verb) = rest.chars().next() else {
        out.push_str("%!(NOVERB)");
        return rest;
    };
    rest = &rest[verb.len_utf8()..];
    if verb == 'v' {
        // With this verb a plus asks for the fields of structs, not for signs.
        spec.plus = false;
    }
    if verb == '%' {
        out.push('%');
    } else if std::mem::take(&mut args.bad_index) {
        // A String takes whatever is written to it.
        let _ = write!(out, "%!{verb}(BADINDEX)");
    } else if let Some(value) = args.take() {
        if verb != 'T' && value.is_endless() {
            out.push_str(ENDLESS);
        } else if spec.length(value) > args.most.saturating_sub(out.len()) {
            args.too_long = true;
        } else {
            argument(out, spec, verb, value);
        }
    } else {
        let _ = write!(out, "%!{verb}(MISSING)");
    }
    rest
}

fn digits(format: &str) -> (Option<usize>, &str) {
    let count = format.bytes().take_while(u8::is_ascii_digit).count();
    let number = format[..count].parse().ok().filter(|n| *n <= LARGEST);
    (number, &format[count..])
}

fn argument(out: &mut String, spec: Spec, verb: char, value: &Value) {
    match (verb, value) {
        ('T', value) => pad(out, spec, value.type_name()),
        ('v', Value::Nil | Value::Null) => pad(out, spec, "<nil>"),
        ('p', _) | (_, Value::Nil | Value::Null) => bad(out, spec, verb, value),
        _ => one(out, spec, verb, value),
    }
}

fn one(out: &mut String, spec: Spec, verb: char, value: &Value) {
    if verb == 'v' && spec.sharp {
        return source(out, value);
    }
    match value {
        // Within a list or a map. Neither the verb nor a width matters there.
        Value::Nil | Value::Null => out.push_str("<nil>"),
        Value::Bool(truth) if matches!(verb, 't' | 'v') => {
            pad(out, spec, if *truth { "true" } else { "false" });
        }
        Value::Int(n) | Value::Int64(n) => integer(out, spec, verb, value, *n < 0, n.unsigned_abs()),
        Value::Uint64(n) => integer(out, spec, verb, value, false, *n),
        Value::Float(n) => match real(spec, verb, *n) {
            Some(text) => pad_number(out, Spec { zero: spec.zero && n.is_finite(), ..spec }, &text),
            None => bad(out, spec, verb, value),
        },
        Value::Complex(re, im) => match real(spec, verb, *re) {
            Some(_) => pad(out, spec, &complex(*re, *im, |part| real(spec, verb, part).unwrap_or_default())),
            None => bad(out, spec, verb, value),
        },
        Value::String(text) => match string(spec, verb, text) {
            Some(text) => pad(out, spec, &text),
            None => bad(out, spec, verb, value),
        },
        Value::Raw(bytes) => one(out, spec, verb, &Value::string(String::from_utf8_lossy(bytes))),
        Value::Bytes(bytes) => match verb {
            's' | 'q' | 'x' | 'X' => {
                one(out, spec, verb, &Value::String(String::from_utf8_lossy(bytes).into()));
            }
            _ => {
                list(out, bytes.iter(), |out, byte| one(out, spec, verb, &Value::Uint64(u64::from(*byte))));
            }
        },
        Value::List(items) => list(out, items.iter(), |out, item| one(out, spec, verb, item)),
        Value::Map(map) => {
            out.push_str("map");
            list(out, map.entries().iter(), |out, (key, value)| {
                one(out, spec, verb, &Value::String(key.clone()));
                out.push(':');
                one(out, spec, verb, value);
            });
        }
        Value::Object(object) => match verb {
            'v' | 's' => pad(out, spec, &object.print()),
            'q' => pad(out, spec, &quote(&object.print())),
            'x' | 'X' if object.int().is_some() => {
                pad(out, spec, &string(spec, verb, &object.print()).unwrap_or_default());
            }
            _ => match object.int() {
                Some(n) => integer(out, spec, verb, value, n < 0, n.unsigned_abs()),
                None => bad(out, spec, verb, value),
            },
        },
        Value::Bool(_) => bad(out, spec, verb, value),
    }
}

/// `%!d(string=x)`: the verb does not fit the value.
fn bad(out: &mut String, spec: Spec, verb: char, value: &Value) {
    let _ = write!(out, "%!{verb}(");
    match value {
        Value::Nil | Value::Null => out.push_str("<nil>"),
        value => {
            out.push_str(value.type_name());
            out.push('=');
            one(out, Spec { sharp: false, ..spec }, 'v', value);
        }
    }
    out.push(')');
}

fn integer(out: &mut String, spec: Spec, verb: char, value: &Value, negative: bool, size: u64) {
    let digits = match verb {
        'v' | 'd' => size.to_string(),
        'b' => format!("{}{size:b}", if spec.sharp { "0b" } else { "" }),
        'o' => format!("{}{size:o}", if spec.sharp { "0" } else { "" }),
        'O' => format!("0o{size:o}"),
        'x' => format!("{}{size:x}", if spec.sharp { "0x" } else { "" }),
        'X' => format!("{}{size:X}", if spec.sharp { "0X" } else { "" }),
        'c' | 'q' | 'U' => {
            let code = u32::try_from(size).ok().filter(|_| !negative);
            let c = code.and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER);
            let text = match verb {
                'c' => c.to_string(),
                'U' if spec.sharp => format!("U+{:04X} '{c}'", u32::from(c)),
                'U' => format!("U+{:04X}", u32::from(c)),
                _ => {
                    let mut quoted = String::from("'");
                    escape(&mut quoted, c, '\'');
                    quoted.push('\'');
                    quoted
                }
            };
            return pad(out, spec, &text);
        }
        _ => return bad(out, spec, verb, value),
    };
    let mut text = String::from(if negative {
        "-"
    } else if spec.plus {
        "+"
    } else if spec.space {
        " "
    } else {
        ""
    });
    let zeros = spec.precision.unwrap_or(0).saturating_sub(digits.len());
    (0..zeros).for_each(|_| text.push('0'));
    if spec.precision != Some(0) || size != 0 {
        text.push_str(&digits);
    }
    // With a precision, zeros in front are its affair alone.
    let spec = Spec { zero: spec.zero && spec.precision.is_none(), ..spec };
    pad_number(out, spec, &text);
}

fn real(spec: Spec, verb: char, value: f64) -> Option<String> {
    let text = match verb {
        'v' => float::format(value, Form::General, None),
        'g' | 'G' => float::format(value, Form::General, spec.precision),
        'e' | 'E' => float::format(value, Form::Exponent, Some(spec.precision.unwrap_or(6))),
        'f' | 'F' => float::format(value, Form::Fixed, Some(spec.precision.unwrap_or(6))),
        _ => return None,
    };
    let text = if verb.is_ascii_uppercase() { text.to_uppercase() } else { text };
    // The infinite has a sign by itself, and keeps it unless a space is asked for in its place.
    let text =
        if spec.space && !spec.plus { text.strip_prefix('+').unwrap_or(&text).to_owned() } else { text };
    let signed = text.starts_with(['-', '+']);
    Some(match (signed, spec.plus, spec.space) {
        (false, true, _) => format!("+{text}"),
        (false, false, true) => format!(" {text}"),
        _ => text,
    })
}

fn string(spec: Spec, verb: char, text: &str) -> Option<String> {
    let cut = || match spec.precision {
        Some(count) => text.chars().take(count).collect(),
        None => text.to_owned(),
    };
    Some(match verb {
        'v' | 's' => cut(),
        'q' if spec.sharp && !text.contains('`') && text.chars().all(|c| c == '\t' || !c.is_control()) => {
            format!("`{}`", cut())
        }
        'q' => quote(&cut()),
        'x' | 'X' => {
            let mut hex = String::new();
            for (at, byte) in text.bytes().take(spec.precision.unwrap_or(usize::MAX)).enumerate() {
                if spec.space && at > 0 {
                    hex.push(' ');
                }
                if spec.sharp && (at == 0 || spec.space) {
                    hex.push_str(if verb == 'x' { "0x" } else { "0X" });
                }
                let _ = if verb == 'x' { write!(hex, "{byte:02x}") } else { write!(hex, "{byte:02X}") };
            }
            hex
        }
        _ => return None,
    })
}

/// As Go's source would write it.
fn source(out: &mut String, value: &Value) {
    match value {
        Value::Nil | Value::Null => out.push_str("interface {}(nil)"),
        Value::String(text) => out.push_str(&quote(text)),
        Value::Raw(bytes) => out.push_str(&quote(&String::from_utf8_lossy(bytes))),
        Value::List(items) => {
            out.push_str(value.type_name());
            out.push('{');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                source(out, item);
            }
            out.push('}');
        }
        Value::Map(map) => {
            out.push_str(value.type_name());
            out.push('{');
            for (at, (key, item)) in map.entries().iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                out.push_str(&quote(key));
                out.push(':');
                source(out, item);
            }
            out.push('}');
        }
        Value::Uint64(n) => {
            let _ = write!(out, "{n:#x}");
        }
        other => write_plain(out, other),
    }
}

fn pad(out: &mut String, spec: Spec, text: &str) {
    let missing = spec.width.unwrap_or(0).saturating_sub(text.chars().count());
    if spec.minus {
        out.push_str(text);
    }
    (0..missing).for_each(|_| out.push(if spec.zero { '0' } else { ' ' }));
    if !spec.minus {
        out.push_str(text);
    }
}

/// Zeros come after the sign.
fn pad_number(out: &mut String, spec: Spec, text: &str) {
    match text.strip_prefix(['-', '+', ' ']) {
        Some(digits) if spec.zero => {
            out.push_str(&text[..1]);
            pad(out, Spec { width: spec.width.map(|width| width.saturating_sub(1)), ..spec }, digits);
        }
        _ => pad(out, spec, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{List, Map};

    #[test]
    fn what_is_no_number_is_printed_without_zeros() {
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
    fn verbs_flags_and_what_does_not_fit() {
        let (int, float) = (Value::Int, Value::Float);
        let listed = || Value::from(List::any(["a".into(), Value::Int(1)]));
        let nothing = || Value::from(List::any([Value::Nil]));
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
            ("%s %d %8v", &[nothing(), nothing(), nothing()], "[<nil>] [<nil>] [<nil>]"),
            ("%5d", &[Map::from_entries([("a".into(), Value::Nil)]).into()], "map[%!d(string=    a):<nil>]"),
            ("%!", &[int(1)], "%!!(int=1)"),
            ("50%", &[], "50%!(NOVERB)"),
        ];
        for (format, arguments, expected) in table {
            assert_eq!(printf(format, arguments), *expected, "{format}");
        }
    }
}
