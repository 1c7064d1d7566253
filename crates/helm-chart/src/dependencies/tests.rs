//! Prepared charts and merged values, compared with both Helm versions.

use helm_template::budget::Budget;
use helm_template::data::{Data, Members};
use helm_template::json::{self, JsonStyle};
use helm_template::profile::Profile;
use helm_template::value::{Str, Value};
use proptest::prelude::*;

use super::{MAX_DEPTH, check, prepare};
use crate::chart::Chart;
use crate::metadata::Dependency;
use crate::values::{UserValuesLayer, ValueOrigin, ValuesWarning, explain, overlay, render_values};

/// The merged values, and the paths of the remaining charts.
type ExpectedChart = (&'static str, &'static str);

/// Description, chart, user values, and the results of Helm 3 and Helm 4.
#[rustfmt::skip]
const CHARTS: &[(&str, &str, &str, ExpectedChart, ExpectedChart)] = &[
    ("the user wins over the chart", r#"{"name":"c","values":{"a":1,"t":{"x":1,"y":2}}}"#, r#"{"a":2,"t":{"y":3,"z":4}}"#,
        (r#"{"a":2,"t":{"x":1,"y":3,"z":4}}"#, "c"),
        (r#"{"a":2,"t":{"x":1,"y":3,"z":4}}"#, "c")),
    ("a null deletes a default", r#"{"name":"c","values":{"a":1,"t":{"x":1}}}"#, r#"{"a":null,"t":{"x":null}}"#,
        (r#"{"t":{}}"#, "c"),
        (r#"{"t":{}}"#, "c")),
    ("a null without a default stays", r#"{"name":"c","values":{}}"#, r#"{"a":null,"t":{"x":null}}"#,
        (r#"{"a":null,"t":{"x":null}}"#, "c"),
        (r#"{"a":null,"t":{"x":null}}"#, "c")),
    ("a null of the chart itself", r#"{"name":"c","values":{"a":null,"t":{"x":null,"y":1}}}"#, "{}",
        (r#"{"a":null,"t":{"x":null,"y":1}}"#, "c"),
        (r#"{"t":{"y":1}}"#, "c")),
    ("lists are replaced", r#"{"name":"c","values":{"l":[1,2]}}"#, r#"{"l":[3]}"#,
        (r#"{"l":[3]}"#, "c"),
        (r#"{"l":[3]}"#, "c")),
    ("a table is not overwritten by a text", r#"{"name":"c","values":{"t":{"x":1}}}"#, r#"{"t":"s"}"#,
        (r#"{"t":"s"}"#, "c"),
        (r#"{"t":"s"}"#, "c")),
    ("a text is overwritten by a table", r#"{"name":"c","values":{"t":"s"}}"#, r#"{"t":{"x":1}}"#,
        (r#"{"t":{"x":1}}"#, "c"),
        (r#"{"t":{"x":1}}"#, "c")),
    ("the parent wins over the subchart", r#"{"charts":[{"name":"sub","values":{"a":0,"b":0}}],"name":"c","values":{"sub":{"a":1}}}"#, r#"{"sub":{"c":2}}"#,
        (r#"{"sub":{"a":1,"b":0,"c":2,"global":{}}}"#, "c(c/charts/sub)"),
        (r#"{"sub":{"a":1,"b":0,"c":2,"global":{}}}"#, "c(c/charts/sub)")),
    ("a null of the parent deletes a default of the subchart", r#"{"charts":[{"name":"sub","values":{"a":1,"b":1}}],"name":"c","values":{"sub":{"a":null}}}"#, "{}",
        (r#"{"sub":{"b":1,"global":{}}}"#, "c(c/charts/sub)"),
        (r#"{"sub":{"a":1,"b":1,"global":{}}}"#, "c(c/charts/sub)")),
    ("a null of the user deletes a default of the subchart", r#"{"charts":[{"name":"sub","values":{"a":1,"b":1}}],"name":"c","values":{"sub":{"a":2}}}"#, r#"{"sub":{"a":null,"b":null}}"#,
        (r#"{"sub":{"global":{}}}"#, "c(c/charts/sub)"),
        (r#"{"sub":{"global":{}}}"#, "c(c/charts/sub)")),
    ("the same with the subchart named", r#"{"charts":[{"name":"sub","values":{"a":1,"b":1,"t":{"x":1}}}],"deps":[{"name":"sub","version":"*"}],"name":"c","values":{"sub":{"a":2,"t":{"x":null}}}}"#, r#"{"sub":{"a":null,"b":null}}"#,
        (r#"{"sub":{"global":{},"t":{}}}"#, "c(c/charts/sub)"),
        (r#"{"sub":{"global":{},"t":{}}}"#, "c(c/charts/sub)")),
    ("globals go down", r#"{"charts":[{"name":"sub","values":{"global":{"a":0,"b":0,"t":{"x":{"z":2}}}}}],"name":"c","values":{"global":{"a":1,"t":{"x":{"y":1}}}}}"#, r#"{"global":{"u":1}}"#,
        (r#"{"global":{"a":1,"t":{"x":{"y":1,"z":2}},"u":1},"sub":{"global":{"a":1,"b":0,"t":{"x":{"y":1,"z":2}},"u":1}}}"#, "c(c/charts/sub)"),
        (r#"{"global":{"a":1,"t":{"x":{"y":1,"z":2}},"u":1},"sub":{"global":{"a":1,"b":0,"t":{"x":{"y":1,"z":2}},"u":1}}}"#, "c(c/charts/sub)")),
    ("a global null", r#"{"charts":[{"name":"sub","values":{"global":{"a":2}}}],"name":"c","values":{"global":{"a":1}}}"#, r#"{"global":{"a":null}}"#,
        (r#"{"global":{},"sub":{"global":{"a":2}}}"#, "c(c/charts/sub)"),
        (r#"{"global":{},"sub":{"global":{"a":2}}}"#, "c(c/charts/sub)")),
    ("a global that is no table", r#"{"charts":[{"name":"sub","values":{"a":1}}],"name":"c","values":{"global":"s"}}"#, "{}",
        (r#"{"global":"s","sub":{"a":1}}"#, "c(c/charts/sub)"),
        (r#"{"global":"s","sub":{"a":1}}"#, "c(c/charts/sub)")),
    ("values of a subchart that are no table", r#"{"charts":[{"name":"sub","values":{}}],"name":"c","values":{}}"#, r#"{"sub":3}"#,
        ("Err: type mismatch on sub: %!t(float64=3)", ""),
        ("Err: type mismatch on sub: %!t(float64=3)", "")),
    ("a condition", r#"{"charts":[{"name":"sub","values":{"a":1}}],"deps":[{"condition":"sub.enabled","name":"sub","version":"*"}],"name":"c","values":{"sub":{"enabled":false}}}"#, "{}",
        (r#"{"sub":{"enabled":false}}"#, "c"),
        (r#"{"sub":{"enabled":false}}"#, "c")),
    ("a condition of the user", r#"{"charts":[{"name":"sub","values":{"a":1}}],"deps":[{"condition":"x.y,sub.enabled","name":"sub","version":"*"}],"name":"c","values":{"sub":{"enabled":false}}}"#, r#"{"sub":{"enabled":true}}"#,
        (r#"{"sub":{"a":1,"enabled":true,"global":{}}}"#, "c(c/charts/sub)"),
        (r#"{"sub":{"a":1,"enabled":true,"global":{}}}"#, "c(c/charts/sub)")),
    ("tags", r#"{"charts":[{"name":"sub","values":{"a":1}},{"name":"two","values":{}}],"deps":[{"name":"sub","tags":["t","u"],"version":"*"},{"name":"two","tags":["t"],"version":"*"}],"name":"c","values":{"tags":{"t":false,"u":true}}}"#, "{}",
        (r#"{"sub":{"a":1,"global":{}},"tags":{"t":false,"u":true}}"#, "c(c/charts/sub)"),
        (r#"{"sub":{"a":1,"global":{}},"tags":{"t":false,"u":true}}"#, "c(c/charts/sub)")),
    ("a condition wins over tags", r#"{"charts":[{"name":"sub","values":{"a":1}}],"deps":[{"condition":"on","name":"sub","tags":["t"],"version":"*"}],"name":"c","values":{"on":true,"tags":{"t":false}}}"#, "{}",
        (r#"{"on":true,"sub":{"a":1,"global":{}},"tags":{"t":false}}"#, "c(c/charts/sub)"),
        (r#"{"on":true,"sub":{"a":1,"global":{}},"tags":{"t":false}}"#, "c(c/charts/sub)")),
    ("an alias, twice", r#"{"charts":[{"charts":[{"name":"leaf","values":{}}],"deps":[{"alias":"renamed","name":"leaf","version":"*"}],"name":"sub","values":{"a":1}}],"deps":[{"alias":"one","name":"sub","version":"*"},{"alias":"two","name":"sub","version":"*"},{"name":"sub","version":"*"}],"name":"c","values":{"one":{"a":2}}}"#, "{}",
        (r#"{"one":{"a":2,"global":{},"renamed":{"global":{}}},"sub":{"a":1,"global":{},"leaf":{"global":{}}},"two":{"a":1,"global":{},"leaf":{"global":{}}}}"#, "c(c/charts/one(c/charts/one/charts/renamed) c/charts/two(c/charts/sub/charts/leaf) c/charts/sub(c/charts/sub/charts/leaf))"),
        (r#"{"one":{"a":2,"global":{},"renamed":{"global":{}}},"sub":{"a":1,"global":{},"renamed":{"global":{}}},"two":{"a":1,"global":{},"renamed":{"global":{}}}}"#, "c(c/charts/one(c/charts/one/charts/renamed) c/charts/two(c/charts/two/charts/renamed) c/charts/sub(c/charts/sub/charts/renamed))")),
    ("an alias over an unnamed subchart", r#"{"charts":[{"charts":[{"name":"leaf","values":{}}],"name":"sub","values":{}}],"deps":[{"alias":"one","name":"sub","version":"*"}],"name":"c","values":{}}"#, "{}",
        (r#"{"one":{"global":{},"leaf":{"global":{}}}}"#, "c(c/charts/one(c/charts/sub/charts/leaf))"),
        (r#"{"one":{"global":{},"leaf":{"global":{}}}}"#, "c(c/charts/one(c/charts/one/charts/leaf))")),
    ("a version that does not fit", r#"{"charts":[{"name":"sub","values":{"a":1}}],"deps":[{"alias":"one","name":"sub","version":"^2"}],"name":"c","values":{}}"#, "{}",
        (r#"{"sub":{"a":1,"global":{}}}"#, "c(c/charts/sub)"),
        (r#"{"sub":{"a":1,"global":{}}}"#, "c(c/charts/sub)")),
    ("exports", r#"{"charts":[{"name":"sub","values":{"exports":{"data":{"given":3,"own":2}}}}],"deps":[{"import-values":["data","none"],"name":"sub","version":"*"}],"name":"c","values":{"own":1}}"#, "{}",
        (r#"{"given":3,"own":1,"sub":{"exports":{"data":{"given":3,"own":2}},"global":{}}}"#, "c(c/charts/sub)"),
        (r#"{"given":3,"own":1,"sub":{"exports":{"data":{"given":3,"own":2}},"global":{}}}"#, "c(c/charts/sub)")),
    ("imports", r#"{"charts":[{"name":"sub","values":{"t":{"deep":{"x":1},"own":2}}}],"deps":[{"import-values":[{"child":"t","parent":"p"},{"child":"t.deep","parent":"."}],"name":"sub","version":"*"}],"name":"c","values":{"p":{"own":1}}}"#, "{}",
        (r#"{"p":{"deep":{"x":1},"own":1},"sub":{"global":{},"t":{"deep":{"x":1},"own":2}},"x":1}"#, "c(c/charts/sub)"),
        (r#"{"p":{"deep":{"x":1},"own":1},"sub":{"global":{},"t":{"deep":{"x":1},"own":2}},"x":1}"#, "c(c/charts/sub)")),
    ("imports from below", r#"{"charts":[{"charts":[{"name":"leaf","values":{"exports":{"e":{"x":1}}}}],"deps":[{"import-values":["e"],"name":"leaf","version":"*"}],"name":"sub","values":{}}],"deps":[{"import-values":[{"child":"x","parent":"y"},{"child":"leaf.exports","parent":"all"}],"name":"sub","version":"*"}],"name":"c","values":{}}"#, "{}",
        (r#"{"all":{"e":{"x":1}},"sub":{"global":{},"leaf":{"exports":{"e":{"x":1}},"global":{}},"x":1}}"#, "c(c/charts/sub(c/charts/sub/charts/leaf))"),
        (r#"{"all":{"e":{"x":1}},"sub":{"global":{},"leaf":{"exports":{"e":{"x":1}},"global":{}},"x":1}}"#, "c(c/charts/sub(c/charts/sub/charts/leaf))")),
];

fn members(data: Option<&Data>) -> Members {
    data.and_then(Data::as_map).cloned().unwrap_or_default()
}

fn text(data: Option<&Data>) -> Str {
    data.and_then(Data::as_str).unwrap_or_default().into()
}

fn list<'d>(data: &'d Data, key: &str) -> &'d [Data] {
    data.get(key).and_then(Data::as_list).unwrap_or_default()
}

/// Builds a chart from a short form.
fn chart(data: &Data) -> Chart {
    let mut chart = Chart { values: members(data.get("values")), ..Chart::default() };
    chart.metadata.name = text(data.get("name"));
    chart.metadata.version = "1.0.0".into();
    chart.dependencies = list(data, "charts").iter().map(self::chart).collect();
    let dependency = |data: &Data| Dependency {
        name: text(data.get("name")),
        version: text(data.get("version")),
        condition: text(data.get("condition")),
        alias: text(data.get("alias")),
        tags: list(data, "tags").iter().map(|tag| text(Some(tag))).collect(),
        import_values: list(data, "import-values").to_vec(),
        ..Dependency::default()
    };
    chart.metadata.dependencies = list(data, "deps").iter().map(dependency).collect();
    chart
}

fn chart_paths(chart: &Chart, place: &str) -> String {
    let path = chart.path.as_deref().unwrap_or(place);
    let inside = |chart: &Chart| chart_paths(chart, &format!("{place}/charts/{}", chart.metadata.name));
    let inside: Vec<String> = chart.dependencies.iter().map(inside).collect();
    if inside.is_empty() { path.to_owned() } else { format!("{path}({})", inside.join(" ")) }
}

fn prepare_to_text(
    source: &Chart,
    user: &Members,
    profile: Profile,
    warnings: &mut Vec<ValuesWarning>,
) -> Result<(String, String), Str> {
    let budget = Budget::default();
    let chart = prepare(source, user, profile, &budget, warnings)?;
    let values = render_values(&chart, user, true, profile, &budget, warnings)?;
    let values = Data::try_from(&Value::from(values))?;
    let written = json::write(&values, JsonStyle::Raw).unwrap().trim_end().to_owned();
    Ok((written, chart_paths(&chart, &chart.metadata.name)))
}

#[test]
fn prepare_matches_helm() {
    for (about, source, user, helm3, helm4) in CHARTS {
        let user = members(Some(&json::parse(user).unwrap()));
        for (profile, told) in [(Profile::Helm3, helm3), (Profile::Helm4, helm4)] {
            let source = chart(&json::parse(source).unwrap());
            let ours = prepare_to_text(&source, &user, profile, &mut vec![]).unwrap_or_else(|error| {
                let error = error.strip_prefix("chart dependencies processing failed: ").unwrap_or(&error);
                (format!("Err: {error}"), String::new())
            });
            assert_eq!((ours.0.as_str(), ours.1.as_str()), *told, "{about}, {profile:?}");
        }
    }
}

#[test]
fn prepare_warnings_match_helm() {
    let source = r#"{"name":"c","values":{"t":{"x":1},"on":5},"charts":[{"name":"sub","values":{}}],
                     "deps":[{"name":"sub","version":"*","condition":"on"}]}"#;
    let user = members(Some(&json::parse(r#"{"t":{"x":{"y":2}}}"#).unwrap()));
    let lines = |profile| {
        let mut warnings = vec![];
        prepare_to_text(&chart(&json::parse(source).unwrap()), &user, profile, &mut warnings).unwrap();
        warnings.iter().take(2).map(|warning| warning.line().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(
        lines(Profile::Helm3),
        [
            "coalesce.go:301: warning: destination for c.t.x is a table. Ignoring non-table value (1)",
            "dependencies.go:63: Warning: Condition path 'on' for chart sub returned non-bool value",
        ]
    );
    assert_eq!(
        lines(Profile::Helm4),
        [
            r#"level=INFO msg="warning: destination for c.t.x is a table. Ignoring non-table value (1)""#,
            r#"level=WARN msg="returned non-bool value" path=on chart=sub"#,
        ]
    );
}

#[test]
fn check_names_missing_dependencies() {
    let chart = chart(&json::parse(r#"{"name":"c","deps":[{"name":"x"},{"name":"y"}]}"#).unwrap());
    let error = check(&chart, Profile::Helm4).unwrap_err();
    assert!(error.ends_with("found in Chart.yaml, but missing in charts/ directory: x, y"), "{error}");
}

#[test]
fn prepare_rejects_deeply_nested_charts() {
    let mut nested = Chart::default();
    for _ in 0..=MAX_DEPTH {
        nested = Chart { dependencies: vec![nested], ..Chart::default() };
    }
    let error =
        prepare(&nested, &Members::new(), Profile::Helm3, &Budget::default(), &mut vec![]).unwrap_err();
    assert!(error.contains("nested deeper"), "{error}");
}

#[test]
fn explain_finds_origin_of_every_value() {
    let source = r#"{"name":"c","values":{"a":1,"b":1,"global":{"g":1},"sub":{"x":1}},
                     "charts":[{"name":"sub","values":{"x":0,"y":0}}]}"#;
    let chart = chart(&json::parse(source).unwrap());
    let user = members(Some(&json::parse(r#"{"b":2}"#).unwrap()));
    let layers = [UserValuesLayer { origin: ValueOrigin::File("my.yaml".into()), values: user.clone() }];
    let values = render_values(&chart, &user, true, Profile::Helm4, &Budget::default(), &mut vec![]).unwrap();
    let explained = explain(&chart, &layers, &values).unwrap();
    let said: Vec<_> = explained.into_iter().map(|leaf| (leaf.path.join("."), leaf.origin)).collect();
    let of = |names: &[&str]| ValueOrigin::Chart(names.iter().map(|name| Str::from(*name)).collect());
    let expected = [
        ("a", of(&["c"])),
        ("b", ValueOrigin::File("my.yaml".into())),
        ("global.g", of(&["c"])),
        ("sub.global.g", ValueOrigin::Global(Box::new(of(&["c"])))),
        ("sub.x", of(&["c"])),
        ("sub.y", of(&["c", "sub"])),
    ];
    assert_eq!(said, expected.map(|(path, origin)| (path.to_owned(), origin)));
}

fn any_members() -> impl Strategy<Value = Members> {
    members_of(vec![Data::Null, Data::Bool(true), Data::Float(1.0), Data::string("s")])
}

/// Tables of tables of strings.
fn tables() -> impl Strategy<Value = Members> {
    let table =
        prop::collection::btree_map("[a-d]".prop_map(Into::into), "[x-z]".prop_map(Data::string), 0..4);
    prop::collection::btree_map("[a-d]".prop_map(Into::into), table.prop_map(Data::Map), 0..4)
}

fn members_of(leaves: Vec<Data>) -> impl Strategy<Value = Members> {
    let key = || prop::sample::select(vec!["a", "b", "sub", "global", "tags"]).prop_map(Str::from);
    let tree = prop::sample::select(leaves).prop_recursive(4, 24, 4, move |inner| {
        prop::collection::btree_map(key(), inner, 0..4).prop_map(Data::Map)
    });
    prop::collection::btree_map(key(), tree, 0..4)
}

fn coalesced(own: &Members, user: &Members) -> Members {
    let chart = Chart { values: own.clone(), ..Chart::default() };
    let values = render_values(&chart, user, true, Profile::Helm4, &Budget::default(), &mut vec![]).unwrap();
    members(Some(&Data::try_from(&Value::from(values)).unwrap()))
}

proptest! {
    /// A repeated merge takes nothing more from the chart. Nulls are excluded: they are gone after the first merge.
    #[test]
    fn merging_twice_changes_nothing(
        own in members_of(vec![Data::Bool(true), Data::string("s")]),
        user in members_of(vec![Data::Bool(false), Data::Float(1.0)]),
    ) {
        let once = coalesced(&own, &user);
        prop_assert_eq!(coalesced(&own, &once), once);
    }

    /// User values override another file and the chart in the same way.
    #[test]
    fn the_user_is_above_the_chart(own in tables(), user in tables()) {
        let mut expected = own.clone();
        overlay(&mut expected, user.clone());
        prop_assert_eq!(coalesced(&own, &user), expected);
    }

    #[test]
    fn no_values_panic(parent in any_members(), child in any_members(), user in any_members()) {
        for profile in [Profile::Helm3, Profile::Helm4] {
            let mut source = Chart { values: parent.clone(), ..Chart::default() };
            let mut sub = Chart { values: child.clone(), ..Chart::default() };
            sub.metadata.name = "sub".into();
            source.dependencies.push(sub);
            source.metadata.dependencies.push(Dependency { name: "sub".into(), condition: "a,b".into(), ..Dependency::default() });
            let _ = prepare_to_text(&source, &user, profile, &mut vec![]);
        }
    }
}
