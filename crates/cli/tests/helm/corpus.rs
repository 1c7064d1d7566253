//! Compares commands on real charts with the real Helm.

use std::fs;
use std::path::{Path, PathBuf};

use helm_chart::archive::{ArchiveLimits, read_files};
use helm_template::profile::Profile;

use crate::program::{
    HELMS, Printed, corpus, helm_program, print_uncaptured, run_helm, run_longshore_as, text,
};

/// Sampling intervals of charts: 32 charts for `lint` and `package`, 12 for the others.
const FREQUENT_SAMPLING: usize = 10;
const SPARSE_SAMPLING: usize = 27;

/// Maximum number of Helm runs where its output depends on random order.
const MAX_HELM_RUNS: usize = 12;

/// Unpacks every `step`-th chart into a folder of its own.
fn unpacked(home: &Path, step: usize, from: usize) -> Option<Vec<PathBuf>> {
    let charts = corpus()?;
    let unpack = |archive: &PathBuf| {
        let folder = home.join(archive.file_stem().expect("a name"));
        let packed = fs::read(archive).expect("the chart can be read");
        let found = read_files(&packed, Profile::Helm4, &mut ArchiveLimits::for_profile(Profile::Helm4))
            .expect("a chart");
        for file in found {
            let path = folder.join(&*file.name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("folders can be made");
            fs::write(path, &file.data).expect("files can be written");
        }
        folder
    };
    Some(charts.iter().skip(from).step_by(step).map(unpack).collect())
}

/// Helm lists subcharts, and therefore their CRDs, in random order.
fn sort_subcharts(printed: Printed) -> Printed {
    let mut lines: Vec<_> = printed.output.lines().collect();
    lines.sort_unstable();
    Printed { output: lines.join("\n"), ..printed }
}

/// Compares the output of both for each chart.
fn compare(what: &str, step: usize, arguments: impl Fn(&Path) -> Vec<String>) {
    for (from, helm) in HELMS.into_iter().enumerate() {
        let home = tempfile::tempdir().expect("a folder");
        let Some(program) = helm_program(helm) else { continue };
        let Some(folders) = unpacked(home.path(), step, from) else { return };
        for folder in &folders {
            let arguments = arguments(folder);
            let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
            let ours = sort_subcharts(run_longshore_as(helm, &arguments));
            let ask = || sort_subcharts(run_helm(&program, home.path(), &arguments));
            // Without a trailing newline a file is joined with the next one, whichever it is. Helm is therefore run
            // until it happens to use the same order.
            let expected =
                (1..MAX_HELM_RUNS).map(|_| ask()).find(|theirs| *theirs == ours).unwrap_or_else(ask);
            assert_eq!(ours, expected, "{what} {} as Helm {helm}", folder.display());
        }
        print_uncaptured(&format!("{what}: {} charts as Helm {helm}", folders.len()));
    }
}

#[test]
fn lint_matches_helm() {
    compare("lint", FREQUENT_SAMPLING, |chart| vec!["lint".into(), text(chart).into()]);
}

#[test]
fn show_matches_helm() {
    compare("show all", SPARSE_SAMPLING, |chart| vec!["show".into(), "all".into(), text(chart).into()]);
    compare("show crds", SPARSE_SAMPLING, |chart| vec!["show".into(), "crds".into(), text(chart).into()]);
}

#[test]
fn dependency_list_matches_helm() {
    compare("dependency list", SPARSE_SAMPLING, |chart| {
        vec!["dependency".into(), "list".into(), text(chart).into()]
    });
}

#[test]
fn package_matches_helm() {
    for (from, helm) in HELMS.into_iter().enumerate() {
        let home = tempfile::tempdir().expect("a folder");
        let Some(program) = helm_program(helm) else { continue };
        let Some(folders) = unpacked(home.path(), FREQUENT_SAMPLING, from) else { return };
        for folder in &folders {
            let out = ["ours", "theirs"].map(|who| home.path().join("packed").join(who));
            let pack = |out: &Path, run: &dyn Fn(&[&str]) -> Printed| {
                let mut printed = run(&["package", text(folder), "-d", text(out)]);
                printed.output = printed.output.replace(text(out), "@");
                (printed, take_archive(out))
            };
            let ours = pack(&out[0], &|arguments| run_longshore_as(helm, arguments));
            let theirs = pack(&out[1], &|arguments| run_helm(&program, home.path(), arguments));
            assert_eq!(ours, theirs, "{} as Helm {helm}", folder.display());
        }
        print_uncaptured(&format!("package: {} charts as Helm {helm}", folders.len()));
    }
}

/// Removes the archive from a folder and returns its name, and the names and hashes of its files.
fn take_archive(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.expect("an entry").path();
        let bytes = fs::read(&path).expect("the archive can be read");
        fs::remove_file(&path).expect("the archive can be taken");
        let inner = read_files(&bytes, Profile::Helm4, &mut ArchiveLimits::for_profile(Profile::Helm4))
            .expect("an archive");
        found.push((text(&path).rsplit('/').next().unwrap_or_default().to_owned(), String::new()));
        found.extend(inner.iter().map(|file| (file.name.to_string(), helm_host::sha256(&file.data))));
    }
    // Helm lists subcharts in random order.
    let (mut subcharts, mut packed): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|(name, _)| name.starts_with("charts/"));
    subcharts.sort();
    packed.append(&mut subcharts);
    packed
}

#[test]
fn repo_index_matches_helm() {
    for helm in HELMS {
        let Some(program) = helm_program(helm) else { continue };
        let Some(charts) = corpus() else { return };
        let home = tempfile::tempdir().expect("a folder");
        let folder = home.path().join("charts");
        fs::create_dir_all(folder.join("more")).expect("folders can be made");
        for (number, chart) in charts.iter().step_by(SPARSE_SAMPLING).enumerate() {
            let place = if number % 3 == 0 { folder.join("more") } else { folder.clone() };
            fs::copy(chart, place.join(chart.file_name().expect("a name"))).expect("the chart can be copied");
        }
        let arguments = ["repo", "index", text(&folder), "--url", "https://charts.example.com/stable"];
        let indexed = |printed: Printed| {
            let text = fs::read_to_string(folder.join("index.yaml")).expect("an index");
            let is_time = |line: &&str| !line.contains("created: ") && !line.contains("generated: ");
            (printed, text.lines().filter(is_time).map(str::to_owned).collect::<Vec<_>>())
        };
        let expected = indexed(run_helm(&program, home.path(), &arguments));
        assert_eq!(indexed(run_longshore_as(helm, &arguments)), expected, "as Helm {helm}");
    }
}
