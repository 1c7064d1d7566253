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
use helm_template::functions::DEFAULT_KEY_FUNCTIONS;
use helm_template::parse::{self, FunctionResolver, ParseError};
use helm_template::profile::Profile;
use helm_template::value::Str;

use crate::scope::{full_path, template_name, templates};

/// A parsed template file.
#[derive(Clone)]
pub(crate) struct ParsedTemplate {
    pub file: parse::TemplateFile,
    /// The number of calls in the file that generate a key.
    pub key_calls: usize,
}

/// Memory budget of caches that charts keep between renderings, such as parsed templates. Cheap to clone; clones share the budget.
/// Data that does not fit is not cached and recomputed each time.
#[derive(Clone)]
pub struct CacheBudget(Arc<CacheUsage>);

/// Limit and usage of a cache budget.
struct CacheUsage {
    limit: usize,
    bytes: AtomicUsize,
}

/// Bytes acquired from a [`CacheBudget`]; returned on drop.
pub struct CacheReservation {
    memory: CacheBudget,
    bytes: usize,
}

impl CacheBudget {
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(CacheUsage { limit, bytes: AtomicUsize::new(0) }))
    }

    /// The total of acquired bytes.
    pub fn used_bytes(&self) -> usize {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// An empty share of this memory.
    pub fn reservation(&self) -> CacheReservation {
        CacheReservation { memory: self.clone(), bytes: 0 }
    }
}

impl CacheReservation {
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Acquires `bytes` more. Returns false if the budget does not allow it.
    pub fn grow(&mut self, bytes: usize) -> bool {
        let CacheUsage { limit, bytes: all } = &*self.memory.0;
        let within = |held: usize| held.checked_add(bytes).filter(|held| held <= limit);
        let is_acquired = all.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within).is_ok();
        if is_acquired {
            self.bytes += bytes;
        }
        is_acquired
    }
}

impl Drop for CacheReservation {
    fn drop(&mut self) {
        self.memory.0.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A chart with a cache of its parsed templates. Can be shared between threads.
pub struct ParsedChart {
    pub(crate) chart: Chart,
    cache: Mutex<TemplateCache>,
    /// Set when the rendering has everything it needs, which stops parsing ahead.
    is_complete: AtomicBool,
}

/// Cache key: the profile, which determines the functions; the address and length of the file's bytes, which the chart keeps alive;
/// and the template name, because one subchart may be used under several names.
type FileKey = (Profile, usize, usize, Str);

/// The content of a file, for lookups across files.
type TextKey = (Profile, Bytes);

/// The cache. Hashes are seeded, because charts may be hostile.
struct TemplateCache {
    files: HashMap<FileKey, ParsedTemplate>,
    /// For each text the first file whose trees can be shared: library charts are bundled in many charts.
    texts: HashMap<TextKey, ParsedTemplate>,
    reservation: CacheReservation,
}

/// Texts parsed by one rendering. They determine its charge, so that the charge does not depend on the cache.
#[derive(Default)]
pub(crate) struct RenderedTexts(HashMap<Bytes, ParsedTemplate>);

/// Memory of a cache entry besides its trees.
const ENTRY_BYTES: usize = 192;

impl ParsedChart {
    /// A chart with an unbounded cache.
    pub fn new(chart: Chart) -> Self {
        Self::with_cache_budget(chart, &CacheBudget::new(usize::MAX))
    }

    /// A chart whose cache is limited by `memory`.
    pub fn with_cache_budget(chart: Chart, memory: &CacheBudget) -> Self {
        let known = TemplateCache {
            files: HashMap::default(),
            texts: HashMap::default(),
            reservation: memory.reservation(),
        };
        Self { chart, cache: Mutex::new(known), is_complete: AtomicBool::new(false) }
    }

    pub fn chart(&self) -> &Chart {
        &self.chart
    }

    /// Bytes of cached trees.
    pub fn cached_bytes(&self) -> usize {
        self.cache().reservation.bytes()
    }

    /// Parses a file of this chart under its Helm name. The budget is charged as if nothing were cached.
    pub(crate) fn parse(
        &self,
        name: &Str,
        file: &File,
        functions: &Functions,
        (budget, texts): (&Budget<'_>, &mut RenderedTexts),
    ) -> Result<ParsedTemplate, ParseError> {
        let key = (functions.profile, file.data.as_ptr() as usize, file.data.len(), name.clone());
        let first = texts.0.get(&file.data);
        let kept = self.cache().files.get(&key).cloned();
        // Trees that are not cached are shared within the rendering.
        let kept = kept.or_else(|| first.and_then(|first| first.renamed(name)));
        let parsed = match kept.or_else(|| self.cache().find_same_text(&key, &file.data)) {
            Some(parsed) => {
                let cost = if first.is_some() { parsed.file.cost_if_shared() } else { parsed.file.cost() };
                cost.charge(budget).map_err(ParseError::Budget)?;
                parsed
            }
            None => parse_file(name, &file.data, functions, budget)?,
        };
        self.insert(key, file, &parsed);
        if parsed.file.is_shareable() {
            texts.0.entry(file.data.clone()).or_insert_with(|| parsed.clone());
        }
        Ok(parsed)
    }

    /// Caches a parsed file, if memory allows.
    fn insert(&self, key: FileKey, file: &File, parsed: &ParsedTemplate) {
        let mut known = self.cache();
        if known.files.contains_key(&key) {
            return;
        }
        let text = (key.0, file.data.clone());
        let is_shared = parsed.file.is_shareable() && known.texts.contains_key(&text);
        let cost = if is_shared { parsed.file.cost_if_shared() } else { parsed.file.cost() };
        let bytes = cost.tree_bytes.saturating_add(key.3.len()).saturating_add(ENTRY_BYTES);
        if !known.reservation.grow(bytes) {
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
        templates_size(&self.chart) > LARGE
    }

    /// Stops parsing ahead: the rendering has everything it needs.
    pub(crate) fn stop_parse_ahead(&self) {
        self.is_complete.store(true, Ordering::Relaxed);
    }

    /// Parses the files that a rendering on another thread will need, starting with those it needs last. Errors are ignored here; the
    /// rendering reports them.
    pub(crate) fn parse_ahead(&self, functions: &Functions) {
        let (budget, mut texts) = (Budget::default(), RenderedTexts::default());
        let mut charts = VecDeque::from([(self.chart.metadata.name.clone(), &self.chart)]);
        while let Some((path, chart)) = charts.pop_front() {
            for file in templates(chart) {
                if self.is_complete.load(Ordering::Relaxed) {
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

    fn cache(&self) -> MutexGuard<'_, TemplateCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ParsedTemplate {
    fn renamed(&self, name: &str) -> Option<Self> {
        Some(Self { file: self.file.renamed(name)?, key_calls: self.key_calls })
    }
}

impl TemplateCache {
    fn find_same_text(&self, key: &FileKey, data: &Bytes) -> Option<ParsedTemplate> {
        self.texts.get(&(key.0, data.clone()))?.renamed(&key.3)
    }
}

/// Total size of the templates in bytes.
fn templates_size(chart: &Chart) -> usize {
    let own: usize = chart.templates.iter().map(|file| file.data.len()).sum();
    own + chart.dependencies.iter().map(templates_size).sum::<usize>()
}

fn parse_file(
    name: &str,
    data: &Bytes,
    functions: &Functions,
    budget: &Budget<'_>,
) -> Result<ParsedTemplate, ParseError> {
    let functions = KeyCallCounter { functions, key_calls: Cell::new(0) };
    let file = parse::TemplateFile::parse(name, data, &functions, budget)?;
    Ok(ParsedTemplate { file, key_calls: functions.key_calls.get() })
}

/// A function table that counts lookups of key-generating functions.
struct KeyCallCounter<'f> {
    functions: &'f Functions,
    key_calls: Cell<usize>,
}

impl FunctionResolver for KeyCallCounter<'_> {
    fn find(&self, name: &str) -> Option<(u32, &'static str)> {
        if DEFAULT_KEY_FUNCTIONS.contains(&name) {
            self.key_calls.set(self.key_calls.get() + 1);
        }
        self.functions.find(name)
    }
}

#[cfg(test)]
mod tests {
    use helm_template::functions;

    use super::*;

    #[test]
    fn parse_counts_key_generating_calls() {
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
            let parsed = ParsedChart::new(Chart::default())
                .parse(
                    &"c/templates/a.yaml".into(),
                    &file,
                    &functions,
                    (&Budget::default(), &mut RenderedTexts::default()),
                )
                .unwrap();
            assert_eq!(parsed.key_calls, keys, "{text}");
        }
    }

    /// Parses files and returns the steps and bytes charged.
    fn parse_and_measure(prepared: &ParsedChart, files: &[(&'static str, File)]) -> (u64, usize) {
        let functions = functions::table(Profile::Helm4);
        let (budget, mut texts) = (Budget::default(), RenderedTexts::default());
        for (name, file) in files {
            prepared.parse(&(*name).into(), file, &functions, (&budget, &mut texts)).unwrap();
        }
        (budget.used_steps(), budget.used_memory())
    }

    #[test]
    fn parse_charge_does_not_depend_on_cache() {
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
        let unbounded = ParsedChart::new(Chart::default());
        let first = parse_and_measure(&unbounded, &files);
        assert!(unbounded.cached_bytes() > 0);
        // Everything from the cache, nothing from it, and a cache filled in another order.
        assert_eq!(parse_and_measure(&unbounded, &files), first);
        let none = ParsedChart::with_cache_budget(Chart::default(), &CacheBudget::new(0));
        assert_eq!(parse_and_measure(&none, &files), first);
        assert_eq!((parse_and_measure(&none, &files), none.cached_bytes()), (first, 0));
        let reversed = ParsedChart::new(Chart::default());
        let backwards: Vec<_> = files.iter().rev().cloned().collect();
        parse_and_measure(&reversed, &backwards);
        assert_eq!(parse_and_measure(&reversed, &files), first);
    }

    #[test]
    fn cached_trees_are_limited_across_charts() {
        let file =
            |n: usize| File { name: "a".into(), data: format!("{{{{ .b }}}}{n}").repeat(1_000).into() };
        let memory = CacheBudget::new(1 << 20);
        let charts: Vec<_> =
            (0..4).map(|_| ParsedChart::with_cache_budget(Chart::default(), &memory)).collect();
        for (n, chart) in charts.iter().enumerate() {
            for m in 0..4 {
                parse_and_measure(chart, &[("a", file(4 * n + m))]);
            }
        }
        let kept: Vec<usize> = charts.iter().map(ParsedChart::cached_bytes).collect();
        assert_eq!(kept.iter().sum::<usize>(), memory.used_bytes());
        assert!(kept[0] > 100_000 && memory.used_bytes() <= 1 << 20, "{kept:?}");
        assert_eq!(kept[3], 0);
        drop(charts);
        assert_eq!(memory.used_bytes(), 0);
    }
}
