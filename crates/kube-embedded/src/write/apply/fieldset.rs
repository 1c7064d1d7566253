//! A set of field paths as a trie: the fields of one manager.
//!
//! Invariants: steps are sorted and unique at each level, and every step is a member or leads to one. Sets with the same paths are
//! therefore equal.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use super::element::Element;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub element: Element,
    /// Whether the path that ends here is in the set.
    pub member: bool,
    pub below: FieldSet,
}

impl FieldSet {
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    pub fn step(&self, element: &Element) -> Option<&Step> {
        let at = self.steps.binary_search_by(|step| step.element.cmp(element)).ok()?;
        Some(&self.steps[at])
    }

    /// Returns the step to member `name`, like [`step`](Self::step) without allocating an element.
    pub fn field(&self, name: &str) -> Option<&Step> {
        let order = |step: &Step| match &step.element {
            Element::Field(other) => other.as_ref().cmp(name),
            _ => Ordering::Greater,
        };
        let at = self.steps.binary_search_by(order).ok()?;
        Some(&self.steps[at])
    }

    pub fn has(&self, path: &[Element]) -> bool {
        let Some((last, parents)) = path.split_last() else { return false };
        let mut set = self;
        for element in parents {
            let Some(step) = set.step(element) else { return false };
            set = &step.below;
        }
        set.step(last).is_some_and(|step| step.member)
    }

    /// Creates the set of these paths.
    pub fn of(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            let path: Vec<_> = path.iter().map(|name| Element::field(name)).collect();
            set.insert(&path);
        }
        set
    }

    pub fn insert(&mut self, path: &[Element]) {
        let Some((first, rest)) = path.split_first() else { return };
        let at = match self.steps.binary_search_by(|step| step.element.cmp(first)) {
            Ok(at) => at,
            Err(at) => {
                let step = Step { element: first.clone(), member: false, below: Self::default() };
                self.steps.insert(at, step);
                at
            }
        };
        if rest.is_empty() {
            self.steps[at].member = true;
        } else {
            self.steps[at].below.insert(rest);
        }
    }

    /// Adds a step, usually the greatest so far. Empty steps are ignored.
    pub fn push(&mut self, element: Element, member: bool, below: Self) {
        if !member && below.is_empty() {
            return;
        }
        let step = Step { element, member, below };
        if self.steps.last().is_none_or(|last| last.element < step.element) {
            self.steps.push(step);
            return;
        }
        match self.steps.binary_search_by(|other| other.element.cmp(&step.element)) {
            Ok(at) => {
                let there = &mut self.steps[at];
                there.member |= step.member;
                there.below = there.below.union(&step.below);
            }
            Err(at) => self.steps.insert(at, step),
        }
    }

    /// Creates a set from steps in any order.
    pub fn from_steps(mut steps: Vec<Step>) -> Self {
        steps.sort_by(|a, b| a.element.cmp(&b.element));
        let mut set = Self::default();
        for Step { element, member, below } in steps {
            set.push(element, member, below);
        }
        set
    }

    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        self.combine(other, |a, b| match (a, b) {
            (Some(a), Some(b)) => (a.member || b.member, a.below.union(&b.below)),
            (Some(only), None) | (None, Some(only)) => (only.member, only.below.clone()),
            (None, None) => (false, Self::default()),
        })
    }

    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.combine(other, |a, b| match (a, b) {
            (Some(a), Some(b)) => (a.member && b.member, a.below.intersection(&b.below)),
            _ => (false, Self::default()),
        })
    }

    /// Returns the paths that are not in `other`. A parent in `other` does not remove its children.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.combine(other, |a, b| match (a, b) {
            (Some(a), Some(b)) => (a.member && !b.member, a.below.difference(&b.below)),
            (Some(a), None) => (a.member, a.below.clone()),
            (None, _) => (false, Self::default()),
        })
    }

    /// Returns the paths that are neither in `other` nor below a path in `other`.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        self.combine(other, |a, b| match (a, b) {
            (Some(_), Some(b)) if b.member => (false, Self::default()),
            (Some(a), Some(b)) => (a.member, a.below.without(&b.below)),
            (Some(a), None) => (a.member, a.below.clone()),
            (None, _) => (false, Self::default()),
        })
    }

    /// Walks both sets; `pick` decides about each element of either.
    fn combine(&self, other: &Self, pick: impl Fn(Option<&Step>, Option<&Step>) -> (bool, Self)) -> Self {
        let mut out = Self::default();
        let (mut left, mut right) = (self.steps.iter().peekable(), other.steps.iter().peekable());
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
                out.steps.push(Step { element, member, below });
            }
        }
    }

    /// Calls `visit` with every path in printing order: the members of a level, then the levels below.
    pub fn each_path(&self, visit: &mut impl FnMut(&[Element])) {
        self.each_below(&mut Vec::new(), visit);
    }

    fn each_below(&self, path: &mut Vec<Element>, visit: &mut impl FnMut(&[Element])) {
        for step in self.steps.iter().filter(|step| step.member) {
            path.push(step.element.clone());
            visit(path);
            path.pop();
        }
        for step in self.steps.iter().filter(|step| !step.below.is_empty()) {
            path.push(step.element.clone());
            step.below.each_below(path, visit);
            path.pop();
        }
    }

    /// Encodes the set as `fieldsV1`.
    pub fn encode(&self) -> Value {
        let mut out = Map::new();
        for step in &self.steps {
            let mut below = step.below.encode();
            if step.member
                && !step.below.is_empty()
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
            let Some(element) = Element::parse(name)? else { continue };
            let (below, member) = Self::decode_node(child)?;
            children = true;
            steps.push(Step { element, member, below });
        }
        Ok((Self::from_steps(steps), dot || !children))
    }
}

/// Formats a path: `.spec.template.spec.containers[name="c"].image`.
pub fn path_text(path: &[Element]) -> String {
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
        set.each_path(&mut |path| paths.push(path_text(path)));
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

    type Paths = BTreeSet<Vec<Element>>;

    fn paths() -> impl Strategy<Value = Paths> {
        let element = prop_oneof![
            "[a-c]".prop_map(|name| Element::field(&name)),
            (0..2i64).prop_map(|n| Element::Value(n.into())),
            "[x-y]".prop_map(|name| Element::Key([("name".into(), name.into())].into())),
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
        set.each_path(&mut |path| assert!(paths.insert(path.to_vec())));
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
            prop_assert_eq!(listed(&x.without(&y)), apart);
            prop_assert_eq!(x.union(&y), y.union(&x));
            prop_assert_eq!(FieldSet::decode(&x.encode()), Ok(x.clone()));
            prop_assert!(a.iter().all(|path| x.has(path)));
        }
    }
}
