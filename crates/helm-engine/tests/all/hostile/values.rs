//! Values that expand exponentially or are nested too deeply.

use helm_chart::set::SetFlag;
use helm_chart::values::ValuesSource;

use super::{Attack, HostileCase, files};

fn chart_values_attack(values: &str) -> Attack {
    files(&[("values.yaml", values), ("templates/a.yaml", "{{ .Values | toYaml }}")])
}

fn user_values_attack(source: ValuesSource) -> Attack {
    Attack { sources: vec![source], ..chart_values_attack("") }
}

fn set(kind: SetFlag, line: &str) -> Attack {
    user_values_attack(ValuesSource::Set(kind, line.into()))
}

fn billion_laughs() -> String {
    let mut text = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
    for n in 1..20 {
        let before = vec![format!("*a{}", n - 1); 9].join(", ");
        text += &format!("a{n}: &a{n} [{before}]\n");
    }
    text
}

fn nested_merges() -> String {
    let mut text = "a0: &a0 {x: 1}\n".to_owned();
    for n in 1..60 {
        text += &format!("a{n}: &a{n} {{l: *a{0}, r: *a{0}, <<: *a{0}}}\n", n - 1);
    }
    text
}

#[rustfmt::skip]
pub fn cases() -> Vec<HostileCase> {
    vec![
        HostileCase::new("values: billion laughs", &["values.yaml", "excessive aliasing"], || chart_values_attack(&billion_laughs())),
        HostileCase::new("values: billion laughs of the user", &["my.yaml", "excessive aliasing"], || {
            user_values_attack(ValuesSource::File { name: "my.yaml".into(), text: billion_laughs().into() })
        }),
        HostileCase::new("values: merged keys that double", &["values.yaml", "excessive aliasing"], || chart_values_attack(&nested_merges())),
        HostileCase::new("values: an anchor that contains itself", &["values.yaml", "contains itself"], || chart_values_attack("a: &a [*a]\n")),
        HostileCase::new("values: 10,000 deep on one line", &["values.yaml", "depth"], || chart_values_attack(&("a: ".to_owned() + &"[".repeat(10_000) + &"]".repeat(10_000)))),
        HostileCase::new("values: 1,000,000 deep on one line", &["values.yaml", "values"], || chart_values_attack(&("a: ".to_owned() + &"{a: ".repeat(1_000_000)))),
        HostileCase::new("values: 2,000 deep in lines", &["values.yaml", "depth"], || {
            chart_values_attack(&(0..2_000).map(|n| " ".repeat(n) + "a:\n").collect::<String>())
        }),
        HostileCase::new("values: 10,000 dashes", &["values.yaml", "depth"], || chart_values_attack(&("a:\n".to_owned() + &"- ".repeat(10_000)))),
        HostileCase::new("values: 400 deep", &[], || chart_values_attack(&("a: ".to_owned() + &"[".repeat(400) + &"]".repeat(400)))),
        HostileCase::new("values: 50,000 entries", &[], || chart_values_attack(&(0..50_000).map(|n| format!("k{n}: {n}\n")).collect::<String>())),
        HostileCase::new("values: a long number", &[], || chart_values_attack(&format!("a: {}\n", "9".repeat(1_000_000)))),
        HostileCase::new("--set: an index of a thousand million", &["--set", "1000000000"], || set(SetFlag::Typed, "a[1000000000]=x")),
        HostileCase::new("--set: the highest indexes", &["--set", "more than"], || set(SetFlag::Typed, &("a".to_owned() + &"[65536]".repeat(200) + "=x"))),
        HostileCase::new("--set: 100,000 names", &["--set", "nested level"], || set(SetFlag::Typed, &("a.".repeat(100_000) + "a=x"))),
        HostileCase::new("--set: 100,000 indexes", &["--set", "indexes"], || set(SetFlag::Typed, &("a".to_owned() + &"[0]".repeat(100_000) + "=x"))),
        HostileCase::new("--set: 100,000 lines", &[], || set(SetFlag::Typed, &(0..100_000).map(|n| format!("a{n}=x,")).collect::<String>())),
        HostileCase::new("--set-json: 100,000 deep", &["--set-json"], || set(SetFlag::Json, &("a=".to_owned() + &"[".repeat(100_000) + &"]".repeat(100_000)))),
        HostileCase::new("--set-json: 900 deep", &[], || set(SetFlag::Json, &("a=".to_owned() + &"[".repeat(900) + &"]".repeat(900)))),
    ]
}
