package mcptools_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/mcptools"
)

// npx returns the path of npx after fetching packages, and skips the test if it cannot.
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
	for _, p := range packages { // fetch here, because the network may be slow
		if _, err := exec.CommandContext(ctx, path, "-y", "-p", p, "node", "-e", "").CombinedOutput(); err != nil {
			t.Skipf("SKIPPED: MCP servers of others are not tried: npm does not fetch %s: %v", p, err)
		}
	}
	return path
}

// everything is the server whose tools [desk.everything] calls.
const everything = "@modelcontextprotocol/server-everything@2026.8.31"

// TestMB01_ServersOfOthers calls tools of two third-party MCP servers over npx. It covers a program that starts programs, drafts
// of schemas, tools that appear late, and real results.
func TestMB01_ServersOfOthers(t *testing.T) {
	const filesystem = "@modelcontextprotocol/server-filesystem@2026.8.31"
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
	d.everything()
	d.post(mcptools.Base("f")+"/invoke", strings.Replace(invocation("t", "read", "read_text_file", fmt.Sprintf(`{"path":%q}`, file)), `"p_`, `"f_`, 1))
	if got := d.result().String(); !strings.HasPrefix(got, "hello") {
		t.Errorf("the file: %.300q", got)
	}
}

// everything calls the tools of the server of that name.
func (d *desk) everything() {
	t := d.t
	t.Helper()
	called := map[string]bool{"get-env": true, "trigger-elicitation-request": true, "trigger-url-elicitation": true, "watch_resource": true} // below
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
		{"gzip-file-as-resource", `{"name":"a.gz","data":"data:text/plain,hello","outputType":"resourceLink"}`, "[resource] a.gz: "},
		{"toggle-simulated-logging", `{}`, "Started"},
		{"toggle-subscriber-updates", `{}`, "Started"},
		{"simulate-research-query", `{"topic":"mills"}`, "Error: "},
		{"list_resources", `{}`, "demo://resource/"},
		{"read_resource", `{"uri":"demo://resource/dynamic/text/1"}`, "demo://resource/dynamic/text/1\n"},
	} {
		called[c.tool] = true
		d.call("t", fmt.Sprint("c", i), c.tool, c.args)
		if got := d.result().String(); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %.300q, want %q", c.tool, got, c.want)
		}
	}
	for _, tool := range d.manifest().Tools {
		if name := strings.TrimPrefix(tool.Name, "p_"); !called[name] {
			t.Errorf("%s is not tried", name)
		}
	}
	d.call("t", "env", "get-env", "{}")
	if got := d.result().String(); strings.Contains(got, "canary") || !strings.Contains(got, "PATH") {
		t.Errorf("its environment is %s", got)
	}
	for i, more := range []string{"", `,"errorPath":true`} {
		d.call("t", fmt.Sprint("url", i), "trigger-url-elicitation", `{"url":"https://pay.example/1"`+more+`}`)
		var seen []string
		m := d.next()
		for ; m.Type() == agentproto.TypeOAuth; m = d.next() {
			seen = append(seen, m.(*agentproto.OAuth).AuthURL)
		}
		r, ok := m.(*agentproto.ToolResult)
		if want := i + 1; !ok || len(seen) != want || seen[i] != "https://pay.example/1" || !strings.Contains(r.String(), "User completed the URL elicitation flow") {
			t.Errorf("the user was sent to %q, and then there is %v", seen, m)
		}
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
	d.call("t", "watch", "watch_resource", `{"uri":"demo://resource/dynamic/text/1"}`)
	if r := d.result(); !r.Subscription || !strings.HasPrefix(r.String(), "demo://resource/dynamic/text/1\n") {
		t.Errorf("a watch begins with %.300q", r.String())
	}
}

// TestMB02_StreamableHTTP calls the tools of a third-party server over HTTP, with sessions and with streams as answers.
func TestMB02_StreamableHTTP(t *testing.T) {
	t.Parallel()
	path := npx(t, everything)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close() // the server accepts only a port number
	cmd := exec.CommandContext(t.Context(), path, "-y", everything, "streamableHttp")
	cmd.Env, cmd.WaitDelay = append(os.Environ(), "PORT="+port), time.Second
	endGroup := inGroup(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { endGroup(); _ = cmd.Wait() })
	url := "http://127.0.0.1:" + port + "/mcp"
	(&desk{t: t}).until("the server is there", func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	d := newDesk(t, func(o *mcptools.Options) { o.Servers[0] = mcptools.Server{Name: "p", URL: url} })
	if p := d.set.Problems(); len(p) > 0 {
		t.Fatal(p)
	}
	d.everything()
}
