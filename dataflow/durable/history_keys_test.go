package durable

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedstream"
)

// TestHistoryOfKey compares the history of a key with a model, from the beginning and from a
// snapshot on.
func TestHistoryOfKey(t *testing.T) {
	for _, every := range []int{0, 300} {
		synctest.Test(t, func(t *testing.T) { testHistoryOfKey(t, every) })
	}
}

func testHistoryOfKey(t *testing.T, every int) {
	log := journal.NewMemory(journal.MemoryOptions{})
	build := func(f *dataflow.Flow) *dataflow.KeyedInputPort[string, int] {
		in, paid := keyedstream.Input[string, int](dataflow.At[server](f), "paid")
		keyedstream.Sum(paid)
		return in
	}
	app := start(t, log, build, Options{KeepFor: Forever, SnapshotBytes: every})
	sums := make(map[string]int)
	var want []string
	for i := range 20 {
		key := fmt.Sprint("k", i%3)
		sums[key] += i
		if err := app.Ports.Send(t.Context(), key, i); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // until the step is done
		if key == "k1" {
			want = append(want, fmt.Sprint(sums[key]))
		}
	}
	stop(t, app)
	h, err := OpenHistory(t.Context(), build, quiet(Options{Log: journal.Opened{Log: log.Reopen()}}))
	if err != nil {
		t.Fatal(err)
	}
	changes := func(key any, from, to uint64) (values []string, steps []uint64) {
		t.Helper()
		for c, err := range h.Changes(t.Context(), 0, key, from, to) {
			if err != nil {
				t.Fatal(err)
			}
			value := ""
			for _, e := range c.Entries {
				value += e.Value
			}
			values, steps = append(values, value), append(steps, c.Step)
			if c.At.IsZero() {
				t.Errorf("step %d has no time", c.Step)
			}
		}
		return values, steps
	}
	got, steps := changes("k1", 0, 0)
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("k1 was %v after steps %v, want %v", got, steps, want)
	}
	// From a step in the middle on: the value then, and the later changes.
	middle := steps[3]
	if late, from := changes("k1", middle+1, 0); strings.Join(late, " ") != strings.Join(want[3:], " ") || from[0] <= middle {
		t.Errorf("from step %d on k1 was %v after steps %v, want %v", middle+1, late, from, want[3:])
	}
	if early, _ := changes("k1", 0, middle); strings.Join(early, " ") != strings.Join(want[:4], " ") {
		t.Errorf("up to step %d k1 was %v, want %v", middle, early, want[:4])
	}
	if none, _ := changes("nobody", 0, 0); len(none) > 0 {
		t.Errorf("of nobody there is %v", none)
	}
	for range h.Changes(t.Context(), 0, "k1", 0, 0) {
		break // a break ends the replay
	}
	for _, x := range []struct {
		partition int
		key       any
		to        uint64
		says      string
	}{{1, "k1", 0, "no partition 1"}, {0, 1, 0, "nothing has keys of type int"}, {0, "k1", 99, "no step 99"}} {
		for _, err := range h.Changes(t.Context(), x.partition, x.key, 0, x.to) {
			if err == nil || !strings.Contains(err.Error(), x.says) {
				t.Errorf("%+v: %v", x, err)
			}
		}
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
}
