//! The built-in kinds, from the tables in `data/` that `tools/kube-schema` generates.
//!
//! Tables are parsed once, at first use. All built-in types share one arena, so their
//! [`TypeRef`]s are `'static`.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use super::{
    resources::{PrinterColumn, Resource, Subresource, api_version},
    table::{self, TypeTable},
    types::{TypeArena, TypeId, TypeRef},
};

struct BuiltinTypes {
    types: Arc<TypeArena>,
    kinds: HashMap<Box<str>, TypeId>,
}

static BUILTIN: LazyLock<BuiltinTypes> = LazyLock::new(|| {
    let TypeTable { types, kinds } = table::parse(include_str!("../../data/schema.txt"));
    BuiltinTypes { types: Arc::new(types), kinds }
});

static RESOURCES: LazyLock<Vec<Resource>> =
    LazyLock::new(|| parse_resources(include_str!("../../data/resources.txt")));

/// The default roles and bindings, as a JSON array of objects without uid, version or times.
pub const RBAC_DEFAULTS: &str = include_str!("../../data/rbac-defaults.json");

/// All types of built-in kinds.
pub fn types() -> &'static Arc<TypeArena> {
    &BUILTIN.types
}

/// The type of a kind, whether it is a resource (Pod) or not (Scale, Eviction, `DeleteOptions`).
pub fn type_of(group: &str, version: &str, kind: &str) -> Option<TypeRef<'static>> {
    let key = format!("{}/{kind}", api_version(group, version));
    let id = BUILTIN.kinds.get(key.as_str()).or_else(|| BUILTIN.kinds.get(format!("*/{kind}").as_str()))?;
    Some(BUILTIN.types.get(*id))
}

/// The group versions of a kind: `apps/v1`, or `*` for a kind of all groups.
pub fn versions_of(ty: TypeRef<'_>) -> &'static [Box<str>] {
    static VERSIONS: LazyLock<HashMap<TypeId, Vec<Box<str>>>> = LazyLock::new(|| {
        let mut versions: HashMap<_, Vec<Box<str>>> = HashMap::new();
        for (key, &id) in &BUILTIN.kinds {
            let (version, _) = key.rsplit_once('/').expect("a key is a version and a kind");
            versions.entry(id).or_default().push(version.into());
        }
        for list in versions.values_mut() {
            list.sort();
        }
        versions
    });
    VERSIONS.get(&ty.id()).map_or(&[], Vec::as_slice)
}

/// All built-in resources, in discovery order.
pub fn resources() -> Vec<Resource> {
    RESOURCES.clone()
}

/// The built-in groups in discovery order.
pub fn group_order() -> &'static [Box<str>] {
    static GROUPS: LazyLock<Vec<Box<str>>> = LazyLock::new(|| {
        let mut groups: Vec<_> = RESOURCES.iter().map(|row| row.group.clone()).collect();
        groups.dedup();
        groups
    });
    &GROUPS
}

fn parse_resources(text: &str) -> Vec<Resource> {
    let mut rows: Vec<Resource> = Vec::new();
    let mut subresources = Vec::new();
    let mut columns = Vec::new();
    // In reverse: the details of a resource are below its line.
    for line in text.lines().rev().filter(|line| !line.starts_with('#')) {
        if let Some(rest) = line.strip_prefix(" sub ") {
            subresources.push(parse_subresource(rest));
        } else if let Some(rest) = line.strip_prefix(" column ") {
            columns.push(parse_column(rest));
        } else {
            let mut row = parse_resource(line);
            row.subresources = subresources.drain(..).rev().collect();
            row.columns = columns.drain(..).rev().collect();
            rows.push(row);
        }
    }
    rows.reverse();
    rows
}

/// Parses `apps/v1 deployments deployment Deployment io.k8s.api.apps.v1.Deployment namespaced create,... short=deploy`.
fn parse_resource(line: &str) -> Resource {
    let mut words = line.split(' ');
    let mut next = || words.next().unwrap_or_else(|| panic!("resources.txt: too short: `{line}`"));
    let (group, version) = split_api_version(next());
    let (name, singular, kind) = (next(), next(), next());
    let ty = types().by_name(next()).unwrap_or_else(|| panic!("resources.txt: no type: `{line}`")).id();
    let (namespaced, verbs) = (next() == "namespaced", next());
    let (mut short_names, mut categories) = (Box::default(), Box::default());
    for word in words {
        match word.split_once('=') {
            Some(("short", names)) => short_names = parse_list(names),
            Some(("categories", names)) => categories = parse_list(names),
            _ => panic!("resources.txt: what is `{word}`?"),
        }
    }
    let (storage, storage_version) = storage_of(group, version, name);
    Resource {
        group: group.into(),
        version: version.into(),
        name: name.into(),
        singular: singular.into(),
        kind: kind.into(),
        list_kind: format!("{kind}List").into(),
        namespaced,
        short_names,
        categories,
        verbs: parse_list(verbs),
        subresources: Box::default(),
        columns: Box::default(),
        storage: storage.into(),
        storage_version: storage_version.into(),
        types: Arc::clone(types()),
        ty,
        custom: None,
    }
}

/// The storage and the storage version. Two kinds are served in two group versions each.
fn storage_of(group: &str, version: &str, name: &str) -> (String, String) {
    match (group, name) {
        ("events.k8s.io", "events") => ("events".to_owned(), "v1".to_owned()),
        ("autoscaling", "horizontalpodautoscalers") => (format!("{name}.{group}"), "v2".to_owned()),
        ("", _) => (name.to_owned(), version.to_owned()),
        _ => (format!("{name}.{group}"), version.to_owned()),
    }
}

/// Parses `scale autoscaling/v1/Scale get,patch,update`.
fn parse_subresource(rest: &str) -> Subresource {
    let words: Vec<_> = rest.split(' ').collect();
    let [name, kind, verbs] = words[..] else { panic!("resources.txt: sub {rest}") };
    let (version, kind) = kind.rsplit_once('/').unwrap_or(("", kind));
    let (group, version) = split_api_version(version);
    Subresource {
        name: name.into(),
        group: group.into(),
        version: version.into(),
        kind: kind.into(),
        verbs: parse_list(verbs),
    }
}

/// Parses `string name 0 Nominated Node`.
fn parse_column(rest: &str) -> PrinterColumn {
    let words: Vec<_> = rest.splitn(4, ' ').collect();
    let [ty, format, priority, name] = words[..] else { panic!("resources.txt: column {rest}") };
    PrinterColumn {
        name: name.into(),
        ty: ty.into(),
        format: if format == "-" { Box::default() } else { format.into() },
        description: Box::default(),
        priority: priority.parse().expect("a priority is a number"),
        json_path: Box::default(),
    }
}

fn parse_list(text: &str) -> Box<[Box<str>]> {
    text.split(',').map(Box::from).collect()
}

/// Splits `apps/v1` into group and version; the core group is empty.
fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

#[cfg(test)]
mod tests;
