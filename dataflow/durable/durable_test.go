package durable

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

type server struct{ dataflow.Process }

type members struct{ dataflow.Cluster }

type tally struct{ Votes, Sum int }

type quorumPorts struct {
	votes    *dataflow.SharedKeyedInputPort[string, int]
	released *dataflow.EntryOutputPort[string, tally]
}

// quorum releases a request at its third vote.
func quorum[L dataflow.Location](at L) quorumPorts {
	votes, in := keyedstream.SharedInput[string, int](at, "votes")
	ordered := keyedstream.AssumeOrder(in, "the sum of the votes and their number do not depend on the order")
	released := keyedstream.FoldEarlyStop(ordered, func() tally { return tally{} }, func(t *tally, v int) bool {
		t.Votes++
		t.Sum += v
		return t.Votes == 3
	})
	return quorumPorts{votes, keyedsingleton.Output(released, "released")}
}

func quorumProcess(f *dataflow.Flow) quorumPorts { return quorum(dataflow.At[server](f)) }
func quorumCluster(f *dataflow.Flow) quorumPorts { return quorum(dataflow.At[members](f)) }

func start[P any](t *testing.T, log journal.Log, build func(*dataflow.Flow) P, o Options) *App[P] {
	t.Helper()
	if log != nil {
		o.Log = journal.Opened{Log: log}
	}
	if o.Logger == nil {
		o = quiet(o)
	}
	app, err := Start(t.Context(), build, o)
	if err != nil {
		t.Fatal(err)
	}
	return app
}

func stop[P any](t *testing.T, app *App[P]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := app.Stop(ctx); err != nil {
		t.Fatal(err)
	}
}

func await[K comparable, V comparable](t *testing.T, port *dataflow.EntryOutputPort[K, V], k K, want V) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if got, err := port.Await(ctx, k); err != nil || got != want {
		t.Errorf("%v: %v, %v, want %v", k, got, err, want)
	}
}

func TestRestart(t *testing.T) {
	for name, build := range map[string]func(*dataflow.Flow) quorumPorts{"process": quorumProcess, "cluster": quorumCluster} {
		for _, graceful := range []bool{true, false} {
			t.Run(fmt.Sprint(name, " graceful=", graceful), func(t *testing.T) {
				log := journal.NewMemory(journal.MemoryOptions{Partitions: map[string]int{"process": 1, "cluster": 4}[name]})
				const n = 50
				app := start(t, log, build, Options{})
				for vote := range 2 {
					for i := range n {
						if err := app.Ports.votes.Send(t.Context(), fmt.Sprint("r", i), vote+1); err != nil {
							t.Fatal(err)
						}
					}
				}
				for i := range n / 2 {
					if err := app.Ports.votes.Send(t.Context(), fmt.Sprint("r", i), 10); err != nil {
						t.Fatal(err)
					}
					await(t, app.Ports.released, fmt.Sprint("r", i), tally{3, 13})
				}
				if graceful {
					stop(t, app)
				} else {
					log.Crash()
					<-app.Done()
				}
				log = log.Reopen()
				app = start(t, log, build, Options{})
				for i := range n {
					if err := app.Ports.votes.Send(t.Context(), fmt.Sprint("r", i), 20); err != nil {
						t.Fatal(err)
					}
				}
				for i := range n {
					want := tally{3, 23}
					if i < n/2 {
						want = tally{3, 13}
					}
					await(t, app.Ports.released, fmt.Sprint("r", i), want)
				}
				if m := app.Metrics(); graceful != (m.Replayed == 0) {
					t.Errorf("graceful %v: %d steps were made again", graceful, m.Replayed)
				}
				stop(t, app)
			})
		}
	}
}

func TestPutTwice(t *testing.T) {
	type ports struct {
		in  *dataflow.EntryInputPort[string, int]
		out *dataflow.EntryOutputPort[string, int]
	}
	build := func(f *dataflow.Flow) ports {
		in, entries := keyedsingleton.Input[string, int](dataflow.At[server](f), "in")
		return ports{in, keyedsingleton.Output(keyedsingleton.Map(entries, func(x int) int { return 2 * x }), "out")}
	}
	log := journal.NewMemory(journal.MemoryOptions{})
	app := start(t, log, build, Options{})
	for i, want := range []error{nil, dataflow.ErrDuplicateKey, dataflow.ErrDuplicateKey} {
		if i == 2 {
			stop(t, app)
			log = log.Reopen()
			app = start(t, log, build, Options{})
		}
		if err := app.Ports.in.Put(t.Context(), "a", i+1); !errors.Is(err, want) {
			t.Errorf("Put %d: %v, want %v", i, err, want)
		}
		await(t, app.Ports.out, "a", 2)
	}
	stop(t, app)
	if err := app.Ports.in.Put(t.Context(), "b", 1); !errors.Is(err, dataflow.ErrClosed) {
		t.Errorf("Put after Stop: %v", err)
	}
}
