//! String functions: cutting, padding, joining, comparing.
//!
//! Go's strings are byte strings, and so are these: a cut may fall inside a character. A result that equals its argument shares
//! the argument's allocation.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use memchr::memmem;

use super::arguments::{FunctionResult, bytes, int, printed, text, to_string_value};
use super::words;
use crate::exec::{FunctionBody, FunctionRow, Machine};
use crate::go::{print, quote as go_quote, quote_bytes, unicode};
use crate::value::{List, Map, Str, Type, Value};

const ANY: &[Type] = &[Type::Any];
const TEXT: &[Type] = &[Type::String];
const TWO: &[Type] = &[Type::String, Type::String];
const WIDTH: &[Type] = &[Type::Int, Type::String];

#[rustfmt::skip]
pub(super) const FUNCTIONS: &[FunctionRow] = &[
    ("abbrev",     WIDTH, false, FunctionBody::Plain(words::abbrev)),
    ("abbrevboth", &[Type::Int, Type::Int, Type::String], false, FunctionBody::Plain(words::abbrev_both)),
    ("camelcase",  TEXT,  false, FunctionBody::Plain(|args| Ok(words::camel(&text(&args[0])).into()))),
    ("cat",        ANY,   true,  FunctionBody::Plain(cat)),
    ("contains",   TWO,   false, FunctionBody::Plain(|args| Ok(contains(bytes(&args[1]), bytes(&args[0])).into()))),
    ("hasPrefix",  TWO,   false, FunctionBody::Plain(|args| Ok(bytes(&args[1]).starts_with(bytes(&args[0])).into()))),
    ("hasSuffix",  TWO,   false, FunctionBody::Plain(|args| Ok(bytes(&args[1]).ends_with(bytes(&args[0])).into()))),
    ("hello",      &[],   false, FunctionBody::Plain(|_| Ok("Hello!".into()))),
    ("indent",     WIDTH, false, FunctionBody::Machine(|machine, args| indent(machine, args, ""))),
    ("initials",   TEXT,  false, FunctionBody::Plain(|args| Ok(words::initials(bytes(&args[0])).into()))),
    ("join",       &[Type::String, Type::Any], false, FunctionBody::Machine(join)),
    ("kebabcase",  TEXT,  false, FunctionBody::Plain(|args| Ok(words::join_tokens(&text(&args[0]), '-').into()))),
    ("lower",      TEXT,  false, FunctionBody::Plain(|args| Ok(map_case(&args[0], unicode::to_lower)))),
    ("nindent",    WIDTH, false, FunctionBody::Machine(|machine, args| indent(machine, args, "\n"))),
    ("nospace",    TEXT,  false, FunctionBody::Plain(|args| Ok(words::without_space(&args[0])))),
    ("plural",     &[Type::String, Type::String, Type::Int], false, FunctionBody::Plain(plural)),
    ("quote",      ANY,   true,  FunctionBody::Plain(quote)),
    ("repeat",     WIDTH, false, FunctionBody::Machine(repeat)),
    ("replace",    &[Type::String, Type::String, Type::String], false, FunctionBody::Machine(replace)),
    ("shuffle",    TEXT,  false, FunctionBody::Machine(shuffle)),
    ("snakecase",  TEXT,  false, FunctionBody::Plain(|args| Ok(words::join_tokens(&text(&args[0]), '_').into()))),
    ("sortAlpha",  ANY,   false, FunctionBody::Plain(sort_alpha)),
    ("split",      TWO,   false, FunctionBody::Machine(split_all)),
    ("splitList",  TWO,   false, FunctionBody::Machine(split_list)),
    ("splitn",     &[Type::String, Type::Int, Type::String], false, FunctionBody::Machine(split_n)),
    ("squote",     ANY,   true,  FunctionBody::Plain(single_quote)),
    ("substr",     &[Type::Int, Type::Int, Type::String], false, FunctionBody::Plain(substr)),
    ("swapcase",   TEXT,  false, FunctionBody::Plain(|args| Ok(words::swap_case(&text(&args[0])).into()))),
    ("title",      TEXT,  false, FunctionBody::Plain(|args| Ok(words::title(&text(&args[0])).into()))),
    ("toString",   ANY,   false, FunctionBody::Plain(|args| Ok(to_string_value(&args[0])))),
    ("toStrings",  ANY,   false, FunctionBody::Plain(|args| Ok(to_strings(&args[0]).into()))),
    ("trim",       TEXT,  false, FunctionBody::Plain(trim)),
    ("trimAll",    TWO,   false, FunctionBody::Plain(trim_all)),
    ("trimPrefix", TWO,   false, FunctionBody::Plain(trim_prefix)),
    ("trimSuffix", TWO,   false, FunctionBody::Plain(trim_suffix)),
    ("trimall",    TWO,   false, FunctionBody::Plain(trim_all)),
    ("trunc",      WIDTH, false, FunctionBody::Plain(trunc)),
    ("untitle",    TEXT,  false, FunctionBody::Plain(|args| Ok(words::untitle(&text(&args[0])).into()))),
    ("upper",      TEXT,  false, FunctionBody::Plain(|args| Ok(map_case(&args[0], unicode::to_upper)))),
    ("wrap",       WIDTH, false, FunctionBody::Machine(words::wrap)),
    ("wrapWith",   &[Type::Int, Type::String, Type::String], false, FunctionBody::Machine(words::wrap_with)),
];

fn contains(text: &[u8], part: &[u8]) -> bool {
    memmem::find(text, part).is_some()
}

/// A byte range of a string; the string itself if the range covers all of it.
pub(super) fn substring(of: &Value, range: Range<usize>) -> Value {
    match of {
        whole if range.len() == bytes(whole).len() => whole.clone(),
        Value::String(text) if text.is_char_boundary(range.start) && text.is_char_boundary(range.end) => {
            text.get(range).unwrap_or_default().into()
        }
        cut => Value::string_from_bytes(bytes(cut).get(range).unwrap_or_default().to_vec()),
    }
}

fn trim(args: &[Value]) -> FunctionResult {
    let Value::String(whole) = &args[0] else {
        return Ok(text(&args[0]).trim().into());
    };
    let start = whole.len() - whole.trim_start().len();
    Ok(substring(&args[0], start..start + whole.trim().len()))
}

fn trim_all(args: &[Value]) -> FunctionResult {
    let (of, whole) = (text(&args[0]), text(&args[1]));
    // A set, because both strings can be long.
    let many: HashSet<char> = if of.len() > 16 { of.chars().collect() } else { HashSet::new() };
    let among = |c: char| if many.is_empty() { of.contains(c) } else { many.contains(&c) };
    let start = whole.len() - whole.trim_start_matches(among).len();
    let trimmed = whole.trim_matches(among);
    match &whole {
        Cow::Borrowed(_) => Ok(substring(&args[1], start..start + trimmed.len())),
        Cow::Owned(_) => Ok(trimmed.into()),
    }
}

fn trim_prefix(args: &[Value]) -> FunctionResult {
    let (prefix, whole) = (bytes(&args[0]), bytes(&args[1]));
    let from = if whole.starts_with(prefix) { prefix.len() } else { 0 };
    Ok(substring(&args[1], from..whole.len()))
}

fn trim_suffix(args: &[Value]) -> FunctionResult {
    let (suffix, whole) = (bytes(&args[0]), bytes(&args[1]));
    let to = if whole.ends_with(suffix) { whole.len() - suffix.len() } else { whole.len() };
    Ok(substring(&args[1], 0..to))
}

/// The first bytes of a string; with a negative number, the last.
fn trunc(args: &[Value]) -> FunctionResult {
    let (wanted, length) = (int(&args[0]), bytes(&args[1]).len());
    let size = usize::try_from(wanted.unsigned_abs()).unwrap_or(usize::MAX);
    Ok(match wanted {
        ..0 if size < length => substring(&args[1], length - size..length),
        0.. if size < length => substring(&args[1], 0..size),
        _ => args[1].clone(),
    })
}

fn substr(args: &[Value]) -> FunctionResult {
    let (start, end) = (int(&args[0]), int(&args[1]));
    let length = i64::try_from(bytes(&args[2]).len()).unwrap_or(i64::MAX);
    let beyond = |what: String| Err(Str::from(format!("runtime error: slice bounds out of range {what}")));
    let (start, end) = match (start, end) {
        (..0, ..0) => return beyond(format!("[:{end}]")),
        (..0, end) if end > length => return beyond(format!("[:{end}] with length {length}")),
        (..0, end) => (0, end),
        (start, end) if end < 0 || end > length => (start, length),
        both => both,
    };
    if start > end {
        return beyond(format!("[{start}:{end}]"));
    }
    let place = |n: i64| usize::try_from(n).unwrap_or_default();
    Ok(substring(&args[2], place(start)..place(end)))
}

fn repeat(machine: &mut Machine<'_>, args: &[Value]) -> FunctionResult {
    let times = repeat_count(&args[0])?;
    machine.check_memory(bytes(&args[1]).len().saturating_mul(times))?;
    Ok(match &args[1] {
        Value::String(text) => text.repeat(times).into(),
        other => Value::string_from_bytes(bytes(other).repeat(times)),
    })
}

fn repeat_count(count: &Value) -> Result<usize, Str> {
    usize::try_from(int(count)).map_err(|_| "strings: negative Repeat count".into())
}

fn indent(machine: &mut Machine<'_>, args: &[Value], before: &str) -> FunctionResult {
    let width = repeat_count(&args[0])?;
    let whole = bytes(&args[1]);
    let lines = memchr::memchr_iter(b'\n', whole).count() + 1;
    let size = width.saturating_mul(lines).saturating_add(whole.len() + before.len());
    machine.check_memory(size)?;
    let Value::String(text) = &args[1] else {
        let mut out = Vec::with_capacity(size);
        out.extend_from_slice(before.as_bytes());
        for (at, line) in whole.split(|byte| *byte == b'\n').enumerate() {
            out.extend_from_slice(if at > 0 { b"\n" } else { b"" });
            out.resize(out.len() + width, b' ');
            out.extend_from_slice(line);
        }
        return Ok(Value::string_from_bytes(out));
    };
    let pad = spaces(width);
    let mut out = String::with_capacity(size);
    out.push_str(before);
    out.push_str(&pad);
    let mut from = 0;
    for at in memchr::memchr_iter(b'\n', whole) {
        out.push_str(&text[from..=at]);
        out.push_str(&pad);
        from = at + 1;
    }
    out.push_str(&text[from..]);
    Ok(out.into())
}

fn spaces(width: usize) -> Cow<'static, str> {
    const PAD: &str = "                                                                ";
    PAD.get(..width).map_or_else(|| Cow::Owned(" ".repeat(width)), Cow::Borrowed)
}

fn replace(machine: &mut Machine<'_>, args: &[Value]) -> FunctionResult {
    let (old, new, source) = (bytes(&args[0]), bytes(&args[1]), bytes(&args[2]));
    let places = if old.is_empty() { source.len() + 1 } else { memmem::find_iter(source, old).count() };
    if places == 0 || old == new {
        return Ok(args[2].clone());
    }
    machine.check_memory(source.len().saturating_add(new.len().saturating_mul(places)))?;
    if let (Value::String(old), Value::String(new), Value::String(source)) = (&args[0], &args[1], &args[2]) {
        return Ok(source.replace(old.as_ref(), new).into());
    }
    let mut out = Vec::new();
    for (at, piece) in split(source, old, None).into_iter().enumerate() {
        out.extend_from_slice(if at > 0 || old.is_empty() { new } else { b"" });
        out.extend_from_slice(piece);
    }
    if old.is_empty() {
        out.extend_from_slice(new);
    }
    Ok(Value::string_from_bytes(out))
}

/// A string mapped to another case; the original value if nothing changes.
fn map_case(value: &Value, case: fn(char) -> char) -> Value {
    let whole = text(value);
    if whole.chars().all(|c| case(c) == c) {
        return value.clone();
    }
    whole.chars().map(case).collect::<String>().into()
}

fn quote(args: &[Value]) -> FunctionResult {
    let quoted = |value: &Value| match value {
        Value::Raw(bytes) | Value::Bytes(bytes) => quote_bytes(bytes),
        value => go_quote(&printed(value)),
    };
    Ok(join_spaced(args, quoted).into())
}

fn single_quote(args: &[Value]) -> FunctionResult {
    // Unlike `quote`, `squote` prints bytes as a list of numbers.
    let quoted = |value: &Value| match value {
        Value::String(text) => format!("'{text}'"),
        value => format!("'{}'", print(value)),
    };
    Ok(join_spaced(args, quoted).into())
}

fn cat(args: &[Value]) -> FunctionResult {
    Ok(join_spaced(args, print).into())
}

/// Formats all non-nil arguments, separated by spaces.
fn join_spaced(args: &[Value], form: impl Fn(&Value) -> String) -> String {
    let mut words = args.iter().filter(|arg| arg.is_some()).map(form);
    let mut out = words.next().unwrap_or_default();
    for word in words {
        out.push(' ');
        out.push_str(&word);
    }
    out
}

fn plural(args: &[Value]) -> FunctionResult {
    Ok(args[usize::from(int(&args[2]) != 1)].clone())
}

/// `strings.SplitN`: splits at each separator, or before each character if the separator is empty, into at most `most` parts.
fn split<'t>(text: &'t [u8], separator: &[u8], most: Option<usize>) -> Vec<&'t [u8]> {
    let most = most.unwrap_or(usize::MAX);
    let mut parts = Vec::new();
    if most == 0 {
        return parts;
    }
    let mut from = 0;
    if separator.is_empty() {
        while from < text.len() && parts.len() + 1 < most {
            let to = from + first_char_len(&text[from..]);
            parts.push(&text[from..to]);
            from = to;
        }
        if from < text.len() {
            parts.push(&text[from..]);
        }
        return parts;
    }
    for at in memmem::find_iter(text, separator) {
        if parts.len() + 1 == most {
            break;
        }
        parts.push(&text[from..at]);
        from = at + separator.len();
    }
    parts.push(&text[from..]);
    parts
}

/// The length of the first character in bytes; 1 for invalid UTF-8.
fn first_char_len(text: &[u8]) -> usize {
    let end = text.len().min(4);
    match std::str::from_utf8(&text[..end]) {
        Ok(valid) => valid.chars().next().map_or(1, char::len_utf8),
        Err(error) => {
            let valid = std::str::from_utf8(&text[..error.valid_up_to()]).unwrap_or_default();
            valid.chars().next().map_or(1, char::len_utf8)
        }
    }
}

/// Like [`split`], if the parts fit the budget.
fn split_within_budget<'t>(
    machine: &Machine<'_>,
    text: &'t [u8],
    separator: &[u8],
    most: Option<usize>,
) -> Result<Vec<&'t [u8]>, Str> {
    let parts = split(text, separator, most);
    machine.check_memory(parts.len().saturating_mul(PART_BYTES))?;
    Ok(parts)
}

/// Memory of one part besides its bytes.
const PART_BYTES: usize = 4 * size_of::<Value>();

fn split_all(machine: &mut Machine<'_>, args: &[Value]) -> FunctionResult {
    Ok(numbered_map(split_within_budget(machine, bytes(&args[1]), bytes(&args[0]), None)?))
}

fn split_list(machine: &mut Machine<'_>, args: &[Value]) -> FunctionResult {
    let parts = split_within_budget(machine, bytes(&args[1]), bytes(&args[0]), None)?;
    Ok(List::texts(parts.into_iter().map(|part| Value::string_from_bytes(part.to_vec()))).into())
}

fn split_n(machine: &mut Machine<'_>, args: &[Value]) -> FunctionResult {
    let most = usize::try_from(int(&args[1])).ok();
    Ok(numbered_map(split_within_budget(machine, bytes(&args[2]), bytes(&args[0]), most)?))
}

/// A map of the parts under `_0`, `_1` and so on.
fn numbered_map(parts: Vec<&[u8]>) -> Value {
    let parts = parts.into_iter().enumerate();
    Map::from_strings(
        parts.map(|(at, part)| (format!("_{at}").into(), Value::string_from_bytes(part.to_vec()))),
    )
    .into()
}

/// sprig's `strslice`: the non-nil elements of a list as strings; for any other value, a list of that value.
fn to_strings(value: &Value) -> List {
    match value {
        Value::List(list) if list.is_strings() => list.clone(),
        Value::List(list) => List::texts(list.iter().filter(|item| item.is_some()).map(to_string_value)),
        Value::Bytes(bytes) => List::strings(bytes.iter().map(u8::to_string)),
        Value::Nil | Value::Null => List::strings::<Str>([]),
        value => List::texts([to_string_value(value)]),
    }
}

fn join(machine: &mut Machine<'_>, args: &[Value]) -> FunctionResult {
    let separator = bytes(&args[0]);
    let items = to_strings(&args[1]);
    let between = separator.len().saturating_mul(items.len().saturating_sub(1));
    let size = items.iter().fold(between, |size, item| size.saturating_add(bytes(item).len()));
    machine.check_memory(size)?;
    let mut out = Vec::with_capacity(size);
    for (at, item) in items.iter().enumerate() {
        out.extend_from_slice(if at > 0 { separator } else { b"" });
        out.extend_from_slice(bytes(item));
    }
    Ok(Value::string_from_bytes(out))
}

fn sort_alpha(args: &[Value]) -> FunctionResult {
    if !matches!(args[0], Value::List(_) | Value::Bytes(_)) {
        return Ok(List::texts([to_string_value(&args[0])]).into());
    }
    let mut items = to_strings(&args[0]).to_vec();
    items.sort_by(|a, b| bytes(a).cmp(bytes(b)));
    Ok(List::texts(items).into())
}

/// A random permutation of the characters.
fn shuffle(machine: &mut Machine<'_>, args: &[Value]) -> FunctionResult {
    const STEPS_PER_CHARACTER: u64 = 2;
    const DRAWN_AT_ONCE: usize = 512;
    let text = text(&args[0]);
    machine.charge(text.len() as u64 * STEPS_PER_CHARACTER)?;
    machine.check_memory(text.len().saturating_mul(size_of::<char>()))?;
    let mut characters: Vec<char> = text.chars().collect();
    // Random numbers are drawn in batches: each call to the host takes longer than a swap.
    let (mut drawn, mut used) = ([[0; 8]; DRAWN_AT_ONCE], DRAWN_AT_ONCE);
    for at in (1..characters.len()).rev() {
        if used == drawn.len() {
            let left = drawn.len().min(at);
            machine.env.random.fill(drawn[..left].as_flattened_mut());
            used = 0;
        }
        let chance = drawn[used];
        used += 1;
        // The modulo bias is negligible: a text is short compared with 2^64.
        let other = u64::from_le_bytes(chance) % (at as u64 + 1);
        characters.swap(at, usize::try_from(other).unwrap_or(at));
    }
    Ok(characters.into_iter().collect::<String>().into())
}
