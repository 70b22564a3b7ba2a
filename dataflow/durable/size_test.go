package durable

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/durable/natslog"
	"github.com/millrace/millrace/internal/natstest"
)

// A slowSize is a log whose Size takes a while or fails.
type slowSize struct {
	*journal.Memory
	takes atomic.Int64
	fails atomic.Bool
	asked atomic.Int64
}

func (s *slowSize) Size(ctx context.Context) (journal.Size, error) {
	s.asked.Add(1)
	select {
	case <-time.After(time.Duration(s.takes.Load())):
	case <-ctx.Done():
		return journal.Size{}, context.Cause(ctx)
	}
	if s.fails.Load() {
		return journal.Size{}, errors.New("on demand")
	}
	return s.Memory.Size(ctx)
}

// TestHealthOfSize checks the size in Health while the log answers quickly, late and not at all.
// Health waits 10 ms and then returns the last known size.
func TestHealthOfSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &slowSize{Memory: journal.NewMemory(journal.MemoryOptions{MaxBytes: 1 << 20})}
		app := start(t, log, times(1), Options{})
		health := func(most time.Duration) Health {
			t.Helper()
			began := time.Now()
			h := app.Health()
			if took := time.Since(began); took > most {
				t.Errorf("Health took %v", took)
			}
			return h
		}
		began := time.Now()
		h := health(0)
		if h.Size.Kept == 0 || h.Size.Bytes == 0 || h.Size.MaxBytes != 1<<20 || !h.Measured.Equal(began) {
			t.Errorf("%+v at %v", h.Size, h.Measured)
		}
		before := h.Size
		if err := app.Ports.in.Send(t.Context(), "a", 1); err != nil {
			t.Fatal(err)
		}
		if again := health(0); again.Size != h.Size || log.asked.Load() != 1 {
			t.Errorf("%+v after asking %d times in a second", again.Size, log.asked.Load())
		}
		time.Sleep(sizeAgain)
		log.takes.Store(int64(time.Minute))
		if h := health(10 * time.Millisecond); h.Size != before || !h.Measured.Equal(began) {
			t.Errorf("the log does not answer yet: %+v at %v", h.Size, h.Measured)
		}
		time.Sleep(2 * sizeWithin)
		const late = 20 * time.Millisecond
		log.takes.Store(int64(late))
		asked := time.Now()
		health(10 * time.Millisecond)
		time.Sleep(late)
		if h := health(10 * time.Millisecond); h.Size.Kept <= before.Kept || h.Measured.Before(asked) {
			t.Errorf("the log has answered: %+v at %v", h.Size, h.Measured)
		}
		time.Sleep(sizeAgain)
		log.takes.Store(0)
		log.fails.Store(true)
		if h := health(0); h.Size.Kept <= before.Kept || time.Since(h.Measured) < sizeAgain {
			t.Errorf("the log has failed to say: %+v at %v", h.Size, h.Measured)
		}
		stop(t, app)
		if h := health(0); !h.Measured.IsZero() {
			t.Errorf("after Stop: %+v", h)
		}
	})
}

// TestHealthOfClock has the system clock jump while a partition runs and while it does not.
func TestHealthOfClock(t *testing.T) {
	const week = 7 * 24 * time.Hour
	for _, test := range []struct {
		jump   time.Duration // of the system clock
		clock  time.Duration // how far ahead the partition is after the restart
		wrongs uint64
	}{
		{0, 0, 0},
		{time.Hour, 0, 0}, // the partition was down for an hour
		{-time.Hour, time.Hour, 1},
		{2 * week, -week, 1}, // more than MaxGap
	} {
		synctest.Test(t, func(t *testing.T) {
			log := journal.NewMemory(journal.MemoryOptions{})
			var jump atomic.Int64
			o := Options{Now: func() time.Time { return time.Now().Add(time.Duration(jump.Load())) }}
			app := start(t, log, times(1), o)
			clock := func() time.Duration { return app.Health().Partitions[0].Clock.Round(time.Second) }
			time.Sleep(time.Minute)
			if err := app.Ports.in.Send(t.Context(), "a", 1); err != nil { // the last step has this time
				t.Fatal(err)
			}
			synctest.Wait()
			if is := clock(); is != 0 {
				t.Errorf("the clock is right, and the partition is %v ahead", is)
			}
			jump.Store(int64(test.jump))
			if is := clock(); is != -test.jump {
				t.Errorf("after a jump by %v the partition is %v ahead", test.jump, is)
			}
			stop(t, app)
			if is := clock(); is != 0 {
				t.Errorf("of a partition that nobody has: %v", is)
			}
			app = start(t, log.Reopen(), times(1), o)
			if is, n := clock(), app.Metrics().WrongClocks; is != test.clock || n != test.wrongs {
				t.Errorf("started again after a jump by %v the partition is %v ahead, want %v; %d wrong clocks", test.jump, is, test.clock, n)
			}
			time.Sleep(3 * time.Hour)
			if is := clock(); is > moment {
				t.Errorf("three hours later the partition is %v ahead", is)
			}
			stop(t, app)
		})
	}
}

// TestHealthOfMembers checks the members that two processes and a client see.
func TestHealthOfMembers(t *testing.T) {
	o := Options{Log: natslog.Servers(natslog.Options{URLs: []string{natsServer(t)}, Replicas: 1, AssumeDurable: true}), Name: "shared"}
	as := func(name string) Options {
		named := o
		named.Member = name
		return named
	}
	a, b := start(t, nil, times(1), as("a")), start(t, nil, times(1), as("b"))
	o.Client = true
	client := start(t, nil, times(1), o)
	want := func(who string, app *App[timesPorts], members ...string) {
		t.Helper()
		natstest.Eventually(t, time.Minute, func(context.Context) error {
			if h := app.Health(); !slices.Equal(h.Members, members) || h.Measured.IsZero() {
				return fmt.Errorf("%s sees %q, want %q; measured at %v", who, h.Members, members, h.Measured)
			}
			return nil
		})
	}
	want("a", a, "a", "b")
	want("b", b, "a", "b")
	want("a client", client)
	stop(t, b)
	want("a", a, "a")
	stop(t, client)
	stop(t, a)
}
