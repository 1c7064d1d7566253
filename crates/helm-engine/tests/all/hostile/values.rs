//! Values that expand exponentially or are nested too deeply.

use helm_chart::set::Kind;
use helm_chart::values::Source;

use super::{Attack, Case, files};

fn of_chart(values: &str) -> Attack {
    files(&[("values.yaml", values), ("templates/a.yaml", "{{ .Values | toYaml }}")])
}

fn of_user(source: Source) -> Attack {
    Attack { sources: vec![source], ..of_chart("") }
}

fn set(kind: Kind, line: &str) -> Attack {
    of_user(Source::Set(kind, line.into()))
}

fn laughs() -> String {
    let mut text = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
    for n in 1..20 {
        let before = vec![format!("*a{}", n - 1); 9].join(", ");
        text += &format!("a{n}: &a{n} [{before}]\n");
    }
    text
}

fn merges() -> String {
    let mut text = "a0: &a0 {x: 1}\n".to_owned();
    for n in 1..60 {
        text += &format!("a{n}: &a{n} {{l: *a{0}, r: *a{0}, <<: *a{0}}}\n", n - 1);
    }
    text
}

#[rustfmt::skip]
pub fn cases() -> Vec<Case> {
    vec![
        Case::new("values: billion laughs", &["values.yaml", "excessive aliasing"], || of_chart(&laughs())),
        Case::new("values: billion laughs of the user", &["my.yaml", "excessive aliasing"], || {
            of_user(Source::File { name: "my.yaml".into(), text: laughs().into() })
        }),
        Case::new("values: merged keys that double", &["values.yaml", "excessive aliasing"], || of_chart(&merges())),
        Case::new("values: an anchor that contains itself", &["values.yaml", "contains itself"], || of_chart("a: &a [*a]\n")),
        Case::new("values: 10,000 deep on one line", &["values.yaml", "depth"], || of_chart(&("a: ".to_owned() + &"[".repeat(10_000) + &"]".repeat(10_000)))),
        Case::new("values: 1,000,000 deep on one line", &["values.yaml", "values"], || of_chart(&("a: ".to_owned() + &"{a: ".repeat(1_000_000)))),
        Case::new("values: 2,000 deep in lines", &["values.yaml", "depth"], || {
            of_chart(&(0..2_000).map(|n| " ".repeat(n) + "a:\n").collect::<String>())
        }),
        Case::new("values: 10,000 dashes", &["values.yaml", "depth"], || of_chart(&("a:\n".to_owned() + &"- ".repeat(10_000)))),
        Case::new("values: 400 deep", &[], || of_chart(&("a: ".to_owned() + &"[".repeat(400) + &"]".repeat(400)))),
        Case::new("values: 50,000 entries", &[], || of_chart(&(0..50_000).map(|n| format!("k{n}: {n}\n")).collect::<String>())),
        Case::new("values: a long number", &[], || of_chart(&format!("a: {}\n", "9".repeat(1_000_000)))),
        Case::new("--set: an index of a thousand million", &["--set", "1000000000"], || set(Kind::Typed, "a[1000000000]=x")),
        Case::new("--set: the highest indexes", &["--set", "more than"], || set(Kind::Typed, &("a".to_owned() + &"[65536]".repeat(200) + "=x"))),
        Case::new("--set: 100,000 names", &["--set", "nested level"], || set(Kind::Typed, &("a.".repeat(100_000) + "a=x"))),
        Case::new("--set: 100,000 indexes", &["--set", "indexes"], || set(Kind::Typed, &("a".to_owned() + &"[0]".repeat(100_000) + "=x"))),
        Case::new("--set: 100,000 lines", &[], || set(Kind::Typed, &(0..100_000).map(|n| format!("a{n}=x,")).collect::<String>())),
        Case::new("--set-json: 100,000 deep", &["--set-json"], || set(Kind::Json, &("a=".to_owned() + &"[".repeat(100_000) + &"]".repeat(100_000)))),
        Case::new("--set-json: 900 deep", &[], || set(Kind::Json, &("a=".to_owned() + &"[".repeat(900) + &"]".repeat(900)))),
    ]
}
