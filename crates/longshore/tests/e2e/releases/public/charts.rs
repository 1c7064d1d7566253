//! The public charts, with their prerequisites and arguments.

/// A chart that becomes ready on a bare cluster whose pods run no containers.
pub struct PublicChart {
    pub id: &'static str,
    /// Whether the chart is in the suite's subset, not only in the full run.
    pub in_subset: bool,
    /// kubectl commands that create the prerequisites of the chart. `{name}` is the name of the release.
    pub setup: &'static [&'static str],
    /// Further arguments for `install` and `upgrade`: they fix random values, and disable objects that nothing here
    /// can make ready.
    pub values: &'static str,
    /// Further arguments for `upgrade`.
    pub change: &'static str,
}

const PLAIN: PublicChart =
    PublicChart { id: "", in_subset: false, setup: &[], values: "", change: "--set podAnnotations.step=two" };

const fn chart(id: &'static str) -> PublicChart {
    PublicChart { id, ..PLAIN }
}

impl PublicChart {
    const fn daily(self) -> Self {
        Self { in_subset: true, ..self }
    }

    const fn values(self, values: &'static str) -> Self {
        Self { values, ..self }
    }

    const fn change(self, change: &'static str) -> Self {
        Self { change, ..self }
    }

    const fn before(self, before: &'static [&'static str]) -> Self {
        Self { setup: before, ..self }
    }
}

/// Ordered by duration, longest first.
pub const CHARTS: &[PublicChart] = &[
    chart("elastic__kibana").daily().before(&[
        "create secret generic elasticsearch-master-certs --from-literal=ca.crt=text",
        "create secret generic elasticsearch-master-credentials --from-literal=username=elastic --from-literal=password=text",
        "create secret generic {name}-kibana-es-token --from-literal=token=text",
    ]),
    chart("prometheus-community__prometheus-operator-admission-webhook").change("--set replicas=2"),
    chart("jupyterhub__jupyterhub")
        .values("--set proxy.service.type=ClusterIP,proxy.secretToken=0011223344556677889900112233445500112233445566778899001122334455,hub.config.CryptKeeper.keys={0011223344556677889900112233445500112233445566778899001122334455},hub.cookieSecret=0011223344556677889900112233445500112233445566778899001122334455")
        .change("--set hub.annotations.step=two"),
    chart("fluxcd-community__flux2").change("--set helmController.annotations.step=two,imageReflectionController.create=false"),
    chart("argo__argo-events").change("--set controller.podAnnotations.step=two"),
    chart("argo__argocd-image-updater"),
    chart("bitnami__grafana-k6-operator").change("--set podAnnotations.step=two,networkPolicy.enabled=false"),
    chart("grafana__grafana-agent-operator"),
    chart("grafana__rollout-operator"),
    chart("sealed-secrets__sealed-secrets"),
    chart("strimzi__strimzi-kafka-operator").change("--set replicas=2"),
    chart("prometheus-community__prometheus").daily().change("--set server.podAnnotations.step=two,alertmanager.enabled=false"),
    chart("grafana__loki-distributed").change("--set gateway.replicas=2,gateway.maxUnavailable=1"),
    chart("grafana__loki-stack").change("--set promtail.enabled=false"),
    chart("hashicorp__vault").values("--set injector.enabled=false").change("--set server.annotations.step=two"),
    chart("fluent__fluent-bit").daily(),
    chart("minio__minio")
        .values("--set replicas=4,resources.requests.memory=1Gi,rootUser=root,rootPassword=password")
        .change("--set resources.requests.memory=2Gi"),
    chart("bitnami__kube-state-metrics").daily().change("--set podAnnotations.step=two,networkPolicy.enabled=false,service.type=NodePort"),
    chart("bitnami__postgresql")
        .daily()
        .values("--set auth.postgresPassword=password")
        .change("--set primary.podAnnotations.step=two,primary.networkPolicy.enabled=false"),
    chart("bitnami__redis").values("--set auth.password=password").change("--set replica.replicaCount=1"),
    chart("bitnami__mysql")
        .values("--set auth.rootPassword=password,auth.password=password")
        .change("--set primary.podAnnotations.step=two"),
    chart("bitnami__spark").change("--set worker.replicaCount=1,ingress.enabled=true"),
    chart("bitnami__zookeeper").change("--set replicaCount=2"),
    chart("bitnami__opensearch").change("--set coordinating.replicaCount=1"),
    chart("bitnami__prometheus").change("--set server.podAnnotations.step=two,alertmanager.enabled=false"),
    chart("bitnami__thanos").change("--set commonAnnotations.step=two"),
    chart("bitnami__cadvisor").change("--set podLabels.step=two"),
    chart("bitnami__external-dns").change("--set rbac.create=false"),
    chart("bitnami__haproxy").change("--set service.type=ClusterIP,configuration=other").values("--set service.type=ClusterIP"),
    chart("bitnami__kubernetes-event-exporter").change("--set serviceAccount.create=false"),
    chart("bitnami__logstash").change("--set ingress.enabled=true"),
    chart("bitnami__memcached").daily().change("--set architecture=high-availability,replicaCount=2,pdb.create=false"),
    chart("bitnami__node-exporter").change("--set hostNetwork=false"),
    chart("bitnami__phpmyadmin").change("--set ingress.enabled=true,replicaCount=2"),
    chart("bitnami__tensorflow-resnet").values("--set service.type=ClusterIP").change("--set replicaCount=2"),
    chart("elastic__apm-server"),
    chart("elastic__filebeat"),
    chart("elastic__logstash").change("--set replicas=2"),
    chart("elastic__metricbeat").change("--set deployment.enabled=false"),
    chart("fluent__fluentd-aggregator"),
    chart("grafana-community__tempo"),
    chart("grafana__fluent-bit"),
    chart("grafana__promtail"),
    chart("istio__cni"),
    chart("istio__ztunnel"),
    chart("open-telemetry__opentelemetry-ebpf").change("--set resources.requests.cpu=11m"),
    chart("prometheus-community__alertmanager").daily().change("--set ingress.enabled=true,replicaCount=2,podDisruptionBudget.maxUnavailable=1"),
    chart("prometheus-community__prom-label-proxy"),
    chart("prometheus-community__prometheus-blackbox-exporter").change("--set kind=DaemonSet"),
    chart("prometheus-community__prometheus-nginx-exporter"),
    chart("prometheus-community__prometheus-node-exporter"),
    chart("prometheus-community__prometheus-redis-exporter").change("--set replicaCount=2,rbac.create=false"),
    chart("prometheus-community__prometheus-sql-exporter").change("--set replicaCount=2"),
];

/// Accepted differences: part of the reported line, and the reason.
pub const ACCEPTED_DIFFERENCES: &[(&str, &str)] = &[];
