//! The protobuf wire format: a message as a sequence of numbered records.
//!
//! Independent of types; [`super::protobuf`] interprets the records. For any bytes, reading
//! terminates, and a record never extends beyond its message.

/// The payload of a record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WireValue<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

/// Iterates over the records of a message. Ends after an error.
pub struct Records<'a> {
    rest: &'a [u8],
}

pub fn records(message: &[u8]) -> Records<'_> {
    Records { rest: message }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<(u32, WireValue<'a>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let record = self.record();
        if record.is_err() {
            self.rest = &[];
        }
        Some(record)
    }
}

impl<'a> Records<'a> {
    fn record(&mut self) -> Result<(u32, WireValue<'a>), String> {
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).ok().filter(|&number| number > 0);
        let number = number.ok_or_else(|| format!("proto: illegal tag {tag}"))?;
        let wire = match tag & 7 {
            0 => WireValue::Varint(self.varint()?),
            1 => WireValue::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| unexpected_eof())?;
                WireValue::Bytes(self.take(length)?)
            }
            5 => WireValue::Fixed32(u32::from_le_bytes(self.array()?)),
            other => return Err(format!("proto: wrong wireType = {other} for field {number}")),
        };
        Ok((number, wire))
    }

    fn varint(&mut self) -> Result<u64, String> {
        let (value, rest) = varint(self.rest)?;
        self.rest = rest;
        Ok(value)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or_else(unexpected_eof)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or_else(unexpected_eof)?;
        self.rest = rest;
        Ok(*taken)
    }
}

/// Decodes a packed list of varints.
pub fn packed(mut bytes: &[u8]) -> Result<Vec<u64>, String> {
    let mut values = Vec::new();
    while !bytes.is_empty() {
        let (value, rest) = varint(bytes)?;
        values.push(value);
        bytes = rest;
    }
    Ok(values)
}

fn varint(bytes: &[u8]) -> Result<(u64, &[u8]), String> {
    let mut value = 0_u64;
    for (at, &byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Ok((value, &bytes[at + 1..]));
        }
    }
    Err(if bytes.len() < 10 { unexpected_eof() } else { "proto: integer overflow".to_owned() })
}

fn unexpected_eof() -> String {
    "unexpected EOF".to_owned()
}
