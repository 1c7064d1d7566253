//! The zero value of a type, against which a create is compared.
//!
//! A Go struct always has its non-pointer members: a new Deployment has `spec.template.spec` before it is set, so that the creator owns its
//! fields but not the struct. Custom resources start empty.

use serde_json::{Map, Value};

use super::ApplyContext;
use crate::schema::types::{Field, Shape, TypeRef};

/// Returns the empty object against which a create is compared.
pub fn zero_object(ctx: &ApplyContext<'_>) -> Value {
    if ctx.custom { Value::Object(Map::new()) } else { zero_value(ctx.ty) }
}

fn zero_value(ty: TypeRef<'_>) -> Value {
    match ty.shape() {
        Shape::Struct(body) => {
            let written = body.fields.iter().filter(|field| is_written(ty, field));
            Value::Object(
                written.map(|field| (field.name.to_string(), zero_value(ty.with_id(field.ty)))).collect(),
            )
        }
        Shape::String | Shape::Bytes | Shape::Duration => "".into(),
        Shape::Int32 | Shape::Int64 | Shape::Double | Shape::IntOrString => 0.into(),
        Shape::Bool => false.into(),
        Shape::Quantity => "0".into(),
        Shape::Time | Shape::MicroTime | Shape::Any | Shape::Map(_) | Shape::List(_) => Value::Null,
    }
}

/// Whether the zero value contains the field. Struct members are always present, even with `omitempty`.
fn is_written(ty: TypeRef<'_>, field: &Field) -> bool {
    let is_struct = matches!(ty.with_id(field.ty).shape(), Shape::Struct(_));
    !field.pointer && (is_struct || !field.omitempty)
}
