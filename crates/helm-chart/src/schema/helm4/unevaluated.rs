//! Members and items not evaluated by any keyword yet (`unevaluatedProperties`, `unevaluatedItems`).

use std::collections::BTreeSet;

use helm_template::data::Data;
use helm_template::value::Str;

use super::super::model::{AdditionalRule, Schema};

#[derive(Default)]
pub struct Unevaluated {
    pub members: BTreeSet<Str>,
    pub elements: BTreeSet<usize>,
}

impl Unevaluated {
    /// The members or items of a value, as far as the schema or its caller needs them.
    pub fn new(data: &Data, schema: &Schema, is_requested: bool) -> Self {
        let mut all = Self::default();
        match data {
            Data::Map(members)
                if schema.additional_properties == AdditionalRule::Unspecified
                    && (is_requested || schema.unevaluated_properties.is_some()) =>
            {
                all.members = members.keys().cloned().collect();
            }
            Data::List(items)
                if schema.items == AdditionalRule::Unspecified
                    && (is_requested || schema.unevaluated_items.is_some()) =>
            {
                all.elements = (schema.prefix_items.len()..items.len()).collect();
            }
            _ => {}
        }
        all
    }

    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.elements.is_empty()
    }

    /// Intersects with another set.
    pub fn intersect(&mut self, other: &Self) {
        self.members.retain(|name| other.members.contains(name));
        self.elements.retain(|index| other.elements.contains(index));
    }
}
