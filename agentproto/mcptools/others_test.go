package mcptools_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/mcptools"
)

// npx skips a test where the servers of others cannot be fetched.
func npx(t *testing.T, packages ...string) string {
	if testing.Short() {
		t.Skip("SKIPPED: MCP servers of others are not tried in short tests")
	}
	path, err := exec.LookPath("npx")
	if err != nil {
		t.Skip("SKIPPED: MCP servers of others are not tried: there is no npx")
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, p := range packages { // fetched here, where a network may be slow
		if _, err := exec.CommandContext(ctx, path, "-y", "-p", p, "node", "-e", "").CombinedOutput(); err != nil {
			t.Skipf("SKIPPED: MCP servers of others are not tried: npm does not fetch %s: %v", p, err)
		}
	}
	return path
}

// TestMB01_ServersOfOthers calls tools of two MCP servers that others have written, over npx: what a program that starts programs
// does, drafts of schemas, tools that come late, and results as they are in the world.
func TestMB01_ServersOfOthers(t *testing.T) {
	const everything, filesystem = "@modelcontextprotocol/server-everything@2026.8.31", "@modelcontextprotocol/server-filesystem@2026.8.31"
	path := npx(t, everything, filesystem)
	t.Setenv("MILLRACE_CANARY", "canary")
	folder := t.TempDir()
	file := filepath.Join(folder, "a.txt")
	if err := os.WriteFile(file, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := newDesk(t, func(o *mcptools.Options) {
		o.Servers = []mcptools.Server{{Name: "p", Command: []string{path, "-y", everything, "stdio"}}, {Name: "f", Command: []string{path, "-y", filesystem, folder}}}
	})
	if p := d.set.Problems(); len(p) > 0 {
		t.Fatal(p)
	}
	if n := len(d.manifest().Tools); n < 10 {
		t.Errorf("there are %d tools", n)
	}
	for i, c := range []struct{ tool, args, want string }{
		{"echo", `{"message":"hi"}`, "Echo: hi"},
		{"get-sum", `{"a":1,"b":2}`, "The sum of 1 and 2 is 3."},
		{"get-annotated-message", `{"messageType":"error","includeImage":true}`, "Error: Operation failed\n[image: image/png"},
		{"get-structured-content", `{"location":"New York"}`, `{"temperature"`},
		{"get-tiny-image", `{}`, "Here's the image"},
		{"get-resource-links", `{"count":2}`, "Here are 2 resource links"},
		{"get-resource-reference", `{"resourceType":"Text","resourceId":1}`, "Returning resource reference"},
		{"trigger-long-running-operation", `{"duration":1,"steps":4}`, "Long running operation completed."},
		{"get-sum", `{"a":"x"}`, "Error: "},
	} {
		d.call("t", fmt.Sprint("c", i), c.tool, c.args)
		if got := d.result().String(); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %.300q, want %q", c.tool, got, c.want)
		}
	}
	d.call("t", "env", "get-env", "{}")
	if got := d.result().String(); strings.Contains(got, "canary") || !strings.Contains(got, "PATH") {
		t.Errorf("its environment is %s", got)
	}
	d.call("t", "form", "trigger-elicitation-request", "{}")
	q, ok := d.next().(*agentproto.UserChoice)
	if !ok {
		t.Fatal("it does not ask")
	}
	d.post(q.ResponseURL, fmt.Sprintf(`{"id":%q,"selected":%d}`, q.ID, q.Default))
	if got := d.result().String(); !strings.Contains(got, "declined") {
		t.Errorf("the form: %.300q", got)
	}
	d.post(mcptools.Base("f")+"/invoke", strings.Replace(invocation("t", "read", "read_text_file", fmt.Sprintf(`{"path":%q}`, file)), `"p_`, `"f_`, 1))
	if got := d.result().String(); !strings.HasPrefix(got, "hello") {
		t.Errorf("the file: %.300q", got)
	}
}
