use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::Whose;
use crate::node::Node;
use crate::pod::Pod;
use crate::stage::{ALL, Stage};
use crate::words::Words;

fn pod(namespace: &str, name: &str) -> Arc<Pod> {
    let told = json!({"metadata": {"name": name, "namespace": namespace}});
    Arc::new(Pod::of(serde_json::from_value(told).unwrap(), &Words::default()))
}

fn node(name: &str) -> Arc<Node> {
    Arc::new(Node::of(
        &serde_json::from_value(json!({"metadata": {"name": name}})).unwrap(),
        &Words::default(),
    ))
}

/// All rows, page by page; `between` is done after each page.
fn walk(limit: usize, see: impl Fn(Page<'_>) -> Part<String>, between: impl Fn(usize)) -> Vec<String> {
    let (mut seen, mut after, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let (rows, rest) = see(Page { after: Some(after.as_str()).filter(|it| !it.is_empty()), limit });
        assert!(rows.len() <= limit);
        seen.extend(rows);
        if rest.is_empty() {
            return seen;
        }
        pages += 1;
        between(pages);
        after = rest;
    }
}

#[tokio::test]
async fn page_by_page_everything_is_seen_once() {
    let stage = Stage::new().await;
    let names = ["c".to_owned(), "a".to_owned(), "absent".to_owned()];
    let pods = ["a/x", "a/y", "b/a", "b/x", "b/z", "c/a"];
    {
        let mut state = stage.fleet.0.state.write();
        for pod_name in pods {
            let (namespace, name) = pod_name.split_once('/').unwrap();
            state.put_pod(pod(namespace, name));
        }
        ["n1", "n2", "n3"].iter().for_each(|name| state.put_node(&node(name)));
    }
    let of_pods = |whose| {
        let look = stage.fleet.look(whose);
        move |page: Page<'_>| {
            let (rows, rest) = look.pods_page(page);
            (rows.into_iter().map(|row| format!("{}/{}", row.namespace, row.name)).collect(), rest)
        }
    };
    for limit in 1..8 {
        assert_eq!(walk(limit, of_pods(ALL), |_| {}), pods, "{limit}");
        let some = Whose { tenant: None, namespaces: Namespaces::Of(&names) };
        assert_eq!(walk(limit, of_pods(some), |_| {}), ["a/x", "a/y", "c/a"], "{limit}");
        let of_nodes = |page: Page<'_>| {
            let (rows, rest) = stage.fleet.look(ALL).nodes_page(page);
            (rows.into_iter().map(|row| row.name).collect(), rest)
        };
        assert_eq!(walk(limit, of_nodes, |_| {}), ["n1", "n2", "n3"], "{limit}");
    }
    // The place where a page ended may be gone.
    let gone = |pages| {
        if pages == 1 {
            stage.fleet.0.state.write().drop_pod("a", "y");
        }
    };
    assert_eq!(walk(2, of_pods(ALL), gone), pods);
    // A place that never was is a place all the same.
    let (rows, _) = stage.fleet.look(ALL).pods_page(Page { after: Some("bb"), limit: usize::MAX });
    assert_eq!(rows.len(), 1);
}
