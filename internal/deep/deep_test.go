package deep_test

import (
	"errors"
	"io"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"
	"unique"

	"github.com/millrace/millrace/internal/deep"
)

type inner struct {
	list []int
	by   map[string][]int
	next *inner
	any  any
	err  error
}

func sample() *inner {
	shared := &inner{list: []int{7}}
	return &inner{
		list: []int{1, 2}, by: map[string][]int{"a": {3}}, next: shared,
		any: []any{shared, map[int]*inner{1: shared}, [1][]int{{5}}}, err: io.EOF,
	}
}

// TestCopy changes everything through the copy and checks that the original is unchanged. It
// fails if a reference is not followed.
func TestCopy(t *testing.T) {
	x := sample()
	c, err := deep.Copier[*inner]()(x)
	if err != nil || !reflect.DeepEqual(c, x) {
		t.Fatalf("%v: %+v is copied as %+v", err, x, c)
	}
	if c.err != io.EOF {
		t.Error("an error is another one")
	}
	in := c.any.([]any)
	if in[0] != any(c.next) || in[1].(map[int]*inner)[1] != c.next {
		t.Error("what was shared is not shared by the copies")
	}
	c.list[0], c.by["a"][0], c.by["b"] = 8, 8, nil
	c.next.list[0] = 8
	in[1].(map[int]*inner)[2] = nil
	in[2].([1][]int)[0][0] = 8
	in[2] = 8
	if !reflect.DeepEqual(x, sample()) {
		t.Errorf("the original was changed to %+v", x)
	}
}

// TestNil checks that a copy distinguishes nil from empty, as functions may.
func TestNil(t *testing.T) {
	x := inner{by: map[string][]int{}, list: []int{}}
	if c, err := deep.Copier[inner]()(x); err != nil || c.by == nil || c.list == nil || c.any != nil || c.next != nil {
		t.Errorf("%v: %+v is copied as %+v", err, x, c)
	}
	if c, err := deep.Copier[any]()(nil); err != nil || c != nil {
		t.Errorf("%v: nil is copied as %v", err, c)
	}
}

// TestIdentity checks that values compared by pointer stay equal in a copy.
func TestIdentity(t *testing.T) {
	type all struct {
		at     time.Time
		handle unique.Handle[string]
		what   any
	}
	x := all{time.Now(), unique.Make("a"), reflect.TypeFor[int]()}
	if c, err := deep.Copier[all]()(x); err != nil || c != x {
		t.Errorf("%v: %+v is copied as %+v", err, x, c)
	}
	n := big.NewInt(5)
	c, err := deep.Copier[*big.Int]()(n)
	if err != nil {
		t.Fatal(err)
	}
	if c.Add(c, c); n.Int64() != 5 {
		t.Error("a number was changed through its copy")
	}
}

type ring struct{ next *ring }

type self map[string]self

// TestRefused checks that the error names what cannot be copied, and that copying ends for a
// value that refers to itself.
func TestRefused(t *testing.T) {
	around := &ring{}
	around.next = &ring{around}
	own := self{}
	own["a"] = own
	var deepest *ring
	for range 40 {
		deepest = &ring{deepest}
	}
	list := []any{nil, nil} // each level contains the next one twice
	list[0], list[1] = list, list
	tests := []struct {
		x    any
		want string
	}{
		{func() {}, "func()"}, {make(chan int), "chan int"}, {struct{ f func() }{func() {}}, "func()"},
		{map[string]any{"a": make(chan int)}, "chan int"}, {around, "itself"}, {own, "itself"},
		{deepest, "deeper"}, {list, "itself"}, {&list, "itself"},
	}
	for _, test := range tests {
		if c, err := deep.Copier[any]()(test.x); err == nil || !strings.Contains(err.Error(), test.want) || c != nil {
			t.Errorf("%T: %v, want an error with %q", test.x, err, test.want)
		}
	}
	if _, err := deep.Copier[struct {
		f func()
		c chan int
	}]()(struct {
		f func()
		c chan int
	}{}); err != nil {
		t.Errorf("nil: %v", err)
	}
	if err := errors.New("x"); func() bool { c, e := deep.Copier[error]()(err); return e != nil || c != err }() {
		t.Error("an error is another one")
	}
}
