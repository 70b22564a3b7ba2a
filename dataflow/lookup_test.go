package dataflow_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// A seat is a key with a method that must not be called while its location is stopped for a lookup.
type seat struct {
	Row, Number int
}

func (seat) String() string { panic("a method of the program was called") }

// A booking is a value with such a method.
type booking struct {
	By   *string
	Paid amount
}

type amount int

func (amount) String() string { panic("a method of the program was called") }

type theatre struct{ dataflow.Process }

// seats builds a flow that stores bookings in several operators.
func seats(t *testing.T) (app *dataflow.App, book *dataflow.KeyedInputPort[seat, booking]) {
	flow := dataflow.New()
	at := dataflow.At[theatre](flow)
	book, bookings := keyedstream.Input[seat, booking](at, "bookings")
	last := keyedstream.Fold(bookings, func() booking { return booking{} }, func(b *booking, next booking) { *b = next })
	keyedsingleton.Output(keyedsingleton.ThresholdUniform(keyedstream.Count(bookings), 2), "twice")
	keyedsingleton.Output(keyedstream.First(bookings), "first")
	free := keyedsingleton.AfterEach(keyedstream.First(bookings), func(booking) time.Duration { return time.Hour }, "an hour is long enough")
	keyedsingleton.Output(free, "free")
	_ = last
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	return app, book
}

// rememberedOf returns the state stored for a key, as "operator kind: value", in the order of the graph.
func rememberedOf(t *testing.T, app *dataflow.App, key any) (all []string) {
	t.Helper()
	found, err := app.Lookup(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	g := app.Graph()
	for _, e := range found {
		o := g.Operators[e.Operator]
		text := o.Name + " " + o.Port + " " + o.States[e.State].Kind + " " + e.Key + ": " + e.Value
		if !e.Due.IsZero() {
			text += " in " + time.Until(e.Due).String()
		}
		all = append(all, strings.ReplaceAll(text, "dataflow_test.", ""))
	}
	return all
}

func TestLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app, book := seats(t)
		by := "Ada"
		for range 2 {
			if err := book.Send(t.Context(), seat{1, 2}, booking{&by, 7}); err != nil {
				t.Fatal(err)
			}
		}
		if err := book.Send(t.Context(), seat{1, 3}, booking{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		got := strings.Join(rememberedOf(t, app, seat{1, 2}), "\n")
		t.Log("\n" + got)
		for _, want := range []string{
			"keyedstream.Fold  table(seat,booking) {Row:1 Number:2}: {By:&Ada Paid:7}",
			"keyedstream.Count  table(seat,int) {Row:1 Number:2}: 2",
			"keyedsingleton.Output twice table(seat,int) {Row:1 Number:2}: 2",
			"keyedsingleton.Output first table(seat,booking) {Row:1 Number:2}: {By:&Ada Paid:7}",
			" in 50m0s",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("%q is missing", want)
			}
		}
		if strings.Contains(got, "Output free") {
			t.Error("the seat is free already")
		}
		if got := rememberedOf(t, app, seat{Row: 9}); got != nil {
			t.Errorf("of another seat there is %q", got)
		}
		if err := app.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := rememberedOf(t, app, seat{1, 3}); len(got) == 0 {
			t.Error("nothing is found when the flow has ended")
		}
	})
}

func TestLookupMisuse(t *testing.T) {
	app, _ := seats(t)
	for _, key := range []any{"x", 1, nil, []int{1}, &seat{}} {
		if _, err := app.Lookup(t.Context(), key); !errors.Is(err, dataflow.ErrNoState) || !strings.HasSuffix(err.Error(), "; the types are dataflow_test.seat") {
			t.Errorf("of %T: %v", key, err)
		}
	}
	for _, at := range [][2]int{{-1, 0}, {0, 0}, {2, 1}, {2, -1}, {100, 0}} {
		if _, err := app.Entries(t.Context(), at[0], at[1], 0, 10); !errors.Is(err, dataflow.ErrNoState) {
			t.Errorf("operator %d, state %d: %v", at[0], at[1], err)
		}
	}
	empty, err := dataflow.Start(t.Context(), dataflow.New())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := empty.Lookup(t.Context(), 1); !errors.Is(err, dataflow.ErrNoState) || !strings.Contains(err.Error(), "nothing by key") {
		t.Errorf("a flow without operators gives %v", err)
	}
}

// TestLookupBusy checks that a lookup during a long step waits until its context ends and returns the
// cause, and that a lookup after the step succeeds.
func TestLookupBusy(t *testing.T) {
	flow := dataflow.New()
	in, numbers := dataflow.Input[string](dataflow.At[counter](flow), "in")
	begun, goOn := make(chan bool), make(chan bool)
	counts := keyedstream.Count(dataflow.KeyBy(numbers, func(s string) string {
		begun <- true
		<-goOn
		return s
	}))
	keyedsingleton.Output(keyedsingleton.ThresholdUniform(counts, 1), "out")
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan error)
	go func() { sent <- in.Send(t.Context(), "a") }()
	<-begun
	ctx, cancel := context.WithCancelCause(t.Context())
	impatient := errors.New("impatient")
	cancel(impatient)
	if _, err := app.Lookup(ctx, "a"); !errors.Is(err, impatient) || !strings.Contains(err.Error(), "counter has been in one step") {
		t.Errorf("during a step: %v", err)
	}
	close(goOn)
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	if found, err := app.Lookup(t.Context(), "a"); err != nil || len(found) == 0 || found[0].Value != "1" {
		t.Errorf("after the step there is %v (%v)", found, err)
	}
}

// TestLookupBlocked checks that a lookup reads the state of a location that a full output has stopped,
// and that the location stays stopped.
func TestLookupBlocked(t *testing.T) {
	flow := dataflow.NewWithOptions(dataflow.Options{Buffer: 1})
	in, names := dataflow.Input[string](dataflow.At[counter](flow), "in")
	keyedsingleton.Output(keyedsingleton.ThresholdUniform(keyedstream.Count(dataflow.KeyBy(names, func(s string) string { return s })), 100), "out")
	dataflow.Output(names, "all")
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		if err := in.Send(t.Context(), fmt.Sprint("a", i)); err != nil {
			t.Fatal(err)
		}
	}
	if found, err := app.Lookup(t.Context(), "a1"); err != nil || len(found) == 0 {
		t.Errorf("there is %v (%v)", found, err)
	}
	if app.Status()[0].Blocked == nil {
		t.Error("the location runs")
	}
}

// TestEntries checks that every entry that stays is on exactly one page, whatever is added or removed between pages.
func TestEntries(t *testing.T) {
	flow := dataflow.New()
	add, words := dataflow.Input[int](dataflow.At[counter](flow), "words")
	keyedsingleton.Output(keyedsingleton.ThresholdUniform(keyedstream.Count(dataflow.KeyBy(words, func(i int) int { return i })), 1), "out")
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	send := func(from, to int) {
		for i := from; i < to; i++ {
			if err := add.Send(t.Context(), i); err != nil {
				t.Fatal(err)
			}
		}
	}
	send(0, 1000)
	operator, state := -1, -1
	for i, o := range app.Graph().Operators {
		if o.Name == "keyedstream.Count" {
			operator = i
			for j, s := range o.States {
				if s.Key == reflect.TypeFor[int]() {
					state = j
				}
			}
		}
	}
	seen := make(map[string]int)
	next, pages := uint32(0), 0
	for {
		p, err := app.Entries(t.Context(), operator, state, next, 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range p.Entries {
			seen[e.Key]++
		}
		pages++
		if len(p.Entries) > 100 {
			t.Fatalf("a page has %d entries", len(p.Entries))
		}
		send(1000+10*pages, 1010+10*pages)
		if next = p.Next; !p.More {
			break
		}
	}
	for i := range 1000 {
		if seen[fmt.Sprint(i)] != 1 {
			t.Errorf("entry %d is on %d pages", i, seen[fmt.Sprint(i)])
		}
	}
}

// TestLookupTogether runs many lookups while other goroutines send, read and take.
func TestLookupTogether(t *testing.T) {
	app, book := seats(t)
	var all sync.WaitGroup
	for s := range 2 {
		all.Go(func() {
			for i := range 300 {
				if err := book.Send(t.Context(), seat{s, i % 7}, booking{}); err != nil {
					t.Error(err)
				}
			}
		})
		all.Go(func() {
			for range 300 {
				if _, err := app.Lookup(t.Context(), seat{Row: s}); err != nil {
					t.Error(err)
				}
				if _, err := app.Entries(t.Context(), 1, 0, 0, 10); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
