package durable

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedstream"
)

// TestLookup finds an operator's state for a key in the key's partition, before and after a
// restart.
func TestLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := journal.NewMemory(journal.MemoryOptions{Partitions: 4})
		build := func(f *dataflow.Flow) *dataflow.KeyedInputPort[string, int] {
			in, paid := keyedstream.Input[string, int](dataflow.At[members](f), "paid")
			keyedstream.Sum(paid)
			return in
		}
		for restart := range 2 {
			app := start(t, log, build, Options{Partitions: 4})
			at := make(map[int]int)
			for i := range 20 {
				if err := app.Ports.Send(t.Context(), fmt.Sprint("k", i), i+1); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait() // until the steps are committed
			for i := range 20 {
				found, err := app.Lookup(t.Context(), fmt.Sprint("k", i))
				if err != nil || len(found) != 1 || found[0].Value != fmt.Sprint((restart+1)*(i+1)) {
					t.Fatalf("of k%d there is %+v (%v)", i, found, err)
				}
				at[found[0].Partition]++
			}
			for p, n := range at {
				page, err := app.Entries(t.Context(), p, 1, 0, 0, n)
				if err != nil || len(page.Entries) != n || page.More {
					t.Errorf("partition %d has %d entries (%v), want %d", p, len(page.Entries), err, n)
				}
			}
			if len(at) < 2 {
				t.Errorf("all keys are in partitions %v", at)
			}
			if _, err := app.Entries(t.Context(), 4, 1, 0, 0, 1); !errors.Is(err, dataflow.ErrNoState) {
				t.Errorf("of a partition that is not there: %v", err)
			}
			if _, err := app.Entries(t.Context(), 0, 0, 0, 0, 1); !errors.Is(err, dataflow.ErrNoState) {
				t.Errorf("of an operator without keys: %v", err)
			}
			if _, err := app.Lookup(t.Context(), 1); !errors.Is(err, dataflow.ErrNoState) {
				t.Errorf("of another type: %v", err)
			}
			if err := app.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			if found, err := app.Lookup(t.Context(), "k1"); err != nil || len(found) != 0 {
				t.Errorf("after the end there is %v (%v)", found, err)
			}
			log = log.Reopen()
		}
	})
}

// TestLookupInStep checks that Lookup on a partition in the middle of a step returns an error
// when its context ends.
func TestLookupInStep(t *testing.T) {
	begun, goOn := make(chan bool), make(chan bool)
	app := start(t, journal.NewMemory(journal.MemoryOptions{}), func(f *dataflow.Flow) *dataflow.KeyedInputPort[string, int] {
		in, paid := keyedstream.Input[string, int](dataflow.At[server](f), "paid")
		keyedstream.Sum(keyedstream.Map(paid, func(i int) int {
			begun <- true
			<-goOn
			return i
		}))
		return in
	}, Options{})
	if err := app.Ports.Send(t.Context(), "k", 1); err != nil {
		t.Fatal(err)
	}
	<-begun
	ctx, cancel := context.WithCancelCause(t.Context())
	impatient := errors.New("impatient")
	cancel(impatient)
	if _, err := app.Lookup(ctx, "k"); !errors.Is(err, impatient) {
		t.Errorf("during a step: %v", err)
	}
	close(goOn)
	if found, err := app.Lookup(t.Context(), "k"); err != nil || len(found) != 1 || found[0].Value != "1" {
		t.Errorf("after it there is %v (%v)", found, err)
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}
