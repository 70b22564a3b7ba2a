package agentproto

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestDecodeManifest(t *testing.T) {
	tool := `{"name":"read","description":"d","inputSchema":{"type":"object"}}`
	manifest := func(tools string) string {
		return `{"name":"files","endpoint":"http://t.example/rap","tools":[` + tools + `]}`
	}
	read := Tool{Name: "read", Description: "d", InputSchema: []byte(`{"type":"object"}`)}
	for _, test := range []struct {
		name, in string
		want     *Manifest
		err      string
	}{
		{"D01 minimal", manifest(tool), &Manifest{Name: "files", Endpoint: "http://t.example/rap", Tools: []Tool{read}}, ""},
		{"D01 full", `{"needsMigration":true,"name":"files","description":"x","endpoint":"http://t.example/rap","version":2,"tools":[
			{"name":"read","description":"d","inputSchema":{"type":"object"},"displayScript":"loop {}",
			"annotations":{"requiresAuth":"github","readOnly":true,"destructive":true,"idempotent":true,"longRunning":true,"x-cost":[1]}}]}`,
			&Manifest{Name: "files", Description: "x", Endpoint: "http://t.example/rap", NeedsMigration: true, Tools: []Tool{
				{Name: "read", Description: "d", InputSchema: []byte(`{"type":"object"}`), DisplayScript: "loop {}",
					Annotations: Annotations{"github", true, true, true, true}}}}, ""},
		{"D02 no description", manifest(`{"name":"read","inputSchema":{}}`), nil, `member "/tools/0/description" is missing`},
		{"D06 no inputSchema", manifest(tool + `,{"name":"b","description":"d"}`), nil, `member "/tools/1/inputSchema" is missing`},
		{"D06 schema a string", manifest(tool + `,{"name":"b","description":"d","inputSchema":"{}"}`), nil, `member "/tools/1/inputSchema" must be an object`},
		{"D06 schema a boolean", manifest(`{"name":"b","description":"d","inputSchema":true}`), nil, `member "/tools/0/inputSchema" must be an object`},
		{"D06 schema wrong", manifest(`{"name":"b","description":"d","inputSchema":{"type":"objekt"}}`), nil, `member "/tools/0/inputSchema" is a schema that does not fit its draft at "/type"`},
		{"D06 one of five", manifest(tool + `,{"name":"b","description":"d","inputSchema":{"$ref":"#"}}`), nil, `member "/tools/1/inputSchema" is a schema that refers to itself`},
		{"D07 no tools", manifest(``), nil, `member "/tools" must not be empty`},
		{"D07 tools absent", `{"name":"files","endpoint":"http://t.example/rap"}`, nil, `member "/tools" is missing`},
		{"D07 empty name", `{"name":"","endpoint":"http://t.example/rap","tools":[` + tool + `]}`, nil, `member "/name" must not be empty`},
		{"D07 name of 129", `{"name":"` + strings.Repeat("é", 129) + `","endpoint":"http://t.example/rap","tools":[` + tool + `]}`, nil, `member "/name" is longer than 128 characters`},
		{"D07 tool name of 129", manifest(`{"name":"` + strings.Repeat("a", 129) + `","description":"d","inputSchema":{}}`), nil, `member "/tools/0/name" is longer than 128 characters`},
		{"D07 tool name with a space", manifest(`{"name":"a b","description":"d","inputSchema":{}}`), nil, `member "/tools/0/name" must be made of letters, digits, _ and -`},
		{"D07 relative endpoint", `{"name":"files","endpoint":"/rap","tools":[` + tool + `]}`, nil, `member "/endpoint" must be an absolute http or https URL`},
		{"twice the same name", manifest(tool + `,` + tool), nil, `member "/tools/1/name" is that of another tool`},
		{"names differ in case", manifest(tool + `,` + strings.Replace(tool, "read", "Read", 1)),
			&Manifest{Name: "files", Endpoint: "http://t.example/rap", Tools: []Tool{read, {Name: "Read", Description: "d", InputSchema: read.InputSchema}}}, ""},
		{"annotation of another type", manifest(`{"name":"b","description":"d","inputSchema":{},"annotations":{"readOnly":"no"}}`), nil, `member "/tools/0/annotations/readOnly" must be a boolean`},
		{"W01", manifest(`{"name":"b","description":"d","inputSchema":{"type":"object","type":"string"}}`), nil, `member "/tools/0/inputSchema/type" is there twice`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := DecodeManifest([]byte(test.in), Limits{})
			if test.err != "" {
				var merr *MessageError
				if got != nil || !errors.As(err, &merr) || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("DecodeManifest(%s) = %v, %v, want error %q", test.in, got, err, test.err)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(got, test.want) {
				t.Fatalf("DecodeManifest(%s) = %+v, %v, want %+v", test.in, got, err, test.want)
			}
		})
	}
	_, err := DecodeManifest([]byte(manifest(`{"name":"b","description":"d","inputSchema":{"$ref":"#"}}`)), Limits{})
	if serr := (*SchemaError)(nil); !errors.As(err, &serr) {
		t.Errorf("error of a bad schema = %v, want a SchemaError inside", err)
	}
}
