package model

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/logdriven"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/optional"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

// This file tests what random programs do not reach: timers of all sorts, cycles,
// asynchronous calls, constants at the top level, many keys, and keys and values that are
// not numbers.

// A seat is a key of a struct type.
type seat struct {
	Row  string
	Seat int
}

// hands are the functions that use a handwritten flow.
type hands struct {
	send func(rng *rand.Rand) error
	read func() // an element or an entry; nil if there is none to read
}

var canceled = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

func somewhere(rng *rand.Rand, n int) seat {
	return seat{strings.Repeat("x", rng.IntN(3)), rng.IntN(n)}
}

// byHand contains the handwritten flows.
var byHand = map[string]func(at here, see func(string)) []hands{
	"timers": func(at here, see func(string)) []hands {
		in, entries := keyedsingleton.Input[seat, int](at, "in")
		one := keyedsingleton.Output(keyedsingleton.After(entries, time.Minute, why), "one")
		each := keyedsingleton.AfterEach(entries, func(x int) time.Duration { return time.Duration(x%7-1) * time.Minute }, why)
		all := dataflow.Output(dataflow.Enumerate(dataflow.AssumeOrder(keyedsingleton.Keys(each), why)), "each")
		return []hands{{func(rng *rand.Rand) error { return in.Put(context.Background(), somewhere(rng, 200), rng.IntN(100)) },
			func() { all.Next(canceled); one.Take(canceled, seat{"x", 3}) }}}
	},
	"forgetting": func(at here, see func(string)) []hands {
		in, values := keyedstream.Input[seat, string](at, "in")
		last := keyedstream.Fold(values, func() []string { return nil }, func(all *[]string, s string) {
			*all = append(append([]string{}, *all...), s)
			*all = (*all)[max(len(*all)-2, 0):]
		})
		recent := keyedsingleton.ForgetAfter(last, time.Minute, why)
		singleton.Output(keyedsingleton.KeyCount(recent), "count")
		singleton.Output(singleton.Map(keyedsingleton.IntoSingleton(recent), func(v dataflow.View[seat, []string]) (out []string) {
			for k, x := range v.All() { // in order of appearance
				out = append(out, fmt.Sprint(k, x))
			}
			return out
		}), "recent")
		tick := slice.At(at)
		now := slice.SnapshotEntries(tick, recent, why)
		old, keep := slice.StateEntries[seat, []string](tick)
		keep(now)
		keyedsingleton.InspectWithKey(now, func(k seat, v []string) { see(fmt.Sprint("now", k, v)) })
		keyedsingleton.InspectWithKey(old, func(k seat, v []string) { see(fmt.Sprint("old", k, v)) })
		return []hands{{func(rng *rand.Rand) error {
			return in.Send(context.Background(), somewhere(rng, 100), fmt.Sprint("word", rng.IntN(9)))
		}, nil}}
	},
	"remembering": func(at here, see func(string)) []hands {
		in, words := dataflow.Input[int](at, "in")
		ks := dataflow.KeyBy(words, func(x int) seat { return seat{strings.Repeat("y", x%2), x % 7} })
		keys := dataflow.Output(keyedsingleton.Entries(keyedstream.FirstWithin(ks, keyedstream.Retain{Keys: 5, For: time.Hour}, why)), "first")
		sums := keyedstream.FoldEarlyStopWithin(ks, func() int { return 0 }, func(acc *int, x int) bool { *acc += x; return *acc > 20 }, keyedstream.Retain{For: 2 * time.Hour}, why)
		keyedsingleton.InspectWithKey(sums, func(k seat, v int) { see(fmt.Sprint(k, v)) })
		return []hands{{func(rng *rand.Rand) error { return in.Send(context.Background(), rng.IntN(40)) }, func() { keys.Next(canceled) }}}
	},
	"machines":         timedMachines,
	"calling machines": callingMachines,
	"idle":             idleSources,
	"now":              nowSources,
	"runs": func(at here, see func(string)) []hands {
		in, words := keyedstream.Input[seat, int](at, "in")
		tick := slice.At(at)
		fresh := slice.BatchKeyed(tick, words, why)
		sums := slice.SnapshotEntries(tick, keyedstream.Sum(words), why)
		keyedsingleton.InspectWithKey(keyedsingleton.JoinKeyedSingleton(sums, keyedstream.First(fresh)), func(k seat, p dataflow.Pair[int, int]) { see(fmt.Sprint("joined", k, p)) })
		keyedstream.InspectWithKey(keyedstream.Unique(fresh), func(k seat, x int) { see(fmt.Sprint("unique", k, x)) })
		without := keyedstream.AntiJoin(fresh, keyedstream.Keys(keyedstream.Filter(fresh, func(x int) bool { return x == 0 })))
		keyedstream.InspectWithKey(without, func(k seat, x int) { see(fmt.Sprint("without", k, x)) })
		others := keyedsingleton.WithoutKeys(keyedstream.First(fresh), keyedstream.Keys(keyedstream.Filter(fresh, func(x int) bool { return x == 0 })))
		keyedsingleton.InspectWithKey(others, func(k seat, x int) { see(fmt.Sprint("others", k, x)) })
		odd := slice.SnapshotEntries(tick, keyedsingleton.Filter(keyedstream.Sum(words), func(x int) bool { return x%2 == 1 }), why)
		keyedsingleton.InspectWithKey(odd, func(k seat, x int) { see(fmt.Sprint("odd", k, x)) })
		full := keyedstream.FoldEarlyStop(fresh, func() int { return 0 }, func(acc *int, x int) bool { *acc += x; return *acc > 1 },
			dataflow.Sequenced(func(k seat) (string, uint64) { return k.Row, uint64(k.Seat) }))
		keyedsingleton.InspectWithKey(full, func(k seat, x int) { see(fmt.Sprint("full", k, x)) })
		largest := slice.Snapshot(tick, optional.IntoSingleton(dataflow.Max(keyedstream.Values(words))), why)
		singleton.Map(slice.Passive(largest), func(m dataflow.Maybe[int]) int { see(fmt.Sprint(m)); return 0 })
		return []hands{{func(rng *rand.Rand) error { return in.Send(context.Background(), somewhere(rng, 2), rng.IntN(3)) }, nil}}
	},
	"shrinking": func(at here, see func(string)) []hands {
		in, sizes := dataflow.Input[int](at, "in")
		tick := slice.At(at)
		last := dataflow.Reduce(slice.Batch(tick, sizes, why), func(acc *int, n int) { *acc = n })
		all := dataflow.FlatMap(optional.IntoStream(last), func(n int, emit func(int)) {
			for x := range n {
				emit(x)
			}
		})
		_, keep := slice.StateEntries[int, int](tick)
		keep(keyedstream.First(dataflow.KeyBy(all, func(x int) int { return x })))
		return []hands{{func(rng *rand.Rand) error { return in.Send(context.Background(), []int{1100, 300, 130}[rng.IntN(3)]) }, nil}}
	},
	"interval": func(at here, see func(string)) []hands {
		in, words := dataflow.Input[string](at, "in")
		tick := slice.At(at)
		beats := slice.Batch(tick, dataflow.Interval(at, 7*time.Minute, why), why)
		dataflow.Inspect(beats, func(d time.Duration) { see(d.String()) })
		last := slice.SnapshotOptional(tick, dataflow.Reduce(words, func(acc *string, s string) { *acc = (*acc + s)[max(len(*acc)+len(s)-3, 0):] }), why)
		optional.Map(slice.Passive(last), func(s string) int { see(s); return 0 })
		out := dataflow.Output(slice.Emit(beats), "beats")
		return []hands{{func(rng *rand.Rand) error { return in.Send(context.Background(), string(rune('a'+rng.IntN(20)))) },
			func() { out.Next(canceled) }}}
	},
	"cycle": func(at here, see func(string)) []hands {
		in, numbers := dataflow.Input[int](at, "in")
		loop, again := dataflow.Cycle[int, dataflow.NoOrder](at, "again")
		begun := dataflow.Chain(dataflow.WeakenOrder(dataflow.Of(at, 3, 40)), dataflow.WeakenOrder(numbers))
		all := dataflow.Merge(begun, again)
		tick := slice.At(at)
		less := dataflow.FilterMap(slice.Batch(tick, all, why), func(x int) (int, bool) { see(fmt.Sprint(x)); return x / 2, x > 1 })
		loop.Complete(slice.Emit(less))
		out := dataflow.Output(all, "all")
		singleton.Output(dataflow.Count(all), "count")
		return []hands{{func(rng *rand.Rand) error { return in.Send(context.Background(), rng.IntN(1000)) }, func() { out.Next(canceled) }}}
	},
	"cycle with a timer": func(at here, see func(string)) []hands {
		in, entries := keyedsingleton.Input[int, int](at, "in")
		loop, again := dataflow.Cycle[int, dataflow.NoOrder](at, "again")
		all := keyedstream.First(keyedstream.AssumeOrder(dataflow.KeyBy(
			dataflow.Merge(dataflow.WeakenOrder(again), dataflow.WeakenOrder(keyedsingleton.Keys(entries))),
			func(x int) int { return x }), why))
		later := keyedsingleton.After(all, time.Minute, why)
		loop.Complete(dataflow.FilterMap(dataflow.WeakenOrder(keyedsingleton.Keys(later)), func(x int) (int, bool) { see(fmt.Sprint(x)); return x - 1, x > 0 }))
		out := keyedsingleton.Output(later, "later")
		return []hands{{func(rng *rand.Rand) error { return in.Put(context.Background(), rng.IntN(30), 0) }, func() { out.Take(canceled, 2) }}}
	},
	"calls": func(at here, see func(string)) []hands {
		in, entries := keyedsingleton.Input[seat, int](at, "in")
		doubled := keyedsingleton.MapAsync(entries, func(_ context.Context, x int) string { return fmt.Sprint(2 * x) }, keyedsingleton.AsyncOptions{})
		out := keyedsingleton.Output(doubled, "doubled")
		singleton.Output(keyedsingleton.KeyCount(doubled), "count")
		return []hands{{func(rng *rand.Rand) error { return in.Put(context.Background(), somewhere(rng, 20), rng.IntN(100)) },
			func() { out.Take(canceled, seat{"", 2}) }}}
	},
	"constants": func(at here, see func(string)) []hands {
		in, words := keyedstream.Input[string, float64](at, "in")
		ks := dataflow.KeyBy(dataflow.Of(at, 1.5, 2.5), func(x float64) string { return fmt.Sprint(x) })
		sums := keyedstream.Sum(keyedstream.Map(words, func(x float64) int { return int(x) }))
		singleton.Output(keyedsingleton.KeyCount(sums), "sums")
		chained := dataflow.Output(keyedstream.Entries(keyedstream.Chain(ks, words)), "chained")
		count := keyedstream.Count(keyedstream.AntiJoin(words, dataflow.Of(at, "b", "1.5")))
		hot := keyedsingleton.Output(keyedsingleton.ThresholdUniform(count, 3), "hot")
		limits := keyedstream.First(keyedstream.Map(keyedstream.Filter(words, func(x float64) bool { return x > 50 }), func(x float64) int { return int(x) % 5 }))
		keyedsingleton.Output(keyedsingleton.Threshold(count, limits), "limited")
		reached := dataflow.Output(singleton.Threshold(dataflow.Count(keyedstream.Values(words)), 9), "reached")
		optional.Output(keyedsingleton.MaxKey(limits), "largest")
		joined := dataflow.Output(keyedstream.Entries(keyedstream.Join(words, keyedstream.Limit(words, 2))), "joined")
		keyedstream.Output(keyedstream.Unique(keyedstream.Map(words, func(x float64) int { return int(x) % 5 })), "unique")
		return []hands{{func(rng *rand.Rand) error {
			return in.Send(context.Background(), string(rune('a'+rng.IntN(4))), rng.Float64()*100)
		}, func() {
			for range 3 {
				chained.Next(canceled)
				joined.Next(canceled)
			}
			reached.Next(canceled)
			hot.Take(canceled, "a")
		}}}
	},
	"odd bytes": func(at here, see func(string)) []hands {
		in, words := keyedstream.Input[string, []byte](at, "in")
		type memory struct {
			Seen  map[string]int
			Bytes []byte
			At    *time.Time
			F     float32
		}
		out := dataflow.Output(keyedstream.Entries(keyedstream.Scan(words, func() memory { return memory{} }, func(m *memory, b []byte, emit func(string)) {
			if m.Seen == nil {
				m.Seen = map[string]int{}
			}
			m.Seen[string(b)]++
			m.Bytes = append(m.Bytes, b...)
			at := time.Unix(int64(len(m.Bytes)), 5)
			m.At, m.F = &at, m.F/3+float32(len(b))
			emit(fmt.Sprint(m.Seen, m.Bytes == nil, m.At.UnixNano(), m.F))
		})), "out")
		fixed := keyedstream.First(words)
		keyedsingleton.Output(fixed, "first")
		return []hands{{func(rng *rand.Rand) error {
			b := make([]byte, rng.IntN(3))
			for i := range b {
				b[i] = byte(rng.IntN(256))
			}
			return in.Send(context.Background(), string(b[:rng.IntN(len(b)+1)]), b)
		}, func() { out.Next(canceled); out.Next(canceled) }}}
	},
}

// TestLogDrivenByHand does with the handwritten flows what TestLogDriven does with random
// programs.
func TestLogDrivenByHand(t *testing.T) {
	for name, build := range byHand {
		t.Run(name, func(t *testing.T) {
			for n := range *programs / 30 {
				rng := rand.New(rand.NewPCG(*seed, uint64(n)))
				if err := logDrivenByHand(build, rng, nil); err != nil {
					t.Fatalf("history %d: %v\n%s", n, err, rerun(t))
				}
			}
		})
	}
}

func logDrivenByHand(build func(here, func(string)) []hands, rng *rand.Rand, forget engine.Forget) error {
	flow := logDrivenFlow(func(f *dataflow.Flow, see func(string)) {
		graphOf(f).Check(forget)
		build(dataflow.At[here](f), see)
	})
	box := &mailbox{rng: rng}
	facade := newRemote(dataflow.Options{}, durable.CBOR(), box)
	front := build(dataflow.At[here](facade), func(string) {})
	graph := graphOf(facade)
	graph.Start(context.Background())
	now := int64(1)
	var failed error
	var answers [][]byte
	left := 1 + rng.IntN(12)
	most := []int{3, 30, 300}[rng.IntN(3)]
	return flow.threeWays(rng, func(r *logDrivenRun) (logDrivenStep, bool) {
		kept, err := r.executor.Outputs(nil)
		if err == nil {
			err = logdriven.Feed(graph, 0, 0, nil, kept)
		}
		if failed = err; failed != nil || left == 0 {
			return logDrivenStep{}, false
		}
		left--
		now = r.later(rng, now)
		for _, h := range front {
			for range rng.IntN(most) {
				if failed = h.send(rng); failed != nil {
					return logDrivenStep{}, false
				}
			}
			if h.read != nil && rng.IntN(2) == 0 {
				h.read()
			}
		}
		for _, op := range operatorNumbers(r.executor.Location().Ops, "keyedsingleton.MapAsync") {
			for _, data := range box.waiting { // each entry causes a call, and some of the calls are answered
				rec, err := codec.DecodeRecord(data)
				if err == nil && rec.Kind == 0 && rng.IntN(2) == 0 {
					value, _ := durable.CBOR().Append(nil, fmt.Sprint("answer", rng.IntN(5)))
					answer := codec.Record{Op: op, Kind: 1, Key: rec.Key, Value: value}
					answers = append(answers, answer.Encode(nil))
				}
			}
			n := rng.IntN(len(answers) + 1)
			box.waiting, answers = append(box.waiting, answers[:n]...), answers[n:]
		}
		for _, op := range operatorNumbers(r.executor.Location().Ops, "keyedstream.CallingMachine") {
			box.waiting = append(box.waiting, guessedAnswers(rng, op)...)
		}
		s := logDrivenStep{now: now, records: box.waiting}
		box.waiting = nil
		return s, true
	})
}

// TestLogDrivenCycleOfConstants checks that a cycle feeds back what it derives from constants,
// before any input arrives.
func TestLogDrivenCycleOfConstants(t *testing.T) {
	var seen []string
	flow := logDrivenFlow(func(f *dataflow.Flow, _ func(string)) {
		byHand["cycle"](dataflow.At[here](f), func(s string) { seen = append(seen, s) })
	})
	r, _, err := flow.begun()
	if err != nil {
		t.Fatal(err)
	}
	defer r.end()
	if got, want := strings.Join(seen, " "), "3 40 1 20 10 5 2 1"; got != want {
		t.Errorf("the slice saw %s, want %s", got, want)
	}
}
