//! Time layouts: the reference time, written in the desired form.

/// An element of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    Year,
    LongYear,
    Month,
    LongMonth,
    NumberMonth,
    ZeroMonth,
    Weekday,
    LongWeekday,
    Day,
    SpaceDay,
    ZeroDay,
    SpaceYearDay,
    ZeroYearDay,
    Hour,
    Hour12,
    ZeroHour12,
    Minute,
    ZeroMinute,
    Second,
    ZeroSecond,
    /// `PM` or `pm`.
    Half {
        upper: bool,
    },
    Zone,
    Offset(Offset),
    Fraction {
        separator: char,
        digits: usize,
        trimmed: bool,
    },
}

/// The form of a UTC offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offset {
    /// Whether UTC is written as `Z`.
    pub z: bool,
    pub colon: bool,
    /// The number of components written, of hours, minutes and seconds.
    pub parts: usize,
}

const fn offset(z: bool, colon: bool, parts: usize) -> Element {
    Element::Offset(Offset { z, colon, parts })
}

/// Layout elements in matching order.
#[rustfmt::skip]
const ELEMENTS: &[(&str, Element)] = &[
    ("January", Element::LongMonth), ("Jan", Element::Month),
    ("Monday", Element::LongWeekday), ("Mon", Element::Weekday), ("MST", Element::Zone),
    ("01", Element::ZeroMonth), ("02", Element::ZeroDay), ("03", Element::ZeroHour12),
    ("04", Element::ZeroMinute), ("05", Element::ZeroSecond), ("06", Element::Year), ("002", Element::ZeroYearDay),
    ("15", Element::Hour), ("1", Element::NumberMonth),
    ("2006", Element::LongYear), ("2", Element::Day),
    ("_2", Element::SpaceDay), ("__2", Element::SpaceYearDay),
    ("3", Element::Hour12), ("4", Element::Minute), ("5", Element::Second),
    ("PM", Element::Half { upper: true }), ("pm", Element::Half { upper: false }),
    ("-070000", offset(false, false, 3)), ("-07:00:00", offset(false, true, 3)), ("-0700", offset(false, false, 2)),
    ("-07:00", offset(false, true, 2)), ("-07", offset(false, false, 1)),
    ("Z070000", offset(true, false, 3)), ("Z07:00:00", offset(true, true, 3)), ("Z0700", offset(true, false, 2)),
    ("Z07:00", offset(true, true, 2)), ("Z07", offset(true, false, 1)),
];

/// The literal text up to the next element, then that element's text and meaning. Without another element, the whole rest is literal.
pub(super) fn next(layout: &str) -> (&str, Option<(&str, Element)>) {
    for (at, byte) in layout.bytes().enumerate() {
        if !b"JM0123456_Pp-Z.,".contains(&byte) {
            continue;
        }
        // Elements start with ASCII characters, so this offset is a character boundary.
        let (before, rest) = layout.split_at(at);
        if rest.starts_with("_2006") {
            let (before, rest) = layout.split_at(at + 1);
            return (before, Some((&rest[..4], Element::LongYear)));
        }
        let small_follows =
            |written: &str| rest[written.len()..].starts_with(|c: char| c.is_ascii_lowercase());
        let found = ELEMENTS.iter().find(|(written, _)| {
            rest.starts_with(written) && !(matches!(*written, "Jan" | "Mon") && small_follows(written))
        });
        if let Some((written, element)) = found {
            return (before, Some((&rest[..written.len()], *element)));
        }
        if let Some((written, element)) = fraction(rest) {
            return (before, Some((written, element)));
        }
    }
    (layout, None)
}

/// A fraction such as `.000` or `,999`, unless another digit follows.
fn fraction(text: &str) -> Option<(&str, Element)> {
    let separator = text.chars().next().filter(|c| matches!(c, '.' | ','))?;
    let digit = text.as_bytes().get(1).copied().filter(|byte| matches!(byte, b'0' | b'9'))?;
    let digits = text.bytes().skip(1).take_while(|byte| *byte == digit).count();
    let (written, rest) = text.split_at(1 + digits);
    if rest.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    Some((written, Element::Fraction { separator, digits, trimmed: digit == b'9' }))
}
