package durable

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// TestMomentsOfEarlierProgram replays the steps of an earlier program with a later one that has an additional operator. The sums
// after each step are the same, from the first step, from an image and from a snapshot on.
func TestMomentsOfEarlierProgram(t *testing.T) { synctest.Test(t, testMomentsOfEarlierProgram) }

func testMomentsOfEarlierProgram(t *testing.T) {
	type ports struct {
		in  *dataflow.KeyedInputPort[string, int]
		out *dataflow.OutputPort[int]
	}
	build := func(more bool) func(f *dataflow.Flow) ports {
		return func(f *dataflow.Flow) ports {
			in, paid := keyedstream.Input[string, int](dataflow.At[server](f), "paid")
			if more {
				keyedsingleton.Output(keyedstream.First(paid), "first")
			}
			dataflow.Named("sums", keyedstream.Sum(paid))
			return ports{in, dataflow.Output(keyedstream.Values(paid), "payments")}
		}
	}
	log := journal.NewMemory(journal.MemoryOptions{})
	sums := make(map[string]int)
	var steps []uint64
	var want []map[string]int
	pay := func(app *App[ports], n int) {
		t.Helper()
		for i := range n {
			key, amount := fmt.Sprint("k", i%3), len(steps)+1
			if err := app.Ports.in.Send(t.Context(), key, amount); err != nil {
				t.Fatal(err)
			}
			for { // what was read last before the end is delivered again
				got, err := app.Ports.out.Receive(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if got.Value == amount {
					break
				}
			}
			sums[key] += amount
			steps, want = append(steps, stepOf(app)), append(want, maps.Clone(sums))
		}
	}
	app := start(t, log, build(false), Options{KeepFor: Forever})
	pay(app, 200)
	stop(t, app)
	log = log.Reopen()
	app = start(t, log, build(true), Options{KeepFor: Forever})
	pay(app, 200)
	h, err := app.History(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{399, 150, 30, 199, 200, 201, 150, 10, 250, 0, 399, 149} {
		m, err := h.At(t.Context(), 0, steps[i])
		if err != nil {
			t.Fatalf("step %d: %v", steps[i], err)
		}
		if got := sumsOf(t, m, operatorOf(t, h.Graph(), "sums")); !maps.Equal(got, want[i]) {
			t.Errorf("after step %d the sums are %v, want %v", steps[i], got, want[i])
		}
		m.Close()
	}
	if len(h.images.of[0]) == 0 {
		t.Error("no image was kept")
	}
	stop(t, app)
}

// TestNoSuchStep checks that asking for a step that does not exist is an error that says so.
func TestNoSuchStep(t *testing.T) { synctest.Test(t, testNoSuchStep) }

func testNoSuchStep(t *testing.T) {
	log := journal.NewMemory(journal.MemoryOptions{})
	app := start(t, log, payBook, Options{SnapshotBytes: 1})
	h, err := app.History(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var model bookModel
	model.pay(t, app, 50, paidBy(3))
	synctest.Wait() // until no snapshot is being saved, so that the next step begins one
	model.pay(t, app, 1, paidBy(3))
	synctest.Wait() // until it is saved and the first step is purged
	for _, x := range []struct {
		partition int
		step      uint64
		says      string
	}{{1, 0, "no partition 1"}, {-1, 0, "no partition -1"}, {0, 1 << 40, "has no step"}, {0, model.steps[0], "durable.Forever"}} {
		if _, err := h.At(t.Context(), x.partition, x.step); !errors.Is(err, ErrNoStep) || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%+v: %v", x, err)
		}
		if _, err := h.Diff(t.Context(), x.partition, 0, x.step, DiffOptions{}); x.step != 0 && !errors.Is(err, ErrNoStep) {
			t.Errorf("diff of %+v: %v", x, err)
		}
		if _, err := h.Place(t.Context(), x.partition, x.step); x.step != model.steps[0] && (!errors.Is(err, ErrNoStep) || !strings.Contains(err.Error(), x.says)) {
			t.Errorf("place of %+v: %v", x, err)
		}
	}
	if _, err := h.Diff(t.Context(), 0, 0, 0, DiffOptions{Key: 1}); !errors.Is(err, dataflow.ErrNoState) {
		t.Errorf("a key of no operator: %v", err)
	}
	m, err := h.At(t.Context(), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if _, err := m.State(99, 1); !errors.Is(err, dataflow.ErrNoState) {
		t.Errorf("an operator that is not there: %v", err)
	}
	if _, err := m.Lookup(1.5); !errors.Is(err, dataflow.ErrNoState) {
		t.Errorf("a key of no operator: %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := app.History(gone); err == nil {
		t.Error("a history is opened for nobody")
	}
	stop(t, app)
}
