//! Real charts use far less than their limits.

use std::path::Path;
use std::sync::Mutex;

use helm_template::exec::Limits;
use helm_template::profile::Profile;

use crate::ours;
use crate::parity::{Chart, for_each, index};
use crate::real::{corpus, said};

/// The step limit must exceed the costliest chart by this factor.
const ROOM: u64 = 5;

#[test]
fn charts_stay_far_below_the_limit() {
    let Some(corpus) = corpus() else { return };
    let folder = corpus.join("charts/dev");
    let limits = Limits::default();
    let limits = Limits { steps: limits.steps / ROOM, ..limits };
    let refused = Mutex::new(Vec::new());
    for_each(&index(&folder), |chart| {
        if let Some(why) = refusal(&folder, chart, limits) {
            refused.lock().unwrap().push(format!("{}: {why}", chart.id));
        }
    });
    let refused = refused.into_inner().unwrap();
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

#[test]
#[ignore = "prints a table for people; asked for by name"]
fn largest() {
    let Some(corpus) = corpus() else { return };
    let folder = corpus.join("charts/dev");
    let shares = Mutex::new(Vec::new());
    for_each(&index(&folder), |chart| {
        let limits = Limits::default();
        let fits = |limits| refusal(&folder, chart, limits).is_none();
        let steps = least(limits.steps, |steps| fits(Limits { steps, ..limits }));
        let output = least(limits.memory as u64, |output| {
            fits(Limits { memory: usize::try_from(output).unwrap(), ..limits })
        });
        shares.lock().unwrap().push((chart.id.clone(), steps, output));
    });
    let mut shares = shares.into_inner().unwrap();
    said("| chart | steps | bytes |\n|---|---|---|");
    shares.sort_by_key(|(_, steps, _)| std::cmp::Reverse(*steps));
    let row = |(id, steps, output): &(String, u64, u64)| said(&format!("| {id} | {steps} | {output} |"));
    shares.iter().take(8).for_each(row);
    shares.sort_by_key(|(.., output)| std::cmp::Reverse(*output));
    shares.iter().take(4).for_each(row);
}

/// The limit error of the chart, if any.
fn refusal(folder: &Path, chart: &Chart, limits: Limits) -> Option<String> {
    let printed = ours::template_within(folder, &chart.arguments(), Profile::Helm4, limits);
    printed.stderr.contains("too much").then_some(printed.stderr)
}

/// The smallest sufficient number.
fn least(most: u64, enough: impl Fn(u64) -> bool) -> u64 {
    let mut high = 1_000.min(most);
    while high < most && !enough(high) {
        high = (high * 4).min(most);
    }
    let mut low = high / 4;
    while low < high {
        let middle = low.midpoint(high);
        if enough(middle) { high = middle } else { low = middle + 1 }
    }
    high
}
