//! `semver` and `semverCompare`.

use std::any::Any;
use std::borrow::Cow;
use std::cmp::Ordering;
use std::rc::Rc;

use crate::data::Data;
use crate::exec::{FunctionBody, FunctionRow};
use crate::profile::Profile;
use crate::semver::{Constraints, Version};
use crate::value::{Field, Json, Kind, Method, Object, Str, Type, Value, negligible_cost};

type VersionResult = Result<Value, Str>;

const TEXT: &[Type] = &[Type::String];
const TEXTS: &[Type] = &[Type::String, Type::String];

#[rustfmt::skip]
pub(super) const FUNCTIONS: &[FunctionRow] = &[
    ("semver",        TEXT,  false, FunctionBody::Machine(|machine, args| semver(args, machine.functions.profile))),
    ("semverCompare", TEXTS, false, FunctionBody::Machine(|machine, args| compare(args, machine.functions.profile))),
];

fn semver(args: &[Value], profile: Profile) -> VersionResult {
    let version = Version::parse(&args[0].text().unwrap_or_default(), profile)?;
    Ok(Value::Object(Rc::new(SemVer { version, profile, pointer: true })))
}

fn compare(args: &[Value], profile: Profile) -> VersionResult {
    let constraints = Constraints::parse(&args[0].text().unwrap_or_default(), profile)?;
    let version = Version::parse(&args[1].text().unwrap_or_default(), profile)?;
    Ok(constraints.check(&version).into())
}

/// A `semver.Version` as templates see it. `semver` returns a pointer; the version's methods return values.
struct SemVer {
    version: Version,
    profile: Profile,
    pointer: bool,
}

impl Object for SemVer {
    fn type_name(&self) -> &str {
        if self.pointer { "*semver.Version" } else { "semver.Version" }
    }

    fn kind(&self) -> Kind {
        if self.pointer { Kind::Ptr } else { Kind::Struct }
    }

    fn is_stringer(&self) -> bool {
        true
    }

    fn print(&self) -> Cow<'_, str> {
        self.version.to_string().into()
    }

    fn method(&self, name: &str) -> Option<Method> {
        let rows = if self.pointer { [METHODS, POINTER_METHODS].as_slice() } else { &[METHODS] };
        let row = rows.iter().copied().flatten().find(|row| row.0 == name)?;
        Some(Method { params: row.1, variadic: false, cost: negligible_cost, run: row.2 })
    }

    fn fields(&self) -> Vec<Field> {
        let Version { major, minor, patch, .. } = self.version;
        let numbers = [("major", major), ("minor", minor), ("patch", patch)];
        let texts = [
            ("pre", self.version.pre.clone()),
            ("metadata", self.version.metadata.clone()),
            ("original", self.version.original().to_owned()),
        ];
        let numbers = numbers.map(|(name, number)| (name, Value::Uint64(number)));
        let texts = texts.map(|(name, text)| (name, text.into()));
        let private = |(name, value)| Field { name, json: Json::Private, value };
        numbers.into_iter().chain(texts).map(private).collect()
    }

    fn data(&self) -> Result<Data, Str> {
        Ok(Data::string(self.version.to_string()))
    }

    fn equals(&self, other: &dyn Object) -> bool {
        let other = other.as_any().downcast_ref::<Self>();
        other.is_some_and(|other| (self.pointer, &self.version) == (other.pointer, &other.version))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

type MethodRow = (&'static str, &'static [Type], fn(&dyn Object, &[Value]) -> VersionResult);

const VERSION: &[Type] = &[Type::Object("*semver.Version")];

#[rustfmt::skip]
const METHODS: &[MethodRow] = &[
    ("Major",            &[],     |it, _| Ok(Value::Uint64(version(it)?.major))),
    ("Minor",            &[],     |it, _| Ok(Value::Uint64(version(it)?.minor))),
    ("Patch",            &[],     |it, _| Ok(Value::Uint64(version(it)?.patch))),
    ("Prerelease",       &[],     |it, _| Ok(version(it)?.pre.as_str().into())),
    ("Metadata",         &[],     |it, _| Ok(version(it)?.metadata.as_str().into())),
    ("String",           &[],     |it, _| Ok(version(it)?.to_string().into())),
    ("Value",            &[],     |it, _| Ok(version(it)?.to_string().into())),
    ("MarshalJSON",      &[],     |it, _| Ok(Value::Bytes(format!("\"{}\"", version(it)?).into_bytes().into()))),
    ("MarshalText",      &[],     |it, _| Ok(Value::Bytes(version(it)?.to_string().into_bytes().into()))),
    ("IncPatch",         &[],     |it, _| with_version(it, version(it)?.next_patch()?)),
    ("IncMinor",         &[],     |it, _| with_version(it, version(it)?.next_minor()?)),
    ("IncMajor",         &[],     |it, _| with_version(it, version(it)?.next_major()?)),
    ("SetPrerelease",    TEXT,    |it, args| with_version(it, version(it)?.with_pre(&text(args), profile(it)?)?)),
    ("SetMetadata",      TEXT,    |it, args| with_version(it, version(it)?.with_metadata(&text(args), profile(it)?)?)),
];

#[rustfmt::skip]
const POINTER_METHODS: &[MethodRow] = &[
    ("Original",         &[],     |it, _| Ok(version(it)?.original().into())),
    ("Compare",          VERSION, |it, args| Ok(Value::Int(order(it, args)? as i64))),
    ("LessThan",         VERSION, |it, args| Ok(order(it, args)?.is_lt().into())),
    ("LessThanEqual",    VERSION, |it, args| Ok(order(it, args)?.is_le().into())),
    ("GreaterThan",      VERSION, |it, args| Ok(order(it, args)?.is_gt().into())),
    ("GreaterThanEqual", VERSION, |it, args| Ok(order(it, args)?.is_ge().into())),
    ("Equal",            VERSION, |it, args| Ok((args[0].is_some() && order(it, args)?.is_eq()).into())),
];

const NIL_DEREFERENCE: &str = "runtime error: invalid memory address or nil pointer dereference";

fn downcast(object: &dyn Object) -> Result<&SemVer, Str> {
    object.as_any().downcast_ref().ok_or_else(|| NIL_DEREFERENCE.into())
}

fn version(object: &dyn Object) -> Result<&Version, Str> {
    Ok(&downcast(object)?.version)
}

fn profile(object: &dyn Object) -> Result<Profile, Str> {
    Ok(downcast(object)?.profile)
}

fn text(args: &[Value]) -> String {
    args[0].text().unwrap_or_default().into_owned()
}

fn order(object: &dyn Object, args: &[Value]) -> Result<Ordering, Str> {
    match &args[0] {
        Value::Object(other) => Ok(version(object)?.compare(version(other.as_ref())?)),
        _ => Err(NIL_DEREFERENCE.into()),
    }
}

fn with_version(object: &dyn Object, version: Version) -> VersionResult {
    Ok(Value::Object(Rc::new(SemVer { version, profile: profile(object)?, pointer: false })))
}
