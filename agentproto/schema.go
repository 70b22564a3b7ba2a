package agentproto

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/millrace/millrace/internal/plain"
)

// The limits of a schema. They are far above what tools need, and low enough to keep hostile schemas cheap.
const (
	maxSchemaBytes     = 64 << 10
	maxSchemaNodes     = 2000    // values in the schema
	maxSchemaChain     = 128     // schemas applied to one value inside one another
	maxSchemaExpansion = 10_000  // schemas applied to one value, repetitions included
	maxPatternSize     = 10_000  // instructions of all patterns
	validationBudget   = 500_000 // steps of one validation
	validationPerByte  = 4       // additional steps for each byte of the arguments
)

// A Schema checks the arguments of a tool. It is safe for concurrent use.
type Schema struct {
	// A compiled schema counts the steps of one validation at a time, so each concurrent validation needs its own copy.
	compiled sync.Pool
}

// CompileSchema compiles a JSON schema of draft 4, 6, 7, 2019-09 or 2020-12. Without a $schema it is 2020-12. The schema is
// untrusted:
//
//   - It is an object of at most 64 KiB and 2,000 values, 64 deep.
//   - Nothing is loaded. A reference must lead into the schema itself or into one of the drafts; any other one is refused, and so
//     is an unknown $schema.
//   - A reference that leads back to itself without a member or element in between is refused, and so are more than 10,000
//     applications of schemas to one value or chains of more than 128.
//   - Dynamic references are refused in a schema that has a second $id.
//   - Patterns are RE2, which does not backtrack. A pattern of ECMAScript that RE2 does not support, such as a lookahead, is not
//     checked; as a name in patternProperties it is refused.
//
// The error is a *[SchemaError].
func CompileSchema(raw jsontext.Value) (*Schema, error) {
	s, err := compileSchema(raw)
	if err != nil {
		return nil, err // not err itself: a nil *SchemaError would be an error that is not nil
	}
	return s, nil
}

func compileSchema(raw jsontext.Value) (*Schema, *SchemaError) {
	f := &failure{message: "schema"}
	if f.scan(raw, Limits{Bytes: maxSchemaBytes, Members: 2 * maxSchemaNodes}.orDefaults()); f.err != nil {
		return nil, &SchemaError{Reason: f.err.Reason + atPointer(f.err.Member)}
	}
	raw = raw.Clone() // raw is compiled again later and must not change
	if err := checkDocument(raw); err != nil {
		return nil, err
	}
	first, err := compile(raw)
	if err != nil {
		return nil, err
	}
	s := &Schema{}
	s.compiled.New = func() any {
		again, _ := compile(raw) // it compiled before
		return again
	}
	s.compiled.Put(first)
	return s, nil
}

// atPointer returns " at" and a JSON pointer, or nothing for "".
func atPointer(pointer string) string {
	if pointer == "" {
		return ""
	}
	return fmt.Sprintf(" at %q", pointer)
}

// A compiledSchema is one copy of a schema with the meter that its parts charge.
type compiledSchema struct {
	root  *jsonschema.Schema
	meter *meter
}

// compile compiles a document that was already checked.
func compile(raw jsontext.Value) (c *compiledSchema, refused *SchemaError) {
	defer func() {
		// The compiler is third-party code and the schema is hostile.
		if r := recover(); r != nil {
			c, refused = nil, &SchemaError{Reason: "cannot be compiled"}
		}
	}()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, &SchemaError{Reason: "is not valid JSON"}
	}
	m := new(meter)
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(noLoader{})
	compiler.UseRegexpEngine(m.compilePattern)
	if err := compiler.AddResource(location, doc); err != nil {
		return nil, schemaError(err)
	}
	root, err := compiler.Compile(location)
	if err != nil {
		return nil, schemaError(err)
	}
	if err := m.install(root); err != nil {
		return nil, err
	}
	m.checking = true
	return &compiledSchema{root, m}, nil
}

// location is the pretended location of a schema. It gives references into other documents no meaning of their own, least of all
// as the name of a file.
const location = "mem:///schema"

// noLoader refuses every reference to another document.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) { return nil, errNoLoader }

var errNoLoader = errors.New("other documents are not loaded")

// schemaError translates an error of the compiler.
func schemaError(err error) *SchemaError {
	var (
		load    *jsonschema.LoadURLError
		pattern *jsonschema.InvalidRegexError
		invalid *jsonschema.SchemaValidationError
		reasons *jsonschema.ValidationError
	)
	switch {
	case errors.As(err, &load):
		return &SchemaError{Reason: fmt.Sprintf("refers to %q, and nothing is loaded", clip(load.URL, 128))}
	case errors.As(err, &pattern):
		return &SchemaError{Reason: fmt.Sprintf("has the unusable pattern %q: %s", clip(pattern.Regex, 64), oneLine(pattern.Err.Error()))}
	case errors.As(err, &invalid) && errors.As(invalid.Err, &reasons):
		e := argumentError(reasons)
		return &SchemaError{Reason: "does not fit its draft" + atPointer(e.Argument) + ": " + e.Reason}
	}
	return &SchemaError{Reason: "cannot be compiled: " + oneLine(strings.ReplaceAll(err.Error(), location, ""))}
}

// Validate checks the arguments of a call. The error is an *[ArgumentError] that
// names the JSON pointer of the first argument that does not fit.
//
// A validation may take 500,000 steps, plus 4 for each byte of args. One application of a schema to a value takes about ten
// steps. If the schema needs more steps, as hostile ones do, the arguments are refused.
func (s *Schema) Validate(args jsontext.Value) (err error) {
	f := &failure{message: "arguments"}
	// The invocation, which the arguments are a member of, counts as one level.
	if f.scan(args, Limits{Bytes: int64(len(args)) + 1, Depth: defaultDepth - 1}.orDefaults()); f.err != nil {
		return &ArgumentError{f.err.Member, f.err.Reason}
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(args))
	if err != nil {
		return &ArgumentError{Reason: "not valid JSON"}
	}
	c := s.compiled.Get().(*compiledSchema)
	defer s.compiled.Put(c)
	defer func() {
		if r := recover(); r != nil {
			if r == errBudget {
				err = &ArgumentError{Reason: "checking them against the schema takes too long"}
				return
			}
			err = &ArgumentError{Reason: "cannot be checked against the schema"}
		}
	}()
	c.meter.left = validationBudget + validationPerByte*len(args)
	err = c.root.Validate(value)
	var reasons *jsonschema.ValidationError
	if errors.As(err, &reasons) {
		return argumentError(reasons)
	}
	return nil
}

// argumentError picks one reason: of the innermost ones that are not alternatives, the first by location and then by text. The
// validator's own order is that of Go maps.
func argumentError(e *jsonschema.ValidationError) *ArgumentError {
	var first *ArgumentError
	var visit func(e *jsonschema.ValidationError)
	visit = func(e *jsonschema.ValidationError) {
		switch e.ErrorKind.(type) {
		case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
			for _, cause := range e.Causes {
				visit(cause)
			}
			return
		}
		reason := &ArgumentError{jsonPointer(e.InstanceLocation), reasonOf(e)}
		if first == nil || strings.Compare(reason.Argument+"\x00"+reason.Reason, first.Argument+"\x00"+first.Reason) < 0 {
			first = reason
		}
	}
	visit(e)
	if first == nil {
		return &ArgumentError{Reason: "do not fit the schema"}
	}
	return first
}

// reasonOf returns the reason without the location and without nested reasons.
func reasonOf(e *jsonschema.ValidationError) string {
	switch k := e.ErrorKind.(type) {
	case *kind.AnyOf:
		return "fits none of the alternatives"
	case *kind.OneOf:
		if len(k.Subschemas) > 0 {
			return "fits more than one of the alternatives"
		}
		return "fits none of the alternatives"
	case *kind.Required:
		k = &kind.Required{Missing: slices.Sorted(slices.Values(k.Missing))}
		e = &jsonschema.ValidationError{ErrorKind: k}
	case *kind.AdditionalProperties:
		k = &kind.AdditionalProperties{Properties: slices.Sorted(slices.Values(k.Properties))}
		e = &jsonschema.ValidationError{ErrorKind: k}
	}
	leaf := &jsonschema.ValidationError{ErrorKind: e.ErrorKind}
	return oneLine(strings.TrimPrefix(leaf.Error(), "at '': "))
}

// jsonPointer returns the JSON pointer of a path.
func jsonPointer(path []string) string {
	var b strings.Builder
	for _, name := range path {
		b.WriteString((&object{}).pointer(name))
	}
	return clip(b.String(), 256)
}

// oneLine makes untrusted text fit into one line of a log.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if plain.Hidden(r) {
			return ' '
		}
		return r
	}, clip(s, 300))
	return strings.Join(strings.Fields(s), " ")
}
