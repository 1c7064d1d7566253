//! A chart whose templates are parsed once, however often it is rendered.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use foldhash::HashMap;
use helm_chart::{Chart, File};
use helm_template::exec::Functions;
use helm_template::functions::MAKE_USUAL_KEY;
use helm_template::parse::{self, Names};
use helm_template::profile::Profile;
use helm_template::value::Str;

use crate::scope::{full_path, template_name, templates};

/// What one file was parsed to.
#[derive(Clone)]
pub(crate) struct Parsed {
    pub file: parse::File,
    /// In so many places a key is made.
    pub keys: usize,
}

/// A chart, and what its templates were parsed to. It can be shared between threads.
pub struct Prepared {
    pub(crate) chart: Chart,
    known: Mutex<Known>,
    /// A rendering has all that it needs: nobody is to parse ahead any more.
    enough: AtomicBool,
}

/// A file is known by where its bytes lie, which the chart keeps, and by the name under which it is parsed: a subchart
/// may go by several. Which functions there are is for the profile to say.
type Key = (Profile, usize, usize, Str);

/// What stands in a file.
type Text = (Profile, Bytes);

/// What was parsed. The hashes have a seed, because charts may be made to harm.
#[derive(Default)]
struct Known {
    files: HashMap<Key, Parsed>,
    /// Of each text the first file: a library lies in many charts.
    texts: HashMap<Text, Parsed>,
}

impl Prepared {
    pub fn new(chart: Chart) -> Self {
        Self { chart, known: Mutex::default(), enough: AtomicBool::new(false) }
    }

    pub fn chart(&self) -> &Chart {
        &self.chart
    }

    /// `file` is one of this chart's own, under the name that Helm gives it.
    pub(crate) fn parse(&self, name: &Str, file: &File, functions: &Functions) -> Result<Parsed, Str> {
        let key = (functions.profile, file.data.as_ptr() as usize, file.data.len(), name.clone());
        let text = (functions.profile, file.data.clone());
        if let Some(parsed) = self.known().find(&key, &text) {
            return Ok(parsed);
        }
        let parsed = read(name, &file.data, functions)?;
        self.known().keep(key, text, &parsed);
        Ok(parsed)
    }

    /// Parsing it takes much longer than starting a thread.
    pub fn is_large(&self) -> bool {
        const LARGE: usize = 128 << 10;
        size(&self.chart) > LARGE
    }

    /// A rendering has all that it needs.
    pub(crate) fn enough(&self) {
        self.enough.store(true, Ordering::Relaxed);
    }

    /// Parses what a rendering on another thread will ask for, and begins with what that asks for last. What cannot be
    /// parsed, or is wanted under another name after all, is for the rendering to tell.
    pub(crate) fn parse_ahead(&self, functions: &Functions) {
        let mut charts = VecDeque::from([(self.chart.metadata.name.clone(), &self.chart)]);
        while let Some((path, chart)) = charts.pop_front() {
            for file in templates(chart) {
                if self.enough.load(Ordering::Relaxed) {
                    return;
                }
                let _ = self.parse(&template_name(&path, file), file, functions);
            }
            charts.extend(chart.dependencies.iter().map(|child| (full_path(&path, child), child)));
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn find(&mut self, key: &Key, text: &Text) -> Option<Parsed> {
        if let Some(parsed) = self.files.get(key) {
            return Some(parsed.clone());
        }
        let same = self.texts.get(text)?;
        let parsed = Parsed { file: same.file.renamed(&key.3)?, keys: same.keys };
        self.files.insert(key.clone(), parsed.clone());
        Some(parsed)
    }

    fn keep(&mut self, key: Key, text: Text, parsed: &Parsed) {
        self.texts.entry(text).or_insert_with(|| parsed.clone());
        self.files.insert(key, parsed.clone());
    }
}

/// Bytes of templates.
fn size(chart: &Chart) -> usize {
    let own: usize = chart.templates.iter().map(|file| file.data.len()).sum();
    own + chart.dependencies.iter().map(size).sum::<usize>()
}

fn read(name: &str, data: &Bytes, functions: &Functions) -> Result<Parsed, Str> {
    let functions = Counting { functions, keys: Cell::new(0) };
    let file = parse::File::parse(name, data, &functions)?;
    Ok(Parsed { file, keys: functions.keys.get() })
}

/// Functions by name, and how many of those asked for make a key.
struct Counting<'f> {
    functions: &'f Functions,
    keys: Cell<usize>,
}

impl Names for Counting<'_> {
    fn find(&self, name: &str) -> Option<(u32, &'static str)> {
        if MAKE_USUAL_KEY.contains(&name) {
            self.keys.set(self.keys.get() + 1);
        }
        self.functions.find(name)
    }
}

#[cfg(test)]
mod tests {
    use helm_template::functions;

    use super::*;

    #[test]
    fn places_that_make_keys_are_counted() {
        let functions = functions::table(Profile::Helm4);
        for (text, keys) in [
            ("{{ .Values.genCA }} genCA {{/* genCA */}} {{ \"genCA\" }}", 0),
            ("{{ genCAWithKey \"a\" 1 .Values.key }}", 0),
            (
                "{{ $ca := genCA \"a\" 1 }}{{ if .x }}{{ (genSignedCert \"b\" nil nil 1 $ca).Cert }}{{ end }}",
                2,
            ),
            ("{{ define \"a\" }}{{ genSelfSignedCert \"a\" nil nil 1 | toJson }}{{ end }}", 1),
        ] {
            let file = File { name: "templates/a.yaml".into(), data: text.into() };
            let parsed = Prepared::new(Chart::default())
                .parse(&"c/templates/a.yaml".into(), &file, &functions)
                .unwrap();
            assert_eq!(parsed.keys, keys, "{text}");
        }
    }
}
