package port

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
)

// A countingCodec counts what it decodes, by its type.
type countingCodec struct {
	jsonCodec
	decoded map[reflect.Type]int
}

func (c countingCodec) Decode(data []byte, p any) error {
	c.decoded[reflect.TypeOf(p).Elem()]++
	return c.jsonCodec.Decode(data, p)
}

// TestRepeatedKeys decodes records, some of which have the key of the one before. The test fails if a record gets another key, also
// behind one that is damaged, or if a key is decoded again at once.
func TestRepeatedKeys(t *testing.T) {
	s := newTestGraph().NewLocation("here")
	in, _ := NewKeyedInput[string, int](s, engine.NewOp(s, "in", ""))
	long := strings.Repeat("x", 300)
	c := countingCodec{decoded: map[reflect.Type]int{}}
	var memory [512]byte // of the keys: a log may use it again
	for i, k := range []string{"a", "a", "b", "a", "a", "", "", "damaged", "a", "damaged", "damaged", "b", long, long, "b", "b"} {
		r := codec.Record{Key: fmt.Appendf(memory[:0], "%q", k), Value: fmt.Append(nil, i)}
		if k == "damaged" {
			r.Key = r.Key[:3]
		}
		var e decoded[string, int]
		if err := in.decode(&r, c, &e); (err != nil) != (k == "damaged") {
			t.Errorf("record %d, of key %q: %v", i, k, err)
		} else if err == nil && (e.k != k || e.v != i) {
			t.Errorf("record %d, of key %q, is %d of key %q", i, k, e.v, e.k)
		}
	}
	// a, b, a, "", one damaged, a, two damaged, b, and both long ones
	if n, want := c.decoded[reflect.TypeFor[string]()], 11; n != want {
		t.Errorf("%d keys were decoded, want %d", n, want)
	}
}
