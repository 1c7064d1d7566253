//! Printing of decoded nodes like Go's `%#v`, which some errors of go-yaml use.

use std::cmp::Ordering;

use super::decode::scalar;
use super::resolve::ResolvedScalar;
use super::tape::{Content, Tape};
use crate::go::{FloatFormat, format_float, quote};
use crate::value::Str;

/// Decoded values with their Go types, for printing only.
enum GoValue {
    Scalar(ResolvedScalar, Str),
    List(Vec<GoValue>),
    Map(Vec<(GoValue, GoValue)>),
}

pub(super) fn write(tape: &Tape<'_>, at: usize) -> String {
    print_top_level(&to_go_value(tape, at))
}

/// Error for a key without a JSON form. If there are several, Go reports any one of them.
pub(super) fn unsupported_key(tape: &Tape<'_>) -> Option<String> {
    find_unsupported(&to_go_value(tape, 0))
}

fn find_unsupported(value: &GoValue) -> Option<String> {
    match value {
        GoValue::Scalar(..) => None,
        GoValue::List(items) => items.iter().find_map(find_unsupported),
        GoValue::Map(entries) => entries.iter().find_map(|(key, value)| {
            let kind = match key {
                GoValue::Scalar(ResolvedScalar::Null, _) => "%!s(<nil>)",
                GoValue::Scalar(ResolvedScalar::Uint(_), _) => "uint64",
                _ => return find_unsupported(value),
            };
            let (key, value) = (print_top_level(key), print_top_level(value));
            Some(format!("unsupported map key of type: {kind}, key: {key}, value: {value}"))
        }),
    }
}

/// Prints a map key.
pub(super) fn key(meaning: ResolvedScalar, text: &Str) -> String {
    print_top_level(&GoValue::Scalar(meaning, text.clone()))
}

/// Prints a top-level value; nil is printed differently there than inside a map.
fn print_top_level(value: &GoValue) -> String {
    if matches!(value, GoValue::Scalar(ResolvedScalar::Null, _)) {
        return "<nil>".to_owned();
    }
    let mut out = String::new();
    print(value, &mut out);
    out
}

fn print(value: &GoValue, out: &mut String) {
    match value {
        GoValue::Scalar(meaning, text) => {
            let printed = match meaning {
                ResolvedScalar::Null => "interface {}(nil)".to_owned(),
                ResolvedScalar::Bool(truth) => truth.to_string(),
                ResolvedScalar::Int(n) => n.to_string(),
                ResolvedScalar::Uint(n) => format!("{n:#x}"),
                ResolvedScalar::Float(n) => format_float(*n, FloatFormat::General, None),
                ResolvedScalar::Text => quote(text),
            };
            out.push_str(&printed);
        }
        GoValue::List(items) => {
            out.push_str("[]interface {}{");
            for (number, item) in items.iter().enumerate() {
                out.push_str(if number == 0 { "" } else { ", " });
                print(item, out);
            }
            out.push('}');
        }
        GoValue::Map(entries) => {
            out.push_str("map[interface {}]interface {}{");
            for (number, (key, value)) in entries.iter().enumerate() {
                out.push_str(if number == 0 { "" } else { ", " });
                print(key, out);
                out.push(':');
                print(value, out);
            }
            out.push('}');
        }
    }
}

/// Converts a node that was already decoded without an error, so its depth and size are within limits.
fn to_go_value(tape: &Tape<'_>, at: usize) -> GoValue {
    let null = || GoValue::Scalar(ResolvedScalar::Null, "".into());
    match tape.nodes.get(at).map(|node| &node.content) {
        Some(Content::Scalar { text, implicit, tag }) => scalar(text, *implicit, tag.as_deref())
            .map_or_else(|_| null(), |(meaning, text)| GoValue::Scalar(meaning, text)),
        Some(Content::Alias { target, .. }) => to_go_value(tape, *target),
        Some(Content::Sequence) => {
            GoValue::List(tape.children(at).map(|child| to_go_value(tape, child)).collect())
        }
        Some(Content::Mapping) => {
            let mut entries = Vec::new();
            collect(tape, at, &mut entries);
            // Of duplicate keys the last wins; the sort is stable.
            entries.reverse();
            entries.sort_by(|a, b| compare(&a.0, &b.0));
            entries.dedup_by(|later, kept| compare(&later.0, &kept.0) == Ordering::Equal);
            GoValue::Map(entries)
        }
        None => null(),
    }
}

fn collect(tape: &Tape<'_>, at: usize, entries: &mut Vec<(GoValue, GoValue)>) {
    let mut children = tape.children(at);
    while let (Some(key), Some(value)) = (children.next(), children.next()) {
        if !tape.is_merge(key) {
            entries.push((to_go_value(tape, key), to_go_value(tape, value)));
            continue;
        }
        match tape.nodes.get(value).map(|node| &node.content) {
            Some(Content::Sequence) => {
                let maps: Vec<_> = tape.children(value).collect();
                maps.into_iter().rev().for_each(|map| collect(tape, tape.resolve_alias(map), entries));
            }
            _ => collect(tape, tape.resolve_alias(value), entries),
        }
    }
}

impl Tape<'_> {
    fn resolve_alias(&self, at: usize) -> usize {
        match self.nodes.get(at).map(|node| &node.content) {
            Some(Content::Alias { target, .. }) => *target,
            _ => at,
        }
    }
}

/// Orders keys: nil first, then by type in the order of Go's runtime, then by value.
fn compare(a: &GoValue, b: &GoValue) -> Ordering {
    let rank = |value: &GoValue| match value {
        GoValue::Scalar(ResolvedScalar::Null, _) => 0,
        GoValue::Scalar(ResolvedScalar::Text, _) => 1,
        GoValue::Scalar(ResolvedScalar::Uint(_), _) => 2,
        GoValue::Scalar(ResolvedScalar::Int(_), _) => 3,
        GoValue::Scalar(ResolvedScalar::Float(_), _) => 4,
        GoValue::Scalar(ResolvedScalar::Bool(_), _) => 5,
        GoValue::List(_) | GoValue::Map(_) => 6,
    };
    match (a, b) {
        (GoValue::Scalar(a_means, a_text), GoValue::Scalar(b_means, b_text)) if rank(a) == rank(b) => {
            match (a_means, b_means) {
                (ResolvedScalar::Bool(a), ResolvedScalar::Bool(b)) => a.cmp(b),
                (ResolvedScalar::Int(a), ResolvedScalar::Int(b)) => a.cmp(b),
                (ResolvedScalar::Uint(a), ResolvedScalar::Uint(b)) => a.cmp(b),
                (ResolvedScalar::Float(a), ResolvedScalar::Float(b)) => a.total_cmp(b),
                _ => a_text.cmp(b_text),
            }
        }
        _ => rank(a).cmp(&rank(b)),
    }
}
