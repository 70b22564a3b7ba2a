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
	named := func(name string) string {
		return manifest(`{"name":"` + name + `","description":"d","inputSchema":{}}`)
	}
	const unseen = `member "/tools/0/name" must be made of characters that can be seen, without spaces`
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
		{"D07 tool name of 129", named(strings.Repeat("a", 129)), nil, `member "/tools/0/name" is longer than 128 characters`},
		{"D07 empty tool name", named(""), nil, `member "/tools/0/name" must not be empty`},
		{"D07 tool name with a space", named("a b"), nil, unseen},
		{"D07 tool name with a no-break space", named("a\u00A0b"), nil, unseen},
		{"D07 tool name with a blank at its end", named("a\u3000"), nil, unseen},
		{"D07 tool name with a tab", named(`a\tb`), nil, `member "/tools/0/name" has a control character`},
		{"D07 tool name with a zero-width space", named("a\u200Bb"), nil, unseen},
		{"D07 tool name with a joiner", named("a\u200Db"), nil, unseen},
		{"D07 tool name with a filler", named("a\u3164b"), nil, unseen},
		{"D07 tool name with a tag", named("a\U000E0061b"), nil, unseen},
		{"D07 tool name with a variation selector", named("a\uFE0Fb"), nil, unseen},
		{"D07 tool name with an unknown character", named("a\U00040000b"), nil, unseen},
		{"N80 tool name of a path", named("fs/read.file"), &Manifest{Name: "files", Endpoint: "http://t.example/rap", Tools: []Tool{{Name: "fs/read.file", Description: "d", InputSchema: []byte(`{}`)}}}, ""},
		{"tool name of 128", named(strings.Repeat("é", 127) + "読"), &Manifest{Name: "files", Endpoint: "http://t.example/rap", Tools: []Tool{{Name: strings.Repeat("é", 127) + "読", Description: "d", InputSchema: []byte(`{}`)}}}, ""},
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
