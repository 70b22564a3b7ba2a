package dataflow_test

import (
	"context"
	"strings"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// words works at any location.
func words[L dataflow.Location](lines dataflow.OrderedStream[string, L]) dataflow.OrderedStream[string, L] {
	return dataflow.FlatMap(lines, func(line string, emit func(string)) {
		for _, word := range strings.Fields(line) {
			emit(word)
		}
	})
}

func ExampleOrderedStream() {
	dataflow.Local(func(at dataflow.Here) {
		in, lines := dataflow.Input[string](at, "lines")
		dataflow.Print(words(lines))

		in.Send(context.Background(), "to be or not")
	})
	// Output:
	// to
	// be
	// or
	// not
}

// balances sums the amounts of each account. Only the first amount of an account may be large.
func balances(amounts dataflow.OrderedKeyedStream[string, int, dataflow.Here]) dataflow.OrderedKeyedStream[string, int, dataflow.Here] {
	return keyedstream.Scan(amounts, func() int { return 0 }, func(sum *int, amount int, emit func(int)) {
		if *sum == 0 || amount < 100 {
			*sum += amount
		}
		emit(*sum)
	})
}

func ExampleOrderedKeyedStream() {
	dataflow.Local(func(at dataflow.Here) {
		in, amounts := keyedstream.Input[string, int](at, "amounts")
		dataflow.Print(keyedstream.Entries(balances(amounts)))

		in.Send(context.Background(), "ann", 500)
		in.Send(context.Background(), "ann", 500)
		in.Send(context.Background(), "ann", 20)
	})
	// Output:
	// ann:500
	// ann:500
	// ann:520
}

// yes returns the votes in favor.
func yes(votes dataflow.UnorderedKeyedStream[string, bool, dataflow.Here]) dataflow.UnorderedKeyedStream[string, bool, dataflow.Here] {
	return keyedstream.Filter(votes, func(yes bool) bool { return yes })
}

func ExampleUnorderedKeyedStream() {
	dataflow.Local(func(at dataflow.Here) {
		in, votes := keyedstream.SharedInput[string, bool](at, "votes")
		dataflow.Print(keyedstream.Entries(yes(votes)))

		in.Send(context.Background(), "longer lunch", true)
		in.Send(context.Background(), "earlier start", false)
	})
	// Output:
	// longer lunch:true
}

// greet answers requests. A request has one answer, and the answer never changes.
func greet(requests dataflow.FixedKeyedSingleton[int, string, dataflow.Here]) dataflow.FixedKeyedSingleton[int, string, dataflow.Here] {
	return keyedsingleton.Map(requests, func(name string) string { return "hello, " + name })
}

func ExampleFixedKeyedSingleton() {
	dataflow.Local(func(at dataflow.Here) {
		in, requests := keyedsingleton.Input[int, string](at, "requests")
		dataflow.Print(keyedsingleton.Entries(greet(requests)))

		in.Put(context.Background(), 1, "ann")
	})
	// Output:
	// 1:hello, ann
}
