//! Limits on size and nesting, and block-wise reading.

use std::fmt::Write;

use super::{json, problem};
use crate::data::Data;
use crate::yaml::{self, MAX_DEPTH, documents, parse};

fn parse_error(text: &str) -> String {
    json(text).unwrap_err()
}

#[test]
fn simple_key_is_limited_to_1024_characters() {
    for (key, read) in [("a".repeat(1024), true), ("a".repeat(1025), false), ("é".repeat(1024), true)] {
        assert_eq!(json(&format!("{key}: b")).is_ok(), read, "{}", key.len());
        assert_eq!(json(&format!("- {{{key}: b}}")).is_ok(), read, "{}", key.len());
    }
    let long = "a".repeat(1025);
    assert_eq!(
        parse_error(&format!("{long}: b")),
        problem("yaml: mapping values are not allowed in this context")
    );
    assert_eq!(
        parse_error(&format!("a: b\n{long}: b")),
        problem("yaml: line 2: could not find expected ':'")
    );
    assert!(json(&format!("? {long}\n: b")).is_ok());
}

#[test]
fn deep_nesting_is_rejected_without_recursion() {
    let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(json(&deep(MAX_DEPTH)).is_ok());
    assert_eq!(parse_error(&deep(MAX_DEPTH + 1)), problem("yaml: line 1: exceeded max depth of 500"));
    assert_eq!(parse_error(&"[".repeat(20_000)), problem("yaml: line 1: exceeded max depth of 500"));
    assert_eq!(parse_error(&"- ".repeat(20_000)), problem("yaml: line 1: exceeded max depth of 500"));
    assert_eq!(parse_error(&"{a: ".repeat(20_000)), problem("yaml: line 1: exceeded max depth of 500"));
    let mut block = String::new();
    for level in 0..2000 {
        block.push_str(&" ".repeat(level));
        block.push_str("a:\n");
    }
    assert_eq!(parse_error(&block), problem("yaml: line 501: exceeded max depth of 500"));
    assert_eq!(
        yaml::read_header(block.as_bytes(), crate::profile::Profile::Helm4).unwrap_err().to_string(),
        problem("yaml: line 501: exceeded max depth of 500")
    );
}

#[test]
fn alias_nesting_is_limited() {
    let mut text = "a0: &a0 [x]\n".to_owned();
    for level in 1..3000 {
        writeln!(text, "a{level}: &a{level} [*a{}]", level - 1).unwrap();
    }
    assert!(
        parse_error(&text).ends_with("exceeded max depth of 500")
            || parse_error(&text).ends_with("excessive aliasing")
    );
    // Merge sources are processed in reverse, so the last is resolved first.
    let mut text = "<<: [{x: &a0 [x]}".to_owned();
    for level in 1..20_000 {
        write!(text, ", {{x: &a{level} [*a{}]}}", level - 1).unwrap();
    }
    text.push(']');
    assert!(json(&text).is_err());
}

#[test]
fn alias_bomb_is_rejected() {
    let mut text = "a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for letter in b'b'..=b'z' {
        let before = format!("*{}", char::from(letter - 1));
        let aliases = [&*before; 9].join(",");
        writeln!(text, "{0}: &{0} [{aliases}]", char::from(letter)).unwrap();
    }
    assert_eq!(parse_error(&text), problem("yaml: document contains excessive aliasing"));
    let items = |of: &str, count: usize| vec![of; count].join(",");
    for (size, aliases, allowed) in
        [(10, 100, true), (200, 101, true), (1000, 400, false), (100, 4000, false)]
    {
        let text = format!("a: &a [{}]\nb: [{}]", items("1", size), items("*a", aliases));
        let read = json(&text).map(|_| ());
        let expected =
            if allowed { Ok(()) } else { Err(problem("yaml: document contains excessive aliasing")) };
        assert_eq!(read, expected, "{size} {aliases}");
    }
}

/// The stream is read in blocks of 512 bytes. A rejected character in a block precedes syntax errors in the previous block.
#[test]
fn invalid_characters_are_reported_per_block() {
    let with = |blanks: usize| json(&format!("a: b: c{}\u{1}", " ".repeat(blanks))).unwrap_err();
    let control = problem("yaml: control characters are not allowed");
    assert_eq!(with(504), control);
    assert_eq!(with(505), problem("yaml: mapping values are not allowed in this context"));
    assert_eq!(parse_error(&format!("{}\u{1}", "x".repeat(2000))), control);
    // A character split by a block boundary belongs to the next block.
    assert_eq!(parse_error(&format!("{}é: b: c{}\u{1}", "x".repeat(511), " ".repeat(500))), control);
}

#[test]
fn utf16_is_decoded() {
    let text = "a: é\nb: \"😀\"";
    let wide = |order: fn(u16) -> [u8; 2]| -> Vec<u8> {
        "\u{FEFF}".encode_utf16().chain(text.encode_utf16()).flat_map(order).collect()
    };
    let expected = parse(text.as_bytes());
    assert!(expected.is_ok());
    assert_eq!(parse(&wide(u16::to_le_bytes)), expected);
    assert_eq!(parse(&wide(u16::to_be_bytes)), expected);
    assert_eq!(parse(format!("\u{FEFF}{text}").as_bytes()), expected);
    for (bytes, error) in [
        (&b"\xFF\xFEa"[..], "yaml: incomplete UTF-16 character"),
        (b"\xFF\xFE\x00\xDC", "yaml: unexpected low surrogate area"),
        (b"\xFF\xFE\x00\xD8", "yaml: incomplete UTF-16 surrogate pair"),
        (b"\xFF\xFE\x00\xD8a\x00", "yaml: expected low surrogate area"),
    ] {
        assert_eq!(parse(bytes).unwrap_err().to_string(), problem(error));
    }
}

#[test]
fn parse_map_rejects_other_types() {
    let read = |text: &str| {
        yaml::parse_map(text.as_bytes(), "map[string]interface {}").map(Data::Map).map_err(|e| e.to_string())
    };
    assert_eq!(read(""), Ok(Data::Map(crate::data::Members::new())));
    assert_eq!(
        read("[a]").unwrap_err(),
        "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go value of type \
         map[string]interface {}"
    );
}

#[test]
fn documents_splits_at_separator_lines() {
    let table: &[(&str, &[Result<&str, &str>])] = &[
        ("", &[]),
        ("a: 1", &[Ok("a: 1\n")]),
        ("a: 1\r\nb: 2\r\n", &[Ok("a: 1\nb: 2\n")]),
        ("---\na: 1\n---\nb: 2\n", &[Ok("---\na: 1\n"), Ok("b: 2\n")]),
        ("a: 1\n--- # c\n---\nb: 2\n", &[Ok("a: 1\n"), Ok("---\nb: 2\n")]),
        ("a: 1\n---", &[Ok("a: 1\n")]),
        ("a: 1\n--- x\nb: 2", &[Err("invalid Yaml document separator: x")]),
    ];
    for (text, expected) in table {
        let found: Vec<_> = documents(text.as_bytes())
            .map(|document| {
                document.map(|bytes| String::from_utf8(bytes).unwrap()).map_err(|error| error.to_string())
            })
            .collect();
        let expected: Vec<_> =
            expected.iter().map(|document| document.map(str::to_owned).map_err(str::to_owned)).collect();
        assert_eq!(found, expected, "{text:?}");
    }
}

#[test]
fn nan_keys_are_never_duplicates() {
    assert!(yaml::parse_strict(b".nan: 1\n.nan: 2", &yaml::Shape::Any).is_ok());
    assert!(yaml::parse_strict(b".inf: 1\n.inf: 2", &yaml::Shape::Any).is_err());
}
