//! Metadata is decoded, validated and written as by Helm. Every expectation was recorded from Helm 3.17.3.

use helm_template::profile::Profile;

use super::{Lock, Metadata, MetadataDraft};

fn read(text: &str, profile: Profile) -> Result<Metadata, String> {
    let mut draft = MetadataDraft::empty();
    draft.add(text.as_bytes(), profile).map_err(|error| error.to_string())?;
    draft.default_api_version();
    draft.finish(profile).map_err(|error| error.to_string())
}

/// All fields as `helm show chart` prints them for charts of `apiVersion` v2.
fn show(text: &str) -> Result<String, String> {
    Ok(helm_template::yaml::write(&read(text, Profile::Helm3)?.to_data()).unwrap())
}

#[test]
fn metadata_is_parsed_and_validated_like_helm() {
    #[rustfmt::skip]
    let rows = [
        ("name: c\nversion: 1.10\nappVersion: 12345678\n", Ok("apiVersion: v1\nappVersion: \"12345678\"\nname: c\nversion: \"1.1\"\n")),
        ("name: c\nversion: 0x10\ndescription: 1e7\nicon: 1.23456789\nhome: 0777\ntags: yes\ncondition: 1_000\n", Ok("apiVersion: v1\ncondition: \"1000\"\ndescription: \"1e+07\"\nhome: \"511\"\nicon: \"1.2345679\"\nname: c\ntags: \"true\"\nversion: \"16\"\n")),
        ("name: c\n", Err("validation: chart.metadata.version is required")),
        ("version: 1.0.0\n", Err("validation: chart.metadata.name is required")),
        ("name: ''\nversion: 1\n", Err("validation: chart.metadata.name is required")),
        ("name: a/b\nversion: 1\n", Err("validation: chart.metadata.name \"a/b\" is invalid")),
        ("name: ../x\nversion: 1\n", Err("validation: chart.metadata.name \"../x\" is invalid")),
        ("name: c\nversion: x\n", Err("validation: chart.metadata.version \"x\" is invalid")),
        ("name: c\nversion: 1.2.3.4\n", Err("validation: chart.metadata.version \"1.2.3.4\" is invalid")),
        ("name: c\nversion: v1.2\n", Ok("apiVersion: v1\nname: c\nversion: v1.2\n")),
        ("name: c\nversion: 1.0.0-01\n", Err("validation: chart.metadata.version \"1.0.0-01\" is invalid")),
        ("name: c\nversion: 1\ntype: foo\n", Err("validation: chart.metadata.type must be application or library")),
        ("name: c\nversion: 1\ntype: library\n", Ok("apiVersion: v1\nname: c\ntype: library\nversion: \"1\"\n")),
        ("name: c\nversion: 1\nmaintainers: [null]\n", Err("validation: maintainers must not contain empty or null nodes")),
        ("name: c\nversion: 1\nmaintainers: [{name: a}, ~]\n", Err("validation: maintainers must not contain empty or null nodes")),
        ("name: c\nversion: 1\ndependencies: [~]\n", Err("validation: dependencies must not contain empty or null nodes")),
        ("name: c\nversion: 1\ndependencies: [{name: a},{name: a}]\n", Err("validation: more than one dependency with name or alias \"a\"")),
        ("name: c\nversion: 1\ndependencies: [{name: a},{name: a, alias: b}]\n", Ok("apiVersion: v1\ndependencies:\n- name: a\n  repository: \"\"\n- alias: b\n  name: a\n  repository: \"\"\nname: c\nversion: \"1\"\n")),
        ("name: c\nversion: 1\ndependencies: [{name: a, alias: 'b c'}]\n", Err("validation: dependency \"a\" has disallowed characters in the alias")),
        ("name: c\nversion: 1\ndependencies: [{name: a},{name: a},~]\n", Err("validation: more than one dependency with name or alias \"a\"")),
        ("name: c\nversion: 1\ndependencies: [{name: a, tags: [1, true], enabled: true, import-values: [data, {child: x, parent: y}], version: 1, repository: 3, condition: a.b}]\n", Ok("apiVersion: v1\ndependencies:\n- condition: a.b\n  enabled: true\n  import-values:\n  - data\n  - child: x\n    parent: true\n  name: a\n  repository: \"3\"\n  tags:\n  - \"1\"\n  - \"true\"\n  version: \"1\"\nname: c\nversion: \"1\"\n")),
        ("name: [c]\nversion: {}\n", Err("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go struct field Metadata.name of type string")),
        ("name: c\nversion: 1\nsources: x\n", Err("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal string into Go struct field Metadata.sources of type []string")),
        ("name: c\nversion: 1\nsources: [[1]]\n", Err("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go struct field Metadata.sources of type string")),
        ("name: c\nversion: 1\nannotations: {a: 1, b: true, c: ~, d: 1.0, e: [1]}\n", Err("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go struct field Metadata.annotations of type string")),
        ("name: c\nversion: 1\nannotations: {a: 1, b: true, c: ~, d: 1.0}\n", Ok("annotations:\n  a: \"1\"\n  b: \"true\"\n  c: \"\"\n  d: \"1\"\napiVersion: v1\nname: c\nversion: \"1\"\n")),
        ("name: c\nversion: 1\ndeprecated: 'yes'\n", Err("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal string into Go struct field Metadata.deprecated of type bool")),
        ("name: c\nversion: 1\ndeprecated: yes\n", Ok("apiVersion: v1\ndeprecated: true\nname: c\nversion: \"1\"\n")),
        ("NAME: c\nVersion: 1\nAPIVERSION: v2\nKubeVersion: '>=1'\n", Ok("apiVersion: v2\nkubeVersion: '>=1'\nname: c\nversion: \"1\"\n")),
        ("name: \"a\\tb\\u0000\\u00a0c\\u200bd\"\nversion: 1\n", Ok("apiVersion: v1\nname: a b cd\nversion: \"1\"\n")),
        ("name: c\nversion: 1\ndescription: \"é\\u2028x\\ny\\U0001F600\"\nkeywords: [\"a\\tb\", null, 3]\n", Ok("apiVersion: v1\ndescription: \"é x y\\U0001F600\"\nkeywords:\n- a b\n- \"\"\n- \"3\"\nname: c\nversion: \"1\"\n")),
        ("name: c\nversion: 1\nunknown: {a: b}\n", Ok("apiVersion: v1\nname: c\nversion: \"1\"\n")),
        ("- a\n", Err("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go value of type chart.Metadata")),
        ("x\n", Err("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal string into Go value of type chart.Metadata")),
        ("3\n", Err("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal number into Go value of type chart.Metadata")),
        ("true\n", Err("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal bool into Go value of type chart.Metadata")),
        ("", Err("validation: chart.metadata.name is required")),
        ("~\n", Err("validation: chart.metadata.name is required")),
        ("{\n", Err("error converting YAML to JSON: yaml: line 1: did not find expected node content")),
        ("a: b: c\n", Err("error converting YAML to JSON: yaml: mapping values are not allowed in this context")),
        ("name: c\nversion: 1\nmaintainers: {a: b}\n", Err("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal object into Go struct field Metadata.maintainers of type []*chart.Maintainer")),
        ("name: c\nversion: 1\nmaintainers: [3]\n", Err("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal number into Go struct field Metadata.maintainers of type chart.Maintainer")),
        ("name: c\nversion: 1\nmaintainers: [{name: [x]}]\n", Err("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go struct field Maintainer.maintainers.name of type string")),
        ("name: c\nversion: 1\ndependencies: [{tags: 3, name: {}}]\n", Err("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal object into Go struct field Dependency.dependencies.name of type string")),
        ("name: c\nversion: 1\napiVersion: 2\n", Ok("apiVersion: \"2\"\nname: c\nversion: \"1\"\n")),
        ("name: c\nversion: 1\nname: d\n", Ok("apiVersion: v1\nname: d\nversion: \"1\"\n")),
        ("name: a\nName: b\nversion: 1\n", Ok("apiVersion: v1\nname: a\nversion: \"1\"\n")),
        ("name: c\nversion: 9223372036854775808\nicon: 18446744073709551616\n", Ok("apiVersion: v1\nicon: \"1.8446744e+19\"\nname: c\nversion: \"9223372036854775808\"\n")),
    ];
    for (text, expected) in rows {
        assert_eq!(show(text).as_deref(), expected.map_err(str::to_owned).as_deref(), "{text:?}");
    }
}

#[test]
fn type_errors_name_helm4_packages() {
    let said = |text| read(text, Profile::Helm4).unwrap_err();
    let words = "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal";
    assert_eq!(said("x"), format!("{words} string into Go value of type v2.Metadata"));
    assert_eq!(
        said("maintainers: [3]"),
        format!("{words} number into Go struct field Metadata.maintainers of type v2.Maintainer")
    );
    assert_eq!(said("name: ..\nversion: 1\n"), "validation: chart.metadata.name \"..\" is not allowed");
}

#[test]
fn draft_add_overrides_earlier_text() {
    let mut draft = MetadataDraft::empty();
    draft.add(b"name: c\nversion: 1.0.0\nannotations: {a: x, b: y}\n", Profile::Helm3).unwrap();
    draft.add(b"dependencies: [{name: d}]\nannotations: {b: z}\nhome: ~\n", Profile::Helm3).unwrap();
    draft.default_api_version();
    let metadata = draft.finish(Profile::Helm3).unwrap();
    assert_eq!(&*metadata.dependencies[0].name, "d");
    let annotations: Vec<_> =
        metadata.annotations.iter().map(|(key, text)| format!("{key}={text}")).collect();
    assert_eq!(annotations, ["a=x", "b=z"]);
    // The dependencies of a chart of `apiVersion` v1 stay in their own file.
    assert!(!metadata.to_yaml().unwrap().contains("dependencies"));
}

#[test]
fn lock_is_parsed_and_validated_like_helm() {
    let read = |text: &str| Lock::parse(text.as_bytes(), Profile::Helm3).map_err(|error| error.to_string());
    let words = "error unmarshaling JSON: while decoding JSON:";
    assert_eq!(read(""), Ok(None));
    let lock = read(
        "dependencies: [{name: a, version: 1, repository: x}]\ndigest: sha256:1\ngenerated: 2020-01-02T03:04:05.10+00:00\n",
    );
    assert_eq!(
        lock.unwrap().unwrap().to_yaml().unwrap(),
        "dependencies:\n- name: a\n  repository: x\n  version: \"1\"\ndigest: sha256:1\ngenerated: \"2020-01-02T03:04:05.1Z\"\n"
    );
    assert_eq!(read("generated: 12"), Err(format!("{words} Time.UnmarshalJSON: input is not a JSON string")));
    assert_eq!(
        read("dependencies: 2"),
        Err(format!(
            "{words} json: cannot unmarshal number into Go struct field Lock.dependencies of type []*chart.Dependency"
        ))
    );
    assert_eq!(
        read("x"),
        Err(format!("{words} json: cannot unmarshal string into Go value of type chart.Lock"))
    );
}
