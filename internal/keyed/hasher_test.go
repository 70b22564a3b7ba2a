package keyed

import (
	"math"
	"reflect"
	"testing"
	"unsafe"
)

type (
	name   string
	number int32
	mixed  struct{ A, B uint32 }
	tail   struct{ A, B, C uint32 }
	padded struct {
		A uint8
		B uint64
	}
	blank struct {
		A uint64
		_ uint64
	}
	floats  struct{ X, Y float64 }
	words   struct{ A, B string }
	unread  struct{ A, _ string }
	nothing struct{}
)

func TestShapes(t *testing.T) {
	for _, c := range []struct {
		key  any
		want shape
	}{
		{uint64(1), shapeWord},
		{int64(1), shapeWord},
		{mixed{}, shapeWord},
		{[8]byte{}, shapeWord},
		{request{}, shapePair},
		{[16]byte{}, shapePair},
		{[2]request{}, shapePlain},
		{tail{}, shapePlain},
		{number(1), shapeHalf},
		{uint16(1), shapeShort},
		{true, shapeByte},
		{int8(1), shapeByte},
		{"a", shapeString},
		{name("a"), shapeString},
		{words{}, shapeStrings},
		{[2]words{}, shapeStrings},
		{unread{}, shapeOther},
		{[0]string{}, shapeOther},
		{1.5, shapeOther},
		{padded{}, shapeOther},
		{blank{}, shapeOther},
		{floats{}, shapeOther},
		{nothing{}, shapeOther},
		{[3]byte{}, shapeOther},
		{tenantKey{}, shapeOther},
		{new(int), shapeOther},
	} {
		if got := shapeOf(reflect.TypeOf(c.key)); got != c.want {
			t.Errorf("shapeOf(%T) = %d, want %d", c.key, got, c.want)
		}
	}
}

// TestKeys keeps keys of every kind in a table.
func TestKeys(t *testing.T) {
	testKeys(t, func(i int) bool { return i == 1 }, 2)
	testKeys(t, func(i int) uint8 { return uint8(i) }, 256)
	testKeys(t, func(i int) int16 { return int16(i) }, 5000)
	testKeys(t, func(i int) number { return number(-i) }, 5000)
	testKeys(t, func(i int) int64 { return int64(i) << 40 }, 5000)
	testKeys(t, func(i int) float64 { return float64(i) / 7 }, 5000)
	testKeys(t, func(i int) name { return name(stringOf(i)) }, 5000)
	testKeys(t, func(i int) words { return words{"aaaa"[:i%5], "aaaa"[i%5:]} }, 5)
	testKeys(t, func(i int) words { return words{stringOf(i % 9), stringOf(i)} }, 5000)
	testKeys(t, func(i int) mixed { return mixed{uint32(i % 7), uint32(i)} }, 5000)
	testKeys(t, func(i int) tail { return tail{0, 1, uint32(i)} }, 5000)
	testKeys(t, func(i int) request { return request{uint64(i % 10), uint64(i / 10)} }, 5000)
	testKeys(t, func(i int) [16]byte { return [16]byte{15: byte(i), 3: byte(i >> 8)} }, 5000)
	testKeys(t, func(i int) [5]uint64 { return [5]uint64{uint64(i & 1), 4: uint64(i)} }, 5000)
	testKeys(t, func(i int) padded { return padded{uint8(i), uint64(i)} }, 5000)
	testKeys(t, func(i int) blank { return blank{A: uint64(i)} }, 5000)
	testKeys(t, func(i int) floats { return floats{1, float64(i)} }, 5000)
	testKeys(t, func(i int) tenantKey { return tenantKey{stringOf(i % 9), uint64(i)} }, 5000)
	testKeys(t, func(i int) nothing { return nothing{} }, 1)
	pointers := make([]int, 5000)
	testKeys(t, func(i int) *int { return &pointers[i] }, 5000)
	testKeys(t, func(i int) any {
		if i%2 == 0 {
			return i
		}
		return stringOf(i)
	}, 5000)
}

func stringOf(i int) string { return string(rune('a'+i%26)) + string(rune(i+1000)) }

func testKeys[K comparable](t *testing.T, key func(int) K, n int) {
	t.Helper()
	hasher, table := HasherOf[K](), NewTable[K, int]()
	keys := make([]K, n)
	for i := range keys {
		keys[i] = key(i)
	}
	hs := make([]uint64, n+1)
	hasher.HashAll(keys, hs)
	for i, k := range keys {
		if h := HasherOf[K]().Hash(k); h != hs[i] {
			t.Fatalf("%T: HashAll of %v = %x, Hash = %x", k, k, hs[i], h)
		}
		v, added := table.Put(k, hs[i])
		if !added {
			t.Fatalf("%T: Put(%v) finds it", k, k)
		}
		*v = i
	}
	different := make(map[uint64]bool)
	for i, k := range keys {
		different[hasher.Hash(key(i))] = true
		if v := table.Get(k, hs[i]); v == nil || *v != i {
			t.Fatalf("%T: Get(%v) = %v, want %d", k, k, v, i)
		}
	}
	if len(different) < n-1 {
		t.Errorf("%T: %d hashes of %d keys", keys[0], len(different), n)
	}
	if err := table.check(); err != nil {
		t.Errorf("%T: %v", keys[0], err)
	}
}

// TestHashOfPlainMemory fails if a type of several words of plain memory is hashed by
// maphash.Comparable, which gives correct results but takes longer.
func TestHashOfPlainMemory(t *testing.T) {
	k := tail{1, 2, 3}
	if got, want := HasherOf[tail]().Hash(k), hashPlain(unsafe.Pointer(&k), unsafe.Sizeof(k)); got != want {
		t.Errorf("the hash is %x, that of its words %x", got, want)
	}
}

func TestZerosAreEqual(t *testing.T) {
	minus := math.Copysign(0, -1)
	if a, b := HasherOf[float64]().Hash(0), HasherOf[float64]().Hash(minus); a != b {
		t.Errorf("hash of 0 is %x, of -0 %x", a, b)
	}
}

func TestNaNIsNeverFound(t *testing.T) {
	hasher, table := HasherOf[float64](), NewTable[float64, int]()
	for range 100 {
		if _, added := table.Put(math.NaN(), hasher.Hash(math.NaN())); !added {
			t.Fatal("NaN was found")
		}
	}
	// They share one hash, so some are spilled.
	for range 3000 {
		if _, added := table.Put(math.NaN(), 1); !added {
			t.Fatal("NaN was found")
		}
	}
	if table.Get(math.NaN(), 1) != nil || table.Delete(math.NaN(), 1) || table.Len() != 3100 {
		t.Errorf("Len() = %d, want 3100", table.Len())
	}
	if table.Clear(); table.Len() != 0 {
		t.Errorf("Len() = %d after Clear", table.Len())
	}
}

func TestUnhashablePanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("the hash of a slice in an interface did not panic")
		}
	}()
	HasherOf[any]().Hash([]int{1})
}
