package durable

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedsingleton"
)

// TestCountedInputIsDurable restarts a durable flow, from its history and from a snapshot. A key
// that was put before is then still refused, and Has finds it.
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

// TestCountedInputIsParked has the function of an input panic on a key that its port has accepted,
// as another version of the program may. The record is quarantined, and others are taken.
func TestCountedInputIsParked(t *testing.T) {
	type ports struct {
		in *dataflow.EntryInputPort[uint64, string]
	}
	var unlucky atomic.Int32
	app := start(t, journal.NewMemory(journal.MemoryOptions{Partitions: 1}), func(f *dataflow.Flow) ports {
		in, orders := keyedsingleton.Input[uint64, string](dataflow.At[members](f), "orders", dataflow.Sequenced(func(k uint64) (client, seq uint64) {
			if k == 13 && unlucky.Add(1) > 1 { // the first call is that of the port
				panic("unlucky")
			}
			return 0, k
		}))
		keyedsingleton.Inspect(orders, func(string) {})
		return ports{in}
	}, Options{})
	var parked *QuarantinedError
	if err := app.Ports.in.Put(t.Context(), 13, "cake"); !errors.As(err, &parked) {
		t.Errorf("Put of a key that cannot be counted: %v", err)
	}
	if err := app.Ports.in.Put(t.Context(), 14, "tea"); err != nil {
		t.Error(err)
	}
	if all, err := app.Quarantine(t.Context()); err != nil || len(all) != 1 || !strings.Contains(all[0].Reason, "unlucky") {
		t.Errorf("in quarantine are %+v (%v)", all, err)
	}
	stop(t, app)
}
