//! A file that was parsed. Many charts carry the same library, so that the same text stands in many files.

use std::sync::Arc;

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
    pub fn parse(name: &str, text: &str, functions: &dyn Names) -> Result<Self, Str> {
        let (templates, names_itself) = parsed(name, text, functions)?;
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
