package durable

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
)

// slowly returns a flow whose function waits until it may go on.
func slowly(goOn <-chan bool) func(*dataflow.Flow) *dataflow.SharedInputPort[int] {
	return func(f *dataflow.Flow) *dataflow.SharedInputPort[int] {
		port, in := dataflow.SharedInput[int](dataflow.At[server](f), "in")
		dataflow.Output(dataflow.Map(in, func(x int) int {
			<-goOn
			return x
		}), "out")
		return port
	}
}

// states returns the states of all partitions.
func states(h Health) string {
	var all []string
	for _, p := range h.Partitions {
		all = append(all, string(p.State))
	}
	return strings.Join(all, " ")
}

// TestHealthOfLag has a function take minutes. Health counts the waiting records and reports how
// long they have waited.
func TestHealthOfLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan bool)
		app := start(t, journal.NewMemory(journal.MemoryOptions{}), slowly(goOn), Options{MaxLag: Lag{Records: 4, Bytes: 1 << 20}, Flow: dataflow.Options{Buffer: 2}})
		h := app.Health()
		if err := h.Ready(); err != nil || states(h) != "running" || h.Partitions[0].Lag != (Lag{}) || h.Partitions[0].Committed.IsZero() || !h.Partitions[0].Saved.IsZero() {
			t.Errorf("before anything: %v, %+v", err, h.Partitions)
		}
		began := time.Now()
		for i := range 4 {
			if err := app.Ports.Send(t.Context(), i); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		h = app.Health()
		p := h.Partitions[0]
		if p.State != Running || p.Lag.Records != 4 || p.Lag.Bytes == 0 || p.Waiting.Truncate(time.Second) != 4*time.Minute || !p.Stale {
			t.Errorf("4 records wait: %v, %v, %v", p.State, p.Lag, p.Waiting)
		}
		if err := h.Ready(); err == nil || !strings.Contains(err.Error(), "partition 0 of server is 4 records") || h.Live() != nil {
			t.Errorf("ready: %v", err)
		}
		goOn <- true // a step takes all waiting records; the first record was alone in its step
		synctest.Wait()
		if p = app.Health().Partitions[0]; p.Lag.Records != 3 || p.Waiting.Truncate(time.Second) != 3*time.Minute || p.Committed.Sub(began).Truncate(time.Second) != 4*time.Minute {
			t.Errorf("3 records wait: %v, %v, %v", p.Lag, p.Waiting, p.Committed)
		}
		for range 3 {
			goOn <- true
		}
		synctest.Wait()
		h = app.Health() // the output exceeds its bound
		p = h.Partitions[0]
		var blocked *dataflow.BlockedError
		if err := h.Ready(); p.State != Full || p.Lag != (Lag{}) || p.Waiting != 0 || !errors.As(err, &blocked) || blocked.Port != "out" {
			t.Errorf("full: %v, %+v", err, p)
		}
		if m := h.Metrics; m.Append.Count != 4 || m.Commit.Count != m.Steps || m.Append.Classes[0].Count != 4 {
			t.Errorf("%+v", m)
		}
		time.Sleep(time.Minute) // a snapshot is due
		synctest.Wait()
		if p = app.Health().Partitions[0]; p.Saved.Before(began) {
			t.Errorf("saved at %v", p.Saved)
		}
		stop(t, app)
		if h = app.Health(); states(h) != "ended" || h.Live() != ErrStopped || h.Ready() != ErrStopped {
			t.Errorf("after Stop: %v, %v", states(h), h.Live())
		}
	})
}

// TestHealthOfStopped has one of several partitions stop, and then another process check their
// health.
func TestHealthOfStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := journal.NewMemory(journal.MemoryOptions{Partitions: 4})
		build := delaying(time.Second, func(x int) bool { return x == 7 })
		app := start(t, log, build, Options{Partitions: 3})
		bad := app.core.layout.of(0, encoded(t, 7))
		if err := app.Ports.in.Put(t.Context(), 7, 7); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		h := app.Health()
		for p, s := range h.Partitions {
			if want := map[bool]PartitionState{true: Stopped, false: Running}[p == bad]; s.State != want || (s.Stopped != nil) != (p == bad) {
				t.Errorf("partition %d is %v: %v", p, s.State, s.Stopped)
			}
		}
		if err := h.Ready(); !isStopped(err, bad, 7) || h.Live() != nil {
			t.Errorf("ready: %v", err)
		}
		client := start(t, alone{log.Reopen()}, build, Options{Partitions: 3, Client: true})
		if h := client.Health(); states(h) != "elsewhere elsewhere elsewhere elsewhere" || h.Ready() != nil {
			t.Errorf("a client has %v, %v", states(h), h.Ready())
		}
		stop(t, client)
		log.Crash() // the flow ends with an error because of that
		<-app.Done()
		if h := app.Health(); !h.Ended || !errors.Is(h.Live(), journal.ErrCrashed) || !errors.Is(h.Ready(), journal.ErrCrashed) {
			t.Errorf("after a crash: %v", h.Live())
		}
	})
}

// A condition is a log that reports a given health and loses a commit on demand.
type condition struct {
	*journal.Memory
	is      error
	lost    atomic.Bool
	restore chan struct{} // if not nil, a restore waits for it
}

func (c *condition) Condition() error { return c.is }

func (c *condition) Commit(ctx context.Context, p int, fence uint64, step []byte) (uint64, error) {
	if c.lost.CompareAndSwap(true, false) {
		return 0, fmt.Errorf("%w: on demand", journal.ErrUnknown)
	}
	return c.Memory.Commit(ctx, p, fence, step)
}

func (c *condition) Restore(ctx context.Context, p int) (*journal.History, error) {
	if c.restore != nil {
		<-c.restore
	}
	return c.Memory.Restore(ctx, p)
}

// TestHealthOfLog checks the health of a flow while the log accepts nothing, and while a partition
// is restored.
func TestHealthOfLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &condition{Memory: journal.NewMemory(journal.MemoryOptions{})}
		app := start(t, log, times(1), Options{})
		log.is = fmt.Errorf("%w: on demand", journal.ErrFull)
		if h := app.Health(); h.Log != log.is || !errors.Is(h.Ready(), journal.ErrFull) || h.Live() != nil {
			t.Errorf("ready: %v", h.Ready())
		}
		log.is = nil
		log.restore = make(chan struct{})
		log.lost.Store(true)
		if err := app.Ports.in.Send(t.Context(), "a", 1); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		h := app.Health()
		if err := h.Ready(); states(h) != "restoring" || err == nil || h.Live() != nil || h.Metrics.Unknown != 1 {
			t.Errorf("%v, %v, %+v", states(h), err, h.Metrics)
		}
		close(log.restore)
		await(t, app.Ports.out, "a", 1)
		if h := app.Health(); states(h) != "running" || h.Ready() != nil {
			t.Errorf("%v, %v", states(h), h.Ready())
		}
		stop(t, app)
	})
}
