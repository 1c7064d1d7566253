//! Unicode categories and scripts in `\p{…}`.

use crate::profile::Profile;

/// Short names of Unicode categories. Go lacks `Cn` and `LC` before 1.25.
#[rustfmt::skip]
const CATEGORIES: &[&str] = &[
    "C", "Cc", "Cf", "Cn", "Co", "Cs", "L", "LC", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N", "Nd",
    "Nl", "No", "P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm", "So", "Z", "Zl", "Zp", "Zs",
];

/// Long names of the categories, supported since Go 1.25, in [`canonical`] form.
#[rustfmt::skip]
const LONG_NAMES: &[(&str, &str)] = &[
    ("Casedletter", "LC"), ("Closepunctuation", "Pe"), ("Cntrl", "Cc"), ("Combiningmark", "M"),
    ("Connectorpunctuation", "Pc"), ("Control", "Cc"), ("Currencysymbol", "Sc"), ("Dashpunctuation", "Pd"),
    ("Decimalnumber", "Nd"), ("Digit", "Nd"), ("Enclosingmark", "Me"), ("Finalpunctuation", "Pf"), ("Format", "Cf"),
    ("Initialpunctuation", "Pi"), ("Letter", "L"), ("Letternumber", "Nl"), ("Lineseparator", "Zl"),
    ("Lowercaseletter", "Ll"), ("Mark", "M"), ("Mathsymbol", "Sm"), ("Modifierletter", "Lm"),
    ("Modifiersymbol", "Sk"), ("Nonspacingmark", "Mn"), ("Number", "N"), ("Openpunctuation", "Ps"), ("Other", "C"),
    ("Otherletter", "Lo"), ("Othernumber", "No"), ("Otherpunctuation", "Po"), ("Othersymbol", "So"),
    ("Paragraphseparator", "Zp"), ("Privateuse", "Co"), ("Punct", "P"), ("Punctuation", "P"), ("Separator", "Z"),
    ("Spaceseparator", "Zs"), ("Spacingmark", "Mc"), ("Surrogate", "Cs"), ("Symbol", "S"), ("Titlecaseletter", "Lt"),
    ("Unassigned", "Cn"), ("Uppercaseletter", "Lu"),
];

/// Scripts of Unicode 15.
#[rustfmt::skip]
const SCRIPTS: &[&str] = &[
    "Adlam", "Ahom", "Anatolian_Hieroglyphs", "Arabic", "Armenian", "Avestan", "Balinese", "Bamum", "Bassa_Vah",
    "Batak", "Bengali", "Bhaiksuki", "Bopomofo", "Brahmi", "Braille", "Buginese", "Buhid", "Canadian_Aboriginal",
    "Carian", "Caucasian_Albanian", "Chakma", "Cham", "Cherokee", "Chorasmian", "Common", "Coptic", "Cuneiform",
    "Cypriot", "Cypro_Minoan", "Cyrillic", "Deseret", "Devanagari", "Dives_Akuru", "Dogra", "Duployan",
    "Egyptian_Hieroglyphs", "Elbasan", "Elymaic", "Ethiopic", "Georgian", "Glagolitic", "Gothic", "Grantha",
    "Greek", "Gujarati", "Gunjala_Gondi", "Gurmukhi", "Han", "Hangul", "Hanifi_Rohingya", "Hanunoo", "Hatran",
    "Hebrew", "Hiragana", "Imperial_Aramaic", "Inherited", "Inscriptional_Pahlavi", "Inscriptional_Parthian",
    "Javanese", "Kaithi", "Kannada", "Katakana", "Kawi", "Kayah_Li", "Kharoshthi", "Khitan_Small_Script", "Khmer",
    "Khojki", "Khudawadi", "Lao", "Latin", "Lepcha", "Limbu", "Linear_A", "Linear_B", "Lisu", "Lycian", "Lydian",
    "Mahajani", "Makasar", "Malayalam", "Mandaic", "Manichaean", "Marchen", "Masaram_Gondi", "Medefaidrin",
    "Meetei_Mayek", "Mende_Kikakui", "Meroitic_Cursive", "Meroitic_Hieroglyphs", "Miao", "Modi", "Mongolian",
    "Mro", "Multani", "Myanmar", "Nabataean", "Nag_Mundari", "Nandinagari", "New_Tai_Lue", "Newa", "Nko", "Nushu",
    "Nyiakeng_Puachue_Hmong", "Ogham", "Ol_Chiki", "Old_Hungarian", "Old_Italic", "Old_North_Arabian",
    "Old_Permic", "Old_Persian", "Old_Sogdian", "Old_South_Arabian", "Old_Turkic", "Old_Uyghur", "Oriya", "Osage",
    "Osmanya", "Pahawh_Hmong", "Palmyrene", "Pau_Cin_Hau", "Phags_Pa", "Phoenician", "Psalter_Pahlavi", "Rejang",
    "Runic", "Samaritan", "Saurashtra", "Sharada", "Shavian", "Siddham", "SignWriting", "Sinhala", "Sogdian",
    "Sora_Sompeng", "Soyombo", "Sundanese", "Syloti_Nagri", "Syriac", "Tagalog", "Tagbanwa", "Tai_Le", "Tai_Tham",
    "Tai_Viet", "Takri", "Tamil", "Tangsa", "Tangut", "Telugu", "Thaana", "Thai", "Tibetan", "Tifinagh", "Tirhuta",
    "Toto", "Ugaritic", "Vai", "Vithkuqi", "Wancho", "Warang_Citi", "Yezidi", "Yi", "Zanabazar_Square",
];

/// The named set in the syntax of the `regex` crate, as the content of a bracketed class.
pub(super) fn named_set(name: &str, profile: Profile) -> Option<String> {
    let canonical = match profile {
        Profile::Helm3 => name.to_owned(),
        Profile::Helm4 => canonical(name),
    };
    if profile == Profile::Helm4 {
        match canonical.as_str() {
            "Assigned" => return Some(r"\P{Cn}".to_owned()),
            "Ascii" => return Some(r"\x00-\x7F".to_owned()),
            "Lc" => return Some(r"\p{LC}".to_owned()),
            _ => {}
        }
        if let Some((_, short)) = LONG_NAMES.iter().find(|(long, _)| *long == canonical) {
            return Some(category(short, profile));
        }
    }
    let known = |category: &&&str| **category == canonical && category_is_known(category, profile);
    if canonical == "Any" {
        Some(r"\x{0}-\x{10FFFF}".to_owned())
    } else if let Some(short) = CATEGORIES.iter().find(known) {
        Some(category(short, profile))
    } else if SCRIPTS.contains(&canonical.as_str()) {
        Some(format!(r"\p{{Script={canonical}}}"))
    } else {
        None
    }
}

fn category_is_known(category: &str, profile: Profile) -> bool {
    profile == Profile::Helm4 || !matches!(category, "Cn" | "LC")
}

fn category(short: &str, profile: Profile) -> String {
    match (short, profile) {
        // No text contains surrogates.
        ("Cs", _) => r"[^\x{0}-\x{10FFFF}]".to_owned(),
        // Before 1.25, `C` did not include unassigned characters.
        ("C", Profile::Helm3) => r"\p{Cc}\p{Cf}\p{Co}".to_owned(),
        (short, _) => format!(r"\p{{{short}}}"),
    }
}

/// Canonical form: one capital, then lower-case letters, without separators. Script names with two capitals have no such form, so
/// Go 1.25 does not find them.
fn canonical(name: &str) -> String {
    let mut letters = name.chars().filter(|c| !matches!(c, '_' | '-' | ' '));
    let first = letters.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(letters.map(|c| c.to_ascii_lowercase())).collect()
}
