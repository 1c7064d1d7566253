//! Property tests of records: encoding round trips, and no input panics.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use helm_template::data::{Data, Members};
use jiff::Timestamp;
use jiff::tz::Offset;
use proptest::prelude::*;

use super::*;
use crate::record::codec::gzip;

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), "\\PC{0,12}", "[<>&\"\\\\\u{2028}\n\t]{0,6}"]
}

fn any_time() -> impl Strategy<Value = HelmTime> {
    let offset = (-12 * 60..=14 * 60).prop_map(|minutes| Offset::from_seconds(minutes * 60).unwrap());
    let at = (0_i64..4_000_000_000, 0_i32..1_000_000_000, offset)
        .prop_map(|(second, nanos, offset)| HelmTime::At(Timestamp::new(second, nanos).unwrap(), offset));
    prop_oneof![Just(HelmTime::Absent), Just(HelmTime::Empty), at]
}

fn data() -> impl Strategy<Value = Data> {
    let leaf = prop_oneof![
        Just(Data::Null),
        any::<bool>().prop_map(Data::Bool),
        (-1e15..1e15_f64).prop_map(Data::Float),
        text().prop_map(Data::string),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Data::List),
            members(inner).prop_map(Data::Map),
        ]
    })
}

fn members(inner: impl Strategy<Value = Data>) -> impl Strategy<Value = Members> {
    prop::collection::btree_map(text().prop_map(|key| key.as_str().into()), inner, 0..4)
}

fn hook() -> impl Strategy<Value = HookRecord> {
    let phase = prop_oneof![
        Just(HookPhase::Never),
        Just(HookPhase::Running),
        Just(HookPhase::Failed),
        Just(HookPhase::Unknown)
    ];
    (text(), text(), any::<i64>(), prop::collection::vec(text(), 0..3), any_time(), phase).prop_map(
        |(name, manifest, weight, events, started_at, phase)| HookRecord {
            name,
            manifest,
            weight,
            events,
            last_run: LastRun { started_at, completed_at: HelmTime::Absent, phase },
            ..HookRecord::default()
        },
    )
}

prop_compose! {
    fn record()(
        (name, namespace, manifest, notes, description) in (text(), text(), text(), text(), text()),
        version in any::<i64>(),
        (first_deployed, last_deployed, deleted) in (any_time(), any_time(), any_time()),
        status in prop::sample::select(Status::ALL.to_vec()),
        config in members(data()),
        values in members(data()),
        hooks in prop::collection::vec(hook(), 0..3),
        apply_method in prop::option::of(prop_oneof![Just(ApplyMethod::ClientSide), Just(ApplyMethod::ServerSide)]),
        has_chart in any::<bool>(),
    ) -> Record {
        let chart = helm_chart::Chart { values, ..helm_chart::Chart::default() };
        let profile = helm_template::profile::Profile::Helm4;
        Record {
            name, namespace, version, manifest, config, hooks, apply_method,
            info: RevisionInfo { first_deployed, last_deployed, deleted, description, status, rollback_revision: 0, notes },
            chart: if has_chart { ChartRecord::new(&chart, profile).unwrap() } else { ChartRecord::default() },
            labels: std::collections::BTreeMap::new(),
        }
    }
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(record in record()) {
        let again = Record::decode(record.encode().unwrap().as_bytes()).unwrap();
        prop_assert!(again == record, "{}\n{}", again.to_json().unwrap(), record.to_json().unwrap());
        let clear = Record::from_json(record.to_json().unwrap().as_bytes()).unwrap();
        prop_assert!(clear == record);
    }

    #[test]
    fn no_bytes_break_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..200), text in "\\PC{0,80}") {
        let _ = Record::decode(&bytes);
        let _ = Record::decode(BASE64_STANDARD.encode(&bytes).as_bytes());
        let _ = Record::decode(BASE64_STANDARD.encode(gzip(&[&bytes])).as_bytes());
        let _ = Record::from_json(text.as_bytes());
    }

    #[test]
    fn no_field_of_another_type_breaks_the_reader(field in prop::sample::select(FIELDS.to_vec()), value in data()) {
        let value = helm_template::json::write(&value, helm_template::json::JsonStyle::Plain).unwrap();
        let json = format!("{{\"name\":\"a\",\"{field}\":{value}}}");
        if let Ok(record) = Record::from_json(json.as_bytes()) {
            let _ = (record.chart.metadata(), record.chart.values().is_ok(), record.chart.is_partial());
            let _ = record.chart.chart(helm_template::profile::Profile::Helm4);
            let _ = record.chart.without_files();
            record.encode().unwrap();
        }
    }
}

const FIELDS: [&str; 9] =
    ["name", "info", "chart", "config", "manifest", "hooks", "version", "namespace", "apply_method"];

#[test]
fn times_round_trip_in_gos_format() {
    for text in [
        "2026-11-15T22:54:56.487013286Z",
        "2026-11-15T22:54:56.31307554Z",
        "2026-11-15T22:54:56Z",
        "2024-02-29T23:59:59.1+05:30",
        "2024-02-29T23:59:59-08:00",
        "0001-01-01T00:00:00Z",
        "",
    ] {
        let json = serde_json::Value::from(text);
        let moment: HelmTime = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(moment).unwrap(), json);
        assert_eq!(moment.timestamp().is_some(), text.starts_with("20"), "{text}");
    }
    for text in ["yesterday", "2024-02-30T00:00:00Z", "2024-02-29T23:59:59", "2024-02-29"] {
        assert!(serde_json::from_value::<HelmTime>(text.into()).is_err(), "{text}");
    }
}

#[test]
fn uncompressed_record_is_decoded() {
    let text = BASE64_STANDARD.encode(r#"{"name":"old","version":2,"info":null,"hooks":null,"config":null}"#);
    let record = Record::decode(text.as_bytes()).unwrap();
    assert_eq!((record.name.as_str(), record.version, record.info.status), ("old", 2, Status::Unknown));
}

#[test]
fn record_with_too_large_content_is_rejected() {
    let zeros = vec![b' '; MAX_UNPACKED + 1];
    let bomb = BASE64_STANDARD.encode(gzip(&[&zeros]));
    assert!(bomb.len() < 100_000);
    assert!(matches!(Record::decode(bomb.as_bytes()), Err(DecodeError::TooLarge)));
}

#[test]
fn decode_errors_do_not_disclose_content() {
    for json in [r#"{"config": {"password": canary}}"#, r#"{"config": "canary"}"#, r#"{"version": "canary"}"#]
    {
        let error = Record::from_json(json.as_bytes()).unwrap_err();
        let said = format!("{error} {error:?}");
        assert!(!said.contains("canary"), "{said}");
    }
}

#[test]
fn status_names_match_the_json() {
    for status in Status::ALL {
        assert_eq!(serde_json::to_value(status).unwrap(), status.as_str());
        assert_eq!(Status::parse(status.as_str()), status);
    }
    assert_eq!(Status::parse("moving"), Status::Unknown);
    assert_eq!(serde_json::from_value::<Status>("moving".into()).unwrap(), Status::Unknown);
}
