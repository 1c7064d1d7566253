//! Tests of coverage against a comparison of single combinations, and of its cost.

use proptest::prelude::*;

use super::super::rule::tests::rule;
use super::super::rule_index::tests::STEPS;
use super::*;
use crate::store::Object;

fn effective_rules(rules_by_role: Vec<Vec<Rule>>) -> EffectiveRules {
    let mut held = EffectiveRules::default();
    for listed in rules_by_role {
        let converted: Vec<_> =
            listed.iter().filter_map(|rule| rule.resource_rule().or_else(|| rule.path_rule())).collect();
        let object = serde_json::json!({"metadata": {"name": "r"}, "rules": converted});
        held.add(&Arc::new(Role::new(Arc::new(Object::new(object, 1)))));
    }
    held
}

#[test]
fn missing_rules_are_listed_by_object_and_sorted() {
    let rules =
        vec![rule("get,list - configmaps"), rule("get - secrets a"), rule("get /api/*"), rule("* x */scale")];
    let table = [
        ("get - configmaps", None),
        ("get - configmaps a", None),
        ("get - secrets a,a", None),
        ("get - secrets", Some("{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}")),
        (
            "get - secrets a,b",
            Some("{APIGroups:[\"\"], Resources:[\"secrets\"], ResourceNames:[\"b\"], Verbs:[\"get\"]}"),
        ),
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
    let in_two_roles = effective_rules(vec![rules[..2].to_vec(), rules[2..].to_vec()]);
    let all = effective_rules(vec![rules.clone()]);
    for (wanted, expected) in table {
        assert_eq!(all.missing_rules(&[rule(wanted)]).as_deref(), expected, "{wanted}");
        assert_eq!(in_two_roles.missing_rules(&[rule(wanted)]).as_deref(), expected, "{wanted}");
    }
    assert_eq!(effective_rules(vec![Rule::allow_all()]).missing_rules(&rules), None);
    assert_eq!(effective_rules(Vec::new()).missing_rules(&[]), None);
}

#[test]
fn comparison_with_thousands_of_rules_takes_a_bounded_number_of_steps() {
    let own = |role: usize| (0..2_000).map(|n| rule(&format!("get,v{n} g r{role}-{n} a"))).collect();
    let held = effective_rules((0..20).map(own).collect());
    let names: Vec<String> = (0..20).map(|n| format!("n{n}")).collect();
    let wanted: Vec<Rule> =
        (0..700).map(|n| rule(&format!("get g r1-{n},r2-{n} {}", names.join(",")))).collect();
    let before = STEPS.get();
    let missing = held.missing_rules(&wanted).unwrap();
    assert!(STEPS.get() - before <= MAX_STEPS, "{}", STEPS.get() - before);
    assert!(missing.len() < 2 * MAX_TEXT_BYTES, "{}", missing.len());
    // The limit is reached after few rules.
    assert_eq!(held.missing_rules(&wanted[..1]).unwrap().lines().count(), 2 * names.len());
    assert_eq!(held.missing_rules(&[rule("get g r19-1999 a"), rule("v7 g r3-7 a")]), None);
}

#[test]
fn rules_that_were_not_compared_are_missing() {
    // Each value of the requested rule is in each of the user's rules.
    let many = (0..50).map(|n| format!("v{n}")).collect::<Vec<_>>().join(",");
    let own = |role: usize| (0..500).map(|n| rule(&format!("{many} g r x{role}-{n}"))).collect();
    let held = effective_rules((0..4).map(own).collect());
    let wanted = vec![rule(&format!("{many} g r y,z")); 6_000];
    let missing = held.missing_rules(&wanted).unwrap();
    assert!(missing.ends_with("use fewer rules and values"), "{}", &missing[missing.len() - 200..]);
    assert!(missing.len() < 2 * MAX_TEXT_BYTES, "{}", missing.len());
}

/// Compares as Kubernetes does: single combinations, each with all rules.
fn is_covered(held: &[Rule], wanted: &Rule) -> bool {
    let has = |list: &[String], value: &str| list.iter().any(|known| known == value);
    let admits = |list: &[String], value: &str| has(list, "*") || has(list, value);
    let of_resource = |list: &[String], resource: &str| {
        admits(list, resource)
            || resource.split_once('/').is_some_and(|(_, sub)| has(list, &format!("*/{sub}")))
    };
    let names: Vec<Option<&String>> = match wanted.resource_names.as_slice() {
        [] => vec![None],
        names => names.iter().map(Some).collect(),
    };
    wanted.verbs.iter().all(|verb| {
        wanted.api_groups.iter().all(|group| {
            wanted.resources.iter().all(|resource| {
                names.iter().all(|name| {
                    held.iter().any(|rule| {
                        admits(&rule.verbs, verb)
                            && admits(&rule.api_groups, group)
                            && of_resource(&rule.resources, resource)
                            && (rule.resource_names.is_empty()
                                || name.is_some_and(|name| has(&rule.resource_names, name)))
                    })
                })
            })
        })
    })
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let list = |values: &'static [&'static str], least: usize| {
        proptest::collection::vec(proptest::sample::select(values), least..4)
            .prop_map(|values| values.into_iter().map(str::to_owned).collect::<Vec<String>>())
    };
    let lists = (
        list(&["get", "list", "*"], 1),
        list(&["", "apps", "*"], 1),
        list(&["pods", "pods/log", "*/log", "*"], 1),
        list(&["a", "b", ""], 0),
    );
    lists.prop_map(|(verbs, api_groups, resources, resource_names)| Rule {
        verbs,
        api_groups,
        resources,
        resource_names,
        non_resource_urls: Vec::new(),
    })
}

proptest! {
    #[test]
    fn coverage_agrees_with_a_comparison_of_single_combinations(
        roles in proptest::collection::vec(proptest::collection::vec(any_rule(), 0..3), 0..4),
        wanted in any_rule(),
    ) {
        let rules: Vec<Rule> = roles.concat();
        let missing = effective_rules(roles).missing_rules(std::slice::from_ref(&wanted));
        prop_assert_eq!(missing.is_none(), is_covered(&rules, &wanted), "{:?}", missing);
    }
}
