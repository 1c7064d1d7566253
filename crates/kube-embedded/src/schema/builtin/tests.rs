//! Tests of the generated tables: facts of Kubernetes 1.36 that other modules rely on.

use super::*;
use crate::schema::types::{Field, ListMerge, Shape, Struct};

fn struct_of(name: &str) -> (TypeRef<'static>, &'static Struct) {
    let ty = types().by_name(name).unwrap_or_else(|| panic!("no type {name}"));
    let Shape::Struct(body) = ty.shape() else { panic!("{name} is no struct") };
    (ty, body)
}

fn field(of: &str, name: &str) -> (&'static Field, TypeRef<'static>) {
    let (ty, body) = struct_of(of);
    let field = body.field(name).unwrap_or_else(|| panic!("no field {of}.{name}"));
    (field, ty.with_id(field.ty))
}

fn core(name: &str) -> String {
    format!("io.k8s.api.core.v1.{name}")
}

fn all_structs() -> impl Iterator<Item = (TypeRef<'static>, &'static Struct)> {
    (0..u32::try_from(types().len()).unwrap()).map(|id| types().get(id)).filter_map(|ty| match ty.shape() {
        Shape::Struct(body) => Some((ty, body)),
        _ => None,
    })
}

#[test]
fn strategic_merge_and_apply_have_their_own_list_keys() {
    let map = |keys: &[&str]| ListMerge::Map(keys.iter().map(|&key| key.into()).collect());
    let conditions = |package: &str| format!("io.k8s.{package}");
    for (of, name, merge_key, merge) in [
        (core("Container"), "ports", Some("containerPort"), map(&["containerPort", "protocol"])),
        (core("ServiceSpec"), "ports", Some("port"), map(&["port", "protocol"])),
        (
            core("PodSpec"),
            "topologySpreadConstraints",
            Some("topologyKey"),
            map(&["topologyKey", "whenUnsatisfiable"]),
        ),
        (core("PodSpec"), "containers", Some("name"), map(&["name"])),
        (core("PodStatus"), "hostIPs", Some("ip"), ListMerge::Atomic),
        (conditions("api.batch.v1.JobStatus"), "conditions", Some("type"), ListMerge::Atomic),
        (core("NodeSpec"), "podCIDRs", None, ListMerge::Set),
        (core("ResourceRequirements"), "claims", None, map(&["name"])),
        (
            conditions("api.certificates.v1.CertificateSigningRequestStatus"),
            "conditions",
            None,
            map(&["type"]),
        ),
    ] {
        let (field, ty) = field(&of, name);
        let Shape::List(list) = ty.shape() else { panic!("{of}.{name} is no list") };
        assert_eq!((field.patch.merge_key.as_deref(), &list.merge), (merge_key, &merge), "{of}.{name}");
    }
    let (finalizers, _) = field("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "finalizers");
    assert!(finalizers.patch.merge && finalizers.patch.merge_key.is_none());
}

#[test]
fn retain_keys_is_set_on_four_fields() {
    let mut found: Vec<_> = all_structs()
        .flat_map(|(ty, body)| body.fields.iter().map(move |field| (ty, field)))
        .filter(|(_, field)| field.patch.retain_keys)
        .map(|(ty, field)| format!("{}.{}", ty.short_name(), field.name))
        .collect();
    found.sort();
    let known = [
        "DeploymentSpec.strategy",
        "PodSpec.resourceClaims",
        "PodSpec.volumes",
        "PodStatus.resourceClaimStatuses",
    ];
    assert_eq!(found, known);
}

#[test]
fn atomicity_of_structs_and_maps_can_be_overridden_by_fields() {
    for name in ["ObjectReference", "SecretKeySelector", "NodeSelector", "LocalObjectReference"] {
        assert!(struct_of(&core(name)).1.atomic, "{name}");
    }
    let atomic = |ty: TypeRef<'_>| match ty.shape() {
        Shape::Struct(body) => body.atomic,
        Shape::Map(map) => map.atomic,
        _ => panic!("{} is neither struct nor map", ty.name()),
    };
    assert!(atomic(field(&core("PodSpec"), "nodeSelector").1));
    assert!(atomic(field(&core("ServiceSpec"), "selector").1));
    assert!(!atomic(field("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "labels").1));

    let (_, claim) = field(&core("PersistentVolumeSpec"), "claimRef");
    assert_eq!((claim.short_name(), atomic(claim)), ("ObjectReference", false));
    assert!(struct_of(&core("ObjectReference")).1.atomic, "only the field is granular");
}

#[test]
fn fields_have_go_pointer_omitempty_and_field_number() {
    // name, pointer, omitempty, numbers
    for (of, name, pointer, omitempty, numbers) in [
        (core("Volume"), "configMap", true, true, vec![2, 19]),
        (core("Probe"), "exec", true, true, vec![1, 1]),
        (core("Pod"), "kind", false, true, vec![]),
        (core("Pod"), "metadata", false, false, vec![1]), // Go's omitempty does not apply to structs
        (core("Pod"), "status", false, false, vec![3]),
        (core("ContainerStatus"), "imageID", false, false, vec![7]),
        (core("ContainerPort"), "hostPort", false, true, vec![2]),
        (core("ContainerPort"), "containerPort", false, false, vec![3]),
        (core("ConfigMapKeySelector"), "name", false, true, vec![1, 1]),
        ("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta".into(), "creationTimestamp", false, true, vec![8]),
        ("io.k8s.api.apps.v1.DeploymentSpec".into(), "replicas", true, true, vec![1]),
    ] {
        let (field, _) = field(&of, name);
        assert_eq!(
            (field.pointer, field.omitempty, field.numbers.to_vec()),
            (pointer, omitempty, numbers),
            "{of}.{name}"
        );
    }
    assert!(field(&core("ContainerPort"), "containerPort").0.required);
    assert_eq!(field(&core("ContainerPort"), "protocol").0.default, Some("TCP".into()));
    assert_eq!(field(&core("ContainerPort"), "hostPort").0.default, None);
}

#[test]
fn special_types_have_own_shapes() {
    let shape = |of: &str, name| format!("{:?}", field(of, name).1.shape());
    let meta = "io.k8s.apimachinery.pkg.apis.meta.v1";
    let crd = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
    for (of, name, wanted) in [
        (format!("{meta}.ObjectMeta"), "deletionTimestamp", "Time"),
        (format!("{meta}.ManagedFieldsEntry"), "fieldsV1", "Any"),
        (core("Event"), "eventTime", "MicroTime"),
        (core("EmptyDirVolumeSource"), "sizeLimit", "Quantity"),
        (core("ServicePort"), "targetPort", "IntOrString"),
        ("io.k8s.api.apps.v1.ControllerRevision".into(), "data", "Any"),
        (crd.into(), "items", "Any"),
        (crd.into(), "default", "Any"),
        (crd.into(), "maximum", "Double"),
        ("io.k8s.api.admissionregistration.v1.WebhookClientConfig".into(), "caBundle", "Bytes"),
    ] {
        assert_eq!(shape(&of, name), wanted, "{of}.{name}");
    }
    let secret = field(&core("Secret"), "data").1;
    assert!(matches!(secret.child("key").map(TypeRef::shape), Some(Shape::Bytes)));
}

#[test]
fn fields_are_sorted_and_keys_of_lists_are_fields_of_their_elements() {
    for (ty, body) in all_structs() {
        assert!(body.fields.is_sorted_by(|a, b| a.name < b.name), "{}", ty.name());
        for field in &body.fields {
            let Shape::List(list) = ty.with_id(field.ty).shape() else { continue };
            let element = ty.with_id(list.element);
            let keys = if let ListMerge::Map(keys) = &list.merge { &keys[..] } else { &[] };
            for key in keys.iter().chain(&field.patch.merge_key) {
                assert!(element.field(key).is_some(), "{}.{}: key {key}", ty.name(), field.name);
            }
        }
    }
}

#[test]
fn types_exist_for_kinds_without_resource() {
    for (group, version, kind, name) in [
        ("autoscaling", "v1", "Scale", "io.k8s.api.autoscaling.v1.Scale"),
        ("policy", "v1", "Eviction", "io.k8s.api.policy.v1.Eviction"),
        ("authentication.k8s.io", "v1", "TokenRequest", "io.k8s.api.authentication.v1.TokenRequest"),
        ("", "v1", "Binding", "io.k8s.api.core.v1.Binding"),
        ("", "v1", "PodExecOptions", "io.k8s.api.core.v1.PodExecOptions"),
        ("", "v1", "Status", "io.k8s.apimachinery.pkg.apis.meta.v1.Status"),
        ("", "v1", "DeleteOptions", "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"),
        ("ships.example.com", "v3", "DeleteOptions", "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"),
        ("meta.k8s.io", "v1", "Table", "io.k8s.apimachinery.pkg.apis.meta.v1.Table"),
        ("apps", "v1", "DeploymentList", "io.k8s.api.apps.v1.DeploymentList"),
    ] {
        assert_eq!(type_of(group, version, kind).map(TypeRef::name), Some(name), "{group}/{version} {kind}");
    }
    assert!(type_of("apps", "v1", "Pod").is_none());
    assert!(type_of("apps", "v1beta1", "Deployment").is_none());
}

#[test]
fn every_resource_has_a_type_and_every_subresource_a_kind() {
    let rows = resources();
    let find = |group: &str, version: &str, name: &str| {
        rows.iter().find(|r| (&*r.group, &*r.version, &*r.name) == (group, version, name)).unwrap()
    };
    for row in &rows {
        assert_eq!(row.root_type().short_name(), &*row.kind);
        for sub in &row.subresources {
            let (group, version) =
                if sub.version.is_empty() { (&row.group, &row.version) } else { (&sub.group, &sub.version) };
            assert!(type_of(group, version, &sub.kind).is_some(), "{}/{}", row.name, sub.name);
        }
    }
    let deployments = find("apps", "v1", "deployments");
    assert_eq!(&*deployments.short_names, &["deploy".into()]);
    assert_eq!(&*deployments.categories, &["all".into()]);
    assert_eq!(&*deployments.subresource("scale").unwrap().group, "autoscaling");
    assert_eq!(&*deployments.storage, "deployments.apps");
    let pods = find("", "v1", "pods");
    let wide: Vec<_> = pods.columns.iter().filter(|c| c.priority > 0).map(|c| &*c.name).collect();
    assert_eq!(wide, ["IP", "Node", "Nominated Node", "Readiness Gates"]);
    assert!(!find("", "v1", "namespaces").has_verb("deletecollection"));
    for (a, b) in [
        (find("", "v1", "events"), find("events.k8s.io", "v1", "events")),
        (
            find("autoscaling", "v2", "horizontalpodautoscalers"),
            find("autoscaling", "v1", "horizontalpodautoscalers"),
        ),
    ] {
        assert_eq!((&a.storage, &a.storage_version), (&b.storage, &b.storage_version));
    }
}

#[test]
fn default_roles_are_json() {
    let objects: Vec<serde_json::Value> = serde_json::from_str(RBAC_DEFAULTS).unwrap();
    assert!(objects.iter().any(|o| o["kind"] == "ClusterRole" && o["metadata"]["name"] == "cluster-admin"));
    assert!(objects.iter().all(|o| o["metadata"]["uid"].is_null()));
}
