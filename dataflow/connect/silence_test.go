package connect_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
)

const quiet = 5 * time.Second

// A timed flow stamps the values of splits, which are seconds.
type timed struct {
	in     *connect.Port[string, int, dataflow.TotalOrder, dataflow.ExactlyOnce]
	events *dataflow.OutputPort[string]
	late   *dataflow.OutputPort[string]
	mark   *dataflow.SingletonOutputPort[window.Time]
}

func second(n int) window.Time { return window.Time(0).Add(time.Duration(n) * time.Second) }

func buildTimed[L dataflow.Location](at L) timed {
	in, values, notices := connect.SplitsInput[int](at, "in")
	events, late := window.StampSplits(values, notices, second, window.Disorder{}, "silence is what the source says")
	line := func(split string, e window.Event[int]) string { return fmt.Sprint(split, e.Value) }
	out := func(name string, es dataflow.KeyedStream[string, window.Event[int], L, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]) *dataflow.OutputPort[string] {
		return dataflow.Output(keyedstream.Values(keyedstream.MapWithKey(es, line)), name)
	}
	return timed{in, out("events", events), out("late", late), singleton.Output(window.Mark(keyedstream.Values(events)), "mark")}
}

func timedInMemory(t *testing.T, buffer int) (*dataflow.App, timed) {
	t.Helper()
	flow := dataflow.NewWithOptions(dataflow.Options{Buffer: buffer, Queue: buffer})
	p := buildTimed(dataflow.At[store](flow))
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	return app, p
}

func timedKept(t *testing.T, log *journal.Memory, snapshot int) *durable.App[timed] {
	t.Helper()
	app, err := durable.Start(t.Context(), func(f *dataflow.Flow) timed { return buildTimed(dataflow.At[store](f)) },
		durable.Options{Log: journal.Opened{Log: log}, Partitions: 1, SnapshotBytes: snapshot, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return app
}

// at appends records of the given seconds to a split.
func (s *shelf) at(split string, seconds ...int) {
	var rs []record
	s.mu.Lock()
	n := len(s.splits[split])
	s.mu.Unlock()
	for i, at := range seconds {
		rs = append(rs, record{at: dataflow.Position{Major: uint64(n + i + 1)}, value: at})
	}
	s.put(split, rs...)
}

// marks waits for a while and checks the mark.
func (p timed) marks(t *testing.T, after time.Duration, want int) {
	t.Helper()
	time.Sleep(after)
	synctest.Wait()
	is := second(want)
	if want < 0 {
		is = window.Past
	}
	if m, ok := p.mark.Latest(); m != is && (ok || want >= 0) {
		t.Errorf("after %v the mark is %v, want %v", after, m, is)
	}
}

// Case 22 in memory: the mark waits for a silent split, even one without records, until the split has been silent for long enough
// with nothing left to read. When the split has records again, the mark does not go back, and records before it are late.
func TestSplitIsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app, p := timedInMemory(t, 0)
		s := newShelf()
		s.at("a", 1, 50)
		s.at("b", 2, 3)
		s.put("c")
		pumps := attach(t, app, connect.BySplit(s), p.in, connect.Options{Idle: quiet})
		p.marks(t, quiet/2, -1) // c has nothing
		s.at("b", 4)
		p.marks(t, quiet/2+time.Second, 4) // c is idle, and a: b spoke
		p.marks(t, quiet/2, 50)
		s.at("b", 49, 50)
		p.marks(t, 0, 50) // b is active again, and the mark waits for it
		s.at("a", 60)
		p.marks(t, 0, 50)
		s.at("b", 70)
		p.marks(t, 0, 60)
		p.marks(t, quiet*2, 70) // all are idle
		s.at("c", 69, 71)
		p.marks(t, 0, 71)
		s.at("a", 100)
		s.end("c")
		p.marks(t, time.Second, 100)
		if late := take(t, p.late, 2); !slices.Equal(late, []string{"b49", "c69"}) {
			t.Errorf("late are %v", late)
		}
		stop(t, pumps)
		stop(t, app)
	})
}

// Case 23 in memory: a pump that is blocked in sending for a minute makes no split idle, neither its own nor another one.
func TestBlockedIsNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app, p := timedInMemory(t, 1)
		s := newShelf()
		s.at("a", 1, 50)
		s.at("b", 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
		for n := range 60 {
			s.at("a", 51+n)
		}
		pumps := attach(t, app, connect.BySplit(s), p.in, connect.Options{Idle: quiet})
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, x := range pumps.Status() {
			if x.Records == 70 {
				t.Errorf("%s is not blocked", x.Split)
			}
		}
		if m, _ := p.mark.Latest(); m >= second(50) {
			t.Errorf("the mark is %v", m)
		}
		go func() {
			for range p.events.All(t.Context()) {
			}
		}()
		p.marks(t, time.Second, 11)
		p.marks(t, 2*quiet, 110)
		none(t, p.late)
		stop(t, pumps)
		stop(t, app)
	})
}

// A doubtful shelf does not know whether records are left to read.
type doubtful struct {
	*shelf
	asked atomic.Int64
	knows atomic.Bool
}

func (d *doubtful) Open(ctx context.Context, split connect.Split, after dataflow.Position) (connect.Cursor[string, int], error) {
	c, err := d.shelf.Open(ctx, split, after)
	return &doubtfulHand{c, d}, err
}

type doubtfulHand struct {
	connect.Cursor[string, int]
	*doubtful
}

func (h *doubtfulHand) Close() error { return h.Cursor.Close() }
func (h *doubtfulHand) Silent(context.Context) (bool, error) {
	h.asked.Add(1)
	if !h.knows.Load() {
		return true, fmt.Errorf("nobody answers")
	}
	return true, nil
}

// TestSilentCursor checks that a split whose reader cannot tell whether records are left is not idle until it can.
func TestSilentCursor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app, p := timedInMemory(t, 0)
		d := &doubtful{shelf: newShelf()}
		d.at("a", 10)
		d.at("b", 5)
		pumps := attach(t, app, connect.BySplit(d), p.in, connect.Options{Idle: quiet})
		p.marks(t, 10*quiet+time.Second, 5)
		if n := d.asked.Load(); n != 20 {
			t.Errorf("it was asked %d times", n)
		}
		d.knows.Store(true)
		p.marks(t, quiet, 10)
		stop(t, pumps)
		stop(t, app)
	})
}

// TestSplitsAreReadAgain checks that a restarted flow waits for splits that were idle, because they may have received records
// meanwhile. All splits are known before the first record arrives.
func TestSplitsAreReadAgain(t *testing.T) {
	for _, snapshot := range []int{1, 1 << 30} {
		synctest.Test(t, func(t *testing.T) {
			log := journal.NewMemory(journal.MemoryOptions{})
			s := newShelf()
			for i := range 20 {
				s.at(fmt.Sprint("s", i, "-"), 100*i, 100*i+1)
			}
			app := timedKept(t, log, snapshot)
			opts := connect.Options{Idle: quiet}
			pumps := attach(t, app, connect.BySplit(s), app.Ports.in, opts)
			app.Ports.marks(t, time.Second, 1)
			app.Ports.marks(t, quiet, 1901)
			stop(t, pumps)
			s.at("s3-", 1902, 5000)
			s.at("s7-", 1910)
			stop(t, app)
			app = timedKept(t, log.Reopen(), snapshot)
			pumps = attach(t, app, connect.BySplit(s), app.Ports.in, opts)
			app.Ports.marks(t, time.Second, 1901)
			app.Ports.marks(t, quiet+time.Second, 5000)
			stop(t, pumps)
			none(t, app.Ports.late)
			stop(t, app)
		})
	}
}

// TestIdleProperty has splits that are active and silent at random, and a flow that crashes. It checks that each record is either
// in time or late, once, and is late only if its split was silent or was found later than others.
func TestIdleProperty(t *testing.T) {
	t.Parallel()
	lates := 0
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 7))
			log := journal.NewMemory(journal.MemoryOptions{})
			s := newShelf()
			app := timedKept(t, log, 1<<10)
			opts := connect.Options{Idle: quiet, Floor: 100 * time.Millisecond, Discover: time.Second}
			s.put("a")
			s.put("b")
			attach(t, app, connect.BySplit(s), app.Ports.in, opts)
			var sent []string
			told, last := map[string]time.Time{}, map[string]int{}
			mayBeLate := map[string]bool{}
			for i := range 40 {
				split := string(rune('a' + rng.IntN(3)))
				at := i + rng.IntN(5)
				at = max(at, last[split])
				name := fmt.Sprint(split, at)
				for slices.Contains(sent, name) {
					at++
					name = fmt.Sprint(split, at)
				}
				last[split] = at
				s.at(split, at)
				sent = append(sent, name)
				// A split that was never silent for as long as quiet has nothing late.
				mayBeLate[name] = split == "c" || told[split].IsZero() || time.Since(told[split]) >= quiet || mayBeLate[split]
				mayBeLate[split] = mayBeLate[name]
				told[split] = time.Now()
				time.Sleep(time.Duration(rng.IntN(2500)) * time.Millisecond)
				synctest.Wait()
				if rng.IntN(12) == 0 {
					log.Crash()
					_ = app.Ports.in.Notify(t.Context(), "a", window.SplitNotice{})
					<-app.Done()
					log = log.Reopen()
					app = timedKept(t, log, 1<<10)
					attach(t, app, connect.BySplit(s), app.Ports.in, opts)
				}
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			got := map[string]int{}
			for _, out := range []*dataflow.OutputPort[string]{app.Ports.events, app.Ports.late} {
				for {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					d, err := out.Receive(ctx)
					cancel()
					if err != nil {
						break
					}
					got[d.Value]++
					d.Ack()
					if out == app.Ports.late {
						lates++
						if !mayBeLate[d.Value] {
							t.Errorf("seed %d: %s is late", seed, d.Value)
						}
					}
				}
			}
			for _, name := range sent {
				if got[name] != 1 {
					t.Errorf("seed %d: %s came %d times", seed, name, got[name])
				}
			}
			greatest := 0
			for _, at := range last {
				greatest = max(greatest, at)
			}
			app.Ports.marks(t, 0, greatest) // all are idle
			stop(t, app)
		})
	}
	if lates == 0 {
		t.Error("nothing was ever late")
	}
}

// TestSplitsInputMisuse checks that misuse of a splits input is refused.
func TestSplitsInputMisuse(t *testing.T) {
	app, p := timedInMemory(t, 0)
	flow := dataflow.New()
	plain, _ := connect.Input[string, int](dataflow.At[store](flow), "plain")
	for want, do := range map[string]func(){
		"the source is not of connect.BySplit": func() {
			_, _ = connect.Attach(t.Context(), app, connect.ByKey(newShelf(), "tested"), p.in, connect.Options{})
		},
		"Options.Idle with a port that is not of connect.SplitsInput": func() {
			_, _ = connect.Attach(t.Context(), app, connect.BySplit(newShelf()), plain, connect.Options{Idle: 1})
		},
		"Port.Notify: the port is not of connect.SplitsInput": func() { _ = plain.Notify(t.Context(), "a", window.SplitNotice{}) },
	} {
		func() {
			defer func() {
				if e := fmt.Sprint(recover()); !strings.Contains(e, want) {
					t.Errorf("it panics with %s, want %s", e, want)
				}
			}()
			do()
		}()
	}
	stop(t, app)
}
