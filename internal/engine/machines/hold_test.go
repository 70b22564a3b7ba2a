package machines

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
)

// ints encodes integers.
type ints struct{}

func (ints) Check(reflect.Type) error                 { return nil }
func (ints) Append(dst []byte, v any) ([]byte, error) { return fmt.Append(dst, v), nil }
func (ints) Decode(data []byte, p any) (err error)    { _, err = fmt.Sscan(string(data), p); return err }
func timerAt(id uint8, due time.Duration, zero int64) []byte {
	return binary.AppendVarint([]byte{id}, zero+int64(due))
}

// TestHold holds timers, and releases or drops them. A timer that a turn has meanwhile set anew
// is not affected. Only a step wakes the location, so a released timer fires with the next step,
// before its own timer.
func TestHold(t *testing.T) {
	const first, second, third = 1, 2, 3
	type act struct {
		kind uint8
		id   uint8
		ok   bool
	}
	for name, c := range map[string]struct {
		before []act // in the first second
		after  []act // after the timers were set anew
		rings  string
		left   int // timers that are still set after an hour
	}{
		"none is held":                {nil, nil, "1@60 2@60 3@60", 0},
		"one is held":                 {[]act{{codec.KindHeldTimer, second, true}}, nil, "1@60 3@60", 1},
		"it is retried":               {[]act{{codec.KindHeldTimer, second, true}, {codec.KindRetry, second, true}}, nil, "2@60 1@60 3@60", 0},
		"it is dropped":               {[]act{{codec.KindHeldTimer, second, true}, {codec.KindDrop, second, true}}, nil, "1@60 3@60", 0},
		"the last that was set is":    {[]act{{codec.KindHeldTimer, third, true}, {codec.KindDrop, third, true}}, nil, "1@60 2@60", 0},
		"one that is not held is not": {[]act{{codec.KindRetry, second, false}, {codec.KindDrop, second, false}}, nil, "1@60 2@60 3@60", 0},
		"one that is not set":         {[]act{{codec.KindHeldTimer, 9, false}, {codec.KindRetry, 9, false}, {codec.KindDrop, 9, false}}, nil, "1@60 2@60 3@60", 0},
		"one was set anew":            {nil, []act{{codec.KindHeldTimer, second, false}}, "1@90 2@90 3@90", 0},
		"a held one was set anew":     {[]act{{codec.KindHeldTimer, second, true}}, []act{{codec.KindRetry, second, false}, {codec.KindDrop, second, false}}, "1@90 2@90 3@90", 0},
		"a dropped one was set anew":  {[]act{{codec.KindHeldTimer, second, true}, {codec.KindDrop, second, true}}, []act{}, "1@90 2@90 3@90", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				rings := ""
				x := newTested(t, func(do *Turn[int, int, int], _ *int, _ int) {
					for id := uint8(first); id <= third; id++ {
						do.After(id, time.Minute)
					}
				}, func(_ *Turn[int, int, int], _ *int, id uint8) {
					rings += fmt.Sprintf(" %d@%d", id, time.Since(begun)/time.Second)
				})
				x.send(1)
				held := x.in.Loc.HeldTimer(x.op.Index)
				zero := x.timers.due.At(0) - int64(time.Minute)
				do := func(a act) {
					x.in.Loc.Mu.Lock()
					defer x.in.Loc.Mu.Unlock()
					r := &codec.Record{Kind: a.kind, Key: []byte("0"), Value: timerAt(a.id, time.Minute, zero)}
					if ok, err := held.Hold(r, zero, ints{}); ok != a.ok || err != nil {
						t.Errorf("%+v: %v (%v)", a, ok, err)
					}
				}
				for _, a := range c.before {
					do(a)
				}
				if c.after != nil {
					time.Sleep(30 * time.Second)
					x.send(1)
					for _, a := range c.after {
						do(a)
					}
				}
				time.Sleep(time.Hour)
				synctest.Wait()
				if want := " " + c.rings; rings != want {
					t.Errorf("rang%s, want%s", rings, want)
				}
				if due, set := x.timers.due.Len(), x.timers.byID.Len(); due != c.left || set != c.left {
					t.Errorf("%d timers are set, %d are due, want %d", set, due, c.left)
				}
				if c.left == 0 {
					x.stop()
				}
			})
		})
	}
}

var _ engine.HeldTimer = (*timerQueue[int, int, int, int])(nil)
