//! What compiling a schema has in common for both Helms: a queue instead of a recursion, so that no chain of references
//! is too long, and each part of the document compiled once, however often it is referred to.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use helm_template::data::{Data, Members};
use helm_template::go::regexp::Expression;
use helm_template::profile::Profile;
use helm_template::value::Str;

use super::document::{Document, Target, escaped};
use super::model::{Id, Pattern, Schema, Schemas};

pub struct Compiler<'d> {
    pub document: Document<'d>,
    pub profile: Profile,
    schemas: Vec<Schema>,
    /// By where they are in memory: the document is not moved meanwhile.
    known: HashMap<*const Data, Id>,
    queue: VecDeque<(Id, Target<'d>)>,
    /// Patterns by how they are written: a schema repeats itself.
    patterns: HashMap<Str, Rc<Expression>>,
}

/// One schema on its way: what it says so far, and where it stands.
pub struct Draught<'c, 'd> {
    pub compiler: &'c mut Compiler<'d>,
    pub members: &'d Members,
    pub target: Target<'d>,
}

impl<'d> Compiler<'d> {
    pub fn new(document: Document<'d>, profile: Profile) -> Self {
        Self {
            document,
            profile,
            schemas: vec![],
            known: HashMap::new(),
            queue: VecDeque::new(),
            patterns: HashMap::new(),
        }
    }

    /// Compiles the document from its top. `one` compiles one schema, and queues those that it refers to.
    pub fn run(
        mut self,
        mut one: impl FnMut(&mut Self, &Target<'d>) -> Result<Schema, String>,
    ) -> Result<Schemas, String> {
        let root = self.document.root();
        self.enqueue(root);
        while let Some((id, target)) = self.queue.pop_front() {
            let schema = one(&mut self, &target)?;
            if let Some(place) = self.schemas.get_mut(id) {
                *place = Schema { at: target.at, ..schema };
            }
        }
        Ok(Schemas::new(self.schemas))
    }

    pub fn enqueue(&mut self, target: Target<'d>) -> Id {
        let next = self.schemas.len();
        let id = *self.known.entry(std::ptr::from_ref(target.data)).or_insert(next);
        if id == next {
            self.schemas.push(Schema::default());
            self.queue.push_back((id, target));
        }
        id
    }

    pub fn pattern(&mut self, text: &Str) -> Result<Pattern, String> {
        let expression = if let Some(known) = self.patterns.get(text) {
            known.clone()
        } else {
            let expression = Rc::new(Expression::compile(text, self.profile)?);
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

    /// Queues what stands below the schema.
    pub fn inner(&mut self, data: &'d Data, path: &[&str]) -> Id {
        let at = path.iter().fold(self.target.at.clone(), |at, token| format!("{at}/{}", escaped(token)));
        let base = self.compiler.document.based(data, &self.target.base);
        self.compiler.enqueue(Target { data, base, at })
    }

    /// A keyword that is a schema.
    pub fn one(&mut self, key: &str) -> Option<Id> {
        self.get(key).map(|data| self.inner(data, &[key]))
    }

    /// A keyword that is a list of schemas.
    pub fn list(&mut self, key: &str) -> Vec<Id> {
        let items = self.get(key).and_then(Data::as_list).unwrap_or_default();
        items.iter().enumerate().map(|(index, data)| self.inner(data, &[key, &index.to_string()])).collect()
    }

    /// A keyword that is a table of schemas.
    pub fn table(&mut self, key: &str) -> Vec<(Str, Id)> {
        let members = self.get(key).and_then(Data::as_map).into_iter().flatten();
        members.map(|(name, data)| (name.clone(), self.inner(data, &[key, name]))).collect()
    }
}

/// The texts among the elements of a list.
pub fn texts(items: &[Data]) -> Vec<Str> {
    items
        .iter()
        .filter_map(|item| if let Data::String(text) = item { Some(text.clone()) } else { None })
        .collect()
}
