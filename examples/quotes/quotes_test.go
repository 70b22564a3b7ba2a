package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
)

// TestQuotes checks the price of an order: it is that of the largest revision that exists when
// the order is handled. A repeated order keeps its first price.
func TestQuotes(t *testing.T) {
	flow := dataflow.New()
	d := newDesk(flow, 10)
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		revision, price int // set before the order, if not 0
		id              string
		want            quote
		err             error
	}{
		{0, 0, "a", quote{2, 10, 20}, nil},
		{1, 12, "b", quote{2, 12, 24}, nil},
		{3, 15, "c", quote{2, 15, 30}, nil},
		{2, 14, "d", quote{2, 15, 30}, nil},
		{0, 0, "a", quote{2, 10, 20}, dataflow.ErrDuplicateKey},
	}
	for _, test := range tests {
		if test.revision > 0 {
			if err := d.prices.Put(t.Context(), test.revision, test.price); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.orders.Put(t.Context(), test.id, order{2}); !errors.Is(err, test.err) {
			t.Errorf("putting %s: %v, want %v", test.id, err, test.err)
		}
		if got, err := d.quotes.Await(t.Context(), test.id); got != test.want || err != nil {
			t.Errorf("%s is quoted %v, %v, want %v", test.id, got, err, test.want)
		}
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestEverySchedule sets prices while orders arrive. An order has a price that was current
// between its arrival and its answer, never one that was replaced before.
func TestEverySchedule(t *testing.T) {
	pairs := make(map[string]bool)
	n := sim.Exhaustive(t, func(s *sim.Sim) {
		d := newDesk(s.Flow(), 10)
		s.Start()
		await := func(id string) quote {
			q, err := d.quotes.Await(s.Context(), id)
			s.Check(err)
			if q.Total != q.Pieces*q.Each {
				s.Errorf("%s is quoted %+v", id, q)
			}
			return q
		}

		s.Check(d.orders.Put(s.Context(), "early", order{3}))
		s.Check(d.prices.Put(s.Context(), 1, 12))
		_, err := d.set.Await(s.Context(), 1)
		s.Check(err)
		s.Check(d.orders.Put(s.Context(), "late", order{2}))
		s.Check(d.prices.Put(s.Context(), 2, 15))

		early, late := await("early"), await("late")
		if late.Each == 10 {
			s.Errorf("an order that came after the price was 12 is quoted at %d", late.Each)
		}
		pairs[fmt.Sprint(early.Each, ", ", late.Each)] = true
	})
	want := []string{"10, 12", "10, 15", "12, 12", "12, 15", "15, 12", "15, 15"}
	if got := slices.Sorted(maps.Keys(pairs)); !slices.Equal(got, want) {
		t.Errorf("the orders are quoted at %q, want %q", got, want)
	}
	// Each of these pairs is one schedule, except where both orders have the same price: then
	// they may be in one batch or come one after the other, in either order.
	if want := 10; n != want {
		t.Errorf("%d schedules, want %d", n, want)
	}
}
