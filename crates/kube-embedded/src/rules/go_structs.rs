//! The Go representation of internal structs: all fields, in the order of the Go source.
//!
//! Some errors end with the diff of two such structs, so names, order and absent fields matter.
//! The table beside this file has a row for each: its fields as `GoName:type`, or `GoName=jsonName:type` if
//! the JSON name does not follow from the Go name. Types: `s` string, `b` bool, `n` number and
//! `q` quantity, each with its zero value; `L` a label selector; `?` any value or null; `[T` a list of, `*T` a
//! pointer to and `=T` another struct.

use serde_json::{Value, json};

use super::diff;

const TABLE: &str = include_str!("go_structs.txt");

/// The diff of two structs of a kind.
pub fn difference(kind: &str, old: &Value, new: &Value) -> String {
    diff::unified(&format_struct(kind, old, 0), &format_struct(kind, new, 0))
}

/// Formats a struct at an indentation level of one space each.
fn format_struct(kind: &str, value: &Value, level: usize) -> String {
    let row = TABLE.lines().find_map(|line| line.strip_prefix(kind)?.strip_prefix(' ')).unwrap_or_default();
    let member = |entry: &str| {
        let (names, how) = entry.split_once(':')?;
        let (name, published) =
            names.split_once('=').map_or((names, json_name(names)), |(a, b)| (a, b.into()));
        let given = value.get(published).filter(|given| !given.is_null());
        Some(format!("\"{name}\": {}", self::format_member(how, given, level + 1)))
    };
    format_block(&row.split(' ').filter_map(member).collect::<Vec<_>>(), '{', '}', level)
}

fn format_member(how: &str, given: Option<&Value>, level: usize) -> String {
    let kind = how.get(1..).unwrap_or_default();
    match (how.chars().next(), given) {
        (Some('s'), None) => "\"\"".to_owned(),
        (Some('b'), None) => "false".to_owned(),
        (Some('n'), None) => "0".to_owned(),
        (Some('q'), None) => "\"0\"".to_owned(),
        (Some('='), given) => format_struct(kind, given.unwrap_or(&Value::Null), level),
        (_, None) => "null".to_owned(),
        (Some('*'), Some(value)) => format_struct(kind, value, level),
        (Some('['), Some(Value::Array(list))) => format_block(
            &list.iter().map(|value| format_struct(kind, value, level + 1)).collect::<Vec<_>>(),
            '[',
            ']',
            level,
        ),
        (Some('L'), Some(selector)) => {
            let part = |name| Some(format!("\"{name}\": {}", format_plain(selector.get(name)?, level + 1)));
            format_block(
                &["matchLabels", "matchExpressions"].into_iter().filter_map(part).collect::<Vec<_>>(),
                '{',
                '}',
                level,
            )
        }
        (_, Some(value)) => format_plain(value, level),
    }
}

/// Formats values without a Go struct: maps, lists, strings and numbers.
fn format_plain(value: &Value, level: usize) -> String {
    match value {
        Value::Array(list) => format_block(
            &list.iter().map(|v| format_plain(v, level + 1)).collect::<Vec<_>>(),
            '[',
            ']',
            level,
        ),
        Value::Object(map) => {
            let entry =
                |(key, v): (&String, &Value)| format!("{}: {}", json!(key), format_plain(v, level + 1));
            format_block(&map.iter().map(entry).collect::<Vec<_>>(), '{', '}', level)
        }
        // Go's encoder escapes HTML.
        text @ Value::String(_) => {
            text.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
        }
        other => other.to_string(),
    }
}

fn format_block(parts: &[String], open: char, close: char, level: usize) -> String {
    if parts.is_empty() {
        return format!("{open}{close}");
    }
    let (inner, outer) = (" ".repeat(level + 1), " ".repeat(level));
    format!("{open}\n{inner}{}\n{outer}{close}", parts.join(&format!(",\n{inner}")))
}

/// `dnsPolicy` for `DNSPolicy`: the leading capitals become lower case, except the one that begins a word.
fn json_name(name: &str) -> String {
    let capitals = name.chars().take_while(char::is_ascii_uppercase).count();
    let first = if capitals > 1 && capitals < name.len() { capitals - 1 } else { capitals };
    name.chars().enumerate().map(|(at, c)| if at < first { c.to_ascii_lowercase() } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_struct_table_is_complete() {
        let kinds: Vec<_> = TABLE.lines().filter_map(|line| line.split(' ').next()).collect();
        for entry in TABLE.lines().flat_map(|line| line.split(' ').skip(1)) {
            let how = entry.split_once(':').expect(entry).1;
            let known = "sbnqL?".contains(how) || how.get(1..).is_some_and(|kind| kinds.contains(&kind));
            assert!(known, "{entry}");
        }
        assert_eq!(
            ["DNSPolicy", "TTY", "Name", "HTTPGet"].map(json_name),
            ["dnsPolicy", "tty", "name", "httpGet"]
        );
    }

    #[test]
    fn struct_diff_shows_fields_in_go_order_and_absent_ones() {
        let old = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
        let mut new = old.clone();
        new["volumeName"] = json!("v<1>");
        assert_eq!(
            difference("PersistentVolumeClaimSpec", &old, &new),
            "@@ -9,7 +9,7 @@\n    \"storage\": \"1Gi\"\n   }\n  },\n- \"VolumeName\": \"\",\n+ \"VolumeName\": \"v\\u003c1\\u003e\",\n  \"StorageClassName\": null,\n  \"VolumeMode\": null,\n  \"DataSource\": null,\n"
        );
    }
}
