package mcpserver_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/agentproto/mcpserver"
)

// TestPages checks that a page in a browser reaches nothing, whatever name it made resolve to this machine (MT27, threat 38).
func TestPages(t *testing.T) {
	w := newWorld(t, mcpserver.Options{Origins: []string{"https://app.example"}})
	for origin, want := range map[string]int{"https://evil.example": 403, "null": 403, "http://127.0.0.1": 403, "https://app.example": 200} {
		w.header.Set("Origin", origin)
		if got := w.say(t.Context(), "tools/list", `{}`); got.status != want {
			t.Errorf("Origin %s: %d, want %d", origin, got.status, want)
		}
	}
	r := httptest.NewRequest("POST", "/mcp", strings.NewReader("{}"))
	r.Host = "evil.example"
	r.Header.Set("Content-Type", "application/json")
	rec := httptest.NewRecorder()
	if w.server.ServeHTTP(rec, r); rec.Code != http.StatusForbidden {
		t.Errorf("Host evil.example: %d", rec.Code)
	}
}

// TestBounds checks that a request without an owner is refused, and that the size of a body is limited.
func TestBounds(t *testing.T) {
	w := newWorld(t, mcpserver.Options{Body: 2000})
	if got := w.say(t.Context(), "tools/call", `{"name":"one","arguments":{"a":"`+strings.Repeat("a", 3000)+`"}}`); got.status != http.StatusRequestEntityTooLarge {
		t.Errorf("a long body: %d", got.status)
	}
	w.header.Set("Content-Type", "text/plain")
	if got := w.say(t.Context(), "tools/list", `{}`); got.status != http.StatusUnsupportedMediaType {
		t.Errorf("text: %d", got.status)
	}
	w.owner = ""
	if got := w.say(t.Context(), "tools/list", `{}`); got.status != http.StatusUnauthorized {
		t.Errorf("nobody: %d", got.status)
	}
}

// TestRate checks that an owner that asks too often is refused while others are served (MT29, threat 39).
func TestRate(t *testing.T) {
	w := newWorld(t, mcpserver.Options{Rate: 1})
	refused := 0
	for range 20 {
		if got := w.say(t.Context(), "tools/list", `{}`); got.status == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused == 0 {
		t.Error("twenty requests at a rate of one a second were served")
	}
	w.owner = "bob"
	if got := w.say(t.Context(), "tools/list", `{}`); got.status != http.StatusOK {
		t.Errorf("another owner: %d", got.status)
	}
}

// TestUserID checks that tools receive the user ID of the owner as of the latest request.
func TestUserID(t *testing.T) {
	w := newWorld(t, mcpserver.Options{})
	for i, user := range []string{"", "ada", "lovelace"} {
		w.user = user
		w.say(t.Context(), "tools/call", `{"name":"one","arguments":{}}`)
		if got := w.calls.made[i].UserID; got != user {
			t.Errorf("tools are told %q of %q", got, user)
		}
	}
}

// TestManyOwners checks that the server accepts a new owner at any time: when there are too many, it forgets the one that was
// idle for longest. A forgotten owner still finds its tasks.
func TestManyOwners(t *testing.T) {
	w := newWorld(t, mcpserver.Options{})
	made := w.say(t.Context(), "tools/call", `{"name":"one","arguments":{}}`)
	task, _ := made.Result["taskId"].(string)
	for i := range 5000 {
		w.owner = fmt.Sprint("owner", i)
		if got := w.say(t.Context(), "ping", `{}`); got.status == http.StatusServiceUnavailable {
			t.Fatalf("owner %d is refused", i)
		}
	}
	w.owner = "alice"
	if got := w.say(t.Context(), "tasks/get", `{"taskId":"`+task+`"}`); task == "" || got.status != http.StatusOK {
		t.Errorf("the task of an owner that was forgotten: %d %v, made by %v", got.status, got.Result, made.Result)
	}
}

// TestPanic checks that a panic fails only one request (MT26).
func TestPanic(t *testing.T) {
	w := newWorld(t, mcpserver.Options{})
	w.calls.onCall = func(*host.Description) { panic("canary") }
	got := w.say(t.Context(), "tools/call", `{"name":"one","arguments":{}}`)
	got.is(t, "a panic", -32603, 0)
	if strings.Contains(got.text, "canary") {
		t.Errorf("the client is told %s", got.text)
	}
	w.calls.onCall = nil
	w.task()
}

// TestList checks that the list contains the tools that MCP allows, each with an object schema, in the same order each time.
func TestList(t *testing.T) {
	w := newWorld(t, mcpserver.Options{})
	got := w.say(t.Context(), "tools/list", `{}`)
	tools, _ := got.Result["tools"].([]any)
	if len(tools) != 2 || got.Result["cacheScope"] != "private" || !strings.Contains(got.text, `"type":"object"`) || strings.Contains(got.text, "odd") {
		t.Errorf("got %s", got.text)
	}
	for range 20 {
		if again := w.say(t.Context(), "tools/list", `{}`); again.text != got.text {
			t.Fatalf("got %s, then %s", got.text, again.text)
		}
	}
}
