//! Incremental gzip decompression with a bounded buffer.
//!
//! The reader requests the next bytes and decides from them whether to continue. A small archive that would unpack to
//! gigabytes is rejected at the first header that says so, at the latest at the limit.

use flate2::{Crc, Decompress, FlushDecompress, Status};

/// Minimum number of bytes unpacked per step.
const STEP: usize = 256 << 10;
/// Maximum compression ratio of Deflate: a larger stated length is false.
const BEST_RATIO: usize = 1032;

/// Compression ratio from which an archive counts as a bomb. Real charts stay below it; small archives are exempt
/// because they do no harm.
const BOMB_RATIO: usize = 100;
const HARMLESS: usize = 8 << 20;

pub(super) struct Unzip<'a> {
    packed: &'a [u8],
    /// Length of the packed archive.
    size: usize,
    inflate: Decompress,
    state: State,
    checksum: Crc,
    /// Start of the current gzip member in `unpacked`.
    member: usize,
    limit: usize,
    pub unpacked: Vec<u8>,
}

enum State {
    Within,
    /// The end of the archive was reached.
    Ended,
    Failed(Failure),
}

/// Decompression failure, with the messages of Go's `compress/gzip`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
    #[error("gzip: invalid header")]
    Header,
    #[error("gzip: invalid checksum")]
    Checksum,
    #[error("unexpected EOF")]
    Truncated,
    #[error("flate: corrupt input before offset {0}")]
    Corrupt(u64),
    #[error("the limit is reached")]
    Limit,
    #[error("it unpacks to more than {BOMB_RATIO} times its size")]
    Bomb,
}

impl<'a> Unzip<'a> {
    pub fn new(packed: &'a [u8], limit: usize) -> Result<Self, Failure> {
        let body = header(packed)?;
        // For an archive with one member below 4 GiB, the last four bytes are the unpacked length.
        let promised = packed.last_chunk().map_or(0, |length| u32::from_le_bytes(*length) as usize);
        let ratio = if promised > HARMLESS { BOMB_RATIO } else { BEST_RATIO };
        let plausible = promised <= limit && promised / ratio <= packed.len();
        Ok(Self {
            packed: body,
            size: packed.len(),
            inflate: Decompress::new(false),
            state: State::Within,
            checksum: Crc::new(),
            member: 0,
            limit,
            // One extra byte, so that the end is detected without growing the buffer.
            unpacked: Vec::with_capacity(if plausible { promised + 1 } else { STEP.min(limit) }),
        })
    }

    /// Unpacks until `length` bytes are available. Fewer are available only at the end of the archive.
    pub fn reach(&mut self, length: usize) -> Result<(), Failure> {
        while self.unpacked.len() < length {
            match self.state {
                State::Ended => return Ok(()),
                State::Failed(failure) => return Err(failure),
                State::Within => {
                    if let Err(failure) = self.step() {
                        self.state = State::Failed(failure);
                    }
                }
            }
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), Failure> {
        if self.unpacked.len() >= self.limit {
            return Err(Failure::Limit);
        }
        if self.unpacked.len() == self.unpacked.capacity() {
            let grown = self.unpacked.len().max(STEP).min(self.limit - self.unpacked.len());
            self.unpacked.reserve_exact(grown);
        }
        let start = self.unpacked.len();
        let (consumed, status) = {
            let before = self.inflate.total_in();
            let status = self.inflate.decompress_vec(self.packed, &mut self.unpacked, FlushDecompress::None);
            (self.inflate.total_in() - before, status)
        };
        let consumed = usize::try_from(consumed).unwrap_or(usize::MAX).min(self.packed.len());
        self.packed = &self.packed[consumed..];
        self.checksum.update(&self.unpacked[start..]);
        let taken = self.size - self.packed.len();
        if self.unpacked.len() > HARMLESS && self.unpacked.len() / BOMB_RATIO > taken {
            return Err(Failure::Bomb);
        }
        match status {
            Ok(Status::StreamEnd) => self.end_of_member(),
            Ok(_) if consumed == 0 && self.unpacked.len() == start => Err(Failure::Truncated),
            Ok(_) => Ok(()),
            Err(_) => Err(Failure::Corrupt(self.inflate.total_in())),
        }
    }

    /// Verifies checksum and length at the end of a member; another member may follow.
    fn end_of_member(&mut self) -> Result<(), Failure> {
        let trailer = self.packed.split_first_chunk::<4>();
        let trailer = trailer.and_then(|(sum, rest)| Some((sum, rest.split_first_chunk::<4>()?)));
        let (sum, (size, rest)) = trailer.ok_or(Failure::Truncated)?;
        let checksum = std::mem::take(&mut self.checksum).sum();
        let length = self.unpacked.len() - self.member;
        #[expect(clippy::cast_possible_truncation, reason = "the trailer has the length modulo 2^32")]
        if u32::from_le_bytes(*sum) != checksum || u32::from_le_bytes(*size) != length as u32 {
            return Err(Failure::Checksum);
        }
        if rest.is_empty() {
            self.state = State::Ended;
            return Ok(());
        }
        self.packed = header(rest)?;
        self.member = self.unpacked.len();
        self.inflate.reset(false);
        Ok(())
    }
}

/// Skips the header of a member.
fn header(packed: &[u8]) -> Result<&[u8], Failure> {
    const CHECKED: u8 = 2;
    const EXTRA: u8 = 4;
    const NAME: u8 = 8;
    const COMMENT: u8 = 16;
    let (fixed, mut rest) = packed.split_first_chunk::<10>().ok_or(Failure::Truncated)?;
    if fixed[..3] != [0x1f, 0x8b, 8] {
        return Err(Failure::Header);
    }
    let flags = fixed[3];
    if flags & EXTRA != 0 {
        let (length, extra) = rest.split_first_chunk().ok_or(Failure::Truncated)?;
        rest = extra.get(usize::from(u16::from_le_bytes(*length))..).ok_or(Failure::Truncated)?;
    }
    for text in [NAME, COMMENT] {
        if flags & text != 0 {
            // Go reads these strings into a buffer of 512 bytes.
            let end = rest.iter().take(512).position(|b| *b == 0).ok_or(Failure::Header)?;
            rest = &rest[end + 1..];
        }
    }
    if flags & CHECKED != 0 {
        let length = packed.len() - rest.len();
        let (checksum, body) = rest.split_first_chunk().ok_or(Failure::Truncated)?;
        let mut sum = Crc::new();
        sum.update(&packed[..length]);
        if sum.sum() & 0xffff != u32::from(u16::from_le_bytes(*checksum)) {
            return Err(Failure::Header);
        }
        rest = body;
    }
    Ok(rest)
}
