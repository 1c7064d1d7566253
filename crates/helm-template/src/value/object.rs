//! Values of host types.

use std::any::Any;
use std::borrow::Cow;

use super::{Field, Kind, Str, Type, Value, field};
use crate::data::Data;

/// A value of a Go type that is neither basic nor a plain list or map.
pub trait Object: Any {
    /// The Go type name, such as `time.Time`.
    fn type_name(&self) -> &str;

    fn kind(&self) -> Kind {
        Kind::Struct
    }

    /// The integer value, if the kind is an integer kind.
    fn int(&self) -> Option<i64> {
        None
    }

    /// The default format of `fmt`.
    fn print(&self) -> Cow<'_, str>;

    /// Whether the Go type has a `String` method, which returns [`Object::print`]. `fmt` uses it for string verbs.
    fn is_stringer(&self) -> bool {
        false
    }

    /// The result of the Go type's `GoString` method, if it has one.
    fn source(&self) -> Option<String> {
        None
    }

    /// Approximate printed size in bytes.
    fn extent(&self) -> usize {
        self.fields().iter().map(|field| field.value.extent()).fold(1, usize::saturating_add)
    }

    /// The output of an action, if it differs from [`Object::print`]: a pointer is printed as its pointee.
    fn show(&self) -> Cow<'_, str> {
        self.print()
    }

    fn is_true(&self) -> bool {
        true
    }

    /// A field of a struct, or an entry of a map.
    fn field(&self, name: &str) -> Option<Value> {
        let _ = name;
        None
    }

    fn method(&self, name: &str) -> Option<Method> {
        let _ = name;
        None
    }

    /// Keys and values for `range`; `None` if the type cannot be ranged over.
    fn entries(&self) -> Option<Vec<(Value, Value)>> {
        None
    }

    /// The result of `len`; `None` if the type has no length.
    fn length(&self) -> Option<usize> {
        self.entries().map(|entries| entries.len())
    }

    /// The fields of a struct in declaration order; empty for an opaque type.
    fn fields(&self) -> Vec<Field> {
        Vec::new()
    }

    /// The JSON and YAML form; for a struct, its fields.
    fn data(&self) -> Result<Data, Str> {
        match self.fields() {
            none if none.is_empty() => Err(format!("json: unsupported type: {}", self.type_name()).into()),
            fields => field::data(fields),
        }
    }

    /// Whether Go's `==` supports the type. Maps and slices do not, nor structs that contain them.
    fn is_comparable(&self) -> bool {
        match self.kind() {
            Kind::Slice | Kind::Map => false,
            Kind::Struct => self.fields().iter().all(|field| match &field.value {
                Value::Object(object) => object.is_comparable(),
                value => !matches!(value.kind(), Kind::Slice | Kind::Map),
            }),
            _ => true,
        }
    }

    /// Deep equality, through pointers.
    fn equals(&self, other: &dyn Object) -> bool;

    /// The result of Go's `==` for two objects that are not identical; pointers are then different.
    fn is_same(&self, other: &dyn Object) -> bool {
        self.kind() != Kind::Ptr && self.equals(other)
    }

    /// For downcasts by the host.
    fn as_any(&self) -> &dyn Any;
}

/// A method of an object.
pub struct Method {
    pub params: &'static [Type],
    pub variadic: bool,
    /// Approximate number of bytes that the method processes, charged as work.
    pub cost: fn(&dyn Object, &[Value]) -> usize,
    pub run: fn(&dyn Object, &[Value]) -> Result<Value, Str>,
}

/// The weight of a method with negligible cost.
pub fn negligible_cost(_: &dyn Object, _: &[Value]) -> usize {
    0
}
