package durable

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// The workload: requests that are released by their third vote, all votes as elements, and claims,
// each granted to one claimer, which are also passed on by a call and later by a timer.
const (
	requests = 3
	voters   = 4
	claims   = 3
	claimers = 2
	dueAfter = time.Minute // of a claim
)

type crashPorts struct {
	votes    *dataflow.SharedKeyedInputPort[string, int]
	released *dataflow.EntryOutputPort[string, tally]
	all      *dataflow.OutputPort[dataflow.Entry[string, int]]
	claims   *dataflow.EntryInputPort[string, int]
	called   *dataflow.EntryOutputPort[string, int]
	overdue  *dataflow.EntryOutputPort[string, int]
}

func crashFlow(f *dataflow.Flow) crashPorts    { return crashFlowAt(dataflow.At[server](f)) }
func crashCluster(f *dataflow.Flow) crashPorts { return crashFlowAt(dataflow.At[members](f)) }

func crashFlowAt[L dataflow.Location](at L) (p crashPorts) {
	votes, cast := keyedstream.SharedInput[string, int](at, "votes")
	in := keyedstream.AssumeOrder(cast, "which three votes release a request is told apart by their sum")
	p.votes = votes
	p.released = keyedsingleton.Output(keyedstream.FoldEarlyStop(in, func() tally { return tally{} }, func(t *tally, v int) bool {
		t.Votes++
		t.Sum += v
		return t.Votes == 3
	}), "released")
	p.all = keyedstream.Output(in, "all votes")
	puts, claimed := keyedsingleton.Input[string, int](at, "claims")
	p.claims = puts
	p.called = keyedsingleton.Output(keyedsingleton.MapAsync(claimed, func(_ context.Context, x int) int { return 2 * x }, keyedsingleton.AsyncOptions{}), "called")
	p.overdue = keyedsingleton.Output(keyedsingleton.After(claimed, dueAfter, "tests wait for it"), "overdue")
	return p
}

// A world is what survives the processes that run a workload.
type world struct {
	options Options
	build   func(*dataflow.Flow) crashPorts
	logs    []journal.Log // one for each process
	reopen  func(i int) journal.Log
	apps    []*App[crashPorts]
	starts  int
	turn    chan struct{} // of capacity 1: its holder may start a process

	mu    sync.Mutex
	given map[dataflow.Entry[string, int]]int // elements that any process output
	wrong []string
	known map[string]any // entries that were output: they never change
	reads sync.WaitGroup
}

func (w *world) complain(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// app returns process i and restarts it if it has ended.
func (w *world) app(i int) *App[crashPorts] {
	w.turn <- struct{}{}
	defer func() { <-w.turn }()
	for {
		if a := w.apps[i]; a != nil {
			select {
			case <-a.Done():
			default:
				return a
			}
		}
		if w.starts++; w.starts > 500 {
			panic("the flow never runs")
		}
		w.logs[i] = w.reopen(i)
		o := w.options
		o.Log = journal.Opened{Log: w.logs[i]}
		app, err := Start(context.Background(), w.build, o)
		if err != nil {
			if errors.Is(err, ErrDiverged) || errors.Is(err, ErrChanged) {
				panic(err)
			}
			continue
		}
		w.apps[i] = app
		w.reads.Go(func() { w.read(app) })
	}
}

// read reads all elements of one life of a process and checks that none comes twice.
func (w *world) read(a *App[crashPorts]) {
	here := make(map[dataflow.Entry[string, int]]bool)
	for {
		x, err := a.Ports.all.Next(context.Background())
		if err != nil {
			return
		}
		if here[x] {
			w.complain("the vote %v came twice in one life of the process", x)
		}
		here[x] = true
		w.mu.Lock()
		w.given[x]++
		w.mu.Unlock()
	}
}

// do repeats f with process i until it succeeds.
func (w *world) do(i int, f func(ctx context.Context, p crashPorts) error) {
	defer func() {
		if v := recover(); v != nil {
			w.complain("panic: %v", v)
		}
	}()
	for began := time.Now(); ; { // in time of the bubble
		app := w.app(i)
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		err := f(ctx, app.Ports)
		cancel()
		if err == nil {
			return
		}
		if time.Since(began) > 10*time.Minute {
			panic(fmt.Sprintf("nothing helps: %v", err))
		}
		if e := app.Err(); e != nil && (errors.Is(e, ErrDiverged) || errors.Is(e, ErrChanged)) {
			panic(e)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			panic(fmt.Sprintf("it hangs: %v", err))
		}
		time.Sleep(time.Millisecond) // the process may be ending
	}
}

// vote sends a vote as a producer does: each producer has a source of its own, in order.
func (w *world) vote(i, voter, request int) {
	w.do(i, func(ctx context.Context, p crashPorts) error {
		return p.votes.SendNumbered(ctx, fmt.Sprint("voter ", voter), uint64(request), fmt.Sprint("r", request), voteOf(voter))
	})
}

func voteOf(voter int) int { return []int{1, 10, 100, 1000}[voter] }

// claim reports whether the claim was granted.
func (w *world) claim(i, claimer, claim int) (granted bool) {
	w.do(i, func(ctx context.Context, p crashPorts) error {
		err := p.claims.PutNumbered(ctx, fmt.Sprint("claimer ", claimer), uint64(claim), fmt.Sprint("c", claim), claimer+1)
		granted = err == nil
		if errors.Is(err, dataflow.ErrDuplicateKey) {
			return nil
		}
		return err
	})
	return granted
}

// settle waits for all expected output, through any number of crashes.
func (w *world) settle(i int, owner map[string]int) {
	for r := range requests {
		w.do(i, func(ctx context.Context, p crashPorts) error {
			key := fmt.Sprint("r", r)
			got, err := p.released.Await(ctx, key)
			if err == nil {
				w.know("released "+key, got)
			}
			return err
		})
	}
	time.Sleep(dueAfter + time.Second)
	for c := range claims {
		key := fmt.Sprint("c", c)
		for name, factor := range map[string]int{"called": 2, "overdue": 1} {
			w.do(i, func(ctx context.Context, p crashPorts) error {
				got, err := map[string]*dataflow.EntryOutputPort[string, int]{"called": p.called, "overdue": p.overdue}[name].Await(ctx, key)
				if err == nil {
					w.know(name+" "+key, got)
					if got != factor*owner[key] {
						w.complain("%s %s is %d, claimed by %d", name, key, got, owner[key])
					}
				}
				return err
			})
		}
	}
}

func (w *world) know(what string, got any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if was, ok := w.known[what]; ok && was != got {
		w.wrong = append(w.wrong, fmt.Sprintf("%s was %v and is %v", what, was, got))
	}
	w.known[what] = got
}

// work runs the workload on one or several processes, one producer after the other or all at once,
// and returns what went wrong.
func (w *world) work(together bool) []string {
	w.given, w.known = make(map[dataflow.Entry[string, int]]int), make(map[string]any)
	w.apps, w.turn = make([]*App[crashPorts], len(w.logs)), make(chan struct{}, 1)
	owner := make(map[string]int)
	at := func(n int) int { return n % len(w.logs) }
	produce := func(n int) {
		if n < voters {
			for r := range requests {
				w.vote(at(n+r), n, r)
			}
			return
		}
		for c := range claims {
			granted := w.claim(at(n+c), n-voters, c)
			if key := fmt.Sprint("c", c); granted {
				w.mu.Lock()
				was := owner[key]
				owner[key] = n - voters + 1
				w.mu.Unlock()
				if was != 0 {
					w.complain("%s was granted to %d and to %d", key, was, n-voters+1)
				}
			}
		}
	}
	var producers sync.WaitGroup
	for n := range voters + claimers {
		if together {
			producers.Go(func() { produce(n) })
		} else {
			produce(n)
		}
	}
	producers.Wait()
	for i := range w.logs {
		w.settle(i, owner)
	}
	for c := range claims {
		if owner[fmt.Sprint("c", c)] == 0 {
			w.complain("c%d was granted to nobody", c)
		}
	}
	for r := range requests {
		got := w.known[fmt.Sprint("released r", r)]
		right := got == tally{3, 111}
		for left := range voters { // whichever vote came last
			right = right || together && got == tally{3, 1111 - voteOf(left)}
		}
		if !right {
			w.complain("r%d was released as %v", r, got)
		}
	}
	w.elements()
	// Check once more from the stored state, however the processes ended.
	for i := range w.logs {
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		w.app(i).Stop(ctx)
		cancel()
	}
	w.settle(0, owner)
	w.apps[0].Stop(context.Background())
	w.reads.Wait()
	return w.wrong
}

// elements checks that each vote was output by some process.
func (w *world) elements() {
	for range 100 {
		if w.missing() == "" {
			return
		}
		for i := range w.logs {
			w.app(i)
		}
		time.Sleep(time.Second)
	}
	w.complain("the element %s never came out", w.missing())
}

func (w *world) missing() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for r := range requests {
		for v := range voters {
			if x := (dataflow.Entry[string, int]{Key: fmt.Sprint("r", r), Value: voteOf(v)}); w.given[x] == 0 {
				return x.String()
			}
		}
	}
	return ""
}

// tiny makes snapshots, purges and restores happen everywhere. If two owners share a log that does
// not support it, each may find steps of the other missing. Then the whole flow must end, not one
// partition, so that the trial restarts it.
var tiny = Options{SnapshotBytes: 1, StepBytes: 1, EndOnFailure: true, Logger: slog.New(slog.DiscardHandler)}

// attempt runs the workload with a hook on the log and returns what went wrong.
func attempt(t *testing.T, processes int, together, divided bool, options Options, hook journal.Hook) (wrong []string) {
	t.Helper()
	partitions, build := 1, crashFlow
	if divided {
		partitions, build = 3, crashCluster
	}
	return trialOf(t, build, partitions, processes, together, options, hook)
}

// trialOf is attempt for any flow, with the given number of partitions at all its locations.
func trialOf(t *testing.T, build func(*dataflow.Flow) crashPorts, partitions, processes int, together bool, options Options, hook journal.Hook) (wrong []string) {
	t.Helper()
	return trialOn(t, build, journal.MemoryOptions{Hook: hook, Partitions: partitions}, processes, together, options)
}

// trialOn is trialOf on a log with the given options.
func trialOn(t *testing.T, build func(*dataflow.Flow) crashPorts, log journal.MemoryOptions, processes int, together bool, options Options) (wrong []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		defer func() {
			if v := recover(); v != nil {
				wrong = append(wrong, fmt.Sprint("panic: ", v))
			}
		}()
		first := journal.NewMemory(log)
		handles := make([]*journal.Memory, processes)
		w := &world{options: options, build: build, logs: make([]journal.Log, processes)}
		w.reopen = func(i int) journal.Log {
			if handles[i] != nil {
				handles[i].Close()
			}
			handles[i] = first.Reopen()
			return handles[i]
		}
		wrong = w.work(together)
	})
	return wrong
}

// TestCrashPoints crashes the process at each moment of a run.
func TestCrashPoints(t *testing.T) {
	hook, count := points(nil)
	report(t, "without a fault", attempt(t, 1, false, false, tiny, hook))
	moments := count.Load()
	if moments < 100 {
		t.Fatalf("there are only %d moments to crash at", moments)
	}
	t.Logf("%d moments", moments)
	for name, fault := range map[string]func(journal.Action) journal.Fault{"crash": crash, "fail": fail} {
		for at := int64(1); at <= moments && !t.Failed(); at++ {
			hook, _ := points(fault, at)
			report(t, fmt.Sprintf("%s at moment %d of %d", name, at, moments), attempt(t, 1, false, false, tiny, hook))
		}
	}
}

var crashes = flag.Int("crashes", 60, "how many runs with several crashes the tests make")

// TestCrashTwice crashes one process at two moments of a run, or each of several at one.
func TestCrashTwice(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := 0; n < *crashes && !t.Failed(); n++ {
		a := rng.Int64N(150) + 1
		b := a + 1 + rng.Int64N(40)
		fault := crash
		if n%3 == 0 {
			fault = fail
		}
		hook, _ := points(fault, a, b, b+rng.Int64N(20))
		processes := 1 + n%2
		report(t, fmt.Sprintf("attempt %d, %d processes, moments %d and %d", n, processes, a, b), attempt(t, processes, n%4 > 1, n%5 == 0, tiny, hook))
	}
}
