package agentproto

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// steps returns the number of steps that checking arguments takes.
func steps(t *testing.T, schema, args string) int {
	t.Helper()
	c, refused := compile(jsontext.Value(schema))
	if refused != nil {
		t.Fatalf("%s: %v", schema, refused)
	}
	const budget = 1 << 20
	c.meter.left = budget
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(args))
	if err != nil {
		t.Fatal(err)
	}
	c.root.Validate(value)
	return budget - c.meter.left
}

// TestSteps checks the cost of schemas. It fails if a step is free, so that a small schema could take long, or if a step is
// charged without being made.
func TestSteps(t *testing.T) {
	for _, x := range []struct {
		schema, args string
		want         int
	}{
		{`{"type":"object"}`, `{}`, 10},
		{`{"required":["a","b"]}`, `{}`, 12},
		{`{"pattern":"(?=a)"}`, `"aaaa"`, 10}, // an unsupported pattern, so nothing is checked
		{`{"pattern":"a"}`, `"aaaa"`, 16},
	} {
		if got := steps(t, x.schema, x.args); got != x.want {
			t.Errorf("%s of %s takes %d steps, want %d", x.schema, x.args, got, x.want)
		}
	}
}

// TestComparisonSteps checks the cost of comparing a value, which depends on its size.
func TestComparisonSteps(t *testing.T) {
	a := func(n int) string { return strings.Repeat("a", n) }
	for _, x := range []struct {
		value any
		want  int
	}{
		{nil, 1}, {true, 1}, {a(63), 1}, {a(64), 2}, {[]any{}, 1}, {[]any{nil, a(128)}, 5},
		{map[string]any{}, 1}, {map[string]any{a(63): nil}, 3}, {map[string]any{a(64): nil}, 4}, {map[string]any{"a": []any{nil}}, 4},
	} {
		if got := comparisonSteps(x.value); got != x.want {
			t.Errorf("%v takes %d steps, want %d", x.value, got, x.want)
		}
	}
}

// TestBudget uses up a budget. It fails if the budget ends a step early or late.
func TestBudget(t *testing.T) {
	ended := func(m *meter, n int) (yes bool) {
		defer func() { yes = recover() == errBudget }()
		m.charge(n)
		return false
	}
	m := &meter{left: 3}
	if ended(m, 2) || ended(m, 1) || !ended(m, 1) {
		t.Errorf("three steps of three, and one more: %d are left", m.left)
	}
	// For the format regex, the validator compiles a pattern that is an argument.
	c, _ := compile(jsontext.Value(`{}`))
	c.meter.left = 16
	if _, err := c.meter.compilePattern("aa"); err != nil || c.meter.left != 0 {
		t.Errorf("a pattern among the arguments: %v, %d steps are left, want none", err, c.meter.left)
	}
}

// TestNoAlternative fails if the error for a value that fits no alternative says that it fits several.
func TestNoAlternative(t *testing.T) {
	for schema, want := range map[string]string{
		`{"oneOf":[{"type":"string"},{"type":"array"}]}`: "fits none of the alternatives",
		`{"oneOf":[{"type":"object"},{}]}`:               "fits more than one of the alternatives",
	} {
		s, err := CompileSchema(jsontext.Value(schema))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(jsontext.Value(`{}`)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want that it %s", schema, err, want)
		}
	}
}
