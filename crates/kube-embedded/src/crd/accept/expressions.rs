//! The CEL rules of a schema: they must parse, fit its types, and give a bool.

use serde_json::Value;

use super::super::cel::Expression;
use super::super::cel::check::{Ty, check as check_types};
use super::super::schema::{Additional, ListType, Rule, Schema};
use crate::field::{FieldError, Path};

/// Complaints about the rules of a schema that is otherwise sound.
pub fn check(document: &Value, path: &Path) -> Vec<FieldError> {
    let schema = Schema::read(document);
    let mut errors = Vec::new();
    walk(&schema, document, true, None, path, &mut errors);
    errors
}

/// `loose` is the first list above whose elements cannot be told apart between two states of an object.
fn walk(
    schema: &Schema,
    document: &Value,
    resource: bool,
    loose: Option<&Path>,
    path: &Path,
    errors: &mut Vec<FieldError>,
) {
    for (at, rule) in schema.rules.iter().enumerate() {
        let path = path.field("x-kubernetes-validations").index(at);
        let written = &document["x-kubernetes-validations"][at];
        self::rule(rule, written, schema, resource, loose, &path, errors);
    }
    for (name, child) in &schema.properties {
        let path = path.field("properties").key(name);
        let document = &document["properties"][name.as_ref()];
        walk(child, document, child.embedded, loose, &path, errors);
    }
    if let Additional::Schema(child) = &schema.additional {
        let path = path.field("additionalProperties");
        walk(child, &document["additionalProperties"], child.embedded, loose, &path, errors);
    }
    if let Some(child) = &schema.items {
        let keyed = matches!(schema.list, ListType::Map(_));
        let loose = if keyed { loose } else { loose.or(Some(path)) };
        walk(child, &document["items"], child.embedded, loose, &path.field("items"), errors);
    }
}

fn rule(
    rule: &Rule,
    written: &Value,
    schema: &Schema,
    resource: bool,
    loose: Option<&Path>,
    path: &Path,
    errors: &mut Vec<FieldError>,
) {
    let mut complain = |key: &str, detail: String| {
        errors.push(FieldError::invalid(&path.field(key), written.clone(), detail));
    };
    let Some(this) = Ty::of(schema, resource) else {
        complain("rule", "compilation failed: the schema says too little for an expression".to_owned());
        return;
    };
    let old = match rule.optional_old_self {
        Some(true) => Ty::Optional(Box::new(this.clone())),
        _ => this.clone(),
    };
    let typed = |source: &str| -> Result<(Expression, Ty<'_>), String> {
        let expression = Expression::parse(source)?;
        let ty = check_types(&expression, [("self", this.clone()), ("oldSelf", old.clone())])?;
        Ok((expression, ty))
    };
    let expression = match typed(&rule.rule) {
        Ok((expression, Ty::Bool | Ty::Dyn)) => expression,
        Ok(_) => return complain("rule", "cel expression must evaluate to a bool".to_owned()),
        Err(why) => return complain("rule", format!("compilation failed: {why}")),
    };
    if !rule.message_expression.is_empty() {
        match typed(&rule.message_expression) {
            Ok((_, Ty::String | Ty::Dyn)) => {}
            Ok(_) => complain("messageExpression", "messageExpression must evaluate to a string".to_owned()),
            Err(why) => complain("messageExpression", format!("messageExpression compilation failed: {why}")),
        }
    }
    if expression.uses("oldSelf") {
        if let Some(loose) = loose {
            let detail =
                format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {loose}");
            errors.push(FieldError::invalid(&path.field("rule"), rule.rule.as_str(), detail));
        }
    } else if let Some(flag) = rule.optional_old_self {
        let detail = "may not be set if oldSelf is not used in rule";
        errors.push(FieldError::invalid(&path.field("optionalOldSelf"), flag, detail));
    }
}
