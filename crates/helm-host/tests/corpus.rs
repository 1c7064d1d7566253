//! Charts of the corpus survive a round trip through an archive. Every eighth chart only, because packing is slow in test builds.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::Write;
use std::path::{Path, PathBuf};

use helm_chart::{Chart, File, Loader, archive};
use helm_host::disk::load;
use helm_template::profile::Profile;

#[test]
fn packed_chart_equals_loaded_chart() {
    let corpus = std::env::var_os("LONGSHORE_CORPUS").map(PathBuf::from);
    let Some(charts) = corpus.map(|corpus| corpus.join("charts/dev")).filter(|charts| charts.is_dir()) else {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "LONGSHORE_CORPUS names no folder with charts");
        let line = "skipped: what_is_packed_is_what_was_loaded: LONGSHORE_CORPUS names no folder with charts";
        // Directly to stderr, because captured output is dropped when a test passes.
        let _ = writeln!(std::io::stderr(), "{line}");
        return;
    };
    let listed = std::fs::read_dir(charts).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = listed.filter(|path| path.extension().is_some_and(|end| end == "tgz")).collect();
    paths.sort();
    assert!(!paths.is_empty());
    for (path, profile) in paths.iter().step_by(8).zip([Profile::Helm3, Profile::Helm4].into_iter().cycle()) {
        check_round_trip(path, profile);
    }
}

fn check_round_trip(path: &Path, profile: Profile) {
    let chart = load(path, profile).unwrap_or_else(|error| panic!("{}: {error}", path.display())).chart;
    let packed = archive::write(&chart, profile, 0).unwrap();
    let again = Loader::new(profile).load_archive(&packed).unwrap();
    assert_same_chart(&chart, &again, path);
}

fn assert_same_chart(a: &Chart, b: &Chart, path: &Path) {
    let path = path.display();
    // A chart with API version v1 and no `requirements.yaml` loses the dependencies that its `Chart.yaml` must not have.
    assert_eq!(a.metadata.to_yaml().unwrap(), b.metadata.to_yaml().unwrap(), "{path}");
    assert_eq!(a.values, b.values, "{path}");
    assert_eq!(a.schema, b.schema, "{path}");
    assert_eq!(a.templates, b.templates, "{path}");
    // Files in an archive are in another order than in a directory.
    let sorted = |files: &[File]| {
        let mut files = files.to_vec();
        files.sort_by(|a, b| a.name.cmp(&b.name));
        files
    };
    assert_eq!(sorted(&a.files), sorted(&b.files), "{path}");
    assert_eq!(a.dependencies.len(), b.dependencies.len(), "{path}");
    for (a, b) in a.dependencies.iter().zip(&b.dependencies) {
        assert_same_chart(a, b, Path::new(&format!("{path}")));
    }
}
