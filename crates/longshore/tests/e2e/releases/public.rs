//! Public charts with `longshore` and with the real Helm 4, one after the other in one namespace. Install, upgrade,
//! rollback, test and uninstall must leave the same objects, and the same records as Helm reads them.
//!
//! The suite runs a fixed subset. `LONGSHORE_CHARTS=all` runs all charts; any other value runs those whose name
//! contains it. The charts come unmodified from `LONGSHORE_CORPUS`.

mod charts;
mod snapshot;

use std::collections::BTreeSet;
use std::env;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use serde_json::{Value, json};

use self::charts::{ACCEPTED_DIFFERENCES, CHARTS, PublicChart};
use self::snapshot::{ClusterView, ObjectRef, Objects, differences, object_refs};
use crate::clients::CliClient;
use crate::target::{only_on_a_real_cluster, report_skipped};

/// Charts processed concurrently; clients mostly wait for the cluster.
const MAX_CONCURRENT_CHARTS: usize = 3;

/// State after a step.
struct StepSnapshot {
    step: &'static str,
    /// Whether the command succeeded. Its error goes to the terminal.
    success: bool,
    objects: Objects,
    /// History and last revision as Helm prints them.
    release_output: String,
}

#[test]
fn objects_and_records_match_helm_4() {
    if !only_on_a_real_cluster() {
        return;
    }
    let Some(folder) = charts_folder() else { return };
    let asked = env::var("LONGSHORE_CHARTS").unwrap_or_default();
    let wanted = |(_, chart): &(usize, &PublicChart)| match asked.as_str() {
        "" => chart.in_subset,
        "all" => true,
        part => chart.id.contains(part),
    };
    let wanted: Vec<(usize, &PublicChart)> = CHARTS.iter().enumerate().filter(wanted).collect();
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..MAX_CONCURRENT_CHARTS {
            scope.spawn(|| {
                while let Some((number, chart)) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let archive = folder.join(format!("{}.tgz", chart.id)).display().to_string();
                    // Release names are unique, because other tests install the same charts and some objects are
                    // cluster-scoped.
                    let differs = compare_lifecycles(chart, &format!("pub{number}"), &archive);
                    found.lock().unwrap().extend(differs);
                }
            });
        }
    });
    let found = found.into_inner().unwrap();
    assert!(found.is_empty(), "{} differences in {} charts\n{}", found.len(), wanted.len(), found.join("\n"));
}

fn charts_folder() -> Option<PathBuf> {
    let corpus = env::var_os("LONGSHORE_CORPUS").map(PathBuf::from).filter(|corpus| corpus.is_dir());
    if corpus.is_none() {
        assert!(env::var("CI").as_deref() != Ok("true"), "LONGSHORE_CORPUS names no folder with charts");
        report_skipped("LONGSHORE_CORPUS names no folder with charts");
    }
    Some(corpus?.join("charts/dev"))
}

/// Runs the life cycle with both programs. Returns the differences.
fn compare_lifecycles(chart: &PublicChart, name: &str, archive: &str) -> Vec<String> {
    let began = Instant::now();
    let Some(kubectl) = CliClient::kubectl() else { return Vec::new() };
    let Some(helm) = kubectl.helm("LONGSHORE_HELM_4_3") else { return Vec::new() };
    let definitions = object_refs(&helm.run(&format!("show crds {archive}")));
    let ours = LifecycleRun { chart, name, archive, program: &kubectl.longshore(), helm: &helm }
        .run(&kubectl, definitions.clone());
    let theirs =
        LifecycleRun { chart, name, archive, program: &helm, helm: &helm }.run(&kubectl, definitions);
    let mut found = Vec::new();
    for (ours, theirs) in ours.iter().zip(&theirs) {
        let mut here = Vec::new();
        let whole = |seen: &StepSnapshot| json!({"ok": seen.success, "objects": seen.objects, "read": lines(&seen.release_output)});
        differences(&whole(ours), &whole(theirs), "", &mut here);
        found.extend(here.into_iter().map(|what| format!("{} {} {what}", chart.id, theirs.step)));
    }
    if let Some(broken) = theirs.iter().find(|seen| !seen.success && seen.step != "test") {
        found.push(format!("{} {}: Helm itself fails", chart.id, broken.step));
    }
    if theirs.len() < 3 || theirs[0].objects == theirs[1].objects {
        found.push(format!("{}: the upgrade changes nothing", chart.id));
    }
    found.retain(|what| !ACCEPTED_DIFFERENCES.iter().any(|excuse| what.contains(excuse.0)));
    let counts: Vec<String> =
        theirs.iter().map(|seen| format!("{} {}", seen.step, seen.objects.len())).collect();
    let took = began.elapsed().as_secs();
    eprintln!("{}: {} differences; {}; {took} s", chart.id, found.len(), counts.join(", "));
    for what in &found {
        eprintln!("  {what}");
    }
    found
}

/// The life cycle of a release by one program. The state is always read with Helm.
struct LifecycleRun<'t> {
    chart: &'t PublicChart,
    name: &'t str,
    archive: &'t str,
    program: &'t CliClient,
    helm: &'t CliClient,
}

impl LifecycleRun<'_> {
    fn command_lines(&self) -> [(&'static str, String); 5] {
        let Self { name, archive, chart: PublicChart { values, change, .. }, .. } = self;
        let wait = "--wait --timeout 2m";
        [
            ("install", format!("install {name} {archive} {wait} {values}")),
            ("upgrade", format!("upgrade {name} {archive} {wait} {values} {change}")),
            ("rollback", format!("rollback {name} 1 {wait}")),
            ("test", format!("test {name} --timeout 2m")),
            ("uninstall", format!("uninstall {name} {wait}")),
        ]
    }

    /// Runs all steps, from an empty namespace to an empty namespace.
    fn run(&self, kubectl: &CliClient, crds: BTreeSet<ObjectRef>) -> Vec<StepSnapshot> {
        for line in self.chart.setup {
            kubectl.run(&line.replace("{name}", self.name));
        }
        let mut places = crds;
        let mut seen = Vec::new();
        for (step, line) in self.command_lines() {
            let said = self.program.try_run(&line, "");
            if !said.success {
                eprintln!("{}: {line}\n{}{}", self.chart.id, said.stdout, said.stderr);
            }
            for part in ["manifest", "hooks"] {
                let line = format!("get {part} {}", self.name);
                places.extend(self::object_refs(&self.helm.try_run(&line, "").stdout));
            }
            let objects = self.with_snapshot(&places, async |look| look.objects().await);
            seen.push(StepSnapshot {
                step,
                success: said.success,
                objects,
                release_output: self.read_release(),
            });
        }
        self.with_snapshot(&places, async |look| look.remove().await);
        seen
    }

    /// History and last revision as Helm reads them, without times.
    fn read_release(&self) -> String {
        let said = |line: String| self.helm.try_run(&line, "").stdout;
        let history = serde_json::from_str(&said(format!("history {} -o json", self.name)));
        let mut history: Vec<Value> = history.unwrap_or_default();
        for revision in &mut history {
            revision["updated"] = json!("*");
        }
        let all = said(format!("get all {}", self.name));
        let times = ["LAST DEPLOYED:", "Last Started:", "Last Completed:"];
        let timeless = all.lines().filter(|line| !times.iter().any(|time| line.contains(time)));
        format!("{}\n{}", Value::Array(history), timeless.collect::<Vec<_>>().join("\n"))
    }

    fn with_snapshot<T: Send>(
        &self,
        places: &BTreeSet<ObjectRef>,
        work: impl AsyncFnOnce(ClusterView) -> T + Send,
    ) -> T {
        let cluster = &self.helm.cluster;
        cluster.block_on(async |client| {
            work(ClusterView { client, namespace: &cluster.namespace, object_refs: places }).await
        })
    }
}

fn lines(text: &str) -> Value {
    text.lines().map(Value::from).collect()
}
