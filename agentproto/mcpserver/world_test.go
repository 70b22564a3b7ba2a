package mcpserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/agentproto/mcpserver"
)

// calls are calls that a test changes by hand. A version counts changes, and a broadcast announces them.
type calls struct {
	mu       sync.Mutex
	changed  *sync.Cond
	all      map[agentproto.CallKey]*host.Description
	made     []host.Request
	answers  []int
	filled   []string // questions of forms, with their values
	canceled int
	onCall   func(d *host.Description) // sets up a new call
	more     []string                  // additional tools
	events   map[agentproto.CallKey]*agentproto.Events
	looked   int // number of lookups of a call
}

func newCalls() *calls {
	c := &calls{all: map[agentproto.CallKey]*host.Description{}}
	c.changed = sync.NewCond(&c.mu)
	return c
}

func (c *calls) Tools(context.Context, string) ([]host.Tool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	tool := func(name string) host.Tool {
		return host.Tool{Tool: agentproto.Tool{Name: name, Description: "does", InputSchema: []byte(`{"properties":{"a":{"type":"string"}}}`)}}
	}
	all := []host.Tool{tool("one"), tool("two"), {Tool: agentproto.Tool{Name: "odd", InputSchema: []byte(`{"type":"array"}`)}}}
	for _, name := range c.more {
		all = append(all, tool(name))
	}
	return all, nil
}

func (c *calls) Call(_ context.Context, req host.Request) (agentproto.CallKey, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := agentproto.CallKey{GroupID: req.GroupID, ID: req.ID}
	if key.ID == "" {
		key.ID = "c" + string(rune('a'+len(c.all)))
	}
	if c.all[key] != nil {
		return key, host.ErrDuplicateCall
	}
	c.made = append(c.made, req)
	d := &host.Description{Key: key, Version: 1, Created: time.Now()}
	if c.onCall != nil {
		c.onCall(d)
	}
	c.all[key] = d
	return key, nil
}

func (c *calls) Describe(_ context.Context, key agentproto.CallKey) (host.Description, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looked++
	if c.all[key] == nil {
		return host.Description{}, host.ErrUnknownCall
	}
	return *c.all[key], nil
}

func (c *calls) Changed(ctx context.Context, key agentproto.CallKey, after uint64) (host.Description, error) {
	return c.await(ctx, key, func(d *host.Description) bool { return d.Version > after })
}

func (c *calls) await(ctx context.Context, key agentproto.CallKey, wanted func(*host.Description) bool) (host.Description, error) {
	defer context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.changed.Broadcast()
	})()
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		d := c.all[key]
		switch {
		case d == nil:
			return host.Description{}, host.ErrUnknownCall
		case wanted(d):
			return *d, nil
		case ctx.Err() != nil:
			return *d, ctx.Err()
		}
		c.changed.Wait()
	}
}

func (c *calls) AnswerPrompt(_ context.Context, key agentproto.CallKey, number, selected int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.all[key]
	if d.Prompt == nil || d.Prompt.Number != number {
		return nil
	}
	c.answers = append(c.answers, selected)
	d.Prompt, d.State = nil, agentproto.Pending
	if number < 2 && strings.HasPrefix(d.Operation, "twice") {
		ask(d, number+1)
	} else {
		resolve(d, agentproto.ByResult, "done")
	}
	c.changed.Broadcast()
	return nil
}

// AnswerForm fills in a form as a runtime does, and resolves the call once every question has an answer.
func (c *calls) AnswerForm(_ context.Context, key agentproto.CallKey, number int, values map[string]jsontext.Value) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.all[key]
	if d.Prompt == nil || d.Prompt.Number != number {
		return nil
	}
	if err := d.Prompt.Form.Check(values); err != nil {
		return err
	}
	p := *d.Prompt
	for name, v := range values {
		if p.Form.Question(name) != nil {
			c.filled = append(c.filled, name+"="+string(v))
		}
	}
	p.Form = p.Form.Without(func(name string) bool { _, ok := values[name]; return ok })
	if d.Prompt = &p; p.Form.IsZero() {
		d.Prompt = nil
		resolve(d, agentproto.ByResult, "done")
	}
	c.changed.Broadcast()
	return nil
}

func (c *calls) Cancel(_ context.Context, key agentproto.CallKey) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.canceled++
	if d := c.all[key]; d.Resolution == nil {
		resolve(d, agentproto.ByInterruption, "Error: interrupted")
	}
	c.changed.Broadcast()
	return nil
}

// with changes the only call.
func (c *calls) with(do func(d *host.Description)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.all {
		do(d)
	}
	c.changed.Broadcast()
}

func resolve(d *host.Description, cause agentproto.Cause, text string) {
	d.State, d.Prompt = agentproto.Completed, nil
	d.Version++
	d.Resolution = &agentproto.Resolution{Key: d.Key, Cause: cause, Result: &agentproto.ToolResult{Text: &text}}
}

func ask(d *host.Description, number int) {
	d.State = agentproto.ChoicePending
	d.Version++
	d.Prompt = &host.CallPrompt{Number: number, Since: time.Now(), Choice: &agentproto.UserChoice{Prompt: "Which?", Choices: []string{"red", "blue", "green"}, Default: 2}}
}

func authorize(d *host.Description) {
	d.State = agentproto.OAuthPending
	d.Version++
	d.Prompt = &host.CallPrompt{Number: 1, Since: time.Now(), OAuth: &agentproto.OAuth{AuthURL: "https://id.example/start?state=canary"}}
}

// A world is a server over calls.
type world struct {
	t           testing.TB
	calls       *calls
	server      *mcpserver.Server
	caps        string // of the client
	owner, user string
	header      http.Header // added to the headers of the client, or replacing them
}

const (
	withTasks = `{"elicitation":{"form":{},"url":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	formOnly  = `{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	noAsking  = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	noTasks   = `{"elicitation":{"form":{}}}`
)

func newWorld(t *testing.T, o mcpserver.Options) *world {
	calls := newCalls()
	w := newWorldOf(t, o, calls)
	w.calls = calls
	return w
}

// newWorldOf is newWorld with calls other than those that a test changes by hand.
func newWorldOf(t testing.TB, o mcpserver.Options, of mcpserver.Calls) *world {
	w := &world{t: t, caps: withTasks, owner: "alice", header: http.Header{}}
	o.Calls, o.Hosts = of, []string{"mcp.test"}
	o.Owner = func(*http.Request) (mcpserver.Owner, error) {
		if w.owner == "" {
			return mcpserver.Owner{}, errors.New("nobody")
		}
		return mcpserver.Owner{Name: w.owner, UserID: w.user}, nil
	}
	if o.Fast == 0 {
		o.Fast = time.Nanosecond
	}
	var err error
	if w.server, err = mcpserver.New(o); err != nil {
		t.Fatal(err)
	}
	return w
}

// A reply is the answer to a request.
type reply struct {
	status int
	Result map[string]any `json:"result"`
	Error  *struct {
		Code int             `json:"code"`
		Data json.RawMessage `json:"data"`
	} `json:"error"`
	text string
}

// say sends one request of 2026-07-28. Params is a JSON object without its _meta.
func (w *world) say(ctx context.Context, method, params string) reply {
	w.t.Helper()
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"0"},"io.modelcontextprotocol/clientCapabilities":` + w.caps
	if rest, ok := strings.CutPrefix(params, `{"_meta":{`); ok {
		params = "{" + meta + "," + rest
	} else if params == "{}" {
		params = "{" + meta + "}}"
	} else {
		params = "{" + meta + "}," + params[1:]
	}
	r := httptest.NewRequestWithContext(ctx, "POST", "/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`))
	r.Host = "mcp.test"
	var named struct{ Name, TaskID string }
	_ = json.Unmarshal([]byte(params), &named) // no name on error
	for k, v := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Protocol-Version": "2026-07-28",
		"Mcp-Method": method, "Mcp-Name": named.Name + named.TaskID,
	} {
		if v != "" {
			r.Header.Set(k, v)
		}
	}
	for k, v := range w.header {
		r.Header[k] = v
	}
	rec := httptest.NewRecorder()
	w.server.ServeHTTP(rec, r)
	got := reply{status: rec.Code, text: rec.Body.String()}
	for line := range bytes.Lines(rec.Body.Bytes()) {
		line = bytes.TrimPrefix(line, []byte("data: "))
		if bytes.Contains(line, []byte(`"jsonrpc"`)) {
			if err := json.Unmarshal(line, &got); err != nil {
				w.t.Errorf("%s: %v: %s", method, err, line)
			}
		}
	}
	return got
}

// task makes a call that becomes a task, and returns the task ID.
func (w *world) task() string {
	w.t.Helper()
	got := w.say(w.t.Context(), "tools/call", `{"name":"one","arguments":{}}`)
	id, _ := got.Result["taskId"].(string)
	if got.Result["resultType"] != "task" || id == "" {
		w.t.Fatalf("no task: %d %s", got.status, got.text)
	}
	return id
}

func (w *world) get(id string) reply { return w.say(w.t.Context(), "tasks/get", `{"taskId":"`+id+`"}`) }

func (w *world) update(id, responses string) reply {
	return w.say(w.t.Context(), "tasks/update", `{"taskId":"`+id+`","inputResponses":`+responses+`}`)
}

// is checks the code of an error and the status of its answer.
func (r reply) is(t *testing.T, what string, code, status int) {
	t.Helper()
	if r.Error == nil || r.Error.Code != code || status != 0 && r.status != status {
		t.Errorf("%s: %d %s, want the code %d and the status %d", what, r.status, r.text, code, status)
	}
}
