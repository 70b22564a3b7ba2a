package keyedsingleton_test

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
)

// An orderID is a key that its client numbers.
type orderID struct{ Client, Number uint64 }

func counted() dataflow.Sequence[orderID] {
	return dataflow.Sequenced(func(o orderID) (client, seq uint64) { return o.Client, o.Number })
}

// inUse returns how many bytes of the heap are in use after a garbage collection.
func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestCountedInputIsSmall has a thousand clients put a million keys. It checks that the input uses
// at most half a byte for each key, and that it refuses each repeated key.
func TestCountedInputIsSmall(t *testing.T) {
	const clients, each = 1000, 1000
	flow := dataflow.New()
	in, orders := keyedsingleton.Input[orderID, int](dataflow.At[service](flow), "orders", counted())
	came := 0
	keyedsingleton.Inspect(orders, func(int) { came++ })
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	keys, values := make([]orderID, clients), make([]int, clients)
	put := func(n uint64, want error) {
		for c := range keys {
			keys[c] = orderID{uint64(c), n}
		}
		var errs []error
		if n%2 == 0 {
			errs, err = in.PutBatch(t.Context(), keys, values)
		} else {
			errs, err = errs[:0], nil
			for _, k := range keys {
				errs = append(errs, in.Put(t.Context(), k, 0))
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		for c, err := range errs {
			if !errors.Is(err, want) {
				t.Fatalf("order %d of client %d: %v, want %v", n, c, err, want)
			}
		}
	}
	put(0, nil)
	before := inUse()
	for n := range uint64(each) {
		put(n+1, nil)
	}
	if grown := inUse() - before; grown > clients*each/2 {
		t.Errorf("a million keys take %d bytes, want half of one for each at most", grown)
	}
	for n := range uint64(each) {
		put(n, dataflow.ErrDuplicateKey)
	}
	in.Close()
	if err := app.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if want := clients * (each + 1); came != want {
		t.Errorf("%d orders came, want %d", came, want)
	}
}

// TestCountedInputOfMany has several goroutines put the same keys in different ways, and checks that
// exactly one put of each key succeeds.
func TestCountedInputOfMany(t *testing.T) {
	const goroutines, keys = 4, 3000
	flow := dataflow.New()
	in, orders := keyedsingleton.Input[orderID, int](dataflow.At[service](flow), "orders", counted())
	out := keyedsingleton.Output(orders, "out")
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	var put atomic.Int64
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			for i := range keys {
				k := orderID{uint64(i % 7), uint64((i*(g*2+1))%keys) * 3} // each goroutine has its own order, with gaps
				var err error
				if g%2 == 0 {
					err = in.Put(t.Context(), k, g)
				} else {
					var errs []error
					errs, _ = in.PutBatch(t.Context(), []orderID{k}, []int{g})
					err = errs[0]
				}
				if err == nil {
					put.Add(1)
				} else if !errors.Is(err, dataflow.ErrDuplicateKey) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	in.Close()
	if err := app.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if n := out.Len(); int64(n) != put.Load() {
		t.Errorf("%d keys are there, %d were put", n, put.Load())
	}
}

type service struct{ dataflow.Process }

// TestCountPanics has the function panic that returns the client of a key. It checks that the input
// refuses the key and still accepts others.
func TestCountPanics(t *testing.T) {
	flow := dataflow.New()
	careful := dataflow.Sequenced(func(o orderID) (client, seq uint64) {
		if o.Client == 13 {
			panic("unlucky")
		}
		return o.Client, o.Number
	})
	in, orders := keyedsingleton.Input[orderID, int](dataflow.At[service](flow), "orders", careful)
	out := keyedsingleton.Output(orders, "out")
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	bad := orderID{13, 1}
	ask := keyedsingleton.Ask(in, out)
	for name, do := range map[string]func() error{
		"Put":         func() error { return in.Put(t.Context(), bad, 1) },
		"PutBatch":    func() error { _, err := in.PutBatch(t.Context(), []orderID{{1, 1}, bad}, []int{1, 1}); return err },
		"PutNumbered": func() error { return in.PutNumbered(t.Context(), "sender", 1, bad, 1) },
		"Has":         func() error { _, err := in.Has(t.Context(), bad); return err },
		"Ask":         func() error { _, err := ask.Ask(t.Context(), bad, 1); return err },
	} {
		var key *dataflow.KeyError
		if err := do(); !errors.As(err, &key) || !strings.Contains(err.Error(), "unlucky") {
			t.Errorf("%s of a key that cannot be counted: %v", name, err)
		}
	}
	if err := in.Put(t.Context(), orderID{1, 1}, 1); err != nil {
		t.Error(err)
	}
	in.Close()
	if err := app.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}
