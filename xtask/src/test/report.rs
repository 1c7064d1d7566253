//! Results of tests, read from libtest's output, and their summary.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

/// Number of tests in the list of the slowest.
const SLOWEST_COUNT: usize = 20;

#[derive(Clone, Debug, PartialEq)]
pub struct TestResult {
    pub name: String,
    pub passed: bool,
    pub duration: Duration,
}

/// Results of several binaries.
#[derive(Debug, Default)]
pub struct Report {
    /// By label of the binary and name of the test.
    results: Vec<(String, TestResult)>,
    /// By label of the binary: tests that lacked a tool, a corpus or a target.
    skipped: BTreeMap<String, BTreeSet<String>>,
}

impl Report {
    pub fn add(&mut self, label: &str, results: Vec<TestResult>, skipped: Vec<String>) {
        self.results.extend(results.into_iter().map(|result| (label.to_owned(), result)));
        if !skipped.is_empty() {
            self.skipped.entry(label.to_owned()).or_default().extend(skipped);
        }
    }

    pub fn extend(&mut self, other: Self) {
        self.results.extend(other.results);
        for (label, names) in other.skipped {
            self.skipped.entry(label).or_default().extend(names);
        }
    }

    /// Tests that were skipped, by binary.
    pub fn skipped_tests(&self) -> &BTreeMap<String, BTreeSet<String>> {
        &self.skipped
    }

    pub fn failures(&self) -> Vec<String> {
        let failed = self.results.iter().filter(|(_, result)| !result.passed);
        failed.map(|(label, result)| format!("{label} {}", result.name)).collect()
    }

    fn count(&self, of: impl Fn(&str) -> bool) -> Counts {
        let mut counts = Counts::default();
        for (label, result) in self.results.iter().filter(|(label, _)| of(label)) {
            let is_skipped = self.skipped.get(label).is_some_and(|names| names.contains(&result.name));
            match (result.passed, is_skipped) {
                (false, _) => counts.failed += 1,
                (true, true) => counts.skipped += 1,
                (true, false) => counts.passed += 1,
            }
        }
        counts
    }

    /// The counts of the binaries whose label begins with `prefix`.
    pub fn summary(&self, prefix: &str) -> String {
        self.count(|label| label.starts_with(prefix)).to_string()
    }

    /// The slowest tests, slowest first.
    pub fn slowest(&self) -> String {
        let mut results: Vec<_> = self.results.iter().collect();
        results.sort_by_key(|(_, result)| std::cmp::Reverse(result.duration));
        let lines = results.iter().take(SLOWEST_COUNT).map(|(label, result)| {
            format!("  {:>6.1} s  {label} {}\n", result.duration.as_secs_f64(), result.name)
        });
        format!("slowest tests:\n{}", lines.collect::<String>())
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counts {
    passed: usize,
    failed: usize,
    skipped: usize,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { passed, failed, skipped } = self;
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

/// Parses lines such as `test a::b ... ok <0.123s>`. Ignored tests are left out.
pub fn parse_results(stdout: &str) -> Vec<TestResult> {
    stdout.lines().filter_map(parse_result).collect()
}

fn parse_result(line: &str) -> Option<TestResult> {
    let (name, outcome) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let name = name.strip_suffix(" - should panic").unwrap_or(name);
    let (word, took) = outcome.split_once(" <").unwrap_or((outcome, ""));
    let passed = match word {
        "ok" => true,
        "FAILED" => false,
        _ => return None,
    };
    let seconds = took.strip_suffix("s>").and_then(|text| text.parse().ok()).unwrap_or_default();
    Some(TestResult { name: name.to_owned(), passed, duration: Duration::from_secs_f64(seconds) })
}

/// Parses lines such as `skipped: a::b: LONGSHORE_KUBECTL names no program` and returns the names of the tests.
pub fn skipped(stderr: &str) -> Vec<String> {
    let named = stderr.lines().filter_map(|line| line.strip_prefix("skipped: ")?.split_once(": "));
    named.map(|(name, _)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "running 4 tests\ntest a::b ... ok <0.250s>\ntest c - should panic ... ok <0.001s>\n\
                          test d ... FAILED <1.500s>\ntest e ... ignored\ntest result: FAILED. 2 passed; 1 failed;\n";

    #[test]
    fn parse_results_reads_names_outcomes_and_times() {
        let read = parse_results(OUTPUT);
        let brief: Vec<_> =
            read.iter().map(|r| (r.name.as_str(), r.passed, r.duration.as_millis())).collect();
        assert_eq!(brief, [("a::b", true, 250), ("c", true, 1), ("d", false, 1500)]);
    }

    #[test]
    fn skipped_tests_count_as_skipped_and_not_as_passed() {
        let mut report = Report::default();
        report.add(
            "x",
            parse_results(OUTPUT),
            skipped("skipped: a::b: no helm\nskipped: a::b: no kubectl\n"),
        );
        report.add("y", parse_results("test a ... ok <0.1s>"), Vec::new());
        assert_eq!(report.summary(""), "2 passed, 1 failed, 1 skipped");
        assert_eq!(report.summary("y"), "1 passed, 0 failed, 0 skipped");
        assert_eq!(report.failures(), ["x d"]);
        assert!(report.slowest().starts_with("slowest tests:\n     1.5 s  x d\n"));
    }
}
