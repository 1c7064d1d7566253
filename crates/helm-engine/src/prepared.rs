//! A chart whose templates are parsed once, however often it is rendered.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use helm_chart::{Chart, File};
use helm_template::exec::Functions;
use helm_template::functions::MAKE_USUAL_KEY;
use helm_template::parse::{Names, Template, parse};
use helm_template::profile::Profile;
use helm_template::value::Str;

/// What one file was parsed to.
#[derive(Clone)]
pub(crate) struct Parsed {
    pub templates: Arc<[Arc<Template>]>,
    /// In so many places a key is made.
    pub keys: usize,
}

/// A chart, and what its templates were parsed to. It can be shared between threads.
pub struct Prepared {
    pub(crate) chart: Chart,
    parsed: Mutex<HashMap<Key, Parsed>>,
}

/// A file is known by where its bytes lie, which the chart keeps, and by the name under which it is parsed: a subchart
/// may go by several. Which functions there are is for the profile to say.
type Key = (Profile, usize, usize, Str);

impl Prepared {
    pub fn new(chart: Chart) -> Self {
        Self { chart, parsed: Mutex::default() }
    }

    pub fn chart(&self) -> &Chart {
        &self.chart
    }

    /// `file` is one of this chart's own, under the name that Helm gives it.
    pub(crate) fn parse(&self, name: &Str, file: &File, functions: &Functions) -> Result<Parsed, Str> {
        let key = (functions.profile, file.data.as_ptr() as usize, file.data.len(), name.clone());
        let known = self.parsed.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        if let Some(parsed) = known {
            return Ok(parsed);
        }
        // Checking the whole first is several times faster than going from character to character.
        let text = match std::str::from_utf8(&file.data) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => String::from_utf8_lossy(&file.data),
        };
        let functions = Counting { functions, keys: Cell::new(0) };
        let templates = parse(name, &text, &functions)?.into_iter().map(Arc::new).collect();
        let parsed = Parsed { templates, keys: functions.keys.get() };
        self.parsed.lock().unwrap_or_else(PoisonError::into_inner).insert(key, parsed.clone());
        Ok(parsed)
    }
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
