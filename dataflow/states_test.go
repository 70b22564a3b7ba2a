package dataflow_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// A tab is the state of a machine.
type tab struct {
	drinks int
	last   string
}

// tabs builds a flow with a machine that forgets a guest who pays.
func tabs(t *testing.T) (*dataflow.App, *dataflow.KeyedInputPort[string, string]) {
	flow := dataflow.New()
	in, orders := keyedstream.Input[string, string](dataflow.At[theatre](flow), "orders")
	_, sums := keyedstream.TimedMachine(orders, func() tab { return tab{} }, func(s *tab, drink string, do *keyedstream.TimedTurn[string, struct{}, int]) {
		if drink == "pay" {
			do.Forget()
			return
		}
		s.drinks++
		s.last = drink
		do.After(0, time.Hour)
	}, func(*tab, keyedstream.Timer, *keyedstream.TimedTurn[string, struct{}, int]) {}, "guests pay at some time")
	keyedsingleton.Output(sums, "sums")
	keyedsingleton.Output(keyedsingleton.ThresholdUniform(keyedstream.Count(orders), 1000), "many")
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	return app, in
}

// TestEachState reads the states of a machine with their type, page by page. Each entry that stays is on exactly one page.
func TestEachState(t *testing.T) {
	app, in := tabs(t)
	order := func(guest int, drink string) {
		if err := in.Send(t.Context(), fmt.Sprint("g", guest), drink); err != nil {
			t.Fatal(err)
		}
	}
	for guest := range 100 {
		order(guest, "tea")
		order(guest, "beer")
	}
	for _, most := range []int{1, 7, 100, 1000} {
		seen, pages := make(map[string]tab), 0
		var from dataflow.StatePlace
		for more := true; more; pages++ {
			var err error
			on := 0
			from, more, err = dataflow.EachState(t.Context(), app, from, most, func(guest string, s *tab) {
				if _, ok := seen[guest]; ok {
					t.Errorf("%s is there twice", guest)
				}
				seen[guest] = *s
				on++
			})
			if err != nil || on > most {
				t.Fatalf("a page of %d entries (%v), want %d at most", on, err, most)
			}
			order(100+pages, "pay") // this guest never ordered anything
		}
		if len(seen) != 100 || seen["g7"] != (tab{2, "beer"}) || pages < 100/most {
			t.Errorf("pages of %d: %d guests on %d pages, g7 has %v", most, len(seen), pages, seen["g7"])
		}
	}
	order(7, "pay")
	for guest, want := range map[string]bool{"g6": true, "g7": false, "nobody": false} {
		var has tab
		if found, err := dataflow.StateOf(t.Context(), app, guest, func(s *tab) { has = *s }); err != nil || found != want || found != (has.drinks == 2) {
			t.Errorf("of %s there is %v, %v (%v)", guest, found, has, err)
		}
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	all := make(map[string]int)
	if _, more, err := dataflow.EachState(t.Context(), app, dataflow.StatePlace{}, 1000, func(guest string, s *tab) { all[guest] = s.drinks }); err != nil || more || len(all) != 99 {
		t.Errorf("after the end there are %d: %v", len(all), err)
	}
	if maps.Clone(all)["g8"] != 2 {
		t.Errorf("g8 has %d", all["g8"])
	}
}

// TestEachStateMisuse checks that reading fails for a type that no operator uses, or that several use.
func TestEachStateMisuse(t *testing.T) {
	app, _ := tabs(t)
	visit := func(err error, says string) {
		t.Helper()
		if !errors.Is(err, dataflow.ErrNoState) || !strings.Contains(err.Error(), says) {
			t.Errorf("the error is %v, want %q", err, says)
		}
	}
	_, _, err := dataflow.EachState(t.Context(), app, dataflow.StatePlace{}, 1, func(int, *tab) { t.Error("was called") })
	visit(err, "no operator remembers values of type dataflow_test.tab under keys of type int")
	_, err = dataflow.StateOf(t.Context(), app, "x", func(*booking) { t.Error("was called") })
	visit(err, "no operator")
	_, _, err = dataflow.EachState(t.Context(), app, dataflow.StatePlace{}, 1, func(string, *int) { t.Error("was called") })
	visit(err, "3 operators remember values of type int")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if found, err := dataflow.StateOf(ctx, app, "x", func(*tab) { t.Error("was called") }); found {
		t.Errorf("somebody who does not wait finds a guest who never came (%v)", err)
	}
}

// TestStateOfCallingMachine checks that the state of a machine that makes calls can be read in the same way.
func TestStateOfCallingMachine(t *testing.T) {
	flow := dataflow.New()
	in, orders := keyedstream.SharedInput[string, string](dataflow.At[theatre](flow), "orders")
	type doing = keyedstream.CallingTurn[string, struct{}, int, string]
	_, sums := keyedstream.CallingMachine(orders, func() tab { return tab{} }, func(s *tab, drink string, do *doing) {
		s.drinks++
		s.last = drink
		do.Call(drink)
	}, func(*tab, keyedstream.Timer, *doing) {}, keyedstream.Calling(func(_ context.Context, c keyedstream.Call[string, string]) string {
		return "served " + c.Request
	}, func(s *tab, _, served string, do *doing) {
		s.last = served
		do.Decide(s.drinks)
	}, keyedstream.CallOptions{}), "drinks are served in some order")
	served := keyedsingleton.Output(sums, "sums")
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Send(t.Context(), "ada", "tea"); err != nil {
		t.Fatal(err)
	}
	if _, err := served.Await(t.Context(), "ada"); err != nil {
		t.Fatal(err)
	}
	var has tab
	if found, err := dataflow.StateOf(t.Context(), app, "ada", func(s *tab) { has = *s }); !found || err != nil || has != (tab{1, "served tea"}) {
		t.Errorf("there is %v, %+v (%v)", found, has, err)
	}
}
