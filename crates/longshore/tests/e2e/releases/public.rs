//! Public charts with `longshore` and with the real Helm 4, one after the other in one namespace. Install, upgrade,
//! rollback, test and uninstall must leave the same objects, and the same records as Helm reads them.
//!
//! The suite runs a fixed subset. `LONGSHORE_CHARTS=all` runs all charts; any other value runs those whose name
//! contains it. The charts come unmodified from `LONGSHORE_CORPUS`.

mod charts;
mod seen;

use std::collections::BTreeSet;
use std::env;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use serde_json::{Value, json};

use self::charts::{CHARTS, Chart, EXCUSED};
use self::seen::{Look, Objects, Place, differences, places};
use crate::clients::Client;
use crate::target::{only_on_a_real_cluster, skipped};

/// Charts processed concurrently; clients mostly wait for the cluster.
const LANES: usize = 3;

/// State after a step.
struct Seen {
    step: &'static str,
    /// Whether the command succeeded. Its error goes to the terminal.
    ok: bool,
    objects: Objects,
    /// History and last revision as Helm prints them.
    read: String,
}

#[test]
fn what_we_leave_behind_is_what_helm_4_leaves_behind() {
    if !only_on_a_real_cluster() {
        return;
    }
    let Some(folder) = folder() else { return };
    let asked = env::var("LONGSHORE_CHARTS").unwrap_or_default();
    let wanted = |(_, chart): &(usize, &Chart)| match asked.as_str() {
        "" => chart.daily,
        "all" => true,
        part => chart.id.contains(part),
    };
    let wanted: Vec<(usize, &Chart)> = CHARTS.iter().enumerate().filter(wanted).collect();
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                while let Some((number, chart)) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let archive = folder.join(format!("{}.tgz", chart.id)).display().to_string();
                    // Release names are unique, because other tests install the same charts and some objects are
                    // cluster-scoped.
                    let differs = compare(chart, &format!("pub{number}"), &archive);
                    found.lock().unwrap().extend(differs);
                }
            });
        }
    });
    let found = found.into_inner().unwrap();
    assert!(found.is_empty(), "{} differences in {} charts\n{}", found.len(), wanted.len(), found.join("\n"));
}

fn folder() -> Option<PathBuf> {
    let corpus = env::var_os("LONGSHORE_CORPUS").map(PathBuf::from).filter(|corpus| corpus.is_dir());
    if corpus.is_none() {
        assert!(env::var("CI").as_deref() != Ok("true"), "LONGSHORE_CORPUS names no folder with charts");
        skipped("LONGSHORE_CORPUS names no folder with charts");
    }
    Some(corpus?.join("charts/dev"))
}

/// Runs the life cycle with both programs. Returns the differences.
fn compare(chart: &Chart, name: &str, archive: &str) -> Vec<String> {
    let began = Instant::now();
    let Some(kubectl) = Client::kubectl() else { return Vec::new() };
    let Some(helm) = kubectl.helm("LONGSHORE_HELM_4_3") else { return Vec::new() };
    let definitions = places(&helm.ok(&format!("show crds {archive}")));
    let ours = Turn { chart, name, archive, program: &kubectl.longshore(), helm: &helm }
        .run(&kubectl, definitions.clone());
    let theirs = Turn { chart, name, archive, program: &helm, helm: &helm }.run(&kubectl, definitions);
    let mut found = Vec::new();
    for (ours, theirs) in ours.iter().zip(&theirs) {
        let mut here = Vec::new();
        let whole = |seen: &Seen| json!({"ok": seen.ok, "objects": seen.objects, "read": lines(&seen.read)});
        differences(&whole(ours), &whole(theirs), "", &mut here);
        found.extend(here.into_iter().map(|what| format!("{} {} {what}", chart.id, theirs.step)));
    }
    if let Some(broken) = theirs.iter().find(|seen| !seen.ok && seen.step != "test") {
        found.push(format!("{} {}: Helm itself fails", chart.id, broken.step));
    }
    if theirs.len() < 3 || theirs[0].objects == theirs[1].objects {
        found.push(format!("{}: the upgrade changes nothing", chart.id));
    }
    found.retain(|what| !EXCUSED.iter().any(|excuse| what.contains(excuse.0)));
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
struct Turn<'t> {
    chart: &'t Chart,
    name: &'t str,
    archive: &'t str,
    program: &'t Client,
    helm: &'t Client,
}

impl Turn<'_> {
    fn steps(&self) -> [(&'static str, String); 5] {
        let Self { name, archive, chart: Chart { values, change, .. }, .. } = self;
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
    fn run(&self, kubectl: &Client, crds: BTreeSet<Place>) -> Vec<Seen> {
        for line in self.chart.before {
            kubectl.ok(&line.replace("{name}", self.name));
        }
        let mut places = crds;
        let mut seen = Vec::new();
        for (step, line) in self.steps() {
            let said = self.program.try_with(&line, "");
            if !said.ok {
                eprintln!("{}: {line}\n{}{}", self.chart.id, said.stdout, said.stderr);
            }
            for part in ["manifest", "hooks"] {
                let line = format!("get {part} {}", self.name);
                places.extend(self::places(&self.helm.try_with(&line, "").stdout));
            }
            let objects = self.look(&places, async |look| look.objects().await);
            seen.push(Seen { step, ok: said.ok, objects, read: self.read() });
        }
        self.look(&places, async |look| look.remove().await);
        seen
    }

    /// History and last revision as Helm reads them, without times.
    fn read(&self) -> String {
        let said = |line: String| self.helm.try_with(&line, "").stdout;
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

    fn look<T: Send>(&self, places: &BTreeSet<Place>, work: impl AsyncFnOnce(Look) -> T + Send) -> T {
        let cluster = &self.helm.cluster;
        cluster.wait(async |client| work(Look { client, namespace: &cluster.namespace, places }).await)
    }
}

fn lines(text: &str) -> Value {
    text.lines().map(Value::from).collect()
}
