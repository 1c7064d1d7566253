//! What an object is before anything is set.
//!
//! A Go struct is never without its plain members: a new Deployment has `spec.template.spec` before
//! anybody sets it, so whoever creates it owns what is inside but not the struct. Custom resources begin with
//! nothing.

use serde_json::{Map, Value};

use super::Context;
use crate::schema::types::{Field, Shape, TypeRef};

/// The empty object that a create is compared with.
pub fn object(ctx: &Context<'_>) -> Value {
    if ctx.custom { Value::Object(Map::new()) } else { of(ctx.ty) }
}

fn of(ty: TypeRef<'_>) -> Value {
    match ty.shape() {
        Shape::Struct(body) => {
            let written = body.fields.iter().filter(|field| is_written(ty, field));
            Value::Object(written.map(|field| (field.name.to_string(), of(ty.follow(field.ty)))).collect())
        }
        Shape::String | Shape::Bytes | Shape::Duration => "".into(),
        Shape::Int32 | Shape::Int64 | Shape::Double | Shape::IntOrString => 0.into(),
        Shape::Bool => false.into(),
        Shape::Quantity => "0".into(),
        Shape::Time | Shape::MicroTime | Shape::Any | Shape::Map(_) | Shape::List(_) => Value::Null,
    }
}

/// A member that is a struct itself is there whether or not it may be left out when empty.
fn is_written(ty: TypeRef<'_>, field: &Field) -> bool {
    let is_struct = matches!(ty.follow(field.ty).shape(), Shape::Struct(_));
    !field.pointer && (is_struct || !field.omitempty)
}
