//! A parsed template file. Many charts bundle the same library chart, so identical texts occur under different file names.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;

use super::{Cost, FunctionResolver, ParseError, ParsedSource, Template, TemplateSource, parse_source};
use crate::budget::Budget;
use crate::value::Str;

/// The templates parsed from one file, and their cost.
#[derive(Clone)]
pub struct TemplateFile {
    /// The templates that the text defines, then the one of the file's own name.
    pub templates: Arc<[Arc<Template>]>,
    /// Whether the text defines a template of the file's own name.
    defines_own_name: bool,
    cost: Cost,
}

impl TemplateFile {
    /// Parses a file. Invalid UTF-8 becomes U+FFFD.
    pub fn parse(
        name: &str,
        data: &Bytes,
        functions: &dyn FunctionResolver,
        budget: &Budget<'_>,
    ) -> Result<Self, ParseError> {
        // Validating the whole text first is several times faster than a lossy conversion.
        let text = if let Ok(text) = std::str::from_utf8(data) {
            Cow::Borrowed(text)
        } else {
            budget.allocate(data.len().saturating_mul(LOSSY_FACTOR)).map_err(ParseError::Budget)?;
            String::from_utf8_lossy(data)
        };
        let lossy = if matches!(text, Cow::Owned(_)) { data.len().saturating_mul(LOSSY_FACTOR) } else { 0 };
        let shared = match &text {
            Cow::Borrowed(_) => data.clone(),
            Cow::Owned(text) => Bytes::copy_from_slice(text.as_bytes()),
        };
        let source = TemplateSource { name: name.into(), text: shared };
        let ParsedSource { templates, defines_own_name: names_itself, mut cost } =
            parse_source(source, &text, functions, budget)?;
        cost.bytes = cost.bytes.saturating_add(lossy);
        cost.tree_bytes = cost.tree_bytes.saturating_add(lossy);
        Ok(Self {
            templates: templates.into_iter().map(Arc::new).collect(),
            defines_own_name: names_itself,
            cost,
        })
    }

    /// The cost that a rendering is charged for this file, whether it is parsed or taken from a cache.
    pub fn cost(&self) -> Cost {
        self.cost
    }

    /// The cost if the rendering already has the same text under another file name.
    pub fn cost_if_shared(&self) -> Cost {
        if self.defines_own_name { self.cost } else { Cost::shared(self.templates.len()) }
    }

    /// Whether files of other names with the same text can share these trees.
    pub fn is_shareable(&self) -> bool {
        !self.defines_own_name
    }

    /// The templates of the same text under another file name, without parsing it again. Returns `None` if the text defines a template
    /// of either name, because the result would then differ.
    pub fn renamed(&self, name: &str) -> Option<Self> {
        let (own, defined) = self.templates.split_last()?;
        if self.defines_own_name || defined.iter().any(|template| &*template.name == name) {
            return None;
        }
        let source = Arc::new(TemplateSource { name: name.into(), text: own.source.text.clone() });
        let renamed = |name: &Str, template: &Template| {
            let (name, source, body) = (name.clone(), source.clone(), template.body.clone());
            Arc::new(Template { name, source, body, variables: template.variables })
        };
        let defined = defined.iter().map(|template| renamed(&template.name, template));
        let templates = defined.chain([renamed(&source.name, own)]).collect();
        Some(Self { templates, defines_own_name: false, cost: self.cost })
    }
}

/// An invalid byte becomes three bytes of U+FFFD, in a text that is allocated twice.
const LOSSY_FACTOR: usize = 6;
