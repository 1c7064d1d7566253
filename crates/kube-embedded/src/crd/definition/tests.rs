//! Tests of accepted CRDs, and of the errors of invalid ones.

use serde_json::json;

use super::*;

fn crd(change: impl FnOnce(&mut Value)) -> Value {
    let mut crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "tugs.x.dev"},
        "spec": {
            "group": "x.dev", "scope": "Namespaced", "names": {"plural": "tugs", "kind": "Tug"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": {
                    "a": {"type": "integer"}, "s": {"type": "string"}}}}}}}],
        },
    });
    change(&mut crd);
    create(&mut crd);
    default(&mut crd);
    crd
}

fn error_messages_of(change: impl FnOnce(&mut Value)) -> Vec<String> {
    validate(&crd(change), None).iter().map(ToString::to_string).collect()
}

#[test]
fn crd_defaults_are_set() {
    let crd = crd(|_| {});
    assert_eq!(crd["spec"]["names"]["singular"], "tug");
    assert_eq!(crd["spec"]["names"]["listKind"], "TugList");
    assert_eq!(crd["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!(crd["status"]["storedVersions"], json!(["v1"]));
    assert!(validate(&crd, None).is_empty());
}

#[test]
fn crd_validation_errors() {
    let schema = |schema: Value| {
        error_messages_of(move |crd| {
            crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = schema;
        })
    };
    let at = "spec.validation.openAPIV3Schema.properties[spec]";
    let table = [
        (
            error_messages_of(|crd| crd["metadata"]["name"] = "as.k1.io".into()),
            "metadata.name: Invalid value: \"as.k1.io\": must be spec.names.plural+\".\"+spec.group".to_owned(),
        ),
        (
            error_messages_of(|crd| crd["spec"]["versions"][0]["schema"] = Value::Null),
            "spec.versions[0].schema.openAPIV3Schema: Required value".to_owned(),
        ),
        (
            schema(json!({"properties": {}})),
            format!("{at}.type: Required value: must not be empty for specified object fields"),
        ),
        (
            schema(json!({"type": "object", "properties": {"a": {"type": "string", "default": 1}}})),
            format!("{at}.properties[a].default: Invalid value: \"integer\": {at}.properties[a].default in body must be of type string: \"integer\"")
                .replace(&format!("{at}.properties[a].default in body"), " in body"),
        ),
        (
            schema(json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string", "nullable": true}})),
            format!("{at}.items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is set"),
        ),
        (
            schema(json!({"type": "object", "x-kubernetes-validations": [{"rule": ""}]})),
            format!("{at}.x-kubernetes-validations[0].rule: Required value: rule is not specified"),
        ),
        (
            schema(json!({"type": "string", "x-kubernetes-validations": [{"rule": "self", "reason": "x"}]})),
            format!("{at}.x-kubernetes-validations[0].reason: Unsupported value: \"x\": supported values: \"FieldValueDuplicate\", \"FieldValueForbidden\", \"FieldValueInvalid\", \"FieldValueRequired\""),
        ),
        (
            schema(json!({"type": "object", "x-kubernetes-validations": [{"rule": "self.zz > 1"}]})),
            format!("{at}.x-kubernetes-validations[0].rule: Invalid value: {{\"Rule\":\"self.zz > 1\"}}: compilation failed: ERROR: <input>:1:5: undefined field 'zz'\n | self.zz > 1\n | ....^"),
        ),
        (
            error_messages_of(|crd| crd["spec"]["names"]["shortNames"] = json!(["A"])),
            "spec.names.shortNames[0]: Invalid value: \"A\": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')".to_owned(),
        ),
    ];
    for (found, wanted) in table {
        assert_eq!(found, [wanted]);
    }
}

#[test]
fn crd_rules_above_cost_limit_are_rejected() {
    let rule = "self.all(x, self.exists_one(y, y == x))";
    let list = |most: Option<u64>| {
        let mut list = json!({"type": "array", "items": {"type": "string", "maxLength": 9},
                              "x-kubernetes-validations": [{"rule": rule}]});
        if let Some(most) = most {
            list["maxItems"] = most.into();
        }
        error_messages_of(move |crd| {
            crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = list;
        })
    };
    assert_eq!(list(Some(100)), [""; 0]);
    let found = list(None);
    assert_eq!(found.len(), 3, "{found:#?}");
    assert!(
        found[0]
            .contains("rule: Forbidden: estimated rule cost exceeds budget by factor of more than 100x (try")
    );
}

#[test]
fn established_crd_keeps_names_and_stored_versions() {
    let mut old = crd(|_| {});
    crate::crd::status::set_names_and_conditions(&mut old, &[], jiff::Timestamp::UNIX_EPOCH);
    let mut new = old.clone();
    new["spec"]["names"]["kind"] = "Boat".into();
    new["spec"]["versions"][0]["name"] = "v2".into();
    update(&mut new, &old);
    let found: Vec<String> = validate(&new, Some(&old)).iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(found[0], "spec.names.kind: Invalid value: \"Boat\": field is immutable");
    assert!(
        found[1].starts_with("status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions")
    );
}
