package durable

import (
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// TestNothingBeforeCommit holds the commit of a step and checks that none of its output can be read.
func TestNothingBeforeCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := journal.NewMemory(journal.MemoryOptions{})
		app := start(t, log, quorumProcess, tiny)
		for vote := range 2 {
			if err := app.Ports.votes.Send(t.Context(), "r", vote); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		hold := make(chan struct{})
		log.SetHook(func(a journal.Action) journal.Fault {
			if a.Op == journal.OpCommit && !a.Done {
				return journal.Fault{Until: hold}
			}
			return journal.Fault{}
		})
		if err := app.Ports.votes.Send(t.Context(), "r", 2); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got, ok := app.Ports.released.Get("r"); ok {
			t.Errorf("released %v before the step was kept", got)
		}
		close(hold)
		await(t, app.Ports.released, "r", tally{3, 3})
		stop(t, app)
	})
}

// TestLostAnswers loses the answer of one commit in three. The flow restores each time and continues.
func TestLostAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		commits := 0
		memory := journal.NewMemory(journal.MemoryOptions{Hook: func(a journal.Action) journal.Fault {
			if a.Op != journal.OpCommit || !a.Done {
				return journal.Fault{}
			}
			commits++
			return journal.Fault{Fail: commits%3 == 0}
		}})
		w := &world{options: tiny, build: crashFlow, logs: make([]journal.Log, 1)}
		w.reopen = func(int) journal.Log { return memory.Reopen() }
		report(t, "answers of commits get lost", w.work(false))
		if w.starts > 2 { // the second start is part of the workload
			t.Errorf("the flow was started %d times: a lost answer ended it", w.starts)
		}
	})
}

// TestLostAnswerIsCounted loses the answer of one commit and checks that the metrics count exactly one restore.
func TestLostAnswerIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := journal.NewMemory(journal.MemoryOptions{})
		app := start(t, log, quorumProcess, Options{})
		lost := false
		log.SetHook(func(a journal.Action) journal.Fault {
			lose := !lost && a.Op == journal.OpCommit && a.Done
			lost = lost || lose
			return journal.Fault{Fail: lose}
		})
		for vote := range 3 {
			if err := app.Ports.votes.Send(t.Context(), "r", vote); err != nil {
				t.Fatal(err)
			}
		}
		await(t, app.Ports.released, "r", tally{3, 3})
		if n := app.Metrics().Restores; !lost || n != 1 {
			t.Errorf("lost: %t, %d restores are counted, want 1", lost, n)
		}
		stop(t, app)
	})
}
