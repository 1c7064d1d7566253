//! Incremental gzip decompression with a bounded buffer.
//!
//! The reader requests the next bytes and decides from them whether to continue. A small archive that would unpack to
//! gigabytes is rejected at the first header that says so, at the latest at the limit.

use flate2::{Crc, Decompress, FlushDecompress, Status};

/// Minimum number of bytes unpacked per step.
const MIN_CHUNK_LEN: usize = 256 << 10;
/// Maximum compression ratio of Deflate: a larger stated length is false.
const MAX_DEFLATE_RATIO: usize = 1032;

/// Compression ratio from which an archive counts as a bomb. Real charts stay below it; small archives are exempt
/// because they do no harm.
const BOMB_RATIO: usize = 100;
const MIN_BOMB_SIZE: usize = 8 << 20;

pub(super) struct GzipReader<'a> {
    packed: &'a [u8],
    /// Length of the packed archive.
    packed_len: usize,
    inflate: Decompress,
    state: GzipState,
    checksum: Crc,
    /// Start of the current gzip member in `unpacked`.
    member_start: usize,
    limit: usize,
    pub unpacked: Vec<u8>,
}

enum GzipState {
    InMember,
    /// The end of the archive was reached.
    Ended,
    Failed(GzipError),
}

/// Decompression failure, with the messages of Go's `compress/gzip`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum GzipError {
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

impl<'a> GzipReader<'a> {
    pub fn new(packed: &'a [u8], limit: usize) -> Result<Self, GzipError> {
        let body = skip_header(packed)?;
        // For an archive with one member below 4 GiB, the last four bytes are the unpacked length.
        let promised = packed.last_chunk().map_or(0, |length| u32::from_le_bytes(*length) as usize);
        let ratio = if promised > MIN_BOMB_SIZE { BOMB_RATIO } else { MAX_DEFLATE_RATIO };
        let plausible = promised <= limit && promised / ratio <= packed.len();
        Ok(Self {
            packed: body,
            packed_len: packed.len(),
            inflate: Decompress::new(false),
            state: GzipState::InMember,
            checksum: Crc::new(),
            member_start: 0,
            limit,
            // One extra byte, so that the end is detected without growing the buffer.
            unpacked: Vec::with_capacity(if plausible { promised + 1 } else { MIN_CHUNK_LEN.min(limit) }),
        })
    }

    /// Unpacks until `length` bytes are available. Fewer are available only at the end of the archive.
    pub fn fill_to(&mut self, length: usize) -> Result<(), GzipError> {
        while self.unpacked.len() < length {
            match self.state {
                GzipState::Ended => return Ok(()),
                GzipState::Failed(failure) => return Err(failure),
                GzipState::InMember => {
                    if let Err(failure) = self.fill_chunk() {
                        self.state = GzipState::Failed(failure);
                    }
                }
            }
        }
        Ok(())
    }

    fn fill_chunk(&mut self) -> Result<(), GzipError> {
        if self.unpacked.len() >= self.limit {
            return Err(GzipError::Limit);
        }
        if self.unpacked.len() == self.unpacked.capacity() {
            let grown = self.unpacked.len().max(MIN_CHUNK_LEN).min(self.limit - self.unpacked.len());
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
        let taken = self.packed_len - self.packed.len();
        if self.unpacked.len() > MIN_BOMB_SIZE && self.unpacked.len() / BOMB_RATIO > taken {
            return Err(GzipError::Bomb);
        }
        match status {
            Ok(Status::StreamEnd) => self.finish_member(),
            Ok(_) if consumed == 0 && self.unpacked.len() == start => Err(GzipError::Truncated),
            Ok(_) => Ok(()),
            Err(_) => Err(GzipError::Corrupt(self.inflate.total_in())),
        }
    }

    /// Verifies checksum and length at the end of a member; another member may follow.
    fn finish_member(&mut self) -> Result<(), GzipError> {
        let trailer = self.packed.split_first_chunk::<4>();
        let trailer = trailer.and_then(|(sum, rest)| Some((sum, rest.split_first_chunk::<4>()?)));
        let (sum, (size, rest)) = trailer.ok_or(GzipError::Truncated)?;
        let checksum = std::mem::take(&mut self.checksum).sum();
        let length = self.unpacked.len() - self.member_start;
        #[expect(clippy::cast_possible_truncation, reason = "the trailer has the length modulo 2^32")]
        if u32::from_le_bytes(*sum) != checksum || u32::from_le_bytes(*size) != length as u32 {
            return Err(GzipError::Checksum);
        }
        if rest.is_empty() {
            self.state = GzipState::Ended;
            return Ok(());
        }
        self.packed = skip_header(rest)?;
        self.member_start = self.unpacked.len();
        self.inflate.reset(false);
        Ok(())
    }
}

/// Skips the header of a member.
fn skip_header(packed: &[u8]) -> Result<&[u8], GzipError> {
    const HEADER_CRC: u8 = 2;
    const EXTRA: u8 = 4;
    const NAME: u8 = 8;
    const COMMENT: u8 = 16;
    let (fixed, mut rest) = packed.split_first_chunk::<10>().ok_or(GzipError::Truncated)?;
    if fixed[..3] != [0x1f, 0x8b, 8] {
        return Err(GzipError::Header);
    }
    let flags = fixed[3];
    if flags & EXTRA != 0 {
        let (length, extra) = rest.split_first_chunk().ok_or(GzipError::Truncated)?;
        rest = extra.get(usize::from(u16::from_le_bytes(*length))..).ok_or(GzipError::Truncated)?;
    }
    for text in [NAME, COMMENT] {
        if flags & text != 0 {
            // Go reads these strings into a buffer of 512 bytes.
            let end = rest.iter().take(512).position(|b| *b == 0).ok_or(GzipError::Header)?;
            rest = &rest[end + 1..];
        }
    }
    if flags & HEADER_CRC != 0 {
        let length = packed.len() - rest.len();
        let (checksum, body) = rest.split_first_chunk().ok_or(GzipError::Truncated)?;
        let mut sum = Crc::new();
        sum.update(&packed[..length]);
        if sum.sum() & 0xffff != u32::from(u16::from_le_bytes(*checksum)) {
            return Err(GzipError::Header);
        }
        rest = body;
    }
    Ok(rest)
}
