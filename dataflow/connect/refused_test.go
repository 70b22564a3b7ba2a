package connect_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// TestTooLarge checks that without a port for dead letters a record that is too large for the log ends its split, because it would
// be too large again. If the log accepts nothing at all, the status says so.
func TestTooLarge(t *testing.T) {
	for most, test := range map[int]struct {
		message string
		ended   bool
	}{
		16:  {"connect: a: looking for its floor: ", false},
		200: {"connect: a: sending what is behind {0 0}: ", true},
	} {
		synctest.Test(t, func(t *testing.T) {
			app := kept(t, journal.NewMemory(journal.MemoryOptions{Partitions: 1, MaxRecord: most}), 1)
			s := newShelf()
			s.put("a", record{at: dataflow.Position{Major: 1}, key: strings.Repeat("k", 200)})
			var heard atomic.Bool
			pumps := attach(t, app, connect.ByKey(s, "there is one split"), app.Ports.byKey, connect.Options{OnError: func(_ connect.Split, err error) {
				if errors.Is(err, journal.ErrTooLarge) {
					heard.Store(true)
				}
			}})
			time.Sleep(time.Minute)
			status := pumps.Status()
			if len(status) != 1 || !errors.Is(status[0].Err, journal.ErrTooLarge) || !strings.HasPrefix(status[0].Err.Error(), test.message) || status[0].Ended != test.ended || !heard.Load() {
				t.Errorf("records of %d bytes: the status is %+v (%v)", most, status, heard.Load())
			}
			stop(t, pumps)
			stop(t, app)
		})
	}
}

// TestRefusedLetters checks that records that are too large for the log are dead letters, together with those that cannot be
// decoded and in the order of their positions, and that each comes once although all are read again after a crash. Too many in a
// row end the split.
func TestRefusedLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := journal.NewMemory(journal.MemoryOptions{Partitions: 1, MaxRecord: 2000})
		large := strings.Repeat("k", 3000)
		s := newShelf()
		s.most = 100
		for i := range 12 {
			r := record{at: dataflow.Position{Major: uint64(i + 1)}, key: "k", value: i + 1}
			switch i + 1 {
			case 1, 5, 6, 10, 12:
				r.key = large
			case 3, 7:
				r.bad = "?"
			}
			s.put("a", r)
		}
		for start := range 3 {
			app := kept(t, log, 1)
			pumps := attach(t, app, connect.ByKey(s, "there is one split"), app.Ports.byKey, connect.Options{Floor: time.Hour, DeadLetters: app.Ports.dead})
			if start == 0 {
				var got, letters []uint64
				for _, e := range take(t, app.Ports.keys, 5) {
					got = append(got, uint64(e.Value))
				}
				for _, e := range take(t, app.Ports.letters, 7) {
					letters = append(letters, e.Value.At.Major)
					if tooLarge := strings.Contains(e.Value.Cause, journal.ErrTooLarge.Error()); tooLarge == (e.Value.Raw != nil) || e.Value.Split != "shelf/0/a" || e.Key != "by key" {
						t.Errorf("the letter is %+v", e)
					}
				}
				if !slices.Equal(got, []uint64{2, 4, 8, 9, 11}) || !slices.Equal(letters, []uint64{1, 3, 5, 6, 7, 10, 12}) {
					t.Errorf("records %v and letters %v have come", got, letters)
				}
				if status := pumps.Status()[0]; status.Records != 5 || status.Bad != 7 || status.Ended {
					t.Errorf("the status is %+v", status)
				}
			}
			none(t, app.Ports.letters)
			none(t, app.Ports.keys)
			if start == 2 {
				for i := range 1001 {
					s.put("a", record{at: dataflow.Position{Major: uint64(100 + i)}, key: large})
				}
				time.Sleep(time.Minute)
				if status := pumps.Status()[0]; !status.Ended || !errors.Is(status.Err, journal.ErrTooLarge) || !strings.Contains(status.Err.Error(), "1001 records in a row are refused") {
					t.Errorf("the status is %+v", status)
				}
			}
			log.Crash()
			_ = app.Ports.bySplit.Send(t.Context(), "nobody", batchOf(1))
			<-app.Done()
			<-pumps.Done()
			log = log.Reopen()
		}
	})
}

// TestRefusedKeys checks that a record whose key cannot be one is a dead letter, also if another one of its batch is too large.
func TestRefusedKeys(t *testing.T) {
	type ports struct {
		in   *connect.Port[float64, string, dataflow.TotalOrder, dataflow.ExactlyOnce]
		dead *connect.DeadLetterPort
		out  *dataflow.OutputPort[dataflow.Entry[float64, string]]
		bad  *dataflow.OutputPort[dataflow.Entry[string, connect.Poison]]
	}
	synctest.Test(t, func(t *testing.T) {
		app, err := durable.Start(t.Context(), func(f *dataflow.Flow) ports {
			in, records := connect.Input[float64, string](dataflow.At[store](f), "in")
			dead, letters := connect.DeadLetters(dataflow.At[store](f), "dead")
			return ports{in, dead, keyedstream.Output(records, "out"), keyedstream.Output(letters, "bad")}
		}, durable.Options{Log: journal.Opened{Log: journal.NewMemory(journal.MemoryOptions{MaxRecord: 2000})}})
		if err != nil {
			t.Fatal(err)
		}
		pumps := attach(t, app, connect.ByKey(&measured{}, "there is one split"), app.Ports.in, connect.Options{DeadLetters: app.Ports.dead})
		var got []string
		for _, e := range take(t, app.Ports.out, 3) {
			got = append(got, e.Value)
		}
		if !slices.Equal(got, []string{"first", "third", "sixth"}) {
			t.Errorf("records %v have come", got)
		}
		for i, e := range take(t, app.Ports.bad, 3) {
			want := []string{journal.ErrTooLarge.Error(), "NaN", "NaN"}[i]
			if e.Value.At.Major != []uint64{2, 4, 5}[i] || !strings.Contains(e.Value.Cause, want) {
				t.Errorf("the letter is %+v", e)
			}
		}
		stop(t, pumps)
		stop(t, app)
	})
}

// measured is a source with one split, some of whose keys are NaN.
type measured struct{ given bool }

func (m *measured) Splits(context.Context) ([]connect.Split, error) {
	return []connect.Split{{ID: "one"}}, nil
}

func (m *measured) Open(context.Context, connect.Split, dataflow.Position) (connect.Cursor[float64, string], error) {
	return m, nil
}

func (m *measured) Next(ctx context.Context, b *connect.Batch[float64, string]) error {
	if m.given {
		<-ctx.Done()
		return ctx.Err()
	}
	m.given = true
	values := []string{"first", strings.Repeat("x", 3000), "third", "", "", "sixth"}
	for i, k := range []float64{1, 2, 3, math.NaN(), math.NaN(), 4} {
		b.Add(k, values[i], dataflow.Position{Major: uint64(i + 1)})
	}
	return nil
}

func (m *measured) Confirm(context.Context, dataflow.Position) error { return nil }

func (m *measured) Close() error { return nil }

// TestRefusedDelivery checks that an entry that is too large for the log is a dead letter, and is acknowledged.
func TestRefusedDelivery(t *testing.T) {
	type ports struct {
		in   *connect.Port[string, string, dataflow.NoOrder, dataflow.AtLeastOnce]
		dead *connect.DeadLetterPort
		done *dataflow.EntryOutputPort[string, string]
		bad  *dataflow.OutputPort[dataflow.Entry[string, connect.Poison]]
	}
	synctest.Test(t, func(t *testing.T) {
		app, err := durable.Start(t.Context(), func(f *dataflow.Flow) ports {
			at := dataflow.At[store](f)
			entries, jobs := keyedsingleton.Input[string, string](at, "jobs")
			dead, letters := connect.RepeatedDeadLetters(at, "dead")
			return ports{connect.EntryPort(entries, "jobs"), dead, keyedsingleton.Output(jobs, "done"), keyedstream.Output(letters, "bad")}
		}, durable.Options{Log: journal.Opened{Log: journal.NewMemory(journal.MemoryOptions{MaxRecord: 2000})}})
		if err != nil {
			t.Fatal(err)
		}
		pumps := attach(t, app, connect.Delivered(&stubborn{jobs: []string{"one", strings.Repeat("x", 3000), "two"}}), app.Ports.in, connect.Options{DeadLetters: app.Ports.dead})
		if x, err := app.Ports.done.Await(t.Context(), "two"); x != "do two" || err != nil {
			t.Errorf("the job behind it is %q (%v)", x, err)
		}
		if letter := take(t, app.Ports.bad, 1)[0]; letter.Key != "jobs" || letter.Value.Split != "jobs" || !strings.Contains(letter.Value.Cause, journal.ErrTooLarge.Error()) {
			t.Errorf("the letter is %+v", letter)
		}
		none(t, app.Ports.bad)
		stop(t, pumps)
		stop(t, app)
	})
}
