package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"testing"
)

// TestLists reads sessions, threads and calls page by page: each appears on one page. An invalid page is refused, and the runtime
// continues.
func TestLists(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, tools := startTools(t, "clock")
	dir := t.TempDir()
	s := serveRuntime(t, filepath.Join(dir, "state"), tools, "--model", "script:"+writeConfig(t, filepath.Join(dir, "s.json"), "[]"))
	const many = 23
	for i := range many {
		s.request(ctx, "POST", "/sessions", fmt.Sprintf(`{"id": "s%d"}`, i), http.StatusCreated)
		s.request(ctx, "POST", "/calls", fmt.Sprintf(`{"group_id": "g%d", "id": "c%d", "operation": "now"}`, i%2, i), http.StatusAccepted)
		s.request(ctx, "GET", fmt.Sprintf("/calls/g%d/c%d?wait=60s", i%2, i), "", http.StatusOK)
	}
	pages := func(path, name string, limit int) (n, requests int) {
		seen := map[string]bool{}
		for after := ""; ; {
			u := fmt.Sprintf("%s&limit=%d&after=%s", path, limit, url.QueryEscape(after))
			_, text := s.request(ctx, "GET", u, "", http.StatusOK)
			var page map[string]json.RawMessage
			var all []struct{ ID string }
			if err := json.Unmarshal(text, &page); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(page[name], &all); err != nil || len(all) > limit {
				t.Fatalf("%s: %s, %v", u, text, err)
			}
			requests++
			for _, e := range all {
				if seen[e.ID] {
					t.Errorf("%s is on two pages of %s", e.ID, path)
				}
				seen[e.ID] = true
			}
			after = ""
			if next := page["next"]; next != nil {
				if err := json.Unmarshal(next, &after); err != nil {
					t.Fatal(err)
				}
			}
			if after == "" {
				return len(seen), requests
			}
		}
	}
	for _, of := range []struct {
		path, name string
		want       int
	}{
		{"/sessions?", "sessions", many}, {"/threads?", "threads", many}, {"/calls?", "calls", many},
		{"/calls?thread=g1", "calls", many / 2}, {"/calls?state=open", "calls", 0}, {"/calls?state=completed", "calls", many},
	} {
		for _, limit := range []int{1, 5, 500} {
			if n, requests := pages(of.path, of.name, limit); n != of.want || of.want > 0 && limit == 500 && requests != 1 || requests < of.want/limit {
				t.Errorf("%s has %d entries in %d pages of %d, want %d", of.path, n, requests, limit, of.want)
			}
		}
	}
	for _, bad := range []string{
		"limit=0", "limit=501", "limit=-1", "limit=x", "limit=1e2", "limit=99999999999999999999", "limit=1&limit=2", "after=x", "after=1", "after=-1.0", "after=0.-1",
		"after=0.4294967296", "after=99999999999999999999.0", "after=0.0.0", "after=0.%00", "after=1.1&after=1.2", "aftr=0.0", "state=new", "limit=%zz", "thread=a;b",
	} {
		s.request(ctx, "GET", "/calls?"+bad, "", http.StatusBadRequest)
	}
	for _, beyond := range []string{"0.4294967295", "1.0", "9223372036854775807.4294967295"} {
		if _, text := s.request(ctx, "GET", "/calls?after="+beyond, "", http.StatusOK, http.StatusBadRequest); len(text) > 100 {
			t.Errorf("behind the end there is %s", text)
		}
	}
	s.request(ctx, "GET", "/calls?limit=1", "", http.StatusOK)
}
