//! Sets of templates, one over the other: what a template defines while it runs hides what was there, for as long as
//! it runs, and costs nothing but itself.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use crate::parse::Template;
use crate::value::Str;

#[derive(Clone, Default)]
pub struct Templates(Option<Rc<Layer>>);

struct Layer {
    templates: HashMap<Str, Arc<Template>>,
    below: Templates,
}

impl Templates {
    /// This set with further templates over it. A blank one does not hide another; of two with one name the later
    /// holds.
    #[must_use]
    pub fn with(&self, templates: impl IntoIterator<Item = Arc<Template>>) -> Self {
        let mut layer: HashMap<Str, Arc<Template>> = HashMap::new();
        for template in templates {
            let known = layer.contains_key(&template.name) || self.get(&template.name).is_some();
            if !known || !template.is_blank() {
                layer.insert(template.name.clone(), template);
            }
        }
        Self(Some(Rc::new(Layer { templates: layer, below: self.clone() })))
    }

    pub fn get(&self, name: &str) -> Option<Arc<Template>> {
        let mut set = self;
        while let Self(Some(layer)) = set {
            if let Some(template) = layer.templates.get(name) {
                return Some(template.clone());
            }
            set = &layer.below;
        }
        None
    }
}
