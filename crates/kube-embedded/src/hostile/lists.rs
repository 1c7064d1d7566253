//! Lists and maps of any size: for every list and map field of every built-in kind that clients can create, the CPU time of a request grows
//! at most linearly with the number of its elements, and its memory is bounded. `growth` tests the growth with stored objects.
//!
//! Requests are generated from the schema (`samples`). Each field is tested with distinct elements and with one more variant (other
//! elements, another verb, two fields at once) that its name selects; the full-size run tests all variants. Time is the thread's CPU time,
//! so that other tests do not disturb it. Memory is measured in a child process (`child`).

use std::collections::HashSet;
use std::io::Write as _;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::child;
use super::samples::{self, EXISTING, Fill, ListField, RequestKind, SampleRequest, VARIANTS, list_fields};
use crate::access::User;
use crate::cluster::{Cluster, Config};
use crate::schema::builtin;

/// Number of elements in the first measurement, and in the second one, which only suspicious cases get.
const SMALL: usize = 120;
const LARGE: usize = 300;
/// Limits of the time at ten times the size divided by the time at the size: linear is 10, quadratic 100.
const SUSPICIOUS_RATIO: u128 = 11;
const MAX_TIME_RATIO: u128 = 16;
/// Number of measurements in a suspicious case.
const REPETITIONS: usize = 4;
/// Times below this are not suspicious.
const NOISE_TIME: Duration = Duration::from_millis(15);
/// Limits of the full-size run: the largest accepted body, and its cost in a release build.
const FULL_BYTES: usize = 3 * 1024 * 1024 - 4096;
const FULL_TIME: Duration = Duration::from_secs(2);
const FULL_MEMORY: usize = 200 << 20;
/// The full-size run compares times above this with those at a tenth of the size.
const FULL_NOISE: Duration = Duration::from_millis(200);
/// The sampled run in a debug build: a tenth of the size, one of [`SAMPLE_INTERVAL`] fields.
const SAMPLE_BYTES: usize = FULL_BYTES / 10;
const SAMPLE_MEMORY: usize = FULL_MEMORY / 5;
const SAMPLE_INTERVAL: usize = 8;

/// Returns the CPU time of this thread.
pub fn cpu_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

/// A response, and its CPU time.
pub struct TimedResponse {
    pub code: u16,
    pub text: String,
    pub took: Duration,
}

/// A cluster with an object of each kind for updates and patches.
pub struct ListHarness {
    client: kube::Client,
    existing: HashSet<String>,
}

impl ListHarness {
    pub async fn open() -> Self {
        // All work runs on this thread, where its time is measured.
        let config = Config { inline_bytes: usize::MAX, ..Config::default() };
        let cluster = Cluster::open(config).await.unwrap();
        let mut subject = Self { client: cluster.client(User::admin()), existing: HashSet::new() };
        for resource in builtin::resources().iter().filter(|resource| resource.has_verb("create")) {
            let mut object = samples::valid_object(resource);
            object["metadata"]["name"] = EXISTING.into();
            let (path, body) = (samples::collection_path(resource), object.to_string().into_bytes());
            let request = SampleRequest { method: "POST", path, media: "application/json", body };
            if subject.send(request).await.code == 201 {
                subject.existing.insert(resource.kind.to_string());
            }
        }
        subject
    }

    async fn send(&self, request: SampleRequest) -> TimedResponse {
        let SampleRequest { method, path, media, body } = request;
        let request = http::Request::builder().method(method).uri(path).header("content-type", media);
        let request = request.body(body.into()).unwrap();
        let began = cpu_time();
        let answer = self.client.send(request).await.unwrap();
        let code = answer.status().as_u16();
        let body = http_body_util::BodyExt::collect(answer.into_body()).await.unwrap().to_bytes();
        let took = cpu_time().saturating_sub(began);
        TimedResponse { code, text: String::from_utf8_lossy(&body).into_owned(), took }
    }

    /// Whether a request of this variant can reach validation.
    pub fn is_testable(&self, target: &ListField, verb: RequestKind) -> bool {
        matches!(verb, RequestKind::Create | RequestKind::CreatePair | RequestKind::Apply)
            && !target.is_status
            || self.existing.contains(target.resource.kind.as_ref())
    }

    /// Returns the response of one dry run.
    pub async fn send_case(&self, case: &ListCase<'_>, count: usize) -> TimedResponse {
        let request = case.target.request(case.next, case.verb, case.fill, count);
        let answer = self.send(request).await;
        let TimedResponse { code, text, .. } = &answer;
        let is_answered = !matches!(code, 429 | 503 | 504) && !text.contains("panic") && !text.is_empty();
        assert!(is_answered, "{} {code}: {text:.1000}", case.name());
        answer
    }
}

/// A field and the variant of its test.
pub struct ListCase<'a> {
    target: &'a ListField,
    next: &'a ListField,
    verb: RequestKind,
    fill: Fill,
}

impl<'a> ListCase<'a> {
    fn new(all: &'a [ListField], at: usize, (verb, fill): (RequestKind, Fill)) -> Self {
        Self { target: &all[at], next: all.get(at + 1).unwrap_or(&all[at]), verb, fill }
    }

    pub fn name(&self) -> String {
        format!("{} {:?} {:?}", self.target.name(), self.verb, self.fill)
    }

    /// Returns the number of elements for a request of this size.
    pub fn count_for(&self, bytes: usize) -> usize {
        let size = |count: usize| self.target.request(self.next, self.verb, self.fill, count).body.len();
        let each = size(200).saturating_sub(size(100)).max(100) / 100 + 3;
        bytes / each
    }
}

/// Returns the test cases of the field at index `at`: apply, distinct elements and its variant, or all variants.
pub fn cases<'a>(subject: &ListHarness, all: &'a [ListField], at: usize, is_full: bool) -> Vec<ListCase<'a>> {
    let target = &all[at];
    let of_status = [
        (RequestKind::Status, Fill::Distinct),
        (RequestKind::Status, Fill::ControlCharacters),
        (RequestKind::Status, Fill::Huge),
    ];
    let mut variants = match (target.is_status, is_full) {
        (true, true) => of_status.to_vec(),
        (true, false) => vec![of_status[target.hash() % of_status.len()]],
        (false, true) => VARIANTS.to_vec(),
        (false, false) => vec![target.variant()],
    };
    if !target.is_status {
        variants.insert(0, (RequestKind::Create, Fill::Distinct));
    }
    if target.is_associative && !target.is_status {
        variants.push((RequestKind::Apply, Fill::Distinct));
    }
    let possible = variants.into_iter().filter(|(verb, _)| subject.is_testable(target, *verb));
    possible.map(|variant| ListCase::new(all, at, variant)).collect()
}

/// Returns the ratio of the times for ten times as many elements, if it exceeds the limit.
async fn steepness(subject: &ListHarness, case: &ListCase<'_>) -> Option<u128> {
    let ratio = async |small: usize, repetitions: usize| {
        let few = min_time(subject, case, small, repetitions).await;
        let many = min_time(subject, case, 10 * small, repetitions).await;
        (many > NOISE_TIME).then(|| many.as_nanos() / few.as_nanos().max(1))
    };
    ratio(SMALL, 1).await.filter(|&ratio| ratio >= SUSPICIOUS_RATIO)?;
    ratio(LARGE, REPETITIONS).await.filter(|&ratio| ratio >= MAX_TIME_RATIO)
}

/// Returns the least time of several equal requests: controllers run on the same thread during some of them.
async fn min_time(subject: &ListHarness, case: &ListCase<'_>, count: usize, repetitions: usize) -> Duration {
    let mut least = Duration::MAX;
    for _ in 0..repetitions {
        least = least.min(subject.send_case(case, count).await.took);
    }
    least
}

/// Tests every `parts`th field from `part` on, so that several tests share the work.
async fn check_shard(part: usize, parts: usize) {
    let subject = ListHarness::open().await;
    let all = list_fields();
    let mut steep = Vec::new();
    for at in (part..all.len()).step_by(parts) {
        for case in cases(&subject, &all, at, false) {
            if let Some(ratio) = steepness(&subject, &case).await {
                steep.push(format!("{}: {ratio}", case.name()));
            }
        }
    }
    assert!(steep.is_empty(), "time grows faster than the number of elements:\n{}", steep.join("\n"));
}

#[test]
fn targets_include_fields_of_pods_services_metadata_and_status() {
    let names: Vec<_> = list_fields().iter().map(ListField::name).collect();
    for name in [
        "Pod.spec.containers",
        "Pod.spec.containers[].ports",
        "Pod.spec.schedulingGates",
        "Pod.spec.topologySpreadConstraints",
        "Pod.status.containerStatuses",
        "Service.spec.ports",
    ] {
        assert!(names.iter().any(|known| known == name), "{name} is not in {names:#?}");
    }
    assert!(names.iter().any(|name| name.ends_with(".metadata.managedFields")));
    assert!(names.len() > 250, "{}", names.len());
}

/// The generated requests are useful only if they can be decoded and reach the validation of their kind.
#[tokio::test]
async fn generated_requests_reach_validation() {
    let subject = ListHarness::open().await;
    let all = list_fields();
    let mut refused = Vec::new();
    let mut total = 0;
    for at in 0..all.len() {
        for case in cases(&subject, &all, at, false) {
            total += 1;
            let TimedResponse { code, text, .. } = subject.send_case(&case, 3).await;
            if !matches!(code, 200 | 201 | 422) {
                refused.push(format!("{}: {code} {text:.300}", case.name()));
            }
        }
    }
    assert!(subject.existing.len() > 25, "{:?}", subject.existing);
    assert!(refused.len() * 20 < total, "{} of {total}:\n{}", refused.len(), refused.join("\n"));
}

#[tokio::test]
async fn requests_cost_time_linear_in_each_list_even_fields() {
    check_shard(0, 2).await;
}

#[tokio::test]
async fn requests_cost_time_linear_in_each_list_odd_fields() {
    check_shard(1, 2).await;
}

/// Fails with the cases whose time or memory exceeds the limits.
fn assert_bounded(costs: &[child::RequestCost], time: Option<Duration>, memory: usize) {
    let is_over =
        |cost: &&child::RequestCost| time.is_some_and(|most| cost.took > most) || cost.memory > memory;
    let over = costs.iter().filter(is_over);
    let lines: Vec<_> =
        over.map(|cost| format!("{}: {:?}, {} MiB", cost.name, cost.took, cost.memory >> 20)).collect();
    assert!(lines.is_empty(), "over the limits:\n{}", lines.join("\n"));
}

#[test]
fn sampled_requests_use_bounded_memory() {
    let parts: Vec<_> = (0..list_fields().len())
        .filter(|at| list_fields()[*at].hash().is_multiple_of(SAMPLE_INTERVAL))
        .collect();
    let costs = child::run(&child::ChildOrder { fields: parts, bytes: SAMPLE_BYTES, is_full: false });
    assert!(costs.len() > 40, "{}", costs.len());
    assert_bounded(&costs, None, SAMPLE_MEMORY);
}

/// Returns the requests that took much longer than ten requests of a tenth of the size.
fn steep_requests(full: &[child::RequestCost], tenth: &[child::RequestCost]) -> Vec<String> {
    assert_eq!(full.len(), tenth.len());
    let pairs = full.iter().zip(tenth).filter(|(full, tenth)| {
        assert_eq!(full.name, tenth.name);
        full.took > FULL_NOISE && full.took.as_nanos() > MAX_TIME_RATIO * tenth.took.as_nanos()
    });
    pairs
        .map(|(full, tenth)| format!("{}: {:?}, {:?} for a tenth", full.name, full.took, tenth.took))
        .collect()
}

/// Prints the number of requests and the largest costs, each with its field.
fn print_summary(costs: &[child::RequestCost]) {
    let slowest = costs.iter().max_by_key(|cost| cost.took).unwrap();
    let largest = costs.iter().max_by_key(|cost| cost.memory).unwrap();
    writeln!(
        std::io::stdout(),
        "largest requests: {} of {} KiB; at most {} ms ({}) and {} MiB ({})",
        costs.len(),
        FULL_BYTES >> 10,
        slowest.took.as_millis(),
        slowest.name,
        largest.memory >> 20,
        largest.name
    )
    .unwrap();
}

/// For release builds: the largest request of each field, in all variants.
#[test]
#[ignore = "takes many minutes; see docs/testing.md"]
fn largest_requests_are_answered_in_bounded_time_and_memory() {
    let run =
        |at: usize, bytes: usize| child::run(&child::ChildOrder { fields: vec![at], bytes, is_full: true });
    let (mut costs, mut too_steep) = (Vec::new(), Vec::new());
    for at in 0..list_fields().len() {
        let full = run(at, FULL_BYTES);
        // A disturbed measurement is repeated.
        if !steep_requests(&full, &run(at, FULL_BYTES / 10)).is_empty() {
            too_steep.extend(steep_requests(&run(at, FULL_BYTES), &run(at, FULL_BYTES / 10)));
        }
        costs.extend(full);
    }
    // Before the assertions, so that failures have their figures as well.
    print_summary(&costs);
    assert_bounded(&costs, Some(FULL_TIME), FULL_MEMORY);
    assert!(too_steep.is_empty(), "time grows faster than the size:\n{}", too_steep.join("\n"));
}
