package durable

import (
	"context"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// TestSendPastTheHistory has a function of a program send to an input of its own flow. The send is refused: a record that is in
// no history would change the state, and the state would differ after a restart.
func TestSendPastTheHistory(t *testing.T) {
	refused := make(chan error, 1)
	type ports struct {
		in  *dataflow.SharedKeyedInputPort[string, int]
		out *dataflow.EntryOutputPort[string, int]
	}
	app, err := Start(t.Context(), func(f *dataflow.Flow) *ports {
		p := new(ports)
		type here struct{ dataflow.Process }
		at := dataflow.At[here](f)
		in, ks := keyedstream.SharedInput[string, int](at, "in")
		p.in = in
		asked := keyedsingleton.MapAsync(keyedstream.First(keyedstream.AssumeOrder(ks, "one each")), func(ctx context.Context, v int) int {
			if v == 1 {
				refused <- p.in.Send(ctx, "other", 2)
			}
			return v
		}, keyedsingleton.AsyncOptions{})
		p.out = keyedsingleton.Output(asked, "out")
		return p
	}, quiet(Options{Log: journal.Opened{Log: journal.NewMemory(journal.MemoryOptions{})}}))
	if err != nil {
		t.Fatal(err)
	}
	defer app.Stop(context.Background())
	if err := app.Ports.in.Send(t.Context(), "a", 1); err != nil {
		t.Fatal(err)
	}
	if err := <-refused; err == nil || !strings.Contains(err.Error(), "send to the ports that durable.Start returned") {
		t.Errorf("a send past the history: %v", err)
	}
	if err := app.Ports.in.Send(t.Context(), "b", 3); err != nil {
		t.Fatal(err)
	}
	if v, err := app.Ports.out.Await(t.Context(), "b"); v != 3 || err != nil {
		t.Errorf("%d, %v", v, err)
	}
	if v, there := app.Ports.out.Get("other"); there {
		t.Errorf("what was sent past the history gave %d", v)
	}
}
