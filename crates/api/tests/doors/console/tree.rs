//! Parser for the specification of the console's API: interfaces with an address, a method and a status, and trees of
//! field names and types for requests and responses.

use std::fmt::Write;

use serde_json::Value;

/// One interface of the specification.
#[derive(Debug, Default)]
pub struct Interface {
    pub address: String,
    pub method: String,
    pub status: u16,
    pub takes: Vec<Field>,
    pub gives: Vec<Field>,
}

/// A field with its type and its children.
#[derive(Debug, PartialEq, Eq)]
pub struct Field {
    pub name: String,
    pub kind: String,
    pub below: Vec<Field>,
}

/// All interfaces of the specification, in order.
pub fn interfaces(text: &str) -> Vec<Interface> {
    let mut found: Vec<Interface> = Vec::new();
    let mut lines = text.lines();
    let (mut is_answer, mut known) = (false, false);
    while let Some(line) = lines.next() {
        if line.starts_with("### ") {
            found.push(Interface::default());
            known = true;
        }
        let Some(last) = found.last_mut().filter(|_| known) else { continue };
        if let Some(address) = line.strip_prefix("- 地址：") {
            address.trim().clone_into(&mut last.address);
        } else if let Some(method) = line.strip_prefix("- 类型：") {
            method.trim().clone_into(&mut last.method);
        } else if let Some(status) = line.strip_prefix("- 状态码：") {
            last.status = status.trim().parse().unwrap();
        } else if line.starts_with("- 请求接口格式") {
            is_answer = false;
        } else if line.starts_with("- 返回接口格式") {
            is_answer = true;
        } else if line == "```" {
            let drawn: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            *(if is_answer { &mut last.gives } else { &mut last.takes }) = parse_tree(&drawn);
        }
    }
    found
}

/// Parses a drawn tree: three characters per level, the last of which is a branch.
pub fn parse_tree(lines: &[&str]) -> Vec<Field> {
    let mut roots = Vec::new();
    for line in lines.iter().filter(|line| !line.trim().is_empty()) {
        let at = line.find("├─ ").or_else(|| line.find("└─ ")).unwrap_or_else(|| panic!("no branch: {line}"));
        let depth = line[..at].chars().count() / 3;
        let (name, rest) = line[at..].trim_start_matches(['├', '└', '─', ' ']).split_once(": ").unwrap();
        let kind = rest.split([' ', '(']).next().unwrap();
        let mut level: &mut Vec<Field> = &mut roots;
        for _ in 0..depth {
            level = &mut level.last_mut().unwrap_or_else(|| panic!("below nothing: {line}")).below;
        }
        level.push(Field { name: name.to_owned(), kind: kind.to_owned(), below: Vec::new() });
    }
    roots
}

/// Fields that are missing in `value` or have another type; empty if there are none. An empty list is a difference,
/// because it shows nothing about its items.
pub fn differences(fields: &[Field], value: &Value) -> String {
    let mut found = String::new();
    compare(fields, value, "", &mut found);
    found
}

fn compare(fields: &[Field], value: &Value, place: &str, found: &mut String) {
    for field in fields {
        let place = format!("{place}/{}", field.name);
        let Some(value) = value.get(&field.name) else {
            writeln!(found, "{place} is missing").unwrap();
            continue;
        };
        let fits = match field.kind.as_str() {
            "String" => value.is_string(),
            "Number" => value.is_number(),
            "Boolean" => value.is_boolean(),
            "Object" => value.is_object(),
            "Array" => value.as_array().is_some_and(|items| !items.is_empty()),
            other => panic!("{place}: a type that nobody knows: {other}"),
        };
        if !fits {
            writeln!(found, "{place} is no {}: {value}", field.kind).unwrap();
        }
        match value {
            Value::Array(items) => {
                for item in items {
                    compare(&field.below, item, &format!("{place}[]"), found);
                }
            }
            other => compare(&field.below, other, &place, found),
        }
    }
}

const SMALL: &str = "
# one

### 接口：first

- 地址：/nodes
- 类型：GET
- 状态码：200
- 请求接口格式：

```
└─ token: String  (who)

```

- 返回接口格式：

```
├─ allNodes: Array (all of them)
│  ├─ name: String  (its name)
│  └─ nodeInfo: Object
│     └─ count: Number
└─ free: Object : Object

```
";

#[test]
fn parse_tree_reads_fields() {
    let [one] = &interfaces(SMALL)[..] else { panic!("one interface") };
    assert_eq!((one.address.as_str(), one.method.as_str(), one.status), ("/nodes", "GET", 200));
    let leaf = |name: &str, kind: &str, below| Field { name: name.to_owned(), kind: kind.to_owned(), below };
    assert_eq!(one.takes, [leaf("token", "String", vec![])]);
    let info = leaf("nodeInfo", "Object", vec![leaf("count", "Number", vec![])]);
    let nodes = leaf("allNodes", "Array", vec![leaf("name", "String", vec![]), info]);
    assert_eq!(one.gives, [nodes, leaf("free", "Object", vec![])]);
}

#[test]
fn differences_reports_mismatches() {
    let drawn = &interfaces(SMALL)[0].gives;
    let good =
        serde_json::json!({"allNodes": [{"name": "a", "nodeInfo": {"count": 1}, "more": 1}], "free": {}});
    assert_eq!(differences(drawn, &good), "");
    for (path, wrong, expected) in [
        ("/allNodes/0/name", serde_json::json!(7), "/allNodes[]/name is no String: 7\n"),
        ("/allNodes/0/nodeInfo", serde_json::json!({}), "/allNodes[]/nodeInfo/count is missing\n"),
        ("/allNodes", serde_json::json!([]), "/allNodes is no Array: []\n"),
        ("/free", Value::Null, "/free is no Object: null\n"),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(path).unwrap() = wrong;
        assert_eq!(differences(drawn, &bad), expected);
    }
}
