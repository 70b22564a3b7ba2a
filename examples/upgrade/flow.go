package main

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/slice"
)

// Shop is where purchases are added up.
type Shop struct{ dataflow.Process }

// A Purchase is made once for each id.
type Purchase struct {
	Customer string
	Cents    int64
}

// Ports are what all versions have.
type Ports struct {
	Purchases *dataflow.EntryInputPort[string, Purchase]
	Receipts  *dataflow.EntryOutputPort[string, string] // what the customer had then
}

type (
	// byCustomer is what versions add up, in whatever order purchases come.
	byCustomer = dataflow.UnorderedKeyedStream[string, Purchase, Shop]
	// accounts is what they make of it.
	accounts[A any] = dataflow.KeyedSingleton[string, A, Shop, bounds.MonotonicKeys]
)

// program builds a version, which adds up and shows accounts in its own way.
func program[A any](flow *dataflow.Flow, add func(byCustomer) accounts[A], show func(A) string) Ports {
	shop := dataflow.At[Shop](flow)
	in, purchases := keyedsingleton.Input[string, Purchase](shop, "purchases")
	added := add(dataflow.KeyBy(keyedsingleton.Values(purchases), func(p Purchase) string { return p.Customer }))

	tick := slice.At(shop)
	each := slice.BatchEntries(tick, keyedsingleton.Map(purchases, func(p Purchase) string { return p.Customer }), "each purchase has a receipt of its own")
	now := slice.Passive(slice.SnapshotEntries(tick, added, "a receipt has the account with the purchase in it, and perhaps later ones"))
	receipts := slice.EmitEntries(keyedsingleton.Map(keyedsingleton.LookupKeyedSingleton(each, now), func(p dataflow.Pair[string, dataflow.Maybe[A]]) string {
		return p.First + " has " + show(p.Second.Value)
	}))
	return Ports{in, keyedsingleton.Output(receipts, "receipts")}
}
