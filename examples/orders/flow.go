package main

import (
	"cmp"
	"fmt"
	"time"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
)

// Shop is where orders and customers are joined.
type Shop struct{ dataflow.Process }

// An Order is a record of the topic.
type Order struct {
	ID       int64     `json:"id"`
	Customer int64     `json:"customer"`
	Cents    int64     `json:"cents"`
	Time     time.Time `json:"time"`
}

// A Change says in which region a customer is from a time on. That of customer 0 only says what time it is.
type Change struct {
	Customer int64
	Region   string // empty if the customer was deleted
	Time     time.Time
}

// A Total is what was ordered from a region in a window of time.
type Total struct {
	Start  time.Time
	Region string
	Orders int64
	Cents  int64
}

// A Reject is what no total has: a record that cannot be read, or what came too late.
type Reject struct{ Why, Record string }

// unknown is the region of orders whose customer is not known at their time.
const unknown = "unknown"

// Times are how long windows are, and how far out of order a partition of the topic and the commits of the database may be.
type Times struct{ Window, Slack time.Duration }

// Ports are the inputs and outputs of the flow.
type Ports struct {
	Orders    *connect.Port[string, Order, dataflow.TotalOrder, dataflow.ExactlyOnce]
	Customers *connect.Port[struct{}, Change, dataflow.TotalOrder, dataflow.ExactlyOnce]
	Letters   *connect.DeadLetterPort
	Totals    *dataflow.OutputPort[Total]
	Rejects   *dataflow.OutputPort[Reject]
}

// at is a collection of Shop in which each element comes once.
type at[T any, O dataflow.Order] = dataflow.Stream[T, Shop, bounds.Unbounded, O, dataflow.ExactlyOnce]

// build makes the flow for the partitions of a topic, which are splits with these names. It has no reason: nothing in it depends on
// timing, so the totals are those of a query over everything that was written.
//
// An order belongs to the region that its customer had at the time of the order, and not to that of the moment in which the two
// meet. Each partition of the topic has a mark of its own, and the mark of all is the least of them: how fast one is read, after a
// crash above all, makes no order of another one late.
func build(splits []string, times Times) func(*dataflow.Flow) Ports {
	return func(flow *dataflow.Flow) (p Ports) {
		shop := dataflow.At[Shop](flow)
		var records dataflow.OrderedKeyedStream[string, Order, Shop]
		p.Orders, records = connect.Input[string, Order](shop, "orders")
		var said dataflow.OrderedStream[Change, Shop]
		p.Customers, said = connect.WholeInput[Change](shop, "customers")
		letters, poison := connect.DeadLetters(shop, "letters")
		p.Letters = letters

		disorder := window.Disorder{Slack: times.Slack}
		changes, lateChanges := window.Stamp(said, func(c Change) window.Time { return window.TimeOf(c.Time) }, disorder)
		rejects := dataflow.Merge(
			dataflow.Map(keyedstream.Values(poison), func(x connect.Poison) Reject { return Reject{"cannot be read", string(x.Raw)} }),
			dataflow.Map(lateChanges, func(e window.Event[Change]) Reject {
				return Reject{"late change", fmt.Sprintf("customer %d", e.Value.Customer)}
			}))

		var orders at[window.Event[Order], dataflow.NoOrder]
		for i, split := range splits {
			partition := keyedstream.Get(records, dataflow.Named(fmt.Sprintf("partition-%d", i), singleton.Of(shop, split)))
			events, late := window.Stamp(partition, func(o Order) window.Time { return window.TimeOf(o.Time) }, disorder)
			rejects = dataflow.Merge(rejects, dataflow.Map(late, func(e window.Event[Order]) Reject { return Reject{"late", fmt.Sprint(e.Value.ID)} }))
			if i == 0 {
				orders = dataflow.WeakenOrder(events)
			} else {
				orders = dataflow.Merge(orders, events)
			}
		}

		sorted := window.SortBy(orders, func(a, b Order) int { return cmp.Compare(a.ID, b.ID) }, "two orders of one time have different ids")
		known := dataflow.Filter(changes, func(e window.Event[Change]) bool { return e.Value.Customer != 0 })
		placed := window.AsOf(
			dataflow.KeyBy(sorted, func(e window.Event[Order]) int64 { return e.Value.Customer }),
			dataflow.KeyBy(known, func(e window.Event[Change]) int64 { return e.Value.Customer }))
		closed, _ := window.FoldCommutative(keyedstream.Rekey(placed, regionOf), window.Every(times.Window),
			func() Total { return Total{} }, func(t *Total, x placedOrder) {
				t.Orders++
				t.Cents += x.First.Cents
			}, "sums of integers")

		p.Totals = dataflow.Output(dataflow.Map(keyedsingleton.Entries(closed), func(e dataflow.Entry[window.Key[string], Total]) Total {
			return Total{e.Key.Span.From.Time(), e.Key.Key, e.Value.Orders, e.Value.Cents}
		}), "totals")
		p.Rejects = dataflow.Output(rejects, "rejects")
		return p
	}
}

// A placedOrder is an order with what was known of its customer at its time.
type placedOrder = dataflow.Pair[Order, dataflow.Maybe[Change]]

func regionOf(_ int64, e window.Event[placedOrder]) string {
	return cmp.Or(e.Value.Second.Value.Region, unknown)
}
