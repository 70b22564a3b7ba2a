package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var mcpKills = flag.Int("mcp.kills", 4, "kill -9 of a runtime and its front by TestMCPKilled")

// A speaker is an MCP client that sends requests of revision 2026-07-28 over one of the two transports.
type speaker interface {
	say(ctx context.Context, id int, method string, params map[string]any) (*mcpAnswer, error)
}

type mcpAnswer struct {
	ID     int `json:"id"`
	Result struct {
		ResultType    string                     `json:"resultType"`
		RequestState  string                     `json:"requestState"`
		TaskID        string                     `json:"taskId"`
		Status        string                     `json:"status"`
		InputRequests map[string]json.RawMessage `json:"inputRequests"`
		Result        json.RawMessage            `json:"result"`
		Content       json.RawMessage            `json:"content"`
		Contents      json.RawMessage            `json:"contents"`
		Resources     []struct{ URI string }     `json:"resources"`
	} `json:"result"`
	Error *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// saying returns a request with the metadata that every request has. The parameter "key" becomes the idempotency key, and "held"
// makes the client declare no tasks.
func saying(id int, method string, params map[string]any) string {
	params = maps.Clone(params)
	meta := map[string]any{
		"io.modelcontextprotocol/protocolVersion": "2026-07-28",
		"io.modelcontextprotocol/clientInfo":      map[string]any{"name": "test", "version": "0"},
		"io.modelcontextprotocol/clientCapabilities": map[string]any{
			"elicitation": map[string]any{"form": map[string]any{}, "url": map[string]any{}},
			"extensions":  map[string]any{"io.modelcontextprotocol/tasks": map[string]any{}},
		},
	}
	if key, ok := params["key"]; ok {
		delete(params, "key")
		meta["io.millrace/idempotency-key"] = key
	}
	if _, held := params["held"]; held {
		delete(params, "held")
		meta["io.modelcontextprotocol/clientCapabilities"] = map[string]any{"elicitation": map[string]any{"form": map[string]any{}}}
	}
	params["_meta"] = meta
	text, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params}) // cannot fail
	return string(text)
}

// overHTTP sends requests to /mcp of serve.
type overHTTP struct{ s *served }

func (o overHTTP) say(ctx context.Context, id int, method string, params map[string]any) (*mcpAnswer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.s.api+"/mcp", strings.NewReader(saying(id, method, params)))
	if err != nil {
		return nil, err
	}
	token, err := findToken(o.s.tokenFile, o.s.state)
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{
		"Authorization": "Bearer " + token, "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method,
	} {
		req.Header.Set(name, value)
	}
	for _, name := range []string{"name", "taskId", "uri"} {
		if text, ok := params[name].(string); ok {
			req.Header.Set("Mcp-Name", text)
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) { // one event of a stream, or the answer itself
		line, _ = strings.CutPrefix(line, "data: ")
		var a mcpAnswer
		if json.Unmarshal([]byte(line), &a) == nil && a.ID == id {
			return &a, nil
		}
	}
	return nil, fmt.Errorf("%d: %q", resp.StatusCode, text)
}

// overStdio sends requests to 'millrace mcp'.
type overStdio struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startMCP(t *testing.T, s *served) *overStdio {
	t.Helper()
	return startMCPWith(t, "--api", s.api, "--token-file", filepath.Join(s.state, tokenName))
}

func startMCPWith(t *testing.T, args ...string) *overStdio {
	t.Helper()
	o := &overStdio{cmd: millrace(t, append([]string{"mcp"}, args...)...)}
	o.cmd.Stderr = io.Discard
	var err error
	if o.in, err = o.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := o.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if o.out = bufio.NewReader(out); o.cmd.Start() != nil {
		t.Fatal("millrace mcp does not start")
	}
	t.Cleanup(o.kill)
	return o
}

func (o *overStdio) kill() {
	o.cmd.Process.Kill()
	o.cmd.Wait()
}

func (o *overStdio) say(_ context.Context, id int, method string, params map[string]any) (*mcpAnswer, error) {
	if _, err := io.WriteString(o.in, saying(id, method, params)+"\n"); err != nil {
		return nil, err
	}
	for {
		line, err := o.out.ReadString('\n')
		if err != nil {
			return nil, err
		}
		a := &mcpAnswer{ID: -1}
		if err := json.Unmarshal([]byte(line), a); err != nil {
			return nil, fmt.Errorf("standard output has something else: %q", line)
		}
		if a.ID == id {
			return a, nil
		}
	}
}

// TestMCPKilled kills the runtime and the front together, repeatedly. Tasks are found under their IDs afterwards, and end with
// their one result. One of three waits for an answer of its user, and its question keeps its name (MT05, MT07, MT30).
func TestMCPKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, tools := startTools(t, "slow", "feed")
	s := serveRuntime(t, dir, tools)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s.request(ctx, "GET", "/stats", "", http.StatusOK)
	front := startMCP(t, s)
	id, asked, done := 0, 0, 0
	for range *mcpKills {
		var tasks []string
		for i, with := range []speaker{overHTTP{s}, front, overHTTP{s}} {
			call := []map[string]any{
				{"name": "sleep", "arguments": map[string]any{"ms": 600}},
				{"name": "sleep", "arguments": map[string]any{"ms": 900}},
				{"name": "delete", "arguments": map[string]any{"name": "x"}},
			}[i]
			id++
			a, err := with.say(ctx, id, "tools/call", call)
			if err != nil || a.Error != nil {
				t.Fatalf("tools/call: %v, %+v", err, a)
			}
			if a.Result.ResultType != "task" || a.Result.TaskID == "" {
				t.Fatalf("tools/call has no task: %+v", a.Result)
			}
			tasks = append(tasks, a.Result.TaskID)
		}
		<-time.After(time.Duration(rand.IntN(150)) * time.Millisecond)
		s.kill()
		front.kill()
		s.start()
		s.request(ctx, "GET", "/stats", "", http.StatusOK)
		front = startMCP(t, s)
		for i, task := range tasks {
			with := []speaker{overHTTP{s}, front, overHTTP{s}}[i]
			for ended := false; !ended; {
				id++
				a, err := with.say(ctx, id, "tasks/get", map[string]any{"taskId": task})
				if err != nil || a.Error != nil {
					t.Fatalf("tasks/get of task %d: %v, %+v", i, err, a.Error)
				}
				switch a.Result.Status {
				case "completed":
					if len(a.Result.Result) == 0 || strings.Contains(string(a.Result.Result), `"isError":true`) {
						t.Errorf("task %d: %s", i, a.Result.Result)
					}
					done++
					ended = true
				case "input_required":
					if a.Result.InputRequests["p1"] == nil || i != 2 {
						t.Fatalf("task %d asks %v", i, a.Result.InputRequests)
					}
					var form struct {
						Params struct {
							RequestedSchema struct {
								Required []string `json:"required"`
							} `json:"requestedSchema"`
						} `json:"params"`
					}
					if err := json.Unmarshal(a.Result.InputRequests["p1"], &form); err != nil {
						t.Fatal(err)
					}
					var value any = "0"
					if slices.Contains(form.Params.RequestedSchema.Required, "confirm") {
						value = true
					}
					id++
					asked++
					content := map[string]any{form.Params.RequestedSchema.Required[0]: value}
					a, err := with.say(ctx, id, "tasks/update", map[string]any{
						"taskId": task, "inputResponses": map[string]any{"p1": map[string]any{"action": "accept", "content": content}},
					})
					if err != nil || a.Error != nil {
						t.Fatalf("tasks/update: %v, %+v", err, a)
					}
				case "working":
					<-time.After(20 * time.Millisecond) // a poll
				default:
					t.Fatalf("task %d is %s", i, a.Result.Status)
				}
			}
		}
	}
	t.Logf("%d kills of both, %d tasks ended under their ids, %d answers", *mcpKills, done, asked)
	if done != 3**mcpKills || asked < *mcpKills {
		t.Errorf("%d tasks ended and %d answers were given, want %d and %d", done, asked, 3**mcpKills, *mcpKills)
	}
}
