package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestServeMonitor reads the monitor pages of a runtime process without a token.
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

// TestServeInspect reads what the runtime remembers of a call: with the token of the API, sent as by a program and as by a
// browser, and not without it.
func TestServeInspect(t *testing.T) {
	t.Parallel()
	_, tools := startTool(t)
	s := serveRuntime(t, t.TempDir(), tools)
	s.makeCall(t.Context(), 1)
	token, err := findToken(s.tokenFile, s.state)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(path string, set func(*http.Request)) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "GET", s.api+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		set(r)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(text)
	}
	bearer := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
	person := func(r *http.Request) { r.SetBasicAuth("anybody", token) }
	for _, path := range []string{"/inspect/", "/inspect/v1/graph", "/inspect/keys"} {
		for who, set := range map[string]func(*http.Request){"a program": bearer, "a person": person} {
			if status, text := ask(path, set); status != http.StatusOK || text == "" {
				t.Errorf("%s by %s: %d %s", path, who, status, text)
			}
		}
		for who, set := range map[string]func(*http.Request){
			"nobody":       func(*http.Request) {},
			"who guesses":  func(r *http.Request) { r.SetBasicAuth("anybody", "wrong") },
			"another page": func(r *http.Request) { bearer(r); r.Header.Set("Origin", "http://evil.example") },
		} {
			if status, text := ask(path, set); status != http.StatusUnauthorized && status != http.StatusForbidden {
				t.Errorf("%s by %s: %d %s", path, who, status, text)
			}
		}
	}
	for path, want := range map[string]string{
		"/inspect/agents/":                tools[0],
		"/inspect/agents/calls":           ">t1</a>",
		"/inspect/agents/v1/calls":        `"thread": "t1"`,
		"/inspect/agents/v1/prompts":      `"prompts": []`,
		"/inspect/agents/v1/status":       `"url": "` + tools[0] + `"`,
		"/inspect/members":                "Members",
		"/inspect/v1/members":             `"owned": true`,
		"/inspect/history":                "History",
		"/inspect/v1/history?partition=0": `"steps": [`,
	} {
		if status, text := ask(path, person); status != http.StatusOK || !strings.Contains(strings.ToLower(text), strings.ToLower(want)) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	for word, want := range map[string]string{
		"":        "agent runtime is healthy.",
		"servers": tools[0],
		"threads": "",
		"calls":   "thread  call",
		"prompts": "thread  call",
	} {
		out, errs, code := inspected(t, token, s.api+"/inspect", word)
		if word == "threads" { // the runtime has no model
			if code != 3 || !strings.Contains(errs, "no model") {
				t.Errorf("%s: %d %s%s", word, code, out, errs)
			}
			continue
		}
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("%s: %d %s%s", word, code, out, errs)
		}
		if out, _, code := inspected(t, token, s.api+"/inspect", word, "--json"); code != 0 || !json.Valid([]byte(out)) {
			t.Errorf("%s in JSON: %d %s", word, code, out)
		}
	}
	retry := func(r *http.Request) {
		person(r)
		r.Method, r.Header["Content-Type"] = "POST", []string{"application/x-www-form-urlencoded"}
		r.Body = io.NopCloser(strings.NewReader("partition=0&id=1&do=retry"))
	}
	if status, text := ask("/inspect/members", retry); status == http.StatusMethodNotAllowed || status == http.StatusForbidden || status < 400 {
		t.Errorf("a retry of what is not parked: %d %s", status, text)
	}
	if status, _ := ask("/stats", person); status != http.StatusUnauthorized {
		t.Errorf("the API takes a password: %d", status)
	}
	key := `{"GroupID": "t1", "ID": "c1"}`
	status, found := ask("/inspect/v1/keys?type=agentproto.CallKey&key="+url.QueryEscape(key), bearer)
	if status != http.StatusOK || !strings.Contains(found, `"kind": "table(agentproto.CallKey,`) {
		t.Errorf("of a call: %d %s", status, found)
	}
}
