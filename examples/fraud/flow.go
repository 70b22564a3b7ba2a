package main

import (
	"cmp"
	"strings"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedstream"
)

// Bank is where payments are looked at.
type Bank struct{ dataflow.Process }

// A Payment is a line of the input.
type Payment struct {
	Card  string    `json:"card"`
	Cents int64     `json:"cents"`
	Time  time.Time `json:"time"`
}

// Spent is what a card paid within the last minute.
type Spent struct {
	Payments int
	Cents    int64
}

func (s *Spent) add(p Payment)  { s.Payments++; s.Cents += p.Cents }
func (s *Spent) drop(p Payment) { s.Payments--; s.Cents -= p.Cents }

// An Alert says that a card paid more than the limit within a minute.
type Alert struct {
	Card     string    `json:"card"`
	Time     time.Time `json:"time"`
	Payments int       `json:"payments"`
	Cents    int64     `json:"cents"`
}

// limit is what a card may pay within any minute, in cents.
const limit = 100_000

// Ports are the inputs and outputs of the flow.
type Ports struct {
	Payments *dataflow.InputPort[Payment]
	Alerts   *dataflow.OutputPort[Alert]
	Late     *dataflow.OutputPort[window.Event[Payment]]
}

// build makes the flow. It has no reason: nothing in it depends on timing, so the same payments
// give the same alerts whenever they are read. A card that is quiet for a minute of their time
// is forgotten.
func build(flow *dataflow.Flow) Ports {
	in, payments := dataflow.Input[Payment](dataflow.At[Bank](flow), "payments")
	events, late := window.Stamp(payments, func(p Payment) window.Time { return window.TimeOf(p.Time) }, window.Disorder{
		Slack:   5 * time.Second,
		Confirm: 3, // one wrong clock does not make everything else late
	})
	byCard := dataflow.KeyBy(window.Sort(events), func(e window.Event[Payment]) string { return e.Value.Card })
	minute := window.Trailing(byCard, time.Minute, func() Spent { return Spent{} }, (*Spent).add, (*Spent).drop)
	tooMuch := keyedstream.Filter(minute, func(e window.Event[dataflow.Pair[Payment, Spent]]) bool { return e.Value.Second.Cents > limit })
	byName := func(a, b dataflow.Pair[Payment, Spent]) int {
		return cmp.Or(strings.Compare(a.First.Card, b.First.Card), cmp.Compare(a.Second.Payments, b.Second.Payments))
	}
	alerts := window.SortBy(keyedstream.Values(tooMuch), byName, "payments of a card at one instant count one after the other")
	return Ports{
		Payments: in,
		Alerts: dataflow.Output(dataflow.Map(alerts, func(e window.Event[dataflow.Pair[Payment, Spent]]) Alert {
			return Alert{e.Value.First.Card, e.At.Time(), e.Value.Second.Payments, e.Value.Second.Cents}
		}), "alerts"),
		Late: dataflow.Output(late, "late"),
	}
}
