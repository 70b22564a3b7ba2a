package durable

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// TestSalvageKeepsSteps checks that a salvage takes back only the steps that cannot be read and those after
// them. If it took back more, their outputs would come again.
func TestSalvageKeepsSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := journal.NewMemory(journal.MemoryOptions{})
		app := start(t, log, keptProcess, Options{SnapshotAge: time.Hour})
		put(t, app, 0, 6)
		log.Crash()
		<-app.Done()
		var fences []uint64
		bad := rotten{Memory: log.Reopen(), history: func(h *journal.History) {
			fences = nil
			for i := range h.Steps {
				fences = append(fences, h.Steps[i].Fence)
			}
			flip(h.Steps[len(h.Steps)-2].Data, .5)
		}}
		opts := func() Options {
			bad.Memory = bad.Reopen()
			return quiet(Options{Log: journal.Opened{Log: bad}})
		}
		to := &reopened{journal.NewMemory(journal.MemoryOptions{})}
		without, err := Salvage(t.Context(), opts(), to)
		if err == nil || len(without.Lost) != 1 {
			t.Fatalf("%v, %+v", err, without.Lost)
		}
		n := len(fences)
		want := fmt.Sprintf("the steps after %d, up to %d (", fences[n-3], fences[n-1])
		if lost := without.Lost[0].Lost; len(lost) != 1 || !strings.HasPrefix(lost[0], want) {
			t.Errorf("lost %q, want %q", lost, want)
		}
		made, err := Salvage(t.Context(), opts(), to, without.Lost[0].Token)
		if err != nil || len(made.Partitions) != 1 {
			t.Fatalf("%v, %+v", err, made)
		}
		if p := made.Partitions[0]; p.Steps != uint64(n-2) || p.Waiting != 2 {
			t.Errorf("the copy has %d steps, and %d records wait, want %d and those of two steps", p.Steps, p.Waiting, n-2)
		}
	})
}

// TestSalvageReplaced checks the loss that a salvage reports when all records since a snapshot may have been
// replaced by an older copy: all of these records, not only one.
func TestSalvageReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := journal.NewMemory(journal.MemoryOptions{})
		app := start(t, log, keptProcess, Options{})
		put(t, app, 0, 3)
		taken := app.core.gateway.partitions[0].takenUpTo()
		stop(t, app)
		another := app.core.originOf(0).record(nil, 0, putRecord(t, app, "another"))
		bad := rotten{Memory: log.Reopen(), messages: func(ms []journal.Message) []journal.Message {
			for i := range ms {
				if ms[i].Position == taken {
					ms[i].Records = [][]byte{another}
				}
			}
			return ms
		}}
		made, err := Salvage(t.Context(), quiet(Options{Log: journal.Opened{Log: bad}}), &reopened{journal.NewMemory(journal.MemoryOptions{})})
		want := fmt.Sprintf("what came in up to message %d since the records were replaced by an older copy", taken)
		if err == nil || len(made.Lost) != 1 || len(made.Lost[0].Lost) != 1 || made.Lost[0].Lost[0] != want {
			t.Errorf("%v, lost %+v, want %q", err, made.Lost, want)
		}
	})
}
