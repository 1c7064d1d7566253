//! Layered template sets. A layer holds the templates that `tpl` defines; it hides templates of the same name below for as long as
//! it runs. Adding a layer does not copy the layers below.

use std::rc::Rc;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};

use crate::parse::Template;
use crate::value::Str;

/// Maximum number of layers. A lookup visits each layer, so a higher stack is merged into two.
const MAX_LAYERS: usize = 8;

/// A set of templates by name. Cheap to clone; clones share layers.
#[derive(Clone, Default)]
pub struct Templates(Option<Rc<Layer>>);

/// One layer of a template set, and the layers below it.
struct Layer {
    templates: LayerTemplates,
    below: Templates,
    height: usize,
}

/// The templates of one layer.
enum LayerTemplates {
    /// The usual case of `tpl`: the text defines only itself.
    One(Arc<Template>),
    Many(HashMap<Str, Arc<Template>>),
}

impl LayerTemplates {
    fn get(&self, name: &str) -> Option<&Arc<Template>> {
        match self {
            Self::One(only) => (&*only.name == name).then_some(only),
            Self::Many(templates) => templates.get(name),
        }
    }
}

impl Templates {
    /// This set with another layer of templates. A blank template does not hide an existing one. Of two templates with the same name
    /// in the new layer, the later wins.
    #[must_use]
    pub fn with(&self, templates: impl IntoIterator<Item = Arc<Template>>) -> Self {
        let mut layer: HashMap<Str, Arc<Template>> = HashMap::new();
        for template in templates {
            let known = layer.contains_key(&template.name) || self.get(&template.name).is_some();
            if !known || !template.is_blank() {
                layer.insert(template.name.clone(), template);
            }
        }
        self.with_layer(LayerTemplates::Many(layer))
    }

    /// This set with a layer of one template.
    #[must_use]
    pub fn with_one(&self, template: Arc<Template>) -> Self {
        if template.is_blank() && self.get(&template.name).is_some() {
            return self.clone();
        }
        self.with_layer(LayerTemplates::One(template))
    }

    fn with_layer(&self, templates: LayerTemplates) -> Self {
        let below = if self.height() < MAX_LAYERS { self.clone() } else { self.flattened() };
        Self(Some(Rc::new(Layer { templates, height: below.height() + 1, below })))
    }

    fn height(&self) -> usize {
        self.0.as_ref().map_or(0, |layer| layer.height)
    }

    /// The same set in two layers: the base, and all others merged.
    fn flattened(&self) -> Self {
        let mut upper: HashMap<Str, Arc<Template>> = HashMap::new();
        let mut set = self;
        while let Self(Some(layer)) = set {
            if layer.height == 1 {
                break;
            }
            let mut add = |template: &Arc<Template>| {
                upper.entry(template.name.clone()).or_insert_with(|| template.clone());
            };
            match &layer.templates {
                LayerTemplates::One(only) => add(only),
                LayerTemplates::Many(many) => many.values().for_each(add),
            }
            set = &layer.below;
        }
        Self(Some(Rc::new(Layer { templates: LayerTemplates::Many(upper), below: set.clone(), height: 2 })))
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
