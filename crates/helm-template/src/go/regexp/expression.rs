//! Expressions at work: finding, splitting, replacing.

use regex_automata::meta::{Config, Regex};
use regex_automata::util::captures::Captures;
use regex_automata::{Input, Match};

use super::alphabet::Alphabet;
use super::subject::Subject;
use super::translate::{Flaw, translate};
use super::weight::places_for_each;
use crate::go::letters::{is_digit, is_letter};
use crate::profile::Profile;
use crate::value::{Str, Value};

/// What a compiled expression may take up. Go refuses the largest, if it counts in other units.
const LARGEST: usize = 16 << 20;

/// What most expressions take up, with room to spare.
const SMALL: usize = 64 << 10;

/// Bytes that an expression is compiled to in the time of a step.
const COMPILED_PER_STEP: u64 = 2;

/// The steps that any expression takes to compile.
const COMPILING: u64 = 1_000;

/// Bytes that are looked at in the time of a step, where the expression is simple.
const BYTES_PER_STEP: u64 = 12;

/// The steps for each byte of a match whose groups are asked for: what they have is not in the table.
const STEPS_FOR_GROUPS: u64 = 4;

/// Who pays for the work. It is told before each search how many steps that may take, and how many bytes the result
/// has so far; where it refuses, that is the end.
pub type Toll<'t> = &'t mut dyn FnMut(u64, usize) -> Result<(), Str>;

pub struct Expression {
    regex: Regex,
    /// Of each group, the first of which is the whole match; empty where it has none.
    names: Vec<Box<str>>,
    /// It is the empty expression.
    blank: bool,
    /// What each character takes at the worst, beyond a look into a table.
    places: u64,
}

impl Expression {
    /// For any text. An error is worded as Go's.
    pub fn compile(pattern: &str, profile: Profile) -> Result<Self, String> {
        Self::compile_for(Alphabet::Unicode, pattern, profile)
    }

    /// For texts of nothing but these characters: any other may be overlooked.
    pub fn compile_for(alphabet: Alphabet, pattern: &str, profile: Profile) -> Result<Self, String> {
        let translated = translate(pattern, profile)?;
        let too_large = || Flaw::TooLarge.words(pattern);
        let syntax = alphabet.narrow(regex_syntax::parse(&translated.pattern).map_err(|_| too_large())?);
        // Most expressions see a few short texts: automata that take long to make do not pay.
        let config = Config::new().nfa_size_limit(Some(LARGEST)).dfa(false).onepass(false);
        let built = Regex::builder().configure(config).build_from_hir(&syntax);
        let (regex, places) = (built.map_err(|_| too_large())?, places_for_each(&syntax));
        Ok(Self { regex, names: translated.names, blank: pattern.is_empty(), places })
    }

    /// It is as small as most are.
    pub fn is_small(&self) -> bool {
        self.regex.memory_usage() <= SMALL
    }

    /// The bytes that it takes up.
    pub fn size(&self) -> usize {
        self.regex.memory_usage()
    }

    /// How many steps it took to compile it.
    pub fn steps_to_compile(&self) -> u64 {
        COMPILING + self.regex.memory_usage() as u64 / COMPILED_PER_STEP
    }

    /// How many steps it took at the most to find that there is no such expression: that it is wrong is seen by reading
    /// it, that it is too large only once it has been compiled that far.
    pub fn steps_to_refuse(why: &str, pattern: &str) -> u64 {
        let read = COMPILING + pattern.len() as u64;
        let too_large = why == Flaw::TooLarge.words(pattern);
        if too_large { read + LARGEST as u64 / COMPILED_PER_STEP } else { read }
    }

    /// The first match that does not begin before a place.
    fn find_at(&self, text: &str, at: usize) -> Option<Match> {
        self.regex.search(&Input::new(text).range(at..))
    }

    /// How many steps it may take to go once through so many bytes.
    pub fn steps(&self, bytes: usize) -> u64 {
        let bytes = bytes as u64;
        bytes.saturating_mul(self.places).saturating_add(bytes / BYTES_PER_STEP)
    }

    /// The same for one of several searches.
    fn steps_from(&self, text: &str, at: usize) -> u64 {
        self.steps(text.len().saturating_sub(at))
    }

    pub fn is_match(&self, subject: &Subject<'_>) -> bool {
        self.regex.is_match(subject.text())
    }

    /// The first match; empty where there is none.
    pub fn find<'s>(&self, subject: &Subject<'s>) -> &'s [u8] {
        match self.regex.find(subject.text()) {
            Some(found) => subject.bytes(found.start(), found.end()),
            None => &[],
        }
    }

    /// Up to `limit` matches, all if it is negative.
    pub fn find_all<'s>(
        &self,
        subject: &Subject<'s>,
        limit: i64,
        toll: Toll<'_>,
    ) -> Result<Vec<&'s [u8]>, Str> {
        let places = self.places(subject, limit, toll)?;
        Ok(places.into_iter().map(|(from, to)| subject.bytes(from, to)).collect())
    }

    fn places(&self, subject: &Subject<'_>, limit: i64, toll: Toll<'_>) -> Result<Vec<(usize, usize)>, Str> {
        let text = subject.text();
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut places = Vec::new();
        let (mut at, mut end_of_last) = (0, None);
        while places.len() < limit && at <= text.len() {
            toll(self.steps_from(text, at), places.len().saturating_mul(size_of::<Value>() * 2))?;
            let Some(found) = self.find_at(text, at) else { break };
            // An empty match directly behind another one does not count.
            let empty = found.end() == at;
            if !empty || Some(found.start()) != end_of_last {
                places.push((found.start(), found.end()));
            }
            at = if empty { at + width(text, at) } else { found.end() };
            end_of_last = Some(found.end());
        }
        Ok(places)
    }

    /// The text between matches, in at most `limit` pieces unless that is negative; it is not zero.
    pub fn split<'s>(&self, subject: &Subject<'s>, limit: i64, toll: Toll<'_>) -> Result<Vec<&'s [u8]>, Str> {
        let text = subject.text();
        if !self.blank && text.is_empty() {
            return Ok(vec![&[]]);
        }
        let most = usize::try_from(limit - 1).unwrap_or(usize::MAX);
        let mut pieces = Vec::new();
        let (mut from, mut to) = (0, 0);
        for (start, end) in self.places(subject, limit, toll)? {
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

    /// Every match replaced by the same bytes.
    pub fn replace_literally(
        &self,
        subject: &Subject<'_>,
        by: &[u8],
        toll: Toll<'_>,
    ) -> Result<Vec<u8>, Str> {
        self.replace(subject, toll, |out, _, _| {
            out.extend_from_slice(by);
            Ok(())
        })
    }

    /// Every match replaced by a template, in which `$1` and `${name}` are what the groups matched.
    pub fn replace_all(
        &self,
        subject: &Subject<'_>,
        template: &[u8],
        toll: Toll<'_>,
    ) -> Result<Vec<u8>, Str> {
        let parts = self.parts(template);
        self.replace(subject, toll, |out, groups, toll| {
            for part in &parts {
                toll(0, out.len())?;
                match part {
                    Part::Bytes(bytes) => out.extend_from_slice(bytes),
                    Part::Groups(numbers) => {
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
        toll: Toll<'_>,
        mut by: impl FnMut(&mut Vec<u8>, &Captures, Toll<'_>) -> Result<(), Str>,
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
            // An empty match directly behind another one is not replaced.
            if found.end() > end_of_last || found.start() == 0 {
                by(&mut out, &groups, &mut *toll)?;
            }
            end_of_last = found.end();
            at = end_of_last.max(at + width(text, at));
        }
        out.extend_from_slice(subject.bytes(end_of_last, text.len()));
        Ok(out)
    }

    fn parts<'t>(&self, template: &'t [u8]) -> Vec<Part<'t>> {
        let mut parts = Vec::new();
        let mut rest = template;
        while let Some(at) = memchr::memchr(b'$', rest) {
            parts.push(Part::Bytes(&rest[..at]));
            let after = &rest[at + 1..];
            if let Some(b'$') = after.first() {
                parts.push(Part::Bytes(b"$"));
                rest = &after[1..];
            } else if let Some((name, next)) = name(after) {
                parts.push(Part::Groups(self.groups(&name)));
                rest = next;
            } else {
                parts.push(Part::Bytes(b"$"));
                rest = after;
            }
        }
        parts.push(Part::Bytes(rest));
        parts
    }

    /// The groups that a name in a template can mean: a number, or all of that name, of which the first that took
    /// part counts.
    fn groups(&self, name: &str) -> Vec<usize> {
        let is_number =
            name.bytes().all(|byte| byte.is_ascii_digit()) && (name == "0" || !name.starts_with('0'));
        if is_number && name.len() <= 9 {
            return name.parse().ok().filter(|number| *number < self.names.len()).into_iter().collect();
        }
        (0..self.names.len()).filter(|number| &*self.names[*number] == name).collect()
    }
}

/// A piece of a replacement.
enum Part<'t> {
    Bytes(&'t [u8]),
    Groups(Vec<usize>),
}

/// The name at the beginning, braces around it or not, and what follows. As long as letters, digits and underscores
/// go: `$1x` is the group `1x`.
fn name(template: &[u8]) -> Option<(String, &[u8])> {
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

/// How far to go when nothing was matched: a character, or beyond the end.
fn width(text: &str, at: usize) -> usize {
    text[at..].chars().next().map_or(1, char::len_utf8)
}

/// The text with everything escaped that means something in an expression.
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
