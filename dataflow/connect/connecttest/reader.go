package connecttest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
)

// A Source is a system with known content, and functions that make it forget or replace that content.
type Source[K comparable, V any] struct {
	Reader connect.Reader[K, V]
	// Want is the content of each split, by its name, without records that cannot be decoded. Each split has at least two
	// records, and no two records of the source are equal.
	Want map[string][]V
	// Bad is how many records of each split cannot be decoded.
	Bad int
	// Forget makes the system forget the records of a split up to a position, at least the first ones; nil if it never forgets.
	Forget func(split string, upTo dataflow.Position)
	// Remake deletes all and creates it again with other content; nil if that is impossible.
	Remake func()
	// Equal compares records. If it is nil, reflect.DeepEqual does.
	Equal func(a, b V) bool
}

// patience bounds the wait for records that must come.
const patience = time.Minute

// silence is how long no more record must come before the last one is believed to be the last.
const silence = 100 * time.Millisecond

// Reader runs the checks of a reader, each with its own source. They call [connect.Reader].Close only through [connect.Attach];
// otherwise the function source leaves it to the cleanup of the test.
func Reader[K comparable, V any](t *testing.T, source func(t *testing.T) Source[K, V]) {
	run := func(name string, f func(t *testing.T, s Source[K, V])) {
		t.Run(name, func(t *testing.T) {
			s := source(t)
			if s.Equal == nil {
				s.Equal = func(a, b V) bool { return reflect.DeepEqual(a, b) }
			}
			f(t, s)
		})
	}
	run("all records come in order, at positions that grow", testAll)
	run("it goes on behind each position", testGoesOn)
	run("what was forgotten is a gap", testGap)
	run("what was made again is another split", testRemade)
	run("a cursor ends with its context", testContext)
	run("a flow that crashes has each record once", testCrashes)
	run("two readers at once do no harm", testTwo)
}

func testAll[K comparable, V any](t *testing.T, s Source[K, V]) {
	for _, split := range splits(t, s) {
		got := s.read(t, split, dataflow.Position{}, len(s.Want[split.String()]), s.Bad)
		s.same(t, split.String(), got.values, s.Want[split.String()])
		if got.bad != s.Bad {
			t.Errorf("%s: %d records cannot be decoded, want %d", split, got.bad, s.Bad)
		}
		last := dataflow.Position{}
		for i, at := range got.at {
			if !at.After(last) {
				t.Fatalf("%s: record %d is at %v, which is not behind %v", split, i, at, last)
			}
			last = at
		}
	}
}

func testGoesOn[K comparable, V any](t *testing.T, s Source[K, V]) {
	for _, split := range splits(t, s) {
		want := s.Want[split.String()]
		all := s.read(t, split, dataflow.Position{}, len(want), s.Bad)
		for range min(20, len(all.at)) {
			i := rand.IntN(len(all.at))
			rest := s.read(t, split, all.at[i], len(all.at)-i-1, 0)
			s.same(t, fmt.Sprintf("%s behind %v", split, all.at[i]), rest.values, want[i+1:])
			if !slices.Equal(rest.at, all.at[i+1:]) {
				t.Fatalf("%s: behind %v the records have other positions when they are read again", split, all.at[i])
			}
		}
	}
}

func testGap[K comparable, V any](t *testing.T, s Source[K, V]) {
	if s.Forget == nil {
		t.Skip("the system never forgets")
	}
	for _, split := range splits(t, s) {
		all := s.read(t, split, dataflow.Position{}, len(s.Want[split.String()]), 0)
		s.Forget(split.String(), all.at[len(all.at)/2])
		c, err := s.Reader.Open(t.Context(), split, all.at[0])
		if err == nil {
			var b connect.Batch[K, V]
			b.Reset()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			err = c.Next(ctx, &b)
			cancel()
			c.Close()
		}
		if !errors.Is(err, connect.ErrGap) {
			t.Errorf("%s: the error is %v, want connect.ErrGap", split, err)
		}
	}
}

func testRemade[K comparable, V any](t *testing.T, s Source[K, V]) {
	if s.Remake == nil {
		t.Skip("the system cannot be made again")
	}
	before := splits(t, s)
	s.Remake()
	after, err := s.Reader.Splits(t.Context())
	if err != nil || len(after) == 0 {
		t.Fatalf("there are %d splits (%v)", len(after), err)
	}
	for _, split := range after {
		if slices.ContainsFunc(before, func(x connect.Split) bool { return x.ID == split.ID }) {
			t.Errorf("%s has the ID %s again", split, split.ID)
		}
	}
}

func testContext[K comparable, V any](t *testing.T, s Source[K, V]) {
	for _, split := range splits(t, s) {
		c, err := s.Reader.Open(t.Context(), split, dataflow.Position{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		stop := time.AfterFunc(silence, cancel)
		var b connect.Batch[K, V]
		for err == nil {
			b.Reset()
			err = c.Next(ctx, &b)
		}
		stop.Stop()
		cancel()
		if err := c.Close(); err != nil {
			t.Errorf("%s: closing: %v", split, err)
		}
	}
}

func (s Source[K, V]) same(t *testing.T, what string, got, want []V) {
	t.Helper()
	if !slices.EqualFunc(got, want, s.Equal) {
		t.Errorf("%s: %d records have come, want %d, or others:\n%s", what, len(got), len(want), cut(got))
	}
}

func cut[V any](vs []V) string {
	s := fmt.Sprintf("%+v", vs)
	return s[:min(len(s), 2000)]
}

func splits[K comparable, V any](t *testing.T, s Source[K, V]) []connect.Split {
	t.Helper()
	all, err := s.Reader.Splits(t.Context())
	if err != nil || len(all) != len(s.Want) {
		t.Fatalf("there are %d splits, want %d (%v)", len(all), len(s.Want), err)
	}
	for _, split := range all {
		if len(s.Want[split.String()]) < 2 {
			t.Fatalf("less than two records are wanted of split %s", split)
		}
	}
	return all
}

// A content is what was read from a split.
type content[V any] struct {
	values []V
	at     []dataflow.Position
	bad    int
}

// read reads n records and bad bad ones after a position, and whatever follows at once.
func (s Source[K, V]) read(t *testing.T, split connect.Split, after dataflow.Position, n, bad int) (c content[V]) {
	t.Helper()
	cursor, err := s.Reader.Open(t.Context(), split, after)
	if err != nil {
		t.Fatalf("%s: opening behind %v: %v", split, after, err)
	}
	defer cursor.Close()
	var b connect.Batch[K, V]
	for last := time.Now(); ; { // a cursor may return empty batches while nothing comes
		within := patience
		if len(c.values) >= n && c.bad >= bad {
			within = silence
		}
		if time.Since(last) > within {
			return c
		}
		b.Reset()
		ctx, cancel := context.WithTimeout(t.Context(), within)
		err := cursor.Next(ctx, &b)
		cancel()
		if len(b.At)+len(b.Bad) > 0 {
			last = time.Now()
		}
		c.values, c.at, c.bad = append(c.values, b.Values...), append(c.at, b.At...), c.bad+len(b.Bad)
		if err != nil {
			if !errors.Is(err, io.EOF) && ctx.Err() == nil {
				t.Fatalf("%s: reading behind %v: %v", split, after, err)
			}
			return c
		}
		if len(b.Keys) != len(b.Values) || len(b.At) != len(b.Values) {
			t.Fatalf("%s: a batch has %d keys, %d values and %d positions", split, len(b.Keys), len(b.Values), len(b.At))
		}
	}
}
