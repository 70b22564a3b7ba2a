package model

import (
	"bytes"
	"context"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/logdriven"
	"github.com/millrace/millrace/internal/long"
)

// flowNames returns the names of the handwritten flows, sorted.
func flowNames() []string {
	var names []string
	for name := range byHand {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func flowByHand(name string) logDrivenFlow {
	return func(f *dataflow.Flow, see func(string)) { byHand[name](dataflow.At[here](f), see) }
}

// aHistory runs a handwritten flow for a few steps and returns its records, its outputs
// and its saved state.
func aHistory(t testing.TB, name string, seed uint64) (records [][]byte, outputs, saved []byte) {
	rng := rand.New(rand.NewPCG(seed, 7))
	box := &mailbox{rng: rng}
	facade := newRemote(dataflow.Options{}, durable.CBOR(), box)
	front := byHand[name](dataflow.At[here](facade), func(string) {})
	graphOf(facade).Start(context.Background())
	r, _, err := flowByHand(name).begun()
	if err != nil {
		t.Fatal(err)
	}
	defer r.end()
	now := int64(1)
	for range 10 {
		for range rng.IntN(8) {
			if err := front[0].send(rng); err != nil {
				t.Fatal(err)
			}
		}
		now = r.later(rng, now)
		e, err := r.executor.Step(now, box.waiting, nil)
		if err != nil {
			t.Fatal(err)
		}
		records, outputs = append(records, box.waiting...), append(outputs, e.Outputs...)
		box.waiting = nil
	}
	if saved, err = r.executor.Save(nil); err != nil {
		t.Fatal(err)
	}
	return records, outputs, saved
}

// loadAnything loads arbitrary bytes as saved state. If Load accepts them, Save must
// succeed, saving and loading again must give the same bytes, and a further step must not
// panic.
func loadAnything(t testing.TB, name string, data []byte, records [][]byte) {
	flow := flowByHand(name)
	r, err := flow.run()
	if err != nil {
		t.Fatal(err)
	}
	defer r.end()
	if r.executor.Load(data, origin, false) != nil {
		return
	}
	saved, err := r.executor.Save(nil)
	if err != nil {
		t.Fatalf("Save after Load: %v", err)
	}
	again, err := flow.run()
	if err != nil {
		t.Fatal(err)
	}
	defer again.end()
	if err := again.executor.Load(saved, origin, false); err != nil {
		t.Fatalf("Load of what Save gave: %v", err)
	}
	resaved, err := again.executor.Save(nil)
	if err != nil || !bytes.Equal(saved, resaved) {
		t.Fatalf("saved %q, loaded and saved %q (%v)", saved, resaved, err)
	}
	if at, ok := r.executor.Deadline(); ok {
		r.executor.Step(at, records, nil)
	}
	r.executor.Step(1<<60, nil, nil)
}

// TestLoadDamaged truncates saved state and flips bits of it. It catches a panic, a state
// that cannot be saved again, and memory allocated for a length that was not checked.
func TestLoadDamaged(t *testing.T) {
	for _, name := range flowNames() {
		records, _, saved := aHistory(t, name, *seed)
		rng := rand.New(rand.NewPCG(*seed, 8))
		var before, after runtime.MemStats
		for n := range long.Of(100, 1000) {
			damaged := slices.Clone(saved)
			if n%2 == 0 {
				damaged = damaged[:rng.IntN(len(damaged))]
			} else {
				for range 1 + rng.IntN(3) {
					damaged[rng.IntN(len(damaged))] ^= 1 << rng.IntN(8)
				}
			}
			runtime.ReadMemStats(&before)
			loadAnything(t, name, damaged, records)
			runtime.ReadMemStats(&after)
			if grown := after.TotalAlloc - before.TotalAlloc; grown > 64<<20 {
				t.Fatalf("%s: loading %d damaged bytes took %d bytes of memory", name, len(damaged), grown)
			}
		}
	}
}

func FuzzLoad(f *testing.F) {
	names := flowNames()
	for i, name := range names {
		for seed := range uint64(3) {
			_, _, saved := aHistory(f, name, seed)
			f.Add(byte(i), saved)
		}
	}
	f.Fuzz(func(t *testing.T, i byte, data []byte) {
		loadAnything(t, names[int(i)%len(names)], data, nil)
	})
}

// FuzzStep makes a step with arbitrary bytes as records.
func FuzzStep(f *testing.F) {
	names := flowNames()
	for i, name := range names {
		records, _, _ := aHistory(f, name, 1)
		for _, r := range records[:min(3, len(records))] {
			f.Add(byte(i), r)
		}
	}
	f.Fuzz(func(t *testing.T, i byte, data []byte) {
		r, _, err := flowByHand(names[int(i)%len(names)]).begun()
		if err != nil {
			t.Fatal(err)
		}
		defer r.end()
		if _, err := r.executor.Step(5, [][]byte{data, data}, nil); err != nil {
			return
		}
		if _, err := r.executor.Save(nil); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzFeed feeds arbitrary bytes to the outputs.
func FuzzFeed(f *testing.F) {
	names := flowNames()
	for i, name := range names {
		_, outputs, _ := aHistory(f, name, 1)
		f.Add(byte(i), outputs)
	}
	f.Fuzz(func(t *testing.T, i byte, data []byte) {
		facade := newRemote(dataflow.Options{}, durable.CBOR(), &mailbox{rng: rand.New(rand.NewPCG(1, 1))})
		front := byHand[names[int(i)%len(names)]](dataflow.At[here](facade), func(string) {})
		g := graphOf(facade)
		g.Start(context.Background())
		for range 2 {
			if logdriven.Feed(g, 0, 0, nil, data) != nil {
				break
			}
			for _, h := range front {
				if h.read != nil {
					h.read()
				}
			}
		}
	})
}

// FuzzDecodeRecord decodes arbitrary bytes. A decoded record must be the same after it is
// encoded and decoded again.
func FuzzDecodeRecord(f *testing.F) {
	for _, name := range flowNames() {
		records, _, _ := aHistory(f, name, 1)
		for _, r := range records[:min(3, len(records))] {
			f.Add(r)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := codec.DecodeRecord(data)
		if err != nil {
			return
		}
		again, err := codec.DecodeRecord(r.Encode(nil))
		if err != nil || !reflect.DeepEqual(normal(again), normal(r)) {
			t.Errorf("%+v comes back as %+v (%v)", r, again, err)
		}
	})
}

func normal(r codec.Record) codec.Record {
	r.Key, r.Value = append([]byte{}, r.Key...), append([]byte{}, r.Value...)
	return r
}
