//! Attacks by files in a chart.

use super::templates::for_ever;
use super::{Attack, CHART_YAML, Case, Packed};
use helm_template::profile::Profile;

/// A chart with a file of this size and a template.
fn with_file(bytes: usize, template: &str) -> Attack {
    let files = [
        ("Chart.yaml".to_owned(), CHART_YAML.into()),
        ("big.bin".to_owned(), vec![0xff; bytes]),
        ("templates/a.yaml".to_owned(), template.into()),
    ];
    Attack { chart: Packed::Files(files.into()), sources: Vec::new(), profile: Profile::Helm4 }
}

fn case(name: &str, said: &str, bytes: usize, template: &str) -> Case {
    let template = template.to_owned();
    Case::new(&format!("files: {name}"), &["evil/templates/a.yaml", said], move || {
        with_file(bytes, &template)
    })
}

/// A case with many files that a template only iterates over.
fn many(name: &str, template: &str) -> Case {
    let template = template.to_owned();
    let said = ["evil/templates/a.yaml", "too much"];
    Case::new(&format!("files: {name}"), &said, move || with_many(20_000, &template))
}

/// A chart with many files and one template.
fn with_many(count: usize, template: &str) -> Attack {
    let mut files: Vec<_> = (0..count).map(|n| (format!("f/{n}"), Vec::new())).collect();
    files.push(("Chart.yaml".to_owned(), CHART_YAML.into()));
    files.push(("templates/a.yaml".to_owned(), template.into()));
    Attack { chart: Packed::Files(files), sources: Vec::new(), profile: Profile::Helm4 }
}

/// A file that is small once, and large when repeated a hundred times.
const SHORT: usize = 2 << 20;
const LONG: usize = 60 << 20;

#[rustfmt::skip]
pub fn cases() -> Vec<Case> {
    let hundred = ".Files ".repeat(100);
    vec![
        case("shown", "too much memory", LONG, "{{ .Files }}"),
        case("printed", "too much memory", LONG, "{{ print .Files }}"),
        case("as a key", "too much memory", LONG, "{{ dict .Files 1 | len }}"),
        case("in a list, printed", "too much memory", SHORT, &format!("{{{{ print (list {hundred}) | len }}}}")),
        case("in a list, shown", "a value without end cannot be printed", SHORT, &format!("{{{{ list {hundred} }}}}")),
        case("in a list, joined", "too much memory", SHORT, &format!("{{{{ join \"\" (list {hundred}) | len }}}}")),
        case("in a list, quoted", "too much memory", SHORT, &format!("{{{{ quote (list {hundred}) | len }}}}")),
        case("in a list as a key", "too much memory", SHORT, &format!("{{{{ dict (list {hundred}) 1 | len }}}}")),
        case("with all else, printed", "too much memory", LONG, "{{ print . }}"),
        many("found again and again", &for_ever("1", r#"$_ := $.Files.Glob "**""#)),
        many("gone into again and again", &for_ever("1", "range $.Files }}{{ break }}{{ end")),
        many("counted again and again", &for_ever("1", "$_ := len $.Files")),
        many("compared again and again", &for_ever("1", r#"$_ := deepEqual $.Files ($.Files.Glob "f/*")"#)),
        case("read again and again", "too much", SHORT, &for_ever("1", r#"$_ := $.Files.Lines "big.bin""#)),
        case("as secrets again and again", "too much", LONG, &for_ever("1", "$_ := $.Files.AsSecrets")),
        case("as JSON again and again", "", LONG, &for_ever("1", "$_ := toJson $.Files")),
    ]
}
