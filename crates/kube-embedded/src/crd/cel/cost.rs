//! Static cost estimate of a CEL rule, as Kubernetes computes it when a CRD is written.
//!
//! The estimate uses the maximum sizes in the schema (`maxItems`, `maxLength`, `maxProperties`, or else the request size limit), so that
//! rules over unbounded lists are refused as in Kubernetes. Unknown sizes count as unbounded.

use std::collections::BTreeMap;

use kube_cel::cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators};

use super::{Expression, values};
use crate::crd::schema::{Additional, Schema};

const MAX_REQUEST: u64 = 3 * 1024 * 1024;
const ENDLESS: u64 = u64::MAX;
/// The length of the longest regular expression of a named format.
const FORMAT_REGEX: f64 = 128.0;

/// Maximum cost of one evaluation of a rule on this schema.
pub fn estimate(expression: &Expression, schema: &Schema) -> u64 {
    let this = Shape::of(schema);
    let mut scope = Scope::new();
    scope.insert("self".to_owned(), this);
    scope.insert("oldSelf".to_owned(), this);
    walk(expression.root(), &scope).cost
}

/// Maximum number of values of this schema in one request.
pub fn most_occurrences(schema: &Schema) -> u64 {
    MAX_REQUEST / (least_bytes(schema) + 1)
}

type Scope<'s> = BTreeMap<String, Shape<'s>>;

/// Estimated properties of a value: its maximum size, and its schema if it comes from the object.
#[derive(Clone, Copy)]
struct Shape<'s> {
    size: u64,
    schema: Option<&'s Schema>,
    /// Maximum size of an element, if there is no schema.
    item: u64,
    is_list: bool,
}

impl<'s> Shape<'s> {
    fn sized(size: u64) -> Self {
        Self { size, schema: None, item: ENDLESS, is_list: false }
    }

    fn of(schema: &'s Schema) -> Self {
        Self {
            size: largest(schema),
            schema: Some(schema),
            item: ENDLESS,
            is_list: schema.ty.as_ref() == "array",
        }
    }

    /// Returns the estimate of a value that is either of the two.
    fn either(self, other: Self) -> Self {
        let schema = match (self.schema, other.schema) {
            (Some(schema), None) if other.item == 0 => Some(schema),
            (None, Some(schema)) if self.item == 0 => Some(schema),
            _ => None,
        };
        let item = self.element().size.max(other.element().size);
        Self { size: self.size.max(other.size), schema, item, is_list: self.is_list || other.is_list }
    }

    /// Returns the estimate of a list element or map value.
    fn element(&self) -> Self {
        let below = self.schema.and_then(|schema| match &schema.additional {
            Additional::Schema(values) => Some(values.as_ref()),
            _ => schema.items.as_deref(),
        });
        below.map_or_else(|| Self::sized(self.item), Shape::of)
    }

    /// Returns the estimate of a loop variable: list elements or map keys.
    fn iterated(&self) -> Self {
        match self.schema {
            Some(schema) if matches!(schema.additional, Additional::Schema(_)) => Self::sized(0),
            _ => self.element(),
        }
    }
}

/// Maximum number of elements, characters or entries.
fn largest(schema: &Schema) -> u64 {
    let given = |bound: Option<i64>| bound.map(|bound| u64::try_from(bound).unwrap_or_default());
    let checks = &schema.checks;
    let text = given(checks.max_length).map(|length| length.saturating_mul(4));
    if schema.int_or_string {
        return text.unwrap_or(MAX_REQUEST - 2);
    }
    match (schema.ty.as_ref(), schema.format.as_ref()) {
        ("string", "date") => 12,
        ("string", "duration" | "date-time") => 32,
        ("string", "byte") => given(checks.max_length).unwrap_or(MAX_REQUEST - 2),
        ("string", _) => text.unwrap_or_else(|| {
            let words = checks.one_of_values.iter().filter_map(|word| word.as_str());
            words.map(|word| word.len() as u64).max().unwrap_or(MAX_REQUEST - 2)
        }),
        ("array", _) => given(checks.max_items).unwrap_or_else(|| {
            let item = schema.items.as_deref().map_or(2, least_bytes);
            (MAX_REQUEST - 2) / (item + 1)
        }),
        ("object", _) => match &schema.additional {
            Additional::Schema(values) => {
                given(checks.max_properties).unwrap_or_else(|| (MAX_REQUEST - 2) / (least_bytes(values) + 6))
            }
            _ => 0,
        },
        _ => 0,
    }
}

/// Minimum size of a value as JSON, in bytes.
fn least_bytes(schema: &Schema) -> u64 {
    if schema.int_or_string {
        return 1;
    }
    match (schema.ty.as_ref(), schema.format.as_ref()) {
        ("string", "duration") => 3,
        ("string", "date") => 12,
        ("string", "date-time") => 21,
        ("boolean", _) => 4,
        ("integer" | "number", _) => 1,
        ("object", _) if matches!(schema.additional, Additional::Unsaid) => {
            let needed = schema
                .properties
                .iter()
                .filter(|(name, child)| schema.checks.required.contains(name) && child.default.is_none());
            needed.map(|(name, child)| name.len() as u64 + least_bytes(child) + 4).sum::<u64>() + 2
        }
        _ => 2,
    }
}

struct Estimate<'s> {
    cost: u64,
    shape: Shape<'s>,
}

fn scaled(size: u64, factor: f64) -> u64 {
    if size == ENDLESS {
        return ENDLESS;
    }
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate; conversion saturates"
    )]
    let cost = (size as f64 * factor).ceil() as u64;
    cost
}

fn walk<'s>(node: &IdedExpr, scope: &Scope<'s>) -> Estimate<'s> {
    let known = |cost: u64, shape: Shape<'s>| Estimate { cost, shape };
    match &node.expr {
        Expr::Literal(literal) => known(
            0,
            Shape::sized(match literal {
                LiteralValue::String(text) => text.inner().chars().count() as u64,
                LiteralValue::Bytes(bytes) => bytes.inner().len() as u64,
                _ => 1,
            }),
        ),
        Expr::Ident(name) => known(1, scope.get(name).copied().unwrap_or_else(|| Shape::sized(ENDLESS))),
        Expr::Select(select) => {
            let operand = walk(&select.operand, scope);
            let mut properties = operand.shape.schema.into_iter().flat_map(|schema| &schema.properties);
            let property = properties
                .find(|property| values::escape(property.0).as_deref() == Some(select.field.as_str()));
            let shape = match property {
                Some((_, child)) if select.field != "metadata" => Shape::of(child),
                // Fields that every resource has are strings of unbounded length.
                _ if matches!(
                    select.field.as_str(),
                    "metadata" | "name" | "generateName" | "kind" | "apiVersion"
                ) =>
                {
                    Shape::sized(MAX_REQUEST - 2)
                }
                _ => operand.shape.element(),
            };
            if select.test {
                known(operand.cost, Shape::sized(1))
            } else {
                known(operand.cost.saturating_add(1), shape)
            }
        }
        Expr::List(list) => {
            let items: Vec<Estimate<'s>> = list.elements.iter().map(|item| walk(item, scope)).collect();
            let cost = items.iter().fold(10u64, |sum, item| sum.saturating_add(item.cost));
            let item = items.iter().map(|item| item.shape.size).max().unwrap_or_default();
            known(cost, Shape { size: items.len() as u64, schema: None, item, is_list: true })
        }
        Expr::Map(map) => {
            let (mut cost, mut item) = (30u64, 0);
            for entry in &map.entries {
                if let EntryExpr::MapEntry(entry) = &entry.expr {
                    let value = walk(&entry.value, scope);
                    cost = cost.saturating_add(walk(&entry.key, scope).cost).saturating_add(value.cost);
                    item = value.shape.size.max(item);
                }
            }
            known(cost, Shape { item, ..Shape::sized(map.entries.len() as u64) })
        }
        Expr::Comprehension(loops) => {
            let range = walk(&loops.iter_range, scope);
            let init = walk(&loops.accu_init, scope);
            let mut inner = scope.clone();
            inner.insert(loops.accu_var.clone(), init.shape);
            let is_binding = matches!(&loops.loop_cond.expr, Expr::Literal(LiteralValue::Boolean(going)) if !*going.inner());
            if is_binding {
                let result = walk(&loops.result, &inner);
                return known(range.cost.saturating_add(init.cost).saturating_add(result.cost), result.shape);
            }
            inner.insert(loops.iter_var.clone(), range.shape.iterated());
            let step = walk(&loops.loop_step, &inner);
            let once = walk(&loops.loop_cond, &inner).cost.saturating_add(step.cost);
            inner.remove(&loops.iter_var);
            let result = walk(&loops.result, &inner);
            let shape = match &loops.accu_init.expr {
                Expr::List(_) => Shape { size: range.shape.size, schema: None, item: ENDLESS, is_list: true },
                _ => Shape::sized(1),
            };
            let fixed = range.cost.saturating_add(init.cost).saturating_add(result.cost);
            known(fixed.saturating_add(once.saturating_mul(range.shape.size)), shape)
        }
        Expr::Call(call) => self::call(call, scope),
        Expr::Struct(_) | Expr::Unspecified => known(1, Shape::sized(ENDLESS)),
    }
}

fn call<'s>(call: &CallExpr, scope: &Scope<'s>) -> Estimate<'s> {
    // `sets.contains(...)`: the name of a library is not an operand.
    let library = call.target.as_deref().and_then(|target| match &target.expr {
        Expr::Ident(name) if !scope.contains_key(name) => Some(name.as_str()),
        _ => None,
    });
    let target = call.target.as_deref().filter(|_| library.is_none());
    let inputs: Vec<Estimate<'s>> =
        target.into_iter().chain(&call.args).map(|input| walk(input, scope)).collect();
    let spent = inputs.iter().fold(0u64, |sum, input| sum.saturating_add(input.cost));
    let size = |at: usize| inputs.get(at).map_or(0, |input| input.shape.size);
    let scalar = Shape::sized(1);
    let (own, shape) = match call.func_name.as_str() {
        _ if library == Some("sets") => (size(0).saturating_mul(size(1)), scalar),
        _ if library.is_some() => (1, scalar),
        operators::LOGICAL_AND | operators::LOGICAL_OR => (0, scalar),
        operators::CONDITIONAL => {
            let branches = inputs.iter().skip(1).map(|input| input.cost);
            let cost = inputs.first().map_or(0, |input| input.cost);
            let cost = cost.saturating_add(branches.max().unwrap_or_default());
            let shape = inputs.iter().skip(1).map(|input| input.shape).reduce(Shape::either);
            return Estimate { cost, shape: shape.unwrap_or(scalar) };
        }
        operators::EQUALS | operators::NOT_EQUALS => (scaled(size(0).min(size(1)), 0.1), scalar),
        operators::LESS | operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS => {
            let texts = !inputs.iter().any(|input| is_number(input.shape));
            (if texts { scaled(size(0).min(size(1)), 0.1) } else { 1 }, scalar)
        }
        operators::ADD => {
            let both = size(0).saturating_add(size(1));
            let lists = inputs.iter().any(|input| input.shape.is_list);
            let numbers = inputs.iter().any(|input| is_number(input.shape));
            let shape = Shape { size: both, schema: None, item: ENDLESS, is_list: lists };
            if lists {
                (1, shape)
            } else if numbers {
                (1, scalar)
            } else {
                (scaled(both, 0.1), shape)
            }
        }
        operators::IN => (size(1), scalar),
        operators::INDEX | operators::OPT_INDEX => {
            let element = inputs.first().map_or_else(|| Shape::sized(ENDLESS), |input| input.shape.element());
            (1, element)
        }
        "startsWith" | "endsWith" => (scaled(size(1), 0.1), scalar),
        "contains" => (scaled(size(0), 0.1).saturating_mul(scaled(size(1), 0.1)), scalar),
        "matches" | "find" | "findAll" => {
            let cost = scaled(size(0).saturating_add(1), 0.1).saturating_mul(scaled(size(1), 0.25));
            (cost, Shape::sized(size(0)))
        }
        "lowerAscii" | "upperAscii" | "substring" | "trim" | "url" => {
            (scaled(size(0), 0.1), Shape::sized(size(0)))
        }
        "replace" => (scaled(size(0), 0.2), Shape::sized(size(0).saturating_mul(size(2).max(1)))),
        "split" => (scaled(size(0), 0.2), Shape { is_list: true, ..Shape::sized(size(0)) }),
        "join" => {
            let item = inputs.first().map_or(ENDLESS, |input| input.shape.element().size);
            let text = size(0).saturating_mul(item).saturating_add(size(0).saturating_mul(size(1)));
            (scaled(text, 0.1), Shape::sized(text))
        }
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
            let each = inputs.first().map_or(0, |input| scaled(input.shape.element().size, 0.1));
            (size(0).saturating_mul(each.saturating_add(1)), scalar)
        }
        "quantity" | "isQuantity" | "semver" | "isSemver" | "cidr" | "ip" | "isIP" | "isCIDR" => {
            (scaled(size(0), 0.1), scalar)
        }
        "validate" => (scaled(scaled(size(1), 0.1), FORMAT_REGEX * 0.25), scalar),
        "string" | "format" | "bytes" => (1, Shape::sized(ENDLESS)),
        "dyn" | "orValue" | "value" | "or" | "reverse" | "distinct" | "sort" | "slice" => {
            (1, inputs.first().map_or(scalar, |input| input.shape))
        }
        _ => (1, scalar),
    };
    Estimate { cost: spent.saturating_add(own), shape }
}

fn is_number(shape: Shape<'_>) -> bool {
    match shape.schema {
        Some(schema) => matches!(schema.ty.as_ref(), "integer" | "number"),
        None => false,
    }
}
