package durable

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
)

// A spot is a field of a key.
type spot struct{ House, Number int }

type spotted struct {
	A string
	R spot
}

func (k spotted) Affinity() string { return k.A }

// placedPut starts a flow with keys of one type on a log, and puts keys, which must be accepted or be there already.
func placedPut[K comparable](t *testing.T, log *journal.Memory, keys []K, again bool, upgrade ...Change) error {
	t.Helper()
	o := quiet(Options{Partitions: log.Partitions(), Log: journal.Opened{Log: log.Reopen()}, Upgrade: upgrade})
	app, err := Start(t.Context(), seatsOf[K], o)
	if err != nil {
		return err
	}
	for _, k := range keys {
		if err := app.Ports.Put(t.Context(), k, 1); errors.Is(err, dataflow.ErrDuplicateKey) != again || !again && err != nil {
			t.Errorf("%T %+v: %v", k, k, err)
		}
	}
	stop(t, app)
	return nil
}

// twenty returns twenty keys that are in several partitions.
func twenty[K any](of func(i int) K) (all []K) {
	for i := range 20 {
		all = append(all, of(i))
	}
	return all
}

// TestKeyFields changes the fields of keys between two starts. A key of the first program must be known to the second one, which
// looks for it in the partition of its encoding, or the second one is refused. With one partition nothing has to move.
func TestKeyFields(t *testing.T) {
	plain := func(t *testing.T, log *journal.Memory) {
		type key struct{ A int }
		if err := placedPut(t, log, twenty(func(i int) key { return key{i} }), false); err != nil {
			t.Fatal(err)
		}
	}
	two := func(t *testing.T, log *journal.Memory) {
		type key struct {
			A int
			R spot
		}
		if err := placedPut(t, log, twenty(func(i int) key { return key{i, spot{}} }), false); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		first   func(*testing.T, *journal.Memory)
		second  func(*testing.T, *journal.Memory) error
		refused string // part of the error with several partitions; empty if the second program goes on
	}{
		"the same": {plain, func(t *testing.T, log *journal.Memory) error {
			type key struct{ A int }
			return placedPut(t, log, twenty(func(i int) key { return key{i} }), true)
		}, ""},
		"a new field": {plain, func(t *testing.T, log *journal.Memory) error {
			type key struct {
				A int
				B string
			}
			return placedPut(t, log, twenty(func(i int) key { return key{A: i} }), true)
		}, "the keys of input seats are placed by their encoding, and field B of durable.key is new and always encoded"},
		"a new field that is left out": {plain, func(t *testing.T, log *journal.Memory) error {
			type key struct {
				A int
				B string `json:",omitempty"`
				R spot   `json:",omitzero"`
			}
			return placedPut(t, log, twenty(func(i int) key { return key{A: i} }), true)
		}, ""},
		"a new struct that is not left out": {plain, func(t *testing.T, log *journal.Memory) error {
			type key struct {
				A int
				R spot `json:",omitempty"`
			}
			return placedPut(t, log, twenty(func(i int) key { return key{A: i} }), true)
		}, "field R of durable.key is new"},
		"a field is gone": {two, func(t *testing.T, log *journal.Memory) error {
			type key struct{ A int }
			return placedPut(t, log, twenty(func(i int) key { return key{A: i} }), true, DropField("input seats", "R"), DropField("output all", "R"))
		}, "field R of durable.key is gone"},
		"a field inside": {two, func(t *testing.T, log *journal.Memory) error {
			type spot struct{ House, Number, Floor int }
			type key struct {
				A int
				R spot
			}
			return placedPut(t, log, twenty(func(i int) key { return key{A: i} }), true)
		}, "field Floor of durable.spot is new"},
		"another kind": {plain, func(t *testing.T, log *journal.Memory) error {
			type key struct{ A int }
			to := func(k key) string { return string(rune('a' + k.A)) }
			return placedPut(t, log, twenty(func(i int) string { return to(key{i}) }), true, Convert("input seats", to), Convert("output all", to))
		}, "durable.key is converted to string"},
		"another name": {plain, func(t *testing.T, log *journal.Memory) error {
			type key struct{ A int }
			type named struct{ A int64 }
			to := func(k key) named { return named{int64(k.A)} }
			return placedPut(t, log, twenty(func(i int) named { return named{int64(i)} }), true, Convert("input seats", to), Convert("output all", to))
		}, ""},
		"with an affinity": {func(t *testing.T, log *journal.Memory) {
			if err := placedPut(t, log, twenty(func(i int) spotted { return spotted{string(rune('a' + i)), spot{1, 2}} }), false); err != nil {
				t.Fatal(err)
			}
		}, func(t *testing.T, log *journal.Memory) error {
			return placedPut(t, log, twenty(func(i int) spotted { return spotted{string(rune('a' + i)), spot{1, 2}} }), true)
		}, ""},
	} {
		for _, partitions := range []int{1, 5} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					log := journal.NewMemory(journal.MemoryOptions{Partitions: partitions})
					test.first(t, log)
					err := test.second(t, log)
					if refused := partitions > 1 && test.refused != ""; !refused && err != nil || refused && (!errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), test.refused)) {
						t.Errorf("%d partitions: %v, want %q", partitions, err, test.refused)
					}
				})
			})
		}
	}
}
