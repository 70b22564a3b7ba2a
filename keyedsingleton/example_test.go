package keyedsingleton_test

import (
	"context"
	"errors"
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

// A Bank is the location of some examples.
type Bank struct{ dataflow.Process }

type account = dataflow.Entry[string, int]

// accounts returns three balances that do not change.
func accounts(at dataflow.Here) dataflow.KeyedSingleton[string, int, dataflow.Here, bounds.Bounded] {
	return keyedstream.First(dataflow.Keyed(dataflow.Of(at,
		account{Key: "ann", Value: 120}, account{Key: "bob", Value: -30}, account{Key: "cid", Value: 7})))
}

// A service turns each request into one response. A client awaits a response by its key.
func Example() {
	ctx := context.Background()
	flow := dataflow.New()
	in, requests := keyedsingleton.Input[string, string](dataflow.At[Bank](flow), "requests")
	out := keyedsingleton.Output(keyedsingleton.Map(requests, strings.ToUpper), "responses")
	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		fmt.Println(err)
		return
	}

	in.Put(ctx, "request 1", "hello")
	in.Put(ctx, "request 2", "goodbye")
	fmt.Println(out.Await(ctx, "request 2"))
	fmt.Println(out.Await(ctx, "request 1"))
	app.Stop(ctx)
	// Output:
	// GOODBYE <nil>
	// HELLO <nil>
}

func ExampleInput() {
	ctx := context.Background()
	dataflow.Local(func(at dataflow.Here) {
		in, payments := keyedsingleton.Input[string, int](at, "payments")
		dataflow.Print(keyedsingleton.Entries(payments))

		fmt.Println(in.Put(ctx, "p-17", 250))
		// The client did not receive the answer and tries again.
		err := in.Put(ctx, "p-17", 250)
		fmt.Println(errors.Is(err, dataflow.ErrDuplicateKey))
	})
	// Output:
	// <nil>
	// true
	// p-17:250
}

func ExampleOutput() {
	ctx := context.Background()
	flow := dataflow.New()
	in, sums := keyedsingleton.Input[string, []int](dataflow.At[Bank](flow), "sums")
	out := keyedsingleton.Output(keyedsingleton.Map(sums, func(xs []int) int {
		total := 0
		for _, x := range xs {
			total += x
		}
		return total
	}), "totals")
	dataflow.Start(ctx, flow)

	_, ok := out.Get("r1")
	fmt.Println("there before the request:", ok)
	in.Put(ctx, "r1", []int{1, 2, 3})
	fmt.Println(out.Await(ctx, "r1"))
	// Output:
	// there before the request: false
	// 6 <nil>
}

func ExampleMap() {
	dataflow.Local(func(at dataflow.Here) {
		state := keyedsingleton.Map(accounts(at), func(cents int) string {
			if cents < 0 {
				return "overdrawn"
			}
			return "fine"
		})
		dataflow.Print(keyedsingleton.Entries(state))
	})
	// Unordered output:
	// ann:fine
	// bob:overdrawn
	// cid:fine
}

func ExampleMapWithKey() {
	dataflow.Local(func(at dataflow.Here) {
		letters := keyedsingleton.MapWithKey(accounts(at), func(who string, cents int) string {
			return fmt.Sprintf("dear %s, you have %d", who, cents)
		})
		dataflow.Print(keyedsingleton.Values(letters))
	})
	// Unordered output:
	// dear ann, you have 120
	// dear bob, you have -30
	// dear cid, you have 7
}

func ExampleFilter() {
	dataflow.Local(func(at dataflow.Here) {
		dataflow.Print(keyedsingleton.Entries(keyedsingleton.Filter(accounts(at), func(cents int) bool { return cents > 0 })))
	})
	// Unordered output:
	// ann:120
	// cid:7
}

// If values change, an entry appears and disappears with its value.
func ExampleFilter_changing() {
	dataflow.Local(func(at dataflow.Here) {
		in, moves := keyedstream.Input[string, int](at, "moves")
		balance := keyedstream.Fold(moves, func() int { return 0 }, func(sum *int, cents int) { *sum += cents })
		overdrawn := keyedsingleton.Filter(balance, func(cents int) bool { return cents < 0 })
		tick := slice.At(at)
		now := slice.Snapshot(tick, keyedsingleton.IntoSingleton(overdrawn), "a list for a person may skip versions")
		dataflow.Print(slice.Emit(singleton.IntoStream(now)))

		// Values that are sent before the start wait, and are handled in one step.
		for i, cents := range []int{50, -80, 40} {
			in.Send(context.Background(), []string{"ann", "ann", "bob"}[i], cents)
		}
	})
	// Output:
	// {}
	// {ann:-30}
}

func ExampleFilterWithKey() {
	dataflow.Local(func(at dataflow.Here) {
		others := keyedsingleton.FilterWithKey(accounts(at), func(who string, _ int) bool { return who != "bob" })
		dataflow.Print(keyedsingleton.Keys(others))
	})
	// Unordered output:
	// ann
	// cid
}

func ExampleFilterMap() {
	dataflow.Local(func(at dataflow.Here) {
		fees := keyedsingleton.FilterMap(accounts(at), func(cents int) (int, bool) { return -cents / 10, cents < 0 })
		dataflow.Print(keyedsingleton.Entries(fees))
	})
	// Output:
	// bob:3
}

func ExampleInspect() {
	sum := 0
	dataflow.Local(func(at dataflow.Here) {
		keyedsingleton.Inspect(accounts(at), func(cents int) { sum += cents })
	})
	fmt.Println(sum)
	// Output:
	// 97
}

func ExampleInspectWithKey() {
	audit := make(map[string]int)
	dataflow.Local(func(at dataflow.Here) {
		keyedsingleton.InspectWithKey(accounts(at), func(who string, cents int) { audit[who] = cents })
	})
	fmt.Println(audit)
	// Output:
	// map[ann:120 bob:-30 cid:7]
}

func ExampleEntries() {
	dataflow.Local(func(at dataflow.Here) {
		dataflow.Print(keyedsingleton.Entries(accounts(at)))
	})
	// Unordered output:
	// ann:120
	// bob:-30
	// cid:7
}

// Entries of a collection whose values change are read in a slice, which sees the current values.
func ExampleEntries_changing() {
	dataflow.Local(func(at dataflow.Here) {
		in, votes := dataflow.Input[string](at, "votes")
		tally := keyedstream.Count(dataflow.KeyBy(votes, strings.ToLower))
		now := slice.SnapshotEntries(slice.At(at), tally, "a tally shown to a person may be a moment old")
		dataflow.Print(slice.Emit(keyedsingleton.Entries(now)))

		in.SendBatch(context.Background(), []string{"yes", "No", "YES"})
	})
	// Unordered output:
	// yes:2
	// no:1
}

func ExampleValues() {
	dataflow.Local(func(at dataflow.Here) {
		dataflow.Print(keyedsingleton.Values(accounts(at)))
	})
	// Unordered output:
	// 120
	// -30
	// 7
}

func ExampleKeys() {
	dataflow.Local(func(at dataflow.Here) {
		dataflow.Print(keyedsingleton.Keys(accounts(at)))
	})
	// Unordered output:
	// ann
	// bob
	// cid
}

func ExampleIntoKeyedStream() {
	dataflow.Local(func(at dataflow.Here) {
		opening := keyedsingleton.IntoKeyedStream(accounts(at))
		moves := dataflow.Keyed(dataflow.Of(at, account{Key: "ann", Value: -20}))
		all := keyedstream.AssumeOrder(keyedstream.Merge(opening, moves), "a sum is the same in any order")
		balance := keyedstream.Fold(all, func() int { return 0 }, func(sum *int, cents int) { *sum += cents })
		dataflow.Print(keyedsingleton.Entries(balance))
	})
	// Unordered output:
	// ann:100
	// bob:-30
	// cid:7
}

func ExampleKeyCount() {
	dataflow.Local(func(at dataflow.Here) {
		dataflow.Print(singleton.IntoStream(keyedsingleton.KeyCount(accounts(at))))
	})
	// Output:
	// 3
}

func ExampleIntoSingleton() {
	dataflow.Local(func(at dataflow.Here) {
		whole := keyedsingleton.IntoSingleton(accounts(at))
		total := singleton.Map(whole, func(v dataflow.View[string, int]) string {
			sum := 0
			for _, cents := range v.All() {
				sum += cents
			}
			return fmt.Sprintf("%d in %v", sum, v)
		})
		dataflow.Print(singleton.IntoStream(total))
	})
	// Output:
	// 97 in {ann:120 bob:-30 cid:7}
}

func ExampleCrossSingleton() {
	dataflow.Local(func(at dataflow.Here) {
		percent := dataflow.Count(dataflow.Of(at, "base", "bonus"))
		interest := keyedsingleton.CrossSingleton(accounts(at), percent)
		dataflow.Print(keyedsingleton.Entries(interest))
	})
	// Unordered output:
	// ann:(120, 2)
	// bob:(-30, 2)
	// cid:(7, 2)
}

func ExampleJoinKeyedStream() {
	dataflow.Local(func(at dataflow.Here) {
		transfers := dataflow.Keyed(dataflow.Of(at, account{Key: "bob", Value: 10}, account{Key: "eve", Value: 99}, account{Key: "bob", Value: 5}))
		// Eve has no account.
		dataflow.Print(keyedstream.Entries(keyedsingleton.JoinKeyedStream(accounts(at), transfers)))
	})
	// Unordered output:
	// bob:(-30, 10)
	// bob:(-30, 5)
}

func ExampleJoinKeyedSingleton() {
	dataflow.Local(func(at dataflow.Here) {
		limits := keyedstream.First(dataflow.Keyed(dataflow.Of(at, account{Key: "bob", Value: -50}, account{Key: "cid", Value: -10})))
		dataflow.Print(keyedsingleton.Entries(keyedsingleton.JoinKeyedSingleton(limits, accounts(at))))
	})
	// Unordered output:
	// bob:(-50, -30)
	// cid:(-10, 7)
}

func ExampleLookupKeyedSingleton() {
	dataflow.Local(func(at dataflow.Here) {
		type owner = dataflow.Entry[string, string]
		owners := keyedstream.First(dataflow.Keyed(dataflow.Of(at, owner{Key: "card 1", Value: "ann"}, owner{Key: "card 2", Value: "eve"})))
		// The owner of a card is looked up among the accounts, and a miss is kept.
		dataflow.Print(keyedsingleton.Entries(keyedsingleton.LookupKeyedSingleton(owners, accounts(at))))
	})
	// Unordered output:
	// card 1:(ann, 120)
	// card 2:(eve, none)
}

func ExampleMapAsync() {
	ctx := context.Background()
	flow := dataflow.New()
	in, payments := keyedsingleton.Input[string, int](dataflow.At[Bank](flow), "payments")
	checked := keyedsingleton.MapAsync(payments, func(ctx context.Context, cents int) string {
		// This stands for a slow call to another service.
		if cents > 1000 {
			return "ask a person"
		}
		return "approved"
	}, keyedsingleton.AsyncOptions{Concurrency: 8})
	out := keyedsingleton.Output(checked, "checked")
	app, _ := dataflow.Start(ctx, flow)

	in.Put(ctx, "p-1", 25_000)
	in.Put(ctx, "p-2", 30)
	fmt.Println(out.Await(ctx, "p-1"))
	fmt.Println(out.Await(ctx, "p-2"))
	app.Stop(ctx)
	// Output:
	// ask a person <nil>
	// approved <nil>
}

func ExampleAfter() {
	ctx := context.Background()
	flow := dataflow.New()
	bank := dataflow.At[Bank](flow)
	in, calls := keyedsingleton.Input[string, string](bank, "calls")
	answer, answers := keyedstream.Input[string, string](bank, "answers")

	expired := keyedsingleton.Map(keyedsingleton.After(calls, time.Millisecond, "a deadline is a matter of time"),
		func(string) string { return "no answer in time" })
	either := keyedstream.AssumeOrder(keyedstream.Merge(answers, keyedsingleton.IntoKeyedStream(expired)), "whoever is first wins")
	out := keyedsingleton.Output(keyedstream.First(either), "results")
	app, _ := dataflow.Start(ctx, flow)

	in.Put(ctx, "call 1", "how much?")
	fmt.Println(out.Await(ctx, "call 1"))
	answer.Send(ctx, "call 1", "42") // too late
	fmt.Println(out.Await(ctx, "call 1"))
	app.Stop(ctx)
	// Output:
	// no answer in time <nil>
	// no answer in time <nil>
}

func ExampleAfterEach() {
	ctx := context.Background()
	flow := dataflow.New()
	in, reminders := keyedsingleton.Input[string, time.Duration](dataflow.At[Bank](flow), "reminders")
	due := keyedsingleton.AfterEach(reminders, func(d time.Duration) time.Duration { return d }, "a reminder comes when it is time")
	dataflow.Print(keyedsingleton.Keys(due))

	in.Put(ctx, "stretch", 20*time.Millisecond)
	in.Put(ctx, "drink", time.Millisecond)
	in.Close()
	dataflow.Run(ctx, flow) // waits for the timers
	// Unordered output:
	// drink
	// stretch
}
