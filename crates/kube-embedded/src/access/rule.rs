//! One rule of a role: which questions it says yes to, and which other rules it contains.
//!
//! `rbac` asks whether a rule allows a request, `escalation` whether the rules that somebody holds cover
//! those that they want to give.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::{Attributes, quoted_list, texts};

/// A `PolicyRule`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    pub verbs: Vec<String>,
    pub api_groups: Vec<String>,
    pub resources: Vec<String>,
    pub resource_names: Vec<String>,
    pub non_resource_urls: Vec<String>,
}

fn has(set: &[String], one: &str) -> bool {
    set.iter().any(|s| s == one)
}

/// `*` or the thing itself.
fn admits(set: &[String], one: &str) -> bool {
    set.iter().any(|s| s == "*" || s == one)
}

/// `/a/*` contains `/a/b`; without a star only itself.
fn url_covers(owner: &str, path: &str) -> bool {
    owner == path || owner.ends_with('*') && path.starts_with(owner.trim_end_matches('*'))
}

impl Rule {
    pub fn from_value(rule: &Value) -> Self {
        Self {
            verbs: texts(rule, "verbs"),
            api_groups: texts(rule, "apiGroups"),
            resources: texts(rule, "resources"),
            resource_names: texts(rule, "resourceNames"),
            non_resource_urls: texts(rule, "nonResourceURLs"),
        }
    }

    /// The `rules` of a Role or `ClusterRole`.
    pub fn of_role(role: &Value) -> Vec<Self> {
        super::items(role, "rules").iter().map(Self::from_value).collect()
    }

    /// `*` on everything, as two rules: resources and paths.
    pub fn everything() -> Vec<Self> {
        let star = || vec!["*".to_owned()];
        vec![
            Self { verbs: star(), api_groups: star(), resources: star(), ..Self::default() },
            Self { verbs: star(), non_resource_urls: star(), ..Self::default() },
        ]
    }

    /// Whether the request is one that this rule allows.
    pub fn allows(&self, asked: &Attributes) -> bool {
        if !admits(&self.verbs, &asked.verb) {
            return false;
        }
        if !asked.is_resource() {
            return self.non_resource_urls.iter().any(|url| url_covers(url, &asked.path));
        }
        admits(&self.api_groups, &asked.group)
            && self.resources.iter().any(|resource| resource_matches(resource, asked))
            && (self.resource_names.is_empty() || has(&self.resource_names, &asked.name))
    }

    fn atom_count(&self) -> usize {
        let objects = self.api_groups.len().saturating_mul(self.resources.len());
        let named = objects.saturating_mul(self.resource_names.len().max(1));
        named.saturating_add(self.non_resource_urls.len()).saturating_mul(self.verbs.len())
    }

    /// This rule as rules with one verb, one resource and one name each.
    fn atoms(&self) -> Vec<Self> {
        let one = |text: &String| vec![text.clone()];
        let names: Vec<Vec<String>> = match self.resource_names.as_slice() {
            [] => vec![Vec::new()],
            names => names.iter().map(one).collect(),
        };
        let mut atoms = Vec::new();
        for group in &self.api_groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    atoms.extend(names.iter().map(|names| Self {
                        verbs: one(verb),
                        api_groups: one(group),
                        resources: one(resource),
                        resource_names: names.clone(),
                        non_resource_urls: Vec::new(),
                    }));
                }
            }
        }
        for url in &self.non_resource_urls {
            atoms.extend(self.verbs.iter().map(|verb| Self {
                verbs: one(verb),
                non_resource_urls: one(url),
                ..Self::default()
            }));
        }
        atoms
    }

    /// Whether everything that `atom` allows is allowed by this rule.
    fn covers_atom(&self, atom: &Self) -> bool {
        atom.verbs.iter().all(|verb| admits(&self.verbs, verb))
            && atom.api_groups.iter().all(|group| admits(&self.api_groups, group))
            && atom.resources.iter().all(|resource| {
                let any_with_sub = resource.split_once('/').map(|(_, sub)| format!("*/{sub}"));
                admits(&self.resources, resource) || any_with_sub.is_some_and(|r| has(&self.resources, &r))
            })
            && (self.resource_names.is_empty()
                || !atom.resource_names.is_empty()
                    && atom.resource_names.iter().all(|name| has(&self.resource_names, name)))
            && atom
                .non_resource_urls
                .iter()
                .all(|url| self.non_resource_urls.iter().any(|owner| url_covers(owner, url)))
    }

    /// `{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}`
    fn compact(&self) -> String {
        let parts = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        let filled = parts.iter().filter(|(_, list)| !list.is_empty());
        let texts: Vec<_> = filled.map(|(name, list)| format!("{name}:{}", quoted_list(list))).collect();
        format!("{{{}}}", texts.join(", "))
    }

    /// As an entry of `resourceRules` of a `SelfSubjectRulesReview`, if it is about resources.
    pub fn resource_rule(&self) -> Option<Value> {
        let mut rule = Map::new();
        rule.insert("verbs".to_owned(), self.verbs.clone().into());
        let lists = [
            ("apiGroups", &self.api_groups),
            ("resources", &self.resources),
            ("resourceNames", &self.resource_names),
        ];
        for (key, list) in lists {
            if !list.is_empty() {
                rule.insert(key.to_owned(), list.clone().into());
            }
        }
        (!self.resources.is_empty()).then_some(Value::Object(rule))
    }

    /// As an entry of `nonResourceRules`, if it is about paths.
    pub fn path_rule(&self) -> Option<Value> {
        (!self.non_resource_urls.is_empty())
            .then(|| json!({ "verbs": self.verbs, "nonResourceURLs": self.non_resource_urls }))
    }
}

/// `*`, the resource with its subresource, or `*/<subresource>`.
fn resource_matches(rule: &str, asked: &Attributes) -> bool {
    if rule == "*" {
        return true;
    }
    match rule.split_once('/') {
        None => asked.subresource.is_empty() && rule == asked.resource,
        Some((resource, sub)) => {
            sub == asked.subresource && !sub.is_empty() && (resource == "*" || resource == asked.resource)
        }
    }
}

/// Beyond this many combinations a rule is not taken apart: it must be held as it stands.
const MOST_ATOMS: usize = 20_000;
/// Each combination is compared with each rule that is held.
const MOST_COMPARISONS: usize = 5_000_000;

/// What of `wanted` is not contained in `held`, described one rule a line, sorted; `None` if all is held.
pub fn missing(held: &[Rule], wanted: &[Rule]) -> Option<String> {
    let covered = |atom: &Rule| held.iter().any(|rule| rule.covers_atom(atom));
    let open: Vec<&Rule> = wanted.iter().filter(|rule| !covered(rule)).collect();
    let mut lines = BTreeSet::new();
    // Atoms about the same objects differ by their verb only: one line for all of them.
    let mut merged: BTreeMap<[Vec<String>; 3], Rule> = BTreeMap::new();
    let mut atoms = 0_usize;
    let most = (MOST_COMPARISONS / held.len().max(1)).min(MOST_ATOMS);
    for rule in open {
        atoms = atoms.saturating_add(rule.atom_count());
        if atoms > most {
            lines.insert(rule.compact());
            continue;
        }
        for mut atom in rule.atoms().into_iter().filter(|atom| !covered(atom)) {
            if !atom.non_resource_urls.is_empty() {
                lines.insert(atom.compact());
                continue;
            }
            let about = [atom.api_groups.clone(), atom.resources.clone(), atom.resource_names.clone()];
            match merged.entry(about) {
                Entry::Occupied(mut rule) => rule.get_mut().verbs.append(&mut atom.verbs),
                Entry::Vacant(place) => {
                    place.insert(atom);
                }
            }
        }
    }
    lines.extend(merged.values().map(Rule::compact));
    (!lines.is_empty()).then(|| lines.into_iter().collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Rule {
        // verbs groups resources [names], comma-separated; `-` is the core group; a path stands for all three.
        let parts: Vec<&str> = text.split(' ').collect();
        let list = |at: usize| -> Vec<String> {
            let words = parts.get(at).into_iter().flat_map(|p| p.split(','));
            words.map(|w| if w == "-" { String::new() } else { w.to_owned() }).collect()
        };
        if parts[1].starts_with('/') {
            return Rule { verbs: list(0), non_resource_urls: list(1), ..Rule::default() };
        }
        Rule {
            verbs: list(0),
            api_groups: list(1),
            resources: list(2),
            resource_names: list(3),
            non_resource_urls: vec![],
        }
    }

    fn asked(text: &str) -> Attributes {
        let parts: Vec<&str> = text.split(' ').collect();
        let at = |n: usize| parts.get(n).map(|p| p.trim_matches('-').to_owned()).unwrap_or_default();
        if parts[1].starts_with('/') {
            return Attributes { verb: at(0), path: parts[1].to_owned(), ..Attributes::default() };
        }
        let (resource, subresource) = parts[2].split_once('/').unwrap_or((parts[2], ""));
        Attributes {
            verb: at(0),
            group: at(1),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            name: at(3),
            ..Attributes::default()
        }
    }

    #[test]
    fn a_rule_allows_what_it_names() {
        let table = [
            ("get - pods", "get - pods", true),
            ("get - pods", "get - pods/log x", false),
            ("get - pods/log", "get - pods/log x", true),
            ("get - */log", "get - pods/log x", true),
            ("get - */log", "get - pods x", false),
            ("get - *", "get - pods/log x", true),
            ("* * *", "patch apps deployments/scale x", true),
            ("get apps deployments", "get - deployments", false),
            ("get - secrets a", "get - secrets a", true),
            ("get - secrets a", "get - secrets b", false),
            ("list - secrets a", "list - secrets", false),
            ("get /api/*", "get /api/v1", true),
            ("get /api/*", "get /apis", false),
            ("get /version", "post /version", false),
            ("get - pods", "get /version", false),
            ("get /*", "get - pods", false),
        ];
        for (given, question, answer) in table {
            assert_eq!(rule(given).allows(&asked(question)), answer, "{given} / {question}");
        }
    }

    #[test]
    fn what_is_not_held_is_listed_by_object_and_sorted() {
        let held =
            [rule("get,list - configmaps"), rule("get - secrets a"), rule("get /api/*"), rule("* x */scale")];
        let table = [
            ("get - configmaps", None),
            ("get - configmaps a", None),
            ("get - secrets", Some("{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}")),
            ("update x y/scale", None),
            ("get /api/v1", None),
            ("get /apis", Some("{NonResourceURLs:[\"/apis\"], Verbs:[\"get\"]}")),
            (
                "get,watch,* -,apps pods,configmaps",
                Some(concat!(
                    "{APIGroups:[\"\"], Resources:[\"configmaps\"], Verbs:[\"watch\" \"*\"]}\n",
                    "{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"get\" \"watch\" \"*\"]}\n",
                    "{APIGroups:[\"apps\"], Resources:[\"configmaps\"], Verbs:[\"get\" \"watch\" \"*\"]}\n",
                    "{APIGroups:[\"apps\"], Resources:[\"pods\"], Verbs:[\"get\" \"watch\" \"*\"]}",
                )),
            ),
        ];
        for (wanted, expected) in table {
            assert_eq!(missing(&held, &[rule(wanted)]).as_deref(), expected, "{wanted}");
        }
        assert_eq!(missing(&Rule::everything(), &held), None);
    }
}
