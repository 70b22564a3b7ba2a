package agui_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/agui"
	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/internal/sse"
)

// talker is a model that streams a reply to the user's last message. Its first attempt at "again" fails.
type talker struct{ failed bool }

func (m *talker) Reply(ctx context.Context, r *conversation.Request) (*conversation.Reply, error) {
	return m.Stream(ctx, r, func(conversation.Delta) {})
}

func (m *talker) Stream(ctx context.Context, r *conversation.Request, write func(conversation.Delta)) (*conversation.Reply, error) {
	last := r.Messages[len(r.Messages)-1]
	switch {
	case last.Kind == conversation.Result:
		write(conversation.Delta{Text: "It was "})
		return &conversation.Reply{Text: "It was " + last.Result.Text() + "."}, nil
	case last.Text == "call":
		return &conversation.Reply{Text: "I look.", Calls: []conversation.Call{{ID: "c1", Name: "greet", Arguments: `{"n":1}`}}}, nil
	case last.Text == "again" && !m.failed:
		m.failed = true
		write(conversation.Delta{Text: "Wrong"})
		return nil, &conversation.RetryError{Err: fmt.Errorf("broken")}
	case last.Text == "fail":
		return nil, conversation.Permanent(fmt.Errorf("refused"))
	}
	write(conversation.Delta{Text: "You said "})
	write(conversation.Delta{Text: last.Text})
	return &conversation.Reply{Text: "You said " + last.Text}, nil
}

func start(t *testing.T) (*host.Runtime, *httptest.Server) {
	var tool *httptest.Server
	tool = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/invoke" {
			fmt.Fprintf(w, `{"name":"tools","endpoint":"%s/invoke","tools":[{"name":"greet","description":"","inputSchema":{"type":"object"}}]}`, tool.URL)
			return
		}
		var body bytes.Buffer
		body.ReadFrom(r.Body)
		call, err := agentproto.DecodeInvocation(body.Bytes(), agentproto.Limits{})
		if err != nil {
			t.Error(err)
			return
		}
		text := "fine"
		result, _ := agentproto.Encode(&agentproto.ToolResult{GroupID: call.GroupID, ID: call.ID, Text: &text})
		go func() {
			if resp, err := http.Post(call.CallbackURL, "application/json", bytes.NewReader(result)); err == nil {
				resp.Body.Close()
			}
		}()
	}))
	t.Cleanup(tool.Close)
	rt, err := host.Start(t.Context(), host.Options{Toolsets: []string{tool.URL}, Model: &talker{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		rt.Stop(ctx)
	})
	web := httptest.NewServer(agui.New(rt, agui.Options{}))
	t.Cleanup(web.Close)
	return rt, web
}

// run sends a run request and returns its events.
func run(t *testing.T, web *httptest.Server, messages string) (status int, events []map[string]any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	body := fmt.Sprintf(`{"threadId":"t1","runId":"r1","state":{},"tools":[],"context":[],"forwardedProps":{},"messages":[%s]}`, messages)
	r, err := http.NewRequestWithContext(ctx, "POST", web.URL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	for in := sse.NewReader(resp.Body, 1<<20); resp.StatusCode == 200; {
		e, err := in.Next()
		if err != nil {
			break
		}
		var event map[string]any
		if err := json.Unmarshal(e.Data, &event); err != nil {
			t.Fatalf("%s: %v", e.Data, err)
		}
		events = append(events, event)
	}
	return resp.StatusCode, events
}

// types lists the types of all events except state snapshots, with their text.
func types(events []map[string]any) string {
	var all []string
	for _, e := range events {
		if e["type"] == "STATE_SNAPSHOT" {
			continue
		}
		all = append(all, strings.TrimSpace(fmt.Sprint(e["type"], " ", orEmpty(e["delta"]), orEmpty(e["content"]))))
	}
	return strings.Join(all, "; ")
}

func orEmpty(v any) any {
	if v == nil {
		return ""
	}
	return v
}

// texts joins the text deltas of a run.
func texts(events []map[string]any) (text string) {
	for _, e := range events {
		if e["type"] == "TEXT_MESSAGE_CONTENT" {
			text += e["delta"].(string)
		}
	}
	return text
}

// shown returns the text of the last message that a client shows after events. The deltas build this text. A client that
// connects too late for the deltas receives a snapshot instead.
func shown(events []map[string]any) (text string) {
	for _, e := range events {
		switch e["type"] {
		case "TEXT_MESSAGE_START":
			text = ""
		case "TEXT_MESSAGE_CONTENT":
			text += e["delta"].(string)
		case "MESSAGES_SNAPSHOT":
			text = ""
			if all := e["messages"].([]any); len(all) > 0 {
				text, _ = all[len(all)-1].(map[string]any)["content"].(string)
			}
		}
	}
	return text
}

// TestRuns sends a message, has a tool called, makes an attempt fail and the model refuse, and then sends nothing new.
func TestRuns(t *testing.T) {
	_, web := start(t)
	_, first := run(t, web, `{"id":"u1","role":"user","content":"hello"}`)
	if got := types(first); !strings.HasPrefix(got, "RUN_STARTED; MESSAGES_SNAPSHOT; TEXT_MESSAGE_START; TEXT_MESSAGE_CONTENT You said") ||
		!strings.HasSuffix(got, "; TEXT_MESSAGE_END; RUN_FINISHED") || texts(first) != "You said hello" {
		t.Errorf("a run: %s", got)
	}
	_, called := run(t, web, `{"id":"m1","role":"user","content":"hello"},{"id":"m2","role":"assistant","content":"You said hello"},{"id":"u2","role":"user","content":[{"type":"text","text":"call"}]}`)
	if got := types(called); !strings.Contains(got, "TEXT_MESSAGE_END; TOOL_CALL_START; TOOL_CALL_ARGS {\"n\":1}; TOOL_CALL_END; TOOL_CALL_RESULT fine; TEXT_MESSAGE_START; TEXT_MESSAGE_CONTENT It was") ||
		texts(called) != "I look.It was fine." {
		t.Errorf("a run with a call: %s", got)
	}
	_, again := run(t, web, `{"id":"u3","role":"user","content":"again"}`)
	if got := types(again); !strings.HasSuffix(got, "; RUN_FINISHED") || shown(again) != "You said again" {
		t.Errorf("a run with a failed attempt: %s", got)
	}
	_, failed := run(t, web, `{"id":"u4","role":"user","content":"fail"}`)
	if got := types(failed); !strings.HasSuffix(got, "RUN_ERROR") {
		t.Errorf("a run whose model refuses: %s", got)
	}
	_, look := run(t, web, `{"id":"m1","role":"user","content":"hello"}`)
	if got := types(look); got != "RUN_STARTED; MESSAGES_SNAPSHOT; RUN_FINISHED" {
		t.Errorf("a run that says nothing new: %s", got)
	}
	history := look[1]["messages"].([]any)
	if len(history) != 9 || history[3].(map[string]any)["toolCalls"] == nil || history[4].(map[string]any)["toolCallId"] != "c1" {
		t.Errorf("the history is %v", history)
	}
	validate(t, first, called, again, failed, look)
}

// TestRefusals checks that an invalid run is refused and opens no thread.
func TestRefusals(t *testing.T) {
	rt, web := start(t)
	for _, body := range []string{
		``, `[]`, `{"threadId":"t1"}`, `{"threadId":"","runId":"r"}`,
		`{"threadId":"t1","runId":"r","tools":[{"name":"x"}],"messages":[{"id":"u","role":"user","content":"hi"}]}`,
		`{"threadId":"t1","runId":"r","resume":[{}],"messages":[{"id":"u","role":"user","content":"hi"}]}`,
		`{"threadId":"t1","runId":"r","messages":[{"id":"u","role":"user","content":[{"type":"image"}]}]}`,
	} {
		resp, err := http.Post(web.URL, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d", body, resp.StatusCode)
		}
	}
	if st, err := rt.Thread("t1").Status(t.Context()); err == nil && st.Session != nil {
		t.Errorf("a run that was refused opened a thread: %+v", st)
	}
}

// schemasEnv names a folder with @ag-ui/core 0.0.42, a version with schemas, in its node_modules.
const schemasEnv = "MILLRACE_AGUI_MODULES"

// validate checks events against the protocol's own schemas, if those are installed.
func validate(t *testing.T, runs ...[]map[string]any) {
	t.Helper()
	dir := os.Getenv(schemasEnv)
	if dir == "" {
		t.Logf("SKIPPED: events are not validated with @ag-ui/core: set %s to a folder in which 'npm i @ag-ui/core@0.0.42' was run", schemasEnv)
		return
	}
	data, err := json.Marshal(runs)
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(t.TempDir(), "check.cjs")
	text := `const {EventSchemas} = require(require.resolve("@ag-ui/core", {paths: [process.argv[2]]}));
let n = 0;
for (const run of JSON.parse(require("fs").readFileSync(0, "utf8"))) for (const e of run) { EventSchemas.parse(e); n++ }
console.log(n)`
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", script, dir)
	cmd.Stdin = bytes.NewReader(data)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("the schemas refuse an event: %v\n%s", err, out)
		return
	}
	t.Logf("%s events are as the schemas have them", bytes.TrimSpace(out))
}

// TestRunRepeated repeats requests whose answer was lost, during the turn and after it. The message is sent once. A different
// text under the same id is a new message, and so is the same text under a different id.
func TestRunRepeated(t *testing.T) {
	rt, web := start(t)
	lost, cancel := context.WithCancel(t.Context())
	const message = `{"id":"u1","role":"user","content":"hello"}`
	body := `{"threadId":"t1","runId":"r1","messages":[` + message + `]}`
	r, err := http.NewRequestWithContext(lost, "POST", web.URL, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	cancel()
	for range 3 {
		_, again := run(t, web, message)
		if got := types(again); !strings.HasPrefix(got, "RUN_STARTED; MESSAGES_SNAPSHOT") || !strings.HasSuffix(got, "RUN_FINISHED") {
			t.Errorf("the run again is %s", got)
		}
	}
	run(t, web, `{"id":"u1","role":"user","content":"hello again"}`)
	run(t, web, `{"id":"u2","role":"user","content":"hello"}`)
	run(t, web, `{"role":"user","content":"without an id"}`)
	run(t, web, `{"role":"user","content":"without an id"}`)
	history, err := rt.Thread("t1").History(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, m := range history {
		if m.Text != "" && m.Kind == conversation.User || m.Kind == conversation.Assistant {
			said = append(said, m.Text)
		}
	}
	if got := strings.Join(said, "; "); got != "hello; You said hello; hello again; You said hello again; hello; You said hello; without an id; You said without an id" {
		t.Errorf("said is %s", got)
	}
}
