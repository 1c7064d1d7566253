//! The cost of parsing, charged before each part of a tree is allocated.

use std::fmt::{Display, Formatter};

use super::{Node, Template};
use crate::budget::Budget;
use crate::value::Str;

/// Why a text was not parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// The text is not a valid template. Carries Go's message.
    Syntax(Str),
    /// The rendering's budget is exceeded, or the host stopped the rendering.
    Budget(Str),
}

impl ParseError {
    pub fn into_message(self) -> Str {
        match self {
            Self::Syntax(why) | Self::Budget(why) => why,
        }
    }
}

impl Display for ParseError {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Syntax(why) | Self::Budget(why) => f.write_str(why),
        }
    }
}

/// The cost that was charged for parsing a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    pub steps: u64,
    /// Memory of the trees and of the parser's temporary data.
    pub bytes: usize,
    /// Memory of the trees alone, for as long as they are cached.
    pub tree_bytes: usize,
}

impl Cost {
    /// Charges the same cost again, for a tree that was found in a cache.
    pub fn charge(&self, budget: &Budget<'_>) -> Result<(), Str> {
        budget.charge(self.steps)?;
        budget.allocate(self.bytes)
    }

    /// The cost of `templates` templates that share the trees of another file.
    pub(super) fn shared(templates: usize) -> Self {
        let bytes = templates.saturating_mul(TEMPLATE_BYTES).saturating_add(SOURCE_BYTES);
        Self { steps: (templates as u64).saturating_mul(STEPS_PER_NODE), bytes, tree_bytes: bytes }
    }
}

/// Allocator overhead per allocation.
const ALLOCATION: usize = 16;
/// A template under its name, in its file and in the template set of a rendering.
const TEMPLATE_BYTES: usize = size_of::<Template>() + 2 * ALLOCATION + 64;
const SOURCE_BYTES: usize = 128;

/// Bytes of text scanned per step.
const BYTES_PER_STEP: usize = 16;
const STEPS_PER_NODE: u64 = 4;
const STEPS_PER_PART: u64 = 2;
/// Variable names compared per step.
const NAMES_PER_STEP: usize = 8;

/// Charges a budget and records the total.
pub(super) struct Meter<'b> {
    budget: &'b Budget<'b>,
    cost: Cost,
}

type Metered = Result<(), ParseError>;

impl<'b> Meter<'b> {
    pub fn new(budget: &'b Budget<'b>) -> Self {
        Self { budget, cost: Cost::default() }
    }

    pub fn cost(&self) -> Cost {
        self.cost
    }

    pub fn text(&mut self, text: &str) -> Metered {
        self.charge_steps((text.len() / BYTES_PER_STEP) as u64 + STEPS_PER_NODE)
    }

    pub fn node(&mut self) -> Metered {
        self.charge_steps(STEPS_PER_NODE)?;
        self.charge_tree(size_of::<Node>())
    }

    /// Charges an element of a list in the tree.
    pub fn part<T>(&mut self) -> Metered {
        self.charge_steps(STEPS_PER_PART)?;
        self.charge_tree(size_of::<T>())
    }

    /// Charges a separately allocated part of the tree.
    pub fn boxed<T>(&mut self) -> Metered {
        self.charge_tree(size_of::<T>() + ALLOCATION)
    }

    /// Charges the allocation of a list; its elements are charged one by one.
    pub fn allocation(&mut self) -> Metered {
        self.charge_tree(ALLOCATION)
    }

    pub fn template(&mut self) -> Metered {
        self.charge_tree(TEMPLATE_BYTES)
    }

    /// Charges a reference-counted string.
    pub fn shared_text(&mut self, text: &str) -> Metered {
        self.charge_tree(text.len().saturating_add(2 * ALLOCATION))
    }

    /// Charges a declaration or assignment of a variable among `others`.
    pub fn variable(&mut self, name: &str, others: usize) -> Metered {
        self.search(others)?;
        self.search(others)?;
        self.part::<super::Variable>()?;
        self.shared_text(name)
    }

    /// Charges a linear search among `names` names.
    pub fn search(&mut self, names: usize) -> Metered {
        self.charge_steps((names / NAMES_PER_STEP) as u64)
    }

    /// Charges an entry of a table that exists only while parsing.
    pub fn entry<T>(&mut self) -> Metered {
        self.charge_bytes(2 * size_of::<T>())
    }

    /// Charges the growth of a list to which an element is about to be added.
    pub fn scratch<T>(&mut self, list: &Vec<T>) -> Metered {
        if list.len() < list.capacity() {
            return Ok(());
        }
        self.charge_bytes(list.len().max(4).saturating_mul(size_of::<T>()))
    }

    fn charge_steps(&mut self, steps: u64) -> Metered {
        self.cost.steps = self.cost.steps.saturating_add(steps);
        self.budget.charge(steps).map_err(ParseError::Budget)
    }

    fn charge_tree(&mut self, bytes: usize) -> Metered {
        self.cost.tree_bytes = self.cost.tree_bytes.saturating_add(bytes);
        self.charge_bytes(bytes)
    }

    fn charge_bytes(&mut self, bytes: usize) -> Metered {
        self.cost.bytes = self.cost.bytes.saturating_add(bytes);
        self.budget.allocate(bytes).map_err(ParseError::Budget)
    }
}
