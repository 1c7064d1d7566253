//! Compiled expressions: matching, splitting, replacing.

use regex_automata::meta::{Config, Regex};
use regex_automata::util::captures::Captures;
use regex_automata::{Input, Match};

use super::alphabet::Alphabet;
use super::cost::states_per_char;
use super::subject::Subject;
use super::translate::{RegexSyntaxError, translate};
use crate::go::unicode::{is_digit, is_letter};
use crate::profile::Profile;
use crate::value::{Str, Value};

/// Maximum memory of a compiled expression. Go limits the size too, in other units.
const MAX_COMPILED_SIZE: usize = 16 << 20;

/// Memory that most compiled expressions stay well below.
const MAX_CACHED_SIZE: usize = 64 << 10;

/// Bytes of compiled expression per step of compile time.
const COMPILED_BYTES_PER_STEP: u64 = 2;

/// Minimum number of steps to compile any expression.
const MIN_COMPILE_STEPS: u64 = 1_000;

/// Bytes searched per step, for simple expressions.
const BYTES_PER_STEP: u64 = 12;

/// Steps per byte of a match whose groups are captured, because the lazy DFA does not compute captures.
const STEPS_FOR_GROUPS: u64 = 4;

/// Callback that charges the work. It is called before each search with the maximum number of steps of the search and the number of
/// result bytes so far. An error ends the operation.
pub type ChargeFn<'t> = &'t mut dyn FnMut(u64, usize) -> Result<(), Str>;

/// A compiled expression with Go's semantics.
pub struct Expression {
    regex: Regex,
    /// Names of the groups; empty for unnamed groups. Index 0 is the whole match.
    names: Vec<Box<str>>,
    /// Whether this is the empty expression.
    is_empty_pattern: bool,
    /// Worst-case NFA states visited per character; see `states_per_char`.
    states_per_char: u64,
}

impl Expression {
    /// Compiles an expression for any text. Errors carry Go's message.
    pub fn compile(pattern: &str, profile: Profile) -> Result<Self, String> {
        Self::compile_for(Alphabet::Unicode, pattern, profile)
    }

    /// Compiles an expression for texts of this alphabet only. Other characters in the text may be missed.
    pub fn compile_for(alphabet: Alphabet, pattern: &str, profile: Profile) -> Result<Self, String> {
        let translated = translate(pattern, profile)?;
        let too_large = || RegexSyntaxError::TooLarge.message(pattern);
        let syntax = alphabet.narrow(regex_syntax::parse(&translated.pattern).map_err(|_| too_large())?);
        // Most expressions match a few short texts, so automata with a long build time do not pay off.
        let config = Config::new().nfa_size_limit(Some(MAX_COMPILED_SIZE)).dfa(false).onepass(false);
        let built = Regex::builder().configure(config).build_from_hir(&syntax);
        let (regex, places) = (built.map_err(|_| too_large())?, states_per_char(&syntax));
        Ok(Self {
            regex,
            names: translated.names,
            is_empty_pattern: pattern.is_empty(),
            states_per_char: places,
        })
    }

    /// Whether the expression is small enough to be cached.
    pub fn is_small(&self) -> bool {
        self.regex.memory_usage() <= MAX_CACHED_SIZE
    }

    /// Memory of the compiled expression in bytes.
    pub fn size(&self) -> usize {
        self.regex.memory_usage()
    }

    /// The cost of compiling this expression in steps.
    pub fn steps_to_compile(&self) -> u64 {
        MIN_COMPILE_STEPS + self.regex.memory_usage() as u64 / COMPILED_BYTES_PER_STEP
    }

    /// The maximum cost of rejecting an expression in steps. Syntax errors are found while reading; the size limit is found only after
    /// compiling up to that size.
    pub fn steps_to_reject(why: &str, pattern: &str) -> u64 {
        let read = MIN_COMPILE_STEPS + pattern.len() as u64;
        let too_large = why == RegexSyntaxError::TooLarge.message(pattern);
        if too_large { read + MAX_COMPILED_SIZE as u64 / COMPILED_BYTES_PER_STEP } else { read }
    }

    /// The first match that starts at or after `at`.
    fn find_at(&self, text: &str, at: usize) -> Option<Match> {
        self.regex.search(&Input::new(text).range(at..))
    }

    /// Maximum steps of one search through `bytes` bytes.
    pub fn steps(&self, bytes: usize) -> u64 {
        let bytes = bytes as u64;
        bytes.saturating_mul(self.states_per_char).saturating_add(bytes / BYTES_PER_STEP)
    }

    /// Maximum steps of a search that starts at `at`.
    fn steps_from(&self, text: &str, at: usize) -> u64 {
        self.steps(text.len().saturating_sub(at))
    }

    pub fn is_match(&self, subject: &Subject<'_>) -> bool {
        self.regex.is_match(subject.text())
    }

    /// The first match, or an empty slice.
    pub fn find<'s>(&self, subject: &Subject<'s>) -> &'s [u8] {
        match self.regex.find(subject.text()) {
            Some(found) => subject.bytes(found.start(), found.end()),
            None => &[],
        }
    }

    /// The first `limit` matches; all if `limit` is negative.
    pub fn find_all<'s>(
        &self,
        subject: &Subject<'s>,
        limit: i64,
        toll: ChargeFn<'_>,
    ) -> Result<Vec<&'s [u8]>, Str> {
        let places = self.match_ranges(subject, limit, toll)?;
        Ok(places.into_iter().map(|(from, to)| subject.bytes(from, to)).collect())
    }

    fn match_ranges(
        &self,
        subject: &Subject<'_>,
        limit: i64,
        toll: ChargeFn<'_>,
    ) -> Result<Vec<(usize, usize)>, Str> {
        let text = subject.text();
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut places = Vec::new();
        let (mut at, mut end_of_last) = (0, None);
        while places.len() < limit && at <= text.len() {
            toll(self.steps_from(text, at), places.len().saturating_mul(size_of::<Value>() * 2))?;
            let Some(found) = self.find_at(text, at) else { break };
            // An empty match directly after another match does not count.
            let empty = found.end() == at;
            if !empty || Some(found.start()) != end_of_last {
                places.push((found.start(), found.end()));
            }
            at = if empty { at + advance_len(text, at) } else { found.end() };
            end_of_last = Some(found.end());
        }
        Ok(places)
    }

    /// The text between matches, in at most `limit` pieces; unlimited if negative. `limit` must not be zero.
    pub fn split<'s>(
        &self,
        subject: &Subject<'s>,
        limit: i64,
        toll: ChargeFn<'_>,
    ) -> Result<Vec<&'s [u8]>, Str> {
        let text = subject.text();
        if !self.is_empty_pattern && text.is_empty() {
            return Ok(vec![&[]]);
        }
        let most = usize::try_from(limit - 1).unwrap_or(usize::MAX);
        let mut pieces = Vec::new();
        let (mut from, mut to) = (0, 0);
        for (start, end) in self.match_ranges(subject, limit, toll)? {
            if pieces.len() >= most {
                break;
            }
            to = start;
            if end != 0 {
                pieces.push(subject.bytes(from, to));
            }
            from = end;
        }
        if to != text.len() {
            pieces.push(subject.bytes(from, text.len()));
        }
        Ok(pieces)
    }

    /// Replaces every match by the same bytes.
    pub fn replace_literally(
        &self,
        subject: &Subject<'_>,
        by: &[u8],
        toll: ChargeFn<'_>,
    ) -> Result<Vec<u8>, Str> {
        self.replace(subject, toll, |out, _, _| {
            out.extend_from_slice(by);
            Ok(())
        })
    }

    /// Replaces every match by a template in which `$1` and `${name}` refer to groups.
    pub fn replace_all(
        &self,
        subject: &Subject<'_>,
        template: &[u8],
        toll: ChargeFn<'_>,
    ) -> Result<Vec<u8>, Str> {
        let parts = self.replacement_parts(template);
        self.replace(subject, toll, |out, groups, toll| {
            for part in &parts {
                toll(0, out.len())?;
                match part {
                    ReplacementPart::Bytes(bytes) => out.extend_from_slice(bytes),
                    ReplacementPart::Groups(numbers) => {
                        if let Some(found) = numbers.iter().find_map(|number| groups.get_group(*number)) {
                            out.extend_from_slice(subject.bytes(found.start, found.end));
                        }
                    }
                }
            }
            Ok(())
        })
    }

    fn replace(
        &self,
        subject: &Subject<'_>,
        toll: ChargeFn<'_>,
        mut by: impl FnMut(&mut Vec<u8>, &Captures, ChargeFn<'_>) -> Result<(), Str>,
    ) -> Result<Vec<u8>, Str> {
        let text = subject.text();
        let mut out = Vec::with_capacity(text.len());
        let mut groups = self.regex.create_captures();
        let steps_for_groups = if self.names.len() > 1 { STEPS_FOR_GROUPS } else { 0 };
        let (mut at, mut end_of_last) = (0, 0);
        while at <= text.len() {
            toll(self.steps_from(text, at), out.len())?;
            self.regex.search_captures(&Input::new(text).range(at..), &mut groups);
            let Some(found) = groups.get_match() else { break };
            toll(found.len() as u64 * steps_for_groups, out.len())?;
            out.extend_from_slice(subject.bytes(end_of_last, found.start()));
            // An empty match directly after another match is not replaced.
            if found.end() > end_of_last || found.start() == 0 {
                by(&mut out, &groups, &mut *toll)?;
            }
            end_of_last = found.end();
            at = end_of_last.max(at + advance_len(text, at));
        }
        out.extend_from_slice(subject.bytes(end_of_last, text.len()));
        Ok(out)
    }

    fn replacement_parts<'t>(&self, template: &'t [u8]) -> Vec<ReplacementPart<'t>> {
        let mut parts = Vec::new();
        let mut rest = template;
        while let Some(at) = memchr::memchr(b'$', rest) {
            parts.push(ReplacementPart::Bytes(&rest[..at]));
            let after = &rest[at + 1..];
            if let Some(b'$') = after.first() {
                parts.push(ReplacementPart::Bytes(b"$"));
                rest = &after[1..];
            } else if let Some((name, next)) = group_name(after) {
                parts.push(ReplacementPart::Groups(self.groups(&name)));
                rest = next;
            } else {
                parts.push(ReplacementPart::Bytes(b"$"));
                rest = after;
            }
        }
        parts.push(ReplacementPart::Bytes(rest));
        parts
    }

    /// The groups that a reference in a template can mean: the group of that number, or all groups of that name, of which the first
    /// that took part in the match is used.
    fn groups(&self, name: &str) -> Vec<usize> {
        let is_number =
            name.bytes().all(|byte| byte.is_ascii_digit()) && (name == "0" || !name.starts_with('0'));
        if is_number && name.len() <= 9 {
            return name.parse().ok().filter(|number| *number < self.names.len()).into_iter().collect();
        }
        (0..self.names.len()).filter(|number| &*self.names[*number] == name).collect()
    }
}

/// A part of a replacement template.
enum ReplacementPart<'t> {
    Bytes(&'t [u8]),
    Groups(Vec<usize>),
}

/// The group name at the start of a template, with or without braces, and the remaining template. The name extends over letters,
/// digits and underscores: `$1x` is the group `1x`.
fn group_name(template: &[u8]) -> Option<(String, &[u8])> {
    let (braced, inner) = match template.strip_prefix(b"{") {
        Some(inner) => (true, inner),
        None => (false, template),
    };
    let text = inner.utf8_chunks().next()?.valid();
    let end = text.find(|c: char| !is_letter(c) && !is_digit(c) && c != '_').unwrap_or(text.len());
    let (name, mut rest) = (&text[..end], &inner[end..]);
    if name.is_empty() {
        return None;
    }
    if braced {
        rest = rest.strip_prefix(b"}")?;
    }
    Some((name.to_owned(), rest))
}

/// The distance to advance after an empty match: one character, or past the end.
fn advance_len(text: &str, at: usize) -> usize {
    text[at..].chars().next().map_or(1, char::len_utf8)
}

/// Escapes all characters with a special meaning in expressions (`regexp.QuoteMeta`).
pub fn quote_meta(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        if b"\\.+*?()|[]{}^$".contains(byte) {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out
}
