package durable

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// positioned has an input of each kind that takes positions, and collects the values of each by key. A location with
// several partitions has no plain inputs, because their streams would be partitioned.
type positioned struct {
	one     *dataflow.InputPort[int]
	shared  *dataflow.SharedInputPort[int]
	keyed   *dataflow.KeyedInputPort[int, int]
	byKey   *dataflow.SharedKeyedInputPort[int, int]
	senders *dataflow.SenderInputPort[string, int]
	sums    map[string]*dataflow.EntryOutputPort[int, []int]
	bySum   *dataflow.EntryOutputPort[string, []int]
}

// whole is the last value of a key. It marks the key as complete.
const whole = -1

// sharedKeys is the number of keys of keyed records.
const sharedKeys = 16

func positions[L dataflow.Location](at L, divided bool) (p positioned) {
	p.sums = map[string]*dataflow.EntryOutputPort[int, []int]{}
	add := func(all *[]int, x int) bool {
		if x != whole {
			*all = append(*all, x)
		}
		return x == whole
	}
	none := func() []int { return nil }
	collect := func(name string, s dataflow.KeyedStream[int, int, L, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]) {
		p.sums[name] = keyedsingleton.Output(keyedstream.FoldEarlyStop(s, none, add), name+" sums")
	}
	if !divided {
		one, s1 := dataflow.Input[int](at, "one")
		collect("one", dataflow.KeyBy(s1, func(int) int { return 0 }))
		shared, s2 := dataflow.SharedInput[int](at, "shared")
		collect("shared", dataflow.KeyBy(dataflow.AssumeOrder(s2, "one sender"), func(int) int { return 0 }))
		p.one, p.shared = one, shared
	}
	keyed, s3 := keyedstream.Input[int, int](at, "keyed")
	collect("keyed", s3)
	byKey, s4 := keyedstream.SharedInput[int, int](at, "by key")
	collect("by key", keyedstream.AssumeOrder(s4, "one sender"))
	senders, s5 := dataflow.SenderInput[string, int](at, "senders")
	p.bySum = keyedsingleton.Output(keyedstream.FoldEarlyStop(s5, none, add), "senders sums")
	p.keyed, p.byKey, p.senders = keyed, byKey, senders
	return p
}

// sendAt sends records with these positions to each input.
func (p *positioned) sendAt(ctx context.Context, at []dataflow.Position, ks, vs []int) error {
	for name, send := range map[string]func() (int, error){
		"one": func() (int, error) {
			if p.one == nil {
				return len(vs), nil
			}
			return p.one.SendBatchAt(ctx, "reader", at, vs)
		},
		"shared": func() (int, error) {
			if p.shared == nil {
				return len(vs), nil
			}
			return p.shared.SendBatchAt(ctx, "reader", at, vs)
		},
		"keyed":   func() (int, error) { return p.keyed.SendBatchAt(ctx, "reader", at, ks, vs) },
		"by key":  func() (int, error) { return p.byKey.SendBatchAt(ctx, "reader", at, ks, vs) },
		"senders": func() (int, error) { return p.senders.Sender("reader").SendBatchAt(ctx, at, vs) },
	} {
		if n, err := send(); n != len(vs) || err != nil {
			return fmt.Errorf("%s: %d of %d, %w", name, n, len(vs), err)
		}
	}
	return nil
}

// TestPositions reads a source in batches. The source's positions are pairs and have gaps. Reading restarts at random
// places, sometimes after a crash. Every input must then have each record once and in order, with one partition, with
// several and in memory.
func TestPositions(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 18))
		var at []dataflow.Position
		var ks, vs []int
		want, wantAll := map[int][]int{}, []int(nil)
		last := dataflow.Position{}
		for i := range 60 {
			if rng.IntN(3) == 0 {
				last.Minor += rng.Uint64N(3) + 1
			} else {
				last = dataflow.Position{Major: last.Major + rng.Uint64N(4) + 1, Minor: rng.Uint64N(2)}
			}
			if i == 0 && rng.IntN(2) == 0 {
				last = dataflow.Position{} // the first offset of a topic
			}
			k := rng.IntN(sharedKeys)
			at, ks, vs = append(at, last), append(ks, k), append(vs, i)
			want[k], wantAll = append(want[k], i), append(wantAll, i)
		}
		for k := range sharedKeys { // completes each key
			at, ks, vs = append(at, dataflow.Position{Major: last.Major + 1, Minor: uint64(k)}), append(ks, k), append(vs, whole)
		}
		read := func(t *testing.T, p func() *positioned, again func()) {
			t.Helper()
			for from := 0; from < len(at); {
				to := min(from+1+rng.IntN(12), len(at))
				if err := p().sendAt(t.Context(), at[from:to], ks[from:to], vs[from:to]); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				from = to
				if rng.IntN(4) == 0 {
					again()
					from = rng.IntN(to + 1)
				}
			}
			if got, err := p().bySum.Await(t.Context(), "reader"); err != nil || !slices.Equal(got, wantAll) {
				t.Errorf("seed %d: senders has %v, want %v (%v)", seed, got, wantAll, err)
			}
			for name, out := range p().sums {
				if name == "keyed" || name == "by key" {
					for k, want := range want {
						if got, err := out.Await(t.Context(), k); err != nil || !slices.Equal(got, want) {
							t.Errorf("seed %d: %s has %v of key %d, want %v (%v)", seed, name, got, k, want, err)
						}
					}
				} else if got, err := out.Await(t.Context(), 0); err != nil || !slices.Equal(got, wantAll) {
					t.Errorf("seed %d: %s has %v, want %v (%v)", seed, name, got, wantAll, err)
				}
			}
		}
		for _, partitions := range []int{1, 4} {
			build := func(f *dataflow.Flow) positioned {
				if partitions == 1 {
					return positions(dataflow.At[server](f), false)
				}
				return positions(dataflow.At[members](f), true)
			}
			t.Run(fmt.Sprint(partitions), func(t *testing.T) {
				log := journal.NewMemory(journal.MemoryOptions{Partitions: partitions})
				app := start(t, log, build, tiny)
				read(t, func() *positioned { return &app.Ports }, func() {
					if rng.IntN(2) == 0 {
						log.Crash()
						_ = app.Ports.sendAt(t.Context(), at[:1], ks[:1], vs[:1]) // so that the flow notices the crash
						<-app.Done()
						log = log.Reopen()
						app = start(t, log, build, tiny)
					}
				})
				stop(t, app)
			})
		}
		flow := dataflow.New()
		ports := positions(dataflow.At[server](flow), false)
		app, err := dataflow.Start(t.Context(), flow)
		if err != nil {
			t.Fatal(err)
		}
		read(t, func() *positioned { return &ports }, func() {})
		if err := app.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestPositionsGrow checks that positions must increase and must not be the last possible one. Otherwise nothing of the
// batch is sent.
func TestPositionsGrow(t *testing.T) {
	log := journal.NewMemory(journal.MemoryOptions{})
	app := start(t, log, func(f *dataflow.Flow) positioned { return positions(dataflow.At[server](f), false) }, tiny)
	ctx, p := t.Context(), &app.Ports
	for _, at := range [][]dataflow.Position{
		{{Major: 1}, {Major: 1}}, {{Major: 2}, {Major: 1}}, {{Major: 1, Minor: 2}, {Major: 1, Minor: 1}}, {{Major: 1}, {Major: 1<<64 - 1}},
	} {
		for name, send := range map[string]func() (int, error){
			"one":     func() (int, error) { return p.one.SendBatchAt(ctx, "reader", at, []int{1, 2}) },
			"shared":  func() (int, error) { return p.shared.SendBatchAt(ctx, "s", at, []int{1, 2}) },
			"keyed":   func() (int, error) { return p.keyed.SendBatchAt(ctx, "s", at, []int{1, 2}, []int{1, 2}) },
			"by key":  func() (int, error) { return p.byKey.SendBatchAt(ctx, "s", at, []int{1, 2}, []int{1, 2}) },
			"senders": func() (int, error) { return p.senders.Sender("s").SendBatchAt(ctx, at, []int{1, 2}) },
		} {
			if n, err := send(); n != 0 || err == nil {
				t.Errorf("%s takes %d at %v: %v", name, n, at, err)
			}
		}
	}
	stop(t, app)
}
