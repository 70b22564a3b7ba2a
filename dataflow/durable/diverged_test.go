package durable

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/singleton"
)

type versionPorts struct {
	in       *dataflow.EntryInputPort[int, int]
	entries  *dataflow.EntryOutputPort[int, int]
	elements *dataflow.OutputPort[string]
	moved    *dataflow.OutputPort[string]
	calls    *dataflow.EntryOutputPort[int, int]
	total    *dataflow.SingletonOutputPort[int]
}

// versions returns a program whose version determines what it computes from a number, and how many
// elements it outputs for it. It panics on numbers for which fails returns true.
func versions(version int, fails func(int) bool) func(*dataflow.Flow) versionPorts {
	return func(f *dataflow.Flow) (p versionPorts) {
		at := dataflow.At[server](f)
		in, numbers := keyedsingleton.Input[int, int](at, "in")
		p.in = in
		made := keyedsingleton.Map(numbers, func(x int) int {
			if fails(x) {
				panic("no more")
			}
			return x * version
		})
		p.entries = keyedsingleton.Output(made, "entries")
		each := dataflow.FlatMap(keyedsingleton.Values(made), func(x int, emit func(string)) {
			for i := range version {
				emit(fmt.Sprintf("%d of v%d, %d", x/version, version, i))
			}
		})
		p.elements = dataflow.Output(each, "elements")
		p.moved = dataflow.Output(dataflow.Send(each, dataflow.At[ledger](f)), "moved")
		p.calls = keyedsingleton.Output(keyedsingleton.MapAsync(made, func(_ context.Context, x int) int { return -x }, keyedsingleton.AsyncOptions{}), "calls")
		p.total = singleton.Output(dataflow.Sum(keyedsingleton.Values(made)), "total")
		return p
	}
}

func never(int) bool { return false }

// TestKeepRecorded kills a flow and starts another version of it, with other outputs, more of them
// or fewer. The recorded outputs stand, in order and number, at all kinds of ports. The state of
// the operators is that of the new version, and it continues from there.
func TestKeepRecorded(t *testing.T) {
	for _, change := range [][2]int{{1, 2}, {2, 1}, {1, 3}} {
		for _, again := range []bool{false, true} { // killed again before there is a snapshot
			t.Run(fmt.Sprintf("v%d to v%d/again=%v", change[0], change[1], again), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					was, is := change[0], change[1]
					log := journal.NewMemory(journal.MemoryOptions{Partitions: 2})
					opts := Options{SnapshotAge: time.Hour}
					app := start(t, log, versions(was, never), opts)
					const n = 5
					for k := 1; k <= n; k++ {
						if err := app.Ports.in.Put(t.Context(), k, k); err != nil {
							t.Fatal(err)
						}
						await(t, app.Ports.calls, k, -k*was)
					}
					time.Sleep(time.Minute)
					crash := func() {
						log.Crash()
						<-app.Done()
						log = log.Reopen()
					}
					crash()
					var refused *DivergedError
					if _, err := Start(t.Context(), versions(is, never), quiet(Options{Log: journal.Opened{Log: log}})); !errors.As(err, &refused) || !strings.Contains(err.Error(), "KeepRecorded") {
						t.Fatalf("without the option: %v", err)
					}
					log = log.Reopen()
					opts.Divergence = KeepRecorded
					app = start(t, log, versions(is, never), opts)
					if again {
						crash()
						app = start(t, log, versions(is, never), opts)
					}
					first := app.Status()[0].Diverged
					if first != refused.Step || first < 2 {
						t.Errorf("the history diverged from step %d, status says %d", refused.Step, first)
					}
					if err := app.Ports.in.Put(t.Context(), n+1, n+1); err != nil {
						t.Fatal(err)
					}
					var want []string
					for k := 1; k <= n+1; k++ {
						v := was
						if k > n {
							v = is
						}
						await(t, app.Ports.entries, k, k*v)
						await(t, app.Ports.calls, k, -k*v)
						for i := range v {
							want = append(want, fmt.Sprintf("%d of v%d, %d", k, v, i))
						}
					}
					for name, port := range map[string]*dataflow.OutputPort[string]{"elements": app.Ports.elements, "moved": app.Ports.moved} {
						var got []string
						for range want {
							x, err := port.Next(t.Context())
							if err != nil {
								t.Fatal(err)
							}
							got = append(got, x)
						}
						if !slices.Equal(got, want) {
							t.Errorf("%s: %q, want %q", name, got, want)
						}
					}
					synctest.Wait()
					if sum, ok := app.Ports.total.Latest(); !ok || sum != (n+1)*(n+2)/2*is {
						t.Errorf("the total is %d", sum)
					}
					if again {
						time.Sleep(opts.SnapshotAge / 2) // a snapshot was due at once
						crash()
					} else {
						stop(t, app)
						log = log.Reopen()
					}
					opts.Divergence = RefuseDivergence // a snapshot exists
					h, err := OpenHistory(t.Context(), versions(is, never), quiet(Options{Log: journal.Opened{Log: log}}))
					if err != nil {
						t.Fatal(err)
					}
					if info, err := h.Partition(t.Context(), 0); err != nil || info.Diverged != first {
						t.Errorf("%+v, %v", info, err)
					}
					h.Close()
					log = log.Reopen()
					app = start(t, log, versions(is, never), opts)
					if d := app.Status()[0].Diverged; d != first {
						t.Errorf("after a restart the history diverged from step %d", d)
					}
					stop(t, app)
				})
			})
		}
	}
}

// TestFailsAgain replays a step with a program that fails on it. No record is quarantined, because
// the step was handled before.
func TestFailsAgain(t *testing.T) {
	for _, what := range []Divergence{RefuseDivergence, KeepRecorded} {
		synctest.Test(t, func(t *testing.T) {
			log := journal.NewMemory(journal.MemoryOptions{Partitions: 2})
			app := start(t, log, versions(1, never), Options{})
			for k := range 3 {
				app.Ports.in.Put(t.Context(), k, k)
			}
			log.Crash()
			<-app.Done()
			var diverged *DivergedError
			var failed *dataflow.StepError
			_, err := Start(t.Context(), versions(1, func(x int) bool { return x == 1 }), quiet(Options{Log: journal.Opened{Log: log.Reopen()}, Divergence: what}))
			if !errors.As(err, &diverged) || !errors.As(err, &failed) || !errors.Is(err, ErrDiverged) {
				t.Errorf("%v: %v", what, err)
			}
			app = start(t, log.Reopen(), versions(1, never), Options{})
			for k := range 3 {
				await(t, app.Ports.entries, k, k)
			}
			stop(t, app)
		})
	}
}
