//! Structures as Go shows those that Kubernetes keeps inside: every member, in the order of its source.
//!
//! Some refusals end with the difference of two such structures, so names, order and absent members count.
//! The table beside this file has a row for each: its members as `GoName:how`, or `GoName=jsonName:how` where
//! the published name does not follow from Go's. How a member is shown: `s` text, `b` truth, `n` number and
//! `q` amount, each with its zero; `L` a label selector; `?` what is there or null; `[T` a list of, `*T` a
//! pointer to and `=T` another structure.

use serde_json::{Value, json};

use super::diff;

const TABLE: &str = include_str!("go_structs.txt");

/// The difference of two structures of a kind.
pub fn difference(kind: &str, old: &Value, new: &Value) -> String {
    diff::unified(&structure(kind, old, 0), &structure(kind, new, 0))
}

/// A structure that stands at a level; one space for each.
fn structure(kind: &str, value: &Value, level: usize) -> String {
    let row = TABLE.lines().find_map(|line| line.strip_prefix(kind)?.strip_prefix(' ')).unwrap_or_default();
    let member = |entry: &str| {
        let (names, how) = entry.split_once(':')?;
        let (name, published) =
            names.split_once('=').map_or((names, published(names)), |(a, b)| (a, b.into()));
        let given = value.get(published).filter(|given| !given.is_null());
        Some(format!("\"{name}\": {}", self::member(how, given, level + 1)))
    };
    lines(row.split(' ').filter_map(member).collect(), '{', '}', level)
}

fn member(how: &str, given: Option<&Value>, level: usize) -> String {
    let kind = how.get(1..).unwrap_or_default();
    match (how.chars().next(), given) {
        (Some('s'), None) => "\"\"".to_owned(),
        (Some('b'), None) => "false".to_owned(),
        (Some('n'), None) => "0".to_owned(),
        (Some('q'), None) => "\"0\"".to_owned(),
        (Some('='), given) => structure(kind, given.unwrap_or(&Value::Null), level),
        (_, None) => "null".to_owned(),
        (Some('*'), Some(value)) => structure(kind, value, level),
        (Some('['), Some(Value::Array(list))) => {
            lines(list.iter().map(|value| structure(kind, value, level + 1)).collect(), '[', ']', level)
        }
        (Some('L'), Some(selector)) => {
            let part = |name| Some(format!("\"{name}\": {}", plain(selector.get(name)?, level + 1)));
            lines(["matchLabels", "matchExpressions"].into_iter().filter_map(part).collect(), '{', '}', level)
        }
        (_, Some(value)) => plain(value, level),
    }
}

/// What has no structure of Go's own: maps, lists of texts, texts and numbers.
fn plain(value: &Value, level: usize) -> String {
    match value {
        Value::Array(list) => lines(list.iter().map(|v| plain(v, level + 1)).collect(), '[', ']', level),
        Value::Object(map) => {
            let entry = |(key, v): (&String, &Value)| format!("{}: {}", json!(key), plain(v, level + 1));
            lines(map.iter().map(entry).collect(), '{', '}', level)
        }
        // Go's encoder keeps its output fit for HTML.
        text @ Value::String(_) => {
            text.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
        }
        other => other.to_string(),
    }
}

fn lines(parts: Vec<String>, open: char, close: char, level: usize) -> String {
    if parts.is_empty() {
        return format!("{open}{close}");
    }
    let (inner, outer) = (" ".repeat(level + 1), " ".repeat(level));
    format!("{open}\n{inner}{}\n{outer}{close}", parts.join(&format!(",\n{inner}")))
}

/// `dnsPolicy` of `DNSPolicy`: the leading capitals, but for one that begins a word, are small.
fn published(name: &str) -> String {
    let capitals = name.chars().take_while(char::is_ascii_uppercase).count();
    let first = if capitals > 1 && capitals < name.len() { capitals - 1 } else { capitals };
    name.chars().enumerate().map(|(at, c)| if at < first { c.to_ascii_lowercase() } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_structure_that_the_table_names_is_in_it() {
        let kinds: Vec<_> = TABLE.lines().filter_map(|line| line.split(' ').next()).collect();
        for entry in TABLE.lines().flat_map(|line| line.split(' ').skip(1)) {
            let how = entry.split_once(':').expect(entry).1;
            let known = "sbnqL?".contains(how) || how.get(1..).is_some_and(|kind| kinds.contains(&kind));
            assert!(known, "{entry}");
        }
        assert_eq!(
            ["DNSPolicy", "TTY", "Name", "HTTPGet"].map(published),
            ["dnsPolicy", "tty", "name", "httpGet"]
        );
    }

    #[test]
    fn a_difference_shows_members_in_their_order_and_absent_ones() {
        let old = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
        let mut new = old.clone();
        new["volumeName"] = json!("v<1>");
        assert_eq!(
            difference("PersistentVolumeClaimSpec", &old, &new),
            "@@ -9,7 +9,7 @@\n   \"storage\": \"1Gi\"\n  }\n },\n- \"VolumeName\": \"\",\n+ \"VolumeName\": \"v\\u003c1\\u003e\",\n  \"StorageClassName\": null,\n  \"VolumeMode\": null,\n  \"DataSource\": null,\n"
        );
    }
}
