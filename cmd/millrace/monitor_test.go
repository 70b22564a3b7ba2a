package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestServeMonitor asks a runtime process how it is, without a token.
func TestServeMonitor(t *testing.T) {
	t.Parallel()
	_, tools := startTool(t)
	at := freeAddress(t)
	s := serveRuntime(t, t.TempDir(), tools, "--monitor", at)
	s.makeCall(t.Context(), 1)
	s.readResult(t.Context(), 1)
	for _, c := range []struct{ path, want string }{
		{"/livez", "ok\n"}, {"/readyz", "ok\n"}, {"/inspect/", "<h2>Partitions</h2>"}, {"/inspect/v1/graph", `"port": "calls"`}, {"/inspect/v1/status", `"counted": true`},
		{"/metrics", `millrace_durable_partition_state{location="Host",partition="0",state="running"} 1`},
		{"/metrics", `millrace_location_running{flow="agent runtime",location="Host"} 1`},
		{"/metrics", `millrace_calls_made_total{toolset="` + tools[0] + `"} 1`}, {"/metrics", "go_build_info{"}, {"/metrics", "go_goroutines "},
	} {
		path, want := c.path, c.want
		r, err := http.Get("http://" + at + path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || r.StatusCode != http.StatusOK || !strings.Contains(string(text), want) {
			t.Errorf("%s: %d, %s, %v", path, r.StatusCode, text, err)
		}
	}
}
