//! Public charts, compared byte for byte.

use std::collections::HashSet;
use std::io::Read;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use flate2::read::GzDecoder;
use helm_template::profile::Profile;

use crate::helm_program::{corpus, print_uncaptured};
use crate::longshore;

#[test]
fn charts_match_helm3() {
    check(Profile::Helm3, "golden", "mask");
}

#[test]
fn charts_match_helm4() {
    check(Profile::Helm4, "golden4", "golden4.mask");
}

/// Row of the corpus index.
pub struct CorpusChart {
    pub id: String,
    values: Option<String>,
}

impl CorpusChart {
    /// Arguments of `template`.
    pub fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["x".to_owned(), format!("{}.tgz", self.id)];
        if let Some(values) = &self.values {
            arguments.extend(["-f".to_owned(), values.clone()]);
        }
        arguments
    }
}

fn check(profile: Profile, golden: &str, mask: &str) {
    let Some(corpus) = corpus() else { return };
    let folder = corpus.join("charts/dev");
    let charts = index(&folder);
    let different = Mutex::new(Vec::new());
    for_each(&charts, |chart| {
        if let Some(how) = difference(&folder, chart, profile, golden, mask) {
            different.lock().unwrap().push(format!("{}: {how}", chart.id));
        }
    });
    let different = different.into_inner().unwrap();
    print_uncaptured(&format!(
        "{profile:?}: {} of {} charts equal",
        charts.len() - different.len(),
        charts.len()
    ));
    assert!(!charts.is_empty() && different.is_empty(), "{}", different.join("\n"));
}

/// Runs in parallel on all processors.
pub fn for_each(charts: &[CorpusChart], look: impl Fn(&CorpusChart) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(chart) = charts.get(next.fetch_add(1, Ordering::Relaxed)) {
                    look(chart);
                }
            });
        }
    });
}

pub fn index(folder: &Path) -> Vec<CorpusChart> {
    let text = std::fs::read_to_string(folder.join("INDEX.tsv")).expect("the corpus has an index");
    let mut rows = text.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let head = rows.next().expect("the index has a head");
    let column = |name| head.iter().position(|word| *word == name).expect("the index has this column");
    let (id, values) = (column("id"), column("values"));
    rows.map(|row| CorpusChart {
        id: row[id].to_owned(),
        values: Some(row[values].to_owned()).filter(|file| file != "-"),
    })
    .collect()
}

/// First difference to the recording, except in masked lines.
fn difference(
    folder: &Path,
    chart: &CorpusChart,
    profile: Profile,
    golden: &str,
    mask: &str,
) -> Option<String> {
    let file = |end: &str| folder.join(format!("{}.{end}", chart.id));
    let mut wanted = Vec::new();
    let packed = std::fs::File::open(file(&format!("{golden}.yaml.gz"))).expect("the chart has a recording");
    GzDecoder::new(packed).read_to_end(&mut wanted).expect("the recording is whole");
    let free: HashSet<usize> = std::fs::read_to_string(file(mask))
        .map(|text| text.split_whitespace().map(|number| number.parse().expect("a line number")).collect())
        .unwrap_or_default();

    let ours = longshore::template(folder, &chart.arguments(), profile);
    if ours.stdout.is_empty() && !wanted.is_empty() {
        return Some(ours.stderr);
    }
    let lines = |text: &[u8]| text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect::<Vec<_>>();
    let (wanted, found) = (lines(&wanted), lines(&ours.stdout));
    if wanted.len() != found.len() {
        return Some(format!("{} lines instead of {}", found.len(), wanted.len()));
    }
    let different = |at: &usize| wanted[*at] != found[*at] && !free.contains(&(at + 1));
    let at = (0..wanted.len()).find(different)?;
    let text = |line: &[u8]| String::from_utf8_lossy(line).into_owned();
    Some(format!("line {}: `{}` instead of `{}`", at + 1, text(&found[at]), text(&wanted[at])))
}
