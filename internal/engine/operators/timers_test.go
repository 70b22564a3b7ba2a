package operators_test

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/operators"
	"github.com/millrace/millrace/internal/engine/port"
)

// timed runs a location with an input of integers and what build adds; send sends to it.
func timed(t *testing.T, build func(s *engine.Location, op func(string) *engine.Op, n *knode), send func(s *engine.Location, in *port.KeyedInput[int, int])) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestGraph()
		s := g.NewLocation("here")
		op := func(name string) *engine.Op { return engine.NewOp(s, name, "") }
		in, root := port.NewKeyedInput[int, int](s, op("in"))
		build(s, op, root)
		g.Start(t.Context())
		send(s, in)
		synctest.Wait()
		g.Stop()
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestRetainByNumberNeedsNoTime runs a step that takes so long that the timers of ten entries are overdue
// when it ends. An operator after them remembers some of their keys. The entries come in one batch if it
// remembers a number of keys, and one by one if it remembers them for a time, since each entry has its
// own time. It fails if an operator that does not read the time counts as one that does.
func TestRetainByNumberNeedsNoTime(t *testing.T) {
	for _, test := range []struct {
		retain operators.Retain
		want   []int
	}{
		{operators.Retain{Keys: 100}, []int{10}},
		{operators.Retain{For: time.Hour}, []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
		{operators.Retain{Keys: 100, For: time.Hour}, []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
	} {
		var got []int
		timed(t, func(_ *engine.Location, op func(string) *engine.Op, n *knode) {
			slow := operators.KInspect(n, op("KInspect"), func(k, _ int) {
				if k == 10 {
					time.Sleep(time.Minute)
				}
			})
			due := operators.After(slow, op("After"), 0, func(v int) time.Duration { return time.Duration(v) * time.Second })
			operators.FirstWithin(due, op("FirstWithin"), test.retain)
			engine.Attach(due, func(b *engine.Batch[int, int]) { got = append(got, len(b.K)) }).One = func(int, int, uint64) { got = append(got, 1) }
		}, func(s *engine.Location, in *port.KeyedInput[int, int]) {
			for k := range 10 {
				if err := in.Send(t.Context(), k, k+1); err != nil {
					t.Fatal(err)
				}
			}
			if err := in.Send(t.Context(), 10, 3600); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		})
		if !slices.Equal(got, test.want) {
			t.Errorf("with %+v the timers fired in batches of %v, want %v", test.retain, got, test.want)
		}
	}
}

// TestTiredIntervalFiresWithOthers tires an interval after one firing, as a simulation does. Later an
// entry comes at a time at which the interval would fire, or a little after it. The interval fires with
// it, since time passes for another timer. It fails if the firing at exactly that time is left out.
func TestTiredIntervalFiresWithOthers(t *testing.T) {
	for at, want := range map[time.Duration][]time.Duration{
		900 * time.Millisecond:  {time.Second},
		2*time.Second - 1:       {time.Second},
		2 * time.Second:         {time.Second, 2 * time.Second},
		2500 * time.Millisecond: {time.Second, 2 * time.Second},
		5 * time.Second:         {time.Second, 5 * time.Second},
	} {
		var got []time.Duration
		timed(t, func(s *engine.Location, op func(string) *engine.Op, n *knode) {
			operators.Interval(s, op("Interval"), time.Second).To(func(at []time.Duration) { got = append(got, at...) })
			s.Timers[0].TimerQueue.(engine.EndlessTimer).Tire(1, func() int { return 0 })
			operators.After(n, op("After"), at-1, nil) // the clock of a location begins at 1
		}, func(_ *engine.Location, in *port.KeyedInput[int, int]) {
			if err := in.Send(t.Context(), 1, 1); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		})
		if !slices.Equal(got, want) {
			t.Errorf("with an entry at %v it fired at %v, want %v", at, got, want)
		}
	}
}

// A decimal encodes integers in decimal form.
type decimal struct{}

func (decimal) Check(reflect.Type) error                 { return nil }
func (decimal) Append(dst []byte, v any) ([]byte, error) { return fmt.Append(dst, v), nil }
func (decimal) Decode(data []byte, p any) error          { _, err := fmt.Sscan(string(data), p); return err }

// TestReleasedTimerIsDue holds the timer of an entry and releases it at different times. The timer is due
// at that time and not later, even at the first moment of a history. It fails if the timer fires only
// with another step.
func TestReleasedTimerIsDue(t *testing.T) {
	for now, want := range map[int64]int64{0: 1, 1: 1, 2: 2, int64(time.Hour): int64(time.Hour)} {
		var after *engine.Op
		timed(t, func(_ *engine.Location, op func(string) *engine.Op, n *knode) {
			after = op("After")
			operators.After(n, after, time.Minute, nil)
		}, func(s *engine.Location, in *port.KeyedInput[int, int]) {
			if err := in.Send(t.Context(), 7, 70); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			s.Mu.Lock()
			at, ok := s.Deadline()
			if !ok {
				t.Error("no timer is set")
			}
			q := s.HeldTimer(after.Index)
			value := binary.AppendVarint([]byte{0, 0}, at)
			for _, kind := range []uint8{codec.KindHeldTimer, codec.KindRetry} {
				if ok, err := q.Hold(&codec.Record{Kind: kind, Key: []byte("7"), Value: value}, now, decimal{}); !ok || err != nil {
					t.Errorf("Hold of kind %d: %v, %v", kind, ok, err)
				}
			}
			if at, ok := s.Deadline(); !ok || at != want {
				t.Errorf("released at %d it is due at %d (%v), want %d", now, at, ok, want)
			}
			s.Mu.Unlock()
			time.Sleep(time.Hour) // so that it fires
		})
	}
}
