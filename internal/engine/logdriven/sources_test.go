package logdriven

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/millrace/millrace/internal/engine/codec"
)

// TestSources compares with a list that is searched, through saving and loading.
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
				saved := is.save(nil)
				d := &codec.Decoder{Data: saved}
				is.load(d)
				if d.Err != nil || len(d.Data) > 0 || !bytes.Equal(is.save(nil), saved) {
					t.Fatalf("seed %d: what is loaded is something else: %v", seed, d.Err)
				}
			}
			if len(is.by) != len(want) {
				t.Fatalf("seed %d: %d sources are known, want %d", seed, len(is.by), len(want))
			}
			for _, w := range want {
				if got := is.last(w.name); got != w.last {
					t.Fatalf("seed %d: the last record of %q is %+v, want %+v", seed, w.name, got, w.last)
				}
			}
		}
	}
}
