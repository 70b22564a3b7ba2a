package durable

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// TestMarkPassesQuarantinedKey has a function panic on an event of a key, also of the zero key, under which marks move. The windows
// of the other keys continue to close.
func TestMarkPassesQuarantinedKey(t *testing.T) {
	type ports struct {
		in     *dataflow.KeyedInputPort[string, int]
		closed *dataflow.EntryOutputPort[window.Key[string], int]
	}
	for _, bad := range []string{"z", ""} {
		build := func(f *dataflow.Flow) ports {
			in, seconds := keyedstream.Input[string, int](dataflow.At[server](f), "in")
			events, _ := window.StampKeyed(seconds, second, window.Disorder{}, "sent in order")
			moved := keyedstream.InspectWithKey(keyedstream.Send(events, dataflow.At[members](f)), func(k string, _ window.Event[int]) {
				if k == bad {
					panic("bad key")
				}
			})
			closed, _ := window.Count(moved, window.Every(10*time.Second))
			return ports{in, keyedsingleton.Output(closed, "closed")}
		}
		synctest.Test(t, func(t *testing.T) {
			app := start(t, journal.NewMemory(journal.MemoryOptions{Partitions: 2}), build, Options{Partitions: 1})
			for _, e := range []dataflow.Entry[string, int]{{Key: "a", Value: 1}, {Key: bad, Value: 3}, {Key: "a", Value: 15}, {Key: "a", Value: 25}} {
				if err := app.Ports.in.Send(t.Context(), e.Key, e.Value); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
			}
			for from := range 2 {
				await(t, app.Ports.closed, window.Key[string]{Key: "a", Span: window.Span{From: second(10 * from), To: second(10*from + 10)}}, 1)
			}
			if letters, err := app.Quarantine(t.Context()); err != nil || len(letters) != 1 || letters[0].Behind != 0 {
				t.Errorf("bad key %q: %+v, %v", bad, letters, err)
			}
			stop(t, app)
		})
	}
}
