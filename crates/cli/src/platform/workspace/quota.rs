//! `longshore workspace quota`: a workspace's quota and its namespaces' shares.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::{Value, json};

use super::WorkspaceArg;
use crate::platform::PlatformError;
use crate::platform::client::Client;
use crate::platform::output::{
    CommandOutput, Format, OutputArgs, align_columns, escape_control, to_json, to_yaml,
};

#[derive(Debug, Args)]
pub struct QuotaArgs {
    #[command(flatten)]
    pub workspace: WorkspaceArg,
    /// Limit of the workspace, such as requests.cpu=4, replacing the current limits; may be repeated (platform
    /// administrators only)
    #[arg(long = "set", value_name = "RESOURCE=AMOUNT", value_parser = amount)]
    pub whole: Vec<(String, String)>,
    /// Share of a namespace, such as acme-test:requests.cpu=1, replacing its current share; may be repeated
    #[arg(long = "share", value_name = "NAMESPACE:RESOURCE=AMOUNT", value_parser = share)]
    pub shares: Vec<(String, (String, String))>,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// `RESOURCE=AMOUNT`
pub fn amount(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, amount)) if !name.is_empty() && !amount.is_empty() => {
            Ok((name.to_owned(), amount.to_owned()))
        }
        _ => Err("must be RESOURCE=AMOUNT, such as requests.cpu=4".to_owned()),
    }
}

fn share(text: &str) -> Result<(String, (String, String)), String> {
    match text.split_once(':') {
        Some((namespace, rest)) if !namespace.is_empty() => Ok((namespace.to_owned(), amount(rest)?)),
        _ => Err("must be NAMESPACE:RESOURCE=AMOUNT, such as acme-test:requests.cpu=1".to_owned()),
    }
}

/// Amounts by resource. A resource given twice is an error.
pub fn unique_amounts<'a>(
    given: impl IntoIterator<Item = &'a (String, String)>,
) -> Result<BTreeMap<&'a str, &'a str>, PlatformError> {
    let mut amounts = BTreeMap::new();
    for (name, amount) in given {
        if amounts.insert(name.as_str(), amount.as_str()).is_some() {
            return Err(PlatformError::Usage(format!("`{name}` is given twice")));
        }
    }
    Ok(amounts)
}

pub async fn run(args: &QuotaArgs, client: &Client) -> Result<CommandOutput, PlatformError> {
    let path = format!("{}/quota", args.workspace.path());
    let answer = match request_body(args)? {
        None => client.get(&path).await?,
        Some(wanted) => client.put(&path, &wanted).await?,
    };
    let out = match args.output.output {
        Some(Format::Json) => to_json(&answer)?,
        Some(Format::Yaml) => to_yaml(&answer)?,
        Some(Format::Name) => format!("{}\n", args.workspace.reference()),
        None => render_quota(&answer, false),
        Some(Format::Wide) => render_quota(&answer, true),
    };
    Ok(CommandOutput { stdout: out, notes: Vec::new() })
}

/// Request body, or `None` if nothing is to be set.
fn request_body(args: &QuotaArgs) -> Result<Option<Value>, PlatformError> {
    let QuotaArgs { workspace: _, whole, shares, output: _ } = args;
    let mut by_namespace = BTreeMap::<&str, Vec<&(String, String)>>::new();
    for (namespace, amount) in shares {
        by_namespace.entry(namespace).or_default().push(amount);
    }
    let mut wanted = json!({});
    if !whole.is_empty() {
        wanted["quota"] = json!(unique_amounts(whole)?);
    }
    for (namespace, given) in by_namespace {
        wanted["shares"][namespace] = json!(unique_amounts(given)?);
    }
    Ok(wanted.as_object().is_some_and(|fields| !fields.is_empty()).then_some(wanted))
}

/// One line per resource; with `wide`, also one per namespace.
fn render_quota(answer: &Value, wide: bool) -> String {
    let mut rows = vec![["RESOURCE", "NAMESPACE", "USED", "LIMIT"].map(str::to_owned).to_vec()];
    let parts = answer["namespaces"].as_array().map(Vec::as_slice).unwrap_or_default();
    let amount = |of: &Value, name: &str| of[name].as_str().map_or("-".to_owned(), escape_control);
    for (name, _) in answer["quota"].as_object().into_iter().flatten() {
        let whole = ["*".to_owned(), amount(&answer["used"], name), amount(&answer["quota"], name)];
        let parts = parts.iter().filter(|part| wide && part["hard"].get(name).is_some());
        let parts = parts
            .map(|part| [amount(part, "name"), amount(&part["used"], name), amount(&part["hard"], name)]);
        rows.extend(
            std::iter::once(whole)
                .chain(parts)
                .map(|cells| [vec![escape_control(name)], cells.to_vec()].concat()),
        );
    }
    if !wide {
        for row in &mut rows {
            row.remove(1);
        }
    }
    align_columns(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_body_contains_only_given_quotas() {
        let args = |whole: &[&str], shares: &[&str]| QuotaArgs {
            workspace: WorkspaceArg { workspace: "acme".to_owned() },
            whole: whole.iter().map(|text| amount(text).unwrap()).collect(),
            shares: shares.iter().map(|text| share(text).unwrap()).collect(),
            output: OutputArgs::default(),
        };
        assert_eq!(request_body(&args(&[], &[])).unwrap(), None);
        assert_eq!(
            request_body(&args(
                &["pods=9", "requests.cpu=4"],
                &["acme-test:pods=1", "acme-b:pods=2", "acme-test:requests.cpu=1"]
            ))
            .unwrap()
            .unwrap(),
            json!({
                "quota": {"pods": "9", "requests.cpu": "4"},
                "shares": {"acme-b": {"pods": "2"}, "acme-test": {"pods": "1", "requests.cpu": "1"}},
            })
        );
        assert!(request_body(&args(&["pods=9", "pods=8"], &[])).is_err());
        assert!(request_body(&args(&[], &["a:pods=9", "a:pods=8"])).is_err());
        for wrong in ["", "pods", "=1", "pods="] {
            assert!(amount(wrong).is_err(), "{wrong}");
            assert!(share(&format!("a:{wrong}")).is_err(), "{wrong}");
        }
        assert!(share("pods=1").is_err());
    }

    #[test]
    fn a_line_for_each_resource() {
        let answer = json!({
            "quota": {"pods": "10", "requests.cpu": "4"},
            "used": {"pods": "3", "requests.cpu": "1500m"},
            "namespaces": [
                {"name": "acme", "hard": {"pods": "8", "requests.cpu": "4"}, "used": {"pods": "3", "requests.cpu": "1500m"}},
                {"name": "acme-test", "hard": {"pods": "2"}, "used": {}},
            ],
        });
        insta::assert_snapshot!(format!("{}\n{}", render_quota(&answer, false), render_quota(&answer, true)));
    }
}
