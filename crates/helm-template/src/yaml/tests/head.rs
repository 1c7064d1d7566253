//! Manifest heads.

use crate::profile::Profile;
use crate::yaml::header;

type ExpectedHeader<'a> = Result<&'a str, &'a str>;

/// Version, kind, name and annotations, or the error.
#[rustfmt::skip]
const HEADS: &[(&str, ExpectedHeader<'_>)] = &[
    ("", Ok("|||")),
    ("~", Ok("|||")),
    ("kind: A", Ok("|A||")),
    ("apiVersion: v1\nkind: A\nmetadata:\n  name: n\n", Ok("v1|A|false|")),
    ("metadata:\n  name: n\n  annotations:\n    a: b\n    c: 1\n    d: true\n    e: ~\n    f: 1.50\n    g: 123456789.5\n    h: |\n      x\n      y\n", Ok("||false|a=b c=1 d=true e= f=1.5 g=1.2345679e+08 h=x\ny\n")),
    ("kind: [1]", Err("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go struct field SimpleHead.kind of type string")),
    ("kind: {}", Err("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal object into Go struct field SimpleHead.kind of type string")),
    ("Kind: A", Ok("|A||")),
    ("KIND: A\nkind: B", Ok("|B||")),
    ("kind: A\nkind: B", Ok("|B||")),
    ("kind: 1.10", Ok("|1.1||")),
    ("kind: .inf", Ok("|+Inf||")),
    ("a: .inf", Err("error converting YAML to JSON: json: unsupported value: +Inf")),
    ("metadata: 1", Err("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal number into Go struct field SimpleHead.metadata of type struct { Name string \"json:\\\"name\\\"\"; Annotations map[string]string \"json:\\\"annotations\\\"\" }")),
    ("metadata: ~", Ok("|||")),
    ("metadata: x", Err("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal string into Go struct field SimpleHead.metadata of type struct { Name string \"json:\\\"name\\\"\"; Annotations map[string]string \"json:\\\"annotations\\\"\" }")),
    ("metadata: []", Err("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go struct field SimpleHead.metadata of type struct { Name string \"json:\\\"name\\\"\"; Annotations map[string]string \"json:\\\"annotations\\\"\" }")),
    ("metadata:\n  name: []", Err("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go struct field .metadata.name of type string")),
    ("metadata:\n  annotations: 1", Err("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal number into Go struct field .metadata.annotations of type map[string]string")),
    ("metadata:\n  annotations: [a]", Err("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go struct field .metadata.annotations of type map[string]string")),
    ("metadata:\n  annotations:\n    a: []", Err("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go struct field .metadata.annotations of type string")),
    ("metadata:\n  annotations:\n    a: {}\n    b: c", Err("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal object into Go struct field .metadata.annotations of type string")),
    ("metadata:\n  name: a\nMetadata:\n  annotations: {a: b}", Ok("||a|a=b")),
    ("metadata:\n  name: a\nmetadata:\n  annotations: {a: b}", Ok("|||a=b")),
    ("metadata:\n  annotations:\n    1: a\n    true: b\n    .inf: c", Ok("|||.inf=c 1=a true=b")),
    ("a: &x {name: n}\nmetadata: *x", Ok("||false|")),
    ("a: &x {kind: K}\n<<: *x", Ok("|K||")),
    ("spec:\n  ~: 1", Err("error converting YAML to JSON: unsupported map key of type: %!s(<nil>), key: <nil>, value: 1")),
    ("spec:\n  - ? [a]\n    : b", Err("error converting YAML to JSON: yaml: invalid map key: []interface {}{\"a\"}")),
    ("kind: A\nspec:\n  a: b: c", Err("error converting YAML to JSON: yaml: line 3: mapping values are not allowed in this context")),
    ("{\"kind\": \"A\", \"metadata\": {\"name\": \"n\", \"annotations\": {\"a\": \"b\"}}}", Ok("|A|n|a=b")),
    ("kind: \"a\n  b\"", Ok("|a b||")),
    ("kind: a\n  b\nmetadata:\n  name: >-\n    x\n    y\n", Ok("|a b|x y|")),
    ("spec: {a: [1, -.inf]}", Err("error converting YAML to JSON: json: unsupported value: -Inf")),
    ("18446744073709551615: a", Err("error converting YAML to JSON: unsupported map key of type: uint64, key: 0xffffffffffffffff, value: \"a\"")),
    ("\"ki\\u006ed\": A", Ok("|A||")),
    ("kind: A\n---\nkind: B", Ok("|A||")),
    ("metadata:\n  annotations:\n    a: b\n    a: c\n", Ok("|||a=c")),
];

/// Cases in which Helm 3 and Helm 4 differ.
#[rustfmt::skip]
const HEADS_THAT_DIFFER: &[(&str, ExpectedHeader<'_>, ExpectedHeader<'_>)] = &[
    ("x", Err("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal string into Go value of type releaseutil.SimpleHead"), Err("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal string into Go value of type util.SimpleHead")),
    ("1", Err("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal number into Go value of type releaseutil.SimpleHead"), Err("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal number into Go value of type util.SimpleHead")),
    ("[a]", Err("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go value of type releaseutil.SimpleHead"), Err("error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go value of type util.SimpleHead")),
];

fn read(text: &str, profile: Profile) -> Result<String, String> {
    let head = header::read_header(text.as_bytes(), profile).map_err(|error| error.to_string())?;
    let annotations: Vec<_> = head.annotations.iter().map(|(key, value)| format!("{key}={value}")).collect();
    Ok([&*head.api_version, &*head.kind, &*head.name, &annotations.join(" ")].join("|"))
}

fn to_owned_result(expected: ExpectedHeader<'_>) -> Result<String, String> {
    expected.map(str::to_owned).map_err(str::to_owned)
}

#[test]
fn headers_match_helm() {
    for (text, expected) in HEADS {
        assert_eq!(read(text, Profile::Helm3), to_owned_result(*expected), "{text:?}");
        assert_eq!(read(text, Profile::Helm4), to_owned_result(*expected), "{text:?}");
    }
    for (text, helm3, helm4) in HEADS_THAT_DIFFER {
        assert_eq!(read(text, Profile::Helm3), to_owned_result(*helm3), "{text:?}");
        assert_eq!(read(text, Profile::Helm4), to_owned_result(*helm4), "{text:?}");
    }
}
