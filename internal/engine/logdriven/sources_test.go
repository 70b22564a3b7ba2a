package logdriven

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
)

// TestSources compares sources with a list that is searched, through saving and loading.
func TestSources(t *testing.T) {
	type seen struct {
		name string
		last codec.LastSeen
		at   int64
	}
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		const most = 6
		is, now := newSources(most), int64(1)
		var want []seen // in order of the last record
		for range 100 {
			if rng.IntN(4) == 0 {
				now += rng.Int64N(sourcesAfter / 2)
			}
			name := fmt.Sprint("s", rng.IntN(9))
			if rng.IntN(5) == 0 {
				name = fmt.Sprint(codec.EdgeSource, " ", rng.IntN(3))
			}
			x := seen{name, codec.LastSeen{Number: rng.Uint64N(100) + 1, Refused: rng.IntN(2) == 0}, now}
			is.set(x.name, x.last, now)
			for i := range want {
				if want[i].name == name {
					want = append(want[:i:i], want[i+1:]...)
					break
				}
			}
			want = append(want, x)
			if rng.IntN(3) == 0 {
				is.expire(now)
				many := 0
				for i := len(want) - 1; i >= 0; i-- {
					if w := want[i]; len(w.name) > 2 { // an edge
						continue
					} else if many++; many > most || now-w.at >= sourcesAfter {
						want = append(want[:i:i], want[i+1:]...)
					}
				}
			}
			if rng.IntN(10) == 0 {
				saved := saveSources(t, &is)
				is = loadSources(t, saved, most)
				if !slices.EqualFunc(saveSources(t, &is), saved, bytes.Equal) {
					t.Fatalf("seed %d: what is loaded is something else", seed)
				}
			}
			if is.table.Len() != len(want) {
				t.Fatalf("seed %d: %d sources are known, want %d", seed, is.table.Len(), len(want))
			}
			for _, w := range want {
				if got := is.last(w.name); got != w.last {
					t.Fatalf("seed %d: the last record of %q is %+v, want %+v", seed, w.name, got, w.last)
				}
			}
		}
	}
}

// TestSourcesAreCut has a source send again, at once or behind another one, while a cut is being saved. The test fails if the cut
// gets the later record, or if the next cut does not.
func TestSourcesAreCut(t *testing.T) {
	for _, between := range []bool{false, true} {
		is := newSources(10)
		is.set("a", codec.LastSeen{Number: 1}, 1)
		if between {
			is.set("b", codec.LastSeen{Number: 1}, 1)
		}
		x := is.state().(engine.Numbered)
		early := false
		marks := x.Mark(func(i uint32) { early = early || i == 0 })
		x.Freeze()
		is.set("a", codec.LastSeen{Number: 2}, 1)
		if !early {
			t.Errorf("another source between is %t: the cut is not told before the entry changes", between)
		}
		for !marks.Taken() {
			marks.Take(64)
		}
		x.Thaw()
		is.set("a", codec.LastSeen{Number: 3}, 1)
		x.Freeze()
		if first, set := marks.Take(64); first != 0 || set&1 == 0 {
			t.Errorf("another source between is %t: the next cut does not have the entry", between)
		}
	}
}

// saveSources returns the saved head of s and all its entries.
func saveSources(t *testing.T, s *sources) (all [][]byte) {
	t.Helper()
	x := s.state().(engine.Numbered)
	x.Mark(nil)
	head, err := x.Save(nil, nil)
	all = append(all, head)
	next, _ := x.Count()
	for i := range next {
		var entry []byte
		if err == nil {
			entry, err = x.SaveEntry(nil, nil, i)
		}
		all = append(all, entry)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// loadSources is the inverse of saveSources.
func loadSources(t *testing.T, all [][]byte, most int) sources {
	t.Helper()
	s := newSources(most)
	x := s.state().(engine.Numbered)
	for i, entry := range all[1:] {
		d := &codec.Decoder{Data: entry}
		if x.LoadEntry(d, nil, uint32(i)); d.Err != nil || len(d.Data) > 0 {
			t.Fatalf("entry %d: %v", i, d.Err)
		}
	}
	d := &codec.Decoder{Data: all[0]}
	if x.Load(d, nil); d.Err != nil || len(d.Data) > 0 {
		t.Fatal(d.Err)
	}
	return s
}
