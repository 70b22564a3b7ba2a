package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/agentproto"
)

// TestKnownCalls checks that the runtime tells pending calls from unknown ones, even if it was killed right after it
// accepted one.
func TestKnownCalls(t *testing.T) {
	t.Parallel()
	dir, tool := t.TempDir(), newMovingTool(t)
	key := filepath.Join(dir, "key")
	s := serveRuntime(t, filepath.Join(dir, "a"), tool.bases[:1], "--migration-key", key)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	unknown := func(s *served, path string) {
		t.Helper()
		_, text := s.request(ctx, "GET", path, "", http.StatusNotFound)
		var p problem
		if err := json.Unmarshal(text, &p); err != nil || p.Error == "" {
			t.Errorf("%s: it says %s, %v", path, text, err)
		}
	}
	post := func(thread, id string) {
		t.Helper()
		s.request(ctx, "POST", "/calls", fmt.Sprintf(`{"group_id":%q,"id":%q,"operation":"late"}`, thread, id), http.StatusAccepted)
	}
	unknown(s, "/calls/t/c")
	unknown(s, "/calls/t/c?wait=5m") // at once
	unknown(s, "/calls/"+strings.Repeat("t", 5000)+"/c")
	unknown(s, "/calls/t/%00")
	// Cancelling an unknown call does not create it.
	s.request(ctx, "DELETE", "/calls/t/c", "", http.StatusNoContent)
	unknown(s, "/calls/t/c")
	post("t", "c")
	s.request(ctx, "GET", "/calls/t/c", "", http.StatusNoContent)
	s.request(ctx, "GET", "/calls/t/c?wait=200ms", "", http.StatusNoContent)
	unknown(s, "/calls/t/d")
	unknown(s, "/calls/c/t")

	for i := range 5 { // killed right after it accepts a call
		id := fmt.Sprint("k", i)
		post("t", id)
		s.kill()
		s.start()
		s.request(ctx, "GET", "/calls/t/"+id, "", http.StatusNoContent)
		s.request(ctx, "GET", "/calls/t/c", "", http.StatusNoContent) // the tool accepted this one long ago
		unknown(s, "/calls/t/d")
	}

	for i := range 3 {
		post("closed", fmt.Sprint("c", i))
	}
	s.request(ctx, "DELETE", "/threads/closed", "", http.StatusNoContent)
	post("closed", "after")
	for _, id := range []string{"c0", "c1", "c2", "after"} {
		s.request(ctx, "GET", "/calls/closed/"+id, "", http.StatusOK)
	}
	unknown(s, "/calls/closed/never")

	post("moves", "m")
	for tool.isWaiting(agentproto.CallKey{GroupID: "moves", ID: "m"}) {
		s.request(ctx, "GET", "/calls/moves/m?wait=60ms", "", http.StatusNoContent)
	}
	other := serveRuntime(t, filepath.Join(dir, "b"), tool.bases[1:], "--migration-key", key)
	unknown(other, "/calls/moves/m")
	if out, err := millrace(t, "migrate", "moves", "--to", "http://"+other.listen(), "--api", s.api, "--state", s.state).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for range 2 {
		s.request(ctx, "GET", "/calls/moves/m", "", http.StatusGone)
		other.request(ctx, "GET", "/calls/moves/m", "", http.StatusNoContent)
		unknown(other, "/calls/moves/never")
		for _, x := range []*served{s, other} {
			x.kill()
			x.start()
		}
	}
	tool.post(ctx, agentproto.CallKey{GroupID: "moves", ID: "m"})
	other.request(ctx, "GET", "/calls/moves/m?wait=20s", "", http.StatusOK)
	for _, key := range []agentproto.CallKey{{GroupID: "t", ID: "c"}, {GroupID: "t", ID: "k0"}} {
		tool.post(ctx, key)
		s.request(ctx, "GET", fmt.Sprintf("/calls/%s/%s?wait=20s", key.GroupID, key.ID), "", http.StatusOK)
	}
}
