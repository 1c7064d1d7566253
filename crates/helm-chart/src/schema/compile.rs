//! Shared part of schema compilation for both Helm versions: a queue instead of recursion, so that reference chains
//! can be of any length, and each part of the document is compiled once.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use helm_template::budget::Budget;
use helm_template::data::{Data, Members};
use helm_template::go::regexp::Expression;
use helm_template::json::{self, JsonStyle};
use helm_template::profile::Profile;
use helm_template::value::Str;

use super::document::{SchemaDocument, SchemaLocation, escape_token};
use super::model::{Pattern, Schema, SchemaId, Schemas};

/// Memory of a schema in the compiler's tables, besides its own structure.
const SCHEMA_BYTES: usize = 128;

/// Budget steps to compile a schema.
const STEPS_PER_SCHEMA: u64 = 20;

pub struct SchemaCompiler<'d> {
    pub document: SchemaDocument<'d>,
    pub profile: Profile,
    budget: &'d Budget<'d>,
    /// The first exceeded limit.
    budget_error: Option<Str>,
    schemas: Vec<Schema>,
    /// Ids by address in memory: the document is not moved during compilation.
    ids: HashMap<*const Data, SchemaId>,
    queue: VecDeque<(SchemaId, SchemaLocation<'d>)>,
    /// Compiled patterns by their text.
    patterns: HashMap<Str, Rc<Expression>>,
}

/// A schema under compilation and its location.
pub struct SchemaContext<'c, 'd> {
    pub compiler: &'c mut SchemaCompiler<'d>,
    pub members: &'d Members,
    pub target: SchemaLocation<'d>,
}

impl<'d> SchemaCompiler<'d> {
    pub fn new(document: SchemaDocument<'d>, profile: Profile, budget: &'d Budget<'d>) -> Self {
        Self {
            document,
            profile,
            budget,
            budget_error: None,
            schemas: vec![],
            ids: HashMap::new(),
            queue: VecDeque::new(),
            patterns: HashMap::new(),
        }
    }

    /// Compiles the document from its root. `one` compiles one schema and queues the schemas it refers to.
    pub fn run(
        mut self,
        mut one: impl FnMut(&mut Self, &SchemaLocation<'d>) -> Result<Schema, String>,
    ) -> Result<Schemas<'d>, String> {
        let root = self.document.root();
        self.enqueue(root);
        while let Some((id, target)) = self.queue.pop_front() {
            let schema = one(&mut self, &target)?;
            if let Some(why) = self.budget_error {
                return Err(why.to_string());
            }
            if let Some(place) = self.schemas.get_mut(id) {
                *place = Schema { pointer: target.pointer, ..schema };
            }
        }
        Ok(Schemas::new(self.schemas, self.budget))
    }

    /// Id of the schema at a location; queues it if new. Over budget nothing is queued, and [`SchemaCompiler::run`] fails.
    pub fn enqueue(&mut self, target: SchemaLocation<'d>) -> SchemaId {
        let next = self.schemas.len();
        let id = *self.ids.entry(std::ptr::from_ref(target.data)).or_insert(next);
        if id == next && self.charge(size_of::<Schema>() + SCHEMA_BYTES) {
            self.schemas.push(Schema::default());
            self.queue.push_back((id, target));
        }
        id
    }

    /// Counts memory and steps; false if the budget is exceeded.
    fn charge(&mut self, bytes: usize) -> bool {
        let counted = self.budget.charge(STEPS_PER_SCHEMA).and_then(|()| self.budget.allocate(bytes));
        if let Err(why) = counted {
            self.budget_error.get_or_insert(why);
        }
        self.budget_error.is_none()
    }

    /// A schema value as JSON. The reserved memory covers the text and its copy in messages.
    pub fn to_json(&self, data: &Data) -> Result<String, String> {
        let text = json::write(data, JsonStyle::Plain).unwrap_or_default();
        let counted = self.budget.charge(text.len() as u64 / 4);
        let counted = counted.and_then(|()| self.budget.allocate(size_of::<String>() + 2 * text.len()));
        counted.map_err(|why| why.to_string())?;
        Ok(text)
    }

    pub fn pattern(&mut self, text: &Str) -> Result<Pattern, String> {
        let expression = if let Some(known) = self.patterns.get(text) {
            known.clone()
        } else {
            let expression = Rc::new(Expression::compile(text, self.profile)?);
            let counted = self.budget.charge(expression.steps_to_compile());
            let counted = counted.and_then(|()| self.budget.allocate(expression.size()));
            counted.map_err(|why| why.to_string())?;
            self.patterns.insert(text.clone(), expression.clone());
            expression
        };
        Ok(Pattern { text: text.clone(), expression })
    }
}

impl<'d> SchemaContext<'_, 'd> {
    pub fn get(&self, key: &str) -> Option<&'d Data> {
        self.members.get(key)
    }

    /// Queues a subschema at a relative path.
    pub fn enqueue_subschema(&mut self, data: &'d Data, path: &[&str]) -> SchemaId {
        let length = path.iter().map(|token| 2 * token.len() + 1).sum::<usize>() + self.target.pointer.len();
        if !self.compiler.charge(length) {
            return 0;
        }
        let at = path
            .iter()
            .fold(self.target.pointer.clone(), |at, token| format!("{at}/{}", escape_token(token)));
        let base = self.compiler.document.base_url(data, &self.target.base);
        self.compiler.enqueue(SchemaLocation { data, base, pointer: at })
    }

    /// A keyword with one schema.
    pub fn schema(&mut self, key: &str) -> Option<SchemaId> {
        self.get(key).map(|data| self.enqueue_subschema(data, &[key]))
    }

    /// A keyword with a list of schemas.
    pub fn schema_list(&mut self, key: &str) -> Vec<SchemaId> {
        let items = self.get(key).and_then(Data::as_list).unwrap_or_default();
        items
            .iter()
            .enumerate()
            .map(|(index, data)| self.enqueue_subschema(data, &[key, &index.to_string()]))
            .collect()
    }

    /// A keyword with a map of schemas.
    pub fn schema_map(&mut self, key: &str) -> Vec<(Str, SchemaId)> {
        let members = self.get(key).and_then(Data::as_map).into_iter().flatten();
        members.map(|(name, data)| (name.clone(), self.enqueue_subschema(data, &[key, name]))).collect()
    }
}

/// The strings among the items of a list.
pub fn strings(items: &[Data]) -> Vec<Str> {
    items
        .iter()
        .filter_map(|item| if let Data::String(text) = item { Some(text.clone()) } else { None })
        .collect()
}
