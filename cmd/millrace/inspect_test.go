package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/inspect"
)

const pageToken = "0123456789abcdef0123456789abcdef"

// pageOf serves the page of a flow that has received 3 words, which wait at an output.
func pageOf(t *testing.T) *httptest.Server {
	t.Helper()
	type stall struct{ dataflow.Process }
	flow := dataflow.NewWithOptions(dataflow.Options{Count: true})
	in, words := dataflow.Input[string](dataflow.At[stall](flow), "words")
	dataflow.Output(dataflow.Named("loud", dataflow.Map(words, strings.ToUpper)), "kept")
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := in.Send(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/flow/", http.StripPrefix("/flow", inspect.Handler(app, inspect.Options{Name: "words", Token: pageToken})))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

// inspected runs the command with a token in its environment, and returns its output and exit status.
func inspected(t *testing.T, token string, args ...string) (out, errs string, code int) {
	t.Helper()
	cmd := millrace(t, append([]string{"inspect"}, args...)...)
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	cmd.Env = append(cmd.Env, inspectTokenEnv+"="+token)
	_ = cmd.Run() // the status is returned
	return o.String(), e.String(), cmd.ProcessState.ExitCode()
}

// TestInspect prints every view of a running flow, in every format.
func TestInspect(t *testing.T) {
	t.Parallel()
	url := pageOf(t).URL + "/flow/"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(pageToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{url}, []string{"words is healthy.\n", "\nstall     runs ", "\nkept    stall     3      3 ", "\ndataflow.Map#1     loud   stall     3 "}},
		{[]string{strings.TrimPrefix(url, "http://"), "locations"}, []string{"location  state", "\nstall     runs "}},
		{[]string{"operators", url}, nil},
		{[]string{url, "operators"}, []string{"\ndataflow.Input#0   words"}},
		{[]string{url, "outputs"}, []string{"\nkept "}},
		{[]string{url, "partitions"}, []string{"partition  location"}},
		{[]string{url, "graph"}, []string{"dataflow.Map#1     loud   stall     #2 "}},
		{[]string{url, "graph", "--dot"}, []string{"digraph flow {"}},
		{[]string{"--mermaid", url, "graph"}, []string{"flowchart "}},
		{[]string{url, "graph", "--json"}, []string{`"label": "loud"`}},
		{[]string{url, "--json"}, []string{`"health": {`, `"given": 3`}},
	} {
		out, errs, code := inspected(t, pageToken, c.args...)
		if c.want == nil {
			if code != 2 {
				t.Errorf("%v: %d, %s", c.args, code, errs)
			}
			continue
		}
		for _, want := range c.want {
			if code != 0 || !strings.Contains(out, want) || errs != "" {
				t.Errorf("%v: %d, %s, has no %q in\n%s", c.args, code, errs, want, out)
			}
		}
		if c.args[len(c.args)-1] == "--json" && !json.Valid([]byte(out)) {
			t.Errorf("%v: no JSON: %s", c.args, out)
		}
	}
	out, errs, code := inspected(t, "", url, "graph", "--svg", "--token-file", file)
	if err := xml.Unmarshal([]byte(out), new(struct{})); err != nil || code != 0 || !strings.Contains(out, "<svg ") {
		t.Errorf("%d, %s, %v, %s", code, errs, err, out)
	}
}

// TestInspectSick inspects an unhealthy flow whose page cannot be trusted.
func TestInspectSick(t *testing.T) {
	t.Parallel()
	status := `{"at": "2026-01-01T00:01:00Z", "error": "out\u001b[2J\nof luck", "stopped": [
		{"location": "hall", "partition": 3, "since": "2026-01-01T00:00:00Z", "why": "nobody reads\nwords", "operator": 7}],
		"locations": [{"name": "ha\u202ell\nx", "stopped": true}], "operators": [{"entered": 1}, {"entered": 2}], "outputs": [{"operator": 9, "port": "kept"}],
		"partitions": [{"number": 3, "location": "hall", "state": "stopped"}], "slices": []}`
	graph := `{"name": "votes\r", "locations": [], "operators": [{"name": "a.B", "location": 4}], "edges": [{"from": 5, "to": -1}]}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/healthz":
			w.WriteHeader(http.StatusServiceUnavailable)
			io.WriteString(w, `{"status": "not healthy", "reasons": ["blocked", "odd\u001b"]}`)
		case "/v1/status":
			io.WriteString(w, status)
		case "/v1/graph":
			io.WriteString(w, graph)
		}
	}))
	t.Cleanup(server.Close)
	for _, view := range []string{"", "locations", "operators", "outputs", "partitions", "graph"} {
		args := []string{server.URL}
		if view != "" {
			args = append(args, view)
		}
		out, errs, code := inspected(t, "", args...)
		if code != 1 || errs != "" || strings.ContainsAny(out, "\x1b\r\u202e") {
			t.Errorf("%s: %d, %q, %q", view, code, errs, out)
		}
		if view != "" {
			continue
		}
		for _, want := range []string{
			`votes\u{d} is not healthy: a location has stood still for ten seconds or longer; odd\u{1b}.` + "\n", "It has ended: out\\u{1b}[2J\\u{a}of luck\n",
			"Partition 3 of hall does not run since 1m0s: nobody reads\\u{a}words\n", "Elements are not counted",
			"\nha\\u{202e}ll\\u{a}x  stopped ",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("there is no %q in\n%s", want, out)
			}
		}
	}
	if out, errs, code := inspected(t, "", server.URL, "--json"); code != 1 || errs != "" || strings.Contains(out, "\x1b") || !json.Valid([]byte(out)) {
		t.Errorf("%d, %q, %q", code, errs, out)
	}
}

// TestInspectNothing checks that a missing answer and a wrong command line have different exit codes.
func TestInspectNothing(t *testing.T) {
	t.Parallel()
	page := pageOf(t).URL
	odd := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }))
	t.Cleanup(odd.Close)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"http://" + freeAddress(t)}, 3, "connection refused"},
		{[]string{page + "/flow"}, 3, "asks for a token: give it in " + inspectTokenEnv},
		{[]string{page}, 3, "is it mounted elsewhere"},
		{[]string{odd.URL}, 3, "invalid character"},
		{nil, 2, "no URL of a page"},
		{[]string{"ftp://x"}, 2, "is no URL of a page"},
		{[]string{page + "?a=b"}, 2, "is no URL of a page"},
		{[]string{page, "edges"}, 2, "there is no edges"},
		{[]string{page, "graph", "more"}, 2, "what is more?"},
		{[]string{page, "--dot"}, 2, "are for graph"},
		{[]string{page, "graph", "--dot", "--json"}, 2, "one of --json"},
		{[]string{page, "--watch", "-1s"}, 2, "--watch must be positive"},
		{[]string{page, "--token-file", "none"}, 2, "no such file"},
		{[]string{"-h"}, 0, "usage: millrace inspect URL"},
	} {
		if out, errs, code := inspected(t, "", c.args...); code != c.code || !strings.Contains(errs, c.want) || out != "" {
			t.Errorf("%v: %d, want %d with %q\n%s%s", c.args, code, c.code, c.want, errs, out)
		}
	}
}

// TestInspectWatch prints repeatedly until it is interrupted.
func TestInspectWatch(t *testing.T) {
	t.Parallel()
	cmd := millrace(t, "inspect", pageOf(t).URL+"/flow", "--watch", "1ms", "--json")
	cmd.Env = append(cmd.Env, inspectTokenEnv+"="+pageToken)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	printed := 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if line := lines.Text(); line != "" {
			if printed++; !json.Valid([]byte(line)) {
				t.Error(line)
			}
		}
		if printed == 3 {
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Error(err)
			}
			break
		}
	}
	io.Copy(io.Discard, out)
	if err := cmd.Wait(); err != nil || printed != 3 {
		t.Error(fmt.Sprintf("%d lines", printed), err)
	}
}

// TestBusiest checks that the busiest operators come first, and that idle ones are omitted.
func TestBusiest(t *testing.T) {
	s := &inspect.Snapshot{Operators: []inspect.Operator{{Kept: 5}, {}, {Calls: 1}, {Entered: 2}, {Entered: 9, Kept: 1}}}
	if got := newReport(s, &graphBody{Operators: make([]graphOperator, 6)}, nil).busiest(); !slices.Equal(got, []int{4, 3, 2, 0}) {
		t.Errorf("the busiest are %v", got)
	}
	s.Operators = make([]inspect.Operator, 20)
	for i := range s.Operators {
		s.Operators[i].Entered = uint64(i)
	}
	if got := newReport(s, &graphBody{Operators: make([]graphOperator, 20)}, nil).busiest(); len(got) != busiest || got[0] != 19 {
		t.Errorf("the busiest are %v", got)
	}
}
