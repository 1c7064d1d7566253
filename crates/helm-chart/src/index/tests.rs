//! Indexes parsed in each way. Expected results were recorded from Helm 3.17.3 and 4.3.1.

use bytes::Bytes;
use helm_template::profile::Profile;
use proptest::prelude::*;

use super::{ChartVersion, Index, IndexBuilder, IndexError, join_url};
use crate::metadata::Metadata;

/// In Helm's own layout, with every kind of line that Helm writes.
const CANONICAL: &str = r#"apiVersion: v1
entries:
  alpha:
  - annotations:
      artifacthub.io/changes: |
        - kind: added
          description: more

        - kind: fixed
      category: Database
    apiVersion: v2
    appVersion: 1.2.3
    created: "2026-11-15T16:47:11.619185909Z"
    dependencies:
    - condition: beta.enabled
      name: beta
      repository: https://charts.example.com
      tags:
      - one
      version: ^1.0.0
    deprecated: true
    description: A chart with a description that is long enough to be folded at the
      eightieth column of its line
    digest: 0bf0b7afefe042ed6c18fe063c38acb5582682a6a42fe577423a3d2534101c9a
    home: https://example.com
    keywords:
    - alpha
    - "1"
    maintainers:
    - email: a@example.com
      name: A. Body
    name: alpha
    sources:
    - https://example.com/src#readme
    type: application
    urls:
    - https://charts.example.com/alpha-1.10.0.tgz
    version: 1.10.0
  - apiVersion: v1
    created: "2026-11-15T16:47:11Z"
    description: 'It''s quoted: with a colon'
    name: alpha
    urls:
    - alpha-1.9.0.tgz
    version: 1.9.0
  beta:
  - apiVersion: v2
    created: "2026-11-15T16:47:11Z"
    description: "a face \U0001F600"
    name: beta
    urls: []
    version: 2.0.0-rc.1
generated: "2026-11-15T16:47:11.6Z"
"#;

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn all_entries(index: &Index) -> Vec<ChartVersion> {
    index.names().flat_map(|name| index.entries(name)).map(Result::unwrap).collect()
}

fn parse_error(text: &str, profile: Profile) -> String {
    Index::parse(&bytes(text), profile).unwrap_err().to_string()
}

#[test]
fn fast_and_full_parsers_agree() {
    let fast = Index::scan(&bytes(CANONICAL), Profile::Helm4).expect("Helm's layout").unwrap();
    let full = Index::parse_fully(CANONICAL.as_bytes(), Profile::Helm4).unwrap();
    assert_eq!(all_entries(&fast), all_entries(&full));
    assert_eq!((&fast.api_version, &fast.generated), (&full.api_version, &full.generated));
    assert_eq!(all_entries(&full).len(), 3);
    let pieces = Index::parse_entries(&bytes(CANONICAL), Profile::Helm4)
        .expect("entries on lines of their own")
        .unwrap();
    assert_eq!(all_entries(&pieces), all_entries(&full));
    let alpha = full.get("alpha", "").unwrap();
    assert_eq!(&*alpha.metadata.version, "1.10.0");
    assert_eq!(&*alpha.metadata.dependencies[0].version, "^1.0.0");
    assert_eq!(
        &*alpha.metadata.description,
        "A chart with a description that is long enough to be folded at the eightieth column of its line"
    );
}

#[test]
fn index_round_trips() {
    let index = Index::parse(&bytes(CANONICAL), Profile::Helm4).unwrap();
    let mut builder = IndexBuilder::new(Profile::Helm4);
    builder.merge(&index).unwrap();
    let again = builder.write("2026-11-15T16:47:11.6Z").unwrap();
    assert_eq!(again, CANONICAL);
}

#[test]
fn missing_urls_differ_from_empty_list() {
    // As both Helm versions write it.
    for (read, written) in
        [("    urls: []\n", "urls: []"), ("    urls: null\n", "urls: null"), ("", "urls: null")]
    {
        let text = CANONICAL.replace("    urls: []\n", read);
        let mut builder = IndexBuilder::new(Profile::Helm4);
        builder.merge(&Index::parse(&bytes(&text), Profile::Helm4).unwrap()).unwrap();
        assert!(builder.write("2026-11-15T16:47:11.6Z").unwrap().contains(written), "{read:?}");
    }
}

#[test]
fn parse_falls_back_to_full_parser_for_other_layouts() {
    for (from, to) in [
        ("  alpha:\n", "  alpha: &a\n"),
        ("  beta:\n", "  'beta':\n"),
        ("    name: beta\n", "    name:   beta\n"),
        ("    name: beta\n", "    name: beta # comment\n"),
        ("    version: 1.9.0\n", "    version: !!str 1.9.0\n"),
        ("    urls: []\n", "    urls: [a, b]\n"),
        ("apiVersion: v1\nentries", "# comment\napiVersion: v1\nentries"),
        ("    deprecated: true\n", "    deprecated: yes\n"),
    ] {
        let text = CANONICAL.replacen(from, to, 1);
        assert_ne!(text, CANONICAL, "{from}");
        assert!(Index::scan(&bytes(&text), Profile::Helm4).is_none(), "{to}");
        assert_eq!(all_entries(&Index::parse(&bytes(&text), Profile::Helm4).unwrap()).len(), 3, "{to}");
    }
    let json = r#"{"apiVersion":"v1","entries":{"a":[{"name":"a","version":"1.0.0","unknown":1}]}}"#;
    assert_eq!(all_entries(&Index::parse(&bytes(json), Profile::Helm3).unwrap()).len(), 1);
}

#[test]
fn parse_errors_match_helm() {
    let words = "error unmarshaling JSON: while decoding JSON:";
    let entry = |line: &str| format!("apiVersion: v1\nentries:\n  a:\n  - name: a\n    {line}\n");
    let rows = [
        (String::new(), "empty index.yaml file".to_owned()),
        ("{}".to_owned(), "no API version specified".to_owned()),
        ("[]".to_owned(), "json: cannot unmarshal array into Go value of type repo.IndexFile".to_owned()),
        (entry("version: 1"), format!("{words} json: cannot unmarshal number into Go struct field ChartVersion.entries.version of type string")),
        (entry("created: abc"), format!("{words} parsing time \"abc\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"abc\" as \"2006\"")),
        (entry("foo: abc"), format!("{words} json: unknown field \"foo\"")),
        (entry("name: b"), "error converting YAML to JSON: yaml: unmarshal errors:\n  line 5: key \"name\" already set in map".to_owned()),
        (entry("urls: 3"), format!("{words} json: cannot unmarshal number into Go struct field ChartVersion.entries.urls of type []string")),
        (entry("maintainers: [{name: [1]}]"), format!("{words} json: cannot unmarshal array into Go struct field Maintainer.entries.maintainers.name of type string")),
        ("apiVersion: v1\nentries: []\n".to_owned(), format!("{words} json: cannot unmarshal array into Go struct field IndexFile.entries of type map[string]repo.ChartVersions")),
        ("apiVersion: v1\nentries:\n  a: 3\n".to_owned(), format!("{words} json: cannot unmarshal number into Go struct field IndexFile.entries of type repo.ChartVersions")),
        ("apiVersion: v1\nentries:\n  a:\n  - 3\n".to_owned(), format!("{words} json: cannot unmarshal number into Go struct field IndexFile.entries of type repo.ChartVersion")),
        ("apiVersion: v1\nserverInfo: 3\n".to_owned(), format!("{words} json: cannot unmarshal number into Go struct field IndexFile.serverInfo of type map[string]interface {{}}")),
    ];
    for (text, expected) in rows {
        assert_eq!(parse_error(&text, Profile::Helm3), expected, "{text}");
    }
    assert_eq!(
        parse_error(&entry("version: 1"), Profile::Helm4),
        format!(
            "{words} json: cannot unmarshal number into Go struct field ChartVersion.entries.Metadata.version of type string"
        )
    );
    assert_eq!(
        parse_error(&entry("maintainers: 3"), Profile::Helm4),
        format!(
            "{words} json: cannot unmarshal number into Go struct field ChartVersion.entries.Metadata.maintainers of type []*v2.Maintainer"
        )
    );
}

#[test]
fn invalid_entries_are_skipped_with_warning() {
    let rest = "    created: \"2026-11-15T16:47:11Z\"\n    urls:\n    - x\n";
    let entry = |name: &str, version: &str| format!("  - name: {name}\n    version: {version}\n{rest}");
    let text = format!(
        "apiVersion: v1\nentries:\n  a:\n{}{}{}{}  b:\n{}    dependencies:\n    - name: d\n      repository: x\n    - name: d\n      repository: z\n",
        entry("a", "1.0.0"),
        entry("a", "latest"),
        entry("a/b", "1.0.0"),
        entry("a", "v2"),
        entry("b", "1.0.0"),
    );
    for index in [
        Index::scan(&bytes(&text), Profile::Helm3).unwrap().unwrap(),
        Index::parse_fully(text.as_bytes(), Profile::Helm3).unwrap(),
    ] {
        assert_eq!(index.versions("a").map(|version| &**version).collect::<Vec<_>>(), ["v2", "1.0.0"]);
        assert_eq!(index.versions("b").count(), 1);
        assert_eq!(index.warnings.len(), 2, "{:?}", index.warnings);
    }
    let empty = "apiVersion: v1\nentries:\n  a:\n  - ~\n  - name: a\n    version: 1.0.0\n";
    assert_eq!(Index::parse(&bytes(empty), Profile::Helm4).unwrap().versions("a").count(), 1);
}

#[test]
fn get_finds_version_by_constraint() {
    let index = Index::parse(&bytes(CANONICAL), Profile::Helm4).unwrap();
    let found = |name, version| index.get(name, version).map(|entry| entry.metadata.version.to_string());
    assert_eq!(found("alpha", ""), Ok("1.10.0".to_owned()));
    assert_eq!(found("alpha", "~1.9"), Ok("1.9.0".to_owned()));
    assert_eq!(found("alpha", "1.9.0"), Ok("1.9.0".to_owned()));
    assert_eq!(found("beta", "2.0.0-rc.1"), Ok("2.0.0-rc.1".to_owned()));
    let none = |version: &str, name: &str| IndexError::VersionNotFound {
        name: name.into(),
        version: version.into(),
    };
    assert_eq!(found("beta", ""), Err(none("", "beta")));
    assert_eq!(found("alpha", ">2"), Err(none(">2", "alpha")));
    assert_eq!(found("gamma", "").unwrap_err().to_string(), "no chart name found");
}

#[test]
fn builder_adds_packed_charts() {
    let metadata =
        |version: &str| Metadata { name: "a".into(), version: version.into(), ..Metadata::default() };
    let mut builder = IndexBuilder::new(Profile::Helm4);
    let created = "2026-11-15T16:47:11Z";
    builder.add(metadata("1.9.0"), "sub/a-1.9.0.tgz", "https://example.com/charts/", "00", created).unwrap();
    builder.add(metadata("1.10.0"), "a-1.10.0.tgz", "", "11", created).unwrap();
    assert!(builder.add(metadata("x"), "a-x.tgz", "", "22", created).is_err());
    assert_eq!(
        builder.write(created).unwrap(),
        "apiVersion: v1\nentries:\n  a:\n  - apiVersion: v1\n    created: \"2026-11-15T16:47:11Z\"\n    digest: \"11\"\n    \
         name: a\n    urls:\n    - a-1.10.0.tgz\n    version: 1.10.0\n  - apiVersion: v1\n    created: \
         \"2026-11-15T16:47:11Z\"\n    digest: \"00\"\n    name: a\n    urls:\n    - \
         https://example.com/charts/a-1.9.0.tgz\n    version: 1.9.0\ngenerated: \"2026-11-15T16:47:11Z\"\n"
    );
    assert_eq!(
        IndexBuilder::new(Profile::Helm4).write(created).unwrap(),
        "apiVersion: v1\nentries: {}\ngenerated: \"2026-11-15T16:47:11Z\"\n"
    );
}

#[test]
fn join_url_matches_helm() {
    for (base, name, joined) in [
        ("https://example.com", "a.tgz", "https://example.com/a.tgz"),
        ("https://example.com/", "a.tgz", "https://example.com/a.tgz"),
        ("https://example.com/x/../y", "a.tgz", "https://example.com/y/a.tgz"),
        ("https://example.com/x?q=1#f", "a.tgz", "https://example.com/x/a.tgz?q=1#f"),
        ("https://example.com/x", "", "https://example.com/x"),
        ("", "sub", "sub"),
        ("", "", ""),
        ("charts", "a b.tgz", "charts/a%20b.tgz"),
        ("https://example.com", "a-1.0.0+b.tgz", "https://example.com/a-1.0.0+b.tgz"),
    ] {
        assert_eq!(join_url(base, name), joined);
    }
}

/// Asserts that an index accepted by a fast parser is parsed equally by the full one.
fn assert_parsers_agree(text: &str) -> Result<(), TestCaseError> {
    let ways =
        [Index::scan(&bytes(text), Profile::Helm4), Index::parse_entries(&bytes(text), Profile::Helm4)];
    for fast in ways.into_iter().flatten() {
        let full = Index::parse_fully(text.as_bytes(), Profile::Helm4);
        prop_assert_eq!(fast.as_ref().map(all_entries), full.as_ref().map(all_entries), "{}", text);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_fast_way_never_says_yes_alone(
        changes in proptest::collection::vec((0..CANONICAL.len(), 0..4usize, "[ -~\n]{0,3}"), 1..4),
    ) {
        let mut text = CANONICAL.to_owned();
        for (at, cut, put) in changes {
            let start = (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            let end = (start + cut).min(text.len());
            if text.is_char_boundary(end) {
                text.replace_range(start..end, &put);
            }
        }
        assert_parsers_agree(&text)?;
    }

    #[test]
    fn any_plain_value_is_judged_alike(value in "[-+0-9a-fxoXO_.:eEyYnN~<'\"#|> ]{1,8}", key in 0..4usize) {
        let key = ["description", "version", "digest", "deprecated"][key];
        let text = format!(
            "apiVersion: v1\nentries:\n  a:\n  - {key}: {value}\n    name: a\n    urls:\n    - {value}\n"
        );
        assert_parsers_agree(&text)?;
    }
}

#[test]
fn parse_bounded_stops_when_interrupted() {
    use std::cell::Cell;
    let quoted = CANONICAL.replace("name: ", "name:  ");
    for text in [CANONICAL, &quoted] {
        let asked = Cell::new(0);
        let stop_at = |most: u32| {
            asked.set(0);
            let interrupt = || {
                asked.set(asked.get() + 1);
                if asked.get() > most { Err("the caller is gone".into()) } else { Ok(()) }
            };
            Index::parse_bounded(&bytes(text), Profile::Helm4, &interrupt).map(|index| index.len())
        };
        assert_eq!(stop_at(1), Err(IndexError::Interrupted("the caller is gone".into())));
        assert_eq!(asked.get(), 2);
        assert_eq!(stop_at(u32::MAX), Ok(3));
    }
}
