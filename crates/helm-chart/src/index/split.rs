//! Cuts an index into its entries by the indentation of lines.
//!
//! An index in another layout than Helm's usually differs little: other quotes, comments, indented items. Its entries
//! can still be recognised by their first lines and parsed one by one, so that no tree of the whole index exists. A
//! wrong cut leaves a piece that the parser rejects (an open quote, an unknown anchor); the text is then parsed as a
//! whole.

use std::ops::Range;

pub(super) struct IndexSections<'a> {
    /// The text without the entries.
    pub header: String,
    pub charts: Vec<(&'a str, Vec<Range<usize>>)>,
}

/// Returns `None` if the text has another layout.
pub(super) fn split_entries(text: &[u8]) -> Option<IndexSections<'_>> {
    let text = std::str::from_utf8(text).ok()?;
    let mut cut =
        EntrySplitter { header: String::new(), charts: Vec::new(), is_in_entries: false, columns: None };
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        cut.line(line, at)?;
        at += line.len();
        if cut.is_in_entries
            && let Some((_, items)) = cut.charts.last_mut()
            && let Some(item) = items.last_mut()
        {
            item.end = at;
        }
    }
    Some(IndexSections { header: cut.header, charts: cut.charts })
}

struct EntrySplitter<'a> {
    header: String,
    charts: Vec<(&'a str, Vec<Range<usize>>)>,
    /// Between `entries:` and the next key.
    is_in_entries: bool,
    /// Columns of chart names and of their items.
    columns: Option<(usize, Option<usize>)>,
}

impl<'a> EntrySplitter<'a> {
    fn line(&mut self, line: &'a str, at: usize) -> Option<()> {
        let content = line.trim_start_matches(' ');
        let column = line.len() - content.len();
        if content.trim_end().is_empty() || content.starts_with('#') {
            return Some(());
        }
        if column == 0 && !content.starts_with("- ") {
            let (key, value) = content.split_once(':')?;
            if !key.bytes().all(|b| b.is_ascii_alphanumeric()) {
                return None;
            }
            self.is_in_entries = key == "entries" && value.trim_end().is_empty();
            if self.is_in_entries {
                // A duplicate key: the parser reports it.
                return self.charts.is_empty().then_some(());
            }
        }
        if !self.is_in_entries {
            self.header.push_str(line);
            return Some(());
        }
        let (names, items) = *self.columns.get_or_insert((column, None));
        let item = content.starts_with("- ");
        if column == names && !item {
            let name = content.trim_end().strip_suffix(':')?;
            let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
            if !name.bytes().all(plain) || !super::scan::is_certainly_string(name) {
                return None;
            }
            self.charts.push((name, Vec::new()));
            self.columns = Some((names, None));
            return Some(());
        }
        let (_, found) = self.charts.last_mut()?;
        let items = match items {
            Some(items) => items,
            None if item && column >= names => column,
            None => return None,
        };
        self.columns = Some((names, Some(items)));
        if column == items && item {
            found.push(at..at);
        }
        (column > items || column == items && item).then_some(())
    }
}
