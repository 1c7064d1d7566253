//! Shared part of schema compilation for both Helm versions: a queue instead of recursion, so that reference chains
//! can be of any length, and each part of the document is compiled once.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use helm_template::budget::Budget;
use helm_template::data::{Data, Members};
use helm_template::go::regexp::Expression;
use helm_template::json::{self, Style};
use helm_template::profile::Profile;
use helm_template::value::Str;

use super::document::{Document, Target, escaped};
use super::model::{Id, Pattern, Schema, Schemas};

/// Memory of a schema in the compiler's tables, besides its own structure.
const SCHEMA_BYTES: usize = 128;

/// Budget steps to compile a schema.
const STEPS_PER_SCHEMA: u64 = 20;

pub struct Compiler<'d> {
    pub document: Document<'d>,
    pub profile: Profile,
    budget: &'d Budget<'d>,
    /// The first exceeded limit.
    exceeded: Option<Str>,
    schemas: Vec<Schema>,
    /// Ids by address in memory: the document is not moved during compilation.
    known: HashMap<*const Data, Id>,
    queue: VecDeque<(Id, Target<'d>)>,
    /// Compiled patterns by their text.
    patterns: HashMap<Str, Rc<Expression>>,
}

/// A schema under compilation and its location.
pub struct Draught<'c, 'd> {
    pub compiler: &'c mut Compiler<'d>,
    pub members: &'d Members,
    pub target: Target<'d>,
}

impl<'d> Compiler<'d> {
    pub fn new(document: Document<'d>, profile: Profile, budget: &'d Budget<'d>) -> Self {
        Self {
            document,
            profile,
            budget,
            exceeded: None,
            schemas: vec![],
            known: HashMap::new(),
            queue: VecDeque::new(),
            patterns: HashMap::new(),
        }
    }

    /// Compiles the document from its root. `one` compiles one schema and queues the schemas it refers to.
    pub fn run(
        mut self,
        mut one: impl FnMut(&mut Self, &Target<'d>) -> Result<Schema, String>,
    ) -> Result<Schemas<'d>, String> {
        let root = self.document.root();
        self.enqueue(root);
        while let Some((id, target)) = self.queue.pop_front() {
            let schema = one(&mut self, &target)?;
            if let Some(why) = self.exceeded {
                return Err(why.to_string());
            }
            if let Some(place) = self.schemas.get_mut(id) {
                *place = Schema { at: target.at, ..schema };
            }
        }
        Ok(Schemas::new(self.schemas, self.budget))
    }

    /// Id of the schema at a location; queues it if new. Over budget nothing is queued, and [`Compiler::run`] fails.
    pub fn enqueue(&mut self, target: Target<'d>) -> Id {
        let next = self.schemas.len();
        let id = *self.known.entry(std::ptr::from_ref(target.data)).or_insert(next);
        if id == next && self.counts(size_of::<Schema>() + SCHEMA_BYTES) {
            self.schemas.push(Schema::default());
            self.queue.push_back((id, target));
        }
        id
    }

    /// Counts memory and steps; false if the budget is exceeded.
    fn counts(&mut self, bytes: usize) -> bool {
        let counted = self.budget.charge(STEPS_PER_SCHEMA).and_then(|()| self.budget.take(bytes));
        if let Err(why) = counted {
            self.exceeded.get_or_insert(why);
        }
        self.exceeded.is_none()
    }

    /// A schema value as JSON. The reserved memory covers the text and its copy in messages.
    pub fn written(&self, data: &Data) -> Result<String, String> {
        let text = json::write(data, Style::Plain).unwrap_or_default();
        let counted = self.budget.charge(text.len() as u64 / 4);
        let counted = counted.and_then(|()| self.budget.take(size_of::<String>() + 2 * text.len()));
        counted.map_err(|why| why.to_string())?;
        Ok(text)
    }

    pub fn pattern(&mut self, text: &Str) -> Result<Pattern, String> {
        let expression = if let Some(known) = self.patterns.get(text) {
            known.clone()
        } else {
            let expression = Rc::new(Expression::compile(text, self.profile)?);
            let counted = self.budget.charge(expression.steps_to_compile());
            let counted = counted.and_then(|()| self.budget.take(expression.size()));
            counted.map_err(|why| why.to_string())?;
            self.patterns.insert(text.clone(), expression.clone());
            expression
        };
        Ok(Pattern { text: text.clone(), expression })
    }
}

impl<'d> Draught<'_, 'd> {
    pub fn get(&self, key: &str) -> Option<&'d Data> {
        self.members.get(key)
    }

    /// Queues a subschema at a relative path.
    pub fn inner(&mut self, data: &'d Data, path: &[&str]) -> Id {
        let length = path.iter().map(|token| 2 * token.len() + 1).sum::<usize>() + self.target.at.len();
        if !self.compiler.counts(length) {
            return 0;
        }
        let at = path.iter().fold(self.target.at.clone(), |at, token| format!("{at}/{}", escaped(token)));
        let base = self.compiler.document.based(data, &self.target.base);
        self.compiler.enqueue(Target { data, base, at })
    }

    /// A keyword with one schema.
    pub fn one(&mut self, key: &str) -> Option<Id> {
        self.get(key).map(|data| self.inner(data, &[key]))
    }

    /// A keyword with a list of schemas.
    pub fn list(&mut self, key: &str) -> Vec<Id> {
        let items = self.get(key).and_then(Data::as_list).unwrap_or_default();
        items.iter().enumerate().map(|(index, data)| self.inner(data, &[key, &index.to_string()])).collect()
    }

    /// A keyword with a map of schemas.
    pub fn table(&mut self, key: &str) -> Vec<(Str, Id)> {
        let members = self.get(key).and_then(Data::as_map).into_iter().flatten();
        members.map(|(name, data)| (name.clone(), self.inner(data, &[key, name]))).collect()
    }
}

/// The strings among the items of a list.
pub fn texts(items: &[Data]) -> Vec<Str> {
    items
        .iter()
        .filter_map(|item| if let Data::String(text) = item { Some(text.clone()) } else { None })
        .collect()
}
