package dataflow_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
)

// TestSenders checks that an id has one handle until the handle is closed. Closing a
// handle ends neither the stream nor other handles.
func TestSenders(t *testing.T) {
	flow := dataflow.New()
	in, s := dataflow.SenderInput[any, int](dataflow.At[server](flow), "in")
	lists := keyedstream.Fold(s, func() string { return "" }, func(l *string, x int) { *l += fmt.Sprint(x) })
	out := singleton.Output(keyedsingleton.IntoSingleton(lists), "lists")
	app := start(t, flow)
	send := func(h *dataflow.Sender[any, int], x int, want error) {
		t.Helper()
		if err := h.Send(t.Context(), x); !errors.Is(err, want) {
			t.Errorf("Send: %v, want %v", err, want)
		}
	}
	a, b := in.Sender("a"), in.Sender("b")
	if a == b || a != in.Sender("a") || a.ID() != "a" {
		t.Error("the handles of two ids are one, or those of one id are two")
	}
	send(a, 1, nil)
	send(b, 2, nil)
	a.Close()
	a.Close()
	send(a, 3, dataflow.ErrClosed)
	if n, err := a.SendBatch(t.Context(), []int{3, 3}); n != 0 || err != dataflow.ErrClosed {
		t.Errorf("SendBatch of a closed handle: %d, %v", n, err)
	}
	again := in.Sender("a")
	if again == a || again != in.Sender("a") {
		t.Error("a closed handle is given to somebody else, or none is kept")
	}
	a.Close() // closes the closed handle again, and no other
	send(again, 4, nil)
	if again != in.Sender("a") {
		t.Error("a handle was closed by another one")
	}
	if n, err := b.SendBatch(t.Context(), []int{5, 6}); n != 2 || err != nil {
		t.Errorf("SendBatch: %d, %v", n, err)
	}
	for _, id := range []any{math.NaN(), []int{1}, [1]any{math.NaN()}} {
		bad := in.Sender(id)
		send(bad, 7, dataflow.ErrKey)
		if err := bad.SendNumbered(t.Context(), 1, 7); !errors.Is(err, dataflow.ErrKey) {
			t.Errorf("%v: %v", id, err)
		}
		if n, err := bad.SendBatch(t.Context(), []int{7}); n != 0 || !errors.Is(err, dataflow.ErrKey) {
			t.Errorf("%v: %d, %v", id, n, err)
		}
		bad.Close()
	}
	in.Close()
	send(b, 8, dataflow.ErrClosed)
	send(in.Sender("c"), 8, dataflow.ErrClosed)
	if err := app.Wait(); err != nil {
		t.Fatal(err)
	}
	if got, _ := out.Latest(); got.String() != "{a:14 b:256}" {
		t.Error(got)
	}
}

// TestNumbered checks that every port takes a number that is above all earlier ones, even
// if it leaves a gap, and treats any other number as a repeat.
func TestNumbered(t *testing.T) {
	flow := dataflow.New()
	at := dataflow.At[server](flow)
	var got []string
	take := func(x string) { got = append(got, x) }
	one, s := dataflow.Input[string](at, "one")
	dataflow.Inspect(s, take)
	keyed, ks := keyedstream.Input[int, string](at, "keyed")
	keyedstream.Inspect(ks, take)
	shared, ss := dataflow.SharedInput[string](at, "shared")
	dataflow.Inspect(ss, take)
	sharedKeyed, sks := keyedstream.SharedInput[int, string](at, "shared by key")
	keyedstream.Inspect(sks, take)
	senders, sends := dataflow.SenderInput[int, string](at, "senders")
	keyedstream.Inspect(sends, take)
	put, entries := keyedsingleton.Input[int, string](at, "entries")
	keyedsingleton.Inspect(entries, take)
	app := start(t, flow)
	ctx := t.Context()

	ports := map[string]func(n uint64, x string) error{
		"one":           func(n uint64, x string) error { return one.SendNumbered(ctx, n, x) },
		"keyed":         func(n uint64, x string) error { return keyed.SendNumbered(ctx, 1, n, x) },
		"shared":        func(n uint64, x string) error { return shared.SendNumbered(ctx, "a", n, x) },
		"shared by key": func(n uint64, x string) error { return sharedKeyed.SendNumbered(ctx, "a", n, int(n), x) },
		"senders": func(n uint64, x string) error {
			h := senders.Sender(1)
			defer h.Close() // numbers outlive the handle
			return h.SendNumbered(ctx, n, x)
		},
		"entries": func(n uint64, x string) error { return put.PutNumbered(ctx, "a", n, int(n%1000), x) },
	}
	for name, send := range ports {
		got = nil
		for _, n := range []uint64{0, 0, 3, 1, 3, 4, 0, 1 << 63, 4, math.MaxUint64 - 1} {
			if err := send(n, fmt.Sprint(n)); err != nil {
				t.Errorf("%s: %d: %v", name, n, err)
			}
		}
		if want := []string{"0", "3", "4", "9223372036854775808", "18446744073709551614"}; !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		if err := send(math.MaxUint64, "no"); err == nil {
			t.Errorf("%s: the largest number is accepted", name)
		}
	}

	// Each key, sender, id and port has its own numbers.
	got = nil
	for _, err := range []error{
		keyed.SendNumbered(ctx, 2, 0, "k"), shared.SendNumbered(ctx, "b", 0, "s"), sharedKeyed.SendNumbered(ctx, "b", 0, 1, "sk"),
		senders.Sender(2).SendNumbered(ctx, 0, "h"), one.Send(ctx, "o"),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	if want := []string{"k", "s", "sk", "h", "o"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}

	// A repeated Put has the same result as the first.
	for range 2 {
		if err := put.PutNumbered(ctx, "second", 7, 3, "no"); err != dataflow.ErrDuplicateKey {
			t.Errorf("a Put of what is there: %v", err)
		}
		if err := put.PutNumbered(ctx, "first", 7, 1001, "x"); err != nil {
			t.Errorf("a Put of what is not: %v", err)
		}
	}
	if err := app.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	// A record that was not accepted does not count as sent.
	for range 2 {
		if err := shared.SendNumbered(ctx, "c", 1, "late"); err != dataflow.ErrClosed {
			t.Errorf("after Stop: %v", err)
		}
	}
}

// TestNumberedBatch sends batches again after a part of them was taken.
func TestNumberedBatch(t *testing.T) {
	flow := dataflow.New()
	at := dataflow.At[server](flow)
	one, s := dataflow.Input[int](at, "one")
	sum := singleton.Output(dataflow.Sum(s), "sum")
	senders, ss := dataflow.SenderInput[string, int](at, "senders")
	sums := singleton.Output(dataflow.Sum(keyedstream.Values(ss)), "sums")
	app := start(t, flow)
	a := senders.Sender("a")
	for _, batch := range []struct {
		first uint64
		xs    []int
	}{{10, []int{1, 10}}, {10, []int{1, 10, 100}}, {11, []int{10, 100}}, {12, nil}, {20, []int{1000}}, {0, []int{5, 5}}} {
		for _, send := range []func() (int, error){
			func() (int, error) { return one.SendBatchNumbered(t.Context(), batch.first, batch.xs) },
			func() (int, error) { return a.SendBatchNumbered(t.Context(), batch.first, batch.xs) },
		} {
			if n, err := send(); n != len(batch.xs) || err != nil {
				t.Errorf("%v: %d, %v", batch, n, err)
			}
		}
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	one1, _ := sum.Latest()
	all, _ := sums.Latest()
	if one1 != 1111 || all != 1111 {
		t.Errorf("the sums are %d and %d, want 1111", one1, all)
	}
}
