//! Static cost estimate of a CEL rule, as Kubernetes computes it when a CRD is written.
//!
//! The estimate uses the maximum sizes in the schema (`maxItems`, `maxLength`, `maxProperties`, or else the request size limit), so that
//! rules over unbounded lists are refused as in Kubernetes. Unknown sizes count as unbounded.

use std::collections::BTreeMap;

use kube_cel::cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators};

use super::{Expression, values};
use crate::crd::schema::{AdditionalProperties, StructuralSchema};

const MAX_REQUEST_BYTES: u64 = 3 * 1024 * 1024;
const UNBOUNDED: u64 = u64::MAX;
/// The length of the longest regular expression of a named format.
const FORMAT_REGEX_LEN: f64 = 128.0;

/// Maximum cost of one evaluation of a rule on this schema.
pub fn estimate(expression: &Expression, schema: &StructuralSchema) -> u64 {
    let this = SizeEstimate::from_schema(schema);
    let mut scope = CostScope::new();
    scope.insert("self".to_owned(), this);
    scope.insert("oldSelf".to_owned(), this);
    walk(expression.root(), &scope).cost
}

/// Maximum number of values of this schema in one request.
pub fn max_occurrences(schema: &StructuralSchema) -> u64 {
    MAX_REQUEST_BYTES / (min_bytes(schema) + 1)
}

type CostScope<'s> = BTreeMap<String, SizeEstimate<'s>>;

/// Estimated properties of a value: its maximum size, and its schema if it comes from the object.
#[derive(Clone, Copy)]
struct SizeEstimate<'s> {
    size: u64,
    schema: Option<&'s StructuralSchema>,
    /// Maximum size of an element, if there is no schema.
    item: u64,
    is_list: bool,
}

impl<'s> SizeEstimate<'s> {
    fn with_size(size: u64) -> Self {
        Self { size, schema: None, item: UNBOUNDED, is_list: false }
    }

    fn from_schema(schema: &'s StructuralSchema) -> Self {
        Self {
            size: max_size(schema),
            schema: Some(schema),
            item: UNBOUNDED,
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
            AdditionalProperties::Schema(values) => Some(values.as_ref()),
            _ => schema.items.as_deref(),
        });
        below.map_or_else(|| Self::with_size(self.item), SizeEstimate::from_schema)
    }

    /// Returns the estimate of a loop variable: list elements or map keys.
    fn loop_variable(&self) -> Self {
        match self.schema {
            Some(schema) if matches!(schema.additional, AdditionalProperties::Schema(_)) => {
                Self::with_size(0)
            }
            _ => self.element(),
        }
    }
}

/// Maximum number of elements, characters or entries.
fn max_size(schema: &StructuralSchema) -> u64 {
    let given = |bound: Option<i64>| bound.map(|bound| u64::try_from(bound).unwrap_or_default());
    let checks = &schema.validations;
    let text = given(checks.max_length).map(|length| length.saturating_mul(4));
    if schema.int_or_string {
        return text.unwrap_or(MAX_REQUEST_BYTES - 2);
    }
    match (schema.ty.as_ref(), schema.format.as_ref()) {
        ("string", "date") => 12,
        ("string", "duration" | "date-time") => 32,
        ("string", "byte") => given(checks.max_length).unwrap_or(MAX_REQUEST_BYTES - 2),
        ("string", _) => text.unwrap_or_else(|| {
            let words = checks.enum_values.iter().filter_map(|word| word.as_str());
            words.map(|word| word.len() as u64).max().unwrap_or(MAX_REQUEST_BYTES - 2)
        }),
        ("array", _) => given(checks.max_items).unwrap_or_else(|| {
            let item = schema.items.as_deref().map_or(2, min_bytes);
            (MAX_REQUEST_BYTES - 2) / (item + 1)
        }),
        ("object", _) => match &schema.additional {
            AdditionalProperties::Schema(values) => given(checks.max_properties)
                .unwrap_or_else(|| (MAX_REQUEST_BYTES - 2) / (min_bytes(values) + 6)),
            _ => 0,
        },
        _ => 0,
    }
}

/// Minimum size of a value as JSON, in bytes.
fn min_bytes(schema: &StructuralSchema) -> u64 {
    if schema.int_or_string {
        return 1;
    }
    match (schema.ty.as_ref(), schema.format.as_ref()) {
        ("string", "duration") => 3,
        ("string", "date") => 12,
        ("string", "date-time") => 21,
        ("boolean", _) => 4,
        ("integer" | "number", _) => 1,
        ("object", _) if matches!(schema.additional, AdditionalProperties::Unset) => {
            let needed = schema.properties.iter().filter(|(name, child)| {
                schema.validations.required.contains(name) && child.default.is_none()
            });
            needed.map(|(name, child)| name.len() as u64 + min_bytes(child) + 4).sum::<u64>() + 2
        }
        _ => 2,
    }
}

struct CostEstimate<'s> {
    cost: u64,
    shape: SizeEstimate<'s>,
}

fn scaled(size: u64, factor: f64) -> u64 {
    if size == UNBOUNDED {
        return UNBOUNDED;
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

fn walk<'s>(node: &IdedExpr, scope: &CostScope<'s>) -> CostEstimate<'s> {
    let known = |cost: u64, shape: SizeEstimate<'s>| CostEstimate { cost, shape };
    match &node.expr {
        Expr::Literal(literal) => known(
            0,
            SizeEstimate::with_size(match literal {
                LiteralValue::String(text) => text.inner().chars().count() as u64,
                LiteralValue::Bytes(bytes) => bytes.inner().len() as u64,
                _ => 1,
            }),
        ),
        Expr::Ident(name) => {
            known(1, scope.get(name).copied().unwrap_or_else(|| SizeEstimate::with_size(UNBOUNDED)))
        }
        Expr::Select(select) => {
            let operand = walk(&select.operand, scope);
            let mut properties = operand.shape.schema.into_iter().flat_map(|schema| &schema.properties);
            let property = properties
                .find(|property| values::escape(property.0).as_deref() == Some(select.field.as_str()));
            let shape = match property {
                Some((_, child)) if select.field != "metadata" => SizeEstimate::from_schema(child),
                // Fields that every resource has are strings of unbounded length.
                _ if matches!(
                    select.field.as_str(),
                    "metadata" | "name" | "generateName" | "kind" | "apiVersion"
                ) =>
                {
                    SizeEstimate::with_size(MAX_REQUEST_BYTES - 2)
                }
                _ => operand.shape.element(),
            };
            if select.test {
                known(operand.cost, SizeEstimate::with_size(1))
            } else {
                known(operand.cost.saturating_add(1), shape)
            }
        }
        Expr::List(list) => {
            let items: Vec<CostEstimate<'s>> = list.elements.iter().map(|item| walk(item, scope)).collect();
            let cost = items.iter().fold(10u64, |sum, item| sum.saturating_add(item.cost));
            let item = items.iter().map(|item| item.shape.size).max().unwrap_or_default();
            known(cost, SizeEstimate { size: items.len() as u64, schema: None, item, is_list: true })
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
            known(cost, SizeEstimate { item, ..SizeEstimate::with_size(map.entries.len() as u64) })
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
            inner.insert(loops.iter_var.clone(), range.shape.loop_variable());
            let step = walk(&loops.loop_step, &inner);
            let once = walk(&loops.loop_cond, &inner).cost.saturating_add(step.cost);
            inner.remove(&loops.iter_var);
            let result = walk(&loops.result, &inner);
            let shape = match &loops.accu_init.expr {
                Expr::List(_) => {
                    SizeEstimate { size: range.shape.size, schema: None, item: UNBOUNDED, is_list: true }
                }
                _ => SizeEstimate::with_size(1),
            };
            let fixed = range.cost.saturating_add(init.cost).saturating_add(result.cost);
            known(fixed.saturating_add(once.saturating_mul(range.shape.size)), shape)
        }
        Expr::Call(call) => self::call(call, scope),
        Expr::Struct(_) | Expr::Unspecified => known(1, SizeEstimate::with_size(UNBOUNDED)),
    }
}

fn call<'s>(call: &CallExpr, scope: &CostScope<'s>) -> CostEstimate<'s> {
    // `sets.contains(...)`: the name of a library is not an operand.
    let library = call.target.as_deref().and_then(|target| match &target.expr {
        Expr::Ident(name) if !scope.contains_key(name) => Some(name.as_str()),
        _ => None,
    });
    let target = call.target.as_deref().filter(|_| library.is_none());
    let inputs: Vec<CostEstimate<'s>> =
        target.into_iter().chain(&call.args).map(|input| walk(input, scope)).collect();
    let spent = inputs.iter().fold(0u64, |sum, input| sum.saturating_add(input.cost));
    let size = |at: usize| inputs.get(at).map_or(0, |input| input.shape.size);
    let scalar = SizeEstimate::with_size(1);
    let (own, shape) = match call.func_name.as_str() {
        _ if library == Some("sets") => (size(0).saturating_mul(size(1)), scalar),
        _ if library.is_some() => (1, scalar),
        operators::LOGICAL_AND | operators::LOGICAL_OR => (0, scalar),
        operators::CONDITIONAL => {
            let branches = inputs.iter().skip(1).map(|input| input.cost);
            let cost = inputs.first().map_or(0, |input| input.cost);
            let cost = cost.saturating_add(branches.max().unwrap_or_default());
            let shape = inputs.iter().skip(1).map(|input| input.shape).reduce(SizeEstimate::either);
            return CostEstimate { cost, shape: shape.unwrap_or(scalar) };
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
            let shape = SizeEstimate { size: both, schema: None, item: UNBOUNDED, is_list: lists };
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
            let element = inputs
                .first()
                .map_or_else(|| SizeEstimate::with_size(UNBOUNDED), |input| input.shape.element());
            (1, element)
        }
        "startsWith" | "endsWith" => (scaled(size(1), 0.1), scalar),
        "contains" => (scaled(size(0), 0.1).saturating_mul(scaled(size(1), 0.1)), scalar),
        "matches" | "find" | "findAll" => {
            let cost = scaled(size(0).saturating_add(1), 0.1).saturating_mul(scaled(size(1), 0.25));
            (cost, SizeEstimate::with_size(size(0)))
        }
        "lowerAscii" | "upperAscii" | "substring" | "trim" | "url" => {
            (scaled(size(0), 0.1), SizeEstimate::with_size(size(0)))
        }
        "replace" => (scaled(size(0), 0.2), SizeEstimate::with_size(size(0).saturating_mul(size(2).max(1)))),
        "split" => (scaled(size(0), 0.2), SizeEstimate { is_list: true, ..SizeEstimate::with_size(size(0)) }),
        "join" => {
            let item = inputs.first().map_or(UNBOUNDED, |input| input.shape.element().size);
            let text = size(0).saturating_mul(item).saturating_add(size(0).saturating_mul(size(1)));
            (scaled(text, 0.1), SizeEstimate::with_size(text))
        }
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
            let each = inputs.first().map_or(0, |input| scaled(input.shape.element().size, 0.1));
            (size(0).saturating_mul(each.saturating_add(1)), scalar)
        }
        "quantity" | "isQuantity" | "semver" | "isSemver" | "cidr" | "ip" | "isIP" | "isCIDR" => {
            (scaled(size(0), 0.1), scalar)
        }
        "validate" => (scaled(scaled(size(1), 0.1), FORMAT_REGEX_LEN * 0.25), scalar),
        "string" | "format" | "bytes" => (1, SizeEstimate::with_size(UNBOUNDED)),
        "dyn" | "orValue" | "value" | "or" | "reverse" | "distinct" | "sort" | "slice" => {
            (1, inputs.first().map_or(scalar, |input| input.shape))
        }
        _ => (1, scalar),
    };
    CostEstimate { cost: spent.saturating_add(own), shape }
}

fn is_number(shape: SizeEstimate<'_>) -> bool {
    match shape.schema {
        Some(schema) => matches!(schema.ty.as_ref(), "integer" | "number"),
        None => false,
    }
}
