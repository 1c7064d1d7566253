//! Mutating admission policies: validated and stored, not evaluated yet.
//!
//! Shares code with validating policies in [`super::webhooks`].

use serde_json::Value;

use super::check::{self, At};
use super::webhooks::{binding_basis, default_binding, default_policy, policy_basis};
use super::{Generation, PLAIN, Rules};
use crate::field::{FieldError, FieldErrors};

const GROUP: &str = "admissionregistration.k8s.io";

pub const RULES: &[Rules] = &[
    Rules {
        group: GROUP,
        kind: "MutatingAdmissionPolicy",
        any_finalizer: true,
        generation: Generation::Content,
        default: default_policy,
        validate: validate_policy,
        validate_update: |new, _| validate_policy(new),
        ..PLAIN
    },
    Rules {
        group: GROUP,
        kind: "MutatingAdmissionPolicyBinding",
        any_finalizer: true,
        generation: Generation::Content,
        default: default_binding,
        validate: validate_binding,
        validate_update: |new, _| validate_binding(new),
        ..PLAIN
    },
];

/// The forms of a mutation: the value of `patchType`, and the field of its expression.
const FORMS: [(&str, &str); 2] = [("ApplyConfiguration", "applyConfiguration"), ("JSONPatch", "jsonPatch")];

fn validate_policy(policy: &Value) -> FieldErrors {
    let spec = At::root(policy).get("spec");
    let mut errs = FieldErrors::new();
    policy_basis(&spec, &mut errs);
    operations(&spec.get("matchConstraints"), &mut errs);
    let mutations = spec.get("mutations");
    if mutations.is_empty() {
        errs.push(FieldError::required(&mutations.path, "mutations must contain at least one item"));
    }
    for mutation in mutations.items() {
        one_mutation(&mutation, &mut errs);
    }
    check::required_one_of(&spec.get("reinvocationPolicy"), &["IfNeeded", "Never"], &mut errs);
    errs
}

fn validate_binding(binding: &Value) -> FieldErrors {
    let spec = At::root(binding).get("spec");
    let mut errs = FieldErrors::new();
    binding_basis(&spec, &mut errs);
    operations(&spec.get("matchResources"), &mut errs);
    errs
}

/// DELETE cannot be mutated.
fn operations(matching: &At, errs: &mut FieldErrors) {
    let rules = matching.get("resourceRules");
    let told_at = rules.path.field("operations");
    for rule in rules.items() {
        for operation in rule.get("operations").items() {
            check::one_of(&operation.named(told_at.clone()), &["*", "CONNECT", "CREATE", "UPDATE"], errs);
        }
    }
}

fn one_mutation(mutation: &At, errs: &mut FieldErrors) {
    let kind = mutation.get("patchType");
    check::required_one_of(&kind, &FORMS.map(|(word, _)| word), errs);
    if !FORMS.iter().any(|(word, _)| *word == kind.text()) {
        return;
    }
    for (word, field) in FORMS {
        let form = mutation.get(field);
        if word != kind.text() {
            if form.exists() {
                let words = format!("must not be specified when patchType is {}", kind.text());
                errs.push(FieldError::invalid(&form.path, format!("{{{field}}}"), words));
            }
        } else if form.exists() {
            check::required(&form.get("expression"), errs);
        } else {
            errs.push(FieldError::required(
                &form.path,
                format!("must be specified when patchType is {word}"),
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_bare_policy_and_a_mutation_of_two_minds_lack_this() {
        let rules = json!([{"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"],
            "operations": ["DELETE"], "scope": "*"}]);
        let mutations = json!([{"patchType": "JSONPatch", "applyConfiguration": {"expression": "Object{}"}}]);
        let mut policy =
            json!({"spec": {"matchConstraints": {"resourceRules": rules}, "mutations": mutations}});
        default_policy(&mut policy);
        let told =
            |policy: &Value| validate_policy(policy).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            told(&policy),
            [
                "spec.matchConstraints.resourceRules.operations: Unsupported value: \"DELETE\": supported values: \"*\", \"CONNECT\", \"CREATE\", \"UPDATE\"",
                "spec.mutations[0].applyConfiguration: Invalid value: \"{applyConfiguration}\": must not be specified when patchType is JSONPatch",
                "spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch",
                "spec.reinvocationPolicy: Required value",
            ]
        );
        assert_eq!(
            told(&json!({"spec": {"failurePolicy": "Fail"}})),
            [
                "spec.matchConstraints: Required value",
                "spec.mutations: Required value: mutations must contain at least one item",
                "spec.reinvocationPolicy: Required value",
            ]
        );
    }
}
