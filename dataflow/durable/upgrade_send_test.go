package durable

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
)

type resentPorts struct {
	in  *dataflow.InputPort[int]
	out *dataflow.OutputPort[int]
}

// movingAs converts each number with to, sends it to another location, and converts it back there with of.
func movingAs[T any](to func(int) T, of func(T) int) func(*dataflow.Flow) resentPorts {
	return func(f *dataflow.Flow) resentPorts {
		in, numbers := dataflow.Input[int](dataflow.At[server](f), "in")
		moved := dataflow.Named("moved", dataflow.Send(dataflow.Map(numbers, to), dataflow.At[ledger](f)))
		return resentPorts{in, dataflow.Output(dataflow.Map(moved, of), "out")}
	}
}

// TestConvertMoved changes the type of the elements that are sent to another location. The program must be
// refused if and only if elements of the old type wait to be sent. A refused program must not have changed the
// history, so that the old program can continue.
func TestConvertMoved(t *testing.T) {
	type before struct{ N int }
	type after struct{ Text string }
	first := movingAs(func(n int) before { return before{n} }, func(b before) int { return b.N })
	second := movingAs(func(n int) after { return after{strings.Repeat("x", n)} }, func(a after) int { return len(a.Text) })
	lines := []Change{Convert("moved", func(b before) after { return after{strings.Repeat("x", b.N)} })}
	for _, waits := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			log := journal.NewMemory(journal.MemoryOptions{Partitions: 2})
			app := start(t, log, first, Options{})
			log.SetHook(func(a journal.Action) journal.Fault { // nothing arrives at the other location
				return journal.Fault{Fail: waits && a.Op == journal.OpAppend && a.Partition == 1 && !a.Done}
			})
			if err := app.Ports.in.Send(t.Context(), 3); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			stop(t, app)
			log = log.Reopen()
			log.SetHook(nil)
			next, err := Start(t.Context(), second, quiet(Options{Log: journal.Opened{Log: log}, Upgrade: lines}))
			if waits {
				if !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), "1 elements wait to be sent") {
					t.Errorf("while an element waits: %v", err)
				}
				// The program that made the history sends the element.
				app = start(t, log.Reopen(), first, Options{})
				time.Sleep(time.Second)
				stop(t, app)
				next, err = Start(t.Context(), second, quiet(Options{Log: journal.Opened{Log: log.Reopen()}, Upgrade: lines}))
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := next.Ports.in.Send(t.Context(), 5); err != nil {
				t.Fatal(err)
			}
			for _, want := range []int{3, 5} {
				if got, err := next.Ports.out.Next(t.Context()); got != want || err != nil {
					t.Errorf("%v, %v, want %d", got, err, want)
				}
			}
			stop(t, next)
		})
	}
}
