//! Validation of a policy's CEL expressions on write.

use serde_json::{Map, Value, json};

use crate::crd::cel::Expression;
use crate::crd::cel::check::{CelType, check};
use crate::crd::schema::StructuralSchema;
use crate::field::{FieldError, FieldErrors, Path};

/// Errors of the expressions in `spec`; other fields are validated elsewhere. Empty
/// expressions are no error here.
pub fn check_policy(policy: &Value) -> FieldErrors {
    let spec = &policy["spec"];
    let list = |key: &str| spec[key].as_array().map(Vec::as_slice).unwrap_or_default();
    let has_params = !spec["paramKind"].is_null();
    let request = StructuralSchema::parse(&request_schema());
    let mut errors = FieldErrors::new();
    let mut known = StructuralSchema::parse(&json!({"type": "object"}));
    let path = Path::new("spec");
    let mut check = |value: &Value, path: &Path, known: Option<&StructuralSchema>, wanted: ExpectedType| {
        let source = value.as_str().unwrap_or_default();
        if source.trim().is_empty() {
            return int_or_string_schema();
        }
        check_expression(source, has_params, &request, known, wanted).unwrap_or_else(|why| {
            errors.push(FieldError::invalid(path, source, why));
            int_or_string_schema()
        })
    };
    for (at, condition) in list("matchConditions").iter().enumerate() {
        let path = path.field("matchConditions").index(at).field("expression");
        check(&condition["expression"], &path, None, ExpectedType::Bool);
    }
    for (at, variable) in list("variables").iter().enumerate() {
        let path = path.field("variables").index(at).field("expression");
        let schema = check(&variable["expression"], &path, Some(&known), ExpectedType::Any);
        let name = variable["name"].as_str().unwrap_or_default();
        known.properties.insert(name.into(), StructuralSchema::parse(&schema));
    }
    let known = (!known.properties.is_empty()).then_some(&known);
    for (at, validation) in list("validations").iter().enumerate() {
        let path = path.field("validations").index(at);
        check(&validation["expression"], &path.field("expression"), known, ExpectedType::Bool);
        check(
            &validation["messageExpression"],
            &path.field("messageExpression"),
            known,
            ExpectedType::String,
        );
    }
    for (at, annotation) in list("auditAnnotations").iter().enumerate() {
        let path = path.field("auditAnnotations").index(at).field("valueExpression");
        check(&annotation["valueExpression"], &path, known, ExpectedType::StringOrNull);
    }
    errors
}

/// Variables with fields of any type, for which types are not checked.
const DYNAMIC_VARIABLES: [&str; 4] = ["object", "oldObject", "namespaceObject", "params"];

/// An int-or-string field has any type for the checker.
fn int_or_string_schema() -> Value {
    json!({"x-kubernetes-int-or-string": true})
}

#[derive(Clone, Copy)]
enum ExpectedType {
    Bool,
    String,
    StringOrNull,
    Any,
}

/// Returns the type of an expression as a schema, if known; an error if it is not the required one.
fn check_expression(
    source: &str,
    has_params: bool,
    request: &StructuralSchema,
    variables: Option<&StructuralSchema>,
    wanted: ExpectedType,
) -> Result<Value, String> {
    let failed = |why: String| format!("compilation failed: {why}");
    let expression = Expression::parse(source).map_err(failed)?;
    let mut scope = vec![
        ("object", CelType::Dyn),
        ("oldObject", CelType::Dyn),
        ("namespaceObject", CelType::Dyn),
        ("authorizer", CelType::Dyn),
        ("request", CelType::Object(request, false)),
    ];
    if has_params {
        scope.push(("params", CelType::Dyn));
    }
    if let Some(variables) = variables {
        scope.push(("variables", CelType::Object(variables, false)));
    }
    let ty = check(&expression, scope).map_err(failed)?;
    let unknowable = matches!(ty, CelType::Dyn) && !expression.reads_field_of(&DYNAMIC_VARIABLES);
    match (wanted, ty) {
        (ExpectedType::Any, ty) => Ok(match ty {
            CelType::Bool => json!({"type": "boolean"}),
            CelType::Int => json!({"type": "integer"}),
            CelType::Double => json!({"type": "number"}),
            CelType::String => json!({"type": "string"}),
            _ => int_or_string_schema(),
        }),
        (ExpectedType::Bool, CelType::Bool)
        | (ExpectedType::String, CelType::String)
        | (ExpectedType::StringOrNull, CelType::String | CelType::Null) => Ok(int_or_string_schema()),
        _ if unknowable => Ok(int_or_string_schema()),
        (ExpectedType::Bool, ty) => Err(format!("must evaluate to bool but got {}", ty.name())),
        (ExpectedType::String, ty) => Err(format!("must evaluate to string but got {}", ty.name())),
        (ExpectedType::StringOrNull, ty) => {
            Err(format!("must evaluate to one of [string null_type] but got {}", ty.name()))
        }
    }
}

/// The type of `request`.
fn request_schema() -> Value {
    let text = json!({"type": "string"});
    let of = |names: &[&str]| {
        let fields: Map<String, Value> =
            names.iter().map(|name| ((*name).to_owned(), json!({"type": "string"}))).collect();
        json!({"type": "object", "properties": fields})
    };
    json!({"type": "object", "properties": {
        "kind": of(&["group", "version", "kind"]), "requestKind": of(&["group", "version", "kind"]),
        "resource": of(&["group", "version", "resource"]), "requestResource": of(&["group", "version", "resource"]),
        "subResource": text, "requestSubResource": text, "name": text, "namespace": text, "operation": text,
        "dryRun": {"type": "boolean"}, "options": {"x-kubernetes-int-or-string": true},
        "userInfo": {"type": "object", "properties": {
            "username": text, "uid": text, "groups": {"type": "array", "items": text},
            "extra": {"type": "object", "additionalProperties": {"type": "array", "items": text}}}},
    }})
}
