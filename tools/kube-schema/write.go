package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const typesHeader = `# The types that the built-in kinds are made of. Written by tools/kube-schema; do not edit.
#
# package P           the names below are P.Name; a name with a dot is a whole one
# struct NAME [atomic] [kind=GROUP/VERSION,...]    kind=*: in every group version
# scalar NAME WORD    a named type that is no struct in JSON
# list NAME TYPE      a list that is a message of its own in protobuf, with the items in field 1
# FIELD NUMBERS TYPE [required] [pointer] [omitempty] [set | keys=A,B | atomic | granular]
#       [patch=STRATEGY[:KEY]] [default=JSON]
#       NUMBERS: protobuf, from the message down through embedded ones; - for none
#       TYPE: a word, a name, []TYPE, map:TYPE. A list is atomic unless it says otherwise, a map granular.
`

// writeTypes is the table of shapes.
func writeTypes(types map[string]*goType) string {
	var out strings.Builder
	out.WriteString(typesHeader)
	within := ""
	for _, name := range slices.Sorted(maps.Keys(types)) {
		t := types[name]
		at := strings.LastIndex(name, ".")
		if name[:at] != within {
			within = name[:at]
			fmt.Fprintf(&out, "package %s\n", within)
		}
		short := func(expression string) string {
			inner := expression[strings.LastIndexAny(expression, "]:")+1:]
			if rest, ok := strings.CutPrefix(inner, within+"."); ok && !strings.Contains(rest, ".") {
				return strings.TrimSuffix(expression, inner) + rest
			}
			return expression
		}
		switch {
		case t.scalar != "":
			fmt.Fprintf(&out, "scalar %s %s\n", name[at+1:], t.scalar)
		case t.items != "":
			fmt.Fprintf(&out, "list %s %s\n", name[at+1:], short(t.items))
		default:
			fmt.Fprintf(&out, "struct %s", name[at+1:])
			if t.published != nil && t.published.MapType == "atomic" {
				out.WriteString(" atomic")
			}
			if len(t.kinds) > 0 {
				out.WriteString(" kind=" + strings.Join(t.kinds, ","))
			}
			out.WriteString("\n")
			for _, field := range t.fields {
				fmt.Fprintf(&out, " %s %s %s%s\n", field.name, field.numbers, short(field.ty), flags(t, field))
			}
		}
	}
	return out.String()
}

func flags(t *goType, field goField) string {
	var words []string
	add := func(word string, wanted bool) {
		if wanted {
			words = append(words, word)
		}
	}
	add("required", t.published != nil && slices.Contains(t.published.Required, field.name))
	add("pointer", field.pointer)
	add("omitempty", field.omitEmpty)
	add(field.merges, field.merges != "")
	add("patch="+field.patch, field.patch != "")
	if t.published != nil {
		value := t.published.Properties[field.name].Default
		add("default="+string(value), !zero(value))
	}
	if len(words) == 0 {
		return ""
	}
	return " " + strings.Join(words, " ")
}

// zero says whether a published default is only Go's zero value, which is no default at all.
func zero(value json.RawMessage) bool {
	return slices.Contains([]string{"", "{}", `""`, "0", "false", "[]", "null"}, string(value))
}

const descriptionsHeader = `# What Kubernetes says about its types and fields, for kubectl explain. Written by tools/kube-schema; do not edit.
#
# TYPE TEXT
#  FIELD TEXT [VALUES]    as JSON; =: as at the field of that name before; VALUES: the only ones that there are
`

// writeDescriptions keeps what a field of the same name has had before (apiVersion, kind, metadata,
// conditions) as a reference to it.
func writeDescriptions(types map[string]*goType) string {
	var out strings.Builder
	out.WriteString(descriptionsHeader)
	before := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(types)) {
		published := types[name].published
		if published == nil {
			continue
		}
		fmt.Fprintf(&out, "%s %s\n", name, quoted(published.Description))
		for _, field := range slices.Sorted(maps.Keys(published.Properties)) {
			property := published.Properties[field]
			text := quoted(property.Description)
			if values := property.values(); values != nil {
				text += " " + quoted(values)
			}
			if before[field] == text {
				text = "="
			} else {
				before[field] = text
			}
			fmt.Fprintf(&out, " %s %s\n", field, text)
		}
	}
	return out.String()
}

func quoted(value any) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // strings always encode
	return strings.TrimSpace(out.String())
}
