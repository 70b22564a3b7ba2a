package durable

import (
	"errors"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedsingleton"
)

// TestCountedInputIsDurable restarts a durable flow, from its history and from a snapshot: a key
// that was put before is refused then, too, and Has knows it.
func TestCountedInputIsDurable(t *testing.T) {
	type orderID struct{ Client, Number uint64 }
	type ports struct {
		in  *dataflow.EntryInputPort[orderID, string]
		out *dataflow.EntryOutputPort[orderID, string]
	}
	counted := dataflow.Sequenced(func(o orderID) (client, seq uint64) { return o.Client, o.Number })
	build := func(f *dataflow.Flow) ports {
		in, orders := keyedsingleton.Input[orderID, string](dataflow.At[members](f), "orders", counted)
		return ports{in, keyedsingleton.Output(keyedsingleton.Map(orders, strings.ToUpper), "out")}
	}
	log := journal.NewMemory(journal.MemoryOptions{Partitions: 2})
	for life := range uint64(4) {
		app := start(t, log, build, Options{SnapshotBytes: 200})
		for n := range 50 * (life + 1) {
			want := dataflow.ErrDuplicateKey
			if n >= 50*life {
				want = nil
			}
			if err := app.Ports.in.Put(t.Context(), orderID{n % 3, n}, "tea"); !errors.Is(err, want) {
				t.Fatalf("life %d, order %d: %v, want %v", life, n, err, want)
			}
		}
		if v, err := app.Ports.out.Await(t.Context(), orderID{1, 1}); v != "TEA" || err != nil {
			t.Errorf("life %d: %q (%v)", life, v, err)
		}
		for k, want := range map[orderID]bool{{1, 1}: true, {2, 1}: false, {1, 50*(life+1) + 1}: false} {
			if has, err := app.Ports.in.Has(t.Context(), k); has != want || err != nil {
				t.Errorf("life %d: Has(%v) is %v (%v)", life, k, has, err)
			}
		}
		stop(t, app)
		log = log.Reopen()
	}
}
