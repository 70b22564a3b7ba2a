package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// TestSessionsCommand checks that 'millrace sessions' lists each session once, whatever the page size, and that it can list the
// sessions of one user or only the open ones. With a user's token it lists that user's sessions only.
func TestSessionsCommand(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	dir := t.TempDir()
	s := newCrowd(t, "--model", "script:"+writeConfig(t, filepath.Join(dir, "s.json"), "[]"))
	for i := range 5 {
		s.request(ctx, "POST", "/sessions", fmt.Sprintf(`{"id": "s%d", "user_id": "user%d"}`, i, i%2), http.StatusCreated)
	}
	s.request(ctx, "DELETE", "/threads/s4", "", http.StatusNoContent)
	run := func(wantErr bool, args ...string) (string, string) {
		t.Helper()
		cmd := millrace(t, append([]string{"sessions", "--api", s.api, "--state", s.state}, args...)...)
		var out, said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &said
		if err := cmd.Run(); (err != nil) != wantErr {
			t.Fatalf("sessions %v: %v: %s", args, err, said.String())
		}
		return out.String(), said.String()
	}
	names := func(args ...string) (names []string, next string) {
		t.Helper()
		out, said := run(false, append(args, "--json")...)
		for line := range strings.Lines(out) {
			var b threadBody
			if err := json.Unmarshal([]byte(line), &b); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			names = append(names, b.ID)
		}
		if m := regexp.MustCompile(`--after (\S+)`).FindStringSubmatch(said); m != nil {
			next = m[1]
		}
		slices.Sort(names)
		return names, next
	}
	for _, of := range []struct{ flags, want string }{
		{"--user user1", "s1 s3"}, {"--user user0", "s0 s2 s4"}, {"--user user0 --open", "s0 s2"}, {"--user nobody", ""},
		{"--user user0 --threads", "s0 s2 s4"},
	} {
		if got, next := names(strings.Fields(of.flags)...); strings.Join(got, " ") != of.want || next != "" {
			t.Errorf("%s: %v, and more at %q", of.flags, got, next)
		}
	}
	var all []string
	for place, n := "", 0; n < 100; n++ {
		some, next := names("--limit", "2", "--after", place)
		all = append(all, some...)
		if place = next; next == "" {
			break
		}
		if len(some) != 2 {
			t.Errorf("a list of two has %v", some)
		}
	}
	whole, _ := names()
	if slices.Sort(all); !slices.Equal(all, whole) || len(whole) < 5 {
		t.Errorf("two at a time: %v, all at once: %v", all, whole)
	}
	table, _ := run(false)
	if !regexp.MustCompile(`(?m)^s1 +user1 +- +at rest +\d+ +0 +0 +0\n`).MatchString(table) || !regexp.MustCompile(`(?m)^s4 .* closed `).MatchString(table) {
		t.Errorf("the table is\n%s", table)
	}
	own := writeConfig(t, filepath.Join(dir, "own"), s.tokens["reader"])
	if got, _ := names("--token-file", own); len(got) != 0 {
		t.Errorf("alice is told of %v", got)
	}
	run(true, "--token-file", filepath.Join(dir, "none"))
	if _, said := run(true, "--after", "nowhere"); !strings.Contains(said, "a page before has given") {
		t.Errorf("a place that is none: %s", said)
	}
	run(true, "--limit", "0")
	run(true, "more")
}

// TestSessionsPages checks that the command reads on after a short or an empty page. With pages that never end, it reads no more
// than --limit asks for.
func TestSessionsPages(t *testing.T) {
	t.Parallel()
	const hostile = `\u001b[2J`
	pages := map[string]string{
		"": `{"sessions":[{"id":"a"}],"next":"1"}`, "1": `{"sessions":[],"next":"2"}`, "2": `{"sessions":[{"id":"b` + hostile + `"},{"id":"c"}]}`,
		"endless": `{"sessions":[{"id":"a"},{"id":"b"}],"next":"endless"}`,
	}
	var asked atomic.Int64
	secret := newToken()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.URL.Path != "/sessions" || r.Header.Get("Authorization") != "Bearer "+secret {
			t.Errorf("%s is asked for with %q", r.URL.Path, r.Header.Get("Authorization"))
		}
		fmt.Fprint(w, pages[r.URL.Query().Get("after")])
	}))
	defer web.Close()
	token := writeConfig(t, filepath.Join(t.TempDir(), "token"), secret)
	for _, of := range []struct {
		args, want string
		asked      int64
	}{
		{"--json", `{"id":"a"}` + "\n" + `{"id":"b\u001b[2J"}` + "\n" + `{"id":"c"}` + "\n", 3},
		{"--json --after endless --limit 5", strings.Repeat(`{"id":"a"}`+"\n"+`{"id":"b"}`+"\n", 3), 3},
	} {
		asked.Store(0)
		out, err := millrace(t, append([]string{"sessions", "--api", web.URL, "--token-file", token}, strings.Fields(of.args)...)...).Output()
		if err != nil || string(out) != of.want || asked.Load() != of.asked {
			t.Errorf("%s: %q, %v after %d requests", of.args, out, err, asked.Load())
		}
	}
	out, err := millrace(t, "sessions", "--api", web.URL, "--token-file", token).Output()
	if err != nil || strings.Contains(string(out), "\x1b") || !strings.Contains(string(out), "\nc ") {
		t.Errorf("the table is %q, %v", out, err)
	}
}
