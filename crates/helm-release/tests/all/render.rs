//! Rendering against a cluster, and its results in the record.

use governor::work::{WorkLimits, WorkPool};
use helm_release::record::Record;
use helm_release::render::{PreparedChart, PreparedChartCache, RenderRequest, Renderer};
use helm_template::profile::Profile;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams};
use kube_embedded::access::User;
use kube_embedded::cluster::Cluster;
use serde_json::{Value, json};

use crate::fixture::{chart, lookup_target, record, render_chart, values};
use crate::helm_cli::HELM_VARIABLES;
use crate::records::{RECORDED, recording};

/// Removes fields that cannot match a recording: times, and fields that Helm 3.22 took over from later versions.
fn without_times(text: &str) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(members) => {
                for key in ["modtime", "schemamodtime", "output_log_policies", "info", "last_run"] {
                    members.remove(key);
                }
                members.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let mut value = serde_json::from_str(text).unwrap();
    strip(&mut value);
    value
}

#[tokio::test(flavor = "multi_thread")]
async fn rendering_matches_records_of_helm() {
    let client = Cluster::in_memory().await.client(User::admin());
    for helm in HELM_VARIABLES {
        let profile = if helm == "LONGSHORE_HELM_4_3" { Profile::Helm4 } else { Profile::Helm3 };
        for name in RECORDED {
            let theirs = String::from_utf8(recording(helm, name)).unwrap();
            let release = name.split_once(".v").unwrap().0;
            let said = values(match name {
                "plain.v1" => "{}",
                "plain.v2" => "{text: bye, count: 4, word: open}",
                _ => "{child: {size: 5}}",
            });
            let mut what = RenderRequest::install(release, "default", profile);
            if name == "plain.v2" {
                what = RenderRequest::upgrade(release, "default", 2, profile);
            }
            let rendering = render_chart(&client, &chart(release, profile), &said, &what).await.unwrap();
            let ours = record(&what, &rendering, &said);
            assert_eq!(without_times(&ours.to_json().unwrap()), without_times(&theirs), "{helm} {name}");
            let theirs = Record::from_json(theirs.as_bytes()).unwrap();
            assert_eq!(ours.info.notes, theirs.info.notes, "{helm} {name}");
        }
    }
}

fn chart_with(template: &str) -> std::sync::Arc<PreparedChart> {
    let file = |name: &str, text: &str| helm_chart::File { name: name.into(), data: text.to_owned().into() };
    let mut plain = chart("umbrella", Profile::Helm4).chart().clone();
    plain.metadata.dependencies.clear();
    plain.dependencies.clear();
    plain.templates = vec![file("templates/a.yaml", template)];
    std::sync::Arc::new(PreparedChart::new(plain))
}

async fn text(client: &kube::Client, template: &str, may_look_up: bool) -> Result<String, String> {
    let what = RenderRequest {
        is_lookup_enabled: may_look_up,
        ..RenderRequest::install("r", "default", Profile::Helm4)
    };
    let done = render_chart(client, &chart_with(template), &values("{}"), &what).await;
    done.map(|rendering| rendering.manifest()).map_err(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn lookup_uses_the_permissions_of_the_caller() {
    let cluster = Cluster::in_memory().await;
    let client = cluster.client(User::admin());
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    for name in ["one", "two"] {
        let map = json!({"metadata": {"name": name, "labels": {"for": "test"}}, "data": {"n": name}});
        maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
    }
    let found = "a: {{ (lookup \"v1\" \"ConfigMap\" \"default\" \"one\").data.n }}";
    assert!(text(&client, found, true).await.unwrap().contains("a: one"));
    assert!(
        text(&client, "a: {{ lookup \"v1\" \"ConfigMap\" \"default\" \"one\" | len }}", false)
            .await
            .unwrap()
            .contains("a: 0")
    );
    let list = "{{ $l := lookup \"v1\" \"ConfigMap\" \"default\" \"\" }}a: {{ $l.kind }}{{ range $l.items }}/{{ .kind }}-{{ .metadata.name }}{{ end }}";
    let list = text(&client, list, true).await.unwrap();
    assert!(list.contains("a: ConfigMapList/") && list.contains("/ConfigMap-one/ConfigMap-two"), "{list}");
    // Missing object, unknown kind, unknown group.
    assert!(
        text(&client, "a: {{ lookup \"v1\" \"ConfigMap\" \"default\" \"none\" }}", true)
            .await
            .unwrap()
            .contains("a: map[]")
    );
    assert!(
        text(&client, "a: {{ lookup \"v1\" \"Sofa\" \"default\" \"none\" }}", true)
            .await
            .unwrap()
            .contains("a: map[]")
    );
    let unknown =
        text(&client, "a: {{ lookup \"sofa.io/v1\" \"Sofa\" \"default\" \"x\" }}", true).await.unwrap_err();
    assert!(
        unknown.contains("unable to get apiresource from unstructured: sofa.io/v1, Kind=Sofa: the server could not find the requested resource"),
        "{unknown}"
    );
    let nobody = cluster.client(User::named("nobody", &[]));
    let refused =
        text(&nobody, "a: {{ lookup \"v1\" \"Secret\" \"default\" \"\" }}", true).await.unwrap_err();
    assert!(
        refused.contains("secrets is forbidden: User \"nobody\" cannot list resource \"secrets\""),
        "{refused}"
    );
    // Integers stay integers.
    let whole = "a: {{ (lookup \"v1\" \"Service\" \"default\" \"kubernetes\").spec.ports | first | toJson }}";
    let whole = text(&client, whole, true).await.unwrap();
    assert!(whole.contains("\"port\":443"), "{whole}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lookup_of_a_hostile_name_makes_no_other_call() {
    let client = Cluster::in_memory().await.client(User::admin());
    for name in domain::names::hostile_names() {
        let name = serde_json::to_string(&name).unwrap();
        for arguments in [format!("\"default\" {name}"), format!("{name} \"x\""), format!("{name} \"\"")] {
            let asked = format!("a: {{{{ lookup \"v1\" \"ConfigMap\" {arguments} | len }}}}");
            let asked = text(&client, &asked, true);
            let refused =
                tokio::time::timeout(std::time::Duration::from_secs(20), asked).await.unwrap().unwrap_err();
            assert!(
                refused.contains("lookup of ConfigMap") && refused.contains("is not a valid name"),
                "{refused}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lookups_are_limited() {
    let client = Cluster::in_memory().await.client(User::admin());
    let asking = "{{ range until 1001 }}{{ $x := lookup \"v1\" \"ConfigMap\" \"default\" \"x\" }}{{ end }}";
    let refused = text(&client, asking, true).await.unwrap_err();
    assert!(refused.contains("the templates exceed 1000 lookups"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn capabilities_come_from_discovery() {
    let client = Cluster::in_memory().await.client(User::admin());
    let asked = "a: {{ .Capabilities.APIVersions.Has \"apps/v1/Deployment\" }} {{ .Capabilities.KubeVersion.Minor }} {{ .Capabilities.APIVersions.Has \"sofa.io/v1\" }}";
    let told = text(&client, asked, false).await.unwrap();
    assert!(told.contains("a: true 36 false"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rendering_does_not_block_the_runtime() {
    // A single-threaded runtime: only rendering has other threads.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::spawn_blocking(move || {
        runtime.block_on(async {
            let client = Cluster::in_memory().await.client(User::admin());
            let work = "{{ range until 20000 }}{{ $x := sha256sum (toString .) }}{{ end }}";
            let (ticks, done) = (std::cell::Cell::new(0_u32), text(&client, work, true));
            let ticking = async {
                loop {
                    ticks.set(ticks.get() + 1);
                    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                }
            };
            tokio::select! {
                () = ticking => unreachable!(),
                done = done => assert!(done.is_ok()),
            }
            assert!(ticks.get() > 5, "{}", ticks.get());
        });
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn lookup_frees_its_slot_while_waiting() {
    let client = Cluster::in_memory().await.client(User::admin());
    let fault = testkit::FaultInjector::healthy();
    let renderer = Renderer::new();
    let (here, there) = (lookup_target(&client).await, lookup_target(&fault.wrap(client.clone())).await);
    fault.set_link(testkit::fault::LinkState::Slow(std::time::Duration::from_secs(8)));
    let asking = chart_with("a: {{ lookup \"v1\" \"ConfigMap\" \"default\" \"x\" | len }}");
    let what = RenderRequest::install("r", "default", Profile::Helm4);
    let said = values("{}");
    // These are first in the queue.
    let waiting = (0..32).map(|_| renderer.render(&there, &asking, &said, &what));
    let late = renderer.render(&here, &asking, &said, &what);
    tokio::select! {
        biased;
        _ = futures::future::select_all(waiting.map(Box::pin)) => panic!("somebody was kept from rendering"),
        done = late => assert!(done.is_ok()),
    }
}

/// A template that renders for minutes in a debug build.
const SLOW_TEMPLATE: &str = "{{ range until 1000 }}{{ range until 1000 }}{{ range until 1000 }}{{ $x := sha256sum \"x\" }}{{ end }}{{ end }}{{ end }}";

async fn with_timeout<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(std::time::Duration::from_secs(30), future).await.expect(what)
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_rendering_stops_and_frees_its_slot() {
    let client = Cluster::in_memory().await.client(User::admin());
    let (renderer, here) = (Renderer::new(), lookup_target(&client).await);
    let (endless, said) = (chart_with(SLOW_TEMPLATE), values("{}"));
    let what = RenderRequest::install("r", "default", Profile::Helm4);
    let running = tokio::spawn({
        let renderer = renderer.clone();
        async move { renderer.render(&here, &endless, &said, &what).await.err().map(|error| error.kind()) }
    });
    let used = |count: usize| {
        let renderer = renderer.clone();
        async move {
            while renderer.pool().slots().used != count {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        }
    };
    with_timeout("the rendering begins", used(1)).await;
    running.abort();
    assert!(running.await.unwrap_err().is_cancelled());
    with_timeout("the rendering stops", used(0)).await;
    assert_eq!(renderer.pool().bytes().held, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn workspace_that_renders_without_end_keeps_no_other_waiting() {
    let client = Cluster::in_memory().await.client(User::admin());
    let renderer = Renderer::with_pool(WorkPool::new(&WorkLimits {
        slots: 2,
        slots_per_flow: 1,
        queue_per_flow: 5,
        ..helm_release::render::work_limits()
    }));
    let (endless, said) = (chart_with(SLOW_TEMPLATE), values("{}"));
    let quick = chart_with("a: 1");
    let here = lookup_target(&client).await;
    let of = |namespace: &str| RenderRequest::install("r", namespace, Profile::Helm4);
    let hostile: Vec<_> = (0..10)
        .map(|_| {
            let (renderer, here) = (renderer.clone(), here.clone());
            let (endless, said, what) = (endless.clone(), said.clone(), of("hostile"));
            tokio::spawn(async move { renderer.render(&here, &endless, &said, &what).await })
        })
        .collect();
    // One runs, five wait, four are rejected with a retriable error.
    with_timeout("some wait", async {
        while renderer.pool().slots().rejected < 4 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    let what = of("good");
    let good = with_timeout("others render", renderer.render(&here, &quick, &said, &what)).await;
    assert!(good.is_ok(), "{good:?}");
    let mut put_off = 0;
    for task in hostile {
        if task.is_finished() {
            let error = task.await.unwrap().unwrap_err();
            assert_eq!(error.kind(), domain::error::ErrorKind::Exhausted, "{error}");
            put_off += 1;
        } else {
            task.abort();
        }
    }
    assert_eq!(put_off, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_of_a_rendering_is_reserved_with_the_pool() {
    let client = Cluster::in_memory().await.client(User::admin());
    let limits =
        WorkLimits { bytes: 32 << 20, bytes_per_flow: 16 << 20, ..helm_release::render::work_limits() };
    let renderer = Renderer::with_pool(WorkPool::new(&limits));
    let (here, said) = (lookup_target(&client).await, values("{}"));
    let what = RenderRequest::install("r", "default", Profile::Helm4);
    let large = chart_with("{{ $x := repeat 20000000 \"x\" }}a: {{ len $x }}");
    let error = renderer.render(&here, &large, &said, &what).await.unwrap_err();
    assert_eq!(error.kind(), domain::error::ErrorKind::Exhausted, "{error}");
    assert!(error.to_string().contains("over its budget (limit 16777216 bytes)"), "{error}");
    let small = chart_with("{{ $x := repeat 2000000 \"x\" }}a: {{ len $x }}");
    assert!(renderer.render(&here, &small, &said, &what).await.is_ok());
    assert_eq!(renderer.pool().bytes().held, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn too_large_manifests_are_rejected() {
    let client = Cluster::in_memory().await.client(User::admin());
    let (renderer, here, said) = (Renderer::new(), lookup_target(&client).await, values("{}"));
    let what = RenderRequest::install("r", "default", Profile::Helm4);
    for (count, text, limit) in [(17_000_000, "x", "limit 16777216"), (2_100_000, "1,", "limit 2000000")] {
        let template =
            format!("kind: ConfigMap\nmetadata: {{name: a}}\nlist: [{{{{ repeat {count} \"{text}\" }}}}]\n");
        let error = renderer.render(&here, &chart_with(&template), &said, &what).await.unwrap_err();
        let message = error.to_string();
        assert!(message.starts_with("chart ") && message.contains(limit), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn releases_of_a_chart_share_its_record_text() {
    let client = Cluster::in_memory().await.client(User::admin());
    let umbrella = chart("umbrella", Profile::Helm4);
    let text = async |said: &str| {
        let what = RenderRequest::install("r", "default", Profile::Helm4);
        let rendering = render_chart(&client, &umbrella, &values(said), &what).await.unwrap();
        // Equal addresses show that the text is shared.
        rendering.chart.text().unwrap().as_ptr() as usize
    };
    let first = text("{}").await;
    assert_eq!(text("{own: 2}").await, first);
    assert_ne!(text("{other: {enabled: true}}").await, first);
    assert_eq!(text("{}").await, first);
}

#[test]
fn chart_cache_evicts_least_recently_used() {
    let one = || chart("plain", Profile::Helm4).chart().clone();
    let size: usize = one().raw.iter().map(|file| file.data.len()).sum();
    let charts = PreparedChartCache::new(2 * size);
    let first = charts.insert("a", one());
    assert!(std::sync::Arc::ptr_eq(&first, &charts.insert("a", one())));
    charts.insert("b", one());
    assert!(charts.get("a").is_some());
    charts.insert("c", one());
    assert!(charts.get("a").is_some() && charts.get("b").is_none() && charts.get("c").is_some());
    // At least one chart stays cached, whatever its size.
    let charts = PreparedChartCache::new(0);
    charts.insert("a", one());
    assert!(charts.get("a").is_some());
}
