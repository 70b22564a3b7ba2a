package durable

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedstream"
)

// A till is the state of a fold.
type till struct{ Paid, Times int }

// TestEachState reads typed states in all partitions of a process, page by page, also after a restart.
func TestEachState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 50
		log := journal.NewMemory(journal.MemoryOptions{Partitions: 4})
		build := func(f *dataflow.Flow) *dataflow.KeyedInputPort[string, int] {
			in, paid := keyedstream.Input[string, int](dataflow.At[members](f), "paid")
			keyedstream.Fold(paid, func() till { return till{} }, func(a *till, n int) {
				a.Paid += n
				a.Times++
			})
			return in
		}
		for restart := range 2 {
			app := start(t, log, build, Options{Partitions: 4})
			for i := range keys {
				if err := app.Ports.Send(t.Context(), fmt.Sprint("k", i), i); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait() // until the steps are committed
			for _, most := range []int{1, 7, keys, 2 * keys} {
				seen, partitions := make(map[string]till), make(map[int]bool)
				var from dataflow.StatePlace
				for more := true; more; {
					var err error
					on := 0
					partitions[from.Partition] = true
					from, more, err = dataflow.EachState(t.Context(), app, from, most, func(k string, a *till) {
						seen[k] = *a
						on++
					})
					if err != nil || on > most {
						t.Fatalf("a page of %d has %d entries (%v)", most, on, err)
					}
				}
				want := make(map[string]till)
				for i := range keys {
					want[fmt.Sprint("k", i)] = till{(restart + 1) * i, restart + 1}
				}
				if !reflect.DeepEqual(seen, want) {
					t.Errorf("pages of %d have %v, want %v", most, seen, want)
				}
				if most == 1 && len(partitions) != 4 {
					t.Errorf("pages were in partitions %v", partitions)
				}
			}
			for key, want := range map[string]bool{"k1": true, "nobody": false} {
				has := 0
				if found, err := dataflow.StateOf(t.Context(), app, key, func(a *till) { has = a.Times }); err != nil || found != want || found != (has == restart+1) {
					t.Errorf("of %s there is %v, %d (%v)", key, found, has, err)
				}
			}
			if _, err := dataflow.StateOf(t.Context(), app, "k1", func(*string) {}); !errors.Is(err, dataflow.ErrNoState) {
				t.Errorf("of another type: %v", err)
			}
			if _, _, err := dataflow.EachState(t.Context(), app, dataflow.StatePlace{}, 1, func(string, *string) {}); !errors.Is(err, dataflow.ErrNoState) {
				t.Errorf("of another type: %v", err)
			}
			if err := app.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			log = log.Reopen()
		}
	})
}
