//! One RBAC rule: the requests it allows, and the parts into which it can be split.
//!
//! `rule_index` evaluates rules for requests, `held_rules` splits them.

use std::slice::from_ref;

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

fn contains(set: &[String], one: &str) -> bool {
    set.iter().any(|s| s == one)
}

/// Whether the set contains `*` or the value.
fn matches(set: &[String], one: &str) -> bool {
    set.iter().any(|s| s == "*" || s == one)
}

/// Whether `owner` covers `path`: `/a/*` covers `/a/b`; without a star only itself.
pub(super) fn url_covers(owner: &str, path: &str) -> bool {
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

    /// Returns the `rules` of a Role or `ClusterRole`.
    pub fn from_role(role: &Value) -> Vec<Self> {
        super::items(role, "rules").iter().map(Self::from_value).collect()
    }

    /// Returns `*` on everything, as two rules: resources and non-resource URLs.
    pub fn allow_all() -> Vec<Self> {
        let star = || vec!["*".to_owned()];
        vec![
            Self { verbs: star(), api_groups: star(), resources: star(), ..Self::default() },
            Self { verbs: star(), non_resource_urls: star(), ..Self::default() },
        ]
    }

    /// Whether this rule allows the request.
    pub fn allows(&self, attributes: &Attributes) -> bool {
        if !matches(&self.verbs, &attributes.verb) {
            return false;
        }
        if !attributes.is_resource() {
            return self.non_resource_urls.iter().any(|url| url_covers(url, &attributes.path));
        }
        matches(&self.api_groups, &attributes.group)
            && self.resources.iter().any(|resource| resource_matches(resource, attributes))
            && (self.resource_names.is_empty() || contains(&self.resource_names, &attributes.name))
    }

    /// Approximate size of the rule as JSON, in bytes.
    pub fn bytes(&self) -> usize {
        const RULE: usize = 64;
        const VALUE: usize = 3;
        self.values().fold(RULE, |bytes, value| bytes.saturating_add(value.len()).saturating_add(VALUE))
    }

    /// Returns the values of all lists.
    pub fn values(&self) -> impl Iterator<Item = &String> {
        let Self { verbs, api_groups, resources, resource_names, non_resource_urls } = self;
        [verbs, api_groups, resources, resource_names, non_resource_urls].into_iter().flatten()
    }

    /// Number of combinations of [`Self::objects`] and [`Self::urls`] with verbs.
    pub fn part_count(&self) -> usize {
        let objects = self.api_groups.len().saturating_mul(self.resources.len());
        let named = objects.saturating_mul(self.resource_names.len().max(1));
        named.saturating_add(self.non_resource_urls.len()).saturating_mul(self.verbs.len())
    }

    /// Returns the rule as one part.
    pub fn as_part(&self) -> RulePart<'_> {
        RulePart {
            verbs: &self.verbs,
            groups: &self.api_groups,
            resources: &self.resources,
            names: &self.resource_names,
            urls: &self.non_resource_urls,
        }
    }

    /// Returns the parts with one API group, one resource and at most one name each, without verbs.
    pub fn objects(&self) -> impl Iterator<Item = RulePart<'_>> {
        let no_name = self.resource_names.is_empty().then_some(&[][..]);
        let names = move || no_name.into_iter().chain(self.resource_names.iter().map(from_ref));
        let of_resource = move |groups, resources| {
            names().map(move |names| RulePart { groups, resources, names, ..RulePart::default() })
        };
        self.api_groups.iter().flat_map(move |group| {
            self.resources.iter().flat_map(move |resource| of_resource(from_ref(group), from_ref(resource)))
        })
    }

    /// Returns the parts with one URL each, without verbs.
    pub fn urls(&self) -> impl Iterator<Item = RulePart<'_>> {
        self.non_resource_urls.iter().map(|url| RulePart { urls: from_ref(url), ..RulePart::default() })
    }

    /// Returns the entry of `resourceRules` in a `SelfSubjectRulesReview`; `None` if the rule is not about resources.
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

    /// Returns the entry of `nonResourceRules`; `None` if the rule is not about URLs.
    pub fn path_rule(&self) -> Option<Value> {
        (!self.non_resource_urls.is_empty())
            .then(|| json!({ "verbs": self.verbs, "nonResourceURLs": self.non_resource_urls }))
    }
}

/// Whether a rule's resource matches: `*`, the resource with its subresource, or `*/<subresource>`.
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

/// A part of a rule: a subset of its values.
#[derive(Clone, Copy, Debug, Default)]
pub struct RulePart<'a> {
    pub verbs: &'a [String],
    pub groups: &'a [String],
    pub resources: &'a [String],
    pub names: &'a [String],
    pub urls: &'a [String],
}

impl<'a> RulePart<'a> {
    #[must_use]
    pub fn with_verb(self, verb: &'a String) -> Self {
        Self { verbs: from_ref(verb), ..self }
    }

    /// Formats the part as `{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}`.
    pub fn describe(&self) -> String {
        self.describe_with(self.verbs)
    }

    /// Like [`Self::describe`], with other verbs.
    pub fn describe_with(&self, verbs: &[impl AsRef<str>]) -> String {
        let parts = [
            ("APIGroups", self.groups),
            ("Resources", self.resources),
            ("NonResourceURLs", self.urls),
            ("ResourceNames", self.names),
        ];
        let filled = parts.iter().filter(|(_, list)| !list.is_empty());
        let mut texts: Vec<_> = filled.map(|(name, list)| format!("{name}:{}", quoted_list(list))).collect();
        if !verbs.is_empty() {
            texts.push(format!("Verbs:{}", quoted_list(verbs)));
        }
        format!("{{{}}}", texts.join(", "))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn rule(text: &str) -> Rule {
        // Notation: verbs, groups, resources and names, comma-separated; `-` is the core group; a path replaces groups, resources and
        // names.
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

    fn parse_attributes(text: &str) -> Attributes {
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
    fn rule_allows_only_named_requests() {
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
            assert_eq!(rule(given).allows(&parse_attributes(question)), answer, "{given} / {question}");
        }
    }
}
