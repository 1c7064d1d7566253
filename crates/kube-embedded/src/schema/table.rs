//! Parses `data/schema.txt`, the generated table of built-in types, into an arena.
//!
//! Called once, by [`super::builtin`]. The header of the file describes the format. An invalid table
//! is a build error, not a user error: parsing panics with the line.

use std::collections::HashMap;

use super::types::{Field, List, ListMerge, Mapping, PatchStrategy, Shape, Struct, Type, TypeArena, TypeId};

/// The arena, and the type of each kind: keys are `apps/v1/Deployment`, `*/DeleteOptions`.
pub struct TypeTable {
    pub types: TypeArena,
    pub kinds: HashMap<Box<str>, TypeId>,
}

/// A field that overrides how its struct is merged.
struct AtomicOverride {
    owner: TypeId,
    field: usize,
    atomic: bool,
}

/// Types may be referenced before their definition, so all names get their id first.
pub fn parse(text: &str) -> TypeTable {
    let mut reader = TableParser { types: TypeArena::default(), ids: HashMap::new(), package: String::new() };
    let mut kinds = HashMap::new();
    for (word, rest) in top_level_lines(text) {
        if word == "package" {
            rest.clone_into(&mut reader.package);
            continue;
        }
        let name = rest.split(' ').next().expect("a type has a name");
        let id = reader.declare(name);
        for version in rest.split_once("kind=").into_iter().flat_map(|(_, list)| list.split(',')) {
            kinds.insert(format!("{version}/{name}").into(), id);
        }
    }
    reader.define(text);
    TypeTable { types: reader.types, kinds }
}

/// The top-level lines, as keyword and rest.
fn top_level_lines(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines()
        .filter(|line| !line.starts_with(['#', ' ']))
        .map(|line| line.split_once(' ').expect("a line has a word and a name"))
}

struct TableParser {
    types: TypeArena,
    /// All parsed type expressions, by their text with qualified names.
    ids: HashMap<String, TypeId>,
    package: String,
}

impl TableParser {
    fn declare(&mut self, name: &str) -> TypeId {
        let whole = self.qualified_expression(name);
        let id = self.types.add(Type { name: whole.as_str().into(), shape: Shape::Any });
        self.ids.insert(whole, id);
        id
    }

    fn define(&mut self, text: &str) {
        let mut overrides = Vec::new();
        let mut lines = text.lines().filter(|line| !line.starts_with('#')).peekable();
        while let Some(line) = lines.next() {
            let mut words = line.split(' ');
            let (word, name) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            if word == "package" {
                name.clone_into(&mut self.package);
                continue;
            }
            let id = self.ids[&self.qualified_expression(name)];
            let shape = match word {
                "scalar" => scalar_shape(words.next().unwrap_or_default()).expect("a scalar is a known word"),
                "list" => {
                    let element = self.type_of_expression(words.next().unwrap_or_default(), "");
                    Shape::List(List { element, merge: ListMerge::Atomic })
                }
                "struct" => {
                    let atomic = words.next() == Some("atomic");
                    let mut fields = Vec::new();
                    while let Some(line) = lines.next_if(|line| line.starts_with(' ')) {
                        let (field, variant) = self.parse_field(line);
                        if let Some(atomic) = variant {
                            overrides.push(AtomicOverride { owner: id, field: fields.len(), atomic });
                        }
                        fields.push(field);
                    }
                    Shape::Struct(Struct { fields: fields.into(), atomic, preserve_unknown: false })
                }
                _ => panic!("schema.txt: what is `{line}`?"),
            };
            self.types.set(id, shape);
        }
        for one in overrides {
            self.apply_override(&one);
        }
    }

    /// Parses ` ports 6 []ContainerPort omitempty keys=containerPort,protocol patch=merge:containerPort`, and
    /// returns whether the field overrides the atomicity of its struct.
    fn parse_field(&mut self, line: &str) -> (Field, Option<bool>) {
        let (line, default) = match line.split_once(" default=") {
            Some((line, json)) => (line, Some(serde_json::from_str(json).expect("a default is JSON"))),
            None => (line, None),
        };
        let mut words = line.trim_start().split(' ');
        let mut next = || words.next().unwrap_or_else(|| panic!("schema.txt: too short: `{line}`"));
        let (name, numbers, expression) = (next(), next(), next());
        let mut field = Field {
            name: name.into(),
            ty: 0,
            required: false,
            pointer: false,
            omitempty: false,
            numbers: numbers.split('.').filter_map(|number| number.parse().ok()).collect(),
            default,
            patch: PatchStrategy::default(),
        };
        let mut merges = "";
        for word in words {
            match word {
                "required" => field.required = true,
                "pointer" => field.pointer = true,
                "omitempty" => field.omitempty = true,
                _ if word.starts_with("patch=") => {
                    field.patch = parse_patch_strategy(&word["patch=".len()..]);
                }
                _ => merges = word,
            }
        }
        field.ty = self.type_of_expression(expression, merges);
        let is_named = !expression.starts_with("[]") && !expression.starts_with("map:");
        let variant = (is_named && !merges.is_empty()).then_some(merges == "atomic");
        (field, variant)
    }

    /// The type of an expression; equal expressions have the same type.
    fn type_of_expression(&mut self, text: &str, merges: &str) -> TypeId {
        let compound = text.starts_with("[]") || text.starts_with("map:");
        let key = if compound {
            format!("{} {merges}", self.qualified_expression(text))
        } else {
            self.qualified_expression(text)
        };
        if let Some(&id) = self.ids.get(&key) {
            return id;
        }
        let shape = if let Some(element) = text.strip_prefix("[]") {
            let merge = match merges.strip_prefix("keys=") {
                Some(keys) => ListMerge::Map(keys.split(',').map(Box::from).collect()),
                None if merges == "set" => ListMerge::Set,
                None => ListMerge::Atomic,
            };
            Shape::List(List { element: self.type_of_expression(element, ""), merge })
        } else if let Some(value) = text.strip_prefix("map:") {
            Shape::Map(Mapping { value: self.type_of_expression(value, ""), atomic: merges == "atomic" })
        } else {
            scalar_shape(text).unwrap_or_else(|| panic!("schema.txt: no type `{text}`"))
        };
        let id = self.types.add(Type { name: Box::default(), shape });
        self.ids.insert(key, id);
        id
    }

    fn apply_override(&mut self, one: &AtomicOverride) {
        let Shape::Struct(mut owner) = self.types.get(one.owner).shape().clone() else { return };
        let original = self.types.get(owner.fields[one.field].ty);
        let Shape::Struct(body) = original.shape() else { return };
        if body.atomic == one.atomic {
            return;
        }
        let shape = Shape::Struct(Struct { atomic: one.atomic, ..body.clone() });
        let variant = Type { name: original.name().into(), shape };
        owner.fields[one.field].ty = self.types.add_variant(variant);
        self.types.set(one.owner, Shape::Struct(owner));
    }

    /// The expression with the package added to an unqualified name.
    fn qualified_expression(&self, expression: &str) -> String {
        let at = expression.rfind([']', ':']).map_or(0, |at| at + 1);
        let (before, name) = expression.split_at(at);
        if name.starts_with(|c: char| c.is_ascii_uppercase()) {
            format!("{before}{}.{name}", self.package)
        } else {
            expression.to_owned()
        }
    }
}

fn scalar_shape(word: &str) -> Option<Shape> {
    Some(match word {
        "string" => Shape::String,
        "int32" => Shape::Int32,
        "int64" => Shape::Int64,
        "double" => Shape::Double,
        "bool" => Shape::Bool,
        "bytes" => Shape::Bytes,
        "time" => Shape::Time,
        "microtime" => Shape::MicroTime,
        "duration" => Shape::Duration,
        "quantity" => Shape::Quantity,
        "intorstring" => Shape::IntOrString,
        "any" => Shape::Any,
        _ => return None,
    })
}

/// Parses `merge,retainKeys:name`.
fn parse_patch_strategy(text: &str) -> PatchStrategy {
    let (strategies, key) = text.split_once(':').map_or((text, None), |(s, key)| (s, Some(key.into())));
    let has = |strategy| strategies.split(',').any(|one| one == strategy);
    PatchStrategy {
        merge: has("merge"),
        retain_keys: has("retainKeys"),
        replace: has("replace"),
        merge_key: key,
    }
}
