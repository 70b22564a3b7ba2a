package durable

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// TestConvertedWhileQuarantined upgrades a flow whose quarantine has a record in a type that is converted. The upgrade is refused
// until the program that made the history has handled it.
func TestConvertedWhileQuarantined(t *testing.T) {
	euros := func(cents int) float64 { return float64(cents) / 100 }
	upgrade := Options{Upgrade: []Change{
		Convert("input in", euros), Convert("output out", euros),
		Convert("keyedstream.First[table(string,int)]@{keyedstream.Inspect@{input in}}", euros),
	}}
	synctest.Test(t, func(t *testing.T) {
		log := journal.NewMemory(journal.MemoryOptions{})
		var mended atomic.Bool
		inCents := priced(func(cents int) bool { return cents == 500 && !mended.Load() })
		app := start(t, log, inCents, Options{})
		for k, cents := range map[string]int{"good": 100, "bad": 500} {
			if err := app.Ports.in.Send(t.Context(), k, cents); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		stop(t, app)
		inEuros := priced(func(float64) bool { return false })
		upgrade.Log = journal.Opened{Log: log.Reopen()}
		if _, err := Start(t.Context(), inEuros, quiet(upgrade)); !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), "are in quarantine (letter 1)") {
			t.Fatalf("with a letter: %v", err)
		}
		mended.Store(true)
		app = start(t, log.Reopen(), inCents, Options{})
		if err := app.Retry(t.Context(), 0, 1); err != nil {
			t.Error(err)
		}
		stop(t, app)
		upgraded := start(t, log.Reopen(), inEuros, upgrade)
		await(t, upgraded.Ports.out, "good", 1)
		await(t, upgraded.Ports.out, "bad", 5)
		stop(t, upgraded)
	})
}

type pricedPorts[V any] struct {
	in  *dataflow.KeyedInputPort[string, V]
	out *dataflow.EntryOutputPort[string, V]
}

// priced returns a flow that remembers the first value of each key, and panics on bad ones.
func priced[V any](bad func(V) bool) func(f *dataflow.Flow) pricedPorts[V] {
	return func(f *dataflow.Flow) pricedPorts[V] {
		in, vs := keyedstream.Input[string, V](dataflow.At[server](f), "in")
		read := keyedstream.Inspect(vs, func(v V) {
			if bad(v) {
				panic("bad value")
			}
		})
		return pricedPorts[V]{in, keyedsingleton.Output(keyedstream.First(read), "out")}
	}
}
