//! A compiled schema: its keywords, with subschemas by id.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;

use helm_template::budget::{Budget, VALUE_BYTES, data_size};
use helm_template::data::Data;
use helm_template::go::regexp::{Expression, Subject};
use helm_template::json::{self, JsonStyle};
use helm_template::value::Str;

/// Index of a schema in [`Schemas`].
pub type SchemaId = usize;

/// All schemas of a document; the first is the root.
pub struct Schemas<'b> {
    pub nodes: Vec<Schema>,
    budget: &'b Budget<'b>,
    /// Remaining work: a few schemas that refer to each other can require any amount.
    remaining_work: Cell<u64>,
    /// Reason why the validation stopped early.
    stop_reason: RefCell<Option<Str>>,
}

/// Error of a schema that needs more than [`MAX_WORK`].
const WORK_LIMIT_ERROR: &str = "the schema asks for too much work";

/// Maximum number of values validated and items compared.
const MAX_WORK: u64 = 1_000_000;

/// Budget steps to validate one value against one schema.
const STEPS_PER_VALUE: u64 = 20;

impl<'b> Schemas<'b> {
    pub fn new(all: Vec<Schema>, budget: &'b Budget<'b>) -> Self {
        Self { nodes: all, budget, remaining_work: Cell::new(MAX_WORK), stop_reason: RefCell::new(None) }
    }

    /// Counts work; false if the limit is exceeded.
    pub fn work(&self, amount: usize) -> bool {
        let amount = amount as u64;
        let left = self.remaining_work.get().saturating_sub(amount);
        self.remaining_work.set(left);
        if left == 0 {
            return self.stop(WORK_LIMIT_ERROR.into());
        }
        match self.budget.charge(amount.saturating_mul(STEPS_PER_VALUE)) {
            Ok(()) => self.stop_reason.borrow().is_none(),
            Err(why) => self.stop(why),
        }
    }

    /// Counts the work of visiting this value once, without its children. `depth` is the length of the evaluation
    /// path.
    pub fn visit(&self, data: &Data, depth: usize) -> bool {
        let way = depth / 16;
        self.work(match data {
            Data::String(text) => 1 + way + text.len() / 64,
            _ => 1 + way,
        })
    }

    /// Counts comparisons of a value with choices or names; each costs a fraction of a visit.
    pub fn compare(&self, count: usize) -> bool {
        self.work(count / 32)
    }

    /// A value as JSON, which Helm 3 compares; `None` if the work limit is exceeded. Numbers that JSON cannot express
    /// occur neither in values nor in schemas.
    pub fn to_json(&self, data: &Data) -> Option<String> {
        let allowed = self.work(data_size(data) / VALUE_BYTES);
        allowed.then(|| json::write(data, JsonStyle::Plain).unwrap_or_default())
    }

    /// Counts the bytes of a message; false if it must not be written.
    pub fn write(&self, bytes: usize) -> bool {
        match self.budget.charge(bytes as u64 / 4).and_then(|()| self.budget.allocate(bytes)) {
            Ok(()) => true,
            Err(why) => self.stop(why),
        }
    }

    /// Whether the pattern matches the text; false if the budget is exceeded.
    pub fn matches(&self, pattern: &Pattern, text: &str) -> bool {
        if let Err(why) =
            self.budget.charge(STEPS_PER_VALUE.saturating_add(pattern.expression.steps(text.len())))
        {
            return self.stop(why);
        }
        pattern.expression.is_match(&Subject::new(text.as_bytes()))
    }

    pub fn is_stopped(&self) -> bool {
        self.stop_reason.borrow().is_some()
    }

    /// Reason why the validation stopped early, if it did. Results of values not visited are then meaningless.
    pub fn stop_reason(&self) -> Option<Str> {
        self.stop_reason.borrow().clone()
    }

    fn stop(&self, why: Str) -> bool {
        self.stop_reason.borrow_mut().get_or_insert(why);
        false
    }
}

/// A compiled pattern and its source.
pub struct Pattern {
    pub text: Str,
    pub expression: Rc<Expression>,
}

/// Values of `enum`, as JSON.
pub struct EnumValues {
    pub texts: HashSet<String>,
    /// All values in order, for messages.
    pub display: String,
}

/// Rule for members and items that no other keyword covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdditionalRule {
    /// No rule.
    #[default]
    Unspecified,
    Allowed,
    Forbidden,
    Schema(SchemaId),
}

/// Requirement of a member on its siblings.
pub enum DependencyRule {
    Members(Vec<Str>),
    Schema(SchemaId),
}

/// A JSON type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JsonType {
    Null,
    Boolean,
    Number,
    Integer,
    String,
    Array,
    Object,
}

impl JsonType {
    const NAMES: [(&'static str, Self); 7] = [
        ("null", Self::Null),
        ("boolean", Self::Boolean),
        ("number", Self::Number),
        ("integer", Self::Integer),
        ("string", Self::String),
        ("array", Self::Array),
        ("object", Self::Object),
    ];

    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }

    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize].0
    }

    /// Numbers have the type `Number`, whole or not.
    pub fn from_data(data: &Data) -> Self {
        match data {
            Data::Null => Self::Null,
            Data::Bool(_) => Self::Boolean,
            Data::Int(_) | Data::Float(_) => Self::Number,
            Data::String(_) => Self::String,
            Data::List(_) => Self::Array,
            Data::Map(_) => Self::Object,
        }
    }
}

/// A compiled schema. Missing keywords are empty.
#[derive(Default)]
#[expect(clippy::struct_field_names, reason = "keywords of JSON Schema that are keywords of Rust, too")]
pub struct Schema {
    /// JSON pointer from the root of the document.
    pub pointer: String,
    /// Draft: 4, 6, 7, 2019 or 2020.
    pub draft: u16,
    /// Result of a boolean schema.
    pub boolean_result: Option<bool>,
    pub reference: Option<SchemaId>,
    /// `$recursiveRef`
    pub recursive: Option<SchemaId>,
    /// `$dynamicRef` and its anchor name.
    pub dynamic: Option<(SchemaId, Option<Str>)>,
    /// The schema resource (with its own URL) that contains it; set only if dynamic references need it.
    pub resource: Option<SchemaId>,
    /// `$recursiveAnchor`
    pub recursive_anchor: bool,
    /// `$dynamicAnchor`
    pub dynamic_anchor: Option<Str>,
    /// Dynamic anchors of the resource, if this schema is one.
    pub dynamic_anchors: BTreeMap<Str, SchemaId>,
    pub types: Vec<JsonType>,
    /// `const` and `enum` as Helm 4 compares them.
    pub constant: Option<Data>,
    pub enum_values: Option<Vec<Data>>,
    /// `const` and `enum` as Helm 3 compares them: as JSON.
    pub constant_json: Option<String>,
    pub enum_json: Option<EnumValues>,
    pub not: Option<SchemaId>,
    pub all_of: Vec<SchemaId>,
    pub any_of: Vec<SchemaId>,
    pub one_of: Vec<SchemaId>,
    pub if_schema: Option<SchemaId>,
    pub then_schema: Option<SchemaId>,
    pub else_schema: Option<SchemaId>,
    pub format: Option<Str>,

    pub min_properties: Option<i64>,
    pub max_properties: Option<i64>,
    pub required: Vec<Str>,
    pub properties: BTreeMap<Str, SchemaId>,
    pub patterns: Vec<(Pattern, SchemaId)>,
    pub additional_properties: AdditionalRule,
    pub property_names: Option<SchemaId>,
    pub dependencies: Vec<(Str, DependencyRule)>,
    /// `dependentSchemas` and `dependentRequired`.
    pub dependents: Vec<(Str, DependencyRule)>,
    pub unevaluated_properties: Option<SchemaId>,

    pub min_items: Option<i64>,
    pub max_items: Option<i64>,
    pub unique_items: bool,
    /// Schemas of the first items, by position.
    pub prefix_items: Vec<SchemaId>,
    /// Rule for the items after those.
    pub items: AdditionalRule,
    pub contains: Option<SchemaId>,
    pub min_contains: Option<i64>,
    pub max_contains: Option<i64>,
    pub unevaluated_items: Option<SchemaId>,

    pub min_length: Option<i64>,
    pub max_length: Option<i64>,
    pub pattern: Option<Pattern>,

    pub minimum: Option<f64>,
    pub maximum: Option<f64>,
    pub exclusive_minimum: Option<f64>,
    pub exclusive_maximum: Option<f64>,
    pub multiple_of: Option<f64>,
}
