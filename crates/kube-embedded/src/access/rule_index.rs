//! The rules of one role, indexed by value: a decision takes a few lookups, however many rules and values the role has.
//!
//! For each of verbs, API groups, resources and names, the index maps a value to the rules that contain it. The rules that allow a request
//! are the intersection of these sets, computed on bit sets. Sets of more than a few rules are stored as bits, which takes no more memory
//! than the list.
//!
//! Invariants: [`IndexedRules::allow`] returns whether [`Rule::allows`] is true of any rule. [`IndexedRules::covers`] counts its steps
//! ([`StepBudget`]) before it takes them.

use std::collections::BTreeMap;

use super::Attributes;
use super::rule::{Rule, RulePart, url_covers};

const BITS: usize = u64::BITS as usize;

/// The indexed rules of a role.
pub(super) struct IndexedRules {
    rules: Vec<Rule>,
    verbs: Postings,
    groups: Postings,
    resources: Postings,
    names: Postings,
    /// Rules without resource names, as bits.
    rules_without_names: Box<[u64]>,
    /// Rules about URLs. Only `ClusterRoles` have them, which tenants cannot write.
    url_rules: Vec<usize>,
}

/// Maps each value of one list to the rules that contain it.
struct Postings {
    list: fn(&Rule) -> &[String],
    /// Index of the rule and of the value in its list, sorted by value, then by rule.
    entries: Vec<(u32, u32)>,
    /// Values of many rules: the rules as bits, by the index of the first entry.
    dense: BTreeMap<usize, Box<[u64]>>,
}

impl Postings {
    fn new(rules: &[Rule], list: fn(&Rule) -> &[String]) -> Self {
        let words = rules.len().div_ceil(BITS);
        let indexes = || 0_u32..;
        let mut entries: Vec<(u32, u32)> = indexes()
            .zip(rules)
            .flat_map(|(rule, of)| indexes().zip(list(of)).map(move |(place, _)| (rule, place)))
            .collect();
        let value = |entry: &(u32, u32)| value_at(rules, list, *entry);
        entries.sort_by(|a, b| value(a).cmp(value(b)).then(a.cmp(b)));
        let (mut dense, mut start) = (BTreeMap::new(), 0_usize);
        for same in entries.chunk_by(|a, b| value(a) == value(b)) {
            if same.len() > words.saturating_mul(2) {
                let mut bits = vec![0; words].into_boxed_slice();
                for (rule, _) in same {
                    set(&mut bits, *rule);
                }
                dense.insert(start, bits);
            }
            start = start.saturating_add(same.len());
        }
        Self { list, entries, dense }
    }

    /// Upper bound of the steps of [`Self::add`] for a set of `words` words.
    fn cost(&self, value: &str, words: usize) -> usize {
        let search =
            usize::try_from(self.entries.len().checked_ilog2().unwrap_or(0)).unwrap_or(0).saturating_add(1);
        // Comparing long values takes longer.
        (value.len() / 32).saturating_add(1).saturating_mul(search).saturating_add(words.saturating_mul(2))
    }

    /// Adds the rules that contain `value` to `found`.
    fn add(&self, rules: &[Rule], value: &str, found: &mut [u64]) {
        let of = |entry: &(u32, u32)| value_at(rules, self.list, *entry);
        let start = self.entries.partition_point(|entry| of(entry) < value);
        let same = self.entries.get(start..).unwrap_or_default();
        if same.first().is_none_or(|first| of(first) != value) {
            return;
        }
        if let Some(bits) = self.dense.get(&start) {
            count(bits.len());
            found.iter_mut().zip(bits).for_each(|(found, bits)| *found |= bits);
            return;
        }
        for (rule, _) in same.iter().take_while(|entry| of(entry) == value) {
            count(1);
            set(found, *rule);
        }
    }
}

fn value_at(rules: &[Rule], list: fn(&Rule) -> &[String], (rule, place): (u32, u32)) -> &str {
    let rule = usize::try_from(rule).ok().and_then(|at| rules.get(at));
    rule.zip(usize::try_from(place).ok()).and_then(|(rule, at)| list(rule).get(at)).map_or("", String::as_str)
}

fn set(bits: &mut [u64], rule: u32) {
    let word = usize::try_from(rule / u64::BITS).ok().and_then(|word| bits.get_mut(word));
    if let Some(word) = word {
        *word |= 1 << (rule % u64::BITS);
    }
}

fn is_set(bits: &[u64], rule: usize) -> bool {
    bits.get(rule / BITS).is_some_and(|word| (word >> (rule % BITS)) & 1 == 1)
}

/// Remaining steps of a comparison.
pub(super) struct StepBudget(usize);

impl StepBudget {
    pub const fn new(most: usize) -> Self {
        Self(most)
    }

    /// Takes steps; returns whether any remain afterwards.
    fn take(&mut self, steps: usize) -> bool {
        self.0 = self.0.saturating_sub(steps);
        !self.is_exhausted()
    }

    pub const fn is_exhausted(&self) -> bool {
        self.0 == 0
    }
}

/// Counts the steps of a decision, in tests.
#[cfg(not(test))]
const fn count(_: usize) {}

#[cfg(test)]
use tests::count;

impl IndexedRules {
    pub fn new(rules: Vec<Rule>) -> Self {
        let mut unnamed = vec![0; rules.len().div_ceil(BITS)].into_boxed_slice();
        for (at, _) in (0_u32..).zip(&rules).filter(|(_, rule)| rule.resource_names.is_empty()) {
            set(&mut unnamed, at);
        }
        let of_paths = rules.iter().enumerate().filter(|(_, rule)| !rule.non_resource_urls.is_empty());
        Self {
            verbs: Postings::new(&rules, |rule| &rule.verbs),
            groups: Postings::new(&rules, |rule| &rule.api_groups),
            resources: Postings::new(&rules, |rule| &rule.resources),
            names: Postings::new(&rules, |rule| &rule.resource_names),
            rules_without_names: unnamed,
            url_rules: of_paths.map(|(at, _)| at).collect(),
            rules,
        }
    }

    pub fn list(&self) -> &[Rule] {
        &self.rules
    }

    /// Whether a rule allows the request.
    pub fn allow(&self, attributes: &Attributes) -> bool {
        if !attributes.is_resource() {
            return self
                .url_rules
                .iter()
                .filter_map(|at| self.rules.get(*at))
                .any(|rule| rule.allows(attributes));
        }
        let words = self.rules_without_names.len();
        let mut left = vec![0; words];
        self.verbs.add(&self.rules, "*", &mut left);
        self.verbs.add(&self.rules, &attributes.verb, &mut left);
        let mut scratch = vec![0; words];
        let mut narrow = |add: &dyn Fn(&mut [u64])| {
            scratch.fill(0);
            add(&mut scratch);
            count(words);
            left.iter_mut().zip(&scratch).for_each(|(left, found)| *left &= found);
            left.iter().any(|left| *left != 0)
        };
        narrow(&|found| {
            self.groups.add(&self.rules, "*", found);
            self.groups.add(&self.rules, &attributes.group, found);
        }) && narrow(&|found| self.add_resources(attributes, found))
            && narrow(&|found| {
                found.copy_from_slice(&self.rules_without_names);
                self.names.add(&self.rules, &attributes.name, found);
            })
    }

    /// Whether one rule covers all that `wanted` allows. False when the steps are used up.
    pub fn covers(&self, wanted: &RulePart<'_>, steps: &mut StepBudget) -> bool {
        /// Fixed cost of a call.
        const CALL: usize = 20;
        let words = self.rules_without_names.len();
        if !steps.take(words.saturating_add(CALL)) {
            return false;
        }
        let mut left = vec![u64::MAX; words];
        if let Some(last) = left.last_mut().filter(|_| !self.rules.len().is_multiple_of(BITS)) {
            *last = (1 << (self.rules.len() % BITS)) - 1;
        }
        let mut narrow = RuleFilter {
            rules: &self.rules,
            remaining: &mut left,
            scratch: vec![0; words],
            steps: &mut *steps,
        };
        let nothing = vec![0; words];
        let any_subresource = |resource: &String| Some(format!("*/{}", resource.split_once('/')?.1));
        let is_left = wanted.verbs.iter().all(|verb| narrow.retain(&self.verbs, &nothing, &["*", verb]))
            && wanted.groups.iter().all(|group| narrow.retain(&self.groups, &nothing, &["*", group]))
            && wanted.resources.iter().all(|resource| match any_subresource(resource) {
                Some(any) => narrow.retain(&self.resources, &nothing, &["*", resource, &any]),
                None => narrow.retain(&self.resources, &nothing, &["*", resource]),
            })
            && wanted.names.iter().all(|name| narrow.retain(&self.names, &self.rules_without_names, &[name]))
            && (!wanted.names.is_empty() || narrow.retain(&self.names, &self.rules_without_names, &[]));
        is_left && (wanted.urls.is_empty() || self.covers_urls(wanted.urls, &left, steps))
    }

    /// Whether one of the rules in `left` covers all URLs.
    fn covers_urls(&self, urls: &[String], left: &[u64], steps: &mut StepBudget) -> bool {
        let in_left = self.url_rules.iter().filter(|at| is_set(left, **at));
        let mut in_left = in_left.filter_map(|at| self.rules.get(*at));
        in_left.any(|rule| {
            urls.iter().all(|url| {
                steps.take(rule.non_resource_urls.len().saturating_mul((url.len() / 32).saturating_add(1)))
                    && rule.non_resource_urls.iter().any(|owner| url_covers(owner, url))
            })
        })
    }

    /// Adds the rules that match the resource: `*`, the resource with its subresource, or `*/<subresource>`.
    fn add_resources(&self, asked: &Attributes, found: &mut [u64]) {
        let mut add = |resource: &str| self.resources.add(&self.rules, resource, found);
        add("*");
        let (resource, subresource) = (&asked.resource, &asked.subresource);
        // A review may name resources that do not exist, but a resource name never contains a slash.
        let is_name = !resource.contains('/');
        match (subresource.is_empty(), is_name) {
            (true, true) => add(resource),
            (true, false) => {}
            (false, _) => {
                add(&format!("*/{subresource}"));
                if is_name {
                    add(&format!("{resource}/{subresource}"));
                }
            }
        }
    }
}

/// Narrows a set of rules by one list of values at a time.
struct RuleFilter<'a> {
    rules: &'a [Rule],
    remaining: &'a mut [u64],
    scratch: Vec<u64>,
    steps: &'a mut StepBudget,
}

impl RuleFilter<'_> {
    /// Keeps the rules of `base` and the rules that contain one of the values; returns whether any are left.
    fn retain(&mut self, postings: &Postings, base: &[u64], values: &[&str]) -> bool {
        let words = self.remaining.len();
        let cost = values.iter().fold(words, |cost, value| cost.saturating_add(postings.cost(value, words)));
        if !self.steps.take(cost) {
            return false;
        }
        self.scratch.copy_from_slice(base);
        for value in values {
            postings.add(self.rules, value, &mut self.scratch);
        }
        self.remaining.iter_mut().zip(&self.scratch).for_each(|(left, found)| *left &= found);
        self.remaining.iter().any(|left| *left != 0)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// Steps of all decisions of this thread.
        pub static STEPS: Cell<usize> = const { Cell::new(0) };
    }

    pub fn count(steps: usize) {
        STEPS.set(STEPS.get() + steps);
    }

    fn texts(values: &[&str]) -> Vec<String> {
        values.iter().map(|&value| value.to_owned()).collect()
    }

    fn rule(verbs: &[&str], groups: &[&str], resources: &[&str], names: &[&str]) -> Rule {
        Rule {
            verbs: texts(verbs),
            api_groups: texts(groups),
            resources: texts(resources),
            resource_names: texts(names),
            non_resource_urls: Vec::new(),
        }
    }

    #[test]
    fn index_agrees_with_rules() {
        let mut rules = vec![
            rule(&["get", "get"], &[""], &["pods", "pods/log"], &[]),
            rule(&["*"], &["apps"], &["*/scale"], &["a", "b"]),
            rule(&["list"], &["*"], &["*"], &[""]),
            rule(&["get"], &["x"], &["a/b/c"], &[]),
            rule(&["get"], &[], &["secrets"], &[]),
        ];
        rules.push(Rule { verbs: texts(&["get"]), non_resource_urls: texts(&["/a/*"]), ..Rule::default() });
        // Enough rules for several words of bits, and for values that many rules contain.
        for n in 0..300 {
            rules.push(rule(&["watch"], &["many"], &["things"], &[&format!("n{n}")]));
        }
        let index = IndexedRules::new(rules.clone());
        let mut allowed = 0;
        for verb in ["get", "list", "watch", "*", ""] {
            for group in ["", "apps", "x", "many", "*"] {
                for resource in ["pods", "deployments", "a", "a/b", "pods/log", "things", "*", ""] {
                    for subresource in ["", "log", "scale", "b/c", "c"] {
                        for name in ["", "a", "n0", "n299", "n300"] {
                            let asked = Attributes {
                                verb: verb.to_owned(),
                                group: group.to_owned(),
                                resource: resource.to_owned(),
                                subresource: subresource.to_owned(),
                                name: name.to_owned(),
                                ..Attributes::default()
                            };
                            let expected = rules.iter().any(|rule| rule.allows(&asked));
                            assert_eq!(index.allow(&asked), expected, "{asked:?}");
                            allowed += usize::from(expected);
                        }
                    }
                }
            }
        }
        assert!(allowed > 20, "{allowed}");
        let path = |path: &str| Attributes { verb: "get".into(), path: path.into(), ..Attributes::default() };
        assert!(index.allow(&path("/a/b")) && !index.allow(&path("/b")));
        assert!(!IndexedRules::new(Vec::new()).allow(&path("/a")));
    }

    #[test]
    fn question_about_a_role_of_many_values_takes_few_steps() {
        let many: Vec<String> = (0..16_000).map(|n| format!("v{n}")).collect();
        let one = Rule {
            verbs: many.clone(),
            api_groups: vec!["g".to_owned()],
            resources: many.clone(),
            resource_names: many,
            non_resource_urls: Vec::new(),
        };
        // Rules that match in all lists but one, each in another.
        let near = |n: usize| {
            let value =
                |at: usize, fits: &str| if n % 4 == at { "other".to_owned() } else { fits.to_owned() };
            rule(&[&value(0, "get")], &[&value(1, "g")], &[&value(2, "pods")], &[&value(3, "a")])
        };
        let asked = Attributes {
            verb: "get".to_owned(),
            group: "g".to_owned(),
            resource: "pods".to_owned(),
            name: "a".to_owned(),
            ..Attributes::default()
        };
        for rules in [vec![one], (0..5_000).map(near).collect()] {
            let index = IndexedRules::new(rules);
            STEPS.set(0);
            assert!(!index.allow(&asked));
            assert!(STEPS.get() < 1_000, "{}", STEPS.get());
        }
    }
}
