//! Validation of CEL rules: they must parse, type-check, return a bool, and stay within the cost limits.

use serde_json::Value;

use super::super::cel::check::{Ty, check as check_types};
use super::super::cel::{Expression, cost};
use super::super::schema::{Additional, ListType, Rule, Schema};
use crate::field::{FieldError, FieldErrors, Path};
use crate::rules::read::go_names;

/// Validates the rules of an otherwise valid schema.
pub fn check(document: &Value, path: &Path) -> FieldErrors {
    let schema = Schema::read(document);
    let mut walk = Walk { errors: FieldErrors::new(), costs: Vec::new() };
    let place = Place { resource: true, loose: None, times: Some(1) };
    walk.node(&schema, document, place, path);
    walk.total(path);
    walk.errors
}

/// Limits of the estimated cost of one rule, and of all rules together.
const MAX_COST: u64 = 10_000_000;
const MAX_TOTAL: u64 = 100_000_000;

#[derive(Clone, Copy)]
struct Place<'p> {
    resource: bool,
    /// The first enclosing list whose elements cannot be correlated between two states of an object.
    loose: Option<&'p Path>,
    /// Maximum number of occurrences of the value; `None` if unbounded.
    times: Option<u64>,
}

struct Walk {
    errors: FieldErrors,
    costs: Vec<(Path, u64)>,
}

impl Walk {
    fn node(&mut self, schema: &Schema, document: &Value, place: Place<'_>, path: &Path) {
        for (at, rule) in schema.rules.iter().enumerate() {
            let path = path.field("x-kubernetes-validations").index(at);
            self.rule(rule, &document["x-kubernetes-validations"][at], schema, place, &path);
        }
        let more = |most: Option<i64>| {
            let most = most.map(|most| u64::try_from(most).unwrap_or_default());
            Some(place.times?.saturating_mul(most?))
        };
        for (name, child) in &schema.properties {
            let document = &document["properties"][name.as_ref()];
            let place = Place { resource: child.embedded, ..place };
            self.node(child, document, place, &path.field("properties").key(name));
        }
        if let Additional::Schema(child) = &schema.additional {
            let times = more(schema.checks.max_properties);
            let place = Place { resource: child.embedded, times, ..place };
            self.node(child, &document["additionalProperties"], place, &path.field("additionalProperties"));
        }
        if let Some(child) = &schema.items {
            let keyed = matches!(schema.list, ListType::Map(_));
            let loose = if keyed { place.loose } else { place.loose.or(Some(path)) };
            let place = Place { resource: child.embedded, loose, times: more(schema.checks.max_items) };
            self.node(child, &document["items"], place, &path.field("items"));
        }
    }

    fn rule(&mut self, rule: &Rule, written: &Value, schema: &Schema, place: Place<'_>, path: &Path) {
        let mut complain = |key: &str, detail: String| {
            self.errors.push(FieldError::invalid(&path.field(key), go_names(written), detail));
        };
        let Some(this) = Ty::of(schema, place.resource) else {
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
        let mut message = None;
        if !rule.message_expression.is_empty() {
            match typed(&rule.message_expression) {
                Ok((expression, Ty::String | Ty::Dyn)) => message = Some(expression),
                Ok(_) => {
                    complain("messageExpression", "messageExpression must evaluate to a string".to_owned());
                }
                Err(why) => {
                    complain("messageExpression", format!("messageExpression compilation failed: {why}"));
                }
            }
        }
        let times = place.times.unwrap_or_else(|| cost::most_occurrences(schema));
        self.cost("rule", cost::estimate(&expression, schema).saturating_mul(times), path);
        if let Some(message) = message {
            self.cost("messageExpression", cost::estimate(&message, schema), path);
        }
        if expression.uses("oldSelf") {
            if let Some(loose) = place.loose {
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

    fn cost(&mut self, key: &str, cost: u64, path: &Path) {
        let path = path.field(key);
        if cost > MAX_COST {
            let what = format!("estimated {key} cost");
            self.errors.push(FieldError::forbidden(&path, too_expensive(&what, cost, MAX_COST)));
        }
        self.costs.push((path, cost));
    }

    /// Checks the total cost, naming the most expensive rules.
    fn total(&mut self, path: &Path) {
        let total = self.costs.iter().fold(0u64, |sum, (_, cost)| sum.saturating_add(*cost));
        if total <= MAX_TOTAL {
            return;
        }
        self.costs.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
        let dear = self.costs.iter().filter(|(_, cost)| *cost >= MAX_TOTAL / 100).take(4);
        let words =
            "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
        self.errors.extend(dear.map(|(path, _)| FieldError::forbidden(path, words)));
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        self.errors.push(FieldError::forbidden(path, too_expensive(what, total, MAX_TOTAL)));
    }
}

fn too_expensive(what: &str, cost: u64, limit: u64) -> String {
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
