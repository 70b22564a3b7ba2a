package claims

import (
	"math"
	"math/big"
	"reflect"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/engine"
)

type cents int64

type version struct{ major, minor int }

func (v version) Compare(w version) int {
	return 100*(v.major-w.major) + v.minor - w.minor
}

func (v version) Equal(w version) bool { return v.major == w.major }

func before[T any](t *testing.T, xs ...T) {
	t.Helper()
	compare := order[T]()
	if compare == nil {
		t.Errorf("%T has no order", xs[0])
		return
	}
	for i, a := range xs {
		for j, b := range xs {
			if got := compare(a, b); got < 0 != (i < j) || got > 0 != (i > j) {
				t.Errorf("%v is compared with %v as %d", a, b, got)
			}
		}
	}
}

// TestOrder checks how values of each type are compared: a wrong order would make a correct claim fail.
func TestOrder(t *testing.T) {
	before(t, math.MinInt, -1, 0, math.MaxInt)
	before(t, cents(-1), cents(1))
	before(t, uint64(0), uint64(1)<<63)
	before(t, false, true)
	before(t, "", "a", "b")
	before(t, math.Inf(-1), -1, 0, math.Inf(1), math.NaN())
	before(t, version{1, 9}, version{2, 0}, version{2, 1})
	before(t, time.Unix(1, 0), time.Unix(2, 0))
	before(t, big.NewInt(-1), big.NewInt(1))
	if order[[]int]() != nil || order[any]() != nil || order[*int]() != nil || order[map[int]bool]() != nil || order[complex128]() != nil || order[error]() != nil {
		t.Error("a type has an order that it has not")
	}
	if !equality[version]()(version{1, 1}, version{1, 2}) || equality[int]()(1, 2) || !equality[[]int]()([]int{1}, []int{1}) {
		t.Error("a type is compared wrongly")
	}
}

// TestUnwatched checks that the functions of an unwatched graph are returned unchanged, so
// production pays for no check and no extra call.
func TestUnwatched(t *testing.T) {
	g := &engine.Graph{}
	op := &engine.Op{Loc: &engine.Location{Graph: g}}
	same := func(name string, f, g any) {
		if reflect.ValueOf(f).Pointer() != reflect.ValueOf(g).Pointer() {
			t.Errorf("%s returns another function", name)
		}
	}
	step, init := func(*int, int) {}, func() int { return 0 }
	merge, turn, compare := func(*int, int) { panic(0) }, func(int) int { return 0 }, func(int, int) int { return 0 }
	same("Commutative", Commutative(op, step), step)
	same("Growing", Growing(op, step), step)
	one, other := Sessions(op, init, step, merge)
	same("Sessions", one, step)
	same("Sessions", other, merge)
	same("Monotone", Monotone(op, turn, true), turn)
	same("Distinct", Distinct(op, compare), compare)
}
