package cow

import (
	"flag"
	"fmt"
	"slices"
	"testing"

	"github.com/leanovate/gopter"
	"github.com/leanovate/gopter/gen"
	"github.com/leanovate/gopter/prop"
)

var seedFlag = flag.Int64("seed", 1, "seed of the random tests")

type point struct{ X, Y float64 }

// A model is a slice of entries in order of insertion.
type model[K comparable] []pair[K]

type pair[K comparable] struct {
	k K
	v int
}

func (m model[K]) find(k K) int {
	return slices.IndexFunc(m, func(p pair[K]) bool { return p.k == k })
}

func (m *model[K]) set(k K, v int) {
	if i := m.find(k); i >= 0 {
		(*m)[i].v = v
		return
	}
	*m = append(*m, pair[K]{k, v})
}

func (m *model[K]) delete(k K) bool {
	i := m.find(k)
	if i >= 0 {
		*m = slices.Delete(*m, i, i+1)
	}
	return i >= 0
}

// A taken is a view and what it must keep showing.
type taken[K comparable] struct {
	view View[K, int]
	want model[K]
}

func (s taken[K]) check() error {
	var got model[K]
	for k, v := range s.view.All() {
		got = append(got, pair[K]{k, v})
		if g, ok := s.view.Get(k); g != v || !ok {
			return fmt.Errorf("Get(%v) = %d, %v, want %d", k, g, ok, v)
		}
	}
	if !slices.Equal(got, s.want) || s.view.Len() != len(got) {
		return fmt.Errorf("All() = %v, Len() = %d, want %v", got, s.view.Len(), s.want)
	}
	return nil
}

// TestAgainstModel makes random calls and takes views between them. At the end every view must
// still show the map as it was when the view was taken.
func TestAgainstModel(t *testing.T) {
	t.Run("int", func(t *testing.T) {
		against(t, NewMap[int, int], func(i int) int { return i - 20 }, func(a, b pair[int]) int { return a.k - b.k })
	})
	t.Run("string", func(t *testing.T) {
		against(t, NewMap[string, int], func(i int) string { return fmt.Sprintf("%02d", i) },
			func(a, b pair[string]) int { return slices.Compare([]byte(a.k), []byte(b.k)) })
	})
	point := func(i int) point { return point{float64(i % 7), float64(i)} }
	t.Run("point", func(t *testing.T) { against(t, NewMap, point, nil) })
	t.Run("point, one hash", func(t *testing.T) { against(t, oneHash, point, nil) })
}

func oneHash() *Map[point, int] { return newMap[point, int](func(point) uint64 { return 1 }) }

func against[K comparable](t *testing.T, make func() *Map[K, int], key func(int) K, order func(a, b pair[K]) int) {
	parameters := gopter.DefaultTestParametersWithSeed(*seedFlag)
	parameters.MinSuccessfulTests = 60
	parameters.MaxSize = 300
	properties := gopter.NewProperties(parameters)
	properties.Property("views stay", prop.ForAll(func(calls []uint16) (string, error) {
		m, want := make(), model[K]{}
		var views []taken[K]
		for step, c := range calls {
			k := key(int(c>>8) % 40)
			switch op := uint8(c); {
			case op < 90:
				if got, want := m.Delete(k), want.delete(k); got != want {
					return "", fmt.Errorf("step %d: Delete(%v) = %v, want %v", step, k, got, want)
				}
			case op < 120:
				now := slices.Clone(want)
				if order != nil {
					slices.SortFunc(now, order)
				}
				views = append(views, taken[K]{m.View(), now})
			default:
				m.Set(k, step)
				want.set(k, step)
			}
			if m.Len() != len(want) {
				return "", fmt.Errorf("step %d: Len() = %d, want %d", step, m.Len(), len(want))
			}
		}
		for _, v := range views {
			if err := v.check(); err != nil {
				return "", err
			}
		}
		return "", nil
	}, gen.SliceOf(gen.UInt16())))
	if !properties.Run(gopter.ConsoleReporter(false)) {
		t.Errorf("rerun: go test ./internal/cow -run '^%s$' -seed %d", t.Name(), *seedFlag)
	}
}
