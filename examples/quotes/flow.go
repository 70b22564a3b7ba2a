package main

import (
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/optional"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

// Shop is where prices are set and orders are quoted.
type Shop struct{ dataflow.Process }

// An order is a request for a quote.
type order struct{ Pieces int }

// A quote is the answer to an order.
type quote struct{ Pieces, Each, Total int }

// A desk quotes each order once, at the price when it is handled.
type desk struct {
	prices *dataflow.EntryInputPort[int, int]  // by revision: the largest counts
	set    *dataflow.EntryOutputPort[int, int] // by revision, once it counts
	orders *dataflow.EntryInputPort[string, order]
	quotes *dataflow.EntryOutputPort[string, quote]
}

// newDesk builds the flow for a price that holds until another one is set.
func newDesk(flow *dataflow.Flow, opening int) desk {
	shop := dataflow.At[Shop](flow)
	setPrice, revisions := keyedsingleton.Input[int, int](shop, "prices")
	ask, orders := keyedsingleton.Input[string, order](shop, "orders")

	newest := optional.Map(keyedsingleton.MaxKey(revisions), func(e dataflow.Entry[int, int]) int { return e.Value })
	price := optional.UnwrapOr(newest, singleton.Of(shop, opening))

	tick := slice.At(shop)
	fresh := slice.BatchEntries(tick, orders, "each order is quoted alone, so it does not matter which come together")
	now := slice.Snapshot(tick, price, "an order is quoted at the price when it is handled")
	priced := keyedsingleton.CrossSingleton(fresh, slice.Passive(now))
	quotes := slice.EmitEntries(keyedsingleton.Map(priced, makeQuote))

	return desk{
		prices: setPrice, set: keyedsingleton.Output(revisions, "set"),
		orders: ask, quotes: keyedsingleton.Output(quotes, "quotes"),
	}
}

func makeQuote(p dataflow.Pair[order, int]) quote {
	pieces, each := p.First.Pieces, p.Second
	return quote{Pieces: pieces, Each: each, Total: pieces * each}
}
