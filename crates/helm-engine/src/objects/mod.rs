//! What Helm gives to templates besides values: `.Chart`, `.Files`, `.Capabilities`.

mod capabilities;
mod files;
mod metadata;
mod record;

pub use capabilities::capabilities;
pub use files::Files;
pub use metadata::metadata;

#[cfg(test)]
mod tests {
    use helm_chart::Metadata;
    use helm_template::json::{Style, write_value};
    use helm_template::profile::Profile;
    use helm_template::value::Value;

    use super::*;
    use crate::capabilities::Capabilities;

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
        write_value(value, Style::Plain).unwrap()
    }

    fn field(value: &Value, name: &str) -> Value {
        match value {
            Value::Object(object) => object.field(name),
            value => value.as_map().and_then(|map| map.get(name)),
        }
        .unwrap()
    }

    #[test]
    fn structs_are_json_in_the_order_of_their_fields() {
        let chart = chart(Profile::Helm3);
        assert_eq!(json(&chart), r#"{"name":"c","version":"1.2.3","apiVersion":"v2","IsRoot":true}"#);
        for (profile, version, minor) in
            [(Profile::Helm3, "v1.32.0", "32"), (Profile::Helm4, "v1.37.0", "37")]
        {
            let capabilities = capabilities(&Capabilities::default_of(profile), profile);
            let want = format!(r#"{{"Version":"{version}","Major":"1","Minor":"{minor}"}}"#);
            assert_eq!(json(&field(&capabilities, "KubeVersion")), want);
        }
    }

    #[test]
    fn what_a_chart_does_not_have_is_nil() {
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
}
