package agentproto

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto/internal/ids"
)

// TestCompileSchemaRefuses checks case D11: whatever a hostile schema asks for is refused or bounded.
func TestCompileSchemaRefuses(t *testing.T) {
	doubling := `{"$defs":{"d0":{}`
	for i := range 20 {
		doubling += fmt.Sprintf(`,"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i+1, i, i)
	}
	doubling += `},"$ref":"#/$defs/d20"}`
	chain := `{"$defs":{"d0":{}`
	for i := range 500 {
		chain += fmt.Sprintf(`,"d%d":{"$ref":"#/$defs/d%d"}`, i+1, i)
	}
	chain += `},"$ref":"#/$defs/d500"}`
	for _, test := range []struct{ name, schema, want string }{
		{"itself", `{"$ref":"#"}`, "refers to itself"},
		{"itself, draft 7", `{"$schema":"http://json-schema.org/draft-07/schema#","$ref":"#"}`, "refers to itself"},
		{"one another", `{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"properties":{"x":{"$ref":"#/$defs/a"}}}`, "refers to itself"},
		{"through allOf", `{"allOf":[{"not":{"$ref":"#"}}]}`, "refers to itself"},
		{"through dependentSchemas", `{"dependentSchemas":{"x":{"$ref":"#"}}}`, "refers to itself"},
		{"dynamic", `{"$dynamicAnchor":"a","$dynamicRef":"#a"}`, "refers to itself"},
		{"recursive", `{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,"$recursiveRef":"#"}`, "refers to itself"},
		{"dynamic and ids", `{"$defs":{"x":{"$id":"http://x/","$dynamicAnchor":"a"}},"properties":{"p":{"$dynamicRef":"#a"}},"$dynamicAnchor":"a"}`, "has both a dynamic reference and an $id inside"},
		{"2^20", doubling, "applies more than 10000 schemas to one value"},
		{"long chain", chain, "applies more than 128 schemas to one value inside one another"},
		{"file", `{"$ref":"file:///etc/passwd"}`, `refers to "file:///etc/passwd", and nothing is loaded`},
		{"http", `{"$ref":"http://169.254.169.254/x"}`, `refers to "http://169.254.169.254/x", and nothing is loaded`},
		{"relative", `{"$ref":"other.json"}`, "and nothing is loaded"},
		{"relative to an id", `{"$id":"http://x.example/a","$ref":"b"}`, `refers to "http://x.example/b", and nothing is loaded`},
		{"unknown $schema", `{"$schema":"https://x.example/schema"}`, "and nothing is loaded"},
		{"draft 3", `{"$schema":"http://json-schema.org/draft-03/schema#"}`, "and nothing is loaded"},
		{"$schema is the schema", `{"$schema":"mem:///schema"}`, "cannot be compiled"},
		{"dangling", `{"$ref":"#/$defs/x"}`, "cannot be compiled"},
		{"boolean", `true`, "is not a JSON object"},
		{"not JSON", `{`, "ends early"},
		{"duplicate", `{"type":"object","type":"string"}`, "is there twice"},
		{"wrong type", `{"properties":{"a":{"type":"objekt"}}}`, `does not fit its draft at "/properties/a/type"`},
		{"zero divisor", `{"multipleOf":0}`, `does not fit its draft at "/multipleOf"`},
		{"pattern", `{"pattern":"("}`, "pattern"},
		{"large pattern", `{"pattern":"` + strings.Repeat("x{1000}", 11) + `"}`, "pattern"},
		{"foreign patternProperties", `{"patternProperties":{"^(?!x)":false}}`, "has patternProperties that RE2 does not know"},
		{"deep", strings.Repeat(`{"not":`, 70) + `{}` + strings.Repeat(`}`, 70), "nests deeper than 64"},
		{"large", `{"description":"` + strings.Repeat("a", 70_000) + `"}`, "is larger than 65536 bytes"},
		{"many values", `{"enum":[` + strings.Repeat("1,", 2000) + `1]}`, "has more than 2000 values"},
		{"huge number", `{"maximum":1e1000000}`, "is a number out of range"},
	} {
		t.Run(test.name, func(t *testing.T) {
			start := time.Now()
			_, err := CompileSchema([]byte(test.schema))
			var serr *SchemaError
			if !errors.As(err, &serr) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("CompileSchema(%.100s) = %v, want %q", test.schema, err, test.want)
			}
			if took := time.Since(start); took > 2*time.Second {
				t.Errorf("CompileSchema(%.100s) took %v", test.schema, took)
			}
		})
	}
}

func TestSchemaValidate(t *testing.T) {
	const draft7 = `"$schema":"http://json-schema.org/draft-07/schema#"`
	for _, test := range []struct{ name, schema, args, want string }{
		{"fits", `{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`, `{"path":"/x"}`, ""},
		{"I04 missing", `{"type":"object","required":["b","a"]}`, `{}`, `agentproto: arguments: missing properties 'a', 'b'`},
		{"I04 type", `{"properties":{"a":{"items":{"type":"string"}}}}`, `{"a":["x",3]}`, `agentproto: argument "/a/1": got number, want string`},
		{"first in order", `{"properties":{"a":{"type":"string"},"b":{"type":"string"},"c":{"type":"string"}}}`, `{"c":1,"b":1,"a":1}`, `agentproto: argument "/a": got number, want string`},
		{"pointer", `{"properties":{"a/b~":{"const":1}}}`, `{"a/b~":2}`, `agentproto: argument "/a~1b~0": value must be 1`},
		{"additional", `{"additionalProperties":false}`, `{"y":1,"x":1}`, `agentproto: arguments: additional properties 'x', 'y' not allowed`},
		{"alternatives", `{"properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]}}}`, `{"a":1}`, `agentproto: argument "/a": fits none of the alternatives`},
		{"oneOf", `{"properties":{"a":{"oneOf":[{"type":"integer"},{"type":"number"}]}}}`, `{"a":1}`, `agentproto: argument "/a": fits more than one of the alternatives`},
		{"reference", `{"$defs":{"s":{"type":"string"}},"properties":{"a":{"$ref":"#/$defs/s"}}}`, `{"a":1}`, `agentproto: argument "/a": got number, want string`},
		{"tree", `{"properties":{"child":{"$ref":"#"}},"additionalProperties":false}`, `{"child":{"child":{"x":1}}}`, `agentproto: argument "/child/child": additional properties 'x' not allowed`},
		{"dynamic tree", `{"$dynamicAnchor":"n","properties":{"child":{"$dynamicRef":"#n"}},"unevaluatedProperties":false}`, `{"child":{"x":1}}`, `agentproto: argument "/child/x": false schema`},
		{"large integer", `{"properties":{"a":{"type":"integer","minimum":9007199254740993}}}`, `{"a":9007199254740992}`, `argument "/a"`},
		{"2.0 is an integer", `{"properties":{"a":{"type":"integer"}}}`, `{"a":2.0}`, ""},
		{"pattern", `{"properties":{"a":{"pattern":"^[a-z]+$"}}}`, `{"a":"X"}`, `agentproto: argument "/a": 'X' does not match pattern '^[a-z]+$'`},
		{"pattern that looks ahead", `{"properties":{"a":{"pattern":"^(?!x)(?=y)(?<!z)y$"}}}`, `{"a":"x"}`, ""},
		{"pattern with a back reference", `{"properties":{"a":{"pattern":"(a)\\1"}}}`, `{"a":"x"}`, ""},
		{"D12 items", `{` + draft7 + `,"properties":{"a":{"items":[{"type":"string"}],"additionalItems":false}}}`, `{"a":["x",1]}`, `argument "/a"`},
		{"D12 dependencies", `{` + draft7 + `,"dependencies":{"a":["b"]}}`, `{"a":1}`, `agentproto: arguments: `},
		{"D12 $ref alone", `{` + draft7 + `,"definitions":{"s":{"type":"string"}},"properties":{"a":{"$ref":"#/definitions/s","maxLength":1}}}`, `{"a":"xyz"}`, ""},
		{"D12 items in 2020-12", `{"properties":{"a":{"prefixItems":[{"type":"string"}],"items":false}}}`, `{"a":["x",1]}`, `argument "/a/1"`},
		{"draft 4", `{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"a":{"maximum":3,"exclusiveMaximum":true}}}`, `{"a":3}`, `argument "/a"`},
		{"draft 6", `{"$schema":"http://json-schema.org/draft-06/schema#","properties":{"a":{"const":3}}}`, `{"a":4}`, `argument "/a"`},
		{"draft 2019-09", `{"$schema":"https://json-schema.org/draft/2019-09/schema","dependentRequired":{"a":["b"]}}`, `{"a":4}`, `arguments`},
		{"format in draft 7", `{` + draft7 + `,"properties":{"a":{"format":"regex"}}}`, `{"a":"("}`, `argument "/a"`},
		{"property named $id", `{"properties":{"$id":{"type":"string"},"pattern":{"type":"string"},"$ref":{"type":"string"}}}`, `{"$id":"x","$ref":"#"}`, ""},
		{"schema of a schema", `{"properties":{"a":{"$ref":"https://json-schema.org/draft/2020-12/schema"}}}`, `{"a":{"type":"objekt"}}`, `argument "/a/type"`},
		{"arguments array", `{}`, `[]`, `agentproto: arguments: is not a JSON object`},
		{"arguments repeat", `{}`, `{"a":1,"a":1}`, `agentproto: argument "/a": is there twice`},
		{"words of others", `{"properties":{"a":{"enum":["\u001b[2J\u202e\n"]}}}`, `{"a":"b"}`, `argument "/a"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, err := CompileSchema([]byte(test.schema))
			if err != nil {
				t.Fatal(err)
			}
			for range 20 { // to reveal an error that depends on the order of a map
				err = s.Validate([]byte(test.args))
				if test.want == "" {
					if err != nil {
						t.Fatalf("Validate(%s) = %v, want none", test.args, err)
					}
					continue
				}
				if err == nil || !strings.HasPrefix(err.Error(), test.want) && !strings.HasPrefix(err.Error(), "agentproto: "+test.want) {
					t.Fatalf("Validate(%s) = %v, want %q", test.args, err, test.want)
				}
				if strings.ContainsFunc(err.Error(), ids.Unprintable) {
					t.Fatalf("Validate(%s) = %q, which cannot be printed", test.args, err)
				}
			}
		})
	}
}

// TestSchemaValidateIsBounded checks case D11 for small, well-founded schemas that would take very
// long to check.
func TestSchemaValidateIsBounded(t *testing.T) {
	deep := `{"a":` + strings.Repeat("[", 60) + `1` + strings.Repeat("]", 60) + `}`
	numbers := `{"a":[` + strings.TrimSuffix(strings.Repeat("1.5,", 60_000), ",") + `]}`
	enum := `{"properties":{"a":{"items":{"enum":[` + strings.TrimSuffix(strings.Repeat("2.5,", 1900), ",") + `]}}}}`
	long := `{"a":"` + strings.Repeat("a", 1<<20) + `"}`
	lengths := `{"properties":{"a":{"allOf":[` + strings.TrimSuffix(strings.Repeat(`{"minLength":1},`, 600), ",") + `]}}}`
	names := &strings.Builder{}
	for i := range 20_000 {
		fmt.Fprintf(names, `,"p%d":1`, i)
	}
	many := `{` + names.String()[1:] + `}`
	patterns := &strings.Builder{}
	for i := range 300 {
		fmt.Fprintf(patterns, `,"^q%d":{}`, i)
	}
	for _, test := range []struct{ name, schema, args string }{
		{"twice each element, in a not", `{"$defs":{"s":{"items":{"$ref":"#/$defs/s"},"contains":{"$ref":"#/$defs/s"},"type":"array"}},"properties":{"a":{"not":{"$ref":"#/$defs/s"}}}}`, deep},
		{"twice each element", `{"$defs":{"s":{"items":{"$ref":"#/$defs/s"},"contains":{"$ref":"#/$defs/s"},"minItems":2}},"properties":{"a":{"$ref":"#/$defs/s"}}}`, deep},
		{"alternatives", `{"$defs":{"s":{"anyOf":[{"items":{"$ref":"#/$defs/s"},"minItems":2},{"items":{"$ref":"#/$defs/s"},"maxItems":0}]}},"properties":{"a":{"$ref":"#/$defs/s"}}}`, deep},
		{"twice each element, draft 7", `{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"s":{"items":{"$ref":"#/definitions/s"},"contains":{"$ref":"#/definitions/s"},"minItems":2}},"properties":{"a":{"$ref":"#/definitions/s"}}}`, deep},
		{"many numbers against many", enum, numbers},
		{"long text, many times", lengths, long},
		{"slow pattern", `{"properties":{"a":{"pattern":"^(a?){900}b$"}}}`, long},
		{"many patterns", `{"patternProperties":{` + patterns.String()[1:] + `}}`, many},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, err := CompileSchema([]byte(test.schema))
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			err = s.Validate([]byte(test.args))
			took := time.Since(start)
			if err == nil || !strings.Contains(err.Error(), "takes too long") {
				t.Errorf("Validate = %v, want it to take too long", err)
			}
			if took > 5*time.Second {
				t.Errorf("Validate took %v", took)
			}
			t.Logf("refused after %v", took)
			if err := s.Validate([]byte(`{"a":[]}`)); err != nil && strings.Contains(err.Error(), "takes too long") {
				t.Errorf("Validate of something small afterwards = %v", err)
			}
		})
	}
}

// TestSchemaBudgetIsGenerous checks that large but honest arguments are within the budget.
func TestSchemaBudgetIsGenerous(t *testing.T) {
	rows := strings.TrimSuffix(strings.Repeat(`{"id":1,"name":"abc","zone":"Europe/Berlin"},`, 5_000), ",")
	zones := strings.Repeat(`"Europe/Berlin2",`, 400) + `"Europe/Berlin"`
	for _, test := range []struct{ name, schema, args string }{
		{"rows", `{"properties":{"rows":{"type":"array","items":{"type":"object","properties":{"id":{"type":"integer"},"name":{"type":"string","pattern":"^[a-z]{1,20}$"},"zone":{"enum":[` + zones + `]}},"required":["id"],"additionalProperties":false}}}}`, `{"rows":[` + rows + `]}`},
		{"base64", `{"properties":{"data":{"type":"string","pattern":"^[A-Za-z0-9+/]*={0,2}$"}}}`, `{"data":"` + strings.Repeat("QUJD", 1<<17) + `"}`},
		{"vector", `{"properties":{"v":{"type":"array","items":{"type":"number","minimum":-1}}}}`, `{"v":[` + strings.Repeat("0.123456,", 20_000) + `1]}`},
	} {
		s, err := CompileSchema([]byte(test.schema))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate([]byte(test.args)); err != nil {
			t.Errorf("%s: Validate = %v", test.name, err)
		}
	}
}

func TestSchemaConcurrently(t *testing.T) {
	s, err := CompileSchema([]byte(`{"properties":{"a":{"type":"string","pattern":"^x"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 100 {
				if err := s.Validate([]byte(`{"a":"x"}`)); err != nil {
					t.Error(err)
				}
				if err := s.Validate([]byte(fmt.Sprintf(`{"a":%d}`, i))); err == nil {
					t.Error("Validate of a number = nil")
				}
			}
		})
	}
	wg.Wait()
}
