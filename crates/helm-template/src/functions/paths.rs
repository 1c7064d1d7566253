//! Path and URL functions.

use crate::exec::{FunctionBody, FunctionRow, Machine};
use crate::go::path;
use crate::go::url::{Url, User, parse_userinfo};
use crate::value::{Map, Str, Type, Value};

type PathResult = Result<Value, Str>;

const TEXT: &[Type] = &[Type::String];

// A chart renders the same on every platform: `os*` functions use slash-separated paths.
#[rustfmt::skip]
pub(super) const FUNCTIONS: &[FunctionRow] = &[
    ("base",     TEXT,         false, FunctionBody::Plain(base)),
    ("dir",      TEXT,         false, FunctionBody::Plain(dir)),
    ("clean",    TEXT,         false, FunctionBody::Plain(clean)),
    ("ext",      TEXT,         false, FunctionBody::Plain(ext)),
    ("isAbs",    TEXT,         false, FunctionBody::Plain(is_abs)),
    ("osBase",   TEXT,         false, FunctionBody::Plain(base)),
    ("osDir",    TEXT,         false, FunctionBody::Plain(dir)),
    ("osClean",  TEXT,         false, FunctionBody::Plain(clean)),
    ("osExt",    TEXT,         false, FunctionBody::Plain(ext)),
    ("osIsAbs",  TEXT,         false, FunctionBody::Plain(is_abs)),
    ("urlParse", TEXT,         false, FunctionBody::Machine(url_parse)),
    ("urlJoin",  &[Type::Map], false, FunctionBody::Machine(url_join)),
];

fn bytes(args: &[Value]) -> &[u8] {
    args[0].string_bytes().unwrap_or_default()
}

fn base(args: &[Value]) -> PathResult {
    Ok(Value::string_from_bytes(path::base(bytes(args)).to_vec()))
}

fn dir(args: &[Value]) -> PathResult {
    Ok(Value::string_from_bytes(path::dir(bytes(args))))
}

fn clean(args: &[Value]) -> PathResult {
    Ok(Value::string_from_bytes(path::clean(bytes(args))))
}

fn ext(args: &[Value]) -> PathResult {
    Ok(Value::string_from_bytes(path::ext(bytes(args)).to_vec()))
}

fn is_abs(args: &[Value]) -> PathResult {
    Ok(bytes(args).starts_with(b"/").into())
}

fn url_parse(machine: &mut Machine<'_>, args: &[Value]) -> PathResult {
    machine.charge_bytes(bytes(args).len())?;
    let url = Url::parse(bytes(args), machine.functions.profile)
        .map_err(|why| format!("unable to parse url: {why}"))?;
    let hostname = url.hostname().to_vec();
    let user = url.user.as_ref().map(User::write).unwrap_or_default();
    let parts = [
        ("scheme", url.scheme),
        ("host", url.host),
        ("hostname", hostname),
        ("path", url.path),
        ("query", url.query),
        ("opaque", url.opaque),
        ("fragment", url.fragment),
        ("userinfo", user),
    ];
    Ok(Map::from_entries(parts.map(|(name, part)| (name.into(), Value::string_from_bytes(part)))).into())
}

fn url_join(machine: &mut Machine<'_>, args: &[Value]) -> PathResult {
    let part = |name: &str| url_component(&args[0], name);
    let mut url = Url {
        scheme: part("scheme")?,
        host: part("host")?,
        path: part("path")?,
        query: part("query")?,
        opaque: part("opaque")?,
        fragment: part("fragment")?,
        user: None,
    };
    let user = part("userinfo")?;
    if !user.is_empty() {
        url.user = parse_userinfo(&user, machine.functions.profile)
            .map_err(|why| format!("unable to parse userinfo in dict: {why}"))?;
    }
    Ok(Value::string_from_bytes(url.write()))
}

/// A component of the URL; empty if the map lacks it.
fn url_component(map: &Value, name: &str) -> Result<Vec<u8>, Str> {
    let Some(value) = map.as_map().and_then(|map| map.get(name)) else { return Ok(Vec::new()) };
    if value.is_nil() {
        return Err("runtime error: invalid memory address or nil pointer dereference".into());
    }
    value.string_bytes().map(<[u8]>::to_vec).ok_or_else(|| {
        let kind = value.kind().name();
        format!("unable to parse {name} key, must be of type string, but {kind} found").into()
    })
}
