package dataflow_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
)

// show prints the final value of a bounded singleton.
func show[T any](x dataflow.Singleton[T, dataflow.Here, bounds.Bounded]) {
	dataflow.Print(singleton.IntoStream(x))
}

func ExampleOf() {
	dataflow.Local(func(at dataflow.Here) {
		dataflow.Print(dataflow.Of(at, "spring", "summer", "autumn", "winter"))
	})
	// Output:
	// spring
	// summer
	// autumn
	// winter
}

func ExampleMap() {
	dataflow.Local(func(at dataflow.Here) {
		km := dataflow.Of(at, 5.0, 10, 42.195)
		dataflow.Print(dataflow.Map(km, func(d float64) string { return fmt.Sprintf("%.1f miles", d/1.609344) }))
	})
	// Output:
	// 3.1 miles
	// 6.2 miles
	// 26.2 miles
}

type parcel struct {
	id     string
	grams  [8]int // one for each item
	region string
}

func ExampleMapRef() {
	dataflow.Local(func(at dataflow.Here) {
		parcels := dataflow.Of(at, parcel{id: "p1", grams: [8]int{250, 100}}, parcel{id: "p2", grams: [8]int{900}})
		weights := dataflow.MapRef(parcels, func(p *parcel) string {
			sum := 0
			for _, g := range p.grams {
				sum += g
			}
			return fmt.Sprint(p.id, " weighs ", sum, " g")
		})
		dataflow.Print(weights)
	})
	// Output:
	// p1 weighs 350 g
	// p2 weighs 900 g
}

func ExampleFilter() {
	dataflow.Local(func(at dataflow.Here) {
		balances := dataflow.Of(at, 120, -30, 0, -5)
		dataflow.Print(dataflow.Filter(balances, func(cents int) bool { return cents < 0 }))
	})
	// Output:
	// -30
	// -5
}

func ExampleFilterMap() {
	dataflow.Local(func(at dataflow.Here) {
		lines := dataflow.Of(at, "level=info", "disk full", "user=ann")
		dataflow.Print(dataflow.FilterMap(lines, func(line string) (string, bool) {
			_, value, ok := strings.Cut(line, "=")
			return value, ok
		}))
	})
	// Output:
	// info
	// ann
}

func ExampleFlatMap() {
	dataflow.Local(func(at dataflow.Here) {
		lines := dataflow.Of(at, "fold and count", "", "map")
		dataflow.Print(dataflow.FlatMap(lines, func(line string, emit func(string)) {
			for word := range strings.FieldsSeq(line) {
				emit(word)
			}
		}))
	})
	// Output:
	// fold
	// and
	// count
	// map
}

func ExampleInspect() {
	dataflow.Local(func(at dataflow.Here) {
		// The function is called although nobody reads the result.
		dataflow.Inspect(dataflow.Of(at, 404, 500), func(status int) { fmt.Println("seen", status) })
	})
	// Output:
	// seen 404
	// seen 500
}

func ExampleForEach() {
	var ledger []int
	dataflow.Local(func(at dataflow.Here) {
		dataflow.ForEach(dataflow.Of(at, 100, -40, 15), func(cents int) { ledger = append(ledger, cents) })
	})
	fmt.Println(ledger)
	// Output:
	// [100 -40 15]
}

func ExamplePrint() {
	dataflow.Local(func(at dataflow.Here) {
		dataflow.Print(dataflow.Of(at, dataflow.Entry[string, int]{Key: "apples", Value: 3}))
	})
	// Output:
	// apples:3
}

func ExampleMerge() {
	dataflow.Local(func(at dataflow.Here) {
		web := dataflow.Of(at, "web: ann", "web: bob")
		phone := dataflow.Of(at, "phone: cid")
		dataflow.Print(dataflow.Merge(web, phone)) // Merge promises no order between the two
	})
	// Unordered output:
	// web: ann
	// web: bob
	// phone: cid
}

func ExampleKeyBy() {
	dataflow.Local(func(at dataflow.Here) {
		words := dataflow.Of(at, "to", "be", "or", "not")
		dataflow.Print(keyedstream.Entries(dataflow.KeyBy(words, func(w string) int { return len(w) })))
	})
	// Unordered output:
	// 2:to
	// 2:be
	// 2:or
	// 3:not
}

func ExampleKeyByRef() {
	dataflow.Local(func(at dataflow.Here) {
		parcels := dataflow.Of(at, parcel{id: "p1", region: "north"}, parcel{id: "p2", region: "south"}, parcel{id: "p3", region: "north"})
		byRegion := dataflow.KeyByRef(parcels, func(p *parcel) string { return p.region })
		dataflow.Print(keyedsingleton.Entries(keyedstream.Count(byRegion)))
	})
	// Unordered output:
	// north:2
	// south:1
}

func ExampleKeyed() {
	dataflow.Local(func(at dataflow.Here) {
		type sale = dataflow.Entry[string, int]
		sales := dataflow.Of(at, sale{Key: "tea", Value: 4}, sale{Key: "milk", Value: 1}, sale{Key: "tea", Value: 2})
		sold := keyedstream.Fold(dataflow.Keyed(sales), func() int { return 0 }, func(sum *int, n int) { *sum += n })
		dataflow.Print(keyedsingleton.Entries(sold))
	})
	// Unordered output:
	// tea:6
	// milk:1
}

func ExampleAssumeOrder() {
	dataflow.Local(func(at dataflow.Here) {
		bids := dataflow.Merge(dataflow.Of(at, 30, 70), dataflow.Of(at, 50))
		anyOrder := dataflow.AssumeOrder(bids, "the largest of all bids is the same in any order")
		show(dataflow.Fold(anyOrder, func() int { return 0 }, func(best *int, bid int) { *best = max(*best, bid) }))
	})
	// Output:
	// 70
}

func ExampleAssumeOnce() {
	dataflow.Local(func(at dataflow.Here) {
		retried := dataflow.AssumeRepeats(dataflow.Of(at, "lamp on", "lamp on", "door shut"))
		once := dataflow.AssumeOnce(retried, "a switch that is set again stays as it is")
		state := map[string]string{}
		dataflow.ForEach(once, func(s string) { k, v, _ := strings.Cut(s, " "); state[k] = v })
		dataflow.ForEach(dataflow.Of(at, "lamp", "door"), func(k string) { fmt.Println(k, state[k]) })
	})
	// Output:
	// lamp on
	// door shut
}

func ExampleAssumeRepeats() {
	dataflow.Local(func(at dataflow.Here) {
		local := dataflow.Of(at, "disk full")
		relayed := dataflow.AssumeRepeats(dataflow.Of(at, "fan broken"))
		// Both sides of a merge must have the same guarantee, so the stronger one is
		// weakened.
		dataflow.Print(dataflow.Merge(dataflow.AssumeRepeats(local), relayed))
	})
	// Unordered output:
	// disk full
	// fan broken
}

func ExampleFold() {
	dataflow.Local(func(at dataflow.Here) {
		moves := dataflow.Of(at, "push 3", "push 4", "pop")
		show(dataflow.Fold(moves, func() []string { return nil }, func(stack *[]string, move string) {
			if _, x, ok := strings.Cut(move, " "); ok {
				*stack = append(*stack, x)
			} else {
				*stack = (*stack)[:len(*stack)-1]
			}
		}))
	})
	// Output:
	// [3]
}

func ExampleCount() {
	dataflow.Local(func(at dataflow.Here) {
		show(dataflow.Count(dataflow.Of(at, "aye", "nay", "aye")))
	})
	// Output:
	// 3
}

func ExampleCrossSingleton() {
	dataflow.Local(func(at dataflow.Here) {
		in, prices := dataflow.Input[int](at, "prices")
		vat := dataflow.Fold(dataflow.Of(at, 15, 4), func() int { return 0 }, func(sum *int, percent int) { *sum += percent })
		dataflow.Print(dataflow.CrossSingleton(prices, vat)) // a constant needs no slice

		in.Send(context.Background(), 100)
		in.Send(context.Background(), 250)
	})
	// Output:
	// (100, 19)
	// (250, 19)
}
