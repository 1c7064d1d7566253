//! Parses tar headers as Go's `archive/tar` does.

use std::borrow::Cow;

pub(super) const BLOCK_SIZE: usize = 512;

/// An invalid header.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("archive/tar: invalid tar header")]
pub(super) struct InvalidHeader;

/// A parsed header block.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TarHeader<'a> {
    pub name: Cow<'a, [u8]>,
    pub link: &'a [u8],
    pub size: u64,
    pub mode: u64,
    pub kind: u8,
}

impl<'a> TarHeader<'a> {
    pub fn parse(block: &'a [u8; BLOCK_SIZE]) -> Result<Self, InvalidHeader> {
        let expected = octal(&block[148..156])?;
        if !checksums(block).contains(&expected) {
            return Err(InvalidHeader);
        }
        let name = text(&block[..100]);
        let prefix = if &block[257..263] == b"ustar\0" { text(&block[345..500]) } else { b"" };
        Ok(Self {
            name: if prefix.is_empty() { Cow::Borrowed(name) } else { [prefix, b"/", name].concat().into() },
            link: text(&block[157..257]),
            size: number(&block[124..136])?,
            mode: number(&block[100..108])?,
            kind: block[156],
        })
    }

    /// Old archives mark a folder by a trailing slash instead of a type.
    pub fn is_dir(&self, name: &[u8]) -> bool {
        self.kind == b'5' || (self.kind == 0 && name.ends_with(b"/")) || self.mode & !0o7777 == 0o040_000
    }

    /// Types whose header may state a size, but which have no content.
    pub fn has_no_content(&self) -> bool {
        matches!(self.kind, b'1'..=b'6')
    }
}

/// Checksums of a header, with its checksum field read as spaces: of unsigned bytes, and of signed bytes as some old
/// programs computed it.
fn checksums(block: &[u8; BLOCK_SIZE]) -> [u64; 2] {
    let bytes = || block.iter().enumerate().map(|(i, b)| if (148..156).contains(&i) { b' ' } else { *b });
    let unsigned: u64 = bytes().map(u64::from).sum();
    let signed: i64 = bytes().map(|b| i64::from(b.cast_signed())).sum();
    [unsigned, u64::try_from(signed).unwrap_or(u64::MAX)]
}

/// Bytes up to the first zero byte.
fn text(field: &[u8]) -> &[u8] {
    field.split(|b| *b == 0).next().unwrap_or_default()
}

fn octal(field: &[u8]) -> Result<u64, InvalidHeader> {
    let digits = field.trim_ascii_start();
    let digits = text(digits).trim_ascii_end();
    digits.iter().try_fold(0_u64, |sum, digit| match digit {
        b'0'..=b'7' => sum.checked_mul(8).map(|sum| sum + u64::from(digit - b'0')).ok_or(InvalidHeader),
        _ => Err(InvalidHeader),
    })
}

/// Octal digits or, if the first bit is set, a number in base 256.
fn number(field: &[u8]) -> Result<u64, InvalidHeader> {
    let Some((first, rest)) = field.split_first().filter(|(first, _)| *first & 0x80 != 0) else {
        return octal(field);
    };
    // The second bit is the sign; negative numbers are invalid here.
    if first & 0x40 != 0 {
        return Err(InvalidHeader);
    }
    rest.iter().try_fold(u64::from(first & 0x3f), |sum, byte| {
        sum.checked_mul(256)
            .map(|sum| sum | u64::from(*byte))
            .filter(|sum| i64::try_from(*sum).is_ok())
            .ok_or(InvalidHeader)
    })
}

/// Attributes of the next entry from extended headers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ExtendedAttributes {
    pub name: Option<Vec<u8>>,
    pub link: Option<Vec<u8>>,
    pub size: Option<u64>,
    pub sparse: bool,
}

impl ExtendedAttributes {
    /// Parses the records of a PAX header: `LENGTH KEY=VALUE\n`.
    pub fn parse_pax(&mut self, mut records: &[u8]) -> Result<(), InvalidHeader> {
        while !records.is_empty() {
            let space = records.iter().position(|b| *b == b' ').ok_or(InvalidHeader)?;
            let length =
                std::str::from_utf8(&records[..space]).ok().and_then(|digits| digits.parse::<usize>().ok());
            let length = length.filter(|length| *length > space + 1).ok_or(InvalidHeader)?;
            let record = records.get(space + 1..length).ok_or(InvalidHeader)?;
            records = &records[length..];
            let record = record.strip_suffix(b"\n").ok_or(InvalidHeader)?;
            let equals = record.iter().position(|b| *b == b'=').filter(|at| *at > 0).ok_or(InvalidHeader)?;
            let (key, value) = (&record[..equals], &record[equals + 1..]);
            match key {
                b"path" | b"linkpath" if value.contains(&0) => return Err(InvalidHeader),
                b"path" => self.name = Some(value.to_vec()).filter(|name| !name.is_empty()),
                b"linkpath" => self.link = Some(value.to_vec()).filter(|link| !link.is_empty()),
                b"size" if value.is_empty() => self.size = None,
                b"size" => {
                    let size = std::str::from_utf8(value).ok().and_then(|digits| digits.parse().ok());
                    self.size = Some(size.ok_or(InvalidHeader)?);
                }
                _ if key.starts_with(b"GNU.sparse.") => self.sparse = true,
                _ => {}
            }
        }
        Ok(())
    }

    /// A long name in GNU tar's format.
    pub fn parse_gnu_long_name(content: &[u8]) -> Vec<u8> {
        text(content).to_vec()
    }
}

/// Splits a name that is too long for its field at a slash, so that both parts fit into the two name fields.
pub(super) fn split_path(name: &str) -> Option<(&str, &str)> {
    const NAME: usize = 100;
    const PREFIX: usize = 155;
    if name.len() <= NAME || !name.is_ascii() {
        return None;
    }
    let cut = name[..name.len().min(PREFIX + 1)].rfind('/').filter(|cut| *cut > 0)?;
    let (prefix, rest) = (&name[..cut], &name[cut + 1..]);
    (!rest.is_empty() && rest.len() <= NAME).then_some((prefix, rest))
}
