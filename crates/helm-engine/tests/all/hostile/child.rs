//! Runs one case in a child process.

use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use super::{HostileCase, cases, render};

/// Environment variable that names the case of the child process.
const CASE_VAR: &str = "LONGSHORE_HOSTILE_CASE";

/// Timeout for cases that do not end. Every case takes less than a tenth of it on any machine.
const CASE_TIMEOUT: Duration = Duration::from_mins(1);

/// Prefix of the answer's line.
const ANSWER_PREFIX: &str = "@@hostile@@";

/// Prefixes of answers that report a failed process.
pub const FAILED: [&str; 2] = ["CRASHED", "DID NOT END"];

pub struct Cost {
    pub millis: u128,
    /// CPU time in milliseconds.
    pub cpu_millis: u64,
    /// Peak memory in bytes beyond the initial usage.
    pub memory: usize,
    pub answer: String,
}

/// Runs the case in a child process; a crash is reported as an answer.
pub fn run(case: &HostileCase) -> Cost {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["hostile::child::one_case", "--exact", "--ignored", "--nocapture"])
        .env(CASE_VAR, &case.name)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let id = child.id();
    let (done, waiting) = mpsc::channel();
    std::thread::spawn(move || done.send(child.wait_with_output()));
    let Ok(child) = waiting.recv_timeout(CASE_TIMEOUT) else {
        let _ = Command::new("kill").args(["-9", &id.to_string()]).status();
        let answer = format!("DID NOT END within {} s", CASE_TIMEOUT.as_secs());
        return Cost { millis: CASE_TIMEOUT.as_millis(), cpu_millis: 0, memory: 0, answer };
    };
    let child = child.unwrap();
    let printed = String::from_utf8_lossy(&child.stdout);
    let Some((_, line)) = printed.split_once(ANSWER_PREFIX) else {
        let said = String::from_utf8_lossy(&child.stderr);
        let answer = format!("CRASHED with {}: {said}", child.status);
        return Cost { millis: 0, cpu_millis: 0, memory: 0, answer };
    };
    let mut parts = line.trim_end().splitn(5, '\t').skip(1);
    let mut next = || parts.next().unwrap_or_default();
    let (millis, busy) = (next().parse().unwrap_or_default(), next().parse().unwrap_or_default());
    let memory = next().parse().unwrap_or_default();
    let answer = next().rsplit_once("\t@@").map_or("", |(answer, _)| answer).to_owned();
    Cost { millis, cpu_millis: busy, memory, answer }
}

#[test]
#[ignore = "started by the tests that mean it"]
fn one_case() {
    let Ok(which) = std::env::var(CASE_VAR) else { return };
    let case = cases().into_iter().find(|case| case.name == which).unwrap();
    let attack = (case.build_attack)();
    // Resets the peak counter.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let before = kilobytes("VmRSS:");
    let (start, worked) = (Instant::now(), nanoseconds());
    let answer = match render(attack) {
        Ok(text) => format!("ok, {} bytes", text.len()),
        Err(why) => why,
    };
    let (millis, busy) = (start.elapsed().as_millis(), (nanoseconds() - worked) / 1_000_000);
    let memory = kilobytes("VmHWM:").saturating_sub(before) << 10;
    println!("{ANSWER_PREFIX}\t{millis}\t{busy}\t{memory}\t{answer}\t@@");
}

/// A memory figure of this process from Linux; zero elsewhere.
pub fn kilobytes(of: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(of)).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().unwrap_or_default()
}

/// CPU time of this thread.
pub fn nanoseconds() -> u64 {
    let time = Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap();
    time.as_nanos().try_into().unwrap()
}
