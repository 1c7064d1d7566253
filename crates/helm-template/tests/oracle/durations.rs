//! Duration functions that Helm 4 has and Helm 3 lacks.

use helm_template::profile::Profile;

#[rustfmt::skip]
const ROWS: &[(&str, &str)] = &[
    (r#"{{ mustToDuration "1h" }}"#, "1h0m0s"),
    (r#"{{ mustToDuration "2.5" }}"#, "2.5s"),
    (r#"{{ mustToDuration " 90m " }}"#, "1h30m0s"),
    ("{{ mustToDuration 5 }}", "5s"),
    ("{{ mustToDuration 2.5 }}", "2.5s"),
    (r#"{{ mustToDuration "x" }}"#, r#"error: error calling mustToDuration: could not parse duration "x""#),
    (r#"{{ mustToDuration "" }}"#, "error: error calling mustToDuration: empty duration"),
    ("{{ mustToDuration nil }}", "error: error calling mustToDuration: invalid duration"),
    ("{{ mustToDuration true }}", "error: error calling mustToDuration: unsupported duration type bool"),
    (r#"{{ mustToDuration "1e400" }}"#, r#"error: error calling mustToDuration: could not parse duration "1e400""#),
    ("{{ mustToDuration 9223372037 }}", "error: error calling mustToDuration: duration seconds overflow: 9223372037"),
    (r#"{{ mustToDuration "nan" }}"#, "error: error calling mustToDuration: invalid duration seconds: NaN"),
    (r#"{{ mustToDuration (mustToDuration "1s") }}"#, "1s"),
    (r#"{{ durationSeconds "1m" }} {{ durationMilliseconds "1.5s" }} {{ durationMicroseconds 1 }} {{ durationNanoseconds 1 }} {{ durationMinutes "90s" }} {{ durationHours "x" }} {{ durationDays "36h" }} {{ durationWeeks "84h" }}"#, "60 1500 1000000 1000000000 1.5 0 1.5 0.5"),
    (r#"{{ durationRoundTo "2h13m" "15m" }} {{ durationTruncateTo "2h13m" "15m" }} {{ durationRoundTo "2h" "x" }} {{ durationRoundTo "x" "1h" }}"#, "2h15m0s 2h0m0s 2h0m0s 0s"),
    (r#"{{ $d := mustToDuration "90m" }}{{ $d.Hours }} {{ gt $d 5 }} {{ printf "%d %T %s" $d $d $d }} {{ $d.Round 3600000000000 }}"#, "1.5 true 5400000000000 time.Duration 1h30m0s 2h0m0s"),
];

#[test]
fn duration_functions_match_helm4() {
    for (template, expected) in ROWS {
        assert_eq!(crate::render(template, Profile::Helm4), *expected, "{template}");
        let refused = crate::render(template, Profile::Helm3);
        assert!(refused.contains("not defined"), "{template}: {refused}");
    }
}
