//! Printing of decoded nodes like Go's `%#v`, which some errors of go-yaml use.

use std::cmp::Ordering;

use super::decode::scalar;
use super::resolve::Meaning;
use super::tape::{Content, Tape};
use crate::go::{Form, format_float, quote};
use crate::value::Str;

/// Decoded values with their Go types, for printing only.
enum Loose {
    Scalar(Meaning, Str),
    List(Vec<Loose>),
    Map(Vec<(Loose, Loose)>),
}

pub(super) fn write(tape: &Tape<'_>, at: usize) -> String {
    alone(&loose(tape, at))
}

/// Error for a key without a JSON form. If there are several, Go reports any one of them.
pub(super) fn unsupported_key(tape: &Tape<'_>) -> Option<String> {
    find_unsupported(&loose(tape, 0))
}

fn find_unsupported(value: &Loose) -> Option<String> {
    match value {
        Loose::Scalar(..) => None,
        Loose::List(items) => items.iter().find_map(find_unsupported),
        Loose::Map(entries) => entries.iter().find_map(|(key, value)| {
            let kind = match key {
                Loose::Scalar(Meaning::Null, _) => "%!s(<nil>)",
                Loose::Scalar(Meaning::Uint(_), _) => "uint64",
                _ => return find_unsupported(value),
            };
            let (key, value) = (alone(key), alone(value));
            Some(format!("unsupported map key of type: {kind}, key: {key}, value: {value}"))
        }),
    }
}

/// Prints a map key.
pub(super) fn key(meaning: Meaning, text: &Str) -> String {
    alone(&Loose::Scalar(meaning, text.clone()))
}

/// Prints a top-level value; nil is printed differently there than inside a map.
fn alone(value: &Loose) -> String {
    if matches!(value, Loose::Scalar(Meaning::Null, _)) {
        return "<nil>".to_owned();
    }
    let mut out = String::new();
    print(value, &mut out);
    out
}

fn print(value: &Loose, out: &mut String) {
    match value {
        Loose::Scalar(meaning, text) => {
            let printed = match meaning {
                Meaning::Null => "interface {}(nil)".to_owned(),
                Meaning::Bool(truth) => truth.to_string(),
                Meaning::Int(n) => n.to_string(),
                Meaning::Uint(n) => format!("{n:#x}"),
                Meaning::Float(n) => format_float(*n, Form::General, None),
                Meaning::Text => quote(text),
            };
            out.push_str(&printed);
        }
        Loose::List(items) => {
            out.push_str("[]interface {}{");
            for (number, item) in items.iter().enumerate() {
                out.push_str(if number == 0 { "" } else { ", " });
                print(item, out);
            }
            out.push('}');
        }
        Loose::Map(entries) => {
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
fn loose(tape: &Tape<'_>, at: usize) -> Loose {
    let null = || Loose::Scalar(Meaning::Null, "".into());
    match tape.nodes.get(at).map(|node| &node.content) {
        Some(Content::Scalar { text, implicit, tag }) => scalar(text, *implicit, tag.as_deref())
            .map_or_else(|_| null(), |(meaning, text)| Loose::Scalar(meaning, text)),
        Some(Content::Alias { target, .. }) => loose(tape, *target),
        Some(Content::Sequence) => Loose::List(tape.children(at).map(|child| loose(tape, child)).collect()),
        Some(Content::Mapping) => {
            let mut entries = Vec::new();
            collect(tape, at, &mut entries);
            // Of duplicate keys the last wins; the sort is stable.
            entries.reverse();
            entries.sort_by(|a, b| compare(&a.0, &b.0));
            entries.dedup_by(|later, kept| compare(&later.0, &kept.0) == Ordering::Equal);
            Loose::Map(entries)
        }
        None => null(),
    }
}

fn collect(tape: &Tape<'_>, at: usize, entries: &mut Vec<(Loose, Loose)>) {
    let mut children = tape.children(at);
    while let (Some(key), Some(value)) = (children.next(), children.next()) {
        if !tape.is_merge(key) {
            entries.push((loose(tape, key), loose(tape, value)));
            continue;
        }
        match tape.nodes.get(value).map(|node| &node.content) {
            Some(Content::Sequence) => {
                let maps: Vec<_> = tape.children(value).collect();
                maps.into_iter().rev().for_each(|map| collect(tape, tape.followed(map), entries));
            }
            _ => collect(tape, tape.followed(value), entries),
        }
    }
}

impl Tape<'_> {
    fn followed(&self, at: usize) -> usize {
        match self.nodes.get(at).map(|node| &node.content) {
            Some(Content::Alias { target, .. }) => *target,
            _ => at,
        }
    }
}

/// Orders keys: nil first, then by type in the order of Go's runtime, then by value.
fn compare(a: &Loose, b: &Loose) -> Ordering {
    let rank = |value: &Loose| match value {
        Loose::Scalar(Meaning::Null, _) => 0,
        Loose::Scalar(Meaning::Text, _) => 1,
        Loose::Scalar(Meaning::Uint(_), _) => 2,
        Loose::Scalar(Meaning::Int(_), _) => 3,
        Loose::Scalar(Meaning::Float(_), _) => 4,
        Loose::Scalar(Meaning::Bool(_), _) => 5,
        Loose::List(_) | Loose::Map(_) => 6,
    };
    match (a, b) {
        (Loose::Scalar(a_means, a_text), Loose::Scalar(b_means, b_text)) if rank(a) == rank(b) => {
            match (a_means, b_means) {
                (Meaning::Bool(a), Meaning::Bool(b)) => a.cmp(b),
                (Meaning::Int(a), Meaning::Int(b)) => a.cmp(b),
                (Meaning::Uint(a), Meaning::Uint(b)) => a.cmp(b),
                (Meaning::Float(a), Meaning::Float(b)) => a.total_cmp(b),
                _ => a_text.cmp(b_text),
            }
        }
        _ => rank(a).cmp(&rank(b)),
    }
}
