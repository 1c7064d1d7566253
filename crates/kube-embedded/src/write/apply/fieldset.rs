//! A set of field paths as a trie: the fields of one manager.
//!
//! Invariants: nodes are sorted and unique at each level, and every node is a member or leads to one. Sets with the same paths are
//! therefore equal.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::element::PathElement;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    nodes: Vec<SetNode>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetNode {
    pub element: PathElement,
    /// Whether the path that ends here is in the set.
    pub is_member: bool,
    pub children: FieldSet,
}

impl FieldSet {
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub fn nodes(&self) -> &[SetNode] {
        &self.nodes
    }

    pub fn node(&self, element: &PathElement) -> Option<&SetNode> {
        let at = self.nodes.binary_search_by(|step| step.element.cmp(element)).ok()?;
        Some(&self.nodes[at])
    }

    /// Returns the node of member `name`, like [`node`](Self::node) without allocating an element.
    pub fn field(&self, name: &str) -> Option<&SetNode> {
        let order = |step: &SetNode| match &step.element {
            PathElement::Field(other) => other.as_ref().cmp(name),
            _ => Ordering::Greater,
        };
        let at = self.nodes.binary_search_by(order).ok()?;
        Some(&self.nodes[at])
    }

    pub fn contains(&self, path: &[PathElement]) -> bool {
        let Some((last, parents)) = path.split_last() else { return false };
        let mut set = self;
        for element in parents {
            let Some(step) = set.node(element) else { return false };
            set = &step.children;
        }
        set.node(last).is_some_and(|step| step.is_member)
    }

    /// Creates the set of these paths.
    pub fn from_paths(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            let path: Vec<_> = path.iter().map(|name| PathElement::field(name)).collect();
            set.insert(&path);
        }
        set
    }

    pub fn insert(&mut self, path: &[PathElement]) {
        let Some((first, rest)) = path.split_first() else { return };
        let at = match self.nodes.binary_search_by(|step| step.element.cmp(first)) {
            Ok(at) => at,
            Err(at) => {
                let step = SetNode { element: first.clone(), is_member: false, children: Self::default() };
                self.nodes.insert(at, step);
                at
            }
        };
        if rest.is_empty() {
            self.nodes[at].is_member = true;
        } else {
            self.nodes[at].children.insert(rest);
        }
    }

    /// Adds a node, usually the greatest so far. Empty nodes are ignored.
    pub fn push(&mut self, element: PathElement, member: bool, below: Self) {
        if !member && below.is_empty() {
            return;
        }
        let step = SetNode { element, is_member: member, children: below };
        if self.nodes.last().is_none_or(|last| last.element < step.element) {
            self.nodes.push(step);
            return;
        }
        match self.nodes.binary_search_by(|other| other.element.cmp(&step.element)) {
            Ok(at) => {
                let there = &mut self.nodes[at];
                there.is_member |= step.is_member;
                there.children = there.children.union(&step.children);
            }
            Err(at) => self.nodes.insert(at, step),
        }
    }

    /// Creates a set from nodes in any order.
    pub fn from_nodes(mut steps: Vec<SetNode>) -> Self {
        steps.sort_by(|a, b| a.element.cmp(&b.element));
        let mut set = Self::default();
        for SetNode { element, is_member: member, children: below } in steps {
            set.push(element, member, below);
        }
        set
    }

    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        self.combine(other, |a, b| match (a, b) {
            (Some(a), Some(b)) => (a.is_member || b.is_member, a.children.union(&b.children)),
            (Some(only), None) | (None, Some(only)) => (only.is_member, only.children.clone()),
            (None, None) => (false, Self::default()),
        })
    }

    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.combine(other, |a, b| match (a, b) {
            (Some(a), Some(b)) => (a.is_member && b.is_member, a.children.intersection(&b.children)),
            _ => (false, Self::default()),
        })
    }

    /// Returns the paths that are not in `other`. A parent in `other` does not remove its children.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.combine(other, |a, b| match (a, b) {
            (Some(a), Some(b)) => (a.is_member && !b.is_member, a.children.difference(&b.children)),
            (Some(a), None) => (a.is_member, a.children.clone()),
            (None, _) => (false, Self::default()),
        })
    }

    /// Returns the paths that are neither in `other` nor below a path in `other`.
    #[must_use]
    pub fn recursive_difference(&self, other: &Self) -> Self {
        self.combine(other, |a, b| match (a, b) {
            (Some(_), Some(b)) if b.is_member => (false, Self::default()),
            (Some(a), Some(b)) => (a.is_member, a.children.recursive_difference(&b.children)),
            (Some(a), None) => (a.is_member, a.children.clone()),
            (None, _) => (false, Self::default()),
        })
    }

    /// Walks both sets; `pick` decides about each element of either.
    fn combine(
        &self,
        other: &Self,
        pick: impl Fn(Option<&SetNode>, Option<&SetNode>) -> (bool, Self),
    ) -> Self {
        let mut out = Self::default();
        let (mut left, mut right) = (self.nodes.iter().peekable(), other.nodes.iter().peekable());
        loop {
            let order = match (left.peek(), right.peek()) {
                (Some(a), Some(b)) => a.element.cmp(&b.element),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return out,
            };
            let a = if order.is_le() { left.next() } else { None };
            let b = if order.is_ge() { right.next() } else { None };
            let (member, below) = pick(a, b);
            if member || !below.is_empty() {
                let element = a.or(b).expect("one side has the element").element.clone();
                out.nodes.push(SetNode { element, is_member: member, children: below });
            }
        }
    }

    /// Calls `visit` with every path in printing order: the members of a level, then the levels below.
    pub fn for_each_path(&self, visit: &mut impl FnMut(&[PathElement])) {
        self.for_each_below(&mut Vec::new(), visit);
    }

    fn for_each_below(&self, path: &mut Vec<PathElement>, visit: &mut impl FnMut(&[PathElement])) {
        for step in self.nodes.iter().filter(|step| step.is_member) {
            path.push(step.element.clone());
            visit(path);
            path.pop();
        }
        for step in self.nodes.iter().filter(|step| !step.children.is_empty()) {
            path.push(step.element.clone());
            step.children.for_each_below(path, visit);
            path.pop();
        }
    }

    /// Encodes the set as `fieldsV1`.
    pub fn encode(&self) -> Value {
        let mut out = Map::new();
        for step in &self.nodes {
            let mut below = step.children.encode();
            if step.is_member
                && !step.children.is_empty()
                && let Value::Object(members) = &mut below
            {
                members.insert(".".to_owned(), Value::Object(Map::new()));
            }
            out.insert(step.element.encode(), below);
        }
        Value::Object(out)
    }

    /// Decodes `fieldsV1`.
    pub fn decode(value: &Value) -> Result<Self, String> {
        Self::decode_node(value).map(|(below, _)| below)
    }

    /// Decodes the children, and whether the node itself is a member: marked by `.`, or by having no children.
    fn decode_node(value: &Value) -> Result<(Self, bool), String> {
        let members = match value {
            Value::Object(members) => members,
            Value::Null => return Ok((Self::default(), true)),
            _ => return Err("expected a map".to_owned()),
        };
        let mut steps = Vec::with_capacity(members.len());
        let mut dot = false;
        let mut children = false;
        for (name, child) in members {
            if name == "." {
                dot = true;
                continue;
            }
            let Some(element) = PathElement::parse(name)? else { continue };
            let (below, member) = Self::decode_node(child)?;
            children = true;
            steps.push(SetNode { element, is_member: member, children: below });
        }
        Ok((Self::from_nodes(steps), dot || !children))
    }
}

/// Formats a path: `.spec.template.spec.containers[name="c"].image`.
pub fn format_path(path: &[PathElement]) -> String {
    path.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_set_is_written_as_it_was_read() {
        let fields = json!({
            "f:metadata": {"f:finalizers": {".": {}, "v:\"a\\u003cb\"": {}}},
            "f:spec": {"f:containers": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:image": {}}}, "f:list": {"i:3": {}}},
        });
        let set = FieldSet::decode(&fields).unwrap();
        assert_eq!(set.encode(), fields);
        let mut paths = Vec::new();
        set.for_each_path(&mut |path| paths.push(format_path(path)));
        insta::assert_snapshot!(paths.join("\n"), @r#"
        .metadata.finalizers
        .metadata.finalizers[="a<b"]
        .spec.containers[containerPort=80,protocol="TCP"]
        .spec.containers[containerPort=80,protocol="TCP"].image
        .spec.list[3]
        "#);
        assert_eq!(FieldSet::decode(&json!({"x:future": {}})), Ok(FieldSet::default()));
        for bad in [json!({"f": {}}), json!({"fx": {}}), json!({"i:x": {}}), json!({"k:[]": {}}), json!([])] {
            assert!(FieldSet::decode(&bad).is_err(), "{bad}");
        }
    }

    type Paths = BTreeSet<Vec<PathElement>>;

    fn paths() -> impl Strategy<Value = Paths> {
        let element = prop_oneof![
            "[a-c]".prop_map(|name| PathElement::field(&name)),
            (0..2i64).prop_map(|n| PathElement::Value(n.into())),
            "[x-y]".prop_map(|name| PathElement::Key([("name".into(), name.into())].into())),
        ];
        prop::collection::btree_set(prop::collection::vec(element, 1..4), 0..12)
    }

    fn set(paths: &Paths) -> FieldSet {
        let mut set = FieldSet::default();
        for path in paths {
            set.insert(path);
        }
        set
    }

    fn listed(set: &FieldSet) -> Paths {
        let mut paths = Paths::new();
        set.for_each_path(&mut |path| assert!(paths.insert(path.to_vec())));
        paths
    }

    proptest! {
        #[test]
        fn the_algebra_is_that_of_sets_of_paths(a in paths(), b in paths()) {
            let (x, y) = (set(&a), set(&b));
            prop_assert_eq!(&listed(&x), &a);
            prop_assert_eq!(listed(&x.union(&y)), &a | &b);
            prop_assert_eq!(listed(&x.intersection(&y)), &a & &b);
            prop_assert_eq!(listed(&x.difference(&y)), &a - &b);
            let apart = a.iter().filter(|path| !b.iter().any(|other| path.starts_with(other))).cloned().collect();
            prop_assert_eq!(listed(&x.recursive_difference(&y)), apart);
            prop_assert_eq!(x.union(&y), y.union(&x));
            prop_assert_eq!(FieldSet::decode(&x.encode()), Ok(x.clone()));
            prop_assert!(a.iter().all(|path| x.contains(path)));
        }
    }
}
