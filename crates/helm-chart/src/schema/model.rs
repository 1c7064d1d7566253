//! A schema, compiled: what its keywords say, with subschemas by number.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;

use helm_template::budget::{Budget, VALUE_BYTES, weigh};
use helm_template::data::Data;
use helm_template::go::regexp::{Expression, Subject};
use helm_template::json::{self, Style};
use helm_template::value::Str;

/// The number of a schema among [`Schemas`].
pub type Id = usize;

/// All schemas that a document is made of; the first is the document's own.
pub struct Schemas<'b> {
    pub all: Vec<Schema>,
    budget: &'b Budget<'b>,
    /// How much work there may still be: a few schemas that refer to each other can ask for any amount.
    work: Cell<u64>,
    /// Why the check stopped early.
    stopped: RefCell<Option<Str>>,
}

/// The error of a schema that needs more than [`MOST_WORK`].
const TOO_MUCH_WORK: &str = "the schema asks for too much work";

/// Values that are held against a schema, and elements against each other.
const MOST_WORK: u64 = 1_000_000;

/// Steps that it takes to hold one value against one schema.
const STEPS_PER_VALUE: u64 = 20;

impl<'b> Schemas<'b> {
    pub fn new(all: Vec<Schema>, budget: &'b Budget<'b>) -> Self {
        Self { all, budget, work: Cell::new(MOST_WORK), stopped: RefCell::new(None) }
    }

    /// Counts some work; false if there has been too much.
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

    /// Counts what it takes to look at this value once, and not at what is in it. `depth` is the number of schemas on the
    /// way here.
    pub fn look(&self, data: &Data, depth: usize) -> bool {
        let way = depth / 16;
        self.work(match data {
            Data::String(text) => 1 + way + text.len() / 64,
            _ => 1 + way,
        })
    }

    /// Counts comparisons of a value with choices or names; each is a fraction of a look.
    pub fn compare(&self, count: usize) -> bool {
        self.work(count / 32)
    }

    /// A value as JSON, by which Helm 3 compares; nothing if there has been too much work. A number that JSON cannot write does not
    /// come from values or schemas.
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

    /// Whether the pattern is in the text; no if there has been too much work.
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

    /// Why the check stopped early, if it did. What has not been looked at may have been taken for right or for wrong.
    pub fn stopped(&self) -> Option<Str> {
        self.stopped.borrow().clone()
    }

    fn stop(&self, why: Str) -> bool {
        self.stopped.borrow_mut().get_or_insert(why);
        false
    }
}

/// A pattern, and how it was written.
pub struct Pattern {
    pub text: Str,
    pub expression: Rc<Expression>,
}

/// What `enum` allows, written as JSON.
pub struct Choices {
    pub texts: HashSet<String>,
    /// All of them in order, for messages.
    pub shown: String,
}

/// What holds for members and elements that no other keyword speaks of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rest {
    /// Nothing is said.
    #[default]
    Unsaid,
    Allowed,
    Refused,
    Schema(Id),
}

/// What a member needs beside it.
pub enum Needs {
    Members(Vec<Str>),
    Schema(Id),
}

/// A type of JSON.
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

    /// A number is a number here, whole or not.
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

/// What a schema says. What it does not say is empty.
#[derive(Default)]
pub struct Schema {
    /// The pointer to it from the top of its document.
    pub at: String,
    /// 4, 6, 7, 2019 or 2020.
    pub draft: u16,
    /// `true` and `false` are schemas too.
    pub verdict: Option<bool>,
    pub reference: Option<Id>,
    /// `$recursiveRef`
    pub recursive: Option<Id>,
    /// `$dynamicRef`, and the name in it.
    pub dynamic: Option<(Id, Option<Str>)>,
    /// The schema with an address of its own that it belongs to; only where there are references that hang on it.
    pub resource: Option<Id>,
    /// `$recursiveAnchor`
    pub recursive_anchor: bool,
    /// `$dynamicAnchor`
    pub dynamic_anchor: Option<Str>,
    /// Those of all that belongs to it, if it has an address of its own.
    pub dynamic_anchors: BTreeMap<Str, Id>,
    pub types: Vec<Type>,
    /// `const` and `enum` as Helm 4 compares them.
    pub constant: Option<Data>,
    pub choices: Option<Vec<Data>>,
    /// `const` and `enum` as Helm 3 compares them: written as JSON.
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
    /// For the first elements, each its own.
    pub tuple: Vec<Id>,
    /// For all after those.
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
