package window_test

import (
	"cmp"
	"fmt"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedstream"
)

func ExampleEvery() {
	show([]Payment{pay("gold", 1, 29), pay("gold", 2, 30)}, func(xs Stream[Payment]) *dataflow.OutputPort[string] {
		events, _ := window.Stamp(xs, when, window.Disorder{})
		closed, _ := window.Count(dataflow.KeyBy(events, card), window.Every(time.Minute).Offset(30*time.Second))
		return perWindow(closed)
	})
	// Output:
	// gold from 11:59:30 to 12:00:30: 1
	// gold from 12:00:30 to 12:01:30: 1
}

func ExampleSliding() {
	show([]Payment{pay("gold", 1, 29), pay("gold", 2, 30)}, func(xs Stream[Payment]) *dataflow.OutputPort[string] {
		events, _ := window.Stamp(xs, when, window.Disorder{})
		closed, _ := window.Count(dataflow.KeyBy(events, card), window.Sliding(time.Minute, 30*time.Second))
		return perWindow(closed)
	})
	// Output:
	// gold from 11:59:30 to 12:00:30: 1
	// gold from 12:00:00 to 12:01:00: 2
	// gold from 12:00:30 to 12:01:30: 1
}

func ExampleDays() {
	show([]Payment{pay("gold", 1, 0), pay("gold", 2, 12*60*60)}, func(xs Stream[Payment]) *dataflow.OutputPort[string] {
		events, _ := window.Stamp(xs, when, window.Disorder{})
		closed, _ := window.Count(dataflow.KeyBy(events, card), window.Days(time.FixedZone("Berlin", 3600)))
		return perWindow(closed)
	})
	// Output: gold from 23:00:00 to 23:00:00: 1
	// gold from 23:00:00 to 23:00:00: 1
}

func ExampleMonths() {
	show([]Payment{pay("gold", 1, 0), pay("gold", 2, 29*24*60*60)}, func(xs Stream[Payment]) *dataflow.OutputPort[string] {
		events, _ := window.Stamp(xs, when, window.Disorder{})
		closed, _ := window.Count(dataflow.KeyBy(events, card), window.Months(time.UTC))
		return perWindow(closed)
	})
	// Output: gold from 00:00:00 to 00:00:00: 2
}

func ExampleSort() {
	show([]Payment{pay("gold", 1, 20), pay("gold", 2, 18), pay("blue", 3, 19)}, func(xs Stream[Payment]) *dataflow.OutputPort[string] {
		es, _ := window.Stamp(xs, when, window.Disorder{Slack: 5 * time.Second})
		return events(window.Sort(es))
	})
	// Output:
	// 12:00:18 gold 2
	// 12:00:19 blue 3
	// 12:00:20 gold 1
}

func ExampleSortBy() {
	show([]Payment{pay("gold", 1, 20), pay("blue", 2, 20), pay("blue", 3, 21)}, func(xs Stream[Payment]) *dataflow.OutputPort[string] {
		es, _ := window.Stamp(xs, when, window.Disorder{})
		gold, others := dataflow.Partition(es, func(e window.Event[Payment]) bool { return e.Value.Card == "gold" })
		byCard := func(a, b Payment) int { return cmp.Compare(a.Card, b.Card) }
		return events(window.SortBy(dataflow.Merge(gold, others), byCard, "a card pays once in a second"))
	})
	// Output:
	// 12:00:20 blue 2
	// 12:00:20 gold 1
	// 12:00:21 blue 3
}

func ExampleTrailing() {
	show([]Payment{pay("gold", 1, 0), pay("gold", 2, 59), pay("gold", 4, 60)}, func(xs Stream[Payment]) *dataflow.OutputPort[string] {
		events, _ := window.Stamp(xs, when, window.Disorder{})
		back := func(sum *int, p Payment) { *sum -= p.Cents }
		minute := window.Trailing(dataflow.KeyBy(events, card), time.Minute, zero, cents, back)
		return lines(keyedstream.Map(minute, func(e window.Event[dataflow.Pair[Payment, int]]) window.Event[int] {
			return window.With(e, e.Value.Second)
		}))
	})
	// Output:
	// 12:00:00 gold 1
	// 12:00:59 gold 3
	// 12:01:00 gold 6
}

func ExampleUnique() {
	show([]Payment{pay("gold", 1, 20), pay("gold", 2, 21), pay("gold", 1, 20)}, func(xs Stream[Payment]) *dataflow.OutputPort[string] {
		repeated := dataflow.AssumeRepeats(xs)
		events, _ := window.Stamp(repeated, when, window.Disorder{Slack: 5 * time.Second})
		once := window.Unique(dataflow.KeyBy(events, card))
		return lines(keyedstream.Map(once, func(e window.Event[Payment]) window.Event[int] { return window.With(e, e.Value.Cents) }))
	})
	// Output:
	// 12:00:20 gold 1
	// 12:00:21 gold 2
}

// halves divides payments into payments and refunds by card.
func halves(xs Stream[Payment]) (paid, back ByCard[Payment]) {
	events, _ := window.Stamp(xs, when, window.Disorder{})
	p, b := dataflow.Partition(events, func(e window.Event[Payment]) bool { return e.Value.Cents > 0 })
	return dataflow.KeyBy(p, card), dataflow.KeyBy(b, card)
}

var refunds = []Payment{pay("gold", 5, 0), pay("gold", -5, 10), pay("blue", 7, 20), pay("gold", 9, 90)}

func ExampleJoin() {
	show(refunds, func(xs Stream[Payment]) *dataflow.OutputPort[string] {
		paid, back := halves(xs)
		pairs := window.Join(paid, back, window.Within{After: time.Minute})
		return dataflow.Output(dataflow.Map(keyedstream.Values(pairs), func(e window.Event[dataflow.Pair[Payment, Payment]]) string {
			return fmt.Sprint(clock(e.At), " ", e.Value.First.Cents, " back ", -e.Value.Second.Cents)
		}), "pairs")
	})
	// Output: 12:00:10 5 back 5
}

func maybeCents(e window.Event[dataflow.Pair[Payment, dataflow.Maybe[Payment]]]) string {
	if !e.Value.Second.OK {
		return fmt.Sprint(clock(e.At), " ", e.Value.First.Cents)
	}
	return fmt.Sprint(clock(e.At), " ", e.Value.First.Cents, " and ", e.Value.Second.Value.Cents)
}

func ExampleLeftJoin() {
	show(refunds, func(xs Stream[Payment]) *dataflow.OutputPort[string] {
		paid, back := halves(xs)
		pairs := window.LeftJoin(paid, back, window.Within{After: time.Minute})
		return dataflow.Output(dataflow.Map(keyedstream.Values(pairs), maybeCents), "pairs")
	})
	// Output:
	// 12:00:10 5 and -5
	// 12:01:20 7
	// 12:02:30 9
}

func ExampleAsOf() {
	show(refunds, func(xs Stream[Payment]) *dataflow.OutputPort[string] {
		paid, back := halves(xs)
		pairs := window.AsOf(paid, back)
		return dataflow.Output(dataflow.Map(keyedstream.Values(pairs), maybeCents), "pairs")
	})
	// Output:
	// 12:00:00 5
	// 12:00:20 7
	// 12:01:30 9 and -5
}

// A Block is the state of a card: the number of refusals, each less than a minute after the one
// before, and whether the card is blocked.
type Block struct {
	Refusals int
	Blocked  bool
}

type cardTurn = window.Turn[string, string, struct{}]

const (
	forgive window.Alarm = iota
	unblock
)

func (b *Block) paid(p Payment, do *cardTurn) {
	if p.Cents > 0 || b.Blocked {
		return
	}
	b.Refusals++
	do.At(forgive, do.Now().Add(time.Minute))
	if b.Refusals == 3 {
		b.Blocked = true
		do.Emit("blocked")
		do.Stop(forgive)
		do.At(unblock, do.Now().Add(time.Hour))
	}
}

func (b *Block) rang(a window.Alarm, do *cardTurn) {
	if a == unblock {
		do.Emit("unblocked")
	}
	do.Forget()
}

func ExampleMachine() {
	// A payment of 0 stands for a refusal. The third refusal, each less than a minute after the one
	// before, blocks a card for an hour.
	refused := []Payment{pay("gold", 0, 0), pay("gold", 0, 30), pay("blue", 0, 10), pay("blue", 0, 20), pay("blue", 0, 90), pay("gold", 0, 89)}
	show(refused, func(xs Stream[Payment]) *dataflow.OutputPort[string] {
		events, _ := window.Stamp(xs, when, window.Disorder{Slack: time.Minute})
		said, _ := window.Machine(dataflow.KeyBy(events, card), func() Block { return Block{} }, (*Block).paid, (*Block).rang)
		return lines(said)
	})
	// Output:
	// 12:01:29 gold blocked
	// 13:01:29 gold unblocked
}
