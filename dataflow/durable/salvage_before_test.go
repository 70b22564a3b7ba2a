package durable

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// TestSalvageBefore damages the last snapshot of a history that has an earlier snapshot and the
// steps since. A flow starts from the earlier snapshot. A salvage also starts from it and loses
// only the damaged snapshot.
func TestSalvageBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := journal.NewMemory(journal.MemoryOptions{})
		var keys []string
		for run := range 4 { // each run ends with a snapshot
			app := start(t, log, keptProcess, Options{})
			for n := range 5 {
				keys = append(keys, fmt.Sprint("k", run, n))
				if err := app.Ports.in.Put(t.Context(), keys[len(keys)-1], "v"); err != nil {
					t.Fatal(err)
				}
			}
			stop(t, app)
			log = log.Reopen()
		}
		bad := rotten{Memory: log, history: func(h *journal.History) {
			last, before, err := lastTwo(h.Snapshot)
			if err != nil || len(before) == 0 {
				t.Errorf("no snapshot before the last one: %v", err)
			}
			h.Snapshot = both(flip(slices.Clone(last), .5), before)
		}}
		checks, err := Check(t.Context(), quiet(Options{Log: journal.Opened{Log: bad}}))
		if len(checks) != 1 || !errors.Is(checks[0].Err, ErrDamaged) {
			t.Fatalf("%+v, %v", checks, err)
		}
		if missing := salvaged(t, &bad, checks[0].Err, keys); missing != 0 {
			t.Errorf("%d of %d keys are missing", missing, len(keys))
		}
		bad.Memory = bad.Reopen()
		app := start(t, bad, keptProcess, Options{})
		for _, k := range keys {
			await(t, app.Ports.out, k, "got v")
		}
		stop(t, app)
	})
}
