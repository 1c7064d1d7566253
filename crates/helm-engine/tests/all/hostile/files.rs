//! Attacks by files in a chart.

use super::templates::nested_loops;
use super::{Attack, AttackChart, CHART_YAML, HostileCase};
use helm_template::profile::Profile;

/// A chart with a file of this size and a template.
fn with_file(bytes: usize, template: &str) -> Attack {
    let files = [
        ("Chart.yaml".to_owned(), CHART_YAML.into()),
        ("big.bin".to_owned(), vec![0xff; bytes]),
        ("templates/a.yaml".to_owned(), template.into()),
    ];
    Attack { chart: AttackChart::Files(files.into()), sources: Vec::new(), profile: Profile::Helm4 }
}

fn case(name: &str, said: &str, bytes: usize, template: &str) -> HostileCase {
    let template = template.to_owned();
    HostileCase::new(&format!("files: {name}"), &["evil/templates/a.yaml", said], move || {
        with_file(bytes, &template)
    })
}

/// A case with many files that a template only iterates over.
fn many_files_case(name: &str, template: &str) -> HostileCase {
    let template = template.to_owned();
    let said = ["evil/templates/a.yaml", "too much"];
    HostileCase::new(&format!("files: {name}"), &said, move || many_files_attack(20_000, &template))
}

/// A chart with many files and one template.
fn many_files_attack(count: usize, template: &str) -> Attack {
    let mut files: Vec<_> = (0..count).map(|n| (format!("f/{n}"), Vec::new())).collect();
    files.push(("Chart.yaml".to_owned(), CHART_YAML.into()));
    files.push(("templates/a.yaml".to_owned(), template.into()));
    Attack { chart: AttackChart::Files(files), sources: Vec::new(), profile: Profile::Helm4 }
}

/// A file that is small once, and large when repeated a hundred times.
const SMALL_FILE_LEN: usize = 2 << 20;
const LARGE_FILE_LEN: usize = 60 << 20;

#[rustfmt::skip]
pub fn cases() -> Vec<HostileCase> {
    let hundred = ".Files ".repeat(100);
    vec![
        case("shown", "too much memory", LARGE_FILE_LEN, "{{ .Files }}"),
        case("printed", "too much memory", LARGE_FILE_LEN, "{{ print .Files }}"),
        case("as a key", "too much memory", LARGE_FILE_LEN, "{{ dict .Files 1 | len }}"),
        case("in a list, printed", "too much memory", SMALL_FILE_LEN, &format!("{{{{ print (list {hundred}) | len }}}}")),
        case("in a list, shown", "a value without end cannot be printed", SMALL_FILE_LEN, &format!("{{{{ list {hundred} }}}}")),
        case("in a list, joined", "too much memory", SMALL_FILE_LEN, &format!("{{{{ join \"\" (list {hundred}) | len }}}}")),
        case("in a list, quoted", "too much memory", SMALL_FILE_LEN, &format!("{{{{ quote (list {hundred}) | len }}}}")),
        case("in a list as a key", "too much memory", SMALL_FILE_LEN, &format!("{{{{ dict (list {hundred}) 1 | len }}}}")),
        case("with all else, printed", "too much memory", LARGE_FILE_LEN, "{{ print . }}"),
        many_files_case("found again and again", &nested_loops("1", r#"$_ := $.Files.Glob "**""#)),
        many_files_case("gone into again and again", &nested_loops("1", "range $.Files }}{{ break }}{{ end")),
        many_files_case("counted again and again", &nested_loops("1", "$_ := len $.Files")),
        many_files_case("compared again and again", &nested_loops("1", r#"$_ := deepEqual $.Files ($.Files.Glob "f/*")"#)),
        case("read again and again", "too much", SMALL_FILE_LEN, &nested_loops("1", r#"$_ := $.Files.Lines "big.bin""#)),
        case("as secrets again and again", "too much", LARGE_FILE_LEN, &nested_loops("1", "$_ := $.Files.AsSecrets")),
        case("as JSON again and again", "", LARGE_FILE_LEN, &nested_loops("1", "$_ := toJson $.Files")),
    ]
}
