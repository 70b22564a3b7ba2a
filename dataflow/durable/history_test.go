package durable

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

type timesPorts struct {
	in  *dataflow.KeyedInputPort[string, int]
	out *dataflow.EntryOutputPort[string, int]
}

// times returns flows of one shape that compute different products.
func times(factor int) func(*dataflow.Flow) timesPorts {
	return func(f *dataflow.Flow) timesPorts {
		in, numbers := keyedstream.Input[string, int](dataflow.At[server](f), "numbers")
		ordered := keyedstream.AssumeOrder(numbers, "the first number of a key is its only one")
		return timesPorts{in, keyedsingleton.Output(keyedstream.First(keyedstream.Map(ordered, func(n int) int { return factor * n })), "products")}
	}
}

// TestOpenHistory checks that only the program that made a history opens it, and that the history is compared
// with what the program computes now.
func TestOpenHistory(t *testing.T) {
	for _, clean := range []bool{false, true} {
		log := journal.NewMemory(journal.MemoryOptions{})
		app := start(t, log, times(1), Options{KeepFor: Forever})
		for i := range 3 {
			if err := app.Ports.in.Send(t.Context(), fmt.Sprint("k", i), i+1); err != nil {
				t.Fatal(err)
			}
			await(t, app.Ports.out, fmt.Sprint("k", i), i+1)
		}
		if clean {
			stop(t, app)
		} else {
			log.Crash()
			<-app.Done()
		}
		if _, err := OpenHistory(t.Context(), quorumProcess, quiet(Options{Log: journal.Opened{Log: log.Reopen()}})); !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), `server: keyedstream.First[table(string,)]@{input numbers} is gone`) {
			t.Errorf("clean %v: opened by another program: %v", clean, err)
		}
		for factor, want := range map[int]error{1: nil, 2: ErrDiverged} {
			h, err := OpenHistory(t.Context(), times(factor), quiet(Options{Log: journal.Opened{Log: log.Reopen()}}))
			if err != nil {
				t.Fatal(err)
			}
			var numbers []uint64
			for s, err := range h.Steps(t.Context(), 0) {
				if err != nil {
					t.Fatal(err)
				}
				numbers = append(numbers, s.Number)
			}
			for i, to := range numbers {
				want := want
				if i == 0 || clean && i == len(numbers)-1 {
					want = nil // the first step took no record, and no step after the snapshot is replayed
				}
				if err := h.Replay(t.Context(), 0, to, &bytes.Buffer{}, -1); !errors.Is(err, want) {
					t.Errorf("clean %v, times %d, replay to step %d of %d: %v, want %v", clean, factor, to, numbers, err, want)
				}
			}
			if err := h.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestHistoryOfOneStep reads a history that has only its first step, and checks that this step counts.
func TestHistoryOfOneStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		log := journal.NewMemory(journal.MemoryOptions{})
		app := start(t, log, times(1), Options{})
		log.Crash()
		<-app.Done()
		h, err := OpenHistory(t.Context(), times(1), quiet(Options{Log: journal.Opened{Log: log.Reopen()}}))
		if err != nil {
			t.Fatal(err)
		}
		info, err := h.Partition(t.Context(), 0)
		if err != nil || info.Steps != 1 || info.Last != 1 {
			t.Errorf("%+v, %v", info, err)
		}
		n := 0
		for s, err := range h.Steps(t.Context(), 0) {
			if err != nil || s.Number != 1 || s.Taken != 0 || !s.At.Equal(began) {
				t.Errorf("%+v, %v", s, err)
			}
			n++
		}
		if n != 1 {
			t.Errorf("%d steps, want 1", n)
		}
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
