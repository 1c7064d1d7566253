//! Random strings, numbers, bytes and UUIDs.

use crate::env::Random;
use crate::exec::{FunctionBody, FunctionRow, Machine};
use crate::go;
use crate::value::{Str, Type, Value};

#[rustfmt::skip]
pub(super) const FUNCTIONS: &[FunctionRow] = &[
    ("randAlphaNum", &[Type::Int],            false, FunctionBody::Machine(|m, count| text(m, count, ALPHANUMERIC))),
    ("randAlpha",    &[Type::Int],            false, FunctionBody::Machine(|m, count| text(m, count, LETTERS))),
    ("randNumeric",  &[Type::Int],            false, FunctionBody::Machine(|m, count| text(m, count, DIGITS))),
    ("randAscii",    &[Type::Int],            false, FunctionBody::Machine(ascii)),
    ("randBytes",    &[Type::Int],            false, FunctionBody::Machine(bytes)),
    ("randInt",      &[Type::Int, Type::Int], false, FunctionBody::Machine(int)),
    ("uuidv4",       &[],                     false, FunctionBody::Machine(|m, _| charge_draw(m, 16).map(|()| uuid(m.env.random).into()))),
];

const ALPHANUMERIC: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const DIGITS: &[u8] = b"0123456789";

/// Maximum number of random characters or bytes per call, to bound memory and time.
const MAX_COUNT: usize = 1 << 20;

/// `count` characters drawn uniformly from the alphabet. A negative count gives an empty string.
fn text(machine: &mut Machine<'_>, count: &[Value], alphabet: &[u8]) -> Result<Value, Str> {
    let count = length(usize::try_from(number(count, 0)).unwrap_or(0))?;
    charge_draw(machine, count)?;
    Ok(letters(machine.env.random, count, alphabet).into())
}

/// Charges a draw of `bytes` random bytes: a fixed cost per call to the host, and a cost per byte.
fn charge_draw(machine: &Machine<'_>, bytes: usize) -> Result<(), Str> {
    const STEPS_PER_CALL: u64 = 20;
    const BYTES_PER_STEP: u64 = 2;
    machine.budget().charge(STEPS_PER_CALL + bytes as u64 / BYTES_PER_STEP)
}

/// Printable ASCII, including the space.
fn ascii(machine: &mut Machine<'_>, count: &[Value]) -> Result<Value, Str> {
    let alphabet: Vec<u8> = (b' '..=b'~').collect();
    text(machine, count, &alphabet)
}

fn letters(random: &dyn Random, count: usize, alphabet: &[u8]) -> String {
    let mask = u8::try_from(alphabet.len().next_power_of_two() - 1).unwrap_or(u8::MAX);
    let mut out = String::with_capacity(count);
    let mut pool = [0; 64];
    while out.len() < count {
        random.fill(&mut pool);
        // Draws beyond the alphabet are rejected: a modulo would make some letters more likely.
        let drawn = pool.iter().filter_map(|byte| alphabet.get(usize::from(byte & mask)));
        out.extend(drawn.take(count - out.len()).map(|&letter| char::from(letter)));
    }
    out
}

/// Random bytes as base64.
fn bytes(machine: &mut Machine<'_>, count: &[Value]) -> Result<Value, Str> {
    let count =
        usize::try_from(number(count, 0)).map_err(|_| "runtime error: makeslice: len out of range")?;
    let count = length(count)?;
    charge_draw(machine, count)?;
    let mut bytes = vec![0; count];
    machine.env.random.fill(&mut bytes);
    Ok(go::base64(&bytes).into())
}

fn length(count: usize) -> Result<usize, Str> {
    if count > MAX_COUNT {
        return Err(
            format!("{count} random characters are more than the {MAX_COUNT} that are allowed").into()
        );
    }
    Ok(count)
}

/// A random number from the first bound, inclusive, to the second, exclusive.
fn int(machine: &mut Machine<'_>, bounds: &[Value]) -> Result<Value, Str> {
    charge_draw(machine, 8)?;
    let (min, max) = (number(bounds, 0), number(bounds, 1));
    let span = u64::try_from(max.wrapping_sub(min)).ok().filter(|span| *span > 0);
    let drawn = below(machine.env.random, span.ok_or("invalid argument to Intn")?);
    Ok(Value::Int(min.wrapping_add_unsigned(drawn)))
}

/// A uniform random number below `span`.
fn below(random: &dyn Random, span: u64) -> u64 {
    let mask = span.checked_next_power_of_two().map_or(u64::MAX, |power| power - 1);
    loop {
        let mut bytes = [0; 8];
        random.fill(&mut bytes);
        let drawn = u64::from_le_bytes(bytes) & mask;
        if drawn < span {
            return drawn;
        }
    }
}

fn uuid(random: &dyn Random) -> String {
    let mut bytes = [0; 16];
    random.fill(&mut bytes);
    let mut id = u128::from_be_bytes(bytes);
    id = id & !(0xf << 76) | 4 << 76; // version 4: random
    id = id & !(0b11 << 62) | 0b10 << 62; // RFC 9562 variant
    let hex = format!("{id:032x}");
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| hex.get(part).unwrap_or_default());
    parts.join("-")
}

fn number(arguments: &[Value], at: usize) -> i64 {
    match arguments.get(at) {
        Some(Value::Int(n)) => *n,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Counts up: deterministic, and evenly distributed.
    struct CountingRandom(Cell<u8>);

    impl Random for CountingRandom {
        fn fill(&self, bytes: &mut [u8]) {
            for byte in bytes {
                *byte = self.0.replace(self.0.get().wrapping_add(1));
            }
        }
    }

    #[test]
    fn letters_are_uniformly_distributed() {
        let random = CountingRandom(Cell::new(0));
        for alphabet in [ALPHANUMERIC, LETTERS, DIGITS] {
            let text = letters(&random, alphabet.len() * 8, alphabet);
            for &letter in alphabet {
                let seen = text.bytes().filter(|&byte| byte == letter).count();
                assert!((7..=9).contains(&seen), "{} {seen} times", char::from(letter));
            }
        }
    }

    #[test]
    fn random_number_stays_below_bound() {
        let random = CountingRandom(Cell::new(0));
        for span in [1, 2, 3, 10, 1 << 40, u64::MAX] {
            assert!((0..100).all(|_| below(&random, span) < span));
        }
    }

    #[test]
    fn uuid_has_version_and_variant() {
        let random = CountingRandom(Cell::new(0xf0));
        assert_eq!(uuid(&random), "f0f1f2f3-f4f5-46f7-b8f9-fafbfcfdfeff");
        assert_eq!(uuid(&random), "00010203-0405-4607-8809-0a0b0c0d0e0f");
    }

    #[test]
    fn too_many_random_characters_are_rejected() {
        assert!(length(MAX_COUNT).is_ok());
        assert_eq!(
            length(1_000_000_000).unwrap_err().as_ref(),
            "1000000000 random characters are more than the 1048576 that are allowed"
        );
    }
}
