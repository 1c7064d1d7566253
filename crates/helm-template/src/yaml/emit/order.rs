//! Natural order of keys: `a2` before `a10`.
//!
//! The rule is that of go-yaml. It is not a strict weak ordering, because long runs of digits overflow, so the sort must not rely on
//! one.

use super::Dialect;
use crate::go::unicode::{is_digit, is_letter};
use crate::value::{Str, Value};

type Entry = (Str, Value);

/// Whether the entries are already in natural order, which is the common case.
pub(super) fn is_natural(entries: &[Entry], dialect: Dialect) -> bool {
    entries.windows(2).all(|pair| match pair {
        [a, b] => !less(&b.0, &a.0, dialect),
        _ => true,
    })
}

/// Merge sort, which terminates for any comparison function.
pub(super) fn natural(entries: &[Entry], dialect: Dialect) -> Vec<&Entry> {
    let mut sorted: Vec<&Entry> = entries.iter().collect();
    let mut merged = Vec::with_capacity(sorted.len());
    let mut run = 1;
    while run < sorted.len() {
        for pair in sorted.chunks(run * 2) {
            let (mut left, mut right) = pair.split_at(run.min(pair.len()));
            while let ([a, after_a @ ..], [b, after_b @ ..]) = (left, right) {
                if less(&b.0, &a.0, dialect) {
                    merged.push(*b);
                    right = after_b;
                } else {
                    merged.push(*a);
                    left = after_a;
                }
            }
            merged.extend_from_slice(left);
            merged.extend_from_slice(right);
        }
        std::mem::swap(&mut sorted, &mut merged);
        merged.clear();
        run *= 2;
    }
    sorted
}

fn less(a: &str, b: &str, dialect: Dialect) -> bool {
    // The common prefix matters only for the digits at its end.
    let same = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let same = (0..=same).rev().find(|at| a.is_char_boundary(*at) && b.is_char_boundary(*at)).unwrap_or(0);
    let (before, a, b) = (&a[..same], &a[same..], &b[same..]);
    let (Some(first_a), Some(first_b)) = (a.chars().next(), b.chars().next()) else {
        return a.len() < b.len();
    };
    match (is_letter(first_a), is_letter(first_b)) {
        (true, true) => return first_a < first_b,
        (false, false) => {}
        (a_is, b_is) => {
            let after_a_digit = dialect == Dialect::V3 && before.chars().next_back().is_some_and(is_digit);
            return if after_a_digit { a_is } else { b_is };
        }
    }
    // Zeros inside a number are significant, leading zeros are not.
    let inside = || before.chars().rev().take_while(|c| is_digit(*c)).any(|c| c != '0');
    let start = i64::from((first_a == '0' || first_b == '0') && inside());
    let ((number_a, digits_a), (number_b, digits_b)) = (number(a, start), number(b, start));
    (number_a, digits_a, first_a) < (number_b, digits_b, first_b)
}

/// The number at the start of a text, and its number of digits.
fn number(text: &str, start: i64) -> (i64, usize) {
    text.chars().take_while(|c| is_digit(*c)).fold((start, 0), |(number, count), digit| {
        let value = i64::from(u32::from(digit)) - i64::from(u32::from('0'));
        (number.wrapping_mul(10).wrapping_add(value), count + 1)
    })
}
