package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sort"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// goType is one named type: what Go says of it, and what is published of it (nil when nothing is).
type goType struct {
	name      string // io.k8s.api.core.v1.PodSpec
	kinds     []string
	scalar    string // the word for a type that is no struct in JSON
	items     string // for a list that is a message of its own in protobuf
	fields    []goField
	published *openAPI
}

type goField struct {
	name      string
	numbers   string // protobuf: 3, or 1.3 below an embedded message, or - for none
	ty        string
	pointer   bool
	omitEmpty bool
	patch     string
	merges    string // how apply merges it, where that is not the default
}

// unknown stands where protobuf does not know a field.
const unknown = "-"

// Types whose JSON is not that of their Go struct.
var scalars = map[reflect.Type]string{
	reflect.TypeFor[metav1.Time]():                                "time",
	reflect.TypeFor[metav1.MicroTime]():                           "microtime",
	reflect.TypeFor[metav1.Duration]():                            "duration",
	reflect.TypeFor[metav1.FieldsV1]():                            "any",
	reflect.TypeFor[resource.Quantity]():                          "quantity",
	reflect.TypeFor[intstr.IntOrString]():                         "intorstring",
	reflect.TypeFor[runtime.RawExtension]():                       "any",
	reflect.TypeFor[apiextensions.JSON]():                         "any",
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrArray]():       "any",
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrBool]():        "any",
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrStringArray](): "any",
}

type collector struct {
	published map[string]*openAPI
	types     map[string]*goType
}

// collectTypes walks all kinds of the served group versions, and everything that they are made of.
func collectTypes(published *publishedTypes) (map[string]*goType, error) {
	for _, add := range []func(*runtime.Scheme) error{
		apiextensions.AddToScheme, apiregistration.AddToScheme, metav1.AddMetaToScheme,
	} {
		if err := add(scheme.Scheme); err != nil {
			return nil, err
		}
	}
	c := &collector{published: published.schemas, types: map[string]*goType{}}
	kinds := map[string][]string{}
	for gvk, t := range scheme.Scheme.AllKnownTypes() {
		if !published.served[gvk.GroupVersion()] && gvk.GroupVersion() != metav1.SchemeGroupVersion {
			continue
		}
		name, err := c.structure(t)
		if err != nil {
			return nil, err
		}
		if gvk.Kind != t.Name() {
			return nil, fmt.Errorf("the kind %s is called %s in Go", gvk, t.Name())
		}
		kinds[name] = append(kinds[name], gvk.GroupVersion().String())
	}
	for name, versions := range kinds {
		sort.Strings(versions)
		c.types[name].kinds = versions
		if slices.Contains(versions, "apps/v1") && strings.Contains(name, ".apimachinery.") {
			c.types[name].kinds = []string{"*"} // options and the like belong to every group
		}
	}
	return c.types, nil
}

// structure notes a struct type, if it is new, and gives its published name.
func (c *collector) structure(t reflect.Type) (string, error) {
	name := publishedName(t)
	if c.types[name] != nil {
		return name, nil
	}
	noted := &goType{name: name, published: c.published[name], scalar: scalars[t]}
	c.types[name] = noted
	if noted.scalar != "" {
		return name, nil
	}
	if _, custom := reflect.New(t).Interface().(json.Marshaler); custom && !isKind(t) {
		return "", fmt.Errorf("%s writes its own JSON: what is its shape?", name)
	}
	err := c.fields(noted, t, "")
	sort.Slice(noted.fields, func(i, j int) bool { return noted.fields[i].name < noted.fields[j].name })
	if err == nil {
		err = noted.check()
	}
	return name, err
}

// fields adds the fields of a struct, and those of structs embedded in it, below their field number.
func (c *collector) fields(into *goType, t reflect.Type, above string) error {
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		number := protobufNumber(field)
		if name == "-" || !field.IsExported() {
			continue
		}
		if name == "" {
			if !field.Anonymous && !strings.Contains(options, "inline") {
				return fmt.Errorf("%s.%s has no JSON name", into.name, field.Name)
			}
			below := above + number + "."
			if number == "" {
				below = unknown // TypeMeta: the envelope has it
			}
			if err := c.fields(into, deref(field.Type), below); err != nil {
				return err
			}
			continue
		}
		ty, err := c.expression(field.Type)
		if err != nil {
			return fmt.Errorf("%s.%s: %w", into.name, name, err)
		}
		if number == "" || above == unknown {
			number = unknown
		} else {
			number = above + number
		}
		patch, key := field.Tag.Get("patchStrategy"), field.Tag.Get("patchMergeKey")
		if key != "" {
			patch += ":" + key
		}
		into.fields = append(into.fields, goField{
			name:    name,
			numbers: number,
			ty:      ty,
			pointer: field.Type.Kind() == reflect.Pointer,
			// Go's omitempty says nothing about structs; omitzero does.
			omitEmpty: strings.Contains(options, "omitzero") ||
				strings.Contains(options, "omitempty") && field.Type.Kind() != reflect.Struct,
			patch: patch,
		})
	}
	return nil
}

// expression writes a Go type in the words of the table.
func (c *collector) expression(t reflect.Type) (string, error) {
	switch t.Kind() {
	case reflect.Pointer:
		return c.expression(t.Elem())
	case reflect.String:
		return "string", nil
	case reflect.Bool:
		return "bool", nil
	case reflect.Int32:
		return "int32", nil
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return "int64", nil
	case reflect.Float64:
		return "double", nil
	case reflect.Interface:
		return "any", nil
	case reflect.Struct:
		return c.structure(t)
	case reflect.Map:
		value, err := c.expression(t.Elem())
		return "map:" + value, err
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes", nil
		}
		element, err := c.expression(t.Elem())
		if _, message := reflect.New(t).Interface().(interface{ Marshal() ([]byte, error) }); message && err == nil {
			name := publishedName(t)
			c.types[name] = &goType{name: name, items: element}
			return name, nil
		}
		return "[]" + element, err
	}
	return "", fmt.Errorf("no word for the Go type %s", t)
}

// check holds the Go type against what is published of it, and takes over how apply merges its fields.
func (t *goType) check() error {
	if t.published == nil {
		return nil
	}
	if len(t.fields) != len(t.published.Properties) {
		return fmt.Errorf("%s has %d fields in Go and %d in OpenAPI", t.name, len(t.fields), len(t.published.Properties))
	}
	for i := range t.fields {
		field := &t.fields[i]
		property := t.published.Properties[field.name]
		if property == nil {
			return fmt.Errorf("%s.%s is not published", t.name, field.name)
		}
		patch := property.PatchStrategy
		if property.PatchMergeKey != "" {
			patch += ":" + property.PatchMergeKey
		}
		if patch != field.patch {
			return fmt.Errorf("%s.%s: patch strategy %q in Go, %q in OpenAPI", t.name, field.name, field.patch, patch)
		}
		switch {
		case property.ListType == "map":
			field.merges = "keys=" + strings.Join(property.ListMapKeys, ",")
		case property.ListType == "set":
			field.merges = "set"
		case property.MapType != "":
			field.merges = property.MapType
		}
	}
	return nil
}

func isKind(t reflect.Type) bool {
	_, kind := reflect.New(t).Interface().(schema.ObjectKind)
	return kind
}

// publishedName is the name of a type in OpenAPI: k8s.io/api/core/v1.Pod is io.k8s.api.core.v1.Pod.
func publishedName(t reflect.Type) string {
	domain, path, _ := strings.Cut(t.PkgPath(), "/")
	parts := strings.Split(domain, ".")
	slices.Reverse(parts)
	return strings.Join(parts, ".") + "." + strings.ReplaceAll(path, "/", ".") + "." + t.Name()
}

func protobufNumber(field reflect.StructField) string {
	parts := strings.Split(field.Tag.Get("protobuf"), ",")
	if len(parts) < 2 {
		return ""
	}
	return parts[1]
}

func deref(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}
