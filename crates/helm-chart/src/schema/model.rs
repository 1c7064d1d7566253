//! A compiled schema: its keywords, with subschemas by id.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;

use helm_template::budget::{Budget, VALUE_BYTES, weigh};
use helm_template::data::Data;
use helm_template::go::regexp::{Expression, Subject};
use helm_template::json::{self, Style};
use helm_template::value::Str;

/// Index of a schema in [`Schemas`].
pub type Id = usize;

/// All schemas of a document; the first is the root.
pub struct Schemas<'b> {
    pub all: Vec<Schema>,
    budget: &'b Budget<'b>,
    /// Remaining work: a few schemas that refer to each other can require any amount.
    work: Cell<u64>,
    /// Reason why the validation stopped early.
    stopped: RefCell<Option<Str>>,
}

/// Error of a schema that needs more than [`MOST_WORK`].
const TOO_MUCH_WORK: &str = "the schema asks for too much work";

/// Maximum number of values validated and items compared.
const MOST_WORK: u64 = 1_000_000;

/// Budget steps to validate one value against one schema.
const STEPS_PER_VALUE: u64 = 20;

impl<'b> Schemas<'b> {
    pub fn new(all: Vec<Schema>, budget: &'b Budget<'b>) -> Self {
        Self { all, budget, work: Cell::new(MOST_WORK), stopped: RefCell::new(None) }
    }

    /// Counts work; false if the limit is exceeded.
    pub fn work(&self, amount: usize) -> bool {
        let amount = amount as u64;
        let left = self.work.get().saturating_sub(amount);
        self.work.set(left);
        if left == 0 {
            return self.stop(TOO_MUCH_WORK.into());
        }
        match self.budget.charge(amount.saturating_mul(STEPS_PER_VALUE)) {
            Ok(()) => self.stopped.borrow().is_none(),
            Err(why) => self.stop(why),
        }
    }

    /// Counts the work of visiting this value once, without its children. `depth` is the length of the evaluation
    /// path.
    pub fn look(&self, data: &Data, depth: usize) -> bool {
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
    pub fn written(&self, data: &Data) -> Option<String> {
        let allowed = self.work(weigh(data) / VALUE_BYTES);
        allowed.then(|| json::write(data, Style::Plain).unwrap_or_default())
    }

    /// Counts the bytes of a message; false if it must not be written.
    pub fn write(&self, bytes: usize) -> bool {
        match self.budget.charge(bytes as u64 / 4).and_then(|()| self.budget.take(bytes)) {
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
        self.stopped.borrow().is_some()
    }

    /// Reason why the validation stopped early, if it did. Results of values not visited are then meaningless.
    pub fn stopped(&self) -> Option<Str> {
        self.stopped.borrow().clone()
    }

    fn stop(&self, why: Str) -> bool {
        self.stopped.borrow_mut().get_or_insert(why);
        false
    }
}

/// A compiled pattern and its source.
pub struct Pattern {
    pub text: Str,
    pub expression: Rc<Expression>,
}

/// Values of `enum`, as JSON.
pub struct Choices {
    pub texts: HashSet<String>,
    /// All values in order, for messages.
    pub shown: String,
}

/// Rule for members and items that no other keyword covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rest {
    /// No rule.
    #[default]
    Unsaid,
    Allowed,
    Refused,
    Schema(Id),
}

/// Requirement of a member on its siblings.
pub enum Needs {
    Members(Vec<Str>),
    Schema(Id),
}

/// A JSON type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Type {
    Null,
    Boolean,
    Number,
    Integer,
    String,
    Array,
    Object,
}

impl Type {
    const NAMES: [(&'static str, Self); 7] = [
        ("null", Self::Null),
        ("boolean", Self::Boolean),
        ("number", Self::Number),
        ("integer", Self::Integer),
        ("string", Self::String),
        ("array", Self::Array),
        ("object", Self::Object),
    ];

    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind)
    }

    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize].0
    }

    /// Numbers have the type `Number`, whole or not.
    pub fn of(data: &Data) -> Self {
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
pub struct Schema {
    /// JSON pointer from the root of the document.
    pub at: String,
    /// Draft: 4, 6, 7, 2019 or 2020.
    pub draft: u16,
    /// Result of a boolean schema.
    pub verdict: Option<bool>,
    pub reference: Option<Id>,
    /// `$recursiveRef`
    pub recursive: Option<Id>,
    /// `$dynamicRef` and its anchor name.
    pub dynamic: Option<(Id, Option<Str>)>,
    /// The schema resource (with its own URL) that contains it; set only if dynamic references need it.
    pub resource: Option<Id>,
    /// `$recursiveAnchor`
    pub recursive_anchor: bool,
    /// `$dynamicAnchor`
    pub dynamic_anchor: Option<Str>,
    /// Dynamic anchors of the resource, if this schema is one.
    pub dynamic_anchors: BTreeMap<Str, Id>,
    pub types: Vec<Type>,
    /// `const` and `enum` as Helm 4 compares them.
    pub constant: Option<Data>,
    pub choices: Option<Vec<Data>>,
    /// `const` and `enum` as Helm 3 compares them: as JSON.
    pub written_constant: Option<String>,
    pub written_choices: Option<Choices>,
    pub not: Option<Id>,
    pub all_of: Vec<Id>,
    pub any_of: Vec<Id>,
    pub one_of: Vec<Id>,
    pub condition: Option<Id>,
    pub then: Option<Id>,
    pub otherwise: Option<Id>,
    pub format: Option<Str>,

    pub min_properties: Option<i64>,
    pub max_properties: Option<i64>,
    pub required: Vec<Str>,
    pub properties: BTreeMap<Str, Id>,
    pub patterns: Vec<(Pattern, Id)>,
    pub additional_properties: Rest,
    pub property_names: Option<Id>,
    pub dependencies: Vec<(Str, Needs)>,
    /// `dependentSchemas` and `dependentRequired`.
    pub dependents: Vec<(Str, Needs)>,
    pub unevaluated_properties: Option<Id>,

    pub min_items: Option<i64>,
    pub max_items: Option<i64>,
    pub unique: bool,
    /// Schemas of the first items, by position.
    pub tuple: Vec<Id>,
    /// Rule for the items after those.
    pub items: Rest,
    pub contains: Option<Id>,
    pub min_contains: Option<i64>,
    pub max_contains: Option<i64>,
    pub unevaluated_items: Option<Id>,

    pub min_length: Option<i64>,
    pub max_length: Option<i64>,
    pub pattern: Option<Pattern>,

    pub minimum: Option<f64>,
    pub maximum: Option<f64>,
    pub above: Option<f64>,
    pub below: Option<f64>,
    pub multiple_of: Option<f64>,
}
