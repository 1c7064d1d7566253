//! Every template function with extreme arguments must answer or fail within the budget.

use std::process::Command;
use std::time::Duration;

use helm_template::exec::RenderLimits;
use helm_template::functions;
use helm_template::profile::Profile;

use super::child::{kilobytes, nanoseconds};
use super::{files, render_within};

/// Extreme numbers, long strings, wide and deep values, and missing values.
const EXTREMES: &[&str] = &[
    "9223372036854775807",
    "-9223372036854775808",
    "0",
    "1e308",
    "\"\"",
    "(repeat 20000 \"a1 .\")",
    "(repeat 5000 \"[[a]]\\n\")",
    "(until 5000)",
    "(dict \"a\" (until 5000))",
    "nil",
];

/// Values tested in pairs; the first ones also in triples.
const PAIR_VALUES: &[&str] = &[
    "9223372036854775807",
    "(repeat 20000 \"a1 .\")",
    "-9223372036854775808",
    "(until 5000)",
    "(dict \"a\" (until 5000))",
];
const TRIPLE_VALUES: &[&str] = PAIR_VALUES.split_at(2).0;

/// Limits of one call, for a debug build on a busy machine.
const MAX_TIME: Duration = Duration::from_secs(5);
const MAX_MEMORY: usize = 512 << 20;

fn calls(name: &str) -> Vec<String> {
    let mut calls = vec![name.to_owned()];
    calls.extend(EXTREMES.iter().map(|a| format!("{name} {a}")));
    for a in PAIR_VALUES {
        calls.extend(PAIR_VALUES.iter().map(|b| format!("{name} {a} {b}")));
    }
    for a in TRIPLE_VALUES {
        for b in TRIPLE_VALUES {
            for c in TRIPLE_VALUES {
                calls.push(format!("{name} {a} {b} {c}"));
            }
        }
    }
    calls
}

/// Runs in a child process, to measure its memory separately.
#[test]
fn functions_with_extreme_arguments_stay_within_the_budget() {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["hostile::extremes::all_calls", "--exact", "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(child.status.success(), "{}\n{}", said(&child.stdout), said(&child.stderr));
    assert!(said(&child.stdout).contains("1 passed"), "{}", said(&child.stdout));
}

#[test]
#[ignore = "started by the test that means it"]
fn all_calls() {
    let limits = RenderLimits { steps: 300_000, memory: 8 << 20, depth: 100 };
    let table = functions::table(Profile::Helm4);
    let mut names: Vec<_> = table.names().collect();
    names.sort_unstable();
    assert!(names.len() > 150, "{}", names.len());
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let before = kilobytes("VmRSS:");
    let mut slow = Vec::new();
    for name in names {
        for call in calls(name) {
            let template = format!("{{{{ $x := {call} }}}}");
            let began = nanoseconds();
            // Only the cost is checked here; other tests check answers.
            let answer = render_within(files(&[("templates/a.yaml", &template)]), limits);
            let took = Duration::from_nanos(nanoseconds() - began);
            if took > MAX_TIME {
                slow.push(format!("{call}: {took:?}"));
            }
            if let Err(why) = answer {
                assert!(why.contains("evil/templates/a.yaml"), "{call}: {why}");
            }
        }
    }
    let grown = kilobytes("VmHWM:").saturating_sub(before) << 10;
    assert!(slow.is_empty(), "{}", slow.join("\n"));
    assert!(grown < MAX_MEMORY, "{} MiB", grown >> 20);
}
