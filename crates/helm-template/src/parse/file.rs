//! A file that was parsed. Many charts carry the same library, so that the same text stands in many files.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;

use super::{Cost, Names, ParseError, Source, Template, Whole, parsed};
use crate::budget::Budget;
use crate::value::Str;

#[derive(Clone)]
pub struct File {
    /// What the text defines, and last the template of the file's own name.
    pub templates: Arc<[Arc<Template>]>,
    /// A template of the file's own name is among the definitions.
    names_itself: bool,
    cost: Cost,
}

impl File {
    /// What is no character becomes U+FFFD.
    pub fn parse(
        name: &str,
        data: &Bytes,
        functions: &dyn Names,
        budget: &Budget<'_>,
    ) -> Result<Self, ParseError> {
        // Checking the whole first is several times faster than going from character to character.
        let text = match std::str::from_utf8(data) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => {
                budget.take(data.len().saturating_mul(LOSSY_FACTOR)).map_err(ParseError::Budget)?;
                String::from_utf8_lossy(data)
            }
        };
        let lossy = if matches!(text, Cow::Owned(_)) { data.len().saturating_mul(LOSSY_FACTOR) } else { 0 };
        let shared = match &text {
            Cow::Borrowed(_) => data.clone(),
            Cow::Owned(text) => Bytes::copy_from_slice(text.as_bytes()),
        };
        let source = Source { name: name.into(), text: shared };
        let Whole { templates, names_itself, mut cost } = parsed(source, &text, functions, budget)?;
        cost.bytes = cost.bytes.saturating_add(lossy);
        cost.kept = cost.kept.saturating_add(lossy);
        Ok(Self { templates: templates.into_iter().map(Arc::new).collect(), names_itself, cost })
    }

    /// What a rendering is charged for it: the same whether it is parsed or found in a cache.
    pub fn cost(&self) -> Cost {
        self.cost
    }

    /// What a rendering is charged that has the same text in another file already.
    pub fn cost_if_shared(&self) -> Cost {
        if self.names_itself { self.cost } else { Cost::shared(self.templates.len()) }
    }

    /// Whether files of other names with the same text can share its trees.
    pub fn is_shareable(&self) -> bool {
        !self.names_itself
    }

    /// What the same text comes to in a file of another name, without parsing it again. `None` where it defines a
    /// template of either name: then it comes to something else.
    pub fn renamed(&self, name: &str) -> Option<Self> {
        let (own, defined) = self.templates.split_last()?;
        if self.names_itself || defined.iter().any(|template| &*template.name == name) {
            return None;
        }
        let source = Arc::new(Source { name: name.into(), text: own.source.text.clone() });
        let renamed = |name: &Str, template: &Template| {
            let (name, source, body) = (name.clone(), source.clone(), template.body.clone());
            Arc::new(Template { name, source, body, variables: template.variables })
        };
        let defined = defined.iter().map(|template| renamed(&template.name, template));
        let templates = defined.chain([renamed(&source.name, own)]).collect();
        Some(Self { templates, names_itself: false, cost: self.cost })
    }
}

/// A byte that is no character becomes three, in a text that is made twice.
const LOSSY_FACTOR: usize = 6;
