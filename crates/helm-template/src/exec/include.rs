//! `include` and `tpl`: templates called by name, and strings that are parsed and executed at run time.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use super::{ExecError, Machine, walk};
use crate::go::quote;
use crate::parse::{Cost, ParseError, Template, parse_within};
use crate::value::{Str, Value};

/// Maximum recursion depth of `include` for one template name.
const MAX_INCLUDE_DEPTH: usize = 1_000;

/// Steps to look up a parsed string and put its templates over the current set.
const STEPS_TO_EXECUTE_TEXT: u64 = 20;

/// Template name of every string given to `tpl`.
const TPL_TEMPLATE_NAME: &str = "gotpl";

/// Templates parsed from one string.
type ParsedText = Arc<[Arc<Template>]>;

/// Cache of strings parsed by `tpl`; charts pass the same strings repeatedly.
#[derive(Default)]
pub(super) struct TplCache {
    parsed: HashMap<Str, ParsedText>,
    bytes: usize,
}

impl TplCache {
    /// Cache capacity in bytes of strings and trees. The cache is cleared when full.
    const CACHE_CAPACITY: usize = 32 << 20;

    fn insert(&mut self, text: &Str, parsed: &ParsedText, cost: Cost) {
        // An entry holds its text twice: as the key and in its trees.
        let weight = text.len().saturating_mul(2).saturating_add(cost.tree_bytes).saturating_add(256);
        self.bytes = self.bytes.saturating_add(weight);
        if self.bytes > Self::CACHE_CAPACITY {
            *self = Self { bytes: weight, ..Self::default() };
        }
        self.parsed.insert(text.clone(), parsed.clone());
    }
}

impl Machine<'_> {
    /// Runs a template by name and returns its output as a value.
    pub fn include(&mut self, name: &str, data: Value) -> Result<Value, ExecError> {
        let times = match self.include_depths.get_mut(name) {
            Some(times) => times,
            None => self.include_depths.entry(name.into()).or_default(),
        };
        if *times > MAX_INCLUDE_DEPTH {
            let why =
                format!("rendering template has a nested reference name: {name}: unable to execute template");
            return Err(ExecError::new(why));
        }
        *times += 1;
        let done = self.run(name, data);
        if let Some(times) = self.include_depths.get_mut(name) {
            *times -= 1;
        }
        done.map(Value::string_from_bytes)
    }

    /// Runs a string as a template (`tpl`). Templates that it defines are visible to the templates it calls, and discarded afterwards.
    pub fn execute_text(&mut self, text: &Str, data: Value) -> Result<Value, ExecError> {
        if memchr::memmem::find(text.as_bytes(), b"{{").is_none() {
            return Ok(match without_no_value(text.as_bytes()) {
                Cow::Borrowed(_) => Value::String(text.clone()),
                Cow::Owned(bytes) => Value::string_from_bytes(bytes),
            });
        }
        self.charge(STEPS_TO_EXECUTE_TEXT).map_err(ExecError::new)?;
        let parsed = match self.tpl_cache.parsed.get(text) {
            Some(parsed) => parsed.clone(),
            None => self.parse_cached(text)?,
        };
        let Some(own) = parsed.iter().find(|template| &*template.name == TPL_TEMPLATE_NAME) else {
            return Err(ExecError::new("internal error: a text without a template"));
        };
        let inner = match &*parsed {
            [only] => self.templates.with_one(only.clone()),
            several => self.templates.with(several.iter().cloned()),
        };
        let outer = std::mem::replace(&mut self.templates, inner);
        let mut out = Vec::new();
        let done = walk::run(self, own, data, &mut out);
        self.templates = outer;
        match done {
            Ok(()) => Ok(Value::string_from_bytes(match without_no_value(&out) {
                Cow::Borrowed(_) => out,
                Cow::Owned(bytes) => bytes,
            })),
            Err(error) => {
                Err(error.with_context(format!("error during tpl function execution for {}: ", quote(text))))
            }
        }
    }

    fn parse_cached(&mut self, text: &Str) -> Result<ParsedText, ExecError> {
        // Parsing cost is linear in the length of the text.
        self.charge(text.len() as u64).map_err(ExecError::new)?;
        let parsed = parse_within(TPL_TEMPLATE_NAME, text, self.functions, self.budget());
        let (parsed, cost) = parsed.map_err(|why| match why {
            ParseError::Syntax(why) => {
                ExecError::new(why).with_context(format!("cannot parse template {}: ", quote(text)))
            }
            ParseError::Budget(why) => ExecError::new(why),
        })?;
        let parsed: ParsedText = parsed.into_iter().map(Arc::new).collect();
        self.tpl_cache.insert(text, &parsed, cost);
        Ok(parsed)
    }
}

/// Removes `<no value>` from the output: Helm prints nothing where Go prints this text.
pub fn without_no_value(text: &[u8]) -> Cow<'_, [u8]> {
    const NO_VALUE: &[u8] = b"<no value>";
    let mut found = memchr::memmem::find_iter(text, NO_VALUE).peekable();
    if found.peek().is_none() {
        return Cow::Borrowed(text);
    }
    let mut rest = Vec::with_capacity(text.len());
    let mut from = 0;
    for at in found {
        rest.extend_from_slice(&text[from..at]);
        from = at + NO_VALUE.len();
    }
    rest.extend_from_slice(&text[from..]);
    Cow::Owned(rest)
}
