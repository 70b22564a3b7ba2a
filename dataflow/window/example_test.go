package window_test

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// Bank is the location of the examples.
type Bank struct{ dataflow.Process }

type Payment struct {
	Card  string
	Cents int
	Time  time.Time
}

type (
	Stream[T any]    = dataflow.Stream[T, Bank, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]
	ByCard[V any]    = dataflow.KeyedStream[string, window.Event[V], Bank, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]
	PerWindow[A any] = dataflow.KeyedSingleton[window.Key[string], A, Bank, bounds.BoundedValue]
)

func when(p Payment) window.Time { return window.TimeOf(p.Time) }

func card(e window.Event[Payment]) string { return e.Value.Card }

func cents(sum *int, p Payment) { *sum += p.Cents }

func zero() int { return 0 }

// pay returns a payment at the given number of seconds past noon.
func pay(card string, cents, seconds int) Payment {
	return Payment{card, cents, time.Date(2026, 11, 1, 12, 0, seconds, 0, time.UTC)}
}

func clock(t window.Time) string { return t.Time().Format(time.TimeOnly) }

// show sends payments, closes the input and prints the output of a flow.
func show(payments []Payment, build func(xs Stream[Payment]) *dataflow.OutputPort[string]) {
	flow := dataflow.New()
	in, xs := dataflow.Input[Payment](dataflow.At[Bank](flow), "payments")
	out := build(xs)
	ctx := context.Background()
	if _, err := dataflow.Start(ctx, flow); err != nil {
		panic(err)
	}
	if _, err := in.SendBatch(ctx, payments); err != nil {
		panic(err)
	}
	in.Close()
	for line := range out.All(ctx) {
		fmt.Println(line)
	}
}

func events(es Stream[window.Event[Payment]]) *dataflow.OutputPort[string] {
	return dataflow.Output(dataflow.Map(es, func(e window.Event[Payment]) string {
		return fmt.Sprint(clock(e.At), " ", e.Value.Card, " ", e.Value.Cents)
	}), "events")
}

func perWindow(closed PerWindow[int]) *dataflow.OutputPort[string] {
	return dataflow.Output(dataflow.Map(keyedsingleton.Entries(closed), func(e dataflow.Entry[window.Key[string], int]) string {
		return fmt.Sprint(e.Key.Key, " from ", clock(e.Key.Span.From), " to ", clock(e.Key.Span.To), ": ", e.Value)
	}), "closed")
}

func Example() {
	payments := []Payment{pay("gold", 500, 1), pay("blue", 70, 58), pay("gold", 20, 57), pay("gold", 9, 61), pay("blue", 1, 30)}
	show(payments, func(xs Stream[Payment]) *dataflow.OutputPort[string] {
		events, _ := window.Stamp(xs, when, window.Disorder{Slack: 5 * time.Second})
		closed, _ := window.Fold(dataflow.KeyBy(events, card), window.Every(time.Minute), zero, cents)
		return perWindow(closed)
	})
	// Output:
	// gold from 12:00:00 to 12:01:00: 520
	// blue from 12:00:00 to 12:01:00: 70
	// gold from 12:01:00 to 12:02:00: 9
}

func ExampleStamp() {
	show([]Payment{pay("gold", 1, 10), pay("gold", 2, 20), pay("blue", 3, 16), pay("blue", 4, 14)}, func(xs Stream[Payment]) *dataflow.OutputPort[string] {
		_, late := window.Stamp(xs, when, window.Disorder{Slack: 5 * time.Second})
		return events(late)
	})
	// Output: 12:00:14 blue 4
}

func ExampleStampBy() {
	// A payment of 0 says that the bank has received everything before it.
	said := func(p Payment) (window.Time, bool) { return when(p), p.Cents == 0 }
	show([]Payment{pay("gold", 1, 70), pay("gold", 2, 20), pay("", 0, 60)}, func(xs Stream[Payment]) *dataflow.OutputPort[string] {
		events, _ := window.StampBy(xs, when, said)
		paid := dataflow.Filter(events, func(e window.Event[Payment]) bool { return e.Value.Cents > 0 })
		closed, _ := window.Count(dataflow.KeyBy(paid, card), window.Every(time.Minute))
		return perWindow(closed)
	})
	// Output:
	// gold from 12:00:00 to 12:01:00: 1
	// gold from 12:01:00 to 12:02:00: 1
}

func ExampleStampKeyed() {
	show([]Payment{pay("gold", 1, 5), pay("blue", 2, 3), pay("gold", 3, 70)}, func(xs Stream[Payment]) *dataflow.OutputPort[string] {
		byCard := dataflow.KeyBy(xs, func(p Payment) string { return p.Card })
		events, _ := window.StampKeyed(byCard, when, window.Disorder{Slack: time.Minute}, "no card is more than a minute behind")
		closed, _ := window.Count(events, window.Every(time.Minute))
		return perWindow(closed)
	})
	// Unordered output:
	// gold from 12:00:00 to 12:01:00: 1
	// blue from 12:00:00 to 12:01:00: 1
	// gold from 12:01:00 to 12:02:00: 1
}

func ExampleMark() {
	show([]Payment{pay("gold", 1, 10), pay("gold", 2, 70)}, func(xs Stream[Payment]) *dataflow.OutputPort[string] {
		es, _ := window.Stamp(xs, when, window.Disorder{Slack: 5 * time.Second})
		mark := window.Mark(es)
		_ = mark // its value advances to 12:00:05, 12:01:05 and window.Future
		return events(es)
	})
	// Output:
	// 12:00:10 gold 1
	// 12:01:10 gold 2
}

func ExampleWith() {
	e := window.Event[string]{At: window.TimeOf(time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)), Value: "ten"}
	fmt.Println(window.With(e, 10))
	// Output: {2026-11-01T12:00:00Z 10}
}

func ExampleTimeOf() {
	berlin := time.FixedZone("Berlin", 3600)
	there := time.Date(2026, 11, 1, 13, 0, 0, 0, berlin)
	fmt.Println(window.TimeOf(there), window.TimeOf(there) == window.TimeOf(there.UTC()), window.TimeOf(time.Time{}))
	// Output: 2026-11-01T12:00:00Z true window.Past
}

func ExampleFold() {
	show([]Payment{pay("gold", 500, 1), pay("gold", 20, 57), pay("gold", 9, 61)}, func(xs Stream[Payment]) *dataflow.OutputPort[string] {
		events, _ := window.Stamp(xs, when, window.Disorder{})
		largest := func(most *int, p Payment) { *most = max(*most, p.Cents) }
		closed, _ := window.Fold(dataflow.KeyBy(events, card), window.Every(time.Minute), zero, largest)
		return perWindow(closed)
	})
	// Output:
	// gold from 12:00:00 to 12:01:00: 500
	// gold from 12:01:00 to 12:02:00: 9
}

func ExampleFoldCommutative() {
	show([]Payment{pay("gold", 500, 1), pay("gold", 20, 57), pay("gold", 9, 61)}, func(xs Stream[Payment]) *dataflow.OutputPort[string] {
		events, _ := window.Stamp(xs, when, window.Disorder{})
		large, small := dataflow.Partition(events, func(e window.Event[Payment]) bool { return e.Value.Cents > 100 })
		again := dataflow.Merge(large, small) // unordered
		closed, _ := window.FoldCommutative(dataflow.KeyBy(again, card), window.Every(time.Minute), zero, cents, "a sum")
		return perWindow(closed)
	})
	// Output:
	// gold from 12:00:00 to 12:01:00: 520
	// gold from 12:01:00 to 12:02:00: 9
}

func ExampleCount() {
	show([]Payment{pay("gold", 500, 1), pay("gold", 20, 57), pay("gold", 9, 61)}, func(xs Stream[Payment]) *dataflow.OutputPort[string] {
		events, _ := window.Stamp(xs, when, window.Disorder{})
		closed, _ := window.Count(dataflow.KeyBy(events, card), window.Every(time.Minute))
		return perWindow(closed)
	})
	// Output:
	// gold from 12:00:00 to 12:01:00: 2
	// gold from 12:01:00 to 12:02:00: 1
}

func ExampleIdle() {
	ctx, flow := context.Background(), dataflow.New()
	here := dataflow.At[Bank](flow)
	shops, xs := dataflow.Input[Payment](here, "shops")
	_, ys := dataflow.Input[Payment](here, "machines") // no payments arrive from them today
	fromShops, _ := window.Stamp(xs, when, window.Disorder{})
	fromMachines, _ := window.Stamp(ys, when, window.Disorder{})
	still, _ := window.Idle(fromMachines, 10*time.Millisecond, "a machine that was cut off is counted tomorrow")
	events := dataflow.AssumeOrder(dataflow.Merge(fromShops, still), "a count needs no order")
	closed, _ := window.Count(dataflow.KeyBy(events, card), window.Every(time.Minute))
	out := perWindow(closed)
	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		panic(err)
	}
	shops.SendBatch(ctx, []Payment{pay("gold", 500, 1), pay("gold", 20, 57), pay("gold", 9, 61)})
	fmt.Println(out.Next(ctx))
	app.Stop(ctx)
	// Output:
	// gold from 12:00:00 to 12:01:00: 2 <nil>
}

func ExampleClosed() {
	show([]Payment{pay("gold", 1, 0), pay("gold", 2, 59), pay("gold", 3, 60), pay("gold", 4, 7200)}, func(xs Stream[Payment]) *dataflow.OutputPort[string] {
		events, _ := window.Stamp(xs, when, window.Disorder{})
		minutes, _ := window.Count(dataflow.KeyBy(events, card), window.Every(time.Minute))
		busiest := func(most *int, n int) { *most = max(*most, n) }
		hours, _ := window.Fold(window.Closed(minutes), window.Every(time.Hour), zero, busiest)
		return perWindow(hours)
	})
	// Output:
	// gold from 12:00:00 to 13:00:00: 2
	// gold from 14:00:00 to 15:00:00: 1
}

func ExampleRetain() {
	ctx, flow := context.Background(), dataflow.New()
	in, xs := dataflow.Input[Payment](dataflow.At[Bank](flow), "payments")
	events, _ := window.Stamp(xs, when, window.Disorder{})
	minutes, _ := window.Count(dataflow.KeyBy(events, card), window.Every(time.Minute))
	out := keyedsingleton.Output(window.Retain(minutes, time.Minute), "the last minutes")
	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		panic(err)
	}
	for _, seconds := range []int{0, 70, 120, 121, 300} {
		in.Send(ctx, pay("gold", 1, seconds))
		fmt.Println(clock(when(pay("gold", 1, seconds))), out.Len())
	}
	in.Close()
	app.Wait()
	// Output:
	// 12:00:00 0
	// 12:01:10 1
	// 12:02:00 2
	// 12:02:01 1
	// 12:05:00 0
}

func ExampleSessions() {
	show([]Payment{pay("gold", 1, 0), pay("gold", 2, 20), pay("gold", 3, 90), pay("gold", 4, 40)}, func(xs Stream[Payment]) *dataflow.OutputPort[string] {
		events, _ := window.Stamp(xs, when, window.Disorder{Slack: time.Minute})
		closed, _ := window.Sessions(dataflow.KeyBy(events, card), 30*time.Second, zero, cents, func(sum *int, other int) { *sum += other }, "a sum")
		return perWindow(closed)
	})
	// Output:
	// gold from 12:00:00 to 12:01:10: 7
	// gold from 12:01:30 to 12:02:00: 3
}

func lines[V any](ks ByCard[V]) *dataflow.OutputPort[string] {
	all := keyedstream.MapWithKey(ks, func(card string, e window.Event[V]) string { return fmt.Sprint(clock(e.At), " ", card, " ", e.Value) })
	return dataflow.Output(keyedstream.Values(all), "lines")
}
