package discovery

import (
	"strings"
	"testing"

	"github.com/millrace/millrace/agentproto"
)

// TestThreat30_ToolsArePlain catches text in a description or a schema that a model reads
// and a person cannot see.
func TestThreat30_ToolsArePlain(t *testing.T) {
	const hidden = "\u202E\u200B\U000E0069\U000E0067\x1b"
	schema := `{"type":"object","description":"args` + `\u202e` + `","properties":{"description":{"type":"string","title":"\u200bT","enum":["\u202ea","b"]}}}`
	tool := plainTool(agentproto.Tool{Name: "t", Description: "Adds." + hidden, InputSchema: []byte(schema)})
	if tool.Description != "Adds." {
		t.Errorf("description %q", tool.Description)
	}
	want := "{\"type\":\"object\",\"description\":\"args\",\"properties\":{\"description\":{\"type\":\"string\",\"title\":\"T\",\"enum\":[\"\u202ea\",\"b\"]}}}"
	if got := string(tool.InputSchema); got != want {
		t.Errorf("schema %s, want %s: what values mean must stay", got, want)
	}
	good := `{ "type":"object", "description":"d" }`
	if got := plainTool(agentproto.Tool{InputSchema: []byte(good)}); string(got.InputSchema) != good {
		t.Errorf("a good schema became %s", got.InputSchema)
	}
	if got := plainTool(agentproto.Tool{Description: strings.Repeat("x", 1<<20), InputSchema: []byte(good)}); len(got.Description) > maxDescription+len("…") {
		t.Errorf("a description of %d bytes", len(got.Description))
	}
}
