//! Results of `--set` and similar arguments, compared with Helm 3 and Helm 4.

use helm_template::data::{Data, Members};
use helm_template::json::{self, JsonStyle};
use helm_template::profile::Profile;
use proptest::prelude::*;

use super::SetFlag::{self, File, Json, Literal, Text, Typed};
use super::apply;

/// The values before each line.
const BASE: &str = r#"{"f":1.5,"l":["x",{"z":0},[1]],"m":{"k":"v"},"n":null,"s":"text"}"#;

type ExpectedResult = Result<&'static str, &'static str>;

/// A line, Helm 3's result, and Helm 4's where it differs.
#[rustfmt::skip]
const CASES: &[(SetFlag, &str, ExpectedResult, Option<ExpectedResult>)] = &[
    (Typed, "a=1", Ok(r#"{"a":1,"f":1.5,"l":["x",{"z":0},[1]],"m":{"k":"v"},"n":null,"s":"text"}"#), None),
    (Typed, "a=", Ok(r#"{"a":"","f":1.5,"l":["x",{"z":0},[1]],"m":{"k":"v"},"n":null,"s":"text"}"#), None),
    (Typed, "a", Err(r#"key "a" has no value"#), None),
    (Typed, "a,", Err(r#"key "a" has no value (cannot end with ,)"#), None),
    (Typed, "a=1,", Ok(r#"{"a":1,"f":1.5,"l":["x",{"z":0},[1]],"m":{"k":"v"},"n":null,"s":"text"}"#), None),
    (Typed, "a.b=c", Ok(r#"{"a":{"b":"c"},"f":1.5,"l":["x",{"z":0},[1]],"m":{"k":"v"},"n":null,"s":"text"}"#), None),
    (Typed, "a.=1", Err(r#"key map "a" has no value"#), None),
    (Typed, ".a=1", Ok(r#"{"f":1.5,"l":["x",{"z":0},[1]],"m":{"k":"v"},"n":null,"s":"text"}"#), None),
    (Typed, "=1", Ok(r#"{"f":1.5,"l":["x",{"z":0},[1]],"m":{"k":"v"},"n":null,"s":"text"}"#), None),
    (Typed, "a[0]=1", Ok(r#"{"a":[1],"f":1.5,"l":["x",{"z":0},[1]],"m":{"k":"v"},"n":null,"s":"text"}"#), None),
    (Typed, "a[0]", Ok(r#"{"a":[],"f":1.5,"l":["x",{"z":0},[1]],"m":{"k":"v"},"n":null,"s":"text"}"#), None),
    (Typed, "a[0", Err("error parsing index: EOF"), Some(Ok(r#"{"f":1.5,"l":["x",{"z":0},[1]],"m":{"k":"v"},"n":null,"s":"text"}"#))),
    (Typed, "a[x]=1", Err(r#"error parsing index: strconv.Atoi: parsing "x": invalid syntax"#), None),
    (Typed, "a[-1]=1", Err("negative -1 index not allowed"), None),
    (Typed, "a[65537]=1", Err("index of 65537 is greater than maximum supported index of 65536"), None),
    (Typed, "a[1000000000]=1", Err("index of 1000000000 is greater than maximum supported index of 65536"), None),
    (Typed, "a[99999999999999999999]=1", Err(r#"error parsing index: strconv.Atoi: parsing "99999999999999999999": value out of range"#), None),
    (Typed, "a[0].b=1", Ok(r#"{"a":[{"b":1}],"f":1.5,"l":["x",{"z":0},[1]],"m":{"k":"v"},"n":null,"s":"text"}"#), None),
    (Typed, "a[0].", Ok(r#"{"a":[],"f":1.5,"l":["x",{"z":0},[1]],"m":{"k":"v"},"n":null,"s":"text"}"#), None),
    (Typed, "a[0][1]=2", Ok(r#"{"a":[[null,2]],"f":1.5,"l":["x",{"z":0},[1]],"m":{"k":"v"},"n":null,"s":"text"}"#), None),
    (Typed, "a[1]xy=1", Err("unexpected data at end of array index: ['x' 'y']"), None),
    (Typed, "a={}", Ok(r#"{"a":[""],"f":1.5,"l":["x",{"z":0},[1]],"m":{"k":"v"},"n":null,"s":"text"}"#), None),
    (Typed, "a={1,b}", Ok(r#"{"a":[1,"b"],"f":1.5,"l":["x",{"z":0},[1]],"m":{"k":"v"},"n":null,"s":"text"}"#), None),
    (Typed, "a={1,2", Err("list must terminate with '}'"), None),
    (Typed, "a={1},b=3", Ok(r#"{"a":[1],"b":3,"f":1.5,"l":["x",{"z":0},[1]],"m":{"k":"v"},"n":null,"s":"text"}"#), None),
    (Typed, "a=true,b=FALSE,c=Null,d=0,e=01,f=-1,g=1.5,h=1e3", Ok(r#"{"a":true,"b":false,"c":null,"d":0,"e":"01","f":-1,"g":"1.5","h":"1e3","l":["x",{"z":0},[1]],"m":{"k":"v"},"n":null,"s":"text"}"#), None),
    (Typed, r"a\,b=c", Ok(r#"{"a,b":"c","f":1.5,"l":["x",{"z":0},[1]],"m":{"k":"v"},"n":null,"s":"text"}"#), None),
    (Typed, r"a\.b=c", Ok(r#"{"a.b":"c","f":1.5,"l":["x",{"z":0},[1]],"m":{"k":"v"},"n":null,"s":"text"}"#), None),
    (Typed, r"a=b\,c", Ok(r#"{"a":"b,c","f":1.5,"l":["x",{"z":0},[1]],"m":{"k":"v"},"n":null,"s":"text"}"#), None),
    (Typed, "a=b=c", Ok(r#"{"a":"b=c","f":1.5,"l":["x",{"z":0},[1]],"m":{"k":"v"},"n":null,"s":"text"}"#), None),
    (Typed, "s.x=1", Err("unable to parse key: interface conversion: interface {} is string, not map[string]interface {}"), None),
    (Typed, "s[0]=1", Err("unable to parse key: interface conversion: interface {} is string, not []interface {}"), None),
    (Typed, "n[0]=1", Err("unable to parse key: interface conversion: interface {} is nil, not []interface {}"), None),
    (Typed, "n.x=1", Err("unable to parse key: interface conversion: interface {} is nil, not map[string]interface {}"), None),
    (Typed, "m[0]=1", Err("unable to parse key: interface conversion: interface {} is map[string]interface {}, not []interface {}"), None),
    (Typed, "l.x=1", Err("unable to parse key: interface conversion: interface {} is []interface {}, not map[string]interface {}"), None),
    (Typed, "f.x=1", Err("unable to parse key: interface conversion: interface {} is float64, not map[string]interface {}"), None),
    (Typed, "l[0].z=1", Ok(r#"{"f":1.5,"l":[{"z":1},{"z":0},[1]],"m":{"k":"v"},"n":null,"s":"text"}"#), None),
    (Typed, "l[1].z=1", Ok(r#"{"f":1.5,"l":["x",{"z":1},[1]],"m":{"k":"v"},"n":null,"s":"text"}"#), None),
    (Typed, "l[2][1]=2", Ok(r#"{"f":1.5,"l":["x",{"z":0},[1,2]],"m":{"k":"v"},"n":null,"s":"text"}"#), None),
    (Typed, "l[4]=z", Ok(r#"{"f":1.5,"l":["x",{"z":0},[1],null,"z"],"m":{"k":"v"},"n":null,"s":"text"}"#), None),
    (Typed, "m.k=null", Ok(r#"{"f":1.5,"l":["x",{"z":0},[1]],"m":{"k":null},"n":null,"s":"text"}"#), None),
    (Typed, "a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a=1", Err("value name nested level is greater than maximum supported nested level of 30"), None),
    (Text, "a=1,b=true", Ok(r#"{"a":"1","b":"true","f":1.5,"l":["x",{"z":0},[1]],"m":{"k":"v"},"n":null,"s":"text"}"#), None),
    (Text, "a={1,null}", Ok(r#"{"a":["1","null"],"f":1.5,"l":["x",{"z":0},[1]],"m":{"k":"v"},"n":null,"s":"text"}"#), None),
    (Text, "m.k=5", Ok(r#"{"f":1.5,"l":["x",{"z":0},[1]],"m":{"k":"5"},"n":null,"s":"text"}"#), None),
    (File, "a=x", Ok(r#"{"a":"<x>","f":1.5,"l":["x",{"z":0},[1]],"m":{"k":"v"},"n":null,"s":"text"}"#), None),
    (File, "a=bad", Err("no file bad"), None),
    (File, "a={x,y}", Ok(r#"{"a":["<x>","<y>"],"f":1.5,"l":["x",{"z":0},[1]],"m":{"k":"v"},"n":null,"s":"text"}"#), None),
    (File, "a=", Ok(r#"{"a":"","f":1.5,"l":["x",{"z":0},[1]],"m":{"k":"v"},"n":null,"s":"text"}"#), None),
    (Literal, "a=1,b=2", Ok(r#"{"a":"1,b=2","f":1.5,"l":["x",{"z":0},[1]],"m":{"k":"v"},"n":null,"s":"text"}"#), None),
    (Literal, r"a=b\,c={x}", Ok(r#"{"a":"b\\,c={x}","f":1.5,"l":["x",{"z":0},[1]],"m":{"k":"v"},"n":null,"s":"text"}"#), None),
    (Literal, "a[1]=x", Ok(r#"{"a":[null,"x"],"f":1.5,"l":["x",{"z":0},[1]],"m":{"k":"v"},"n":null,"s":"text"}"#), None),
    (Literal, "a.b=", Ok(r#"{"a":{"b":""},"f":1.5,"l":["x",{"z":0},[1]],"m":{"k":"v"},"n":null,"s":"text"}"#), None),
    (Literal, "a", Err(r#"key "a" has no value"#), None),
    (Json, "a=1", Ok(r#"{"a":1,"f":1.5,"l":["x",{"z":0},[1]],"m":{"k":"v"},"n":null,"s":"text"}"#), None),
    (Json, "a=", Ok(r#"{"a":null,"f":1.5,"l":["x",{"z":0},[1]],"m":{"k":"v"},"n":null,"s":"text"}"#), None),
    (Json, r#"a={"x":[1,"]"]} , b=null"#, Ok(r#"{" b":null,"a":{"x":[1,"]"]},"f":1.5,"l":["x",{"z":0},[1]],"m":{"k":"v"},"n":null,"s":"text"}"#), None),
    (Json, "a=truex=1", Ok(r#"{"a":true,"f":1.5,"l":["x",{"z":0},[1]],"m":{"k":"v"},"n":null,"s":"text","x":1}"#), None),
    (Json, r#"a[1]="q,w""#, Ok(r#"{"a":[null,"q,w"],"f":1.5,"l":["x",{"z":0},[1]],"m":{"k":"v"},"n":null,"s":"text"}"#), None),
    (Json, "m.k=[1,{}]", Ok(r#"{"f":1.5,"l":["x",{"z":0},[1]],"m":{"k":[1,{}]},"n":null,"s":"text"}"#), None),
];

fn base_values() -> Members {
    match json::parse(BASE) {
        Ok(Data::Map(members)) => members,
        other => panic!("{other:?}"),
    }
}

fn apply_to_base(flag: SetFlag, line: &str, profile: Profile) -> Result<String, String> {
    let mut values = base_values();
    let mut read_file = |name: &str| {
        if name.starts_with("bad") {
            Err(format!("no file {name}").into())
        } else {
            Ok(format!("<{name}>").into())
        }
    };
    apply(flag, line, &mut values, profile, &mut read_file).map_err(|error| error.to_string())?;
    Ok(json::write(&Data::Map(values), JsonStyle::Raw).unwrap())
}

#[test]
fn apply_matches_helm() {
    for (kind, line, helm3, helm4) in CASES {
        for (profile, told) in [(Profile::Helm3, *helm3), (Profile::Helm4, helm4.unwrap_or(*helm3))] {
            let result = apply_to_base(*kind, line, profile);
            let actual = result.as_ref().map(|text| text.trim_end()).map_err(String::as_str);
            assert_eq!(actual, told, "{kind:?} {line:?} {profile:?}");
        }
    }
}

#[test]
fn integers_stay_integers() {
    let mut values = Members::new();
    apply(Typed, "a=1,b=1.0", &mut values, Profile::Helm3, &mut |_| Err("no".into())).unwrap();
    assert_eq!(values.get("a"), Some(&Data::Int(1)));
    assert_eq!(values.get("b"), Some(&Data::string("1.0")));
}

#[test]
fn apply_rejects_oversized_input() {
    let many = (0..100).map(|n| format!("k{n}[65536]=1")).collect::<Vec<_>>().join(",");
    let deep = format!("a{}=1", "[0]".repeat(100_000));
    for (line, expected) in [(many, "lists have more than 1048576 elements"), (deep, "more than 250 indexes")]
    {
        let error = apply_to_base(Typed, &line, Profile::Helm4).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

proptest! {
    #[test]
    fn no_line_panics(line in "[a-c\\[\\]{}.,=\\\\0-9\" n-]{0,30}", kind in 0..5_usize) {
        let kind = [Json, Typed, Text, File, Literal][kind];
        let _ = apply_to_base(kind, &line, Profile::Helm3);
        let _ = apply_to_base(kind, &line, Profile::Helm4);
    }
}
