// Command outside is a program of another module that tries to get around what the
// types of live collections promise, in ways that compile. It prints what came of each.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/slice"
)

type (
	Server struct{ dataflow.Process }
	Cloud  struct{ dataflow.Process }
	Shared struct{ dataflow.Cluster }

	pointer  struct{ *dataflow.Process }
	borrowed struct{ dataflow.Location }
	inside   struct{ dataflow.Tick[Server] }

	ordered   = dataflow.Stream[int, Server, bounds.Bounded, dataflow.TotalOrder, dataflow.ExactlyOnce]
	unordered = dataflow.Stream[int, Server, bounds.Bounded, dataflow.NoOrder, dataflow.ExactlyOnce]
)

// An attack is one way around. It is given a flow, a location and a collection of it.
type attack struct {
	name string
	try  func(f *dataflow.Flow, at Server, votes unordered)
}

// zero2 and zero4 call f with the zero value of a type that they need not name.
func zero2[A, P, R any](f func(A, P) R, a A) R {
	var p P
	return f(a, p)
}

func zero4[A, B, C, P, R any](f func(A, B, C, P) R, a A, b B, c C) R {
	var p P
	return f(a, b, c, p)
}

var attacks = []attack{
	{"a reason that was inferred", func(_ *dataflow.Flow, _ Server, votes unordered) {
		zero2(dataflow.AssumeOrder[int, Server, bounds.Bounded, dataflow.NoOrder, dataflow.ExactlyOnce], votes)
	}},
	{"a reason of blanks", func(_ *dataflow.Flow, _ Server, votes unordered) { dataflow.AssumeOrder(votes, " \t\n") }},
	{"a proof that was inferred", func(_ *dataflow.Flow, _ Server, votes unordered) {
		zero4(dataflow.FoldCommutative[int, int, Server, bounds.Bounded, dataflow.NoOrder, dataflow.ExactlyOnce],
			votes, func() int { return 0 }, func(acc *int, n int) { *acc = n })
	}},
	{"conversion by reflection", func(_ *dataflow.Flow, _ Server, votes unordered) {
		_ = reflect.ValueOf(votes).Convert(reflect.TypeFor[ordered]())
	}},
	{"assignment by reflection", func(_ *dataflow.Flow, _ Server, votes unordered) {
		var s ordered
		reflect.ValueOf(&s).Elem().Set(reflect.ValueOf(votes))
	}},
	{"a field by reflection", func(_ *dataflow.Flow, _ Server, votes unordered) {
		var s ordered
		to, from := reflect.ValueOf(&s).Elem(), reflect.ValueOf(votes)
		to.Field(1).Set(from.Field(1))
	}},
	{"a field by name by reflection", func(_ *dataflow.Flow, _ Server, votes unordered) {
		var s ordered
		to, from := reflect.ValueOf(&s).Elem(), reflect.ValueOf(votes)
		to.FieldByName("value").Set(from.FieldByName("value"))
	}},
	{"the node by reflection", func(_ *dataflow.Flow, _ Server, votes unordered) {
		reflect.ValueOf(votes).Field(1).Interface()
	}},
	{"methods by reflection", func(_ *dataflow.Flow, _ Server, votes unordered) {
		v := reflect.ValueOf(&votes)
		panic(fmt.Sprint(v.NumMethod()+v.Elem().NumMethod()+v.Elem().Field(1).Addr().NumMethod(), " methods"))
	}},
	{"a method of the node by reflection", func(_ *dataflow.Flow, _ Server, votes unordered) {
		reflect.ValueOf(votes).Field(1).Method(0).Call(nil)
	}},
	{"a collection from JSON", func(_ *dataflow.Flow, _ Server, votes unordered) {
		text, err := json.Marshal(votes)
		if err != nil {
			panic(err)
		}
		var s ordered
		if err := json.Unmarshal(text, &s); err != nil {
			panic(err)
		}
		dataflow.Map(s, func(n int) int { return n })
	}},
	{"a location converted", func(_ *dataflow.Flow, at Server, _ unordered) { dataflow.Of(Cloud(at), 1) }},
	{"a location taken over", func(_ *dataflow.Flow, at Server, _ unordered) {
		var to Cloud
		to.Process = at.Process
		dataflow.Input[int](to, "numbers")
	}},
	{"a location converted, sent to", func(f *dataflow.Flow, at Server, votes unordered) { dataflow.Send(votes, Cloud(at)) }},
	{"a location converted, cut", func(_ *dataflow.Flow, at Server, _ unordered) { slice.At(Cloud(at)) }},
	{"a location behind a pointer", func(_ *dataflow.Flow, at Server, _ unordered) { dataflow.Of(&at, 1) }},
	{"no location behind a pointer", func(*dataflow.Flow, Server, unordered) { dataflow.Of((*Server)(nil), 1) }},
	{"a location behind an interface", func(_ *dataflow.Flow, at Server, _ unordered) {
		dataflow.Of[int, dataflow.Location](at, 1)
	}},
	{"no location behind an interface", func(*dataflow.Flow, Server, unordered) {
		dataflow.Of[int, dataflow.Location](nil, 1)
	}},
	{"an interface embedded", func(_ *dataflow.Flow, at Server, _ unordered) { dataflow.Of(borrowed{at}, 1) }},
	{"a pointer embedded", func(f *dataflow.Flow, _ Server, _ unordered) { dataflow.At[pointer](f) }},
	{"a nil pointer embedded", func(*dataflow.Flow, Server, unordered) { dataflow.Of(pointer{}, 1) }},
	{"a slice embedded", func(_ *dataflow.Flow, at Server, _ unordered) { dataflow.Of(inside{slice.At(at)}, 1) }},
	{"a zero location", func(*dataflow.Flow, Server, unordered) { dataflow.Of(Server{}, 1) }},
	{"a zero cluster", func(*dataflow.Flow, Server, unordered) { keyedstream.Input[int, int](Shared{}, "numbers") }},
	{"a zero slice", func(*dataflow.Flow, Server, unordered) { slice.State(dataflow.Tick[Server]{}, 1) }},
	{"a location of another flow, sent to", func(_ *dataflow.Flow, _ Server, votes unordered) {
		dataflow.Send(votes, dataflow.At[Cloud](dataflow.New()))
	}},
	{"a location of another flow, taken over", func(_ *dataflow.Flow, at Server, votes unordered) {
		at.Process = dataflow.At[Server](dataflow.New()).Process
		dataflow.Merge(votes, dataflow.Of(at, 1))
	}},
	{"a cycle of nothing", func(_ *dataflow.Flow, at Server, _ unordered) {
		loop, _ := dataflow.Cycle[int, dataflow.NoOrder](at, "again")
		loop.Complete(dataflow.Stream[int, Server, bounds.Unbounded, dataflow.NoOrder, dataflow.ExactlyOnce]{})
	}},
	{"a state of nothing", func(_ *dataflow.Flow, at Server, _ unordered) {
		_, keep := slice.State(slice.At(at), 1)
		keep(dataflow.Singleton[int, dataflow.Tick[Server], bounds.Bounded]{})
	}},
	{"entries of nothing", func(_ *dataflow.Flow, at Server, _ unordered) {
		_, keep := slice.StateEntries[int, int](slice.At(at))
		keep(dataflow.KeyedSingleton[int, int, dataflow.Tick[Server], bounds.Bounded]{})
	}},
	{"a second collection of nothing", func(_ *dataflow.Flow, _ Server, votes unordered) { dataflow.Merge(votes, unordered{}) }},
}

func main() {
	outcome := make(map[string]string)
	try := func(name string, f func()) {
		defer func() {
			if p := recover(); p != nil {
				outcome[name] = fmt.Sprint(p)
			}
		}()
		outcome[name] = "nothing"
		f()
	}
	for _, a := range attacks {
		f := dataflow.New()
		at := dataflow.At[Server](f)
		votes := dataflow.WeakenOrder(dataflow.Of(at, 1, 2))
		try(a.name, func() { a.try(f, at, votes) })
	}
	for name, f := range zeros {
		try(name, f)
	}
	if err := json.NewEncoder(os.Stdout).Encode(outcome); err != nil {
		panic(err)
	}
}
