package agentproto

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto/internal/ids"
)

// fuzz checks what is true of every decoder. It does not panic. What it accepts is valid
// for encoding/json too, can be encoded again, and then decodes to the same value.
func fuzz[M any](f *testing.F, prefix []string, decode func([]byte, Limits) (M, error)) {
	files, err := filepath.Glob("testdata/golden/*.json")
	if err != nil || len(files) == 0 {
		f.Fatalf("golden files: %v, %v", files, err)
	}
	for _, file := range files {
		for _, p := range prefix {
			if strings.HasPrefix(filepath.Base(file), p) {
				data, err := os.ReadFile(file)
				if err != nil {
					f.Fatal(err)
				}
				f.Add(data)
			}
		}
	}
	for _, s := range []string{`{}`, `[]`, "\ufeff{}", `{"a":1,"a":2}`, `{"id":"\ud800"}`, `{"x":1e400}`, `{"x":` + nested(70) + `}`, `{"type":"tool_result","group_id":null}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := decode(data, Limits{})
		if err != nil {
			if !reflect.ValueOf(&m).Elem().IsNil() {
				t.Fatalf("decode(%q) = %v together with the error %v", data, m, err)
			}
			if e, ok := err.(*MessageError); !ok || e.Status != 400 && e.Status != 413 || len(err.Error()) > 2000 || strings.ContainsFunc(e.Reason, ids.Unprintable) {
				t.Fatalf("decode(%q) = %#v", data, err)
			}
			return
		}
		var v any
		if err := json.Unmarshal(data, &v); err != nil {
			t.Fatalf("decode accepts %q, and encoding/json does not: %v", data, err)
		}
		again, err := Encode(m)
		if err != nil {
			t.Fatalf("decode accepts %q, and Encode refuses it: %v", data, err)
		}
		second, err := decode(again, Limits{Bytes: 8 << 20})
		if err != nil || !reflect.DeepEqual(m, second) {
			t.Fatalf("decode(%q) = %+v, but after Encode it is %+v, %v", data, m, second, err)
		}
		if third, err := Encode(second); err != nil || string(third) != string(again) {
			t.Fatalf("Encode(%q) = %q, but the second time %q, %v", data, again, third, err)
		}
	})
}

func FuzzDecodeCallback(f *testing.F) {
	fuzz(f, []string{"tool_result", "subscription_event", "oauth", "user_choice", "view_update"}, DecodeCallback)
}

func FuzzDecodeInvocation(f *testing.F) { fuzz(f, []string{"invocation"}, DecodeInvocation) }

func FuzzDecodeManifest(f *testing.F) { fuzz(f, []string{"manifest"}, DecodeManifest) }

func FuzzDecodeChoiceResponse(f *testing.F) {
	fuzz(f, []string{"choice_response"}, DecodeChoiceResponse)
}

func FuzzDecodeCloseThread(f *testing.F) { fuzz(f, []string{"close_thread"}, DecodeCloseThread) }

func FuzzDecodeCancelToolCall(f *testing.F) {
	fuzz(f, []string{"cancel_tool_call"}, DecodeCancelToolCall)
}

func FuzzDecodeMigrate(f *testing.F) { fuzz(f, []string{"migrate"}, DecodeMigrate) }

// FuzzSchema looks for schemas and arguments that panic or take too long.
func FuzzSchema(f *testing.F) {
	f.Add([]byte(`{"$defs":{"s":{"items":{"$ref":"#/$defs/s"},"contains":{"$ref":"#/$defs/s"}}},"properties":{"a":{"not":{"$ref":"#/$defs/s"}}}}`), []byte(`{"a":[[[1]]]}`))
	f.Add([]byte(`{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"type":"string","pattern":"^(a|b)+$","format":"uri"}},"dependencies":{"a":["b"]},"if":{},"then":false}`), []byte(`{"a":"b"}`))
	f.Add([]byte(`{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,"properties":{"a":{"$recursiveRef":"#"}},"unevaluatedProperties":false}`), []byte(`{"a":{"a":{}}}`))
	f.Add([]byte(`{"patternProperties":{"^x":{"uniqueItems":true,"enum":[[1],{"a":2.5}]}},"propertyNames":{"maxLength":3},"minProperties":1,"multipleOf":0.5}`), []byte(`{"xa":[1,1.0]}`))
	f.Fuzz(func(t *testing.T, schema, args []byte) {
		start := time.Now()
		defer func() {
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("%q with %q took %v", schema, args, took)
			}
		}()
		s, err := CompileSchema(schema)
		if err != nil {
			if _, ok := err.(*SchemaError); !ok || s != nil {
				t.Fatalf("CompileSchema(%q) = %v, %#v", schema, s, err)
			}
			return
		}
		err = s.Validate(args)
		if err == nil {
			return
		}
		if e, ok := err.(*ArgumentError); !ok || strings.ContainsFunc(e.Reason, ids.Unprintable) || strings.Contains(e.Reason, "cannot be checked") {
			t.Fatalf("Validate(%q) with %q = %#v", args, schema, err)
		}
	})
}
