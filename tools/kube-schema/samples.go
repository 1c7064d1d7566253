package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

// samples are objects that together need everything the protobuf decoder knows: embedded messages,
// pointers to zeros, always-written zeros, maps, bytes, negative numbers and each special type.
var samples = []string{
	`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"sh.helm.release.v1.a.v1","namespace":"n","labels":{"name":"a","owner":"helm"}},
	  "data":{"release":"SDRzSUFBQUE=","empty":""},"immutable":false,"type":"helm.sh/release.v1"}`,
	`{"apiVersion":"v1","kind":"DeleteOptions","gracePeriodSeconds":0,"orphanDependents":false,"preconditions":{"uid":"u-1"},"dryRun":["All"]}`,
	`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"r","uid":"u","controller":true}],
	  "creationTimestamp":"2026-11-15T10:00:00Z","managedFields":[{"manager":"m","operation":"Apply","fieldsV1":{"f:spec":{}}}]},
	  "spec":{"volumes":[{"name":"v","configMap":{"name":"c","defaultMode":420}},{"name":"w","emptyDir":{"sizeLimit":"1Gi"}}],
	  "containers":[{"name":"c","image":"i","command":["sh","-c","true"],"ports":[{"containerPort":80}],
	  "env":[{"name":"E","valueFrom":{"secretKeyRef":{"name":"s","key":"k","optional":false}}}],
	  "resources":{"requests":{"cpu":"100m","memory":"1536Mi"}},
	  "livenessProbe":{"httpGet":{"path":"/","port":"web"},"initialDelaySeconds":3},"readinessProbe":{"tcpSocket":{"port":-1}}}],
	  "tolerations":[{"operator":"Exists","tolerationSeconds":-5}],"nodeSelector":{"a":"b"}},
	  "status":{"startTime":null,"containerStatuses":[{"name":"c","restartCount":0,"ready":false,"image":"","imageID":""}]}}`,
	`{"apiVersion":"v1","kind":"Event","metadata":{"name":"e"},"involvedObject":{"kind":"Pod"},"eventTime":"2026-11-15T10:00:00.123456Z","lastTimestamp":"2026-11-15T10:00:01Z","series":{"count":2}}`,
	`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"replicas":0,"selector":{"matchLabels":{"a":"b"}},"strategy":{"rollingUpdate":{"maxSurge":"25%","maxUnavailable":0}},"template":{}}}`,
	`{"apiVersion":"networking.k8s.io/v1","kind":"Ingress","metadata":{"name":"i"},"spec":{"rules":[{"host":"h","http":{"paths":[{"path":"/","pathType":"Prefix","backend":{"service":{"name":"s","port":{"number":80}}}}]}}]}}`,
	`{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{"user":"u","groups":["g"],"extra":{"k":["a","b"]},"resourceAttributes":{"verb":"get","resource":"pods"}}}`,
	`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration","metadata":{"name":"w"},"webhooks":[{"name":"a.b.c","clientConfig":{"url":"https://x","caBundle":"AAE="},
	  "rules":[{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["pods"],"scope":"*"}],"sideEffects":"None","admissionReviewVersions":["v1"]}]}`,
	`{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"r"},"data":{"spec":{"x":[1,2.5,null]}},"revision":3}`,
	`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"ships.x.dev"},"spec":{"group":"x.dev","scope":"Namespaced","names":{"plural":"ships","kind":"Ship"},
	  "versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"a":{"type":"array","items":{"type":"integer","maximum":7,"minimum":0.5}},
	  "b":{"type":"object","additionalProperties":false},"c":{"type":"object","additionalProperties":{"type":"string","default":"x","enum":["x",1]}}}}}}]}}`,
}

// writeSamples gives each sample as a protobuf body in hex and, below it, as the JSON that Go writes.
func writeSamples() (string, error) {
	var out strings.Builder
	out.WriteString("# Bodies for the tests of the protobuf decoder. Written by tools/kube-schema; do not edit.\n")
	decoder := serializer.NewCodecFactory(scheme.Scheme).UniversalDeserializer()
	encoder := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	for _, sample := range samples {
		object, _, err := decoder.Decode([]byte(sample), nil, nil)
		if err != nil {
			return "", err
		}
		written, err := json.Marshal(object)
		if err != nil {
			return "", err
		}
		var body bytes.Buffer
		if err := encoder.Encode(object, &body); err != nil {
			return "", err
		}
		out.WriteString(hex.EncodeToString(body.Bytes()) + "\n" + string(written) + "\n")
	}
	return out.String(), nil
}
