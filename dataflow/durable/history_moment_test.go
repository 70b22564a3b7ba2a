package durable

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

type bookPorts struct {
	paid *dataflow.KeyedInputPort[string, int]
	out  *dataflow.OutputPort[string]
}

// payBook sums payments by key, keeps the first payment of each key for an hour, counts payments, and has a slice that is cut in
// each step with a payment.
func payBook(f *dataflow.Flow) bookPorts {
	in, paid := keyedstream.Input[string, int](dataflow.At[server](f), "paid")
	dataflow.Named("sums", keyedstream.Sum(paid))
	keyedsingleton.After(keyedstream.First(paid), time.Hour, "an hour is what a test waits")
	values := keyedstream.Values(paid)
	dataflow.Named("payments", dataflow.Count(values))
	s := slice.At(dataflow.At[server](f))
	batch := slice.Batch(s, dataflow.WeakenOrder(values), "how many come together is not looked at")
	total := slice.Emit(singleton.IntoStream(dataflow.Count(batch)))
	return bookPorts{in, dataflow.Output(dataflow.Map(total, func(n int) string { return fmt.Sprint("batch of ", n) }), "batches")}
}

// A bookModel is the expected sums after each step.
type bookModel struct {
	steps []uint64
	sums  []map[string]int
}

// at returns the sums after the last step up to step.
func (m *bookModel) at(step uint64) map[string]int {
	at := -1
	for i, s := range m.steps {
		if s <= step {
			at = i
		}
	}
	if at < 0 {
		return nil
	}
	return m.sums[at]
}

// pay makes payments, each in a step of its own, and records the sums after each.
func (m *bookModel) pay(t *testing.T, app *App[bookPorts], n int, of func(i int) (string, int)) {
	t.Helper()
	sums := make(map[string]int)
	if len(m.sums) > 0 {
		sums = maps.Clone(m.sums[len(m.sums)-1])
	}
	for i := range n {
		key, amount := of(i)
		if err := app.Ports.paid.Send(t.Context(), key, amount); err != nil {
			t.Fatal(err)
		}
		if got, err := app.Ports.out.Receive(t.Context()); err != nil || got.Value != "batch of 1" {
			t.Fatal(got, err)
		}
		sums[key] += amount
		m.steps, m.sums = append(m.steps, stepOf(app)), append(m.sums, maps.Clone(sums))
	}
}

// stepOf returns the last step of the first partition. In a bubble it is the step that was made last: elements that
// were read are not reported before time advances.
func stepOf[P any](app *App[P]) uint64 {
	for {
		if s := app.Status()[0]; !s.Stale {
			return s.Step
		}
	}
}

// operatorOf returns the number of the operator with the given label.
func operatorOf(t *testing.T, g dataflow.Graph, name string) int {
	t.Helper()
	at := slices.IndexFunc(g.Operators, func(o dataflow.GraphOperator) bool { return o.Label == name })
	if at < 0 {
		t.Fatalf("there is no operator %s", name)
	}
	return at
}

// sumsOf returns the state of an operator.
func sumsOf(t *testing.T, m *Moment, operator int) map[string]int {
	t.Helper()
	states, err := m.State(operator, 1000)
	if err != nil {
		t.Fatal(err)
	}
	sums := make(map[string]int)
	for _, s := range states {
		for _, e := range s.Entries {
			var n int
			if _, err := fmt.Sscan(e.Value, &n); err != nil {
				t.Fatalf("%q: %v", e.Value, err)
			}
			sums[e.Key] = n
		}
	}
	return sums
}

// paidBy assigns payment i to one of the keys k0, k1, ….
func paidBy(keys int) func(i int) (string, int) {
	return func(i int) (string, int) { return fmt.Sprint("k", i%keys), i }
}

// TestMoments compares the states of operators after each step, of all keys and of one, and the differences between two steps,
// with a model. The history is tested with and without snapshots.
func TestMoments(t *testing.T) {
	for _, every := range []int{0, 2000} {
		synctest.Test(t, func(t *testing.T) { testMoments(t, every) })
	}
}

func testMoments(t *testing.T, every int) {
	log := journal.NewMemory(journal.MemoryOptions{})
	app := start(t, log, payBook, Options{KeepFor: Forever, SnapshotBytes: every})
	var model bookModel
	model.pay(t, app, 40, paidBy(5))
	stop(t, app)
	h, err := OpenHistory(t.Context(), payBook, quiet(Options{Log: journal.Opened{Log: log.Reopen()}}))
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	sums := operatorOf(t, h.Graph(), "sums")
	for i, step := range model.steps {
		m, err := h.At(t.Context(), 0, step)
		if err != nil {
			t.Fatal(err)
		}
		if got := sumsOf(t, m, sums); !maps.Equal(got, model.sums[i]) {
			t.Errorf("after step %d the sums are %v, want %v", step, got, model.sums[i])
		}
		key := fmt.Sprint("k", i%5)
		found, err := m.Lookup(key)
		if err != nil || len(found) < 2 || found[slices.IndexFunc(found, func(e dataflow.StateEntry) bool { return e.Operator == sums })].Value != fmt.Sprint(model.sums[i][key]) {
			t.Errorf("after step %d there is %v of %s, %v", step, found, key, err)
		}
		took := m.Took(10)
		if !m.Made() || m.Step().Number != step || len(took) != 1 || took[0].Count != 1 || took[0].Records[0] != (TakenRecord{key, fmt.Sprint(i)}) || h.Graph().Operators[took[0].Operator].Port != "paid" {
			t.Errorf("step %d is said to be %+v and took %+v", step, m.Step(), took)
		}
		if cut := m.Cut(); len(cut) != 1 || cut[0].Runs != 1 || !strings.Contains(cut[0].Pos, "history_moment_test.go") {
			t.Errorf("step %d cut %+v", step, cut)
		}
		m.Close()

		d, err := h.Diff(t.Context(), 0, step-1, step, DiffOptions{})
		if err != nil {
			t.Fatal(err)
		}
		before := model.at(step - 1)
		for _, c := range d.Changes {
			if c.Operator != sums {
				continue
			}
			if c.After == nil || c.After.Key != key || c.After.Value != fmt.Sprint(model.sums[i][key]) {
				t.Errorf("step %d changed the sums to %+v", step, c.After)
			}
			if was, there := before[key]; there != (c.Before != nil) || there && c.Before.Value != fmt.Sprint(was) {
				t.Errorf("step %d changed the sums from %+v, want %v", step, c.Before, was)
			}
		}
		if n := len(slices.DeleteFunc(slices.Clone(d.Changes), func(c StateChange) bool { return c.Operator != sums })); n != 1 && i != 0 { // the first one pays 0
			t.Errorf("step %d has %d changes of sums: %+v", step, n, d.Changes)
		}
	}
	first, last := model.steps[4], model.steps[len(model.steps)-1]
	for _, way := range [][2]int{{4, len(model.steps) - 1}, {len(model.steps) - 1, 4}} { // backwards as well
		d, err := h.Diff(t.Context(), 0, model.steps[way[0]], model.steps[way[1]], DiffOptions{Key: "k3"})
		if err != nil {
			t.Fatal(err)
		}
		want := [2]string{fmt.Sprint(model.sums[way[0]]["k3"]), fmt.Sprint(model.sums[way[1]]["k3"])}
		if len(d.Changes) != 1 || d.Changes[0].Before.Value != want[0] || d.Changes[0].After.Value != want[1] {
			t.Errorf("from step %d to %d k3 became %+v, want %v", first, last, d.Changes, want)
		}
	}
	d, err := h.Diff(t.Context(), 0, first, last, DiffOptions{Most: 2})
	if err != nil || len(d.Changes) != 2 || d.More == 0 {
		t.Errorf("of many changes two are %d and %d more, %v", len(d.Changes), d.More, err)
	}
	if count := operatorOf(t, h.Graph(), "payments"); true {
		m, err := h.At(t.Context(), 0, last)
		if err != nil {
			t.Fatal(err)
		}
		states, err := m.State(count, 10)
		if err != nil || len(states) == 0 || len(states[0].Entries) == 0 || !strings.Contains(states[0].Entries[0].Value, "40") {
			t.Errorf("without a key there is %+v, %v", states, err)
		}
		if few, err := m.State(sums, 2); err != nil || len(few[0].Entries) != 2 || few[0].Kept != 5 {
			t.Errorf("two of five entries are %+v, %v", few, err)
		}
		m.Close()
		m.Close()
	}
}

// TestScrub moves back and forth in a history. It finds the states of the model on every way, and does not replay all steps from
// the first one each time.
func TestScrub(t *testing.T) { synctest.Test(t, testScrub) }

func testScrub(t *testing.T) {
	const steps, visits = 3000, 1000
	log := journal.NewMemory(journal.MemoryOptions{})
	app := start(t, log, payBook, Options{KeepFor: Forever, SnapshotBytes: 1 << 30})
	var model bookModel
	model.pay(t, app, steps, paidBy(7))
	h, err := app.History(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, app)
	sums := operatorOf(t, h.Graph(), "sums")
	made := 0
	r := rand.New(rand.NewPCG(1, 2))
	at := steps - 1
	for i := range visits {
		switch i % 4 {
		case 0:
			at = r.IntN(steps)
		case 1:
			at = min(at+1, steps-1)
		default:
			at = max(at-1, 0)
		}
		w, err := h.walk(t.Context(), 0, mustLast(t, h), model.steps[at]-1, model.steps[at])
		if err != nil {
			t.Fatal(err)
		}
		from, _ := slices.BinarySearch(model.steps, w.at)
		made += at - from
		w.close()
		m, err := h.At(t.Context(), 0, model.steps[at])
		if err != nil {
			t.Fatal(err)
		}
		if got := sumsOf(t, m, sums); !maps.Equal(got, model.sums[at]) {
			t.Fatalf("visit %d of step %d: the sums are %v, want %v", i, model.steps[at], got, model.sums[at])
		}
		m.Close()
		place, err := h.Place(t.Context(), 0, model.steps[at])
		if err != nil || place.Number != model.steps[at] || at > 0 && place.Previous < model.steps[at-1] || at < steps-1 && (place.Next <= model.steps[at] || place.Next > model.steps[at+1]) {
			t.Fatalf("step %d is %+v, %v", model.steps[at], place, err)
		}
	}
	if most := 300 * visits; made > most {
		t.Errorf("%d steps were made for %d visits, want at most %d", made, visits, most)
	}
	if n := len(h.images.of[0]); n == 0 || n > mostImages || h.images.bytes > imageBytes {
		t.Errorf("%d images with %d bytes are kept", n, h.images.bytes)
	}
	t.Logf("%d visits made %d steps of %d", visits, made, steps)
}

func mustLast(t *testing.T, h *History) *journal.History {
	t.Helper()
	kept, err := h.last(t.Context(), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

// TestHistoryWhileItRuns reads the history from several goroutines while the flow makes steps, saves snapshots, and purges what
// is before them.
func TestHistoryWhileItRuns(t *testing.T) {
	log := journal.NewMemory(journal.MemoryOptions{})
	app := start(t, log, payBook, Options{SnapshotBytes: 3000})
	h, err := app.History(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var model bookModel
	model.pay(t, app, 1, paidBy(3))
	sums := operatorOf(t, h.Graph(), "sums")
	ctx, cancel := context.WithCancel(t.Context())
	var lookers sync.WaitGroup
	looked := make(chan int, 3)
	for range 3 {
		lookers.Go(func() {
			n := 0
			defer func() { looked <- n }()
			for n == 0 || ctx.Err() == nil {
				place, err := h.Place(t.Context(), 0, 0)
				if err != nil {
					t.Error(err)
					return
				}
				m, err := h.At(t.Context(), 0, place.Number)
				if errors.Is(err, ErrNoStep) {
					continue // the step was purged meanwhile
				}
				if err != nil {
					t.Error(err)
					return
				}
				if len(sumsOf(t, m, sums)) == 0 || m.Step().Number == 0 {
					t.Error("a moment has nothing")
				}
				m.Close()
				n++
			}
		})
	}
	model.pay(t, app, 600, paidBy(3))
	cancel()
	lookers.Wait()
	for range 3 {
		if n := <-looked; n == 0 {
			t.Error("somebody has not looked once")
		}
	}
	m, err := h.At(t.Context(), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := sumsOf(t, m, sums), model.sums[len(model.sums)-1]; !maps.Equal(got, want) {
		t.Errorf("the sums are %v, want %v", got, want)
	}
	m.Close()
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	model.pay(t, app, 1, paidBy(3)) // the log is still open
	stop(t, app)
	if again, err := app.History(t.Context()); err == nil {
		if _, err := again.At(t.Context(), 0, 0); err == nil {
			t.Error("the log of a flow that has ended is read")
		}
	}
}
