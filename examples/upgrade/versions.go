package main

import (
	"fmt"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/keyedstream"
)

const anyOrder = "sums are the same in every order"

// versions are the program as it was, and as it is. Each has the lines with which it goes on from the one
// before: a start without them is refused, and says what is missing.
var versions = []struct {
	build   func(*dataflow.Flow) Ports
	upgrade []durable.Change
}{
	{build: version1},
	{build: version2, upgrade: []durable.Change{
		durable.Was("accounts", "keyedstream.FoldCommutative[table(string,main.account)]@{input purchases}"),
	}},
	{build: version3, upgrade: []durable.Change{
		durable.Convert("accounts", func(a account2) account { return account{a.Cents / 100, a.Cents % 100, a.Cents / 100} }),
	}},
}

// version1 gives what it keeps no name.
func version1(flow *dataflow.Flow) Ports {
	type account struct{ Cents int64 }
	return program(flow, func(purchases byCustomer) accounts[account] {
		return keyedstream.FoldCommutative(purchases, func() account { return account{} },
			func(a *account, p Purchase) { a.Cents += p.Cents }, anyOrder)
	}, func(a account) string { return fmt.Sprintf("%d cents", a.Cents) })
}

// version2 has a name for it, and counts purchases as well: those of before are not among them.
func version2(flow *dataflow.Flow) Ports {
	type account struct{ Cents, Purchases int64 }
	return program(flow, func(purchases byCustomer) accounts[account] {
		return dataflow.Named("accounts", keyedstream.FoldCommutative(purchases, func() account { return account{} },
			func(a *account, p Purchase) { a.Cents, a.Purchases = a.Cents+p.Cents, a.Purchases+1 }, anyOrder))
	}, func(a account) string { return fmt.Sprintf("%d cents, in %d purchases", a.Cents, a.Purchases) })
}

// account2 is what version2 keeps, for those that go on from it.
type account2 struct{ Cents, Purchases int64 }

// account has points in the place of the count: one for each full euro of a purchase, or of all that came before.
type account struct{ Euros, Cents, Points int64 }

// version3 keeps another type.
func version3(flow *dataflow.Flow) Ports {
	return program(flow, func(purchases byCustomer) accounts[account] {
		return dataflow.Named("accounts", keyedstream.FoldCommutative(purchases, func() account { return account{} }, func(a *account, p Purchase) {
			sum := a.Euros*100 + a.Cents + p.Cents
			a.Euros, a.Cents, a.Points = sum/100, sum%100, a.Points+p.Cents/100
		}, anyOrder))
	}, func(a account) string { return fmt.Sprintf("%d.%02d euros, and %d points", a.Euros, a.Cents, a.Points) })
}
