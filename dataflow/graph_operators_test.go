package dataflow_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/optional"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

const drawn = "it is only drawn"

type (
	integers = dataflow.Stream[int, counter, unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]
	byName   = dataflow.KeyedStream[string, int, counter, unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]
	once     = dataflow.KeyedSingleton[string, int, counter, bounds.BoundedValue]
	tickAt   = dataflow.Tick[counter]
)

func positive(x int) bool                { return x > 0 }
func itself(x int) int                   { return x }
func kept(x int) (int, bool)             { return x, true }
func tried(x int) (int, error)           { return x, nil }
func zero() int                          { return 0 }
func add(sum *int, x int)                { *sum += x }
func prefix(k string, _ int) string      { return k[:1] }
func named(x int) string                 { return strconv.Itoa(x) }
func emitted(x int, emit func(int))      { emit(x) }
func step(s *int, x int, emit func(int)) { *s += x; emit(*s) }

// everyOperator builds a flow that uses every operator of the library at least once and reads
// every result.
func everyOperator() *dataflow.Flow {
	flow := dataflow.New()
	at := dataflow.At[counter](flow)
	_, s := dataflow.Input[int](at, "numbers")
	_, ks := keyedstream.Input[string, int](at, "by name")
	_, e := keyedsingleton.Input[string, int](at, "once")
	onStream(at, s)
	onKeyedStream(ks)
	onAggregates(at, ks)
	onEntries(at, e)
	_, jobs := keyedsingleton.InputWithin[string, int](at, "jobs", dataflow.Retain{Keys: 1}, drawn)
	keys(jobs)
	dataflow.Print(keyedstream.Entries(keyedsingleton.Changes(jobs, drawn)))
	onValues(at, s)
	onSlices(slice.At(at), s, ks, e)
	onLinks(flow, s, ks, e)
	onInputs(at)
	return flow
}

func onInputs(at counter) {
	_, shared := dataflow.SharedInput[int](at, "shared")
	_, retried := dataflow.RetriedInput[int](at, "retried")
	_, senders := dataflow.SenderInput[string, int](at, "senders")
	_, sharedByName := keyedstream.SharedInput[string, int](at, "shared by name")
	_, retriedByName := keyedstream.RetriedInput[string, int](at, "retried by name")
	dataflow.Print(shared)
	dataflow.Output(retried, "retried")
	dataflow.Print(keyedstream.Keys(senders))
	dataflow.Print(keyedstream.Keys(sharedByName))
	dataflow.Print(keyedstream.Keys(retriedByName))
}

// A drawer is a location that receives values from another one.
type drawer struct{ dataflow.Process }

func onLinks(flow *dataflow.Flow, s integers, ks byName, e once) {
	members := dataflow.Members[drawer](flow, 2)
	dataflow.Print(dataflow.Send(s, members[0]))
	dataflow.Print(keyedstream.Keys(keyedstream.Send(ks, members[1])))
	dataflow.Print(keyedsingleton.Keys(keyedsingleton.Send(e, members[1])))
	for _, part := range keyedstream.Divide(dataflow.KeyBy(dataflow.Send(s, members[1]), named), members) {
		dataflow.Print(keyedstream.Keys(part))
	}
}

func onStream(at counter, s integers) {
	s = dataflow.Limit(dataflow.Unique(dataflow.Inspect(dataflow.FlatMap(s, emitted), func(int) {})), 9)
	s = dataflow.MapRef(dataflow.Map(dataflow.Filter(dataflow.FilterMap(s, kept), positive), itself), func(x *int) int { return *x })
	s = dataflow.AssumeOnce(dataflow.AssumeOrder(dataflow.Merge(s, dataflow.Scan(s, zero, step)), drawn), drawn)
	yes, no := dataflow.Partition(dataflow.Chain(dataflow.Of(at, 1), dataflow.MergeOrdered(s, dataflow.Map(s, itself), drawn)), positive)
	values, failures := dataflow.TryMap(yes, tried)
	dataflow.ForEach(failures, func(dataflow.Failure[int]) {})
	dataflow.ForEach(dataflow.CrossSingleton(no, singleton.Of(at, 1)), func(dataflow.Pair[int, int]) {})
	dataflow.Output(dataflow.Enumerate(values), "values")
	dataflow.Print(keyedstream.Keys(dataflow.KeyBy(s, named)))
	dataflow.Print(keyedstream.Values(dataflow.KeyByRef(s, func(x *int) string { return named(*x) })))
	dataflow.Print(dataflow.Interval(at, time.Second, drawn))
	dataflow.Print(dataflow.Sort(dataflow.Of(at, 2, 1)))
	dataflow.Print(dataflow.Cross(s, dataflow.Of(at, 2, 1)))
	loop, again := dataflow.Cycle[int, dataflow.TotalOrder](at, "again")
	loop.Complete(slice.Emit(slice.Batch(slice.At(at), dataflow.MergeOrdered(s, again, drawn), drawn)))
}

func onKeyedStream(ks byName) {
	ks = keyedstream.InspectWithKey(keyedstream.Inspect(ks, func(int) {}), func(string, int) {})
	ks = keyedstream.Limit(keyedstream.Unique(keyedstream.Map(keyedstream.MapWithKey(ks, func(_ string, x int) int { return x }), itself)), 2)
	ks = keyedstream.FilterWithKey(keyedstream.Filter(ks, positive), func(string, int) bool { return true })
	ks = keyedstream.FilterMapWithKey(keyedstream.FilterMap(ks, kept), func(_ string, x int) (int, bool) { return x, true })
	ks = keyedstream.Scan(keyedstream.FlatMap(ks, emitted), zero, step)
	ks = keyedstream.AssumeOnce(keyedstream.AssumeOrder(keyedstream.Rekey(ks, prefix), drawn), drawn)
	yes, no := keyedstream.Partition(keyedstream.MergeOrdered(ks, keyedstream.Map(ks, itself), drawn), positive)
	values, failures := keyedstream.TryMap(yes, tried)
	keyedstream.Output(keyedstream.Merge(values, no), "values")
	dataflow.Print(keyedstream.Entries(failures))
	dataflow.Print(keyedstream.Entries(keyedstream.Join(ks, no)))
	dataflow.Print(keyedstream.Entries(keyedstream.Enumerate(ks)))
	dataflow.Print(keyedstream.Entries(keyedstream.PrefixKey(dataflow.Keyed(keyedstream.Entries(ks)), prefix)))
}

func onAggregates(at counter, ks byName) {
	one := dataflow.KeyBy(dataflow.Of(at, 1), named)
	two := keyedstream.CrossSingleton(keyedstream.Chain(one, ks), singleton.Of(at, 1))
	ks = keyedstream.Map(keyedstream.AntiJoin(two, dataflow.Of(at, "x")), func(p dataflow.Pair[int, int]) int { return p.First })
	keys(keyedstream.First(ks))
	seen, decided := keyedstream.ScanFirst(ks, zero, func(_ *int, x int, emit func(int)) (int, bool) { emit(x); return x, true })
	keyedstream.Output(seen, "seen")
	keys(decided)
	stated, forgotten := keyedstream.Machine(ks, zero, func(*int, int, *keyedstream.Turn[string, int, int]) {})
	keyedstream.Output(stated, "stated")
	keys(forgotten)
	timed, late := keyedstream.TimedMachine(ks, zero, func(*int, int, *keyedstream.TimedTurn[string, int, int]) {},
		func(*int, keyedstream.Timer, *keyedstream.TimedTurn[string, int, int]) {}, drawn)
	keyedstream.Output(timed, "timed")
	keys(late)
	type turn = keyedstream.CallingTurn[string, int, int, int]
	called, answers := keyedstream.CallingMachine(ks, zero, func(*int, int, *turn) {}, func(*int, keyedstream.Timer, *turn) {}, keyedstream.Calling(
		func(context.Context, keyedstream.Call[string, int]) int { return 0 }, func(*int, int, int, *turn) {}, keyedstream.CallOptions{}), drawn)
	keyedstream.Output(called, "called")
	keys(answers)
	keys(keyedstream.FoldEarlyStop(ks, zero, func(*int, int) bool { return true }))
	counted := dataflow.Sequenced(func(k string) (string, uint64) { return k, 0 })
	keys(keyedstream.First(ks, counted))
	keys(keyedstream.FoldEarlyStop(ks, zero, func(*int, int) bool { return true }, counted))
	keyedsingleton.Output(keyedstream.FirstWithin(ks, keyedstream.Retain{Keys: 1}, drawn), "retained")
	dataflow.Print(keyedsingleton.Keys(keyedstream.FoldEarlyStopWithin(ks, zero, func(*int, int) bool { return true }, keyedstream.Retain{For: time.Second}, drawn)))
	keys(keyedstream.Fold(ks, zero, add))
	keys(keyedstream.FoldGrowing(ks, zero, add, "it is only drawn"))
	keys(keyedstream.FoldCommutative(ks, zero, add, "it is only drawn"))
	keys(keyedstream.FoldCommutativeGrowing(ks, zero, add, "it is only drawn"))
	keys(keyedstream.Reduce(ks, add))
	keys(keyedstream.Count(ks))
	keys(keyedstream.Sum(ks))
	keys(keyedstream.Min(ks))
	keys(keyedstream.Max(ks))
}

func onEntries(at counter, e once) {
	e = keyedsingleton.MapWithKey(keyedsingleton.Map(e, itself), func(_ string, x int) int { return x })
	e = keyedsingleton.FilterMap(keyedsingleton.FilterWithKey(keyedsingleton.Filter(e, positive), func(string, int) bool { return true }), kept)
	e = keyedsingleton.FilterMapWithKey(keyedsingleton.Inspect(e, func(int) {}), func(_ string, x int) (int, bool) { return x, true })
	e = keyedsingleton.MapAsync(keyedsingleton.InspectWithKey(e, func(string, int) {}), func(_ context.Context, x int) int { return x }, keyedsingleton.AsyncOptions{})
	e = keyedsingleton.MapAsyncWithKey(e, func(_ context.Context, _ string, x int) int { return x }, keyedsingleton.AsyncOptions{})
	e, late := keyedsingleton.TryAsync(e, func(_ context.Context, _ string, x int) (int, error) { return x, nil }, keyedsingleton.AsyncOptions{}, keyedsingleton.Backoff{})
	keys(late)
	e = keyedsingleton.AfterEach(keyedsingleton.After(e, time.Second, drawn), func(int) time.Duration { return 0 }, drawn)
	e = keyedsingleton.WithoutKeys(e, dataflow.Of(at, "x"))
	keys(keyedsingleton.CrossSingleton(e, singleton.Of(at, 1)))
	keys(keyedsingleton.ForgetAfter(e, time.Second, drawn))
	keys(keyedsingleton.Threshold(e, keyedsingleton.ThresholdUniform(e, 3)))
	values, failures := keyedsingleton.TryMap(e, tried)
	keys(failures)
	keyedsingleton.Output(values, "values")
	dataflow.Print(keyedsingleton.Entries(e))
	dataflow.Print(keyedsingleton.Values(e))
	dataflow.Print(keyedsingleton.Keys(e))
	dataflow.Print(keyedstream.Values(keyedsingleton.IntoKeyedStream(e)))
	singleton.Output(keyedsingleton.IntoSingleton(e), "all")
	optional.Output(keyedsingleton.MaxKey(e), "last")
}

func onValues(at counter, s integers) {
	singleton.Output(singleton.Map(dataflow.Fold(s, zero, add), itself), "fold")
	singleton.Output(dataflow.FoldCommutative(s, zero, add, "it is only drawn"), "any order")
	dataflow.Print(singleton.Threshold(dataflow.FoldGrowing(s, zero, add, "it is only drawn"), 3))
	dataflow.Print(singleton.Threshold(dataflow.FoldCommutativeGrowing(s, zero, add, "it is only drawn"), 3))
	dataflow.Print(singleton.Threshold(singleton.MapGrowing(dataflow.Count(s), itself, "it is only drawn"), 3))
	sum := dataflow.Sum(s)
	some := optional.Or(singleton.Filter(sum, positive), optional.Filter(singleton.FilterMap(sum, kept), positive))
	some = optional.Or(some, optional.Map(optional.FilterMap(dataflow.Reduce(s, add), kept), itself))
	singleton.Output(optional.UnwrapOr(some, singleton.Of(at, 1)), "some")
	singleton.Output(optional.IntoSingleton(some), "maybe")
	singleton.Output(optional.IsSome(dataflow.Max(s)), "some")
	singleton.Output(optional.IsNone(dataflow.Min(s)), "none")
	one := singleton.Of(at, 1)
	pairs := optional.Zip(singleton.Filter(one, positive), singleton.FilterMap(one, kept))
	dataflow.Print(optional.IntoStream(pairs))
	dataflow.Print(singleton.IntoStream(singleton.Zip(one, singleton.Of(at, 2))))
}

func onSlices(tick tickAt, s integers, ks byName, e once) {
	batch := slice.BatchKeyed(tick, ks, drawn)
	fresh := slice.BatchEntries(tick, e, drawn)
	sum := slice.Passive(slice.Snapshot(tick, dataflow.Sum(s), drawn))
	least := slice.SnapshotOptional(tick, dataflow.Min(s), drawn)
	totals := slice.SnapshotEntries(tick, keyedstream.Sum(ks), drawn)
	before, keep := slice.State(tick, 0)
	keep(singleton.Map(singleton.Zip(before, sum), func(p dataflow.Pair[int, int]) int { return p.First + p.Second }))
	old, keepEntries := slice.StateEntries[string, int](tick)
	keepEntries(keyedstream.Reduce(keyedstream.Chain(batch, keyedsingleton.IntoKeyedStream(old)), add))
	singleton.Output(slice.Latest(before, 0), "before")
	optional.Output(slice.LatestOptional(least), "least")
	keyedsingleton.Output(slice.EmitEntries(fresh), "fresh")
	kept := keyedsingleton.ForgetAfter(e, time.Hour, drawn)
	keyedsingleton.Output(slice.EmitRetained(slice.BatchEntries(tick, kept, drawn)), "kept")
	dataflow.Print(keyedstream.Keys(slice.EmitKeyed(keyedsingleton.JoinKeyedStream(totals, batch))))
	dataflow.Print(keyedsingleton.Entries(keyedsingleton.JoinKeyedSingleton(fresh, totals)))
	name := keyedsingleton.Map(fresh, named)
	dataflow.Print(keyedsingleton.Entries(keyedsingleton.LookupKeyedSingleton(name, totals)))
	dataflow.Print(keyedstream.Entries(keyedsingleton.LookupKeyedStream(name, batch)))
	dataflow.Print(optional.IntoStream(keyedsingleton.Get(totals, singleton.Map(before, named))))
	dataflow.Print(keyedstream.Entries(keyedstream.CrossSingleton(batch, before)))
	sorted := keyedstream.SortFunc(keyedstream.Sort(batch), func(a, b int) int { return b - a }, "it is only drawn")
	dataflow.Print(keyedstream.Get(sorted, singleton.Map(before, named)))
	names := keyedstream.Map(batch, named)
	dataflow.Print(keyedstream.Entries(keyedstream.LookupKeyedSingleton(names, totals)))
	dataflow.Print(keyedstream.Entries(keyedstream.LookupKeyedStream(names, batch)))
	dataflow.Print(slice.Emit(slice.Batch(tick, s, drawn)))
}

// keys outputs a keyed singleton as the number of its keys.
func keys[V any, B bounds.Counted[Out], Out bounds.Singleton](ks dataflow.KeyedSingleton[string, V, counter, B]) {
	singleton.Output(keyedsingleton.KeyCount(ks), "keys")
}

// inputsOf contains the number of collections that an operator reads, if it is not one. State
// reads what is kept, and a cycle reads what completes it.
var inputsOf = map[string]int{
	"dataflow.SharedInput": 0, "dataflow.RetriedInput": 0, "dataflow.SenderInput": 0, "keyedstream.SharedInput": 0, "keyedstream.RetriedInput": 0,
	"dataflow.Of": 0, "singleton.Of": 0, "dataflow.Input": 0, "keyedstream.Input": 0, "keyedsingleton.Input": 0, "keyedsingleton.InputWithin": 0, "dataflow.Interval": 0,
	"dataflow.Merge": 2, "dataflow.MergeOrdered": 2, "dataflow.Chain": 2, "dataflow.CrossSingleton": 2, "dataflow.Cross": 2,
	"keyedstream.Merge": 2, "keyedstream.MergeOrdered": 2, "keyedstream.Chain": 2, "keyedstream.CrossSingleton": 2,
	"keyedstream.Join": 2, "keyedstream.AntiJoin": 2, "keyedstream.Get": 2,
	"keyedstream.LookupKeyedSingleton": 2, "keyedstream.LookupKeyedStream": 2,
	"keyedsingleton.CrossSingleton": 2, "keyedsingleton.WithoutKeys": 2, "keyedsingleton.Threshold": 2, "keyedsingleton.Get": 2,
	"keyedsingleton.JoinKeyedStream": 2, "keyedsingleton.JoinKeyedSingleton": 2,
	"keyedsingleton.LookupKeyedSingleton": 2, "keyedsingleton.LookupKeyedStream": 2,
	"singleton.Zip": 2, "optional.Zip": 2, "optional.Or": 2, "optional.UnwrapOr": 2,
}

// sends reports whether op reads the output of from at another location. A Divide also does so
// on behalf of the other members.
func sends(from, op dataflow.GraphOperator) bool {
	return strings.HasSuffix(op.Name, ".Send") || op.Name == "keyedstream.Divide" && from.Name == op.Name
}

// TestGraphOfEveryOperator checks that the graph contains every operator of the library, with as
// many inputs as arguments, and with a reader unless it is an end of the flow. It also fails for
// an operator that [everyOperator] does not use.
func TestGraphOfEveryOperator(t *testing.T) {
	g := everyOperator().Graph()
	end := regexp.MustCompile(`\.Output$|^dataflow\.(ForEach|Print)$`)
	seen := make(map[string]bool)
	for i, op := range g.Operators {
		seen[op.Name] = true
		ins, outs := 0, 0
		for _, e := range g.Edges {
			if e.To == i {
				ins++
			}
			if e.From == i {
				outs++
			}
			if from := g.Operators[e.From]; e.To == i && (from.Location != op.Location) != sends(from, op) || e.To == i && e.Back != (e.From > e.To && from.Location == op.Location) {
				t.Errorf("%s reads %s", op.Name, from.Name)
			}
		}
		want, ok := inputsOf[op.Name]
		if !ok {
			want = 1
		}
		if ins != want {
			t.Errorf("%s at %s has %d inputs, want %d", op.Name, op.Pos, ins, want)
		}
		if (outs == 0) != end.MatchString(op.Name) {
			t.Errorf("%s at %s has %d readers", op.Name, op.Pos, outs)
		}
	}
	for name := range operatorNames(t) {
		if !seen[name] {
			t.Errorf("%s is not in the flow of this test", name)
		}
	}
	for _, text := range []string{g.Mermaid(), g.DOT()} {
		for i := range g.Operators {
			if n := len(regexp.MustCompile(`(?m)^ +n`+strconv.Itoa(i)+`\b[^-]*["\]})]$`).FindAllString(text, -1)); n != 1 {
				t.Errorf("n%d is drawn %d times", i, n)
			}
		}
		if edges := len(regexp.MustCompile(`(?m)^ *n\d+ -`).FindAllString(text, -1)); edges != len(g.Edges) {
			t.Errorf("%d edges are drawn, want %d", edges, len(g.Edges))
		}
	}
}

// operatorNames returns the operator names in the source of the library.
func operatorNames(t *testing.T) map[string]bool {
	names := make(map[string]bool)
	name := regexp.MustCompile(`(?:NewOp|Read|Reasoned|ReadReasoned|ReadProved)\(.*"(\w+\.[A-Z][A-Za-z.]*) ?"`)
	for _, dir := range []string{".", "../keyedstream", "../keyedsingleton", "../singleton", "../optional", "../slice"} {
		files, _ := filepath.Glob(dir + "/*.go")
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") {
				continue
			}
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range name.FindAllSubmatch(text, -1) {
				names[string(m[1])] = true
			}
		}
	}
	if len(names) < 100 {
		t.Fatalf("found only %d operators", len(names))
	}
	return names
}

// TestKeysOfEveryOperator lists the kinds of state that cannot be looked up by key. A new kind
// of state must support lookup or be added here with a reason.
func TestKeysOfEveryOperator(t *testing.T) {
	without := regexp.MustCompile(`^(int|bool|int64|uint64|\[\]int|struct {}|keys\(string\)|calendar|generation|marks|string|cell\(.*\)|unread\(.*\))$`)
	for _, o := range everyOperator().Graph().Operators {
		for _, s := range o.States {
			if (s.Key == nil) != without.MatchString(s.Kind) {
				t.Errorf("%s remembers %s by key %v", o.Name, s.Kind, s.Key)
			}
		}
	}
}
