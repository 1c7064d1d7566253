//! Properties that hold for every text.

use proptest::prelude::*;

use crate::data::Data;
use crate::profile::Profile;
use crate::yaml::{self, Shape};

/// Random sequences of YAML syntax elements.
fn looks_like_yaml() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "a",
        "b",
        " ",
        "  ",
        "\n",
        "\n  ",
        "\n    ",
        "\t",
        ":",
        ": ",
        "-",
        "- ",
        "?",
        "? ",
        "[",
        "]",
        "{",
        "}",
        ",",
        "#",
        " #",
        "&a ",
        "*a",
        "!",
        "!!int ",
        "!!str ",
        "|\n",
        ">-\n",
        "'",
        "\"",
        "%",
        "\\",
        "\\n",
        "\r\n",
        "---",
        "\n---\n",
        "\n...\n",
        "<<: ",
        "~",
        "1",
        ".inf",
        "é",
        "\u{2028}",
        "\u{85}",
        "\u{FEFF}",
        "\u{1}",
        "kind",
        "metadata",
        "name",
        "annotations",
    ]);
    prop::collection::vec(pieces, 0..40).prop_map(|pieces| pieces.concat())
}

fn data() -> impl Strategy<Value = Data> {
    let leaf = prop_oneof![
        Just(Data::Null),
        any::<bool>().prop_map(Data::Bool),
        any::<i32>().prop_map(|n| Data::Float(f64::from(n))),
        any::<f64>().prop_filter("finite", |n| n.is_finite()).prop_map(Data::Float),
        "[ -~]{0,20}".prop_map(Data::string),
        "[a-z0-9 \\n\\t:#'\"é😀\u{2028}-]{0,20}".prop_map(Data::string),
        prop::sample::select(vec![
            "yes",
            "~",
            "1",
            "1e3",
            "0x1",
            "",
            " a",
            "a ",
            "- a",
            "a: b",
            "<<",
            "2020-01-01"
        ])
        .prop_map(Data::string),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Data::List),
            prop::collection::btree_map("[a-z0-9 .:-]{0,8}".prop_map(crate::value::Str::from), inner, 0..5)
                .prop_map(Data::Map),
        ]
    })
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let _ = yaml::parse(&bytes);
        let _ = yaml::read_header(&bytes, Profile::Helm4);
    }

    #[test]
    fn no_text_panics_and_all_readers_agree_on_its_grammar(text in looks_like_yaml()) {
        let parsed = yaml::parse(text.as_bytes());
        let strict = yaml::parse_strict(text.as_bytes(), &Shape::Any);
        let head = yaml::read_header(text.as_bytes(), Profile::Helm4);
        if let Ok(data) = strict {
            prop_assert_eq!(Ok(data), parsed.clone());
        }
        if let Err(error) = parsed && error.contains("yaml: ") {
            prop_assert_eq!(head.map_err(|error| error.to_string()), Err(error.to_string()));
        }
    }

    #[test]
    fn what_is_written_is_read_again(data in data()) {
        let text = yaml::write(&data).unwrap();
        prop_assert_eq!(yaml::parse(text.as_bytes()), Ok(data), "{}", text);
    }
}
