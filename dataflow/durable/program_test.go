package durable

import (
	"errors"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
)

type countPorts struct {
	votes    *dataflow.SharedKeyedInputPort[string, int]
	released *dataflow.EntryOutputPort[string, tally]
	lost     *dataflow.EntryOutputPort[string, int]
}

// counting is quorum with another output after it.
func counting(f *dataflow.Flow) countPorts {
	votes, in := keyedstream.SharedInput[string, int](dataflow.At[server](f), "votes")
	ordered := keyedstream.AssumeOrder(in, "the sum of the votes and their number do not depend on the order")
	released := keyedstream.FoldEarlyStop(ordered, func() tally { return tally{} }, func(t *tally, v int) bool {
		t.Votes++
		t.Sum += v
		return t.Votes == 3
	})
	out := keyedsingleton.Output(released, "released")
	lost := keyedstream.First(keyedstream.Filter(ordered, func(v int) bool { return v < 0 }))
	return countPorts{votes, out, keyedsingleton.Output(lost, "lost")}
}

// A changed program is refused, with the operator that differs, and goes on with the
// state if it says whose that is.
func TestMigrate(t *testing.T) {
	log := journal.NewMemory(journal.MemoryOptions{})
	app := start(t, log, quorumProcess, Options{})
	for range 2 {
		if err := app.Ports.votes.Send(t.Context(), "r", 5); err != nil {
			t.Fatal(err)
		}
	}
	stop(t, app)

	_, err := Start(t.Context(), counting, quiet(Options{Log: journal.Opened{Log: log.Reopen()}}))
	if !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), `"5 keyedstream.Filter`) && !strings.Contains(err.Error(), "keyedstream.Filter") {
		t.Errorf("a changed program: %v", err)
	}
	refusal := errors.New("not today")
	if _, err = Start(t.Context(), counting, quiet(Options{Log: journal.Opened{Log: log.Reopen()}, Migrate: func(*Migration) error { return refusal }})); !errors.Is(err, refusal) {
		t.Errorf("a migration that fails: %v", err)
	}

	var was, is int
	changed := start(t, log.Reopen(), counting, Options{Migrate: func(m *Migration) error {
		was, is = len(m.Was), len(m.Is)
		m.KeepAll()
		return nil
	}})
	if was == 0 || is <= was {
		t.Errorf("the program had %d operators and has %d", was, is)
	}
	for _, v := range []int{-1, 7} {
		if err := changed.Ports.votes.Send(t.Context(), "r", v); err != nil {
			t.Fatal(err)
		}
	}
	await(t, changed.Ports.released, "r", tally{3, 9})
	await(t, changed.Ports.lost, "r", -1)
	stop(t, changed)

	// From now on the history is that of the changed program.
	changed = start(t, log.Reopen(), counting, Options{})
	await(t, changed.Ports.lost, "r", -1)
	stop(t, changed)
}

// A value that each partition has another one of cannot be an output.
func TestDividedValue(t *testing.T) {
	build := func(f *dataflow.Flow) *dataflow.SingletonOutputPort[int] {
		_, in := dataflow.Input[int](dataflow.At[members](f), "in")
		return singleton.Output(dataflow.Count(in), "count")
	}
	_, err := Start(t.Context(), build, Options{Log: journal.Opened{Log: journal.NewMemory(journal.MemoryOptions{Partitions: 2})}})
	if err == nil || !strings.Contains(err.Error(), "singleton.Output count (program_test.go:") {
		t.Errorf("a value of a divided location: %v", err)
	}
}

// What depends on more than its arguments is found when a step is made again.
func TestDiverged(t *testing.T) {
	log := journal.NewMemory(journal.MemoryOptions{})
	factor := 1
	build := func(f *dataflow.Flow) quorumPorts {
		votes, in := keyedstream.SharedInput[string, int](dataflow.At[server](f), "votes")
		released := keyedstream.First(keyedstream.Map(keyedstream.AssumeOrder(in, "there is one vote"), func(v int) tally { return tally{1, v * factor} }))
		return quorumPorts{votes, keyedsingleton.Output(released, "released")}
	}
	app := start(t, log, build, Options{})
	if err := app.Ports.votes.Send(t.Context(), "r", 5); err != nil {
		t.Fatal(err)
	}
	await(t, app.Ports.released, "r", tally{1, 5})
	log.Crash()
	<-app.Done()
	factor = 2
	_, err := Start(t.Context(), build, quiet(Options{Log: journal.Opened{Log: log.Reopen()}}))
	var diverged *DivergedError
	if !errors.Is(err, ErrDiverged) || !errors.As(err, &diverged) || diverged.Step == 0 {
		t.Errorf("a function that changed its mind: %v", err)
	}
}

// TestNoLog starts and opens flows without a log, and a client of one that nobody shares.
func TestNoLog(t *testing.T) {
	if _, err := Start(t.Context(), quorumProcess, Options{}); !errors.Is(err, errNoLog) {
		t.Errorf("Start: %v", err)
	}
	if _, err := OpenHistory(t.Context(), quorumProcess, Options{}); !errors.Is(err, errNoLog) {
		t.Errorf("OpenHistory: %v", err)
	}
	log := journal.Opened{Log: journal.NewMemory(journal.MemoryOptions{})}
	if _, err := Start(t.Context(), quorumProcess, Options{Log: log, Client: true}); err == nil || !strings.Contains(err.Error(), "for one process") {
		t.Errorf("a client: %v", err)
	}
}
