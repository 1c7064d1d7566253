//! Properties for any input: no chart panics, printed templates parse equally, values merge correctly.

use std::sync::LazyLock;

use helm_chart::values::overlay;
use helm_chart::{File, Loader, archive};
use helm_template::data::{Data, Members};
use helm_template::exec::{Functions, RenderLimits};
use helm_template::functions::table;
use helm_template::parse::{Node, parse};
use helm_template::profile::Profile;
use proptest::prelude::*;

use super::{Attack, AttackChart, CHART_YAML, render_within};

/// A small chart with all features. Mutations of a few bytes must be handled.
const SEED_FILES: [(&str, &str); 8] = [
    (
        "Chart.yaml",
        "apiVersion: v2\nname: seed\nversion: 1.0.0\ndependencies:\n- name: sub\n  version: ^1\n  alias: other\n  condition: other.on\n  import-values: [{child: a, parent: b}]\n",
    ),
    (
        "values.yaml",
        "# comment\na: &x {b: [1, 2.5, \"t\\u00e9xt\"], c: null}\nother: {on: true, <<: *x}\nfolded: >-\n  one\n  two\nglobal:\n  z: |\n    lines\n",
    ),
    (
        "values.schema.json",
        r##"{"type": "object", "properties": {"a": {"$ref": "#/definitions/a"}}, "definitions": {"a": {"required": ["b"], "properties": {"b": {"items": {"type": ["number", "string"]}}}}}}"##,
    ),
    (
        "templates/_helpers.tpl",
        "{{- define \"name\" -}}{{ .Chart.Name | trunc 63 | trimSuffix \"-\" }}{{- end }}",
    ),
    (
        "templates/a.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ include \"name\" . }}\n  annotations: {\"helm.sh/hook\": pre-install, \"helm.sh/hook-weight\": \"-5\"}\ndata:\n{{- range $k, $v := .Values.a }}\n  {{ $k }}: {{ $v | toJson | quote }}\n{{- else }}\n  {}\n{{- end }}\n---\n{{ if and .Values.other.on (not (eq 1 2)) }}a: {{ tpl \"{{ .Values.folded }}\" . }}{{ end }}\n",
    ),
    (
        "templates/NOTES.txt",
        "{{ with .Values.global }}{{ .z | nindent 4 | regexReplaceAll \"l(.)n\" \"$1\" }}{{ end }}{{ .Files.Get \"data.bin\" | b64enc }}",
    ),
    ("charts/sub/Chart.yaml", "apiVersion: v1\nname: sub\nversion: 1.2.3\n"),
    ("charts/sub/values.yaml", "on: false\na: {b: 1}\n"),
];

/// Replacement for a byte: arbitrary, or a token of one of the languages.
fn replacement_bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        any::<u8>().prop_map(|byte| vec![byte]),
        prop::sample::select(vec![
            "{{",
            "}}",
            "{{-",
            "-}}",
            "(",
            ")",
            "|",
            "$",
            ".",
            "\"",
            "`",
            "'",
            "\n",
            " ",
            "\t",
            ":",
            "- ",
            "&a ",
            "*a",
            "!!binary ",
            "<<: ",
            "[",
            "]",
            "{",
            "}",
            ",",
            "#",
            "%",
            "---\n",
            "end",
            "range",
            "if",
            "else",
            "define",
            "block",
            "break",
            "nil",
            "include",
            "toYaml",
            "index",
            "printf",
            "0x",
            "1e400",
            "-1",
            "9223372036854775808",
            "\u{feff}",
            "\u{85}",
            "é",
            "\0",
            "$ref",
            "$id",
            "..",
            "/",
            "~",
        ])
        .prop_map(|piece| piece.as_bytes().to_vec()),
        Just(Vec::new()),
    ]
}

/// Mutations at positions that are taken modulo the length.
fn changes() -> impl Strategy<Value = Vec<(usize, usize, Vec<u8>)>> {
    prop::collection::vec((any::<usize>(), 0..4_usize, replacement_bytes()), 1..6)
}

fn apply_changes(bytes: &mut Vec<u8>, changes: &[(usize, usize, Vec<u8>)]) {
    for (place, length, piece) in changes {
        let at = place % (bytes.len() + 1);
        let end = bytes.len().min(at + length);
        bytes.splice(at..end, piece.iter().copied());
    }
}

fn seed() -> Vec<(String, Vec<u8>)> {
    SEED_FILES.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())).collect()
}

fn small_limits() -> RenderLimits {
    RenderLimits { steps: 50_000, memory: 1 << 20, depth: 200 }
}

static FUNCTIONS: LazyLock<Functions> = LazyLock::new(|| table(Profile::Helm4));

/// Printed form of the pipelines of a template.
fn printed(text: &str) -> Option<Vec<String>> {
    let templates = parse("t", text, &*FUNCTIONS).ok()?;
    let pipes = templates.iter().flat_map(|template| &*template.body).filter_map(|node| match node {
        Node::Action(pipe) => Some(pipe.to_string()),
        _ => None,
    });
    Some(pipes.collect())
}

fn data(depth: u32) -> impl Strategy<Value = Data> {
    let leaf = prop_oneof![any::<bool>().prop_map(Data::Bool), "[a-c]{0,2}".prop_map(Data::string)];
    leaf.prop_recursive(depth, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Data::List),
            prop::collection::btree_map("[a-c]".prop_map(Into::into), inner, 0..4).prop_map(Data::Map),
        ]
    })
}

fn members() -> impl Strategy<Value = Members> {
    prop::collection::btree_map("[a-c]".prop_map(Into::into), data(3), 0..4)
}

/// Tables of tables of strings.
fn tables() -> impl Strategy<Value = Members> {
    let text = "[a-c]{0,2}".prop_map(Data::string);
    let table = prop::collection::btree_map("[a-c]".prop_map(Into::into), text, 0..4).prop_map(Data::Map);
    prop::collection::btree_map("[a-c]".prop_map(Into::into), table, 0..4)
}

fn merge_over(mut values: Members, over: Members) -> Members {
    overlay(&mut values, over);
    values
}

proptest! {
    #[test]
    fn no_chart_makes_us_panic(which in 0..SEED_FILES.len(), changes in changes(), helm3: bool) {
        let mut files = seed();
        apply_changes(&mut files[which].1, &changes);
        let profile = if helm3 { Profile::Helm3 } else { Profile::Helm4 };
        let _ = render_within(Attack { chart: AttackChart::Files(files), sources: Vec::new(), profile }, small_limits());
    }

    #[test]
    fn no_archive_makes_us_panic(changes in changes(), helm3: bool) {
        let profile = if helm3 { Profile::Helm3 } else { Profile::Helm4 };
        let files = [("Chart.yaml", CHART_YAML), ("templates/a.yaml", "a: {{ .Values.b }}")];
        let files = files.map(|(name, text)| File { name: name.into(), data: text.as_bytes().into() });
        let chart = Loader::new(profile).load_files(files.to_vec()).unwrap();
        let mut packed = archive::write(&chart, profile, 0).unwrap();
        apply_changes(&mut packed, &changes);
        let _ = render_within(Attack { chart: AttackChart::Archive(packed), sources: Vec::new(), profile }, small_limits());
    }

    #[test]
    fn a_pipeline_reads_as_it_prints(
        words in prop::collection::vec(
            prop::sample::select(vec![
                ".", ".a.b", "$", "$.x", "nil", "true", "1", "-0x1F", "1.5e3", "'a'", "\"t\\n\"", "`raw`", "| print",
                "(print 1)", "(.a | len).b", "print", "index .a 1", "and 1 2", "| quote",
            ]),
            1..6,
        ),
    ) {
        let text = format!("{{{{ {} }}}}", words.join(" "));
        if let Some(first) = printed(&text) {
            let again: String = first.iter().map(|pipe| format!("{{{{{pipe}}}}}")).collect();
            prop_assert_eq!(printed(&again), Some(first), "{}", text);
        }
    }

    #[test]
    fn values_over_values(a in members(), b in members()) {
        prop_assert_eq!(merge_over(a.clone(), a.clone()), a.clone());
        prop_assert_eq!(merge_over(a.clone(), Members::new()), a.clone());
        prop_assert_eq!(merge_over(Members::new(), a.clone()), a.clone());
        // Merging is idempotent: the last value wins, however often it is merged.
        let both = merge_over(a, b.clone());
        prop_assert_eq!(merge_over(both.clone(), b), both);
    }

    /// At each path the last source that sets it wins.
    #[test]
    fn every_place_is_as_the_last_has_it(a in tables(), b in tables(), outer in "[a-c]", inner in "[a-c]") {
        let at = |of: &Members| of.get(outer.as_str()).and_then(|table| table.get(&inner)).cloned();
        let wanted = at(&b).or_else(|| at(&a));
        prop_assert_eq!(at(&merge_over(a, b)), wanted);
    }

    /// Associative where no scalar replaces a table.
    #[test]
    fn layers_can_be_put_together_from_either_end(a in tables(), b in tables(), c in tables()) {
        prop_assert_eq!(merge_over(merge_over(a.clone(), b.clone()), c.clone()), merge_over(a, merge_over(b, c)));
    }
}
