package mcpserver_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/agentproto/internal/inprocess"
	"github.com/millrace/millrace/agentproto/mcpserver"
	"github.com/millrace/millrace/agentproto/toolserver"
)

var races = flag.Int("mcp.races", 300, "calls of TestMT15_ResultAndCancel whose result and cancellation come at once")

// A gate blocks calls of a tool, by number, until they are released.
type gate struct {
	mu    sync.Mutex
	gates map[int]chan struct{}
}

func (g *gate) of(n int) chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gates[n] == nil {
		g.gates[n] = make(chan struct{})
	}
	return g.gates[n]
}

// gated starts a runtime with a tool that returns when its gate is opened.
func gated(t *testing.T) (*host.Runtime, *gate) {
	t.Helper()
	g := &gate{gates: map[int]chan struct{}{}}
	const base = "http://gated.invalid"
	var rt *host.Runtime
	callbacks := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { rt.Handler().ServeHTTP(w, r) })
	s := toolserver.New(toolserver.Options{
		Name: "gated", PublicURL: base, CallbackTransport: &inprocess.Transport{Handlers: map[string]http.Handler{"http://runtime.invalid": callbacks}},
	})
	toolserver.Add(s, "one", "Returns when it may.", func(ctx context.Context, in struct {
		N int `json:"n"`
	}) (string, error) {
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-g.of(in.N):
			return fmt.Sprint("result ", in.N), nil
		}
	})
	var err error
	rt, err = host.Start(t.Context(), host.Options{
		Local: map[string]http.Handler{base: s}, External: true, PublicURL: "http://runtime.invalid", Surface: silent{},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, stop := context.WithCancel(context.Background())
		stop() // do not wait for calls in progress
		_ = rt.Stop(ctx)
	})
	return rt, g
}

// silent is a surface that displays nothing.
type silent struct{}

func (silent) OAuth(context.Context, agentproto.CallKey, *agentproto.OAuth)       {}
func (silent) Choice(context.Context, agentproto.CallKey, *agentproto.UserChoice) {}
func (silent) Withdraw(agentproto.CallKey, string)                                {}
func (silent) Progress(agentproto.CallKey, agentproto.State)                      {}
func (silent) View(agentproto.CallKey, *agentproto.ViewUpdate)                    {}

// TestMT15_ResultAndCancel races the result of a task with its cancellation. The task ends in one of the two ways, and stays so.
func TestMT15_ResultAndCancel(t *testing.T) {
	rt, g := gated(t)
	w := newWorldOf(t, mcpserver.Options{Rate: 1 << 20}, mcpserver.Of(rt))
	ends := map[string]int{}
	kept := map[string]string{} // the first end seen of each task
	look := func(id string) (ended bool) {
		got := w.get(id)
		status, _ := got.Result["status"].(string)
		end := fmt.Sprint(status, got.Result["result"])
		switch {
		case kept[id] != "" && end != kept[id]:
			t.Errorf("a task had ended with %s, and now with %s", kept[id], got.text)
		case kept[id] != "":
		case status == "completed" || status == "cancelled":
			ends[status]++
			kept[id] = end
		case status != "working":
			t.Errorf("a task: %s", got.text)
		}
		return kept[id] != ""
	}
	for n := range *races {
		made := w.say(t.Context(), "tools/call", fmt.Sprintf(`{"name":"one","arguments":{"n":%d}}`, n))
		id, _ := made.Result["taskId"].(string)
		if id == "" {
			t.Fatalf("no task: %s", made.text)
		}
		var both sync.WaitGroup
		acts := []func(){
			func() { close(g.of(n)) },
			func() {
				if got := w.say(t.Context(), "tasks/cancel", `{"taskId":"`+id+`"}`); got.Error != nil {
					t.Errorf("tasks/cancel: %s", got.text)
				}
			},
		}
		rand.Shuffle(2, func(i, j int) { acts[i], acts[j] = acts[j], acts[i] })
		for _, act := range acts {
			both.Go(act)
		}
		look(id) // concurrently
		both.Wait()
		for !look(id) {
			if t.Failed() || t.Context().Err() != nil {
				return
			}
		}
	}
	for id := range kept { // the later one has changed nothing
		look(id)
	}
	t.Logf("%d tasks: %v", *races, ends)
	if len(kept) != *races {
		t.Errorf("%d of %d tasks have ended", len(kept), *races)
	}
}
