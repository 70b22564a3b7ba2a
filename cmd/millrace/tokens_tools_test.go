package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Threat 59: an owner whose tokens name its tools can neither see nor call any other tool, under any name: not by the API, as an
// MCP client or in a conversation. When the file is read again, the new tools apply to existing threads too.
func TestToolsOfOwners(t *testing.T) {
	t.Parallel()
	script := writeConfig(t, filepath.Join(t.TempDir(), "script.json"), `[{"text": "", "calls": [{"operation": "now", "arguments": {}}]}, {"text": "that is all", "times": 100}]`)
	c := newCrowd(t, "--model", "script:"+script)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c.tokens["carol"] = newToken()
	limit := func(tools string) {
		t.Helper()
		c.kinds["carol"] = "carol %s tools=" + tools
		c.write(t)
		c.said.until(ctx, t, "are read again", func() { c.cmd.Process.Signal(syscall.SIGHUP) })
	}
	offered := func(who string) (names []string) {
		t.Helper()
		var tools []struct{ Name string }
		_, _, text := c.ask(ctx, c.tokens[who], "GET", "/threads/t/tools", "")
		if err := json.Unmarshal([]byte(text), &tools); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for _, tool := range tools {
			names = append(names, tool.Name)
		}
		slices.Sort(names)
		return names
	}
	// calls makes a call by the API and returns its result.
	n := 0
	calls := func(who, thread, tool, arguments string) string {
		t.Helper()
		n++
		id := fmt.Sprint("c", n)
		name, _ := json.Marshal(tool)
		if status, _, text := c.ask(ctx, c.tokens[who], "POST", "/calls", fmt.Sprintf(`{"group_id": %q, "id": %q, "operation": %s, "arguments": %s}`, thread, id, name, arguments)); status != 202 {
			return fmt.Sprint(status, text)
		}
		_, _, text := c.ask(ctx, c.tokens[who], "GET", "/calls/"+thread+"/"+id+"?wait=60s", "")
		return text
	}
	mayNot := func(thread string, tools ...string) {
		t.Helper()
		for _, tool := range tools {
			if text := calls("carol", thread, tool, `{}`); !strings.Contains(text, "there is no tool") {
				t.Errorf("%q: %s", tool, text)
			}
		}
	}
	limit("echo,sl?ep")
	if got := offered("carol"); !slices.Equal(got, []string{"echo", "sleep"}) {
		t.Errorf("carol is offered %q", got)
	}
	if got := offered("bob"); !slices.Contains(got, "now") || len(got) < 4 {
		t.Errorf("bob is offered %q", got)
	}
	if text := calls("carol", "t", "echo", `{"text": "of carol"}`); !strings.Contains(text, "of carol") {
		t.Errorf("echo: %s", text)
	}
	mayNot("t", "now", "delete", "ECHO", "echo ", "echo\x00", "echo/now", "*", "sl?ep")
	mayNot("bob:t", "now") // is a thread of carol
	if text := calls("bob", "t", "now", `{}`); strings.Contains(text, "there is no tool") {
		t.Errorf("bob: %s", text)
	}

	client, err := mcp.NewClient(&mcp.Implementation{Name: "t", Version: "0"}, nil).Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: c.api + "/mcp", HTTPClient: &http.Client{Transport: withToken(c.tokens["carol"])}, MaxRetries: -1,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if listed, err := client.ListTools(ctx, nil); err != nil || len(listed.Tools) != 2 {
		t.Errorf("as a client of MCP carol is offered %+v, %v", listed, err)
	}
	for _, tool := range []string{"now", "ECHO"} {
		if res, err := client.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: map[string]any{}}); err == nil {
			t.Errorf("as a client of MCP carol calls %s: %+v", tool, res)
		}
	}

	c.ask(ctx, c.tokens["carol"], "POST", "/sessions", `{"id": "s"}`)
	c.ask(ctx, c.tokens["carol"], "POST", "/threads/s/messages", `{"text": "go"}`)
	history := ""
	for !strings.Contains(history, "that is all") {
		if ctx.Err() != nil {
			t.Fatalf("the history is %s", history)
		}
		_, _, history = c.ask(ctx, c.tokens["carol"], "GET", "/threads/s/messages", "")
	}
	if !strings.Contains(history, "no tool") {
		t.Errorf("the model calls now: %s", history)
	}

	limit("now")
	if got := offered("carol"); !slices.Equal(got, []string{"now"}) {
		t.Errorf("then carol is offered %q", got)
	}
	mayNot("t", "echo", "sleep")
	if text := calls("carol", "t", "now", `{}`); strings.Contains(text, "Error") {
		t.Errorf("now: %s", text)
	}
}
