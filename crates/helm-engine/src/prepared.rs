//! Prepared charts: templates are parsed once and cached for all renderings.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use foldhash::HashMap;
use helm_chart::{Chart, File};
use helm_template::budget::Budget;
use helm_template::exec::Functions;
use helm_template::functions::MAKE_USUAL_KEY;
use helm_template::parse::{self, Names, ParseError};
use helm_template::profile::Profile;
use helm_template::value::Str;

use crate::scope::{full_path, template_name, templates};

/// A parsed template file.
#[derive(Clone)]
pub(crate) struct Parsed {
    pub file: parse::File,
    /// The number of calls in the file that generate a key.
    pub keys: usize,
}

/// Memory budget of caches that charts keep between renderings, such as parsed templates. Cheap to clone; clones share the budget.
/// Data that does not fit is not cached and recomputed each time.
#[derive(Clone)]
pub struct CacheMemory(Arc<Held>);

/// Limit and usage of a cache budget.
struct Held {
    limit: usize,
    bytes: AtomicUsize,
}

/// Bytes acquired from a [`CacheMemory`]; returned on drop.
pub struct CachedBytes {
    memory: CacheMemory,
    bytes: usize,
}

impl CacheMemory {
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Held { limit, bytes: AtomicUsize::new(0) }))
    }

    /// The total of acquired bytes.
    pub fn held(&self) -> usize {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// An empty share of this memory.
    pub fn share(&self) -> CachedBytes {
        CachedBytes { memory: self.clone(), bytes: 0 }
    }
}

impl CachedBytes {
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Acquires `bytes` more. Returns false if the budget does not allow it.
    pub fn grow(&mut self, bytes: usize) -> bool {
        let Held { limit, bytes: all } = &*self.memory.0;
        let within = |held: usize| held.checked_add(bytes).filter(|held| held <= limit);
        let is_acquired = all.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within).is_ok();
        if is_acquired {
            self.bytes += bytes;
        }
        is_acquired
    }
}

impl Drop for CachedBytes {
    fn drop(&mut self) {
        self.memory.0.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A chart with a cache of its parsed templates. Can be shared between threads.
pub struct Prepared {
    pub(crate) chart: Chart,
    known: Mutex<Known>,
    /// Set when the rendering has everything it needs, which stops parsing ahead.
    enough: AtomicBool,
}

/// Cache key: the profile, which determines the functions; the address and length of the file's bytes, which the chart keeps alive;
/// and the template name, because one subchart may be used under several names.
type Key = (Profile, usize, usize, Str);

/// The content of a file, for lookups across files.
type Text = (Profile, Bytes);

/// The cache. Hashes are seeded, because charts may be hostile.
struct Known {
    files: HashMap<Key, Parsed>,
    /// For each text the first file whose trees can be shared: library charts are bundled in many charts.
    texts: HashMap<Text, Parsed>,
    cached: CachedBytes,
}

/// Texts parsed by one rendering. They determine what it is charged, so that the charge does not depend on the cache.
#[derive(Default)]
pub(crate) struct RenderedTexts(HashMap<Bytes, Parsed>);

/// Memory of a cache entry besides its trees.
const ENTRY_BYTES: usize = 192;

impl Prepared {
    /// A chart with an unbounded cache.
    pub fn new(chart: Chart) -> Self {
        Self::within(chart, &CacheMemory::new(usize::MAX))
    }

    /// A chart whose cache is limited by `memory`.
    pub fn within(chart: Chart, memory: &CacheMemory) -> Self {
        let known = Known { files: HashMap::default(), texts: HashMap::default(), cached: memory.share() };
        Self { chart, known: Mutex::new(known), enough: AtomicBool::new(false) }
    }

    pub fn chart(&self) -> &Chart {
        &self.chart
    }

    /// Bytes of cached trees.
    pub fn kept(&self) -> usize {
        self.known().cached.bytes()
    }

    /// Parses a file of this chart under its Helm name. The budget is charged as if nothing were cached.
    pub(crate) fn parse(
        &self,
        name: &Str,
        file: &File,
        functions: &Functions,
        (budget, texts): (&Budget<'_>, &mut RenderedTexts),
    ) -> Result<Parsed, ParseError> {
        let key = (functions.profile, file.data.as_ptr() as usize, file.data.len(), name.clone());
        let first = texts.0.get(&file.data);
        let kept = self.known().files.get(&key).cloned();
        // Trees that are not cached are shared within the rendering.
        let kept = kept.or_else(|| first.and_then(|first| first.renamed(name)));
        let parsed = match kept.or_else(|| self.known().same_text(&key, &file.data)) {
            Some(parsed) => {
                let cost = if first.is_some() { parsed.file.cost_if_shared() } else { parsed.file.cost() };
                cost.charge(budget).map_err(ParseError::Budget)?;
                parsed
            }
            None => read(name, &file.data, functions, budget)?,
        };
        self.keep(key, file, &parsed);
        if parsed.file.is_shareable() {
            texts.0.entry(file.data.clone()).or_insert_with(|| parsed.clone());
        }
        Ok(parsed)
    }

    /// Caches a parsed file, if memory allows.
    fn keep(&self, key: Key, file: &File, parsed: &Parsed) {
        let mut known = self.known();
        if known.files.contains_key(&key) {
            return;
        }
        let text = (key.0, file.data.clone());
        let is_shared = parsed.file.is_shareable() && known.texts.contains_key(&text);
        let cost = if is_shared { parsed.file.cost_if_shared() } else { parsed.file.cost() };
        let bytes = cost.kept.saturating_add(key.3.len()).saturating_add(ENTRY_BYTES);
        if !known.cached.grow(bytes) {
            return;
        }
        if parsed.file.is_shareable() {
            known.texts.entry(text).or_insert_with(|| parsed.clone());
        }
        known.files.insert(key, parsed.clone());
    }

    /// Whether parsing takes much longer than starting a thread.
    pub fn is_large(&self) -> bool {
        const LARGE: usize = 128 << 10;
        size(&self.chart) > LARGE
    }

    /// Stops parsing ahead: the rendering has everything it needs.
    pub(crate) fn enough(&self) {
        self.enough.store(true, Ordering::Relaxed);
    }

    /// Parses the files that a rendering on another thread will need, starting with those it needs last. Errors are ignored here; the
    /// rendering reports them.
    pub(crate) fn parse_ahead(&self, functions: &Functions) {
        let (budget, mut texts) = (Budget::default(), RenderedTexts::default());
        let mut charts = VecDeque::from([(self.chart.metadata.name.clone(), &self.chart)]);
        while let Some((path, chart)) = charts.pop_front() {
            for file in templates(chart) {
                if self.enough.load(Ordering::Relaxed) {
                    return;
                }
                let draw = (&budget, &mut texts);
                if let Err(ParseError::Budget(_)) =
                    self.parse(&template_name(&path, file), file, functions, draw)
                {
                    return;
                }
            }
            charts.extend(chart.dependencies.iter().map(|child| (full_path(&path, child), child)));
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Parsed {
    fn renamed(&self, name: &str) -> Option<Self> {
        Some(Self { file: self.file.renamed(name)?, keys: self.keys })
    }
}

impl Known {
    fn same_text(&self, key: &Key, data: &Bytes) -> Option<Parsed> {
        self.texts.get(&(key.0, data.clone()))?.renamed(&key.3)
    }
}

/// Total size of the templates in bytes.
fn size(chart: &Chart) -> usize {
    let own: usize = chart.templates.iter().map(|file| file.data.len()).sum();
    own + chart.dependencies.iter().map(size).sum::<usize>()
}

fn read(name: &str, data: &Bytes, functions: &Functions, budget: &Budget<'_>) -> Result<Parsed, ParseError> {
    let functions = Counting { functions, keys: Cell::new(0) };
    let file = parse::File::parse(name, data, &functions, budget)?;
    Ok(Parsed { file, keys: functions.keys.get() })
}

/// A function table that counts lookups of key-generating functions.
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
                .parse(
                    &"c/templates/a.yaml".into(),
                    &file,
                    &functions,
                    (&Budget::default(), &mut RenderedTexts::default()),
                )
                .unwrap();
            assert_eq!(parsed.keys, keys, "{text}");
        }
    }

    /// Parses files and returns the steps and bytes charged.
    fn charged(prepared: &Prepared, files: &[(&'static str, File)]) -> (u64, usize) {
        let functions = functions::table(Profile::Helm4);
        let (budget, mut texts) = (Budget::default(), RenderedTexts::default());
        for (name, file) in files {
            prepared.parse(&(*name).into(), file, &functions, (&budget, &mut texts)).unwrap();
        }
        (budget.used_steps(), budget.used_memory())
    }

    #[test]
    fn rendering_is_charged_the_same_whatever_is_cached() {
        let file = |text: &str| File { name: "templates/a.yaml".into(), data: text.to_owned().into() };
        let library = "{{ define \"a\" }}{{ .x }}{{ end }}".to_owned() + &"{{ .b }}".repeat(100);
        let itself = "{{ define \"two\" }}{{ end }}".to_owned() + &library;
        let files = [
            ("one", file(&library)),
            ("two", file(&library)),
            ("three", file(&itself)),
            ("two", file(&itself)),
            ("five", file("a: b")),
        ];
        let unbounded = Prepared::new(Chart::default());
        let first = charged(&unbounded, &files);
        assert!(unbounded.kept() > 0);
        // Everything from the cache, nothing from it, and a cache filled in another order.
        assert_eq!(charged(&unbounded, &files), first);
        let none = Prepared::within(Chart::default(), &CacheMemory::new(0));
        assert_eq!(charged(&none, &files), first);
        assert_eq!((charged(&none, &files), none.kept()), (first, 0));
        let reversed = Prepared::new(Chart::default());
        let backwards: Vec<_> = files.iter().rev().cloned().collect();
        charged(&reversed, &backwards);
        assert_eq!(charged(&reversed, &files), first);
    }

    #[test]
    fn kept_trees_are_weighed_and_bounded_over_all_charts() {
        let file =
            |n: usize| File { name: "a".into(), data: format!("{{{{ .b }}}}{n}").repeat(1_000).into() };
        let memory = CacheMemory::new(1 << 20);
        let charts: Vec<_> = (0..4).map(|_| Prepared::within(Chart::default(), &memory)).collect();
        for (n, chart) in charts.iter().enumerate() {
            for m in 0..4 {
                charged(chart, &[("a", file(4 * n + m))]);
            }
        }
        let kept: Vec<usize> = charts.iter().map(Prepared::kept).collect();
        assert_eq!(kept.iter().sum::<usize>(), memory.held());
        assert!(kept[0] > 100_000 && memory.held() <= 1 << 20, "{kept:?}");
        assert_eq!(kept[3], 0);
        drop(charts);
        assert_eq!(memory.held(), 0);
    }
}
