//! Validation of CEL rules: they must parse, type-check, return a bool, and stay within the cost limits.

use serde_json::Value;

use super::super::cel::check::{CelType, check as check_types};
use super::super::cel::{Expression, cost};
use super::super::schema::{AdditionalProperties, ListType, StructuralSchema, ValidationRule};
use crate::field::{FieldError, FieldErrors, Path};
use crate::rules::accessors::go_names;

/// Validates the rules of an otherwise valid schema.
pub fn check(document: &Value, path: &Path) -> FieldErrors {
    let schema = StructuralSchema::parse(document);
    let mut walk = RuleValidator { errors: FieldErrors::new(), costs: Vec::new() };
    let place = RuleContext { resource: true, uncorrelated_list: None, max_occurrences: Some(1) };
    walk.node(&schema, document, place, path);
    walk.check_total_cost(path);
    walk.errors
}

/// Limits of the estimated cost of one rule, and of all rules together.
const MAX_RULE_COST: u64 = 10_000_000;
const MAX_TOTAL_COST: u64 = 100_000_000;

#[derive(Clone, Copy)]
struct RuleContext<'p> {
    resource: bool,
    /// The first enclosing list whose elements cannot be correlated between two states of an object.
    uncorrelated_list: Option<&'p Path>,
    /// Maximum number of occurrences of the value; `None` if unbounded.
    max_occurrences: Option<u64>,
}

struct RuleValidator {
    errors: FieldErrors,
    costs: Vec<(Path, u64)>,
}

impl RuleValidator {
    fn node(&mut self, schema: &StructuralSchema, document: &Value, place: RuleContext<'_>, path: &Path) {
        for (at, rule) in schema.rules.iter().enumerate() {
            let path = path.field("x-kubernetes-validations").index(at);
            self.rule(rule, &document["x-kubernetes-validations"][at], schema, place, &path);
        }
        let more = |most: Option<i64>| {
            let most = most.map(|most| u64::try_from(most).unwrap_or_default());
            Some(place.max_occurrences?.saturating_mul(most?))
        };
        for (name, child) in &schema.properties {
            let document = &document["properties"][name.as_ref()];
            let place = RuleContext { resource: child.embedded, ..place };
            self.node(child, document, place, &path.field("properties").key(name));
        }
        if let AdditionalProperties::Schema(child) = &schema.additional {
            let times = more(schema.validations.max_properties);
            let place = RuleContext { resource: child.embedded, max_occurrences: times, ..place };
            self.node(child, &document["additionalProperties"], place, &path.field("additionalProperties"));
        }
        if let Some(child) = &schema.items {
            let keyed = matches!(schema.list, ListType::Map(_));
            let loose = if keyed { place.uncorrelated_list } else { place.uncorrelated_list.or(Some(path)) };
            let place = RuleContext {
                resource: child.embedded,
                uncorrelated_list: loose,
                max_occurrences: more(schema.validations.max_items),
            };
            self.node(child, &document["items"], place, &path.field("items"));
        }
    }

    fn rule(
        &mut self,
        rule: &ValidationRule,
        written: &Value,
        schema: &StructuralSchema,
        place: RuleContext<'_>,
        path: &Path,
    ) {
        let mut complain = |key: &str, detail: String| {
            self.errors.push(FieldError::invalid(&path.field(key), go_names(written), detail));
        };
        let Some(this) = CelType::from_schema(schema, place.resource) else {
            complain("rule", "compilation failed: the schema says too little for an expression".to_owned());
            return;
        };
        let old = match rule.optional_old_self {
            Some(true) => CelType::Optional(Box::new(this.clone())),
            _ => this.clone(),
        };
        let typed = |source: &str| -> Result<(Expression, CelType<'_>), String> {
            let expression = Expression::parse(source)?;
            let ty = check_types(&expression, [("self", this.clone()), ("oldSelf", old.clone())])?;
            Ok((expression, ty))
        };
        let expression = match typed(&rule.rule) {
            Ok((expression, CelType::Bool | CelType::Dyn)) => expression,
            Ok(_) => return complain("rule", "cel expression must evaluate to a bool".to_owned()),
            Err(why) => return complain("rule", format!("compilation failed: {why}")),
        };
        let mut message = None;
        if !rule.message_expression.is_empty() {
            match typed(&rule.message_expression) {
                Ok((expression, CelType::String | CelType::Dyn)) => message = Some(expression),
                Ok(_) => {
                    complain("messageExpression", "messageExpression must evaluate to a string".to_owned());
                }
                Err(why) => {
                    complain("messageExpression", format!("messageExpression compilation failed: {why}"));
                }
            }
        }
        let times = place.max_occurrences.unwrap_or_else(|| cost::max_occurrences(schema));
        self.record_cost("rule", cost::estimate(&expression, schema).saturating_mul(times), path);
        if let Some(message) = message {
            self.record_cost("messageExpression", cost::estimate(&message, schema), path);
        }
        if expression.uses_variable("oldSelf") {
            if let Some(loose) = place.uncorrelated_list {
                let detail = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {loose}"
                );
                self.errors.push(FieldError::invalid(&path.field("rule"), rule.rule.as_str(), detail));
            }
        } else if let Some(flag) = rule.optional_old_self {
            let detail = "may not be set if oldSelf is not used in rule";
            self.errors.push(FieldError::invalid(&path.field("optionalOldSelf"), flag, detail));
        }
    }

    fn record_cost(&mut self, key: &str, cost: u64, path: &Path) {
        let path = path.field(key);
        if cost > MAX_RULE_COST {
            let what = format!("estimated {key} cost");
            self.errors.push(FieldError::forbidden(&path, too_expensive_message(&what, cost, MAX_RULE_COST)));
        }
        self.costs.push((path, cost));
    }

    /// Checks the total cost, naming the most expensive rules.
    fn check_total_cost(&mut self, path: &Path) {
        let total = self.costs.iter().fold(0u64, |sum, (_, cost)| sum.saturating_add(*cost));
        if total <= MAX_TOTAL_COST {
            return;
        }
        self.costs.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
        let dear = self.costs.iter().filter(|(_, cost)| *cost >= MAX_TOTAL_COST / 100).take(4);
        let words =
            "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
        self.errors.extend(dear.map(|(path, _)| FieldError::forbidden(path, words)));
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        self.errors.push(FieldError::forbidden(path, too_expensive_message(what, total, MAX_TOTAL_COST)));
    }
}

fn too_expensive_message(what: &str, cost: u64, limit: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "printed with one or six digits")]
    let times = cost as f64 / limit as f64;
    let factor = if times > 100.0 {
        "more than 100x".to_owned()
    } else if times < 1.5 {
        format!("{times:.6}x")
    } else {
        format!("{times:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, \
         maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}
