package mcptasks

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestReadable checks what the SDK makes of results that it cannot decode as they are, and that other results stay as they are.
func TestReadable(t *testing.T) {
	const lost = "the call was carried out, but its result cannot be read"
	for _, is := range []struct {
		result, want string // the texts; empty if the result has to stay as it is
		isError      bool
	}{
		{`{"content":[{"type":"text","text":"a"}],"isError":false}`, "", false},
		{`{"structuredContent":{"content":5}}`, "", false},
		{`{"tools":[{"name":"content"}]}`, "", false},
		{`{"status":"working","x":"content"}`, "", false},
		{`{"content":[{"type":"text","text":"a"},{"type":"hologram","x":1},{"type":"text","text":"b"}],"resultType":"complete"}`, "a|[content that cannot be read]|b", false},
		{`{"content":[{"type":"image","mimeType":"image/png","data":"!"}],"isError":true}`, "[content that cannot be read]", true},
		{`{"content":[null,7]}`, "[content that cannot be read]|[content that cannot be read]", false},
		{`{"content":"text"}`, lost, true},
		{`{"content":[],"isError":"yes"}`, lost, true},
	} {
		got := Readable(json.RawMessage(is.result))
		res := new(mcp.CallToolResult)
		if err := json.Unmarshal(got, res); err != nil {
			t.Errorf("%s became %s: %v", is.result, got, err)
			continue
		}
		if is.want == "" {
			if string(got) != is.result {
				t.Errorf("%s became %s", is.result, got)
			}
			continue
		}
		var texts []string
		for _, c := range res.Content {
			texts = append(texts, c.(*mcp.TextContent).Text)
		}
		if s := strings.Join(texts, "|"); s != is.want || res.IsError != is.isError {
			t.Errorf("%s became %q, error: %v", is.result, s, res.IsError)
		}
	}
}

// A saying connection reads one result.
type saying struct {
	mcp.Connection
	result string
}

func (s saying) Read(context.Context) (jsonrpc.Message, error) {
	return &jsonrpc.Response{Result: json.RawMessage(s.result)}, nil
}

// TestReadableOverStreams checks that a transport over streams makes results readable.
func TestReadableOverStreams(t *testing.T) {
	m, err := connection{saying{result: `{"content":[{"type":"hologram"}]}`}}.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r := m.(*jsonrpc.Response).Result; !strings.Contains(string(r), "cannot be read") {
		t.Errorf("the result is %s", r)
	}
}
