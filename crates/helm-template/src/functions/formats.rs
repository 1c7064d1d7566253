//! YAML, JSON and TOML functions.
//!
//! Helm's own functions do not fail. A value that cannot be encoded becomes an empty string. Text that cannot be decoded becomes a
//! map with the error under `Error`, or a list that holds only the error. Functions that start with `must`, and `toRawJson`, fail.

use crate::data::{Data, Members};
use crate::exec::{FunctionBody, FunctionRow, Machine};
use crate::json::{self, JsonStyle};
use crate::nesting::EncodeError;
use crate::profile::Profile;
use crate::value::{List, Map, Str, Type, Value};
use crate::{toml, yaml};

type FormatResult = Result<Value, Str>;

const ANY: &[Type] = &[Type::Any];
const STRING: &[Type] = &[Type::String];

/// Go type names of the decoding targets.
const MAP_TYPE: &str = "map[string]interface {}";
const LIST_TYPE: &str = "[]interface {}";

#[rustfmt::skip]
pub(super) const FUNCTIONS: &[FunctionRow] = &[
    ("toYaml",           ANY,    false, FunctionBody::Machine(|machine, args| charge_lines(machine, empty_on_error(to_yaml(args))))),
    ("mustToYaml",       ANY,    false, FunctionBody::Machine(|machine, args| charge_lines(machine, fail_on_error(to_yaml(args))))),
    ("toYamlPretty",     ANY,    false, FunctionBody::Machine(|machine, args| charge_lines(machine, fail_on_error(yaml::write_pretty(&args[0]).map(without_newline))))),
    ("fromYaml",         STRING, false, FunctionBody::Machine(|machine, args| read(machine, args, |text| Ok(map_or_error(yaml::parse_map(text, MAP_TYPE)))))),
    ("fromYamlArray",    STRING, false, FunctionBody::Machine(|machine, args| read(machine, args, |text| Ok(list_or_error(yaml::parse_list(text, LIST_TYPE)))))),
    ("toJson",           ANY,    false, FunctionBody::Plain(|args| empty_on_error(json::write_value(&args[0], JsonStyle::Plain)))),
    ("mustToJson",       ANY,    false, FunctionBody::Plain(|args| fail_on_error(json::write_value(&args[0], JsonStyle::Plain)))),
    ("toPrettyJson",     ANY,    false, FunctionBody::Plain(|args| empty_on_error(json::write_value(&args[0], JsonStyle::Pretty)))),
    ("mustToPrettyJson", ANY,    false, FunctionBody::Plain(|args| fail_on_error(json::write_value(&args[0], JsonStyle::Pretty)))),
    ("toRawJson",        ANY,    false, FunctionBody::Plain(|args| fail_on_error(json::write_value(&args[0], JsonStyle::Raw)))),
    ("mustToRawJson",    ANY,    false, FunctionBody::Plain(|args| fail_on_error(json::write_value(&args[0], JsonStyle::Raw)))),
    ("fromJson",         STRING, false, FunctionBody::Machine(|machine, args| read(machine, args, |text| Ok(json_map(text))))),
    ("mustFromJson",     STRING, false, FunctionBody::Machine(|machine, args| read(machine, args, |text| Ok(Value::from(&json::parse(text)?).unboxed())))),
    ("fromJsonArray",    STRING, false, FunctionBody::Machine(|machine, args| read(machine, args, |text| Ok(json_list(text))))),
    ("toToml",           ANY,    false, FunctionBody::Machine(|machine, args| charge_lines(machine, to_toml(args, Profile::Helm4)))),
    ("mustToToml",       ANY,    false, FunctionBody::Machine(|machine, args| charge_lines(machine, fail_on_error(toml::write(toml_document(args)?, Profile::Helm4))))),
    ("fromToml",         STRING, false, FunctionBody::Machine(|machine, args| from_toml(machine, args, Profile::Helm4))),
];

/// Functions that Helm 3 implements differently.
#[rustfmt::skip]
pub(super) const HELM3_FUNCTIONS: &[FunctionRow] = &[
    ("toToml",           ANY,    false, FunctionBody::Machine(|machine, args| charge_lines(machine, to_toml(args, Profile::Helm3)))),
    ("fromToml",         STRING, false, FunctionBody::Machine(|machine, args| from_toml(machine, args, Profile::Helm3))),
];

fn to_yaml(args: &[Value]) -> Result<String, EncodeError> {
    yaml::write_value(&args[0]).map(without_newline)
}

fn without_newline(mut text: String) -> String {
    if text.ends_with('\n') {
        text.pop();
    }
    text
}

/// Steps to encode one line of YAML or TOML; a line is a map entry or a list element.
const STEPS_PER_LINE: u64 = 10;

/// Charges the cost of encoding, by the number of lines written.
fn charge_lines(machine: &mut Machine<'_>, written: FormatResult) -> FormatResult {
    let written = written?;
    let lines = memchr::memchr_iter(b'\n', written.string_bytes().unwrap_or_default()).count();
    machine.charge(lines as u64 * STEPS_PER_LINE)?;
    Ok(written)
}

/// An empty string for a value that Helm cannot encode either.
fn empty_on_error(written: Result<String, EncodeError>) -> FormatResult {
    match written {
        Err(EncodeError::Unsupported(_)) => Ok("".into()),
        written => fail_on_error(written),
    }
}

fn fail_on_error(written: Result<String, EncodeError>) -> FormatResult {
    Ok(written?.into())
}

/// Encodes as TOML. An encoding error becomes the result text.
fn to_toml(args: &[Value], profile: Profile) -> FormatResult {
    match toml::write(toml_document(args)?, profile) {
        Err(EncodeError::Unsupported(why)) => Ok(Value::String(why)),
        written => fail_on_error(written),
    }
}

fn toml_document(args: &[Value]) -> Result<&Value, Str> {
    if args[0].is_nil() {
        return Err("reflect: call of reflect.Value.Type on zero Value".into());
    }
    Ok(&args[0])
}

fn from_toml(machine: &mut Machine<'_>, args: &[Value], profile: Profile) -> FormatResult {
    let (clock, budget) = (machine.env.clock, machine.budget());
    read(machine, args, |text| Ok(toml::parse(text, profile, clock, budget).unwrap_or_else(error).into()))
}

/// Steps to decode any text; each byte costs one more.
const STEPS_TO_DECODE: u64 = 50;

/// Decodes a text. The result can be much larger than the text, since two bytes can be one list element. The memory is checked
/// before decoding and counted after it.
fn read(
    machine: &mut Machine<'_>,
    args: &[Value],
    parse: impl FnOnce(&[u8]) -> Result<Value, Str>,
) -> FormatResult {
    const MOST_PER_BYTE: usize = 32;
    const PER_VALUE: usize = 4;
    let text = args[0].string_bytes().unwrap_or_default();
    machine.charge(STEPS_TO_DECODE + text.len() as u64)?;
    machine.check_memory(text.len().saturating_mul(MOST_PER_BYTE))?;
    let value = parse(text)?;
    // A parser that exceeded the budget may have reported it as a syntax error; this check fails again.
    machine.charge(0)?;
    machine.charge_bytes(value.extent().saturating_mul(PER_VALUE))?;
    Ok(value)
}

fn map_or_error(read: Result<Members, Str>) -> Value {
    read.map_or_else(|why| error(why).into(), |members| Value::from(&Data::Map(members)))
}

fn list_or_error(read: Result<Vec<Data>, Str>) -> Value {
    read.map_or_else(|why| List::any([Value::String(why)]).into(), |items| Value::from(&Data::List(items)))
}

/// Decodes a map. On a type error, the members decoded so far stay beside `Error`.
fn json_map(text: &[u8]) -> Value {
    match json::parse_partial(text) {
        Ok((Data::Null, None)) => Map::nil(),
        Ok((data @ Data::Map(_), unfit)) => {
            let value = Value::from(&data);
            if let (Value::Map(map), Some(why)) = (&value, unfit) {
                map.insert("Error", Value::String(why));
            }
            return value;
        }
        Ok((data, unfit)) => error(json::mismatch(&with_overflowed_number(data, unfit.as_ref()), MAP_TYPE)),
        Err(why) => error(why),
    }
    .into()
}

fn json_list(text: &[u8]) -> Value {
    let why = match json::parse_partial(text) {
        Ok((Data::Null, None)) => return List::nil().into(),
        Ok((data @ Data::List(_), None)) => return Value::from(&data),
        Ok((Data::List(_), Some(why))) | Err(why) => why,
        Ok((data, unfit)) => json::mismatch(&with_overflowed_number(data, unfit.as_ref()), LIST_TYPE),
    };
    List::any([Value::String(why)]).into()
}

/// A top-level number too large for a float is still a number.
fn with_overflowed_number(data: Data, unfit: Option<&Str>) -> Data {
    if data == Data::Null && unfit.is_some() { Data::Float(f64::INFINITY) } else { data }
}

fn error(why: Str) -> Map {
    Map::from_entries([("Error".into(), Value::String(why))])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use crate::env::RenderEnv;
    use crate::exec::Templates;
    use crate::functions::table;

    fn call(profile: Profile, name: &str, argument: Value) -> Result<String, Str> {
        let mut rows = FUNCTIONS.iter().chain(if profile == Profile::Helm3 { HELM3_FUNCTIONS } else { &[] });
        let run = rows.rfind(|row| row.0 == name).map(|row| row.3);
        let functions = table(profile);
        let budget = Budget::default();
        let mut machine = Machine::new(Templates::default(), &functions, RenderEnv::NULL, &budget);
        let value = match run {
            Some(FunctionBody::Plain(run)) => run(&[argument]),
            Some(FunctionBody::Machine(run)) => run(&mut machine, &[argument]),
            _ => panic!("{name}"),
        };
        value.map(|value| crate::go::print(&value))
    }

    /// Results of Helm 3.17.3 and 4.3.1, as Go prints them.
    #[test]
    fn encoding_and_decoding_errors_match_helm() {
        let complex = || Value::Complex(0.0, 1.0);
        let (three, four) = (Profile::Helm3, Profile::Helm4);
        let yaml = "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal";
        let table: &[(Profile, &str, Value, Result<&str, &str>)] = &[
            (four, "toYaml", complex(), Ok("")),
            (
                four,
                "mustToYaml",
                complex(),
                Err("error marshaling into JSON: json: unsupported type: complex128"),
            ),
            (four, "toYamlPretty", complex(), Err("cannot marshal type: complex128")),
            (four, "toJson", complex(), Ok("")),
            (four, "toPrettyJson", complex(), Ok("")),
            (four, "mustToJson", complex(), Err("json: unsupported type: complex128")),
            (four, "toRawJson", complex(), Err("json: unsupported type: complex128")),
            (three, "toToml", complex(), Ok("unsupported type for key '': complex128")),
            (three, "toToml", Value::Nil, Err("reflect: call of reflect.Value.Type on zero Value")),
            (three, "toToml", Value::Float(1e6), Ok("1000000.0")),
            (four, "toToml", Value::Float(1e6), Ok("1e+06")),
            (
                four,
                "mustToToml",
                List::any([Value::Nil]).into(),
                Err("toml: cannot encode array with nil element"),
            ),
            (four, "fromYaml", "".into(), Ok("map[]")),
            (
                four,
                "fromYaml",
                "[]".into(),
                Ok(&format!("map[Error:{yaml} array into Go value of type map[string]interface {{}}]")),
            ),
            (
                four,
                "fromYamlArray",
                "x".into(),
                Ok(&format!("[{yaml} string into Go value of type []interface {{}}]")),
            ),
            (four, "fromJson", "".into(), Ok("map[Error:unexpected end of JSON input]")),
            (
                four,
                "fromJsonArray",
                "{}".into(),
                Ok("[json: cannot unmarshal object into Go value of type []interface {}]"),
            ),
            (four, "mustFromJson", "x".into(), Err("invalid character 'x' looking for beginning of value")),
            (
                three,
                "fromToml",
                "a=\"\\e\"".into(),
                Ok("map[Error:toml: line 1 (last key \"a\"): invalid escape in string '\\e']"),
            ),
            (four, "fromToml", "a=\"\\e\"".into(), Ok("map[a:\u{1b}]")),
        ];
        for (profile, name, argument, expected) in table {
            let done = call(*profile, name, argument.clone());
            assert_eq!(done.as_deref().map_err(AsRef::as_ref), *expected, "{profile:?} {name}");
        }
    }

    #[test]
    fn helm3_lacks_two_functions() {
        use crate::parse::FunctionResolver;
        for name in ["mustToYaml", "mustToToml"] {
            assert!(table(Profile::Helm3).find(name).is_none());
            assert!(table(Profile::Helm4).find(name).is_some());
        }
    }
}
