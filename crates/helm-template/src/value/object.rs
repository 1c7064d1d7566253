//! Values of the host's own types.

use std::any::Any;
use std::borrow::Cow;

use super::{Field, Kind, Str, Type, Value, field};
use crate::data::Data;

/// A value of a Go type that is neither basic nor a plain list or map.
pub trait Object: Any {
    /// As Go names it: `time.Time`.
    fn type_name(&self) -> &str;

    fn kind(&self) -> Kind {
        Kind::Struct
    }

    /// The number that it is, if its kind is that of a whole number.
    fn int(&self) -> Option<i64> {
        None
    }

    /// As `fmt` prints it.
    fn print(&self) -> Cow<'_, str>;

    /// Its Go type has a method `String`, which gives what [`Object::print`] does. `fmt` asks it for texts.
    fn is_stringer(&self) -> bool {
        false
    }

    /// What its method `GoString` gives, if it has one.
    fn source(&self) -> Option<String> {
        None
    }

    /// Roughly how many bytes it takes to write all of it down.
    fn extent(&self) -> usize {
        self.fields().iter().map(|field| field.value.extent()).fold(1, usize::saturating_add)
    }

    /// As an action prints it, where that differs: a pointer shows what it points to.
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

    /// What `range` goes through: keys and values. `None` if it cannot be ranged over.
    fn entries(&self) -> Option<Vec<(Value, Value)>> {
        None
    }

    /// What `len` says.
    fn length(&self) -> Option<usize> {
        self.entries().map(|entries| entries.len())
    }

    /// What a struct is made of, in its order. Nothing if it does not let others look into it.
    fn fields(&self) -> Vec<Field> {
        Vec::new()
    }

    /// What JSON and YAML make of it: of a struct its fields.
    fn data(&self) -> Result<Data, Str> {
        match self.fields() {
            none if none.is_empty() => Err(format!("json: unsupported type: {}", self.type_name()).into()),
            fields => field::data(fields),
        }
    }

    /// Go's `==` knows it: maps and lists it does not, nor structs with such in them.
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

    /// The same all the way down, what pointers point to included.
    fn equals(&self, other: &dyn Object) -> bool;

    /// What Go's `==` says of two that are not one and the same: pointers are then different.
    fn is_same(&self, other: &dyn Object) -> bool {
        self.kind() != Kind::Ptr && self.equals(other)
    }

    /// For the host, to find its own type again.
    fn as_any(&self) -> &dyn Any;
}

/// What can be called on an object.
pub struct Method {
    pub params: &'static [Type],
    pub variadic: bool,
    /// Roughly how many bytes it goes over: they are counted as work.
    pub weight: fn(&dyn Object, &[Value]) -> usize,
    pub run: fn(&dyn Object, &[Value]) -> Result<Value, Str>,
}

/// The weight of a method that does little, whatever it is given.
pub fn light(_: &dyn Object, _: &[Value]) -> usize {
    0
}
