package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host"
)

// TestDots has a thread and a call whose names are dots. The commands find them: dots are names as any other.
func TestDots(t *testing.T) {
	t.Parallel()
	_, urls := startTool(t)
	s := serveRuntime(t, t.TempDir(), urls)
	s.request(t.Context(), "GET", "/stats", "", http.StatusOK)
	token, err := findToken("", s.state)
	if err != nil {
		t.Fatal(err)
	}
	c := apiCalls{apiClient{s.api, token}}
	for _, key := range []agentproto.CallKey{{GroupID: "..", ID: "."}, {GroupID: ".", ID: ".."}} {
		if tools, err := c.Tools(t.Context(), key.GroupID); err != nil || len(tools) == 0 {
			t.Errorf("%v: %d tools, %v", key, len(tools), err)
		}
		if _, err := c.Call(t.Context(), host.Request{GroupID: key.GroupID, ID: key.ID, Operation: "sleep", Arguments: []byte(`{"ms":60000}`)}); err != nil {
			t.Errorf("%v: %v", key, err)
		}
		if d, err := c.Describe(t.Context(), key); err != nil || d.Operation != "sleep" {
			t.Errorf("%v: %+v, %v", key, d, err)
		}
		if _, err := c.Subscriptions(t.Context(), key.GroupID); err != nil {
			t.Errorf("%v: %v", key, err)
		}
		if err := c.Cancel(t.Context(), key); err != nil {
			t.Errorf("%v: %v", key, err)
		}
	}
	var asked string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.EscapedPath()
		w.WriteHeader(http.StatusNoContent)
	}))
	defer other.Close()
	out, err := millrace(t, "migrate", "..", "--to", "http://127.0.0.1:1", "--api", other.URL, "--state", s.state).CombinedOutput()
	if err != nil || asked != "/sessions/%2E%2E/migrate" {
		t.Errorf("millrace migrate asks %q: %v, %s", asked, err, out)
	}
}
