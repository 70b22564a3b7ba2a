package keyed

import (
	"errors"
	"fmt"
	"math"
	"testing"
)

// TestCheckOf checks that types whose values can all be keys need no check. For other types, each
// value that cannot be a key is found at any depth.
func TestCheckOf(t *testing.T) {
	type plain struct {
		A [2]string
		B *float64
		C chan any
		D [0]any
	}
	type blank struct {
		A int
		_ float64
		_ any
	}
	type deep struct{ F [2]struct{ X any } }
	if CheckOf[int]() != nil || CheckOf[string]() != nil || CheckOf[plain]() != nil || CheckOf[blank]() != nil || CheckOf[[3]plain]() != nil {
		t.Error("a type of which every value can be a key is checked")
	}
	nan := math.NaN()
	same(t, 1.5, true)
	same(t, math.Inf(1), true)
	same(t, nan, false)
	same(t, float32(nan), false)
	same(t, complex(nan, 0), false)
	same(t, complex(0, nan), false)
	same(t, complex64(complex(0, nan)), false)
	same(t, [2]float64{0, nan}, false)
	same(t, struct{ F [1]float64 }{[1]float64{nan}}, false)
	same[any](t, nil, true)
	same[any](t, 7, true)
	same[any](t, nan, false)
	same[any](t, []int{1}, false)
	same[any](t, map[int]int{}, false)
	same[any](t, func() {}, false)
	same[any](t, struct{ X any }{[]int{}}, false)
	same(t, deep{}, true)
	same(t, deep{[2]struct{ X any }{{1}, {[]int{}}}}, false)
	same(t, deep{[2]struct{ X any }{{1}, {deep{[2]struct{ X any }{{nan}, {2}}}}}}, false)
	same[error](t, errors.New("fine"), true)
	same[error](t, bad{}, false)
}

type bad []int

func (bad) Error() string { return "" }

func same[K comparable](t *testing.T, k K, fits bool) {
	t.Helper()
	check := CheckOf[K]()
	if check == nil {
		t.Fatalf("%T is not checked", k)
	}
	key, err := check(k)
	if (err == nil) != fits {
		t.Errorf("%T %v: %v", k, k, err)
	}
	if text := fmt.Sprintf("%#v", k); fmt.Sprintf("%#v", key) != text {
		t.Errorf("the key for %s is %#v", text, key)
	}
}
