package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/internal/overlap"
	"github.com/millrace/millrace/internal/plain"
)

// actEnv makes the test binary act as the command, so that tests run real processes of the
// current code.
const actEnv = "MILLRACE_ACT"

func TestMain(m *testing.M) {
	if err := signPid(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	switch os.Getenv(actEnv) {
	case "1":
		main()
		return
	case "curl":
		if err := curl(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	overlap.Tests()
	os.Exit(m.Run())
}

// millrace returns the command as a process.
func millrace(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), actEnv+"=1")
	return cmd
}

// TestDemo runs the demo as a user does, and checks its last line.
func TestDemo(t *testing.T) {
	t.Parallel()
	cmd := millrace(t, "demo", "--json")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, out.Bytes())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var got totals
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &got); err != nil {
		t.Fatalf("%v\n%s", err, out.Bytes())
	}
	want := totals{Calls: len(scenes), Results: len(scenes), Expected: len(scenes), DuplicatesDropped: wantDuplicates, LateDropped: wantLate}
	s := got.Session
	if s.Forwarded < 2 || s.Messages <= demoTicks+len(answers) {
		t.Errorf("%d callbacks handed on, %d messages", s.Forwarded, s.Messages)
	}
	want.Session = sessionTotals{
		Calls: len(answers), Results: len(answers), Events: demoTicks, Moved: true,
		Messages: s.Messages, Expected: s.Messages, Forwarded: s.Forwarded, // these depend on the speed of the model
	}
	if got != want {
		t.Errorf("got %+v, want %+v\n%s", got, want, out.Bytes())
	}
	for _, s := range scenes {
		if !strings.Contains(out.String(), s.what) {
			t.Errorf("the table does not say %q\n%s", s.what, out.Bytes())
		}
	}
	for _, a := range answers {
		if !strings.Contains(out.String(), a.what) {
			t.Errorf("the conversation does not say %q\n%s", a.what, out.Bytes())
		}
	}
}

// startTool starts the example servers clock and slow, and returns their URLs.
func startTool(t testing.TB) (cmd *exec.Cmd, urls []string) {
	t.Helper()
	return startTools(t, "clock", "slow")
}

// startTools starts the named example servers and returns their URLs.
func startTools(t testing.TB, names ...string) (cmd *exec.Cmd, urls []string) {
	t.Helper()
	cmd = millrace(t, append([]string{"tool", "--port", "0", "--leash"}, names...)...)
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	lines := bufio.NewScanner(out)
	for len(urls) < len(names) && lines.Scan() {
		urls = append(urls, strings.Fields(lines.Text())[1])
	}
	if len(urls) < len(names) {
		t.Fatal("the tool servers did not start")
	}
	return cmd, urls
}

// callsFile writes n calls, each completed by line, and returns the name of the file.
func callsFile(t *testing.T, n int, line func(i int) string) string {
	t.Helper()
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, `{"group_id":"thread-%d","id":"call-%d",%s}`+"\n", i%25, i, line(i))
	}
	name := filepath.Join(t.TempDir(), "calls.jsonl")
	if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// readResults reads results and checks that each of n calls has one.
func readResults(t *testing.T, out []byte, n int) map[string]resultLine {
	t.Helper()
	results := make(map[string]resultLine)
	for line := range bytes.Lines(out) {
		var r resultLine
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if _, ok := results[r.ID]; ok {
			t.Errorf("%s has two results", r.ID)
		}
		results[r.ID] = r
	}
	if len(results) != n {
		t.Errorf("%d calls have results, want %d", len(results), n)
	}
	return results
}

// TestRunMixed makes 1,000 calls of many kinds.
func TestRunMixed(t *testing.T) {
	_, urls := startTool(t)
	kinds := []struct {
		line, cause string
		ok          bool
	}{
		{`"operation":"echo","arguments":{"text":"hello"}`, "tool_result", true},
		{`"operation":"add","arguments":{"a":1,"b":2}`, "tool_result", true},
		{`"operation":"sleep","arguments":{"ms":120}`, "tool_result", true},
		{`"operation":"fail","arguments":{"reason":"because"}`, "tool_result", false},
		{`"operation":"thrice","arguments":{"text":"ding"}`, "tool_result", true},
		{`"operation":"nosuch"`, "rejected", false},
		{`"operation":"add","arguments":{"a":"one"}`, "rejected", false},
	}
	file := callsFile(t, 1000, func(i int) string { return kinds[i%len(kinds)].line })
	cmd := millrace(t, "run", "--tool", urls[0], "--tool", urls[1], file)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.Bytes())
	}
	results := readResults(t, out, 1000)
	for i := range 1000 {
		r, want := results[fmt.Sprintf("call-%d", i)], kinds[i%len(kinds)]
		if r.Cause != want.cause || r.OK != want.ok {
			t.Errorf("call %d resolved by %s, ok %t: %s; want %s, %t", i, r.Cause, r.OK, r.Text, want.cause, want.ok)
		}
	}
	if !strings.Contains(stderr.String(), "1000 calls, 1000 results") {
		t.Errorf("standard error: %s", stderr.Bytes())
	}
}

// TestRunKilled kills the tool servers after half of the results. Every call still has one
// result.
func TestRunKilled(t *testing.T) {
	t.Parallel()
	tools, urls := startTool(t)
	const calls = 200
	file := callsFile(t, calls, func(i int) string {
		if i < calls/2 {
			return `"operation":"echo","arguments":{"text":"x"}`
		}
		return `"operation":"sleep","arguments":{"ms":60000}`
	})
	cmd := millrace(t, "run", "--timeout", "3s", "--tool", urls[0], "--tool", urls[1], file)
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	lines := bufio.NewScanner(pipe)
	for n := 1; lines.Scan(); n++ {
		out.Write(lines.Bytes())
		out.WriteByte('\n')
		if n == calls/2 {
			if err := tools.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	for id, r := range readResults(t, out.Bytes(), calls) {
		if r.OK != (r.Operation == "echo") || !r.OK && r.Cause != agentproto.ByTimeout.String() && r.Cause != agentproto.ByDispatch.String() {
			t.Errorf("%s %s: ok %t by %s: %s", id, r.Operation, r.OK, r.Cause, r.Text)
		}
	}
}

// TestRunPrintsNothingHidden has a tool server whose every text contains terminal controls,
// characters that reorder text, and invisible ones. None of them is printed unescaped, and the
// JSON output still has the original meaning.
func TestRunPrintsNothingHidden(t *testing.T) {
	const hidden = "\u009b2J\u202Eevil\u2066\u200B\u200D\U000E0041\U000E0101\u007f\x1b[31m\u0007\r"
	said, err := json.Marshal("said " + hidden)
	if err != nil {
		t.Fatal(err)
	}
	var tool *httptest.Server
	tool = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/.well-known/rap-toolset":
			fmt.Fprintf(w, `{"name":"set","endpoint":"%s/invoke","tools":[{"name":"say","description":"d","inputSchema":{"type":"object","required":[%s]}},
				{"name":"echo","description":"d","inputSchema":{"type":"object"}}]}`, tool.URL, said)
		case "/invoke":
			var inv struct {
				ID          string
				GroupID     string `json:"group_id"`
				CallbackURL string `json:"callback_url"`
			}
			if err := json.NewDecoder(r.Body).Decode(&inv); err != nil {
				t.Error(err)
			}
			go func() { // first a wrong message, which is logged
				for _, members := range []string{`"type":"user_choice","prompt":` + string(said) + `,"choices":["a",` + string(said) + `],"default":1,"response_url":"` + tool.URL + `/answer"`, `"type":"tool_result","text":` + string(said)} {
					resp, err := http.Post(inv.CallbackURL, "application/json", strings.NewReader(fmt.Sprintf(`{%s,"group_id":%q,"id":%q}`, members, inv.GroupID, inv.ID)))
					if err != nil {
						t.Error(err)
						return
					}
					resp.Body.Close()
				}
			}()
		}
	}))
	defer tool.Close()
	bad := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"name":"bad","endpoint":%s,"tools":[{"name":%s,"description":"d","inputSchema":{}}]}`, said, said)
	}))
	defer bad.Close()
	cmd := millrace(t, "run", "--tool", tool.URL, "--tool", bad.URL, "-")
	cmd.Stdin = strings.NewReader(`{"group_id":"t","id":"1","operation":"say"}` + "\n" + `{"group_id":"t","id":"2","operation":"echo"}` + "\n" + `{"group_id":` + string(said) + `,"operation":"echo"}` + "\n")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, _ := cmd.Output() // the last call has an invalid ID
	for name, text := range map[string][]byte{"output": out, "error": stderr.Bytes()} {
		if !utf8.Valid(text) || bytes.ContainsFunc(text, func(r rune) bool { return r != '\n' && plain.Hidden(r) }) {
			t.Errorf("standard %s has something hidden: %q", name, text)
		}
	}
	results := readResults(t, out, 2)
	if got := results["2"].Text; got != "said "+hidden {
		t.Errorf("the result is %q, error %s", got, stderr.Bytes())
	}
}

// TestRunBadLines checks that an invalid line is reported with its number, and that the other calls are made.
func TestRunBadLines(t *testing.T) {
	_, urls := startTool(t)
	tests := []struct{ line, want string }{
		{`{`, `-:1: not a call: `},
		{`{"operation":"echo"}`, `-:1: not a call: member "group_id" is missing or empty`},
		{`{"group_id":"t"}`, `-:1: not a call: member "operation" is missing or empty`},
		{`{"group_id":"t","operation":"echo","text":"x"}`, `"text"`},
		{`{"group_id":"t","operation":"echo","group_id":"u"}`, `group_id`},
		{`{"group_id":"t","id":"good","operation":"echo","arguments":{"text":"x"}}`, `identifier was used before`},
	}
	for _, test := range tests {
		cmd := millrace(t, "run", "--tool", urls[0], "-")
		good := `{"group_id":"t","id":"good","operation":"echo","arguments":{"text":"x"}}`
		cmd.Stdin = strings.NewReader(test.line + "\n\n" + good + "\n")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if code := cmd.ProcessState.ExitCode(); code != 1 {
			t.Errorf("%s: exit %d, %v", test.line, code, err)
		}
		readResults(t, out, 1)
		if !strings.Contains(stderr.String(), test.want) {
			t.Errorf("%s: standard error is %q, want %q in it", test.line, stderr.String(), test.want)
		}
	}
}

// TestMisuse checks that a wrong command line exits with 2 and a helpful message.
func TestMisuse(t *testing.T) {
	tests := []struct {
		args []string
		want string
	}{
		{nil, "usage: millrace COMMAND"},
		{[]string{"dance"}, `there is no command "dance"`},
		{[]string{"run"}, "give at least one --tool URL"},
		{[]string{"run", "--tool", "http://x", "a", "b"}, "more than one file"},
		{[]string{"run", "--toll", "x"}, "flag provided but not defined"},
		{[]string{"tool", "hammer"}, `there is no server "hammer"`},
		{[]string{"demo", "now"}, "it takes no arguments"},
		{[]string{"tool", "--port", "many"}, "invalid value"},
		{[]string{"serve", "--state", "x", "--tool", "http://x", "--allow-network", "ten"}, "-allow-network"},
		{[]string{"serve", "--state", "x", "--tool", "http://x", "--secret", "http://x"}, "it has to be URL=FILE"},
		{[]string{"serve", "--state", "x", "--tool", "http://x", "--secret", "http://x=/no/such/file"}, "no such file"},
	}
	for _, test := range tests {
		cmd := millrace(t, test.args...)
		out, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != 2 {
			t.Errorf("%q: exit %d, %v", test.args, code, err)
		}
		if !strings.Contains(string(out), test.want) {
			t.Errorf("%q says %q, want %q in it", test.args, out, test.want)
		}
	}
}
