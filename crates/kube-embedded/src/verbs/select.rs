//! Which objects of a collection a request is about.

use super::Call;
use crate::error::{ApiError, Result};
use crate::selector::{FieldSelector, LabelSelector};
use crate::store::Object;

/// The selectors of a list, a watch or the deletion of a collection.
pub struct Selection {
    labels: LabelSelector,
    fields: FieldSelector,
    pub namespace: Option<String>,
}

impl Selection {
    pub fn of(call: &Call) -> Result<Self> {
        let labels = LabelSelector::parse(&call.query.label_selector).map_err(ApiError::bad_request)?;
        let mut fields =
            FieldSelector::parse(&call.resource, &call.query.field_selector).map_err(ApiError::bad_request)?;
        if !call.name.is_empty() {
            // A watch of one object by its path.
            fields.require_name(&call.name);
        }
        let namespace = (!call.namespace.is_empty()).then(|| call.namespace.clone());
        Ok(Self { labels, fields, namespace })
    }

    pub fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// The one name that can match, if the selectors say so.
    pub fn name(&self) -> Option<&str> {
        self.fields.name()
    }

    pub fn matches(&self, object: &Object) -> bool {
        self.namespace.as_ref().is_none_or(|ns| ns.as_str() == object.namespace.as_ref())
            && self.labels.matches(|key| object.label(key))
            && self.fields.matches(object)
    }
}
