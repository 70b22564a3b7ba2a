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

// counting is the quorum flow with another output after it.
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

// TestChangedProgram checks that a program with additional operators continues with the state,
// and that its new operators start empty. A program with fewer operators is refused with an
// error that contains the Change that allows it.
func TestChangedProgram(t *testing.T) {
	log := journal.NewMemory(journal.MemoryOptions{})
	app := start(t, log, quorumProcess, Options{})
	for range 2 {
		if err := app.Ports.votes.Send(t.Context(), "r", 5); err != nil {
			t.Fatal(err)
		}
	}
	stop(t, app)

	changed := start(t, log.Reopen(), counting, Options{})
	for _, v := range []int{-1, 7} {
		if err := changed.Ports.votes.Send(t.Context(), "r", v); err != nil {
			t.Fatal(err)
		}
	}
	await(t, changed.Ports.released, "r", tally{3, 9})
	await(t, changed.Ports.lost, "r", -1)
	stop(t, changed)

	// From here on the history belongs to the changed program.
	_, err := Start(t.Context(), quorumProcess, quiet(Options{Log: journal.Opened{Log: log.Reopen()}}))
	if !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), `durable.Drop("output lost")`) {
		t.Fatalf("a program without an output of the history: %v", err)
	}
	var lines []Change
	for part := range strings.SplitSeq(err.Error(), `durable.Drop("`) {
		if name, _, ok := strings.Cut(part, `"`); ok {
			lines = append(lines, Drop(name))
		}
	}
	first := start(t, log.Reopen(), quorumProcess, Options{Upgrade: lines})
	await(t, first.Ports.released, "r", tally{3, 9})
	stop(t, first)
	first = start(t, log.Reopen(), quorumProcess, Options{})
	await(t, first.Ports.released, "r", tally{3, 9})
	stop(t, first)
}

// TestDividedValue checks that a singleton of a location with several partitions cannot be an
// output, because each partition has its own value.
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

// TestDiverged checks that a replay detects a function that depends on more than its arguments.
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

// TestNoLog checks the errors of Start and OpenHistory without a log, and of a client on a log
// for one process.
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
