package keyed

import (
	"fmt"
	"math"
	"testing"
)

var negative = math.Copysign(0, -1)

// TestPositiveOf checks that types without floating-point numbers are left alone, and that negative zeros are replaced at any
// depth, and nothing else.
func TestPositiveOf(t *testing.T) {
	type plain struct {
		A string
		B *float64
		C [0]float64
		_ float64
	}
	if PositiveOf[int]() != nil || PositiveOf[plain]() != nil || PositiveOf[[2]plain]() != nil {
		t.Error("a type without floating-point numbers has a function")
	}
	type deep struct {
		a int
		f [2]struct{ x any }
	}
	half := float32(negative)
	positive(t, negative, 0)
	positive(t, 0.0, 0)
	positive(t, -1.5, -1.5)
	positive(t, -math.SmallestNonzeroFloat64, -math.SmallestNonzeroFloat64)
	positive(t, math.Inf(-1), math.Inf(-1))
	positive(t, half, 0)
	positive(t, complex(negative, negative), 0)
	positive(t, complex(half, 1), complex64(1i))
	positive(t, [3]float64{negative, 1, negative}, [3]float64{0, 1, 0})
	positive[any](t, nil, nil)
	positive[any](t, "-0", "-0")
	positive[any](t, negative, 0.0)
	positive(t, deep{a: 1}, deep{a: 1})
	positive(t, deep{1, [2]struct{ x any }{{7}, {[1]float32{half}}}}, deep{1, [2]struct{ x any }{{7}, {[1]float32{0}}}})
	positive(t, deep{1, [2]struct{ x any }{{deep{2, [2]struct{ x any }{{negative}, {}}}}, {}}}, deep{1, [2]struct{ x any }{{deep{2, [2]struct{ x any }{{0.0}, {}}}}, {}}})
}

func positive[K comparable](t *testing.T, k, want K) {
	t.Helper()
	before := fmt.Sprintf("%#v", k)
	got := PositiveOf[K]()(k)
	if text := fmt.Sprintf("%#v", got); got != want || text != fmt.Sprintf("%#v", want) {
		t.Errorf("%s becomes %s, want %#v", before, text, want)
	}
	if after := fmt.Sprintf("%#v", k); after != before {
		t.Errorf("what was given, %s, is changed to %s", before, after)
	}
}

// TestBitsOf checks that equal numbers with different bits are told apart, and ordered.
func TestBitsOf(t *testing.T) {
	type degrees float32
	if BitsOf[int]() != nil || BitsOf[string]() != nil {
		t.Error("a type without negative zero has bits")
	}
	if bits := BitsOf[float64](); bits(negative) >= bits(0) {
		t.Error("float64 is in another order")
	}
	if bits := BitsOf[degrees](); bits(degrees(negative)) >= bits(0) {
		t.Error("float32 is in another order")
	}
}

// BenchmarkPositive measures what a key costs that contains floating-point numbers.
func BenchmarkPositive(b *testing.B) {
	b.Run("float64", func(b *testing.B) { benchmarkPositive(b, 1.5) })
	b.Run("any of string", func(b *testing.B) { benchmarkPositive[any](b, "a") })
	b.Run("any of float64", func(b *testing.B) { benchmarkPositive[any](b, 1.5) })
}

func benchmarkPositive[K comparable](b *testing.B, k K) {
	b.ReportAllocs()
	positive := PositiveOf[K]()
	for b.Loop() {
		k = positive(k)
	}
}
