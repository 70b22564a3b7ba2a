package toolserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/toolserver"
)

// TestStepIsKept interrupts a call after a step and after Began, and checks what its function finds when it runs again. It fails
// if a step is done twice, or if Began is forgotten or is reported too early.
func TestStepIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var steps, runs atomic.Int32
		h := newHouse(t, toolserver.Options{}, func(s *toolserver.Server) {
			type in struct {
				Mark bool `json:"mark"`
			}
			toolserver.Add(s, "work", "Works.", func(ctx context.Context, in in) (string, error) {
				run := runs.Add(1)
				_, known, err := toolserver.Stepped[string](ctx, "job")
				if err != nil {
					return "", err
				}
				job, err := toolserver.Step(ctx, "job", func(context.Context) (string, error) { return fmt.Sprint("job ", steps.Add(1)), nil })
				if err != nil {
					return "", err
				}
				var began error
				if in.Mark {
					for range 2 {
						began = toolserver.Began(ctx)
					}
				}
				if run == 1 {
					<-ctx.Done()
					return "", context.Cause(ctx)
				}
				return fmt.Sprint(job, known, errors.Is(began, toolserver.ErrBegan)), nil
			})
		})
		for _, c := range []struct{ args, want string }{{`{"mark":true}`, "job 1true true"}, {`{"mark":false}`, "job 1true false"}} {
			steps.Store(0)
			runs.Store(0)
			id := "c" + fmt.Sprint(len(c.args))
			h.call("work", id, c.args)
			synctest.Wait()
			h.end()
			h.begin()
			if r := h.result(); r != c.want {
				t.Errorf("%s: %q, want %q", c.args, r, c.want)
			}
		}
		h.close()
	})
}

// result returns the text of the next message, which must be a result.
func (h *house) result() string {
	h.t.Helper()
	m := h.next()
	r, ok := m.Callback.(*agentproto.ToolResult)
	if !ok {
		h.t.Fatalf("%s is no result", m.body)
	}
	return r.String()
}

// TestStepBounds makes more steps than are kept, steps that are too large, one that fails, and one that contains a secret.
func TestStepBounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		secret := toolserver.NewSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
		h := newHouse(t, toolserver.Options{Secrets: map[string][]toolserver.Secret{"": {secret}}}, func(s *toolserver.Server) {
			toolserver.Add(s, "many", "Does many steps.", func(ctx context.Context, _ none) (string, error) {
				step := func(name, text string) error {
					_, err := toolserver.Step(ctx, name, func(context.Context) (string, error) { return text, nil })
					return err
				}
				first := errors.New("the first time")
				if _, err := toolserver.Step(ctx, "fails", func(context.Context) (int, error) { return 0, first }); err != first {
					return "", fmt.Errorf("%v is not the error of the function", err)
				}
				if n, err := toolserver.Step(ctx, "fails", func(context.Context) (int, error) { return 7, nil }); n != 7 || err != nil {
					return "", fmt.Errorf("it is %d, %v after an error", n, err)
				}
				if _, _, err := toolserver.Stepped[string](ctx, "fails"); err == nil {
					return "", errors.New("a number is a text")
				}
				if step("secret", secret.Reveal()) == nil {
					return "", errors.New("a secret was kept")
				}
				if step("large", strings.Repeat("x", 1<<20)) == nil {
					return "", errors.New("a large step was kept")
				}
				for n := 1; ; n++ {
					if err := step(fmt.Sprint(n), ""); err != nil {
						return fmt.Sprint(n), nil
					}
				}
			})
		})
		h.call("many", "c1", "{}")
		if got := h.result(); got != "256" {
			t.Errorf("it was the step %s that was refused", got)
		}
		h.close()
	})
}

// TestReplace changes the tools of a server during a call. It fails if the call loses its function, if the manifest does not
// change, or if an invalid set is accepted in part.
func TestReplace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{})
		toolserver.Add(rt.server, "fixed", "Stays.", func(context.Context, none) (string, error) { return "fixed", nil })
		begin := make(chan struct{})
		tool := func(name string) toolserver.Tool {
			return toolserver.Tool{
				Name: name, Description: "Says " + name + ".", Schema: []byte(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`),
				Call: func(_ context.Context, args []byte) (*agentproto.ToolResult, error) {
					<-begin
					text := name + " " + string(args)
					return &agentproto.ToolResult{Text: &text}, nil
				},
			}
		}
		if err := rt.server.Replace([]toolserver.Tool{tool("a"), tool("b")}); err != nil {
			t.Fatal(err)
		}
		rt.call("a", "c1", `{"n":1}`)
		synctest.Wait()
		for _, wrong := range [][]toolserver.Tool{{tool("c"), tool("fixed")}, {tool("c"), tool("c")}, {tool("ü")}, {{Name: "c", Description: "c", Schema: []byte(`{"type":"objekt"}`)}}, {{Name: "c"}}} {
			if rt.server.Replace(wrong) == nil {
				t.Errorf("%+v was taken", wrong)
			}
		}
		if err := rt.server.Replace([]toolserver.Tool{tool("b"), tool("c")}); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, t := range rt.server.Manifest().Tools {
			names = append(names, t.Name)
		}
		if fmt.Sprint(names) != "[fixed b c]" {
			t.Errorf("the tools are %v", names)
		}
		rt.call("a", "c2", `{"n":1}`)
		rt.want("c2", `Error: unknown tool "a"`)
		rt.call("c", "c3", `{}`)
		rt.want("c3", "Error: arguments: missing")
		close(begin)
		rt.want("c1", `a {"n":1}`)
		rt.call("fixed", "c4", `{}`)
		rt.want("c4", "fixed")
		rt.close()
	})
}

// want checks that the next message is the result of a call with a text that begins as given.
func (rt *runtime) want(id, text string) {
	rt.t.Helper()
	m := rt.next()
	if r, ok := m.Callback.(*agentproto.ToolResult); !ok || r.ID != id || !strings.HasPrefix(r.String(), text) {
		rt.t.Errorf("%s came, want %q of %s", m.body, text, id)
	}
}

// TestReplaceSubscription opens a subscription with a tool added by Replace, and restarts the server. It fails if state is lost,
// or if a tool is accepted that does not have exactly Open and Produce.
func TestReplaceSubscription(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, toolserver.Options{}, func(s *toolserver.Server) {
			count := toolserver.Tool{
				Name: "count", Description: "Counts.", Schema: []byte(`{"type":"object"}`),
				Open: func(_ context.Context, args []byte) (*agentproto.ToolResult, *json.RawMessage, error) {
					text, state := "from "+string(args), json.RawMessage(`1`)
					return &agentproto.ToolResult{Text: &text}, &state, nil
				},
				Produce: func(ctx context.Context, sub *toolserver.Subscription[json.RawMessage]) error {
					for {
						select {
						case <-time.After(time.Minute):
						case <-ctx.Done():
							return context.Cause(ctx)
						}
						if err := sub.Send(ctx, toolserver.Event{Text: string(sub.State())}, append(sub.State(), '1')); err != nil {
							return err
						}
					}
				},
			}
			half, both := count, count
			half.Produce, both.Call = nil, func(context.Context, []byte) (*agentproto.ToolResult, error) { return nil, nil }
			for _, wrong := range []toolserver.Tool{half, both} {
				if s.Replace([]toolserver.Tool{wrong}) == nil {
					t.Error("a tool was taken that has other functions than Open and Produce")
				}
			}
			if err := s.Replace([]toolserver.Tool{count}); err != nil {
				t.Error(err)
			}
		})
		h.call("count", "c1", "{}")
		h.opened()
		if e := h.event(); e.Text != "1" {
			t.Errorf("the first event is %q", e.Text)
		}
		synctest.Wait()
		h.end()
		h.begin()
		if err := h.server.Start(); err != nil {
			t.Fatal(err)
		}
		if e := h.event(); e.Text != "11" {
			t.Errorf("the event after the restart is %q", e.Text)
		}
		h.close()
	})
}
