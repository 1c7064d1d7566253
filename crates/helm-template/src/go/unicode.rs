//! Character categories and simple case mapping, as in Go's `unicode`.

use unicode_properties::{
    GeneralCategory as Category, GeneralCategoryGroup as Group, UnicodeGeneralCategory,
};

pub fn is_upper(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_uppercase() } else { c.general_category() == Category::UppercaseLetter }
}

pub fn is_lower(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_lowercase() } else { c.general_category() == Category::LowercaseLetter }
}

pub fn is_title(c: char) -> bool {
    !c.is_ascii() && c.general_category() == Category::TitlecaseLetter
}

pub fn is_letter(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_alphabetic() } else { c.general_category_group() == Group::Letter }
}

pub fn is_number(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_digit() } else { c.general_category_group() == Group::Number }
}

pub fn is_digit(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_digit() } else { c.general_category() == Category::DecimalNumber }
}

pub fn is_punctuation(c: char) -> bool {
    c.general_category_group() == Group::Punctuation
}

/// The upper-case mapping of one character to one character. The standard library gives the full mapping, in which the result may
/// be several characters; Go then has a single-character mapping or keeps the character.
pub fn to_upper(c: char) -> char {
    match c {
        '\u{1F80}'..='\u{1F87}' | '\u{1F90}'..='\u{1F97}' | '\u{1FA0}'..='\u{1FA7}' => offset_char(c, 8),
        '\u{1FB3}' | '\u{1FC3}' | '\u{1FF3}' => offset_char(c, 9),
        c => single_char(c.to_uppercase()).unwrap_or(c),
    }
}

pub fn to_lower(c: char) -> char {
    match c {
        '\u{130}' => 'i',
        c => single_char(c.to_lowercase()).unwrap_or(c),
    }
}

/// Title case. Differs from upper case for digraphs and in Georgian.
pub fn to_title(c: char) -> char {
    match c {
        '\u{1C4}'..='\u{1C6}' => '\u{1C5}',
        '\u{1C7}'..='\u{1C9}' => '\u{1C8}',
        '\u{1CA}'..='\u{1CC}' => '\u{1CB}',
        '\u{1F1}'..='\u{1F3}' => '\u{1F2}',
        '\u{10D0}'..='\u{10FA}' | '\u{10FD}'..='\u{10FF}' => c,
        c => to_upper(c),
    }
}

fn offset_char(c: char, by: u32) -> char {
    char::from_u32(u32::from(c) + by).unwrap_or(c)
}

fn single_char(mut mapped: impl Iterator<Item = char>) -> Option<char> {
    let first = mapped.next()?;
    mapped.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_mappings_are_single_characters() {
        let table = [
            ('a', 'A', 'a', 'A'),
            ('ß', 'ß', 'ß', 'ß'),
            ('İ', 'İ', 'i', 'İ'),
            ('ǆ', 'Ǆ', 'ǆ', 'ǅ'),
            ('ᾳ', 'ᾼ', 'ᾳ', 'ᾼ'),
            ('ა', 'Ა', 'ა', 'ა'),
            ('ŉ', 'ŉ', 'ŉ', 'ŉ'),
        ];
        for (c, upper, lower, title) in table {
            assert_eq!((to_upper(c), to_lower(c), to_title(c)), (upper, lower, title), "{c}");
        }
    }

    #[test]
    fn categories_match_go() {
        assert!(is_upper('É') && !is_upper('Ⓐ') && is_title('ǅ') && is_lower('ß') && !is_lower('ª'));
        assert!(is_letter('日') && is_number('½') && !is_digit('½') && is_digit('٣') && is_punctuation('—'));
        assert!(!is_punctuation('$') && !is_punctuation('+') && is_punctuation('_'));
    }
}
