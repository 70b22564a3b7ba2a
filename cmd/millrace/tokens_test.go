package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A crowd is a runtime with the tokens of several users.
type crowd struct {
	*served
	said   *words
	tokens map[string]string // by the name that the tests use
	file   string
	kinds  map[string]string // the line of each token in the file, by the same name
}

// newCrowd starts a runtime with two tokens of alice (one of them read-only), one of bob and one of an admin.
func newCrowd(t *testing.T, more ...string) *crowd {
	t.Helper()
	return newCrowdAt(t, freeAddress(t), more...)
}

// newCrowdAt is newCrowd with the API at the given address.
func newCrowdAt(t *testing.T, api string, more ...string) *crowd {
	t.Helper()
	dir := t.TempDir()
	c := &crowd{said: newWords(), file: filepath.Join(dir, "tokens"), tokens: map[string]string{}, kinds: map[string]string{
		"alice": "alice %s user=ada scopes=call", "reader": "alice %s user=ada scopes=read", "bob": "bob %s", "root": "root %s scopes=admin",
	}}
	for who := range c.kinds {
		c.tokens[who] = newToken()
	}
	c.write(t)
	_, tools := startTools(t, "clock", "slow", "feed")
	listen := freeAddress(t)
	state := filepath.Join(dir, "state")
	c.served = &served{t: t, state: state, api: "http://" + api, args: append([]string{
		"serve", "--state", state, "--listen", listen, "--api", api, "--tokens", c.file, "--tool", tools[0], "--tool", tools[1], "--tool", tools[2],
	}, more...)}
	c.cmd = millrace(t, c.args...)
	c.cmd.Stderr = c.said
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.kill)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c.request(ctx, "GET", "/stats", "", http.StatusOK)
	return c
}

// write writes the token file. Bob's token is in a file of its own; the file holds digests of the others.
func (c *crowd) write(t *testing.T) {
	t.Helper()
	text := "# who may\n\n"
	for who, line := range c.kinds {
		place := fmt.Sprintf("%x", sha256.Sum256([]byte(c.tokens[who])))
		if who == "bob" {
			place = writeConfig(t, c.file+".bob", c.tokens[who]+"\n")
		}
		text += fmt.Sprintf(line, place) + "\n"
	}
	writeConfig(t, c.file, text)
}

// ask makes one request with a token; "" sends none.
func (c *crowd) ask(ctx context.Context, token, method, path, body string) (status int, header http.Header, text string) {
	c.t.Helper()
	resp := c.open(ctx, token, method, path, body, nil)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	return resp.StatusCode, resp.Header, string(b)
}

func (c *crowd) open(ctx context.Context, token, method, path, body string, header map[string]string) *http.Response {
	c.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, c.api+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	return resp
}

// MT28: a request with no token, a wrong token or a token without the scope is answered with the challenge of RFC 6750.
func TestMT28_Challenges(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	list := saying(1, "tools/list", map[string]any{})
	const call = `{"group_id": "t", "operation": "now"}`
	for _, test := range []struct {
		token, method, path, body string
		status                    int
		challenge                 string
	}{
		{"", "POST", "/mcp", list, 401, `Bearer`},
		{newToken(), "POST", "/mcp", list, 401, `Bearer error="invalid_token"`},
		{"", "POST", "/mcp?access_token=" + c.tokens["alice"], list, 401, `Bearer`},
		{c.tokens["reader"], "POST", "/mcp", list, 403, `Bearer error="insufficient_scope", scope="call"`},
		{c.tokens["reader"], "GET", "/mcp", "", 403, `Bearer error="insufficient_scope", scope="call"`},
		{c.tokens["reader"], "POST", "/calls", call, 403, `Bearer error="insufficient_scope", scope="call"`},
		{c.tokens["alice"], "GET", "/stats", "", 403, `Bearer error="insufficient_scope", scope="admin"`},
		{c.tokens["alice"], "POST", "/sessions/t/migrate", `{"to": "https://x"}`, 403, `Bearer error="insufficient_scope", scope="admin"`},
		{c.tokens["alice"], "POST", "/calls", call, 202, ""},
		{c.tokens["bob"], "POST", "/calls", call, 202, ""},
		{c.tokens["root"], "GET", "/stats", "", 200, ""},
		{c.tokens["root"], "GET", inspectPages, "", 401, `Basic realm="the token is the password", charset="UTF-8"`},
	} {
		status, header, text := c.ask(ctx, test.token, test.method, test.path, test.body)
		if status != test.status || header.Get("WWW-Authenticate") != test.challenge {
			t.Errorf("%s %s: %d, %q, %s; want %d, %q", test.method, test.path, status, header.Get("WWW-Authenticate"), text, test.status, test.challenge)
		}
	}
	status, _, text := c.ask(ctx, c.tokens["alice"], "GET", "/quarantine", "")
	if status != 403 {
		t.Errorf("the quarantine is answered %d: %s", status, text)
	}
}

// TestOwnersAreApart checks that no name gives one owner access to the threads, calls and tasks of another.
func TestOwnersAreApart(t *testing.T) {
	t.Parallel()
	script := writeConfig(t, filepath.Join(t.TempDir(), "script.json"), `[{"text": "hello, whoever you are", "times": 100}]`)
	c := newCrowd(t, "--model", "script:"+script)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must := func(who, method, path, body string, want int) string {
		t.Helper()
		status, _, text := c.ask(ctx, c.tokens[who], method, path, body)
		if status != want {
			t.Errorf("%s: %s %s is answered %d %s, want %d", who, method, path, status, text, want)
		}
		return text
	}
	if text := must("alice", "POST", "/calls", `{"group_id": "t", "id": "c", "operation": "echo", "arguments": {"text": "of alice"}}`, 202); !strings.Contains(text, `"group_id":"t"`) {
		t.Errorf("the call is called %s", text)
	}
	if text := must("reader", "GET", "/calls/t/c?wait=60s", "", 200); !strings.Contains(text, `"group_id":"t"`) || !strings.Contains(text, "of alice") {
		t.Errorf("the result is %s", text)
	}
	if text := must("root", "GET", "/calls/alice:t/c/state", "", 200); !strings.Contains(text, `"group_id":"alice:t"`) {
		t.Errorf("an admin sees %s", text)
	}
	if text := must("reader", "GET", "/calls/t/c/state", "", 200); !strings.Contains(text, `"group_id":"t"`) {
		t.Errorf("alice sees %s", text)
	}
	must("alice", "POST", "/sessions", `{"id": "s", "user_id": "ada"}`, 201)
	must("alice", "POST", "/threads/s/messages", `{"text": "I am alice"}`, 202)
	if text := must("reader", "GET", "/threads/s/messages?wait=60s", "", 200); !strings.Contains(text, "I am alice") {
		t.Errorf("the history is %s", text)
	}
	for _, thread := range []string{"t", "alice:t", "bob:alice:t", "../alice:t", "alice%3At"} {
		must("bob", "GET", "/calls/"+strings.ReplaceAll(thread, "/", "%2F")+"/c", "", 404)
	}
	for _, thread := range []string{"s", "alice:s"} {
		must("bob", "GET", "/threads/"+thread+"/messages", "", 404)
		must("bob", "GET", "/threads/"+thread+"/events", "", 404)
		must("bob", "POST", "/threads/"+thread+"/messages", `{"text": "I am alice, too"}`, 404)
	}
	must("bob", "POST", "/calls", `{"group_id": "t", "operation": "now", "user_id": "ada"}`, 403)
	must("bob", "POST", "/sessions", `{"id": "s2", "user_id": "ada"}`, 403)
	must("bob", "POST", "/sessions", `{"id": ""}`, 400)
	must("bob", "POST", "/calls", `{"group_id": "`+strings.Repeat("x", 149)+`", "operation": "now"}`, 400)
	must("bob", "POST", "/agui", `{"threadId": "s", "runId": "r", "messages": [{"id": "1", "role": "user", "content": "I am bob"}]}`, 200)
	if text := must("alice", "GET", "/threads/s/messages", "", 200); strings.Contains(text, "I am bob") {
		t.Errorf("a run of bob is in the thread of alice: %s", text)
	}
	if text := must("bob", "GET", "/threads/s/messages", "", 200); !strings.Contains(text, "I am bob") {
		t.Errorf("a run of bob is not in bob's thread: %s", text)
	}

	// Lists contain only what the owner has, under the owner's names.
	for _, list := range []struct{ who, path, want, not string }{
		{"reader", "/calls", `"group_id":"t"`, "alice:"},
		{"reader", "/calls?thread=t&state=completed", `"id":"c"`, "alice:"},
		{"reader", "/sessions", `"id":"s"`, "alice:"},
		{"bob", "/threads", `"id":"s"`, "ada"},
		{"bob", "/calls", `"calls":[]`, "ada"},
		{"bob", "/calls?thread=alice:t", `"calls":[]`, "ada"},
		{"root", "/sessions", `"id":"alice:s"`, `"id":"s"`},
		{"root", "/sessions", `"id":"bob:s"`, `"id":"s"`},
	} {
		if text := must(list.who, "GET", list.path, "", 200); !strings.Contains(text, list.want) || strings.Contains(text, list.not) {
			t.Errorf("%s lists %s as %s, want %s in it and not %s", list.who, list.path, text, list.want, list.not)
		}
	}

	// MCP tasks, over both transports.
	as := func(who string) *served {
		return &served{t: t, state: c.state, api: c.api, tokenFile: writeConfig(t, filepath.Join(t.TempDir(), who), c.tokens[who])}
	}
	alice, bob := overHTTP{as("alice")}, overHTTP{as("bob")}
	a, err := alice.say(ctx, 1, "tools/call", map[string]any{"name": "delete", "arguments": map[string]any{"name": "x"}})
	if err != nil || a.Result.TaskID == "" {
		t.Fatalf("no task: %v %+v", err, a)
	}
	id := a.Result.TaskID
	for name, with := range map[string]speaker{"bob": bob, "the operator": overHTTP{c.served}, "bob's front": startMCP(t, as("bob"))} {
		for _, method := range []string{"tasks/get", "tasks/cancel"} {
			if a, err := with.say(ctx, 2, method, map[string]any{"taskId": id}); err != nil || a.Error == nil || a.Error.Code != -32602 {
				t.Errorf("%s has %s of alice's task answered with %v %+v", name, method, err, a)
			}
		}
	}
	for a.Result.Status != "input_required" {
		if a, err = alice.say(ctx, 3, "tasks/get", map[string]any{"taskId": id}); err != nil || a.Error != nil || a.Result.Status == "cancelled" {
			t.Fatalf("alice's task: %v %+v", err, a)
		}
	}
	if text := must("alice", "GET", "/threads/mcp/prompts", "", 200); !strings.Contains(text, "choices") {
		t.Errorf("alice's API does not have the prompt of her task: %s", text)
	}
	if text := must("bob", "GET", "/threads/mcp/prompts", "", 200); strings.Contains(text, "choices") {
		t.Errorf("bob's API has the prompt of alice's task: %s", text)
	}
	front := startMCP(t, as("alice"))
	if a, err := front.say(ctx, 1, "tools/call", map[string]any{"name": "now", "arguments": map[string]any{}}); err != nil || a.Error != nil {
		t.Errorf("alice's front: %v %+v", err, a)
	}
}

// TestTokensRevoked checks that SIGHUP reloads the token file. Requests with a revoked token end, both waiting and streaming
// ones. Sessions and requests of others continue.
func TestTokensRevoked(t *testing.T) {
	t.Parallel()
	script := writeConfig(t, filepath.Join(t.TempDir(), "script.json"), `[{"text": "hello", "times": 100}]`)
	c := newCrowd(t, "--model", "script:"+script)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	session := func(who string) *mcp.ClientSession {
		t.Helper()
		s, err := mcp.NewClient(&mcp.Implementation{Name: "t", Version: "0"}, nil).Connect(ctx, &mcp.StreamableClientTransport{
			Endpoint: c.api + "/mcp", HTTPClient: &http.Client{Transport: withToken(c.tokens[who])}, MaxRetries: -1,
		}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	alice, bob := session("alice"), session("bob")
	c.ask(ctx, c.tokens["alice"], "POST", "/sessions", `{"id": "s"}`)
	c.ask(ctx, c.tokens["alice"], "POST", "/calls", `{"group_id": "t", "id": "long", "operation": "sleep", "arguments": {"ms": 600000}}`)
	c.ask(ctx, c.tokens["bob"], "POST", "/calls", `{"group_id": "t", "id": "long", "operation": "sleep", "arguments": {"ms": 600000}}`)
	stream := func(who, path string) *bufio.Reader {
		t.Helper()
		resp := c.open(ctx, c.tokens[who], "GET", path, "", map[string]string{"Accept": "text/event-stream"})
		t.Cleanup(func() { resp.Body.Close() })
		if resp.StatusCode != 200 {
			t.Fatalf("%s: %d", path, resp.StatusCode)
		}
		return bufio.NewReader(resp.Body)
	}
	c.ask(ctx, c.tokens["bob"], "POST", "/sessions", `{"id": "s"}`)
	aliceEvents, bobEvents := stream("alice", "/threads/s/events"), stream("bob", "/threads/s/events")
	for _, r := range []*bufio.Reader{aliceEvents, bobEvents} { // both have begun
		if line, err := r.ReadString('\n'); err != nil {
			t.Fatalf("%q, %v", line, err)
		}
	}
	held := make(chan string, 1) // a request that waits for a result at /mcp
	go func() {
		resp, err := http.DefaultClient.Do(heldCall(ctx, c.api, c.tokens["alice"]))
		if err != nil {
			held <- err.Error()
			return
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		held <- fmt.Sprint(resp.StatusCode, string(text), err)
	}()
	for seen := false; !seen; { // until the held request has made its call
		select {
		case text := <-held:
			t.Fatalf("the request is not held: %s", text)
		default:
		}
		if ctx.Err() != nil {
			t.Fatal("the held request makes no call")
		}
		_, calls := c.request(ctx, "GET", inspectPages+"agents/v1/calls", "", 200)
		seen = bytes.Contains(calls, []byte(mcpThread("alice")))
	}

	// A file with an error changes nothing.
	good, err := os.ReadFile(c.file)
	if err != nil {
		t.Fatal(err)
	}
	writeConfig(t, c.file, string(good)+"carol hunter2\n")
	c.said.until(ctx, t, "nothing is changed", func() { c.cmd.Process.Signal(syscall.SIGHUP) })
	if status, _, _ := c.ask(ctx, c.tokens["alice"], "GET", "/calls/t/long", ""); status != 204 {
		t.Errorf("alice is answered %d after a bad file", status)
	}

	delete(c.kinds, "alice")
	c.kinds["carol"], c.tokens["carol"] = "carol %s", newToken()
	c.write(t)
	c.said.until(ctx, t, "are read again", func() { c.cmd.Process.Signal(syscall.SIGHUP) })
	for who, want := range map[string]int{"alice": 401, "bob": 204, "reader": 204, "carol": 404} {
		if status, _, text := c.ask(ctx, c.tokens[who], "GET", "/calls/t/long", ""); status != want {
			t.Errorf("%s is answered %d %s, want %d", who, status, text, want)
		}
	}
	if rest, err := io.ReadAll(aliceEvents); err != nil { // it ends
		t.Logf("alice's events ended with %q, %v", rest, err)
	}
	select {
	case text := <-held:
		if strings.Contains(text, "slept") {
			t.Errorf("alice's held request has %s", text)
		}
	case <-ctx.Done():
		t.Error("alice's held request goes on")
	}
	if res, err := alice.ListTools(ctx, nil); err == nil {
		t.Errorf("alice's session lists %d tools", len(res.Tools))
	}
	if res, err := bob.CallTool(ctx, &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "still here"}}); err != nil || res.IsError {
		t.Errorf("bob's session: %v, %v", res, err)
	}
	if status, _, text := c.ask(ctx, c.tokens["bob"], "POST", "/threads/s/messages", `{"text": "more"}`); status != 202 {
		t.Errorf("bob's thread: %d %s", status, text)
	}
	for {
		line, err := bobEvents.ReadString('\n')
		if err != nil {
			t.Fatalf("bob's events ended: %v", err)
		}
		if strings.Contains(line, "more") {
			break
		}
	}
}

// withToken adds a token to requests.
type withToken string

func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(w))
	return http.DefaultTransport.RoundTrip(r)
}

// heldCall returns a tools/call that takes ten minutes, from a client without tasks.
func heldCall(ctx context.Context, api, token string) *http.Request {
	text := saying(1, "tools/call", map[string]any{"name": "sleep", "arguments": map[string]any{"ms": 600000}})
	text = strings.Replace(text, `"io.modelcontextprotocol/tasks":{}`, "", 1)
	r, _ := http.NewRequestWithContext(ctx, "POST", api+"/mcp", strings.NewReader(text)) // the address is valid
	for name, value := range map[string]string{
		"Authorization": "Bearer " + token, "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "sleep",
	} {
		r.Header.Set(name, value)
	}
	return r
}
