//! Static type check of CEL expressions, as when a rule is written.
//!
//! Covers fields of schemas, operators, and names and results of functions; arguments are checked for some functions only. Unknown types
//! are [`CelType::Dyn`] and cause no errors.

use std::collections::BTreeMap;

use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators,
};

use super::{Expression, format_error, values};
use crate::crd::pattern;
use crate::crd::schema::{AdditionalProperties, StructuralSchema};

/// The type of an expression.
#[derive(Clone, Debug)]
pub enum CelType<'s> {
    Dyn,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    Null,
    /// An object of a schema; `true` if it is a resource with its own metadata.
    Object(&'s StructuralSchema, bool),
    /// `metadata` of a resource: name and `generateName`.
    Meta,
    List(Box<CelType<'s>>),
    /// A map with string keys.
    Map(Box<CelType<'s>>),
    Optional(Box<CelType<'s>>),
    /// A library type: `kubernetes.Quantity`.
    Opaque(&'static str),
}

impl<'s> CelType<'s> {
    /// Returns the type of a schema; `None` if expressions cannot access it.
    pub fn from_schema(schema: &'s StructuralSchema, resource: bool) -> Option<Self> {
        if schema.int_or_string {
            return Some(Self::Dyn);
        }
        Some(match schema.ty.as_ref() {
            "string" => match schema.format.as_ref() {
                "byte" => Self::Bytes,
                "duration" => Self::Duration,
                "date" | "date-time" => Self::Timestamp,
                _ => Self::String,
            },
            "boolean" => Self::Bool,
            "integer" => Self::Int,
            "number" => Self::Double,
            "array" => Self::List(Box::new(Self::from_schema(schema.items.as_ref()?, false)?)),
            "object" => match &schema.additional {
                AdditionalProperties::Schema(values) => {
                    Self::Map(Box::new(Self::from_schema(values, values.embedded)?))
                }
                AdditionalProperties::Any(_) => return None,
                AdditionalProperties::Unset => Self::Object(schema, resource || schema.embedded),
            },
            _ => return None,
        })
    }

    /// Formats the type for errors.
    pub fn name(&self) -> String {
        match self {
            Self::Dyn => "dyn".to_owned(),
            Self::Bool => "bool".to_owned(),
            Self::Int => "int".to_owned(),
            Self::Uint => "uint".to_owned(),
            Self::Double => "double".to_owned(),
            Self::String => "string".to_owned(),
            Self::Bytes => "bytes".to_owned(),
            Self::Timestamp => "timestamp".to_owned(),
            Self::Duration => "duration".to_owned(),
            Self::Null => "null".to_owned(),
            Self::Object(..) | Self::Meta => "object".to_owned(),
            Self::List(item) => format!("list({})", item.name()),
            Self::Map(value) => format!("map(string, {})", value.name()),
            Self::Optional(inner) => format!("optional_type({})", inner.name()),
            Self::Opaque(name) => (*name).to_owned(),
        }
    }

    fn is_number(&self) -> bool {
        matches!(self, Self::Int | Self::Uint | Self::Double)
    }

    /// Whether values of the two types can be compared with `==`.
    fn is_comparable_to(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Dyn, _) | (_, Self::Dyn) => true,
            (Self::Null, other) | (other, Self::Null) => {
                !other.is_number() && !matches!(other, Self::Bool | Self::String | Self::Bytes)
                    || matches!(other, Self::Null)
            }
            (Self::List(a), Self::List(b))
            | (Self::Map(a), Self::Map(b))
            | (Self::Optional(a), Self::Optional(b)) => a.is_comparable_to(b),
            (Self::Map(_), Self::Object(..)) | (Self::Object(..), Self::Map(_)) => false,
            (Self::Opaque(a), Self::Opaque(b)) => a == b,
            (a, b) => std::mem::discriminant(a) == std::mem::discriminant(b),
        }
    }

    /// Returns the type of a field.
    fn field(&self, name: &str) -> FieldLookup<'s> {
        match self {
            Self::Dyn => FieldLookup::Found(Self::Dyn),
            Self::Map(value) => FieldLookup::Found((**value).clone()),
            Self::Meta => match name {
                "name" | "generateName" => FieldLookup::Found(Self::String),
                _ => FieldLookup::Undefined,
            },
            Self::Object(schema, resource) => {
                if *resource {
                    match name {
                        "apiVersion" | "kind" => return FieldLookup::Found(Self::String),
                        "metadata" => return FieldLookup::Found(Self::Meta),
                        _ => {}
                    }
                }
                let mut properties = schema.properties.iter();
                let found = properties.find(|property| values::escape(property.0).as_deref() == Some(name));
                match found.and_then(|(_, child)| Self::from_schema(child, child.embedded)) {
                    Some(ty) => FieldLookup::Found(ty),
                    None => FieldLookup::Undefined,
                }
            }
            Self::Optional(inner) => match inner.field(name) {
                FieldLookup::Found(ty) => FieldLookup::Found(Self::Optional(Box::new(ty))),
                other => other,
            },
            _ => FieldLookup::NotSelectable,
        }
    }
}

enum FieldLookup<'s> {
    Found(CelType<'s>),
    Undefined,
    /// The type has no fields.
    NotSelectable,
}

/// Returns the type of an expression with these variables, or the errors in the format of Kubernetes.
pub fn check<'s>(
    expression: &Expression,
    variables: impl IntoIterator<Item = (&'static str, CelType<'s>)>,
) -> Result<CelType<'s>, String> {
    let variables = variables.into_iter().map(|(name, ty)| (name.to_owned(), ty)).collect();
    let mut checker = TypeChecker { source: &expression.source, search_offset: 0, errors: Vec::new() };
    let ty = checker.node(expression.root(), &variables);
    if checker.errors.is_empty() { Ok(ty) } else { Err(checker.errors.join("\n")) }
}

type Variables<'s> = BTreeMap<String, CelType<'s>>;

struct TypeChecker<'e> {
    source: &'e str,
    /// The parser keeps no positions, so that errors are located by searching onwards from here.
    search_offset: usize,
    errors: Vec<String>,
}

impl TypeChecker<'_> {
    fn report<'s>(&mut self, needle: &str, text: &str) -> CelType<'s> {
        let from = self.search_offset.min(self.source.len());
        let onwards = self.source.get(from..).and_then(|rest| rest.find(needle)).map(|at| at + from);
        let at = onwards.or_else(|| self.source.find(needle)).unwrap_or_default();
        self.errors.push(format_error(self.source, at, text));
        CelType::Dyn
    }

    /// Adds an error of a call, located at its opening bracket.
    fn report_at_call<'s>(&mut self, name: &str, text: &str) -> CelType<'s> {
        let from = self.search_offset.min(self.source.len());
        let called = format!("{name}(");
        let onwards = self.source.get(from..).and_then(|rest| rest.find(&called)).map(|at| at + from);
        let at = onwards.or_else(|| self.source.find(&called)).unwrap_or_default();
        self.errors.push(format_error(self.source, at + name.len(), text));
        CelType::Dyn
    }

    /// Moves the search past a name that was just checked.
    fn advance_past(&mut self, needle: &str) {
        if let Some(at) = self.source.get(self.search_offset..).and_then(|rest| rest.find(needle)) {
            self.search_offset += at;
        }
    }

    fn node<'s>(&mut self, node: &IdedExpr, variables: &Variables<'s>) -> CelType<'s> {
        match &node.expr {
            Expr::Literal(literal) => match literal {
                LiteralValue::Boolean(_) => CelType::Bool,
                LiteralValue::Bytes(_) => CelType::Bytes,
                LiteralValue::Double(_) => CelType::Double,
                LiteralValue::Int(_) => CelType::Int,
                LiteralValue::Null => CelType::Null,
                LiteralValue::String(_) => CelType::String,
                LiteralValue::UInt(_) => CelType::Uint,
            },
            Expr::Ident(name) => match variables.get(name) {
                Some(ty) => ty.clone(),
                None if TYPE_NAMES.contains(&name.as_str()) => CelType::Dyn,
                None => {
                    let text = format!("undeclared reference to '{name}' (in container '')");
                    self.report(name, &text)
                }
            },
            Expr::Select(select) => {
                let operand = self.node(&select.operand, variables);
                let dotted = format!(".{}", select.field);
                self.advance_past(&dotted);
                let ty = match operand.field(&select.field) {
                    FieldLookup::Found(ty) => ty,
                    FieldLookup::Undefined if select.test => {
                        self.report_at_call("has", &format!("undefined field '{}'", select.field))
                    }
                    FieldLookup::Undefined => {
                        self.report(&dotted, &format!("undefined field '{}'", select.field))
                    }
                    FieldLookup::NotSelectable => self.report(
                        &dotted,
                        &format!("type '{}' does not support field selection", operand.name()),
                    ),
                };
                if select.test { CelType::Bool } else { ty }
            }
            Expr::List(list) => {
                let mut item = None;
                for element in &list.elements {
                    let ty = self.node(element, variables);
                    item = Some(match item {
                        None => ty,
                        Some(before) if ty.is_comparable_to(&before) => before,
                        Some(_) => CelType::Dyn,
                    });
                }
                CelType::List(Box::new(item.unwrap_or(CelType::Dyn)))
            }
            Expr::Map(map) => {
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        self.node(&entry.key, variables);
                        self.node(&entry.value, variables);
                    }
                }
                CelType::Dyn
            }
            Expr::Comprehension(loops) => self.comprehension(loops, variables),
            Expr::Call(call) => self.call(call, variables),
            Expr::Struct(_) | Expr::Unspecified => CelType::Dyn,
        }
    }

    fn comprehension<'s>(&mut self, loops: &ComprehensionExpr, variables: &Variables<'s>) -> CelType<'s> {
        let item = match self.node(&loops.iter_range, variables) {
            CelType::List(item) => *item,
            CelType::Map(_) => CelType::String,
            CelType::Dyn => CelType::Dyn,
            other => {
                let text = format!(
                    "expression of type '{}' cannot be range of a comprehension (must be list, map, or dynamic)",
                    other.name()
                );
                self.report(".", &text)
            }
        };
        let mut inner = variables.clone();
        inner.insert(loops.iter_var.clone(), item);
        if let Some(second) = &loops.iter_var2 {
            inner.insert(second.clone(), CelType::Dyn);
        }
        let init = self.node(&loops.accu_init, variables);
        let empty = matches!(&loops.accu_init.expr, Expr::List(list) if list.elements.is_empty());
        inner.insert(loops.accu_var.clone(), init.clone());
        let step = self.node(&loops.loop_step, &inner);
        if empty && matches!(step, CelType::List(_)) {
            inner.insert(loops.accu_var.clone(), step);
        }
        inner.remove(&loops.iter_var);
        self.node(&loops.result, &inner)
    }

    fn call<'s>(&mut self, call: &CallExpr, variables: &Variables<'s>) -> CelType<'s> {
        // `math.greatest(...)`, `format.dns1123Label()`, `optional.of(...)`: the name of a library is not a variable.
        if let Some(target) = &call.target
            && let Expr::Ident(library) = &target.expr
            && !variables.contains_key(library)
        {
            let name = format!("{library}.{}", call.func_name);
            for argument in &call.args {
                self.node(argument, variables);
            }
            if let Some((_, result)) = QUALIFIED_FUNCTIONS.iter().find(|(known, _)| *known == name) {
                return result.ty();
            }
        }
        let mut types = Vec::new();
        if let Some(target) = &call.target {
            types.push(self.node(target, variables));
            self.advance_past(&format!(".{}", call.func_name));
        }
        types.extend(call.args.iter().map(|argument| self.node(argument, variables)));
        match (call.func_name.as_str(), types.as_slice()) {
            (operators::CONDITIONAL, [condition, yes, no]) => {
                if !condition.is_comparable_to(&CelType::Bool) || !yes.is_comparable_to(no) {
                    return self.no_overload(call, &types);
                }
                if matches!(yes, CelType::Dyn) { no.clone() } else { yes.clone() }
            }
            (name, [a, b]) if SYMBOLS.iter().any(|(known, _)| *known == name) => {
                match binary_result(name, a, b) {
                    Some(ty) => ty,
                    None => self.no_overload(call, &types),
                }
            }
            (operators::LOGICAL_NOT, [a]) if a.is_comparable_to(&CelType::Bool) => CelType::Bool,
            (
                operators::NEGATE,
                [a @ (CelType::Int | CelType::Double | CelType::Dyn | CelType::Duration)],
            ) => a.clone(),
            (operators::LOGICAL_NOT | operators::NEGATE, _) => self.no_overload(call, &types),
            (operators::NOT_STRICTLY_FALSE, _) => CelType::Bool,
            (operators::OPT_INDEX, [container, _]) => {
                let inner = match (container, call.args.get(1).map(|key| &key.expr)) {
                    (CelType::List(item), _) => (**item).clone(),
                    (container, Some(Expr::Literal(LiteralValue::String(name)))) => {
                        match container.field(name.inner()) {
                            FieldLookup::Found(CelType::Optional(inner)) => *inner,
                            FieldLookup::Found(ty) => ty,
                            FieldLookup::Undefined => {
                                let text = format!("undefined field '{}'", name.inner());
                                self.report(name.inner(), &text)
                            }
                            FieldLookup::NotSelectable => CelType::Dyn,
                        }
                    }
                    _ => CelType::Dyn,
                };
                CelType::Optional(Box::new(inner))
            }
            (name, types) => match FUNCTIONS.iter().find(|(known, _)| *known == name) {
                Some(_) if !accepts(name, types, call.target.is_some()) => {
                    let mut names: Vec<String> = types.iter().map(CelType::name).collect();
                    let target = match call.target {
                        Some(_) => format!("{}.", names.remove(0)),
                        None => String::new(),
                    };
                    let text = format!(
                        "found no matching overload for '{name}' applied to '{target}({})'",
                        names.join(", ")
                    );
                    self.report_at_call(name, &text)
                }
                Some((_, result)) => {
                    if name == "matches"
                        && let Some(Expr::Literal(LiteralValue::String(text))) =
                            call.args.last().map(|last| &last.expr)
                        && pattern::compile(text.inner()).is_err()
                    {
                        self.report(&format!("'{}'", text.inner()), "invalid matches argument");
                    }
                    result.resolve(types)
                }
                None => {
                    let text = format!("undeclared reference to '{name}' (in container '')");
                    self.report_at_call(name, &text)
                }
            },
        }
    }

    fn no_overload<'s>(&mut self, call: &CallExpr, types: &[CelType<'_>]) -> CelType<'s> {
        let names: Vec<String> = types.iter().map(CelType::name).collect();
        let shown = if call.func_name == operators::IN { "@in" } else { call.func_name.as_str() };
        let text = format!("found no matching overload for '{shown}' applied to '({})'", names.join(", "));
        match call.func_name.as_str() {
            operators::IN => self.report("in ", &text),
            operators::CONDITIONAL => {
                self.search_offset = 0;
                self.report("?", &text)
            }
            operators::LOGICAL_NOT | operators::NEGATE => {
                self.search_offset = 0;
                self.report(&call.func_name[..1], &text)
            }
            name => {
                let symbol =
                    SYMBOLS.iter().find(|(known, _)| *known == name).map_or("", |(_, symbol)| symbol);
                self.report(symbol, &text)
            }
        }
    }
}

/// Whether a function accepts arguments of these types; unknown functions accept all.
fn accepts(name: &str, types: &[CelType<'_>], is_method: bool) -> bool {
    let is = |at: usize, wanted: CelType<'_>| types.get(at).is_some_and(|ty| ty.is_comparable_to(&wanted));
    match name {
        "contains" | "startsWith" | "endsWith" | "matches" | "find" => {
            types.len() == 2
                && is(0, CelType::String)
                && is(1, CelType::String)
                && (is_method || name == "matches")
        }
        "lowerAscii" | "upperAscii" | "trim" => types.len() == 1 && is(0, CelType::String),
        "split" | "replace" | "findAll" => {
            types.len() > 1 && is(0, CelType::String) && is(1, CelType::String)
        }
        "charAt" => types.len() == 2 && is(0, CelType::String) && is(1, CelType::Int),
        "quantity" | "isQuantity" | "url" | "isURL" | "isIP" | "cidr" | "isCIDR" => {
            types.len() == 1 && is(0, CelType::String)
        }
        "size" => {
            let sized = |ty: &CelType<'_>| {
                matches!(
                    ty,
                    CelType::Dyn | CelType::String | CelType::Bytes | CelType::List(_) | CelType::Map(_)
                )
            };
            types.len() == 1 && types.iter().all(sized)
        }
        "sort" => {
            !matches!(types, [CelType::List(item)] if matches!(**item, CelType::Object(..) | CelType::List(_) | CelType::Map(_)))
        }
        _ => true,
    }
}

/// Returns the result type of an operator; `None` if the types do not fit.
fn binary_result<'s>(operator: &str, a: &CelType<'s>, b: &CelType<'s>) -> Option<CelType<'s>> {
    use CelType::{Bool, Bytes, Double, Duration, Dyn, Int, List, Map, String, Timestamp, Uint};
    let known = !matches!(a, Dyn) && !matches!(b, Dyn);
    Some(match operator {
        operators::LOGICAL_AND | operators::LOGICAL_OR => {
            if !a.is_comparable_to(&Bool) || !b.is_comparable_to(&Bool) {
                return None;
            }
            Bool
        }
        operators::EQUALS | operators::NOT_EQUALS => {
            if !a.is_comparable_to(b) {
                return None;
            }
            Bool
        }
        operators::LESS | operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS => {
            let comparable = matches!(a, Bool | String | Bytes | Timestamp | Duration);
            if known && !(a.is_number() && b.is_number()) && !(comparable && a.is_comparable_to(b)) {
                return None;
            }
            Bool
        }
        operators::IN => match b {
            Dyn => Bool,
            List(item) if a.is_comparable_to(item) => Bool,
            Map(_) if a.is_comparable_to(&String) => Bool,
            _ => return None,
        },
        operators::INDEX => match (a, b) {
            (Dyn | CelType::Optional(_), _) => Dyn,
            (List(item), Int | Dyn) => (**item).clone(),
            (Map(value), String | Dyn) => (**value).clone(),
            _ => return None,
        },
        _ if !known => Dyn,
        operators::ADD => match (a, b) {
            (Timestamp, Duration) | (Duration, Timestamp) => Timestamp,
            (List(_), List(_)) => {
                if matches!(a, List(item) if matches!(**item, Dyn)) {
                    b.clone()
                } else {
                    a.clone()
                }
            }
            (Int | Uint | Double | String | Bytes | Duration, _) if a.is_comparable_to(b) => a.clone(),
            _ => return None,
        },
        operators::SUBSTRACT => match (a, b) {
            (Timestamp, Timestamp) => Duration,
            (Timestamp, Duration) => Timestamp,
            (Int | Uint | Double | Duration, _) if a.is_comparable_to(b) => a.clone(),
            _ => return None,
        },
        operators::MODULO => match (a, b) {
            (Int, Int) | (Uint, Uint) => a.clone(),
            _ => return None,
        },
        _ => match (a, b) {
            (Int | Uint | Double, _) if a.is_comparable_to(b) => a.clone(),
            _ => return None,
        },
    })
}

const SYMBOLS: &[(&str, &str)] = &[
    (operators::LOGICAL_AND, "&&"),
    (operators::LOGICAL_OR, "||"),
    (operators::EQUALS, "=="),
    (operators::NOT_EQUALS, "!="),
    (operators::LESS_EQUALS, "<="),
    (operators::GREATER_EQUALS, ">="),
    (operators::LESS, "<"),
    (operators::GREATER, ">"),
    (operators::ADD, "+"),
    (operators::SUBSTRACT, "-"),
    (operators::MULTIPLY, "*"),
    (operators::DIVIDE, "/"),
    (operators::MODULO, "%"),
    (operators::IN, " in "),
    (operators::INDEX, "["),
];

/// Type names are values, too: `type(x) == string`.
const TYPE_NAMES: &[&str] =
    &["int", "uint", "double", "string", "bytes", "bool", "list", "map", "null_type", "type"];

/// The result type of a function.
#[derive(Clone, Copy)]
enum ReturnType {
    Dyn,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    Strings,
    /// The type of the receiver.
    Receiver,
    /// The element type of the receiver.
    ReceiverElement,
    /// The value type of the optional.
    OptionalValue,
    Opaque(&'static str),
}

impl ReturnType {
    fn ty<'s>(self) -> CelType<'s> {
        self.resolve(&[])
    }

    fn resolve<'s>(self, types: &[CelType<'s>]) -> CelType<'s> {
        let first = types.first();
        match self {
            Self::Dyn => CelType::Dyn,
            Self::Bool => CelType::Bool,
            Self::Int => CelType::Int,
            Self::Uint => CelType::Uint,
            Self::Double => CelType::Double,
            Self::String => CelType::String,
            Self::Bytes => CelType::Bytes,
            Self::Timestamp => CelType::Timestamp,
            Self::Duration => CelType::Duration,
            Self::Strings => CelType::List(Box::new(CelType::String)),
            Self::Receiver => first.cloned().unwrap_or(CelType::Dyn),
            Self::ReceiverElement => match first {
                Some(CelType::List(item)) => (**item).clone(),
                _ => CelType::Dyn,
            },
            Self::OptionalValue => match first {
                Some(CelType::Optional(inner)) => (**inner).clone(),
                _ => CelType::Dyn,
            },
            Self::Opaque(name) => CelType::Opaque(name),
        }
    }
}

#[rustfmt::skip]
const QUALIFIED_FUNCTIONS: &[(&str, ReturnType)] = {
    use ReturnType::*;
    &[
        ("sets.contains", Bool), ("sets.equivalent", Bool), ("sets.intersects", Bool),
        ("strings.quote", String), ("lists.range", Dyn), ("ip.isCanonical", Bool),
        ("optional.none", Dyn), ("optional.of", Dyn), ("optional.ofNonZeroValue", Dyn),
        ("format.named", Dyn), ("format.dns1123Label", Dyn), ("format.dns1123Subdomain", Dyn),
        ("format.dns1035Label", Dyn), ("format.qualifiedName", Dyn), ("format.dns1123LabelPrefix", Dyn),
        ("format.dns1123SubdomainPrefix", Dyn), ("format.dns1035LabelPrefix", Dyn), ("format.labelValue", Dyn),
        ("format.uri", Dyn), ("format.uuid", Dyn), ("format.byte", Dyn), ("format.date", Dyn),
        ("format.datetime", Dyn),
    ]
};

#[rustfmt::skip]
const FUNCTIONS: &[(&str, ReturnType)] = {
    use ReturnType::*;
    &[
        ("size", Int), ("contains", Bool), ("startsWith", Bool), ("endsWith", Bool), ("matches", Bool),
        ("int", Int), ("uint", Uint), ("double", Double), ("string", String), ("bytes", Bytes), ("bool", Bool),
        ("dyn", Dyn), ("type", Dyn), ("duration", Duration), ("timestamp", Timestamp),
        ("getFullYear", Int), ("getMonth", Int), ("getDayOfYear", Int), ("getDayOfMonth", Int), ("getDate", Int),
        ("getDayOfWeek", Int), ("getHours", Int), ("getMinutes", Int), ("getSeconds", Int), ("getMilliseconds", Int),
        ("charAt", String), ("indexOf", Int), ("lastIndexOf", Int), ("lowerAscii", String), ("upperAscii", String),
        ("replace", String), ("split", Strings), ("join", String), ("substring", String), ("trim", String),
        ("format", String), ("reverse", Receiver), ("find", String), ("findAll", Strings),
        ("isSorted", Bool), ("sum", ReceiverElement), ("min", ReceiverElement), ("max", ReceiverElement), ("distinct", Receiver), ("flatten", Dyn),
        ("slice", Receiver), ("sort", Receiver), ("first", Dyn), ("last", Dyn),
        ("url", Opaque("kubernetes.URL")), ("isURL", Bool), ("getScheme", String), ("getHost", String), ("getHostname", String),
        ("getPort", String), ("getEscapedPath", String), ("getQuery", Dyn),
        ("quantity", Opaque("kubernetes.Quantity")), ("isQuantity", Bool), ("isInteger", Bool), ("asInteger", Int),
        ("asApproximateFloat", Double), ("sign", Int), ("add", Receiver), ("sub", Receiver), ("isGreaterThan", Bool),
        ("isLessThan", Bool), ("compareTo", Int),
        ("ip", Opaque("net.IP")), ("isIP", Bool), ("family", Int), ("isUnspecified", Bool), ("isLoopback", Bool),
        ("isLinkLocalMulticast", Bool), ("isLinkLocalUnicast", Bool), ("isGlobalUnicast", Bool),
        ("cidr", Opaque("net.CIDR")), ("isCIDR", Bool), ("containsIP", Bool), ("containsCIDR", Bool), ("masked", Receiver),
        ("prefixLength", Int), ("semver", Opaque("kubernetes.Semver")), ("isSemver", Bool), ("major", Int), ("minor", Int),
        ("patch", Int), ("validate", Dyn), ("@pairs", Dyn), ("@sortBy", Receiver), ("value", OptionalValue), ("hasValue", Bool), ("orValue", OptionalValue), ("or", Receiver),
        // Functions of admission policies.
        ("authorizer", Dyn), ("group", Dyn), ("resource", Dyn), ("subresource", Dyn), ("namespace", Dyn),
        ("name", Dyn), ("check", Dyn), ("allowed", Bool), ("reason", String), ("errored", Bool), ("error", String),
        ("path", Dyn), ("serviceAccount", Dyn), ("fieldSelector", Dyn), ("labelSelector", Dyn),
        (operators::OPT_SELECT, Dyn),
    ]
};

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_are_type_checked_against_schema() {
        let schema = StructuralSchema::parse(&json!({"type": "object", "properties": {
            "a": {"type": "integer"}, "s": {"type": "string"}, "my-f": {"type": "string"},
            "namespace": {"type": "string"}, "n": {"type": "number"},
            "l": {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}}}},
            "m": {"type": "object", "additionalProperties": {"type": "integer"}},
            "q": {"x-kubernetes-int-or-string": true},
            "open": {"x-kubernetes-preserve-unknown-fields": true},
        }}));
        let outcome = |rule: &str| {
            let expression = Expression::parse(rule).unwrap();
            let ty = CelType::from_schema(&schema, false).unwrap();
            check(&expression, [("self", ty.clone()), ("oldSelf", ty)]).map(|ty| ty.name())
        };
        #[rustfmt::skip]
        let good = [
            "self.a > 1", "self.my__dash__f == 'x'", "self.__namespace__ == self.s", "self.a < self.n",
            "self.l.all(i, i.k != '')", "self.l.map(i, i.k).exists(k, k == 'a')", "self.m.all(k, self.m[k] > 0)",
            "self.l.filter(i, i.k == 'a').size() == 0", "self.q == 1 || self.q == 'x'", "'a' in self.m",
            "self.s in ['a', 'b']", "has(self.a) && !has(self.s)", "self.?a.orValue(3) == 3",
            "oldSelf.a == self.a", "self.m.all(k, v, v > 0)", "type(self.q) == string || self.q > 0",
            "quantity(self.s).isLessThan(quantity('1'))", "self.a == 1 ? true : false",
            "!format.dns1123Label().validate(self.s).hasValue()", "self.s.split(',').all(p, p.matches('a'))",
        ];
        for rule in good {
            assert_eq!(outcome(rule).as_deref(), Ok("bool"), "{rule}");
        }
        #[rustfmt::skip]
        let bad = [
            ("self.zz > 1", "ERROR: <input>:1:5: undefined field 'zz'\n | self.zz > 1\n | ....^"),
            ("self.a == 'x'", "ERROR: <input>:1:8: found no matching overload for '_==_' applied to '(int, string)'\n | self.a == 'x'\n | .......^"),
            ("foo == 1", "ERROR: <input>:1:1: undeclared reference to 'foo' (in container '')\n | foo == 1\n | ^"),
            ("self.l.all(i, i.x > 1)", "ERROR: <input>:1:16: undefined field 'x'\n | self.l.all(i, i.x > 1)\n | ...............^"),
            ("self.open.x == 1", "ERROR: <input>:1:5: undefined field 'open'\n | self.open.x == 1\n | ....^"),
        ];
        for (rule, message) in bad {
            assert_eq!(outcome(rule), Err(message.to_owned()), "{rule}");
        }
        assert_eq!(outcome("self.a + 1").as_deref(), Ok("int"));
        assert!(outcome("self.a && true").is_err());
        assert!(outcome("self.s.foo()").is_err());
    }
}
