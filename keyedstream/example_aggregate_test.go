package keyedstream_test

import (
	"context"
	"fmt"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

func ExampleFilterWithKey() {
	dataflow.Local(func(at dataflow.Here) {
		dataflow.Print(keyedstream.Entries(keyedstream.FilterWithKey(sales(at), func(what string, n int) bool { return what == "milk" || n > 5 })))
	})
	// Unordered output:
	// milk:1
	// tea:9
}

func ExampleFilterMapWithKey() {
	dataflow.Local(func(at dataflow.Here) {
		labels := keyedstream.FilterMapWithKey(sales(at), func(what string, n int) (string, bool) {
			return fmt.Sprintf("box of %d %s", n, what), n > 1
		})
		dataflow.Print(keyedstream.Values(labels))
	})
	// Unordered output:
	// box of 4 tea
	// box of 9 tea
}

func ExampleInspect() {
	sum := 0
	dataflow.Local(func(at dataflow.Here) {
		keyedstream.Inspect(sales(at), func(n int) { sum += n })
	})
	fmt.Println(sum)
	// Output:
	// 14
}

func ExampleInspectWithKey() {
	ledger := make(map[string][]int)
	dataflow.Local(func(at dataflow.Here) {
		keyedstream.InspectWithKey(sales(at), func(what string, n int) { ledger[what] = append(ledger[what], n) })
	})
	fmt.Println(ledger)
	// Output:
	// map[milk:[1] tea:[4 9]]
}

func ExampleAssumeOnce() {
	dataflow.Local(func(at dataflow.Here) {
		retried := keyedstream.AssumeRepeats(sales(at))
		once := keyedstream.AssumeOnce(retried, "the till numbers its sales and drops a number it has seen")
		dataflow.Print(keyedsingleton.Entries(keyedstream.Count(once)))
	})
	// Unordered output:
	// tea:2
	// milk:1
}

func ExampleAssumeRepeats() {
	dataflow.Local(func(at dataflow.Here) {
		// A reader cannot rely on each sale coming once. Max does not need that.
		most := keyedstream.Max(keyedstream.AssumeRepeats(sales(at)))
		dataflow.Print(keyedsingleton.Entries(most))
	})
	// Unordered output:
	// tea:9
	// milk:1
}

func ExampleWeakenOrder() {
	dataflow.Local(func(at dataflow.Here) {
		online := keyedstream.Merge(sales(at), sales(at))
		opening := keyedstream.WeakenOrder(dataflow.Keyed(dataflow.Of(at, sale{Key: "tea", Value: 100})))
		dataflow.Print(keyedsingleton.Entries(keyedstream.Sum(keyedstream.Chain(opening, online))))
	})
	// Unordered output:
	// tea:126
	// milk:2
}

// A total of values that are never negative only grows, so it crosses a limit once.
func ExampleFoldGrowing() {
	dataflow.Local(func(at dataflow.Here) {
		in, sold := keyedstream.Input[string, uint32](at, "sold")
		total := keyedstream.FoldGrowing(sold, func() uint64 { return 0 },
			func(sum *uint64, n uint32) { *sum += uint64(n) },
			"nothing negative is added, and 64 bits do not overflow in this century")
		dataflow.Print(keyedsingleton.Entries(keyedsingleton.ThresholdUniform(total, 10)))

		for _, n := range []uint32{4, 9, 20} {
			in.Send(context.Background(), "tea", n)
		}
		in.Send(context.Background(), "milk", 1)
	})
	// Output:
	// tea:10
}

func ExampleFoldCommutative() {
	dataflow.Local(func(at dataflow.Here) {
		all := keyedstream.Merge(sales(at), sales(at)) // in no order
		sets := keyedstream.FoldCommutative(all, func() uint64 { return 0 },
			func(set *uint64, n int) { *set |= 1 << n },
			"a set of bits does not know in which order they were set")
		dataflow.Print(keyedsingleton.Entries(keyedsingleton.Map(sets, func(set uint64) string { return fmt.Sprintf("%b", set) })))
	})
	// Unordered output:
	// tea:1000010000
	// milk:10
}

func ExampleReduce() {
	dataflow.Local(func(at dataflow.Here) {
		last := keyedstream.Reduce(sales(at), func(last *int, n int) { *last = n })
		dataflow.Print(keyedsingleton.Entries(last))
	})
	// Unordered output:
	// tea:9
	// milk:1
}

func ExampleSum() {
	dataflow.Local(func(at dataflow.Here) {
		dataflow.Print(keyedsingleton.Entries(keyedstream.Sum(sales(at))))
	})
	// Unordered output:
	// tea:13
	// milk:1
}

func ExampleMin() {
	dataflow.Local(func(at dataflow.Here) {
		dataflow.Print(keyedsingleton.Entries(keyedstream.Min(sales(at))))
	})
	// Unordered output:
	// tea:4
	// milk:1
}

func ExampleMax() {
	dataflow.Local(func(at dataflow.Here) {
		dataflow.Print(keyedsingleton.Entries(keyedstream.Max(sales(at))))
	})
	// Unordered output:
	// tea:9
	// milk:1
}

func ExampleScanFirst() {
	dataflow.Local(func(at dataflow.Here) {
		in, votes := keyedstream.Input[string, bool](at, "votes")
		// A lead of two votes decides. Later votes are too late.
		type poll struct {
			lead int
			done bool
		}
		late, outcomes := keyedstream.ScanFirst(votes, func() poll { return poll{} }, func(p *poll, yes bool, emit func(string)) (passed, decided bool) {
			if p.done {
				emit("too late")
				return false, false
			}
			if p.lead++; !yes {
				p.lead -= 2
			}
			p.done = p.lead == 2 || p.lead == -2
			return p.lead > 0, p.done
		})
		dataflow.Print(keyedstream.Entries(late))
		dataflow.Print(keyedsingleton.Entries(outcomes))

		for _, yes := range []bool{true, true, false} {
			in.Send(context.Background(), "longer lunch", yes)
		}
		in.Send(context.Background(), "later start", true)
	})
	// Unordered output:
	// longer lunch:true
	// longer lunch:too late
}
