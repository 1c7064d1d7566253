//! Formatting of values by the verbs of `fmt.Sprintf`.

use super::float::{self, FloatFormat};
use super::quote::{can_backquote, is_printable, quote_as, quote_char};
use crate::value::{Field, Kind, Object, Value};

/// Flags, width and precision of a directive.
#[derive(Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "these are the flags that there are")]
pub(super) struct FormatSpec {
    pub minus: bool,
    pub plus: bool,
    pub sharp: bool,
    pub space: bool,
    pub zero: bool,
    /// `%+v`: struct fields with their names.
    pub names: bool,
    /// `%#v`: Go syntax.
    pub source: bool,
    pub width: Option<usize>,
    pub precision: Option<usize>,
}

impl FormatSpec {
    /// Upper estimate of the formatted length of a value. In a list, the width applies to each element.
    pub fn length(self, value: &Value) -> usize {
        let extent = value.extent();
        let leaves = if matches!(value.kind(), Kind::Slice | Kind::Map | Kind::Struct | Kind::Ptr) {
            extent
        } else {
            1
        };
        let width = self.width.unwrap_or(0).max(self.precision.unwrap_or(0));
        extent.saturating_add(width.saturating_mul(leaves))
    }

    /// Whether no flag would change how a number is printed.
    fn is_plain(self) -> bool {
        let Self { minus: _, plus, sharp: _, space, zero: _, names: _, source, width, precision } = self;
        !plus && !space && !source && width.is_none() && precision.is_none()
    }

    /// The same directive without zero padding.
    fn without_zero(self) -> Self {
        Self { zero: false, ..self }
    }
}

type Out = Vec<u8>;

/// Formats an argument.
pub(super) fn argument(out: &mut Out, spec: FormatSpec, verb: char, value: &Value) {
    match (verb, value) {
        ('T' | 'v', Value::Nil | Value::Null) => pad(out, spec, b"<nil>"),
        ('T', value) => pad(out, spec, truncate(spec, value.type_name().as_bytes())),
        ('p', _)
        | (_, Value::Nil | Value::Null)
        | ('w', Value::List(_) | Value::Map(_) | Value::Object(_)) => bad_verb(out, spec, verb, value),
        ('v' | 'd', Value::Bytes(bytes)) if spec.source => {
            format_list(out, spec, "[]byte", bytes.iter(), byte_formatter(verb));
        }
        _ => format_value(out, spec, verb, value),
    }
}

/// Formats an argument or a part of one.
fn format_value(out: &mut Out, spec: FormatSpec, verb: char, value: &Value) {
    match value {
        Value::Nil | Value::Null if spec.source => out.extend_from_slice(b"interface {}(nil)"),
        Value::Nil | Value::Null => out.extend_from_slice(b"<nil>"),
        Value::Bool(truth) if matches!(verb, 't' | 'v') => {
            pad(out, spec, if *truth { b"true" } else { b"false" });
        }
        Value::Bool(_) => bad_verb(out, spec, verb, value),
        Value::Int(n) | Value::Int64(n) => format_integer(out, spec, verb, value, Integer::signed(*n)),
        Value::Uint8(n) => format_integer(out, spec, verb, value, Integer::unsigned(u64::from(*n))),
        Value::Uint64(n) => format_integer(out, spec, verb, value, Integer::unsigned(*n)),
        Value::Float(n) => {
            if !format_float(out, spec, verb, *n) {
                bad_verb(out, spec, verb, value);
            }
        }
        Value::Complex(re, im) => {
            if !matches!(verb, 'v' | 'b' | 'g' | 'G' | 'x' | 'X' | 'f' | 'F' | 'e' | 'E') {
                return bad_verb(out, spec, verb, value);
            }
            out.push(b'(');
            format_float(out, spec, verb, *re);
            format_float(out, FormatSpec { plus: true, ..spec }, verb, *im);
            out.extend_from_slice(b"i)");
        }
        Value::String(text) => format_string(out, spec, verb, value, text.as_bytes()),
        Value::Raw(bytes) => format_string(out, spec, verb, value, bytes),
        Value::Bytes(bytes) => match verb {
            's' | 'q' | 'x' | 'X' => format_string(out, spec, verb, value, bytes),
            'v' if spec.is_plain() => write_numbers(out, bytes),
            _ => format_list(out, spec, value.type_name(), bytes.iter(), byte_formatter(verb)),
        },
        Value::List(items) if items.is_nil() && spec.source => {
            out.extend_from_slice(value.type_name().as_bytes());
            out.extend_from_slice(b"(nil)");
        }
        Value::List(items) => {
            format_list(out, spec, value.type_name(), items.iter(), |out, spec, item| {
                format_value(out, spec, verb, item);
            });
        }
        Value::Map(map) if map.is_nil() && spec.source => {
            out.extend_from_slice(value.type_name().as_bytes());
            out.extend_from_slice(b"(nil)");
        }
        Value::Map(map) => {
            if !spec.source {
                out.extend_from_slice(b"map");
            }
            format_list(out, spec, value.type_name(), map.entries().iter(), |out, spec, (key, value)| {
                format_value(out, spec, verb, &Value::String(key.clone()));
                out.push(b':');
                format_value(out, spec, verb, value);
            });
        }
        Value::Object(host) => format_object(out, spec, verb, value, host.as_ref()),
    }
}

fn format_object(out: &mut Out, spec: FormatSpec, verb: char, value: &Value, object: &dyn Object) {
    match verb {
        'v' if spec.source => {
            if let Some(source) = object.source() {
                return pad(out, spec, truncate(spec, source.as_bytes()));
            }
        }
        'v' | 's' | 'q' | 'x' | 'X' if object.is_stringer() => {
            return format_string(out, spec, verb, value, object.print().as_bytes());
        }
        'v' if !spec.names && spec.width.is_none() && spec.precision.is_none() => {
            return out.extend_from_slice(object.print().as_bytes());
        }
        _ => {}
    }
    if let Some(n) = object.int() {
        return format_integer(out, spec, verb, value, Integer::signed(n));
    }
    let entries = object.entries().filter(|_| object.kind() == Kind::Map);
    let fields = object.fields();
    match entries {
        Some(entries) => {
            if !spec.source {
                out.extend_from_slice(b"map");
            }
            format_list(out, spec, object.type_name(), entries.iter(), |out, spec, (key, value)| {
                format_value(out, spec, verb, key);
                out.push(b':');
                format_value(out, spec, verb, value);
            });
        }
        // The object exposes no fields.
        None if fields.is_empty() => bad_verb(out, spec, verb, value),
        None => format_struct(out, spec, verb, object, &fields),
    }
}

/// Formats a struct: `{a b}`, `{Name:a Other:b}` or `T{Name:"a", Other:"b"}`, with a leading `&` for a pointer.
fn format_struct(out: &mut Out, spec: FormatSpec, verb: char, object: &dyn Object, fields: &[Field]) {
    if object.kind() == Kind::Ptr {
        out.push(b'&');
    }
    if spec.source {
        out.extend_from_slice(object.type_name().trim_start_matches('*').as_bytes());
    }
    out.push(b'{');
    for (at, field) in fields.iter().enumerate() {
        if at > 0 {
            out.extend_from_slice(if spec.source { b", " } else { b" " });
        }
        if spec.source || spec.names {
            out.extend_from_slice(field.name.as_bytes());
            out.push(b':');
        }
        format_value(out, spec, verb, &field.value);
    }
    out.push(b'}');
}

/// Formats one byte of a byte slice.
fn byte_formatter(verb: char) -> impl FnMut(&mut Out, FormatSpec, &u8) {
    move |out, spec, byte| format_value(out, spec, verb, &Value::Uint8(*byte))
}

/// Formats bytes as `[1 22 255]`. This fast path exists because charts print whole files by accident.
pub(super) fn write_numbers(out: &mut Out, bytes: &[u8]) {
    out.push(b'[');
    let mut written = [0; 4 * 256];
    for some in bytes.chunks(written.len() / 4) {
        let mut length = 0;
        for byte in some {
            let (digits, wide) = NUMBERS[usize::from(*byte)];
            written[length..length + 4].copy_from_slice(&digits);
            length += wide;
        }
        out.extend_from_slice(&written[..length]);
    }
    match out.last_mut() {
        Some(space @ b' ') => *space = b']',
        _ => out.push(b']'),
    }
}

/// Every byte in decimal with a trailing space, and the length of that text.
const NUMBERS: [([u8; 4], usize); 256] = {
    let mut numbers = [([b' '; 4], 0); 256];
    let mut byte = 0;
    while byte < 256 {
        let (digits, wide) = &mut numbers[byte];
        let mut place = if byte >= 100 {
            100
        } else if byte >= 10 {
            10
        } else {
            1
        };
        while place > 0 {
            digits[*wide] = b"0123456789"[byte / place % 10];
            *wide += 1;
            place /= 10;
        }
        *wide += 1;
        byte += 1;
    }
    numbers
};

/// Formats elements as `[a b c]` or `T{a, b, c}`.
fn format_list<T>(
    out: &mut Out,
    spec: FormatSpec,
    type_name: &str,
    items: impl Iterator<Item = T>,
    mut write: impl FnMut(&mut Out, FormatSpec, T),
) {
    let (open, between, close): (&str, &[u8], u8) =
        if spec.source { (type_name, b", ", b'}') } else { ("", b" ", b']') };
    out.extend_from_slice(open.as_bytes());
    out.push(if spec.source { b'{' } else { b'[' });
    for (at, item) in items.enumerate() {
        if at > 0 {
            out.extend_from_slice(between);
        }
        write(out, spec, item);
    }
    out.push(close);
}

/// Formats a verb that does not fit the value: `%!d(string=x)`.
fn bad_verb(out: &mut Out, spec: FormatSpec, verb: char, value: &Value) {
    out.extend_from_slice(format!("%!{verb}(").as_bytes());
    if value.is_some() {
        out.extend_from_slice(value.type_name().as_bytes());
        out.push(b'=');
        // `String` methods are not called here: a duration prints as a number.
        match value {
            Value::Object(object) if let Some(n) = object.int() => {
                format_value(out, spec, 'v', &Value::Int64(n));
            }
            value => format_value(out, spec, 'v', value),
        }
    } else {
        out.extend_from_slice(b"<nil>");
    }
    out.push(b')');
}

/// An integer as sign and magnitude, and as its bit pattern.
#[derive(Clone, Copy)]
struct Integer {
    negative: bool,
    size: u64,
    bits: u64,
    signed: bool,
}

impl Integer {
    fn signed(n: i64) -> Self {
        Self { negative: n < 0, size: n.unsigned_abs(), bits: n.cast_unsigned(), signed: true }
    }

    fn unsigned(n: u64) -> Self {
        Self { negative: false, size: n, bits: n, signed: false }
    }

    /// The character with this code point; U+FFFD if there is none.
    fn char(self) -> char {
        u32::try_from(self.bits).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER)
    }
}

fn format_integer(out: &mut Out, spec: FormatSpec, verb: char, value: &Value, n: Integer) {
    let size = n.size;
    let (digits, prefix) = match verb {
        'v' if spec.source && !n.signed => (format!("{size:x}"), "0x"),
        'v' | 'd' => (size.to_string(), ""),
        'b' => (format!("{size:b}"), if spec.sharp { "0b" } else { "" }),
        'o' | 'O' => (format!("{size:o}"), ""),
        'x' => (format!("{size:x}"), if spec.sharp { "0x" } else { "" }),
        'X' => (format!("{size:X}"), if spec.sharp { "0X" } else { "" }),
        'c' => return pad(out, spec, n.char().encode_utf8(&mut [0; 4]).as_bytes()),
        'q' => return pad(out, spec, quote_char(n.char(), spec.plus).as_bytes()),
        'U' => return format_unicode(out, spec, n),
        _ => return bad_verb(out, spec, verb, value),
    };
    let room_for_sign = usize::from(n.negative || spec.plus || spec.space);
    let least = match (spec.precision, spec.width) {
        (Some(0), _) if size == 0 => return padding(out, spec.without_zero(), spec.width.unwrap_or(0)),
        (Some(precision), _) => precision,
        (None, Some(width)) if spec.zero && !spec.minus => width.saturating_sub(room_for_sign),
        _ => 0,
    };
    let mut text = String::new();
    text.push_str(match (n.negative, spec.plus, spec.space) {
        (true, ..) => "-",
        (_, true, _) => "+",
        (_, _, true) => " ",
        _ => "",
    });
    let zeros = least.saturating_sub(digits.len());
    text.push_str(match verb {
        'O' if spec.sharp && zeros == 0 && !digits.starts_with('0') => "0o0",
        'O' => "0o",
        'o' if spec.sharp && zeros == 0 && !digits.starts_with('0') => "0",
        _ => prefix,
    });
    (0..zeros).for_each(|_| text.push('0'));
    text.push_str(&digits);
    pad(out, spec.without_zero(), text.as_bytes());
}

/// Formats `%U`: `U+0041`.
fn format_unicode(out: &mut Out, spec: FormatSpec, n: Integer) {
    let digits = spec.precision.unwrap_or(4).max(4);
    let code = format!("{:X}", n.bits);
    let zeros = "0".repeat(digits.saturating_sub(code.len()));
    let shown =
        u32::try_from(n.bits).ok().and_then(char::from_u32).filter(|c| spec.sharp && is_printable(*c));
    let shown = shown.map(|c| format!(" '{c}'")).unwrap_or_default();
    pad(out, spec.without_zero(), format!("U+{zeros}{code}{shown}").as_bytes());
}

/// Formats a float. Returns false if the verb is not for floats.
fn format_float(out: &mut Out, spec: FormatSpec, verb: char, value: f64) -> bool {
    let (form, precision) = match verb {
        'v' | 'g' | 'G' => (FloatFormat::General, spec.precision),
        'e' | 'E' => (FloatFormat::Exponent, Some(spec.precision.unwrap_or(6))),
        'f' | 'F' => (FloatFormat::Fixed, Some(spec.precision.unwrap_or(6))),
        'x' | 'X' => (FloatFormat::Hex, spec.precision),
        'b' => (FloatFormat::Binary, None),
        _ => return false,
    };
    let mut text = float::format(value, form, precision);
    let sign = match text.chars().next() {
        Some(sign @ ('-' | '+')) => {
            text.remove(0);
            sign
        }
        _ => '+',
    };
    let sign = if spec.space && sign == '+' && !spec.plus { ' ' } else { sign };
    if !value.is_finite() {
        // Infinities always keep their sign.
        if value.is_infinite() || spec.space || spec.plus {
            text.insert(0, sign);
        }
        pad(out, spec.without_zero(), text.as_bytes());
        return true;
    }
    if verb.is_ascii_uppercase() && verb != 'F' {
        text.make_ascii_uppercase();
    }
    if spec.sharp && verb != 'b' {
        text = with_point(&text, verb, spec.precision);
    }
    if spec.plus || sign != '+' {
        let width = spec.width.unwrap_or(0);
        if spec.zero && !spec.minus && width > text.len() + 1 {
            out.push(u8::try_from(sign).unwrap_or(b'+'));
            padding(out, spec, width - text.len() - 1);
            out.extend_from_slice(text.as_bytes());
            return true;
        }
        text.insert(0, sign);
    }
    pad(out, spec, text.as_bytes());
    true
}

/// `%#g`: always with a decimal point and trailing zeros.
fn with_point(text: &str, verb: char, precision: Option<usize>) -> String {
    let mut missing = match verb {
        'v' | 'g' | 'G' | 'x' => precision.unwrap_or(6),
        _ => 0,
    };
    let hex = matches!(verb, 'x' | 'X');
    let ends = |c: char| matches!(c, 'p' | 'P') || (!hex && matches!(c, 'e' | 'E'));
    let (number, tail) = text.split_at(text.find(ends).unwrap_or(text.len()));
    let mut seen = false;
    for c in number.chars().filter(|c| *c != '.') {
        seen |= c != '0';
        if seen {
            missing = missing.saturating_sub(1);
        }
    }
    let mut out = number.to_owned();
    if !number.contains('.') {
        if number == "0" {
            missing = missing.saturating_sub(1);
        }
        out.push('.');
    }
    (0..missing).for_each(|_| out.push('0'));
    out + tail
}

fn format_string(out: &mut Out, spec: FormatSpec, verb: char, value: &Value, text: &[u8]) {
    match verb {
        'v' if spec.source => quoted(out, spec, text),
        'v' | 's' => pad(out, spec, truncate(spec, text)),
        'q' => quoted(out, spec, text),
        'x' | 'X' => hex(out, spec, verb, text),
        _ => bad_verb(out, spec, verb, value),
    }
}

fn quoted(out: &mut Out, spec: FormatSpec, text: &[u8]) {
    let text = truncate(spec, text);
    match std::str::from_utf8(text) {
        Ok(text) if spec.sharp && can_backquote(text) => pad(out, spec, format!("`{text}`").as_bytes()),
        _ => pad(out, spec, quote_as(text, spec.plus).as_bytes()),
    }
}

fn hex(out: &mut Out, spec: FormatSpec, verb: char, text: &[u8]) {
    let text = &text[..text.len().min(spec.precision.unwrap_or(usize::MAX))];
    let mut shown = Vec::with_capacity(text.len() * 2);
    for (at, byte) in text.iter().enumerate() {
        if spec.space && at > 0 {
            shown.push(b' ');
        }
        if spec.sharp && (at == 0 || spec.space) {
            shown.extend_from_slice(if verb == 'x' { b"0x" } else { b"0X" });
        }
        let digits = if verb == 'x' { format!("{byte:02x}") } else { format!("{byte:02X}") };
        shown.extend_from_slice(digits.as_bytes());
    }
    pad(out, spec, &shown);
}

/// Truncates the text to the precision, counted in characters.
fn truncate(spec: FormatSpec, text: &[u8]) -> &[u8] {
    let Some(count) = spec.precision else { return text };
    let lengths = text.utf8_chunks().flat_map(|chunk| {
        let each = chunk.valid().chars().map(char::len_utf8);
        each.chain(chunk.invalid().iter().map(|_| 1))
    });
    &text[..lengths.take(count).sum()]
}

/// The number of characters; each invalid byte counts as one.
fn length(text: &[u8]) -> usize {
    text.utf8_chunks().map(|chunk| chunk.valid().chars().count() + chunk.invalid().len()).sum()
}

fn pad(out: &mut Out, spec: FormatSpec, text: &[u8]) {
    let missing = spec.width.map_or(0, |width| width.saturating_sub(length(text)));
    if spec.minus {
        out.extend_from_slice(text);
        padding(out, spec, missing);
    } else {
        padding(out, spec, missing);
        out.extend_from_slice(text);
    }
}

fn padding(out: &mut Out, spec: FormatSpec, count: usize) {
    let with = if spec.zero && !spec.minus { b'0' } else { b' ' };
    out.resize(out.len() + count, with);
}
