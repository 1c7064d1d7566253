//! Runs requests in a child process, so that its peak memory is caused by the requests.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::lists::{ListHarness, cases};
use super::samples::list_fields;

/// Environment variable with the order for the child process.
const ORDER_ENV: &str = "LONGSHORE_HOSTILE_LISTS";
/// Prefix of result lines in the child's output.
const RESULT_PREFIX: &str = "@@hostile@@";
/// Address space of the child process in KiB: a request that needs more ends the child process only.
const MAX_ADDRESS_SPACE_KIB: usize = 8 << 20;

/// The order: indexes of fields in [`targets`], and the size of each request.
pub struct ChildOrder {
    pub fields: Vec<usize>,
    pub bytes: usize,
    pub is_full: bool,
}

/// Cost of one request.
pub struct RequestCost {
    pub name: String,
    pub took: Duration,
    /// Peak memory in bytes, beyond that before the request.
    pub memory: usize,
}

/// Runs an ignored test in a child process with these environment variables; returns its standard output.
pub fn run_test(test: &str, variables: &[(&str, &str)]) -> String {
    let limited = format!("ulimit -v {MAX_ADDRESS_SPACE_KIB}; exec \"$0\" \"$@\"");
    let child = Command::new("sh")
        .args(["-c", &limited])
        .arg(std::env::current_exe().unwrap())
        .args([test, "--exact", "--ignored", "--nocapture"])
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&child.stdout).into_owned();
    let failure = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{test} {variables:?}: {}: {failure}\n{printed}", child.status);
    printed
}

/// Sends the requests of an order in a child process.
pub fn run(order: &ChildOrder) -> Vec<RequestCost> {
    let fields: Vec<_> = order.fields.iter().map(ToString::to_string).collect();
    let order = format!("{}/{}/{}", fields.join(","), order.bytes, order.is_full);
    let printed = run_test("hostile::child::requests_of_one_order", &[(ORDER_ENV, &order)]);
    let lines = printed.lines().filter_map(|line| line.split_once(RESULT_PREFIX));
    let cost = |(_, line): (&str, &str)| {
        let mut parts = line.split('\t');
        let mut next = || parts.next().unwrap();
        let name = next().to_owned();
        RequestCost {
            name,
            took: Duration::from_micros(next().parse().unwrap()),
            memory: next().parse().unwrap(),
        }
    };
    lines.map(cost).collect()
}

#[tokio::test]
#[ignore = "started by the tests that measure memory"]
async fn requests_of_one_order() {
    let Ok(order) = std::env::var(ORDER_ENV) else { return };
    let [fields, bytes, is_full] = order.split('/').collect::<Vec<_>>()[..] else { panic!("{order}") };
    let (bytes, is_full): (usize, bool) = (bytes.parse().unwrap(), is_full.parse().unwrap());
    let subject = ListHarness::open().await;
    let all = list_fields();
    for at in fields.split(',').map(|at| at.parse().unwrap()) {
        for case in cases(&subject, &all, at, is_full) {
            let count = case.count_for(bytes);
            // Resets the peak memory.
            let _ = std::fs::write("/proc/self/clear_refs", "5");
            let before = kilobytes("VmRSS:");
            let answer = subject.send_case(&case, count).await;
            let memory = kilobytes("VmHWM:").saturating_sub(before) << 10;
            // Result line for the parent process.
            writeln!(
                std::io::stdout(),
                "{RESULT_PREFIX}{}\t{}\t{memory}",
                case.name(),
                answer.took.as_micros()
            )
            .unwrap();
        }
    }
}

/// Reads a memory statistic of this process in KiB.
pub fn kilobytes(of: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(of)).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
