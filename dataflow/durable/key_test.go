package durable

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// A loud is a name that is decoded in capitals.
type loud struct{ Name string }

func (l loud) MarshalBinary() ([]byte, error) { return []byte(strings.ToUpper(l.Name)), nil }

func (l *loud) UnmarshalBinary(data []byte) error {
	l.Name = string(data)
	return nil
}

// TestBadKey checks that an input refuses a key that is not equal to itself before it
// stores anything, so that a restart does not find it. An output refuses to wait for a
// key that its encoding does not preserve, because no value can have that key.
func TestBadKey(t *testing.T) {
	type point struct{ X, Y float64 }
	type ports struct {
		in      *dataflow.EntryInputPort[point, int]
		values  *dataflow.KeyedInputPort[point, int]
		out     *dataflow.EntryOutputPort[point, int]
		shouted *dataflow.EntryOutputPort[loud, int]
	}
	build := func(f *dataflow.Flow) ports {
		at := dataflow.At[members](f)
		in, entries := keyedsingleton.Input[point, int](at, "in")
		values, vs := keyedstream.Input[point, int](at, "values")
		_, named := keyedsingleton.Input[loud, int](at, "named")
		keyedsingleton.Output(keyedstream.First(vs), "firsts")
		return ports{in, values, keyedsingleton.Output(entries, "out"), keyedsingleton.Output(named, "shouted")}
	}
	log := journal.NewMemory(journal.MemoryOptions{Partitions: 3})
	app := start(t, log, build, Options{})
	refused := func(what, port string, err error) {
		t.Helper()
		if !errors.Is(err, dataflow.ErrKey) || !strings.Contains(err.Error(), `"`+port+`" (key_test.go:`) {
			t.Errorf("%s: %v", what, err)
		}
	}
	bad := point{1, math.NaN()}
	refused("Put", "in", app.Ports.in.Put(t.Context(), bad, 1))
	refused("Send", "values", app.Ports.values.Send(t.Context(), bad, 1))
	_, err := app.Ports.out.Await(t.Context(), bad)
	refused("Await", "out", err)
	_, err = app.Ports.out.Take(t.Context(), bad)
	refused("Take", "out", err)
	if _, ok := app.Ports.out.Get(bad); ok {
		t.Error("Get has a value")
	}
	_, err = app.Ports.shouted.Await(t.Context(), loud{"ann"})
	refused("Await of what is decoded as another key", "shouted", err)
	if n := app.Metrics().Records; n != 0 {
		t.Errorf("%d records were taken", n)
	}
	for i := range 2 {
		good := point{float64(i), 2}
		if err := app.Ports.in.Put(t.Context(), good, 7); err != nil {
			t.Fatal(err)
		}
		await(t, app.Ports.out, good, 7)
		stop(t, app)
		log = log.Reopen()
		app = start(t, log, build, Options{})
	}
	stop(t, app)
}

// TestNegativeZeroKey uses zero and negative zero as keys. They are one key, so they must be in one partition, although their
// encodings differ.
func TestNegativeZeroKey(t *testing.T) {
	type at struct {
		Hall string
		X    float64
	}
	type ports struct {
		in     *dataflow.EntryInputPort[at, int]
		out    *dataflow.EntryOutputPort[at, int]
		values *dataflow.SharedKeyedInputPort[at, int]
		twice  *dataflow.EntryOutputPort[at, int]
	}
	build := func(f *dataflow.Flow) ports {
		here := dataflow.At[members](f)
		in, entries := keyedsingleton.Input[at, int](here, "in")
		values, vs := keyedstream.SharedInput[at, int](here, "values")
		twice := keyedsingleton.ThresholdUniform(keyedstream.Count(vs), 2)
		return ports{in, keyedsingleton.Output(entries, "out"), values, keyedsingleton.Output(twice, "twice")}
	}
	log := journal.NewMemory(journal.MemoryOptions{Partitions: 5})
	app := start(t, log, build, Options{})
	for i := range 10 {
		plus, minus := at{fmt.Sprint(i), 0}, at{fmt.Sprint(i), math.Copysign(0, -1)}
		ctx := t.Context()
		if err := app.Ports.in.Put(ctx, minus, 7); err != nil {
			t.Fatal(err)
		}
		if err := app.Ports.in.Put(ctx, plus, 8); !errors.Is(err, dataflow.ErrDuplicateKey) {
			t.Errorf("a second Put: %v", err)
		}
		if has, err := app.Ports.in.Has(ctx, plus); !has || err != nil {
			t.Errorf("Has: %t, %v", has, err)
		}
		await(t, app.Ports.out, plus, 7)
		keys := []at{plus, minus}
		if _, err := app.Ports.values.SendBatch(ctx, keys, []int{1, 1}); err != nil {
			t.Fatal(err)
		}
		if !math.Signbit(keys[1].X) {
			t.Error("the keys of the caller were changed")
		}
		await(t, app.Ports.twice, minus, 2)
		if v, err := app.Ports.twice.Take(ctx, minus); v != 2 || err != nil {
			t.Errorf("Take: %d, %v", v, err)
		}
	}
	stop(t, app)
}
