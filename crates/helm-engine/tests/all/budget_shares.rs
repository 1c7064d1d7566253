//! Real charts use far less than their limits.

use std::path::Path;
use std::sync::Mutex;

use helm_template::exec::RenderLimits;
use helm_template::profile::Profile;

use crate::helm_program::{corpus, print_uncaptured};
use crate::longshore;
use crate::parity::{CorpusChart, for_each, index};

/// The step limit must exceed the costliest chart by this factor.
const MIN_HEADROOM_FACTOR: u64 = 5;

#[test]
fn charts_stay_below_fifth_of_step_limit() {
    let Some(corpus) = corpus() else { return };
    let folder = corpus.join("charts/dev");
    let limits = RenderLimits::default();
    let limits = RenderLimits { steps: limits.steps / MIN_HEADROOM_FACTOR, ..limits };
    let refused = Mutex::new(Vec::new());
    for_each(&index(&folder), |chart| {
        if let Some(why) = limit_error(&folder, chart, limits) {
            refused.lock().unwrap().push(format!("{}: {why}", chart.id));
        }
    });
    let refused = refused.into_inner().unwrap();
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

#[test]
#[ignore = "prints a table for people; asked for by name"]
fn largest_shares() {
    let Some(corpus) = corpus() else { return };
    let folder = corpus.join("charts/dev");
    let shares = Mutex::new(Vec::new());
    for_each(&index(&folder), |chart| {
        let limits = RenderLimits::default();
        let fits = |limits| limit_error(&folder, chart, limits).is_none();
        let steps = smallest_sufficient(limits.steps, |steps| fits(RenderLimits { steps, ..limits }));
        let output = smallest_sufficient(limits.memory as u64, |output| {
            fits(RenderLimits { memory: usize::try_from(output).unwrap(), ..limits })
        });
        shares.lock().unwrap().push((chart.id.clone(), steps, output));
    });
    let mut shares = shares.into_inner().unwrap();
    print_uncaptured("| chart | steps | bytes |\n|---|---|---|");
    shares.sort_by_key(|(_, steps, _)| std::cmp::Reverse(*steps));
    let row = |(id, steps, output): &(String, u64, u64)| {
        print_uncaptured(&format!("| {id} | {steps} | {output} |"));
    };
    shares.iter().take(8).for_each(row);
    shares.sort_by_key(|(.., output)| std::cmp::Reverse(*output));
    shares.iter().take(4).for_each(row);
}

/// The limit error of the chart, if any.
fn limit_error(folder: &Path, chart: &CorpusChart, limits: RenderLimits) -> Option<String> {
    let printed = longshore::template_within(folder, &chart.arguments(), Profile::Helm4, limits);
    printed.stderr.contains("too much").then_some(printed.stderr)
}

/// The smallest sufficient number.
fn smallest_sufficient(most: u64, enough: impl Fn(u64) -> bool) -> u64 {
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
