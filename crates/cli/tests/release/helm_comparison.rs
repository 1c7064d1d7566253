//! Runs the same command lines with Longshore and the real Helm, each in its own namespace, and compares the output.

use regex::Regex;
use serde_json::Value;

use crate::harness::{ClusterHarness, Printed};

/// Command lines in order; `NS` is the namespace. `get metadata` without a revision is missing, because Helm also
/// prints the labels by which it finds its records.
const COMMAND_LINES: &[&str] = &[
    "list -n NS",
    "list -n NS -o json",
    "install web CHART -n NS --dry-run=client --hide-secret",
    "install web CHART -n NS --create-namespace --set greeting=hi,list={a,b} -l team=shop,tier=1",
    "install web CHART -n NS",
    "install -n NS CHART",
    "install web CHART -n NS --generate-name",
    "install web ./nowhere -n NS",
    "install bad CHART -n NS --set a=b,c",
    "install Bad_Name CHART -n NS",
    "list -n NS",
    "list -n NS -o json",
    "list -n NS -o yaml",
    "list -n NS -q",
    "list -n NS -q -o json",
    "list -n NS --no-headers",
    "list -n NS --filter ^x",
    "list -n NS --time-format 2006-Jan",
    "list -n NS --time-format Monday -o json",
    "list -n NS -l team=shop -q",
    "list -n NS -l team=other -q",
    "status web -n NS",
    "status web -n NS --revision 1 -o yaml",
    "status none -n NS",
    "upgrade web CHART -n NS --set greeting=bye --description twice",
    "upgrade web CHART -n NS --reuse-values --set replicas=2 --hide-notes",
    "upgrade none CHART -n NS",
    "upgrade --install web CHART -n NS --reset-values -o json",
    "upgrade --install second CHART -n NS --set greeting=second",
    "history web -n NS",
    "history web -n NS --max 2",
    "history web -n NS -o json",
    "history web -n NS -o yaml",
    "history none -n NS",
    "get values web -n NS",
    "get values web -n NS --revision 1",
    "get values web -n NS --revision 1 -o json",
    "get values web -n NS --revision 1 -o yaml",
    "get values web -n NS --revision 2 -a",
    "get values web -n NS --revision 99",
    "get manifest web -n NS",
    "get hooks web -n NS",
    "get notes web -n NS",
    "get metadata web -n NS --revision 4",
    "get metadata web -n NS --revision 1 -o json",
    "get metadata web -n NS --revision 1 -o yaml",
    "get all second -n NS",
    "rollback web 1 -n NS",
    "rollback web 99 -n NS",
    "rollback web x -n NS",
    "rollback none -n NS",
    "history web -n NS --show-rollback-revision",
    "test web -n NS",
    "test web -n NS --filter name=other",
    "test none -n NS",
    "uninstall second -n NS --keep-history",
    "list -n NS --uninstalled -q",
    "uninstall none -n NS",
    "uninstall none -n NS --ignore-not-found",
    "uninstall web -n NS --dry-run",
    "uninstall web -n NS",
    "list -n NS -q",
];

#[tokio::test(flavor = "multi_thread")]
async fn output_matches_helm() {
    let desk = ClusterHarness::new().await;
    let Some(helm) = desk.real_helm() else { return };
    let mut unlike = Vec::new();
    for line in COMMAND_LINES {
        let theirs = normalized(helm.run(&line.replace("NS", "by-helm")).await, "by-helm");
        let ours = normalized(desk.run_longshore(&line.replace("NS", "by-ours")).await, "by-ours");
        if ours != theirs {
            unlike.push(format!("$ {line}\n--- theirs: {theirs:#?}\n--- ours: {ours:#?}"));
        }
    }
    assert!(unlike.is_empty(), "{} of {}:\n{}", unlike.len(), COMMAND_LINES.len(), unlike.join("\n"));
}

/// Output with values that differ between runs replaced, and with sorted JSON members.
fn normalized(printed: Printed, namespace: &str) -> Printed {
    let times = [
        r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}",
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)? \+0000 UTC *",
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z",
        r"(uid|resourceVersion): \S+",
    ];
    let mut output = match serde_json::from_str::<Value>(&printed.output) {
        Ok(mut value) => {
            remove_modification_times(&mut value);
            format!("{value:#}")
        }
        Err(_) => printed.output,
    };
    for pattern in times {
        output = Regex::new(pattern).unwrap().replace_all(&output, "TIME").into_owned();
    }
    // The column is as wide as the time below it, whose trailing zeros are not printed.
    output = Regex::new(r"UPDATED +").unwrap().replace_all(&output, "UPDATED ").into_owned();
    // Helm prints kinds in random order, and the simulated cluster's progress varies.
    output = Regex::new(r"(?s)RESOURCES:\n.*?\n\n(TEST|NOTES)")
        .unwrap()
        .replace(&output, "RESOURCES\n$1")
        .into_owned();
    output = Regex::new(r"(?s)\n  resources:\n.*?\nmanifest:")
        .unwrap()
        .replace(&output, "\nmanifest:")
        .into_owned();
    let own = |text: String| text.replace(namespace, "NS").replace(&" ".repeat(8), " ");
    Printed { output: own(output), error: printed.error.map(own) }
}

/// Helm prints modification times of the chart's files, which Longshore does not store.
fn remove_modification_times(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(remove_modification_times),
        Value::Object(members) => {
            members.retain(|key, _| !key.ends_with("modtime"));
            members.values_mut().for_each(remove_modification_times);
        }
        _ => {}
    }
}
