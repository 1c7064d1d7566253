//! Printed and encoded forms of built-in objects. Every expectation was compared with Helm 3.17.3 and 4.3.1.

use std::fmt::Write;

use helm_chart::{Chart, File, Metadata};
use helm_template::data::Members;
use helm_template::env::RenderEnv;
use helm_template::json::{JsonStyle, write_value};
use helm_template::profile::Profile;
use helm_template::value::Value;

use super::*;
use crate::{Capabilities, Engine, EngineRequest, ParsedChart};

#[rustfmt::skip]
const ROWS: &[(&str, &str, &str)] = &[
    (r#"printf "%v" .Chart"#, "{{c  [] 1.2.3  [] []  v2    false map[]  [] } true}", "map[APIVersion:v2 Annotations:map[] AppVersion: Condition: Dependencies:[] Deprecated:false Description: Home: Icon: IsRoot:true Keywords:[] KubeVersion: Maintainers:[] Name:c Sources:[] Tags: Type: Version:1.2.3]"),
    (r#"printf "%v" (.Files.Glob "[fg]*")"#, "map[f.txt:[104 101 108 108 111]]", "map[f.txt:[104 101 108 108 111]]"),
    (r#"printf "%v" (.Files.Glob "none")"#, "map[]", "map[]"),
    (r#"printf "%v" .Capabilities.KubeVersion"#, "{v1.32.0 1 32}", "{v1.37.0 v1.37.0 1 37}"),
    (r#"printf "%v" (list .Capabilities.KubeVersion 1)"#, "[{v1.32.0 1 32} 1]", "[{v1.37.0 v1.37.0 1 37} 1]"),
    (r#"printf "%v" (dict "a" .Capabilities.KubeVersion "f" (.Files.Glob "f*"))"#, "map[a:{v1.32.0 1 32} f:map[f.txt:[104 101 108 108 111]]]", "map[a:{v1.37.0 v1.37.0 1 37} f:map[f.txt:[104 101 108 108 111]]]"),
    (r#"printf "%+v" .Chart"#, "{Metadata:{Name:c Home: Sources:[] Version:1.2.3 Description: Keywords:[] Maintainers:[] Icon: APIVersion:v2 Condition: Tags: AppVersion: Deprecated:false Annotations:map[] KubeVersion: Dependencies:[] Type:} IsRoot:true}", "map[APIVersion:v2 Annotations:map[] AppVersion: Condition: Dependencies:[] Deprecated:false Description: Home: Icon: IsRoot:true Keywords:[] KubeVersion: Maintainers:[] Name:c Sources:[] Tags: Type: Version:1.2.3]"),
    (r#"printf "%+v" (.Files.Glob "[fg]*")"#, "map[f.txt:[104 101 108 108 111]]", "map[f.txt:[104 101 108 108 111]]"),
    (r#"printf "%+v" (.Files.Glob "none")"#, "map[]", "map[]"),
    (r#"printf "%+v" .Capabilities.KubeVersion"#, "{Version:v1.32.0 Major:1 Minor:32}", "{Version:v1.37.0 normalizedVersion:v1.37.0 Major:1 Minor:37}"),
    (r#"printf "%+v" (list .Capabilities.KubeVersion 1)"#, "[{Version:v1.32.0 Major:1 Minor:32} 1]", "[{Version:v1.37.0 normalizedVersion:v1.37.0 Major:1 Minor:37} 1]"),
    (r#"printf "%+v" (dict "a" .Capabilities.KubeVersion "f" (.Files.Glob "f*"))"#, "map[a:{Version:v1.32.0 Major:1 Minor:32} f:map[f.txt:[104 101 108 108 111]]]", "map[a:{Version:v1.37.0 normalizedVersion:v1.37.0 Major:1 Minor:37} f:map[f.txt:[104 101 108 108 111]]]"),
    (r#"printf "%#v" .Chart"#, r#"struct { chart.Metadata; IsRoot bool }{Metadata:chart.Metadata{Name:"c", Home:"", Sources:[]string(nil), Version:"1.2.3", Description:"", Keywords:[]string(nil), Maintainers:[]*chart.Maintainer(nil), Icon:"", APIVersion:"v2", Condition:"", Tags:"", AppVersion:"", Deprecated:false, Annotations:map[string]string(nil), KubeVersion:"", Dependencies:[]*chart.Dependency(nil), Type:""}, IsRoot:true}"#, r#"map[string]interface {}{"APIVersion":"v2", "Annotations":map[string]string(nil), "AppVersion":"", "Condition":"", "Dependencies":[]interface {}{}, "Deprecated":false, "Description":"", "Home":"", "Icon":"", "IsRoot":true, "Keywords":[]interface {}{}, "KubeVersion":"", "Maintainers":[]interface {}{}, "Name":"c", "Sources":[]interface {}{}, "Tags":"", "Type":"", "Version":"1.2.3"}"#),
    (r#"printf "%#v" (.Files.Glob "[fg]*")"#, r#"engine.files{"f.txt":[]uint8{0x68, 0x65, 0x6c, 0x6c, 0x6f}}"#, r#"engine.files{"f.txt":[]uint8{0x68, 0x65, 0x6c, 0x6c, 0x6f}}"#),
    (r#"printf "%#v" (.Files.Glob "none")"#, "engine.files{}", "engine.files{}"),
    (r#"printf "%#v" .Capabilities.KubeVersion"#, r#"chartutil.KubeVersion{Version:"v1.32.0", Major:"1", Minor:"32"}"#, r#"common.KubeVersion{Version:"v1.37.0", normalizedVersion:"v1.37.0", Major:"1", Minor:"37"}"#),
    (r#"printf "%#v" (list .Capabilities.KubeVersion 1)"#, r#"[]interface {}{chartutil.KubeVersion{Version:"v1.32.0", Major:"1", Minor:"32"}, 1}"#, r#"[]interface {}{common.KubeVersion{Version:"v1.37.0", normalizedVersion:"v1.37.0", Major:"1", Minor:"37"}, 1}"#),
    (r#"printf "%#v" (dict "a" .Capabilities.KubeVersion "f" (.Files.Glob "f*"))"#, r#"map[string]interface {}{"a":chartutil.KubeVersion{Version:"v1.32.0", Major:"1", Minor:"32"}, "f":engine.files{"f.txt":[]uint8{0x68, 0x65, 0x6c, 0x6c, 0x6f}}}"#, r#"map[string]interface {}{"a":common.KubeVersion{Version:"v1.37.0", normalizedVersion:"v1.37.0", Major:"1", Minor:"37"}, "f":engine.files{"f.txt":[]uint8{0x68, 0x65, 0x6c, 0x6c, 0x6f}}}"#),
    (r#"printf "%d" .Chart"#, "{{%!d(string=c) %!d(string=) [] %!d(string=1.2.3) %!d(string=) [] [] %!d(string=) %!d(string=v2) %!d(string=) %!d(string=) %!d(string=) %!d(bool=false) map[] %!d(string=) [] %!d(string=)} %!d(bool=true)}", "map[%!d(string=APIVersion):%!d(string=v2) %!d(string=Annotations):map[] %!d(string=AppVersion):%!d(string=) %!d(string=Condition):%!d(string=) %!d(string=Dependencies):[] %!d(string=Deprecated):%!d(bool=false) %!d(string=Description):%!d(string=) %!d(string=Home):%!d(string=) %!d(string=Icon):%!d(string=) %!d(string=IsRoot):%!d(bool=true) %!d(string=Keywords):[] %!d(string=KubeVersion):%!d(string=) %!d(string=Maintainers):[] %!d(string=Name):%!d(string=c) %!d(string=Sources):[] %!d(string=Tags):%!d(string=) %!d(string=Type):%!d(string=) %!d(string=Version):%!d(string=1.2.3)]"),
    (r#"printf "%d" (.Files.Glob "[fg]*")"#, "map[%!d(string=f.txt):[104 101 108 108 111]]", "map[%!d(string=f.txt):[104 101 108 108 111]]"),
    (r#"printf "%d" (.Files.Glob "none")"#, "map[]", "map[]"),
    (r#"printf "%d" .Capabilities.KubeVersion"#, "{%!d(string=v1.32.0) %!d(string=1) %!d(string=32)}", "{%!d(string=v1.37.0) %!d(string=v1.37.0) %!d(string=1) %!d(string=37)}"),
    (r#"printf "%d" (list .Capabilities.KubeVersion 1)"#, "[{%!d(string=v1.32.0) %!d(string=1) %!d(string=32)} 1]", "[{%!d(string=v1.37.0) %!d(string=v1.37.0) %!d(string=1) %!d(string=37)} 1]"),
    (r#"printf "%d" (dict "a" .Capabilities.KubeVersion "f" (.Files.Glob "f*"))"#, "map[%!d(string=a):{%!d(string=v1.32.0) %!d(string=1) %!d(string=32)} %!d(string=f):map[%!d(string=f.txt):[104 101 108 108 111]]]", "map[%!d(string=a):{%!d(string=v1.37.0) %!d(string=v1.37.0) %!d(string=1) %!d(string=37)} %!d(string=f):map[%!d(string=f.txt):[104 101 108 108 111]]]"),
    (r#"printf "%s" .Chart"#, "{{c  [] 1.2.3  [] []  v2    %!s(bool=false) map[]  [] } %!s(bool=true)}", "map[APIVersion:v2 Annotations:map[] AppVersion: Condition: Dependencies:[] Deprecated:%!s(bool=false) Description: Home: Icon: IsRoot:%!s(bool=true) Keywords:[] KubeVersion: Maintainers:[] Name:c Sources:[] Tags: Type: Version:1.2.3]"),
    (r#"printf "%s" (.Files.Glob "[fg]*")"#, "map[f.txt:hello]", "map[f.txt:hello]"),
    (r#"printf "%s" (.Files.Glob "none")"#, "map[]", "map[]"),
    (r#"printf "%s" .Capabilities.KubeVersion"#, "{v1.32.0 1 32}", "{v1.37.0 v1.37.0 1 37}"),
    (r#"printf "%s" (list .Capabilities.KubeVersion 1)"#, "[{v1.32.0 1 32} %!s(int=1)]", "[{v1.37.0 v1.37.0 1 37} %!s(int=1)]"),
    (r#"printf "%s" (dict "a" .Capabilities.KubeVersion "f" (.Files.Glob "f*"))"#, "map[a:{v1.32.0 1 32} f:map[f.txt:hello]]", "map[a:{v1.37.0 v1.37.0 1 37} f:map[f.txt:hello]]"),
    (r#"printf "%q" .Chart"#, r#"{{"c" "" [] "1.2.3" "" [] [] "" "v2" "" "" "" %!q(bool=false) map[] "" [] ""} %!q(bool=true)}"#, r#"map["APIVersion":"v2" "Annotations":map[] "AppVersion":"" "Condition":"" "Dependencies":[] "Deprecated":%!q(bool=false) "Description":"" "Home":"" "Icon":"" "IsRoot":%!q(bool=true) "Keywords":[] "KubeVersion":"" "Maintainers":[] "Name":"c" "Sources":[] "Tags":"" "Type":"" "Version":"1.2.3"]"#),
    (r#"printf "%q" (.Files.Glob "[fg]*")"#, r#"map["f.txt":"hello"]"#, r#"map["f.txt":"hello"]"#),
    (r#"printf "%q" (.Files.Glob "none")"#, "map[]", "map[]"),
    (r#"printf "%q" .Capabilities.KubeVersion"#, r#"{"v1.32.0" "1" "32"}"#, r#"{"v1.37.0" "v1.37.0" "1" "37"}"#),
    (r#"printf "%q" (list .Capabilities.KubeVersion 1)"#, "[{\"v1.32.0\" \"1\" \"32\"} '\\x01']", "[{\"v1.37.0\" \"v1.37.0\" \"1\" \"37\"} '\\x01']"),
    (r#"printf "%q" (dict "a" .Capabilities.KubeVersion "f" (.Files.Glob "f*"))"#, r#"map["a":{"v1.32.0" "1" "32"} "f":map["f.txt":"hello"]]"#, r#"map["a":{"v1.37.0" "v1.37.0" "1" "37"} "f":map["f.txt":"hello"]]"#),
    (r#"printf "%x" .Chart"#, "{{63  [] 312e322e33  [] []  7632    %!x(bool=false) map[]  [] } %!x(bool=true)}", "map[41504956657273696f6e:7632 416e6e6f746174696f6e73:map[] 41707056657273696f6e: 436f6e646974696f6e: 446570656e64656e63696573:[] 44657072656361746564:%!x(bool=false) 4465736372697074696f6e: 486f6d65: 49636f6e: 4973526f6f74:%!x(bool=true) 4b6579776f726473:[] 4b75626556657273696f6e: 4d61696e7461696e657273:[] 4e616d65:63 536f7572636573:[] 54616773: 54797065: 56657273696f6e:312e322e33]"),
    (r#"printf "%x" (.Files.Glob "[fg]*")"#, "map[662e747874:68656c6c6f]", "map[662e747874:68656c6c6f]"),
    (r#"printf "%x" (.Files.Glob "none")"#, "map[]", "map[]"),
    (r#"printf "%x" .Capabilities.KubeVersion"#, "{76312e33322e30 31 3332}", "{76312e33372e30 76312e33372e30 31 3337}"),
    (r#"printf "%x" (list .Capabilities.KubeVersion 1)"#, "[{76312e33322e30 31 3332} 1]", "[{76312e33372e30 76312e33372e30 31 3337} 1]"),
    (r#"printf "%x" (dict "a" .Capabilities.KubeVersion "f" (.Files.Glob "f*"))"#, "map[61:{76312e33322e30 31 3332} 66:map[662e747874:68656c6c6f]]", "map[61:{76312e33372e30 76312e33372e30 31 3337} 66:map[662e747874:68656c6c6f]]"),
    (r#"printf "%t" .Chart"#, "{{%!t(string=c) %!t(string=) [] %!t(string=1.2.3) %!t(string=) [] [] %!t(string=) %!t(string=v2) %!t(string=) %!t(string=) %!t(string=) false map[] %!t(string=) [] %!t(string=)} true}", "map[%!t(string=APIVersion):%!t(string=v2) %!t(string=Annotations):map[] %!t(string=AppVersion):%!t(string=) %!t(string=Condition):%!t(string=) %!t(string=Dependencies):[] %!t(string=Deprecated):false %!t(string=Description):%!t(string=) %!t(string=Home):%!t(string=) %!t(string=Icon):%!t(string=) %!t(string=IsRoot):true %!t(string=Keywords):[] %!t(string=KubeVersion):%!t(string=) %!t(string=Maintainers):[] %!t(string=Name):%!t(string=c) %!t(string=Sources):[] %!t(string=Tags):%!t(string=) %!t(string=Type):%!t(string=) %!t(string=Version):%!t(string=1.2.3)]"),
    (r#"printf "%t" (.Files.Glob "[fg]*")"#, "map[%!t(string=f.txt):[%!t(uint8=104) %!t(uint8=101) %!t(uint8=108) %!t(uint8=108) %!t(uint8=111)]]", "map[%!t(string=f.txt):[%!t(uint8=104) %!t(uint8=101) %!t(uint8=108) %!t(uint8=108) %!t(uint8=111)]]"),
    (r#"printf "%t" (.Files.Glob "none")"#, "map[]", "map[]"),
    (r#"printf "%t" .Capabilities.KubeVersion"#, "{%!t(string=v1.32.0) %!t(string=1) %!t(string=32)}", "{%!t(string=v1.37.0) %!t(string=v1.37.0) %!t(string=1) %!t(string=37)}"),
    (r#"printf "%t" (list .Capabilities.KubeVersion 1)"#, "[{%!t(string=v1.32.0) %!t(string=1) %!t(string=32)} %!t(int=1)]", "[{%!t(string=v1.37.0) %!t(string=v1.37.0) %!t(string=1) %!t(string=37)} %!t(int=1)]"),
    (r#"printf "%t" (dict "a" .Capabilities.KubeVersion "f" (.Files.Glob "f*"))"#, "map[%!t(string=a):{%!t(string=v1.32.0) %!t(string=1) %!t(string=32)} %!t(string=f):map[%!t(string=f.txt):[%!t(uint8=104) %!t(uint8=101) %!t(uint8=108) %!t(uint8=108) %!t(uint8=111)]]]", "map[%!t(string=a):{%!t(string=v1.37.0) %!t(string=v1.37.0) %!t(string=1) %!t(string=37)} %!t(string=f):map[%!t(string=f.txt):[%!t(uint8=104) %!t(uint8=101) %!t(uint8=108) %!t(uint8=108) %!t(uint8=111)]]]"),
    (r#"printf "%5v" .Chart"#, "{{    c       [] 1.2.3       [] []          v2                   false map[]       []      }  true}", "map[APIVersion:   v2 Annotations:map[] AppVersion:      Condition:      Dependencies:[] Deprecated:false Description:       Home:       Icon:      IsRoot: true Keywords:[] KubeVersion:      Maintainers:[]  Name:    c Sources:[]  Tags:       Type:      Version:1.2.3]"),
    (r#"printf "%5v" (.Files.Glob "[fg]*")"#, "map[f.txt:[  104   101   108   108   111]]", "map[f.txt:[  104   101   108   108   111]]"),
    (r#"printf "%5v" (.Files.Glob "none")"#, "map[]", "map[]"),
    (r#"printf "%5v" .Capabilities.KubeVersion"#, "{v1.32.0     1    32}", "{v1.37.0 v1.37.0     1    37}"),
    (r#"printf "%5v" (list .Capabilities.KubeVersion 1)"#, "[{v1.32.0     1    32}     1]", "[{v1.37.0 v1.37.0     1    37}     1]"),
    (r#"printf "%5v" (dict "a" .Capabilities.KubeVersion "f" (.Files.Glob "f*"))"#, "map[    a:{v1.32.0     1    32}     f:map[f.txt:[  104   101   108   108   111]]]", "map[    a:{v1.37.0 v1.37.0     1    37}     f:map[f.txt:[  104   101   108   108   111]]]"),
    (r#"printf "%+v" .Capabilities | trunc 120"#, "&{KubeVersion:{Version:v1.32.0 Major:1 Minor:32} APIVersions:[v1 admissionregistration.k8s.io/v1 admissionregistration.k", "&{KubeVersion:{Version:v1.37.0 normalizedVersion:v1.37.0 Major:1 Minor:37} APIVersions:[v1 admissionregistration.k8s.io/"),
    (r#"printf "%#v" .Capabilities | trunc 120"#, r#"&chartutil.Capabilities{KubeVersion:chartutil.KubeVersion{Version:"v1.32.0", Major:"1", Minor:"32"}, APIVersions:chartut"#, r#"&common.Capabilities{KubeVersion:common.KubeVersion{Version:"v1.37.0", normalizedVersion:"v1.37.0", Major:"1", Minor:"37"#),
    ("toYamlPretty .Chart", "metadata:\n  name: c\n  home: \"\"\n  sources: []\n  version: 1.2.3\n  description: \"\"\n  keywords: []\n  maintainers: []\n  icon: \"\"\n  apiversion: v2\n  condition: \"\"\n  tags: \"\"\n  appversion: \"\"\n  deprecated: false\n  annotations: {}\n  kubeversion: \"\"\n  dependencies: []\n  type: \"\"\nisroot: true", "APIVersion: v2\nAnnotations: {}\nAppVersion: \"\"\nCondition: \"\"\nDependencies: []\nDeprecated: false\nDescription: \"\"\nHome: \"\"\nIcon: \"\"\nIsRoot: true\nKeywords: []\nKubeVersion: \"\"\nMaintainers: []\nName: c\nSources: []\nTags: \"\"\nType: \"\"\nVersion: 1.2.3"),
    ("toYamlPretty .Capabilities.KubeVersion", "version: v1.32.0\nmajor: \"1\"\nminor: \"32\"", "version: v1.37.0\nmajor: \"1\"\nminor: \"37\""),
    (r#"toYamlPretty (.Files.Glob "[fg]*")"#, "f.txt:\n  - 104\n  - 101\n  - 108\n  - 108\n  - 111", "f.txt:\n  - 104\n  - 101\n  - 108\n  - 108\n  - 111"),
    (r#"toYamlPretty (dict "l" (list .Capabilities.KubeVersion))"#, "l:\n  - version: v1.32.0\n    major: \"1\"\n    minor: \"32\"", "l:\n  - version: v1.37.0\n    major: \"1\"\n    minor: \"37\""),
    ("toToml .Chart", "Name = \"c\"\nHome = \"\"\nVersion = \"1.2.3\"\nDescription = \"\"\nIcon = \"\"\nAPIVersion = \"v2\"\nCondition = \"\"\nTags = \"\"\nAppVersion = \"\"\nDeprecated = false\nKubeVersion = \"\"\nType = \"\"\nIsRoot = true\n", "APIVersion = \"v2\"\nAppVersion = \"\"\nCondition = \"\"\nDependencies = []\nDeprecated = false\nDescription = \"\"\nHome = \"\"\nIcon = \"\"\nIsRoot = true\nKeywords = []\nKubeVersion = \"\"\nMaintainers = []\nName = \"c\"\nSources = []\nTags = \"\"\nType = \"\"\nVersion = \"1.2.3\"\n"),
    ("toToml .Capabilities.KubeVersion", "Version = \"v1.32.0\"\nMajor = \"1\"\nMinor = \"32\"\n", "Version = \"v1.37.0\"\nMajor = \"1\"\nMinor = \"37\"\n"),
    (r#"toToml (.Files.Glob "[fg]*")"#, "\"f.txt\" = [104, 101, 108, 108, 111]\n", "\"f.txt\" = [104, 101, 108, 108, 111]\n"),
    (r#"toToml (dict "a" (list .Capabilities.KubeVersion .Capabilities.KubeVersion) "b" (.Files.Glob "f*"))"#, "[[a]]\n  Version = \"v1.32.0\"\n  Major = \"1\"\n  Minor = \"32\"\n\n[[a]]\n  Version = \"v1.32.0\"\n  Major = \"1\"\n  Minor = \"32\"\n\n[b]\n  \"f.txt\" = [104, 101, 108, 108, 111]\n", "[[a]]\n  Version = \"v1.37.0\"\n  Major = \"1\"\n  Minor = \"37\"\n\n[[a]]\n  Version = \"v1.37.0\"\n  Major = \"1\"\n  Minor = \"37\"\n\n[b]\n  \"f.txt\" = [104, 101, 108, 108, 111]\n"),
    (r#"toToml (dict "a" (list 1 (.Files.Glob "f*")))"#, "a = [1, {\"f.txt\" = [104, 101, 108, 108, 111]}]\n", "a = [1, {\"f.txt\" = [104, 101, 108, 108, 111]}]\n"),
    ("eq .Capabilities .Capabilities", "true", "true"),
    ("eq .Capabilities .Capabilities.Copy", "false", "false"),
    ("deepEqual .Capabilities .Capabilities.Copy", "true", "true"),
    ("eq .Capabilities.KubeVersion .Capabilities.KubeVersion", "true", "true"),
    (r#"index (.Files.GetBytes "f.txt") 0 | typeOf"#, "uint8", "uint8"),
    (r#"first (.Files.GetBytes "f.txt") | kindOf"#, "uint8", "uint8"),
];

fn render(expression: &str, profile: Profile) -> String {
    let file = |name: &str, data: &[u8]| File { name: name.into(), data: data.to_vec().into() };
    let metadata = Metadata {
        name: "c".into(),
        version: "1.2.3".into(),
        api_version: "v2".into(),
        ..Metadata::default()
    };
    let template = file("templates/a.yaml", format!("{{{{ {expression} }}}}").as_bytes());
    let files = vec![file("f.txt", b"hello"), file("g/h.bin", &[0xff, 0])];
    let chart = Chart { metadata, templates: vec![template], files, ..Chart::default() };
    let (values, capabilities) = (Members::new(), Capabilities::default_for(profile));
    let request = EngineRequest::new("x", &values, &capabilities);
    let files = Engine::new(profile).render_files(&ParsedChart::new(chart), &request, RenderEnv::NULL);
    files.map_or_else(
        |failure| failure.message,
        |files| files.iter().map(|file| String::from_utf8_lossy(&file.content).into_owned()).collect(),
    )
}

#[test]
fn objects_print_like_go() {
    let mut wrong = String::new();
    for (expression, three, four) in ROWS {
        for (profile, wanted) in [(Profile::Helm3, three), (Profile::Helm4, four)] {
            let got = render(expression, profile);
            if got != *wanted {
                let _ = writeln!(wrong, "{profile:?} {expression}:\n  {wanted}\n  {got}"); // writing to a String cannot fail
            }
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

fn chart(profile: Profile) -> Value {
    let described = Metadata {
        name: "c".into(),
        version: "1.2.3".into(),
        api_version: "v2".into(),
        ..Metadata::default()
    };
    metadata(&described, true, profile)
}

fn json(value: &Value) -> String {
    write_value(value, JsonStyle::Plain).unwrap()
}

fn field(value: &Value, name: &str) -> Value {
    match value {
        Value::Object(object) => object.field(name),
        value => value.as_map().and_then(|map| map.get(name)),
    }
    .unwrap()
}

#[test]
fn structs_encode_fields_in_declaration_order() {
    let chart = chart(Profile::Helm3);
    assert_eq!(json(&chart), r#"{"name":"c","version":"1.2.3","apiVersion":"v2","IsRoot":true}"#);
    for (profile, version, minor) in [(Profile::Helm3, "v1.32.0", "32"), (Profile::Helm4, "v1.37.0", "37")] {
        let capabilities = capabilities(&Capabilities::default_for(profile), profile);
        let want = format!(r#"{{"Version":"{version}","Major":"1","Minor":"{minor}"}}"#);
        assert_eq!(json(&field(&capabilities, "KubeVersion")), want);
    }
}

#[test]
fn missing_chart_fields_are_nil() {
    for (name, three, four) in [
        ("Annotations", "null", "null"),
        ("Keywords", "null", "[]"),
        ("Maintainers", "null", "[]"),
        ("Home", "\"\"", "\"\""),
    ] {
        assert_eq!(json(&field(&chart(Profile::Helm3), name)), three, "{name}");
        assert_eq!(json(&field(&chart(Profile::Helm4), name)), four, "{name}");
    }
}
