//! HTML pages for browsers: [`root`] at `/`, [`docs`] at `/docs`.
//!
//! Invariants: a page has no scripts and loads nothing, from this server or elsewhere; its Content-Security-Policy allows only its own style
//! sheet, by digest. All text is escaped.

pub mod docs;
mod example;
pub mod root;

use std::borrow::Cow;
use std::sync::LazyLock;

use axum::http::header::CONTENT_SECURITY_POLICY;
use axum::response::{Html, IntoResponse};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest as _, Sha256};

const STYLE: &str = "\
:root{color-scheme:light dark;--line:#8884;--soft:#8881;--dim:#777}\
body{font:16px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem}\
h1{margin-bottom:0}h2{margin-top:3rem;border-bottom:1px solid var(--line)}h3{margin-top:2rem}h4{margin:1rem 0 .25rem}\
code,pre{font:14px/1.45 ui-monospace,monospace}\
pre{background:var(--soft);padding:.75rem;overflow-x:auto;border-radius:4px}\
table{border-collapse:collapse;width:100%}\
th,td{text-align:left;vertical-align:top;padding:.3rem .75rem .3rem 0;border-bottom:1px solid var(--line)}\
details{border-bottom:1px solid var(--line);padding:.4rem 0}\
details[open]{padding-left:1rem}details[open]>summary{margin-left:-1rem}\
summary{cursor:pointer}summary b{display:inline-block;min-width:4.5rem;font:bold 14px/1.45 ui-monospace,monospace}\
.dim{color:var(--dim)}\
";

/// A complete page. `body` is HTML.
fn html_page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title><style>{STYLE}</style></head>\n\
         <body>\n{body}</body></html>\n",
        title = escape(title),
    )
}

/// Responds with a page from [`html_page`].
fn html_response(page: Cow<'static, str>) -> impl IntoResponse {
    static POLICY: LazyLock<String> = LazyLock::new(|| {
        let digest = BASE64_STANDARD.encode(Sha256::digest(STYLE));
        format!(
            "default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
    });
    ([(CONTENT_SECURITY_POLICY, POLICY.as_str())], Html(page))
}

/// Escapes text for HTML content and quoted attributes.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_covers_content_and_attributes() {
        assert_eq!(escape("<a href=\"x\">&'</a>"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;&lt;/a&gt;");
    }
}
