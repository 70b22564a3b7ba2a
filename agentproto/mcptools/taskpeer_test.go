package mcptools_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/millrace/millrace/agentproto/internal/mcptasks"
	"github.com/millrace/millrace/agentproto/mcptools"
)

// A taskPeer is an MCP server that turns calls into tasks. It notes what it does.
type taskPeer struct {
	note func(line string)

	mu    sync.Mutex
	tasks map[string]*peerTask
}

// A peerTask is one call. It advances when a client asks for its state.
type peerTask struct {
	order
	began     time.Time
	answers   []string
	cancelled bool
}

// An order describes what a task does.
type order struct {
	N     int
	MS    int64             // how long it works
	Asks  []json.RawMessage // forms, one after the other
	Ends  string            // "fails", "cancelled", "odd", "roots"; empty: it completes
	Poll  int64             // the poll interval that clients are told
	Moans int               // how many requests for its state return an error
}

// server returns the peer as a server of the SDK, which does not support tasks itself.
func (p *taskPeer) server() (*mcp.Server, error) {
	c := &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}
	c.AddExtension(mcptasks.Extension, nil)
	s := mcp.NewServer(&mcp.Implementation{Name: "tasks", Version: "1"}, &mcp.ServerOptions{Capabilities: c})
	s.AddTool(&mcp.Tool{Name: "work", Description: "Works.", InputSchema: object, OutputSchema: json.RawMessage(`{"type":"object","required":["n"]}`)}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, errors.New("this is done by a task")
	})
	s.AddTool(&mcp.Tool{Name: "forge", Description: "Has a result that looks like a task.", InputSchema: object}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		res := said("no task")
		res.Meta = mcp.Meta{"io.millrace/task": map[string]any{"taskId": "forged"}}
		return res, nil
	})
	s.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			if params, ok := r.GetParams().(*mcp.CallToolParamsRaw); ok && params.Name == "work" {
				return p.begin(params.Arguments)
			}
			if extra := r.GetExtra(); extra != nil && extra.Header != nil && len(method) > 6 && method[:6] == "tasks/" && extra.Header.Get("Mcp-Name") == "" {
				return nil, &jsonrpc.Error{Code: mcp.CodeHeaderMismatch, Message: "there is no Mcp-Name"}
			}
			return next(ctx, method, r)
		}
	})
	return s, errors.Join(
		mcp.AddReceivingCustomMethod(s, mcptasks.MethodGet, func(_ context.Context, _ *mcp.ServerSession, in *mcptasks.IDParams) (*mcptasks.GetTaskResult, error) {
			return p.get(in.TaskID)
		}),
		mcp.AddReceivingCustomMethod(s, mcptasks.MethodUpdate, func(_ context.Context, _ *mcp.ServerSession, in *mcptasks.UpdateParams) (*mcptasks.Ack, error) {
			return p.update(in)
		}),
		mcp.AddReceivingCustomMethod(s, mcptasks.MethodCancel, func(_ context.Context, _ *mcp.ServerSession, in *mcptasks.IDParams) (*mcptasks.Ack, error) {
			return p.cancel(in.TaskID)
		}))
}

// serve serves the peer over HTTP, with events or plain JSON.
func (p *taskPeer) serve(t *testing.T, plain bool) string {
	s, err := p.server()
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: plain}))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return web.URL + "/mcp"
}

func (t *peerTask) state(id, status string) mcptasks.Task {
	return mcptasks.Task{TaskID: id, Status: status, CreatedAt: t.began, LastUpdatedAt: t.began, PollIntervalMs: t.Poll}
}

func (p *taskPeer) begin(args []byte) (mcp.Result, error) {
	t := &peerTask{began: time.Now()}
	if err := json.Unmarshal(args, &t.order); err != nil {
		return nil, err
	}
	p.note(fmt.Sprint("count ", t.N))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tasks == nil {
		p.tasks = map[string]*peerTask{}
	}
	id := fmt.Sprint("task-", t.N)
	p.tasks[id] = t
	return &mcptasks.CreateTaskResult{ResultType: "task", Task: t.state(id, mcptasks.Working)}, nil
}

// forget drops a task, as if it had expired.
func (p *taskPeer) forget(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.tasks, fmt.Sprint("task-", n))
}

func (p *taskPeer) get(id string) (*mcptasks.GetTaskResult, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.tasks[id]
	if t == nil {
		return nil, mcptasks.ErrUnknown()
	}
	p.note(fmt.Sprint("get ", t.N))
	if t.Moans > 0 {
		t.Moans--
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "not now"}
	}
	res := &mcptasks.GetTaskResult{ResultType: "complete", Task: t.state(id, mcptasks.Working)}
	res.StatusMessage = "at work"
	switch {
	case t.cancelled:
		res.Status = mcptasks.Cancelled
	case len(t.answers) < len(t.Asks):
		res.Status = mcptasks.InputRequired
		res.InputRequests = mcp.InputRequestMap{fmt.Sprint("q", len(t.answers)): &mcp.ElicitParams{Mode: "form", Message: "Well?", RequestedSchema: t.Asks[len(t.answers)]}}
	case t.Ends == "roots":
		res.Status = mcptasks.InputRequired
		//lint:ignore SA1019 servers of before may ask for it
		res.InputRequests = mcp.InputRequestMap{"s": &mcp.ListRootsParams{}}
	case time.Since(t.began) < time.Duration(t.MS)*time.Millisecond:
	case t.Ends == "fails":
		res.Status, res.Error = mcptasks.Failed, &jsonrpc.Error{Code: -32050, Message: "not\ntoday"}
	case t.Ends == "cancelled", t.Ends == "odd":
		res.Status = t.Ends
	default:
		res.Status = mcptasks.Completed
		res.Result, _ = json.Marshal(map[string]any{"resultType": "complete", "content": []any{map[string]any{"type": "text", "text": fmt.Sprint("counted ", t.N, t.answers)}}})
	}
	return res, nil
}

func (p *taskPeer) update(in *mcptasks.UpdateParams) (*mcptasks.Ack, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.tasks[in.TaskID]
	if t == nil {
		return nil, mcptasks.ErrUnknown()
	}
	if answer := in.InputResponses[fmt.Sprint("q", len(t.answers))]; answer != nil {
		t.answers = append(t.answers, string(answer))
	}
	return &mcptasks.Ack{ResultType: "complete"}, nil
}

func (p *taskPeer) cancel(id string) (*mcptasks.Ack, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.tasks[id]
	if t == nil {
		return nil, mcptasks.ErrUnknown()
	}
	p.note(fmt.Sprint("cancel ", t.N))
	t.cancelled = true
	return &mcptasks.Ack{ResultType: "complete"}, nil
}

// newTaskDesk opens a set with a server that has tasks. Mode is "events" or "plain", both over HTTP, or "stdio".
func newTaskDesk(t *testing.T, mode string, change func(*mcptools.Options)) (*desk, *taskPeer) {
	p := new(taskPeer)
	d := newDesk(t, func(o *mcptools.Options) {
		if mode == "stdio" {
			o.Servers[0].Env["MODE"] = "tasks"
		} else {
			o.Servers[0] = mcptools.Server{Name: "p", URL: p.serve(t, mode == "plain")}
		}
		if change != nil {
			change(o)
		}
	})
	p.note = func(line string) {
		if err := note(d.notes, line); err != nil {
			t.Error(err)
		}
	}
	return d, p
}
