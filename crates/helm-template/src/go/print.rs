//! `fmt.Print` and related functions: values in their default format.

use super::verbs::{FormatSpec, argument, write_numbers};
use crate::value::Value;

/// Printed for a value that contains itself. Go would overflow its stack.
const CYCLE_TEXT: &str = "%!v(ENDLESS)";

/// The default format of a value, `%v`, with U+FFFD for invalid UTF-8.
pub fn print(value: &Value) -> String {
    if let Value::String(text) = value {
        return text.as_ref().to_owned();
    }
    let mut out = Vec::new();
    write(&mut out, value);
    into_text(out)
}

/// `fmt.Sprint`: adds a space between two operands if neither is a string.
pub fn print_all(values: &[Value]) -> Vec<u8> {
    let mut out = Vec::new();
    let is_string = |value: &Value| value.string_bytes().is_some();
    for (at, value) in values.iter().enumerate() {
        if at > 0 && !is_string(value) && !is_string(&values[at - 1]) {
            out.push(b' ');
        }
        write(&mut out, value);
    }
    out
}

/// `fmt.Sprintln`: adds a space between any two operands.
pub fn print_line(values: &[Value]) -> Vec<u8> {
    let mut out = Vec::new();
    for (at, value) in values.iter().enumerate() {
        if at > 0 {
            out.push(b' ');
        }
        write(&mut out, value);
    }
    out.push(b'\n');
    out
}

/// Writes the default format of a value.
pub fn write(out: &mut Vec<u8>, value: &Value) {
    write_checked(out, FormatSpec::default(), 'v', value);
}

/// The default format of a `[]byte`.
pub fn print_bytes(bytes: &[u8]) -> String {
    let mut out = Vec::new();
    write_numbers(&mut out, bytes);
    into_text(out)
}

/// Writes a value that has not been checked for cycles yet.
pub(super) fn write_checked(out: &mut Vec<u8>, spec: FormatSpec, verb: char, value: &Value) {
    if verb != 'T' && value.is_cyclic_or_too_deep() {
        out.extend_from_slice(CYCLE_TEXT.as_bytes());
    } else {
        argument(out, spec, verb, value);
    }
}

/// Converts bytes to text, lossily.
pub(super) fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|not| String::from_utf8_lossy(not.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{List, Map};

    #[test]
    fn print_matches_go() {
        let map = Map::from_entries([("b".into(), Value::Nil), ("a".into(), Value::Float(1e6))]);
        assert_eq!(print(&map.into()), "map[a:1e+06 b:<nil>]");
        let list = List::any([Value::Int(1), "x".into(), Value::Bool(true)]);
        assert_eq!(print(&list.into()), "[1 x true]");
        assert_eq!(print(&Value::Complex(1.0, -2.0)), "(1-2i)");
        let all =
            ["a".into(), Value::Int(1), Value::Int(2), "b".into(), "c".into(), Value::Float(3.0), Value::Nil];
        assert_eq!(print_all(&all), b"a1 2bc3 <nil>");
        assert_eq!(print_line(&["a".into(), Value::string_from_bytes(vec![0xff])]), b"a \xff\n");
    }

    #[test]
    fn bytes_print_as_numbers() {
        let bytes: Vec<u8> = (0..=255).chain(0..=255).chain([7]).collect();
        let numbers: Vec<_> = bytes.iter().map(ToString::to_string).collect();
        assert_eq!(print_bytes(&bytes), format!("[{}]", numbers.join(" ")));
        assert_eq!(print_bytes(b""), "[]");
        assert_eq!(print_all(&[" ".into(), Value::Bytes([].into())]), b" []");
    }
}
