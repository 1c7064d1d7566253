package main

import (
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// openAPI is what we read of a published schema.
type openAPI struct {
	Description   string
	Properties    map[string]*openAPI
	Required      []string
	Default       json.RawMessage
	Enum          []string
	Items         *openAPI
	Values        *openAPI `json:"additionalProperties"`
	ListType      string   `json:"x-kubernetes-list-type"`
	ListMapKeys   []string `json:"x-kubernetes-list-map-keys"`
	MapType       string   `json:"x-kubernetes-map-type"`
	PatchStrategy string   `json:"x-kubernetes-patch-strategy"`
	PatchMergeKey string   `json:"x-kubernetes-patch-merge-key"`
}

// values are the only ones that a field, or an element of it, may have.
func (o *openAPI) values() []string {
	for _, inner := range []*openAPI{o.Items, o.Values} {
		if inner != nil {
			return inner.values()
		}
	}
	return o.Enum
}

type publishedTypes struct {
	served  map[schema.GroupVersion]bool
	schemas map[string]*openAPI
}

// readPublished reads the OpenAPI v3 documents of all stable group versions.
func readPublished(s *server) (*publishedTypes, error) {
	published := &publishedTypes{served: map[schema.GroupVersion]bool{}, schemas: map[string]*openAPI{}}
	var index struct{ Paths map[string]any }
	if err := s.getJSON("/openapi/v3", "application/json", &index); err != nil {
		return nil, err
	}
	for path := range index.Paths {
		parts := strings.Split(path, "/")
		var served schema.GroupVersion
		switch {
		case len(parts) == 2 && parts[0] == "api":
			served.Version = parts[1]
		case len(parts) == 3 && parts[0] == "apis" && stable(parts[2]):
			served.Group, served.Version = parts[1], parts[2]
		default:
			continue
		}
		published.served[served] = true
		var document struct {
			Components struct{ Schemas map[string]*openAPI }
		}
		if err := s.getJSON("/openapi/v3/"+path, "application/json", &document); err != nil {
			return nil, err
		}
		for name, schema := range document.Components.Schemas {
			published.schemas[name] = schema
		}
	}
	return published, nil
}
