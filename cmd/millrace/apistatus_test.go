package main

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// TestAPIRefusals checks the statuses of requests that cannot have an effect: 400 for an answer or a destination that is invalid,
// and 410 for a thread that has moved to another runtime. A 503 would make the client repeat them forever.
func TestAPIRefusals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	model := "script:" + writeConfig(t, filepath.Join(dir, "script.json"), "[]")
	ask := asking(t)
	a := serveRuntime(t, filepath.Join(dir, "a"), []string{ask}, "--migration-key", key, "--model", model)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	a.request(ctx, "GET", "/stats", "", http.StatusOK) // it has made the key
	b := serveRuntime(t, filepath.Join(dir, "b"), []string{ask}, "--migration-key", key, "--model", model)
	b.request(ctx, "GET", "/stats", "", http.StatusOK)

	a.request(ctx, "POST", "/calls", `{"group_id":"t","id":"c","operation":"invite","arguments":null}`, http.StatusAccepted)
	for {
		if _, text := a.request(ctx, "GET", "/calls/t/c/state?wait=10s&after=1", "", http.StatusOK); strings.Contains(string(text), `"form":{`) {
			break
		} else if strings.Contains(string(text), `"result"`) {
			t.Fatalf("arguments that are null: %s", text)
		}
		if ctx.Err() != nil {
			t.Fatal("nothing is asked")
		}
	}
	a.request(ctx, "POST", "/threads/t/answers", `{"id":"c","selected":-1}`, http.StatusBadRequest)
	a.request(ctx, "POST", "/calls/t/c/answers", `{"prompt":1,"selected":-1}`, http.StatusBadRequest)

	a.request(ctx, "POST", "/sessions", `{"id":"s"}`, http.StatusCreated)
	for _, to := range []string{"", "nonsense", "ftp://host.example"} {
		a.request(ctx, "POST", "/sessions/s/migrate", fmt.Sprintf(`{"to":%q}`, to), http.StatusBadRequest)
	}
	a.request(ctx, "POST", "/sessions/s/migrate", fmt.Sprintf(`{"to":"http://%s"}`, b.listen()), http.StatusNoContent)
	a.request(ctx, "POST", "/calls", `{"group_id":"s","id":"late","operation":"invite"}`, http.StatusGone)
	a.request(ctx, "POST", "/sessions", `{"id":"s"}`, http.StatusGone)
	b.request(ctx, "POST", "/sessions", `{"id":"s"}`, http.StatusCreated)
}
