package main

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// TestN30_Bodies sends bodies to the API that are too large, too deep or contain duplicate members. The test fails if one is
// accepted, or if the runtime fails after one.
func TestN30_Bodies(t *testing.T) {
	t.Parallel()
	tool := newMovingTool(t)
	s := serveRuntime(t, filepath.Join(t.TempDir(), "state"), tool.bases[:1])
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s.request(ctx, "GET", "/calls/none/none", "", http.StatusNotFound)
	token, err := findToken("", s.state)
	if err != nil {
		t.Fatal(err)
	}
	send := func(body string) int {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.api+"/calls", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Error(err)
			return 0
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, x := range []struct {
		name, body string
		want       int
	}{
		{"5 MiB", fmt.Sprintf(`{"group_id":"g","id":"large","operation":"late","arguments":{"x":%q}}`, strings.Repeat("x", 5<<20)), 413},
		{"5 MiB of spaces", `{"group_id":"g","id":"spaces","operation":"late"}` + strings.Repeat(" ", 5<<20), 413},
		{"arguments with a depth of 10,000", fmt.Sprintf(`{"group_id":"g","id":"deep","operation":"late","arguments":{"x":%s}}`, deep(10_000)), 400},
		{"an unknown member with a depth of 10,000", fmt.Sprintf(`{"group_id":"g","id":"deep","operation":"late","x":%s}`, deep(10_000)), 400},
		{"a depth of 100,000", deep(100_000), 400},
		{"two equal members", `{"group_id":"g","id":"twice","operation":"late","id":"twice"}`, 400},
		{"two equal members of the arguments", `{"group_id":"g","id":"twice","operation":"late","arguments":{"a":1,"a":1}}`, 400},
		{"two members that are equal when they are read", `{"group_id":"g","id":"twice","operation":"late","arguments":{"a":1,"\u0061":1}}`, 400},
		{"two values", `{"group_id":"g","id":"twice","operation":"late"}{}`, 400},
		{"half of one", `{"group_id":"g","id":"half","operation":"late"`, 400},
		{"an unknown member", `{"group_id":"g","id":"unknown","operation":"late","priority":1}`, 400},
		{"another type", `{"group_id":"g","id":7,"operation":"late"}`, 400},
		{"a list", `[]`, 400},
		{"nothing", ``, 400},
	} {
		if got := send(x.body); got != x.want {
			t.Errorf("%s: %d, want %d", x.name, got, x.want)
		}
	}
	for _, id := range []string{"large", "spaces", "deep", "twice", "half", "unknown"} {
		s.request(ctx, "GET", "/calls/g/"+id, "", http.StatusNotFound)
	}
	if got := send(`{"group_id":"g","id":"good","operation":"late"}`); got != 202 {
		t.Errorf("a call after all that: %d", got)
	}
}
