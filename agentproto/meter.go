package agentproto

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// errBudget ends a validation that takes too many steps. It is a panic, because the validator has no other way to stop.
var errBudget = errors.New("validation budget exceeded")

// A meter counts the steps of a validation.
//
// The sizes of schema and value do not bound the work of a validator: a few schemas that each apply another one twice at each
// level of a nested value are applied 2^depth times. So each application is charged before it happens. The charge includes what
// the validator does for a schema's parts before they charge for themselves.
type meter struct {
	left     int
	patterns int  // instructions of the patterns compiled so far
	checking bool // validating arguments; the schema is compiled
}

// charge takes steps from the budget. It panics when the budget is used up.
func (m *meter) charge(steps int) {
	if m.left -= steps; m.left < 0 {
		panic(errBudget)
	}
}

// checkDocument counts the values of a schema and refuses combinations whose cost cannot be known.
func checkDocument(raw jsontext.Value) *SchemaError {
	nodes, ids, dynamic := 0, 0, false
	pending := []jsontext.Value{raw}
	for len(pending) > 0 {
		value := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		if nodes++; nodes > maxSchemaNodes {
			return &SchemaError{Reason: fmt.Sprintf("has more than %d values", maxSchemaNodes)}
		}
		switch value.Kind() {
		case '[':
			pending = append(pending, elements(value)...)
		case '{':
			for name, member := range splitObject(value) {
				pending = append(pending, member)
				if member.Kind() != '"' {
					continue // a property of that name, not a keyword
				}
				switch name {
				case "$id", "id":
					// In draft 7 and before, a fragment names a location.
					if s := unquote(member); nodes > 1 && s != "" && s[0] != '#' {
						ids++
					}
				case "$dynamicRef", "$recursiveRef":
					dynamic = true
				}
			}
		}
	}
	if ids > 0 && dynamic {
		// The target of such a reference depends on the value, so its cost is not known beforehand.
		return &SchemaError{Reason: "has both a dynamic reference and an $id inside"}
	}
	return nil
}

// install makes all parts of a compiled schema charge the meter. It refuses the schema if its parts apply one another to one
// value too often. The validator checks a part's format before anything that takes time, so the charge is placed there.
func (m *meter) install(root *jsonschema.Schema) *SchemaError {
	expansions := map[*jsonschema.Schema]expansion{}
	seen := map[*jsonschema.Schema]bool{root: true}
	for pending := []*jsonschema.Schema{root}; len(pending) > 0; {
		s := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		if err := dropForeign(s); err != nil {
			return err
		}
		if err := expand(s, expansions, 1); err != nil {
			return err
		}
		for _, part := range append(sameValue(s), innerValues(s)...) {
			if !seen[part] {
				seen[part] = true
				pending = append(pending, part)
			}
		}
	}
	for s := range seen {
		if s.Bool == nil {
			m.meter(s)
		}
	}
	return nil
}

// An expansion counts what applying a schema to one value amounts to. It is zero while it is being computed.
type expansion struct {
	applications int // of schemas, including repeated ones
	chain        int // the longest chain of nested schemas
}

// expand computes the expansion of a schema. It goes no deeper than maxSchemaChain.
func expand(s *jsonschema.Schema, known map[*jsonschema.Schema]expansion, depth int) *SchemaError {
	if e, ok := known[s]; ok {
		if e.chain == 0 {
			return &SchemaError{Reason: "refers to itself without a member or element in between"}
		}
		return nil
	}
	if depth > maxSchemaChain {
		return &SchemaError{Reason: fmt.Sprintf("applies more than %d schemas to one value inside one another", maxSchemaChain)}
	}
	known[s] = expansion{}
	total := expansion{applications: 1, chain: 1}
	for _, part := range sameValue(s) {
		if err := expand(part, known, depth+1); err != nil {
			return err
		}
		total.applications += known[part].applications
		total.chain = max(total.chain, 1+known[part].chain)
		if total.applications > maxSchemaExpansion {
			return &SchemaError{Reason: fmt.Sprintf("applies more than %d schemas to one value", maxSchemaExpansion)}
		}
		if total.chain > maxSchemaChain {
			return &SchemaError{Reason: fmt.Sprintf("applies more than %d schemas to one value inside one another", maxSchemaChain)}
		}
	}
	known[s] = total
	return nil
}

// sameValue returns the subschemas that s applies to the same value as itself.
func sameValue(s *jsonschema.Schema) []*jsonschema.Schema {
	parts := []*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else}
	if s.DynamicRef != nil {
		parts = append(parts, s.DynamicRef.Ref)
	}
	parts = append(parts, s.AllOf...)
	parts = append(parts, s.AnyOf...)
	parts = append(parts, s.OneOf...)
	for _, part := range s.DependentSchemas {
		parts = append(parts, part)
	}
	for _, part := range s.Dependencies {
		if part, ok := part.(*jsonschema.Schema); ok {
			parts = append(parts, part)
		}
	}
	return withoutNil(parts)
}

// innerValues returns the subschemas that s applies to members, member names and elements.
func innerValues(s *jsonschema.Schema) []*jsonschema.Schema {
	parts := eachValue(s)
	for _, part := range s.Properties {
		parts = append(parts, part)
	}
	parts = append(parts, s.PrefixItems...)
	if items, ok := s.Items.([]*jsonschema.Schema); ok {
		parts = append(parts, items...)
	}
	return withoutNil(parts)
}

// eachValue returns the subschemas that s may apply to every member or element.
func eachValue(s *jsonschema.Schema) []*jsonschema.Schema {
	parts := []*jsonschema.Schema{s.PropertyNames, s.UnevaluatedProperties, s.UnevaluatedItems, s.Contains, s.Items2020}
	for _, part := range s.PatternProperties {
		parts = append(parts, part)
	}
	for _, part := range []any{s.AdditionalProperties, s.AdditionalItems, s.Items} {
		if part, ok := part.(*jsonschema.Schema); ok {
			parts = append(parts, part)
		}
	}
	return withoutNil(parts)
}

func withoutNil(parts []*jsonschema.Schema) []*jsonschema.Schema {
	n := 0
	for _, part := range parts {
		if part != nil {
			parts[n] = part
			n++
		}
	}
	return parts[:n]
}

// meter makes s charge for each value that it is applied to.
func (m *meter) meter(s *jsonschema.Schema) {
	always := 10 + len(s.Required) + len(s.Dependencies) + len(s.DependentRequired) + len(s.DependentSchemas)
	for _, part := range sameValue(s) {
		always += entrySteps(part)
	}
	each := 1
	for _, part := range eachValue(s) {
		each += entrySteps(part)
	}
	positional := []int{}
	for _, part := range s.PrefixItems {
		positional = append(positional, entrySteps(part))
	}
	if items, ok := s.Items.([]*jsonschema.Schema); ok {
		for _, part := range items {
			positional = append(positional, entrySteps(part))
		}
	}
	properties := map[string]int{}
	for name, part := range s.Properties {
		properties[name] = entrySteps(part)
	}
	unique := s.UniqueItems

	format := &jsonschema.Format{Validate: func(any) error { return nil }}
	if s.Format != nil {
		*format = *s.Format
	}
	validate := format.Validate
	format.Validate = func(value any) error {
		m.charge(always)
		switch value := value.(type) {
		case string:
			m.charge(len(value) / 8)
		case map[string]any:
			m.charge(each * len(value))
			for name := range value {
				m.charge(properties[name])
			}
		case []any:
			m.charge(each * len(value))
			for i := range min(len(value), len(positional)) {
				m.charge(positional[i])
			}
			if unique {
				m.charge(comparisonSteps(value) * min(len(value), 20))
			}
		}
		return validate(value)
	}
	s.Format = format
}

// entrySteps returns the steps that s takes before it charges: comparing the value with its enum and const.
func entrySteps(s *jsonschema.Schema) int {
	steps := 1
	if s.Enum != nil {
		steps += comparisonSteps(s.Enum.Values) / 4
	}
	if s.Const != nil {
		steps += comparisonSteps(*s.Const) / 4
	}
	return steps
}

// comparisonSteps returns the cost of one comparison with value, in quarter steps. Numbers are compared exactly, which is
// expensive.
func comparisonSteps(value any) int {
	switch value := value.(type) {
	case json.Number:
		return 16
	case string:
		return 1 + len(value)/64
	case []any:
		steps := 1
		for _, element := range value {
			steps += comparisonSteps(element)
		}
		return steps
	case map[string]any:
		steps := 1
		for name, member := range value {
			steps += 1 + len(name)/64 + comparisonSteps(member)
		}
		return steps
	}
	return 1
}
