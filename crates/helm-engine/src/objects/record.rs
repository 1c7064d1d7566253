//! Go structs as template values.

use std::any::Any;
use std::borrow::Cow;

use helm_template::go::print;
use helm_template::value::{Field, Json, Kind, Method, Object, Str, Value};

/// A struct, or a pointer to one.
pub struct StructValue {
    pub type_name: &'static str,
    pub is_pointer: bool,
    pub fields: Vec<Field>,
    pub method: fn(&str) -> Option<Method>,
    /// The output of an action instead of the fields, for a struct with a `String` method.
    pub display: Option<Str>,
}

impl StructValue {
    /// A struct without methods.
    pub fn new(type_name: &'static str, fields: Vec<Field>) -> Self {
        Self { type_name, is_pointer: false, fields, method: |_| None, display: None }
    }

    #[must_use]
    pub fn pointer(self) -> Self {
        Self { is_pointer: true, ..self }
    }

    fn printed(&self) -> String {
        let fields: Vec<_> = self.fields.iter().map(|field| print(&field.value)).collect();
        format!("{{{}}}", fields.join(" "))
    }
}

impl Object for StructValue {
    fn type_name(&self) -> &str {
        self.type_name
    }

    fn kind(&self) -> Kind {
        if self.is_pointer { Kind::Ptr } else { Kind::Struct }
    }

    fn print(&self) -> Cow<'_, str> {
        format!("{}{}", if self.is_pointer { "&" } else { "" }, self.printed()).into()
    }

    fn show(&self) -> Cow<'_, str> {
        self.display.as_deref().map_or_else(|| self.printed().into(), Cow::Borrowed)
    }

    fn field(&self, name: &str) -> Option<Value> {
        let own = self.fields.iter().find(|field| field.name == name && field.json != Json::Private);
        own.map(|field| field.value.clone()).or_else(|| {
            self.fields.iter().filter(|field| field.json == Json::Embedded).find_map(|field| {
                match &field.value {
                    Value::Object(inner) => inner.field(name),
                    _ => None,
                }
            })
        })
    }

    fn method(&self, name: &str) -> Option<Method> {
        (self.method)(name)
    }

    fn fields(&self) -> Vec<Field> {
        self.fields.clone()
    }

    fn equals(&self, other: &dyn Object) -> bool {
        let Some(other) = other.as_any().downcast_ref::<Self>() else { return false };
        std::ptr::eq(self, other)
            || (self.type_name == other.type_name
                && self.fields.len() == other.fields.len()
                && self
                    .fields
                    .iter()
                    .zip(&other.fields)
                    .all(|(a, b)| a.name == b.name && helm_template::value::deep_equal(&a.value, &b.value)))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
