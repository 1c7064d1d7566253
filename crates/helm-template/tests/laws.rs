//! Properties of versions, expressions, times and paths, and behaviour on hostile input.

use helm_template::go::path;
use helm_template::go::regexp::{Alphabet, Expression, Subject};
use helm_template::go::time::{Duration, Time, Zone};
use helm_template::go::url::Url;
use helm_template::profile::Profile;
use helm_template::semver::{Constraints, Version};
use proptest::prelude::*;

const BOTH: [Profile; 2] = [Profile::Helm3, Profile::Helm4];

proptest! {
    #[test]
    fn no_text_panics_a_parser(text in "\\PC{0,40}", bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        for profile in BOTH {
            let _ = Version::parse_strict(&text, profile);
            let _ = Url::parse(&bytes, profile).map(|url| url.write());
            let version = Version::parse("1.2.3-a", profile).unwrap();
            let _ = Constraints::parse(&text, profile).map(|all| (all.check(&version), all.validate(&version)));
        }
        let _ = Duration::parse(&text);
        let _ = Time::parse(&text, &bytes, &Zone::Utc);
    }

    #[test]
    fn no_expression_panics(pattern in "[a-z(){}|?*+.^$\\\\\\[\\]:PQEpxéi0-9,<>-]{0,24}", bytes in prop::collection::vec(any::<u8>(), 0..30)) {
        for profile in BOTH {
            if let Ok(expression) = Expression::compile(&pattern, profile) {
                let subject = Subject::new(&bytes);
                let _ = expression.replace_all(&subject, &bytes, &mut |_, _| Ok(()));
                let _ = expression.split(&subject, -1, &mut |_, _| Ok(()));
                // Replacing each match with an identical text changes nothing.
                prop_assert_eq!(expression.replace_all(&subject, b"$0", &mut |_, _| Ok(())).unwrap(), bytes.clone());
            }
        }
    }

    #[test]
    fn an_expression_finds_the_same_in_ascii(pattern in "(\\(\\?i\\))?([a-ckK(){}|?*+.^$éſ-]|\\\\[bBdDsSwWpPLA]|\\[\\^?[a-zK-]{1,3}\\]){0,16}", text in "[ -~\n]{0,30}") {
        let compiled = [Alphabet::Ascii, Alphabet::Unicode].map(|alphabet| Expression::compile_for(alphabet, &pattern, Profile::Helm4));
        if let [Ok(ascii), Ok(any)] = compiled {
            let subject = Subject::new(text.as_bytes());
            let found = |expression: &Expression| expression.find_all(&subject, -1, &mut |_, _| Ok(())).unwrap();
            prop_assert_eq!(found(&ascii), found(&any));
            let replaced = |expression: &Expression| expression.replace_all(&subject, b"<$1>", &mut |_, _| Ok(())).unwrap();
            prop_assert_eq!(replaced(&ascii), replaced(&any));
        }
    }

    #[test]
    fn a_version_reads_as_it_prints(major: u64, minor: u64, patch: u64, pre in "([a-z][a-z0-9-]{0,5})?") {
        let text = format!("{major}.{minor}.{patch}{}{pre}", if pre.is_empty() { "" } else { "-" });
        for profile in BOTH {
            let version = Version::parse(&text, profile).unwrap();
            prop_assert_eq!(version.to_string(), text.clone());
            prop_assert_eq!(Version::parse_strict(&text, profile).unwrap(), version.clone());
            let same = Constraints::parse(&format!("={text}"), profile).unwrap();
            prop_assert!(same.check(&version), "{} is not equal to itself", version);
        }
    }

    #[test]
    fn a_duration_reads_as_it_prints(nanoseconds: i64) {
        let duration = Duration(nanoseconds);
        prop_assert_eq!(Duration::parse(&duration.to_string()), Ok(duration));
    }

    #[test]
    fn a_time_reads_as_it_prints(unix in -62_135_596_800_i64..253_402_300_800, nanosecond in 0..1_000_000_000_i64) {
        let layout = "2006-01-02T15:04:05.999999999Z07:00";
        let time = Time::new(unix, nanosecond, Zone::Utc);
        prop_assert_eq!(Time::parse(layout, time.format(layout).as_bytes(), &Zone::Utc), Ok(time));
    }

    #[test]
    fn any_instant_can_be_told_anywhere(unix: i64, duration: i64, zone in prop::sample::select(vec!["UTC", "Europe/Berlin", "Pacific/Apia"])) {
        let time = Time::new(unix, 0, Zone::load(zone).unwrap()).add(Duration(duration));
        let _ = (time.to_string(), time.add_date(duration, duration, duration).to_string());
        let _ = (time.round(Duration(duration)).to_string(), time.truncate(Duration(duration)).unix_in(1_000_000_000));
    }

    #[test]
    fn a_clean_path_stays(path in "[a./é]{0,20}") {
        let clean = path::clean(path.as_bytes());
        prop_assert_eq!(path::clean(&clean), clean);
    }
}

#[test]
fn hostile_expressions_are_rejected_or_fast() {
    let deep = "(".repeat(100_000) + &")".repeat(100_000);
    let flags = "a".to_owned() + &"*(?i)".repeat(100_000);
    let wide = r"\pL{1000}".repeat(1_000);
    for (pattern, why) in [(&deep, "nests too deeply"), (&flags, "nests too deeply"), (&wide, "too large")] {
        let refused = Expression::compile(pattern, Profile::Helm4).err().unwrap();
        assert!(refused.contains(why), "{}", &refused[..60]);
    }
    let nested = "(".repeat(100) + "a" + &")*".repeat(100);
    assert!(Expression::compile(&nested, Profile::Helm4).is_ok());
    let explodes = Expression::compile("(a*)*(a*)*(a|aa)+$", Profile::Helm4).unwrap();
    let subject = "a".repeat(50_000) + "b";
    assert!(!explodes.is_match(&Subject::new(subject.as_bytes())));
}
