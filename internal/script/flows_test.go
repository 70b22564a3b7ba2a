package script

import (
	"fmt"
	"strings"
	"time"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

const shown = "the script shows it"

func zero() int               { return 0 }
func add(acc *int, x int)     { *acc += x }
func newest(acc *int, x int)  { *acc = x }
func self(word string) string { return strings.ToLower(word) }

// flows contains the flows that the scripts run.
var flows = map[string]Flow{
	"limit": func(s *Stage) { Show(s, "first", dataflow.Limit(Input[int](s, "xs"), s.Int("n", 2))) },

	"first": func(s *Stage) { ShowEntries(s, "first", keyedstream.First(Keyed[string, int](s, "values"))) },

	"tally": func(s *Stage) {
		count := keyedstream.Count(dataflow.KeyBy(Unordered[string](s, "votes"), self))
		ShowEntries(s, "passed", keyedsingleton.ThresholdUniform(count, s.Int("limit", 2)))
	},

	"quorum": func(s *Stage) {
		need := s.Int("need", 2)
		ShowEntries(s, "decided", keyedstream.FoldEarlyStop(Keyed[string, string](s, "votes"),
			func() string { return "" },
			func(acc *string, vote string) bool {
				*acc = strings.TrimSpace(*acc + " " + vote)
				return len(strings.Fields(*acc)) == need
			}))
	},

	"batches": func(s *Stage) {
		batch := slice.Batch(slice.At(s.At), Input[int](s, "xs"), shown)
		list := dataflow.Fold(batch, func() []int { return nil }, func(acc *[]int, x int) { *acc = append(*acc, x) })
		Show(s, "batches", slice.Emit(singleton.IntoStream(list)))
	},

	"running": func(s *Stage) {
		tick := slice.At(s.At)
		xs := Input[int](s, "xs")
		total := dataflow.Fold(xs, zero, add)
		Show(s, "seen", slice.Emit(dataflow.CrossSingleton(slice.Batch(tick, xs, shown), slice.Snapshot(tick, total, shown))))
		ShowValue(s, "total", total)
	},

	"quote": func(s *Stage) {
		tick := slice.At(s.At)
		price := dataflow.Fold(Input[int](s, "price"), zero, newest)
		fresh := slice.BatchEntries(tick, Entries[string, int](s, "orders"), "each order is quoted alone, once")
		now := slice.Passive(slice.Snapshot(tick, price, "an order is quoted at the price when it is handled"))
		quote := func(p dataflow.Pair[int, int]) int { return p.First * p.Second }
		ShowEntries(s, "quotes", slice.EmitEntries(keyedsingleton.Map(keyedsingleton.CrossSingleton(fresh, now), quote)))
	},

	"odd": func(s *Stage) {
		sums := keyedstream.Sum(Keyed[string, int](s, "values"))
		odd := keyedsingleton.Filter(sums, func(x int) bool { return x%2 == 1 })
		ShowContent(s, "odd", odd)
		ShowValue(s, "keys", keyedsingleton.KeyCount(odd))
	},

	"unique": func(s *Stage) { Show(s, "unique", dataflow.Unique(Repeated[string](s, "words"))) },

	"highest": func(s *Stage) { ShowMaybe(s, "highest", dataflow.Max(Repeated[int](s, "bids"))) },

	"counted": func(s *Stage) { ShowValue(s, "count", dataflow.Count(Unordered[string](s, "words"))) },

	"reminder": func(s *Stage) {
		orders := Entries[string, int](s, "orders")
		ShowEntries(s, "due", keyedsingleton.AfterEach(orders, func(seconds int) time.Duration { return time.Duration(seconds) * time.Second }, shown))
	},

	"session": func(s *Stage) {
		ttl, err := time.ParseDuration(s.Arg("ttl", "10s"))
		if err != nil {
			panic(err)
		}
		active := keyedsingleton.ForgetAfter(keyedstream.Count(Keyed[string, string](s, "clicks")), ttl, shown)
		ShowContent(s, "active", active)
		ShowValue(s, "users", keyedsingleton.KeyCount(active))
	},

	// An order waits for its payment, or a payment for its order. The slice keeps each
	// until it is matched.
	"payment": func(s *Stage) {
		tick := slice.At(s.At)
		type pair = dataflow.Pair[int, int]
		kept, keep := slice.StateEntries[string, int](tick)
		keptPaid, keepPaid := slice.StateEntries[string, int](tick)
		orders := slice.BatchEntries(tick, Entries[string, int](s, "orders"), "an order is matched with whatever payment there will be")
		payments := slice.BatchEntries(tick, Entries[string, int](s, "payments"), "a payment likewise")
		open, paid := both(kept, orders), both(keptPaid, payments)
		settled := keyedsingleton.JoinKeyedSingleton(open, paid)
		keep(keyedsingleton.WithoutKeys(open, keyedsingleton.Keys(settled)))
		keepPaid(keyedsingleton.WithoutKeys(paid, keyedsingleton.Keys(settled)))
		text := func(k string, p pair) string { return fmt.Sprint(k, ":", p) }
		Show(s, "settled", slice.Emit(keyedsingleton.Values(keyedsingleton.MapWithKey(settled, text))))
	},

	"account": func(s *Stage) {
		step := func(balance *int, change int, emit func(string)) {
			if *balance+change < 0 {
				emit(fmt.Sprintf("%d refused", change))
				return
			}
			*balance += change
			emit(fmt.Sprintf("=%d", *balance))
		}
		ShowKeyed(s, "statement", keyedstream.Scan(Keyed[string, int](s, "changes"), zero, step))
	},

	"pairs": func(s *Stage) {
		joined := keyedstream.Join(Keyed[string, string](s, "left"), Keyed[string, string](s, "right"))
		Show(s, "pairs", keyedstream.Entries(joined))
	},

	"inverse": func(s *Stage) {
		ShowEntries(s, "inverse", keyedsingleton.Map(Entries[string, int](s, "numbers"), func(x int) int { return 60 / x }))
	},

	// Two states swap their values in each run.
	"swap": func(s *Stage) {
		tick := slice.At(s.At)
		a, keepA := slice.State(tick, "tick")
		b, keepB := slice.State(tick, "tock")
		keepA(b)
		keepB(a)
		Show(s, "says", slice.Emit(dataflow.Map(dataflow.CrossSingleton(slice.Batch(tick, Input[string](s, "bell"), shown), a),
			func(p dataflow.Pair[string, string]) string { return p.Second })))
	},

	// The slice that is made first runs last, because it reads what the other emits.
	"relay": func(s *Stage) {
		last, first := slice.At(s.At), slice.At(s.At)
		xs := Input[int](s, "xs")
		passed := slice.Emit(slice.Batch(first, xs, shown))
		sum := slice.Snapshot(last, dataflow.Sum(passed), shown)
		Show(s, "sums", slice.Emit(dataflow.CrossSingleton(slice.Batch(last, xs, shown), sum)))
	},

	"clock": func(s *Stage) {
		Show(s, "at", dataflow.Interval(s.At, 2*time.Second, shown))
		Show(s, "xs", Input[int](s, "xs"))
	},
}

// both returns the entries of a, and those of b under keys that are not in a.
func both(a, b dataflow.KeyedSingleton[string, int, dataflow.Tick[dataflow.Here], bounds.Bounded]) dataflow.KeyedSingleton[string, int, dataflow.Tick[dataflow.Here], bounds.Bounded] {
	return keyedstream.First(keyedstream.Chain(keyedsingleton.IntoKeyedStream(a), keyedsingleton.IntoKeyedStream(b)))
}
