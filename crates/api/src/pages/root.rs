//! `GET /`: the version of this server and links to its documentation, for browsers.

use std::borrow::Cow;

use axum::extract::{Request, State};
use axum::http::header::{ACCEPT, VARY};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};

use super::{escape, html_page, html_response};
use crate::{Api, HttpSettings, middleware};

/// Answers clients that accept HTML. For others there is nothing at `/`.
pub async fn get(State(api): State<Api>, request: Request) -> Response {
    let mut response = if accepts_html(request.headers()) {
        html_response(Cow::Owned(render(&api.settings))).into_response()
    } else {
        middleware::not_found(request).await.into_response()
    };
    response.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
    response
}

/// Whether the client names HTML among the types that it accepts. Programs that accept everything do not.
fn accepts_html(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    let mut ranges = accepted.flat_map(|value| value.split(','));
    ranges.any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let is_html = parts.next().is_some_and(|media| media.eq_ignore_ascii_case("text/html"));
        is_html && !parts.any(|part| matches!(part, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
    })
}

fn render(settings: &HttpSettings) -> String {
    let administrator = if settings.embedded {
        "<p>On the server's own machine, the administrator of the cluster needs no account:</p>\n\
         <pre>longshore kubeconfig --data DATA_DIRECTORY &gt; kubeconfig</pre>\n"
    } else {
        ""
    };
    let body = format!(
        "<h1>Longshore</h1>\n<p class=\"dim\">version {version}</p>\n\
         <p>A multi-tenant platform that installs Helm charts on Kubernetes and monitors, changes and removes the releases.</p>\n\
         <h2>API</h2>\n<ul>\n\
         <li><a href=\"/docs\">/docs</a>: all requests, with schemas and examples</li>\n\
         <li><a href=\"/openapi.json\">/openapi.json</a>: the same as an OpenAPI 3.1 document</li>\n\
         <li><a href=\"/readyz\">/readyz</a>: whether every part of the server is ready</li>\n</ul>\n\
         <h2>Get a kubeconfig</h2>\n\
         <p>Sign in with the command line, where <code>SERVER</code> is the address of this page. The kubeconfig is valid for a day:</p>\n\
         <pre>longshore login SERVER --account ACCOUNT\nlongshore kubeconfig --user &gt; kubeconfig\n\
         kubectl --kubeconfig kubeconfig get pods</pre>\n\
         <p>Programs request it with an API token by <a href=\"/docs#kubeconfig.create\"><code>POST /api/longshore/v1/kubeconfig</code></a>.</p>\n\
         {administrator}",
        version = escape(settings.version),
    );
    html_page("Longshore", &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn html_is_for_clients_that_name_it() {
        for (accept, expected) in [
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", true),
            ("application/json, Text/HTML;q=0.1", true),
            ("*/*", false),
            ("application/json", false),
            ("text/html;q=0", false),
            ("text/htmlx", false),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(accepts_html(&headers), expected, "{accept}");
        }
        assert!(!accepts_html(&HeaderMap::new()));
    }
}
