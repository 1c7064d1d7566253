//! A file that was parsed. Many charts carry the same library, so that the same text stands in many files.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;

use super::{Names, Source, Template, parsed};
use crate::value::Str;

#[derive(Clone)]
pub struct File {
    /// What the text defines, and last the template of the file's own name.
    pub templates: Arc<[Arc<Template>]>,
    /// A template of the file's own name is among the definitions.
    names_itself: bool,
}

impl File {
    /// What is no character becomes U+FFFD.
    pub fn parse(name: &str, data: &Bytes, functions: &dyn Names) -> Result<Self, Str> {
        // Checking the whole first is several times faster than going from character to character.
        let text = match std::str::from_utf8(data) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => String::from_utf8_lossy(data),
        };
        let shared = match &text {
            Cow::Borrowed(_) => data.clone(),
            Cow::Owned(text) => Bytes::copy_from_slice(text.as_bytes()),
        };
        let source = Source { name: name.into(), text: shared };
        let (templates, names_itself) = parsed(source, &text, functions)?;
        Ok(Self { templates: templates.into_iter().map(Arc::new).collect(), names_itself })
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
        Some(Self { templates, names_itself: false })
    }
}
