//! Differential test: generated templates rendered by our engine and by the real Helm programs.
//!
//! Each of [`COUNT`] templates is rendered with its own values, and the output or error is compared with Helm's:
//! normally with its hash in `recorded.txt`, and with Helm itself where available. A differing template is minimized
//! and shown. With `LONGSHORE_RECORD` set the file is regenerated, which is required after every change of the
//! generator.

mod catalogue;
mod generate;
mod term;

use std::collections::HashSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use generate::GeneratedCase;
use helm_template::functions;
use helm_template::profile::Profile;

use crate::helm_program::{self, PROFILES, ProgramOutput};
use crate::longshore;

const SEED: u64 = 1;
const COUNT: usize = 1_000;

/// Expected differences to Helm: a part of Helm's answer, and the reason.
const EXPECTED_DIFFERENCES: &[(&str, &str)] = &[
    ("goroutine stack exceeds", "Helm itself dies of a value that contains itself; we refuse it"),
    ("0xc000", "an address in memory, which is another one in each run"),
];

/// Placeholder for an expected difference.
const EXPECTED_DIFFERENCE: &str = "-";

#[test]
fn generated_templates_match_recording() {
    if std::env::var_os("LONGSHORE_RECORD").is_some() {
        return;
    }
    let recorded = fs::read_to_string(recordings()).unwrap();
    let mut different = String::new();
    let mut count = 0;
    for (number, line) in recorded.lines().enumerate() {
        let case = GeneratedCase::new(SEED, number);
        let words: Vec<_> = line.split(' ').collect();
        let [of, wanted @ ..] = words.as_slice() else { panic!("an empty line") };
        assert_eq!(
            *of,
            hash(&(case.file() + &case.values)),
            "the recordings are of other templates: record anew"
        );
        let folder = unpack(&case);
        for (profile, wanted) in PROFILES.into_iter().zip(wanted) {
            let answer = longshore::template(folder.path(), &arguments(), profile);
            if *wanted != EXPECTED_DIFFERENCE && hash(&decode_output(&answer)) != *wanted {
                writeln!(different, "{}", describe(&case, profile, &decode_output(&answer))).unwrap();
            }
        }
        count += 1;
    }
    assert!(
        different.is_empty(),
        "not as recorded; `cargo xtask test --real` shows what Helm says\n{different}"
    );
    assert!(count >= COUNT, "only {count} templates");
}

#[test]
fn generated_templates_match_helm() {
    let helms = PROFILES.map(helm_program::helm);
    let [Some(third), Some(fourth)] = &helms else { return };
    let next = AtomicUsize::new(0);
    let lines = Mutex::new(vec![String::new(); COUNT]);
    let different = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= COUNT {
                        return;
                    }
                    let case = GeneratedCase::new(SEED, number);
                    let mut line = hash(&(case.file() + &case.values));
                    for (profile, helm) in PROFILES.into_iter().zip([third, fourth]) {
                        let (wanted, found) = helm_and_our_output(&case, profile, helm);
                        write!(line, " {}", wanted.as_deref().map_or(EXPECTED_DIFFERENCE.into(), hash))
                            .unwrap();
                        if wanted.is_some_and(|wanted| wanted != found) {
                            different.lock().unwrap().push((number, profile));
                        }
                    }
                    lines.lock().unwrap()[number] = line;
                }
            });
        }
    });
    if std::env::var_os("LONGSHORE_RECORD").is_some() {
        fs::write(recordings(), lines.into_inner().unwrap().join("\n") + "\n").unwrap();
    }
    let different = different.into_inner().unwrap();
    let shown: Vec<_> = different
        .iter()
        .take(10)
        .map(|(number, profile)| {
            let helm = if *profile == Profile::Helm3 { third } else { fourth };
            let case = minimize(GeneratedCase::new(SEED, *number), *profile, helm);
            let (wanted, found) = helm_and_our_output(&case, *profile, helm);
            describe(&case, *profile, &found) + "\n-- helm:\n" + &wanted.unwrap_or_default()
        })
        .collect();
    assert!(different.is_empty(), "{} of {COUNT} come out otherwise\n{}", different.len(), shown.join("\n"));
}

#[test]
fn every_function_is_generated_or_excluded() {
    let table = functions::table(Profile::Helm4);
    let known: HashSet<_> = table.names().collect();
    let called = catalogue::FUNCTIONS.iter().map(|row| row.0);
    let left_out = catalogue::EXCLUDED_FUNCTIONS.iter().flat_map(|(_, names)| names.iter().copied());
    let names: Vec<_> = called.chain(left_out).collect();
    for name in &names {
        assert!(known.contains(name), "there is no {name}");
    }
    let missing: Vec<_> = known.iter().filter(|name| !names.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Helm's answer, unless the difference is expected, and ours.
fn helm_and_our_output(case: &GeneratedCase, profile: Profile, helm: &Path) -> (Option<String>, String) {
    let folder = unpack(case);
    let wanted = decode_output(&helm_program::template(helm, folder.path(), &arguments()));
    let ours = decode_output(&longshore::template(folder.path(), &arguments(), profile));
    (Some(wanted).filter(|wanted| !EXPECTED_DIFFERENCES.iter().any(|(part, _)| wanted.contains(part))), ours)
}

fn minimize(mut case: GeneratedCase, profile: Profile, helm: &Path) -> GeneratedCase {
    // Terminates, because each round removes one element.
    while let Some(smaller) = case.shrink().into_iter().find(|case| {
        let (wanted, found) = helm_and_our_output(case, profile, helm);
        wanted.is_some_and(|wanted| wanted != found)
    }) {
        case = smaller;
    }
    case
}

fn describe(case: &GeneratedCase, profile: Profile, ours: &str) -> String {
    format!(
        "== template {}, {profile:?}\n{}-- values:\n{}\n-- ours:\n{ours}",
        case.number,
        case.file(),
        case.values
    )
}

/// An answer as text, with the template's output decoded.
fn decode_output(printed: &ProgramOutput) -> String {
    let text = String::from_utf8_lossy(&printed.stdout);
    let encoded = text.lines().find_map(|line| line.strip_prefix("out: \"")?.strip_suffix('"'));
    match encoded.and_then(|text| helm_template::go::base64_decode(text.as_bytes()).ok()) {
        Some(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        None => format!("{text}{}", printed.stderr),
    }
}

fn arguments() -> Vec<String> {
    ["x", "c", "-f", "v.yaml"].map(str::to_owned).to_vec()
}

fn unpack(case: &GeneratedCase) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("c/templates")).unwrap();
    let template = case.file();
    let files: [(&str, &[u8]); 5] = [
        ("c/Chart.yaml", b"apiVersion: v2\nname: c\nversion: 1.2.3\nappVersion: 4.5.6\n"),
        ("c/templates/a.yaml", template.as_bytes()),
        ("c/f.txt", "one\ntwo: 2\n\nthrée\n".as_bytes()),
        ("c/bin", b"\xff\x00x"),
        ("v.yaml", case.values.as_bytes()),
    ];
    for (name, content) in files {
        fs::write(folder.path().join(name), content).unwrap();
    }
    folder
}

fn recordings() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/differential/recorded.txt")
}

/// FNV-1a hash.
fn hash(text: &(impl AsRef<str> + ?Sized)) -> String {
    let start = 0xcbf2_9ce4_8422_2325_u64;
    let hash = text
        .as_ref()
        .bytes()
        .fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{hash:016x}")
}
