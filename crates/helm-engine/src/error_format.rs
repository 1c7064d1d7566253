//! Formatting of template errors as Helm shows them.

use helm_template::exec;
use helm_template::parse::ParseError;
use helm_template::profile::Profile;

/// Markers around the message of `fail` and `required`.
const AUTHOR_MESSAGE_MARKERS: (&str, &str) = ("HELM_ERR_START", "HELM_ERR_END");

/// Formats a parse error or an exceeded budget.
pub fn parse_error(file: &str, why: &ParseError) -> String {
    let why = match why {
        ParseError::Syntax(why) => why,
        ParseError::Budget(why) => return format!("parse error in ({file}): {why}"),
    };
    let mut tokens = why.split(": ").skip(1);
    match (tokens.next(), why.rsplit(": ").next()) {
        (Some(place), Some(end)) => format!("parse error at ({place}): {end}"),
        _ => format!("parse error in ({file}): {why}"),
    }
}

/// Formats an execution error.
pub fn exec_error(file: &str, error: &exec::ExecError, profile: Profile) -> String {
    let (text, causes) = error.with_causes();
    let mut tokens = text.splitn(3, ": ").skip(1);
    let (Some(place), Some(rest)) = (tokens.next(), tokens.next()) else {
        return format!("execution error in ({file}): {text}");
    };
    if let Some(said) = author_message(rest) {
        return format!("execution error at ({place}): {said}");
    }
    match profile {
        Profile::Helm3 => text,
        Profile::Helm4 => format_levels(&text, &causes).unwrap_or(text),
    }
}

fn author_message(text: &str) -> Option<&str> {
    let from = text.find(AUTHOR_MESSAGE_MARKERS.0)? + AUTHOR_MESSAGE_MARKERS.0.len();
    let to = text.rfind(AUTHOR_MESSAGE_MARKERS.1)?;
    text.get(from..to)
}

/// One level of a nested error.
#[derive(PartialEq, Eq)]
struct ErrorLevel<'e> {
    place: &'e str,
    /// Template name and expression.
    executing: Option<(&'e str, &'e str)>,
    message: &'e str,
}

/// Helm 4's multi-line format, one block per level. Returns `None` if a level cannot be parsed.
fn format_levels(text: &str, causes: &[usize]) -> Option<String> {
    let mut steps: Vec<ErrorLevel<'_>> = Vec::new();
    for from in std::iter::once(0).chain(causes.iter().copied()) {
        let step = parse_level(text.get(from..)?)?;
        if steps.last() != Some(&step) {
            steps.push(step);
        }
    }
    let mut shown = String::new();
    for ErrorLevel { place, executing, message } in steps {
        if !place.is_empty() {
            shown.extend([place, "\n  "]);
        }
        if let Some((template, expression)) = executing {
            shown.extend(["executing \"", template, "\" at <", expression, ">:\n    "]);
        }
        if !message.is_empty() {
            shown.extend([message, "\n"]);
        }
    }
    Some(shown.trim().to_owned())
}

fn parse_level(text: &str) -> Option<ErrorLevel<'_>> {
    let rest = text.strip_prefix("template: ")?;
    if rest.starts_with("no template ") {
        return Some(ErrorLevel { place: "", executing: None, message: text });
    }
    parse_executing(rest).or_else(|| {
        let (place, message) = rest.rsplit_once(": ")?;
        Some(ErrorLevel { place, executing: None, message: without_cause(message) })
    })
}

fn parse_executing(rest: &str) -> Option<ErrorLevel<'_>> {
    let (place, after) = rest.split_once(": executing ")?;
    let (template, after) = after.strip_prefix('"')?.split_once('"')?;
    let (expression, message) = after.strip_prefix(" at <")?.split_once(">: ")?;
    Some(ErrorLevel { place, executing: Some((template, expression)), message: without_cause(message) })
}

/// The message without its cause.
fn without_cause(message: &str) -> &str {
    message.split_once(" template:").map_or(message, |(first, _)| first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_errors_match_helm() {
        let table = [
            (
                "template: c/templates/a.yaml:1: unclosed action",
                "parse error at (c/templates/a.yaml:1): unclosed action",
            ),
            ("template: a:1: bad character: x: y", "parse error at (a:1): y"),
            ("odd", "parse error in (f): odd"),
        ];
        for (why, wanted) in table {
            assert_eq!(parse_error("f", &ParseError::Syntax(why.into())), wanted);
        }
    }

    #[test]
    fn exec_errors_match_helm() {
        let here = |name: &str, at: &str| format!("template: {name}: executing \"{name}\" at <{at}>: ");
        let plain = exec::ExecError::new(format!("{}nil pointer", here("a:1:2", ".b.c")));
        let nested = plain
            .clone()
            .with_context(format!("{}error calling include: ", here("t:3:4", "include \"a\" .")));
        let said = exec::ExecError::new("HELM_ERR_STARTno\nHELM_ERR_END")
            .with_context(format!("{}error calling fail: ", here("t:1:1", "fail")));
        let leaf =
            exec::ExecError::new("boom").with_context(format!("{}error calling x: ", here("t:1:1", "x")));
        let missing = exec::ExecError::new("template: no template \"x\" associated with template \"gotpl\"")
            .with_context(format!("{}error calling include: ", here("t:1:1", "include")));
        let table = [
            (&plain, Profile::Helm3, plain.to_string()),
            (&plain, Profile::Helm4, "a:1:2\n  executing \"a:1:2\" at <.b.c>:\n    nil pointer".to_owned()),
            (&nested, Profile::Helm3, nested.to_string()),
            (
                &nested,
                Profile::Helm4,
                "t:3:4\n  executing \"t:3:4\" at <include \"a\" .>:\n    error calling include:\na:1:2\n  executing \"a:1:2\" at <.b.c>:\n    nil pointer".to_owned(),
            ),
            (&said, Profile::Helm3, "execution error at (t:1:1): no\n".to_owned()),
            (&said, Profile::Helm4, "execution error at (t:1:1): no\n".to_owned()),
            (&leaf, Profile::Helm4, leaf.to_string()),
            (
                &missing,
                Profile::Helm4,
                "t:1:1\n  executing \"t:1:1\" at <include>:\n    error calling include:\ntemplate: no template \"x\" associated with template \"gotpl\"".to_owned(),
            ),
        ];
        for (error, profile, wanted) in table {
            assert_eq!(exec_error("f", error, profile), wanted);
        }
    }
}
