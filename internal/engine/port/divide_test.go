package port

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/engine"
)

// TestDivideHashes divides batches and single entries between two locations, in one step and in
// several. Every entry is passed on once, with the hash of its own key. With another hash, a table
// behind it would contain the key twice.
func TestDivideHashes(t *testing.T) {
	g := newTestGraph()
	here, there := g.NewLocation("here"), g.NewLocation("there")
	in, n := NewKeyedInput[string, int](here, engine.NewOp(here, "in", ""))
	hash := engine.Hasher[string]()
	var got [2]map[string][]int // by location
	for i, part := range KDivide(n, engine.NewOp(here, "KDivide", ""), []*engine.Location{here, there}) {
		got[i] = make(map[string][]int)
		part.To(func(b *engine.Batch[string, int]) {
			if len(b.V) != len(b.K) || len(b.H) != len(b.K) {
				t.Errorf("at location %d come %d keys, %d values and %d hashes", i, len(b.K), len(b.V), len(b.H))
				return
			}
			for j, k := range b.K {
				if b.H[j] != hash.Hash(k) {
					t.Errorf("at location %d, %q has another hash than its own", i, k)
				}
				got[i][k] = append(got[i][k], b.V[j])
			}
		}).One = func(k string, v int, h uint64) {
			if h != 0 && h != hash.Hash(k) {
				t.Errorf("at location %d, %q has another hash than its own", i, k)
			}
			got[i][k] = append(got[i][k], v)
		}
	}
	g.Start(t.Context())
	const keys = 40
	for round := range 3 {
		var ks []string
		var vs []int
		for k := range keys {
			ks, vs = append(ks, fmt.Sprint("key ", k)), append(vs, round)
		}
		if _, err := in.SendBatch(t.Context(), ks, vs); err != nil {
			t.Fatal(err)
		}
		if err := in.Send(t.Context(), ks[round], -1); err != nil {
			t.Fatal(err)
		}
	}
	g.Stop()
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if len(got[0]) == 0 || len(got[1]) == 0 || len(got[0])+len(got[1]) != keys {
		t.Errorf("of %d keys come %d and %d", keys, len(got[0]), len(got[1]))
	}
	maps.Copy(got[0], got[1])
	for k := range keys {
		want := []int{0, 1, 2}
		if k < 3 {
			want = slices.Insert(want, k+1, -1)
		}
		if vs := got[0][fmt.Sprint("key ", k)]; !slices.Equal(vs, want) {
			t.Errorf("key %d has %v, want %v", k, vs, want)
		}
	}
}
