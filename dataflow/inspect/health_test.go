package inspect_test

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/inspect"
	"github.com/millrace/millrace/keyedsingleton"
)

// A slowLog refuses steps with ErrFenced while fenced is set. Restore then waits until restore is closed.
type slowLog struct {
	*journal.Memory
	fenced  atomic.Bool
	restore chan struct{}
}

func (l *slowLog) Commit(ctx context.Context, p int, fence uint64, step []byte) (uint64, error) {
	if l.fenced.Load() {
		return 0, journal.ErrFenced
	}
	return l.Memory.Commit(ctx, p, fence, step)
}

func (l *slowLog) Restore(ctx context.Context, p int) (*journal.History, error) {
	if l.fenced.Load() {
		select {
		case <-l.restore:
			l.fenced.Store(false)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return l.Memory.Restore(ctx, p)
}

type votes struct{ dataflow.Cluster }

type votePorts struct {
	in  *dataflow.EntryInputPort[string, int]
	out *dataflow.EntryOutputPort[string, int]
	log *dataflow.OutputPort[int]
}

// keepVotes starts a flow with two partitions that stores votes.
func keepVotes(t *testing.T, log journal.Log, opts durable.Options) *durable.App[votePorts] {
	t.Helper()
	opts.Log, opts.Name, opts.Partitions, opts.Logger = journal.Opened{Log: log}, "votes", 2, slog.New(slog.DiscardHandler)
	app, err := durable.Start(t.Context(), func(flow *dataflow.Flow) votePorts {
		in, all := keyedsingleton.Input[string, int](dataflow.At[votes](flow), "votes")
		return votePorts{in, keyedsingleton.Output(all, "kept"), dataflow.Output(keyedsingleton.Values(all), "log")}
	}, opts)
	if err != nil {
		t.Fatal(err)
	}
	return app
}

// vote puts a vote for many keys, so that each partition gets one, and waits at most a second for each.
func vote(t *testing.T, app *durable.App[votePorts], round string) {
	for _, k := range strings.Fields("a b c d e f g h") {
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		_ = app.Ports.in.Put(ctx, k+round, 1) // the caller cannot know whether it was taken
		stop()
	}
}

// TestRestoring checks that a flow is reported as restoring, and not as healthy or hanging, while a partition is
// restored and handles nothing.
func TestRestoring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &slowLog{Memory: journal.NewMemory(journal.MemoryOptions{Partitions: 2}), restore: make(chan struct{})}
		app := keepVotes(t, log, durable.Options{})
		healthy(t, app)
		log.fenced.Store(true)
		vote(t, app, "1")
		<-time.After(time.Minute)
		healthy(t, app, inspect.Restoring)
		close(log.restore)
		<-time.After(time.Minute)
		healthy(t, app)
		if _, err := app.Ports.out.Await(t.Context(), "a1"); err != nil {
			t.Error(err)
		}
		if err := app.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A smallLog refuses every step of partition 1 with ErrTooLarge while small is set.
type smallLog struct {
	*journal.Memory
	small atomic.Bool
}

func (l *smallLog) Commit(ctx context.Context, p int, fence uint64, step []byte) (uint64, error) {
	if p == 1 && l.small.Load() {
		return 0, journal.ErrTooLarge
	}
	return l.Memory.Commit(ctx, p, fence, step)
}

// TestHalted checks that a flow is not healthy while one of its partitions cannot continue.
func TestHalted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &smallLog{Memory: journal.NewMemory(journal.MemoryOptions{Partitions: 2})}
		app := keepVotes(t, log, durable.Options{})
		healthy(t, app)
		log.small.Store(true)
		vote(t, app, "1")
		<-time.After(time.Minute)
		healthy(t, app, inspect.Halted)
		if err := app.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestFullPartitions checks that a flow is not healthy while an output that nobody reads keeps its partitions from
// taking records.
func TestFullPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app := keepVotes(t, journal.NewMemory(journal.MemoryOptions{Partitions: 2}), durable.Options{Flow: dataflow.Options{Buffer: 2}})
		for _, round := range []string{"1", "2", "3"} {
			vote(t, app, round)
		}
		<-time.After(time.Minute)
		healthy(t, app, inspect.Blocked, inspect.Halted)
		for read := 0; read < 24; read++ {
			ctx, stop := context.WithTimeout(t.Context(), time.Second)
			_, err := app.Ports.log.Next(ctx)
			if stop(); err != nil {
				break
			}
		}
		<-time.After(time.Minute)
		healthy(t, app)
		if err := app.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
