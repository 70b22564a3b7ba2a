package host

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/journal"
)

// A fullLog is a log on a disk that can be switched to full, for incoming records and for steps separately.
type fullLog struct {
	*journal.Memory
	in, steps *atomic.Bool
}

func (l fullLog) Append(ctx context.Context, p int, records ...[]byte) (uint64, error) {
	if l.in.Load() {
		return 0, journal.ErrFull
	}
	return l.Memory.Append(ctx, p, records...)
}

func (l fullLog) Commit(ctx context.Context, p int, fence uint64, step []byte) (uint64, error) {
	if l.steps.Load() {
		return 0, journal.ErrFull
	}
	return l.Memory.Commit(ctx, p, fence, step)
}

func (l fullLog) SavePiece(ctx context.Context, p int, piece []byte) (uint64, error) {
	if l.steps.Load() {
		return 0, journal.ErrFull
	}
	return l.Memory.SavePiece(ctx, p, piece)
}

func (l fullLog) SaveSnapshot(ctx context.Context, p int, after, at uint64, state []byte) error {
	if l.steps.Load() {
		return journal.ErrFull
	}
	return l.Memory.SaveSnapshot(ctx, p, after, at, state)
}

// TestN72_DiskFull fills the disk while calls are pending. It catches a result that is acknowledged and lost, a call or a result
// that hangs instead of being refused, and a runtime that does not continue when there is room again.
func TestN72_DiskFull(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.tool("tool.test")
		memory := journal.NewMemory(journal.MemoryOptions{})
		var in, steps atomic.Bool
		begin := func() {
			sealer, err := SealerOf([32]byte{1})
			if err != nil {
				t.Fatal(err)
			}
			w.opts.Sealer = sealer
			w.opts.State = &durable.Options{Log: journal.Opened{Log: fullLog{memory, &in, &steps}}, Logger: slog.New(slog.DiscardHandler)}
			w.start(tool.base)
		}
		begin()
		var keys []agentproto.CallKey
		for _, id := range []string{"1", "2", "3"} {
			keys = append(keys, w.call("g", id))
		}
		urls := make([]string, len(keys))
		for i, key := range keys {
			urls[i] = tool.callbackOf(key)
		}
		if status := w.post(urls[0], result(keys[0], "before")); status != 200 {
			t.Fatalf("the first result is answered %d", status)
		}

		steps.Store(true) // from now on records are accepted and no step is committed
		if status := w.post(urls[1], result(keys[1], "meanwhile")); status != 200 {
			t.Errorf("a result that the log has taken is answered %d", status)
		}
		in.Store(true)
		for range 3 {
			if status := w.post(urls[2], result(keys[2], "after")); status != 503 {
				t.Errorf("a result that the log has not taken is answered %d", status)
			}
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			if _, err := w.rt.Call(ctx, Request{GroupID: "g", ID: "4", Operation: "echo"}); !errors.Is(err, journal.ErrFull) {
				t.Errorf("a call on a full disk: %v", err)
			}
			stop()
			w.pass(time.Minute)
		}
		if n := len(tool.invocations()); n != 3 {
			t.Errorf("%d invocations", n)
		}

		in.Store(false)
		steps.Store(false)
		w.pass(time.Minute)
		if status := w.post(urls[2], result(keys[2], "after")); status != 200 {
			t.Errorf("when there is room a result is answered %d", status)
		}
		check := func() {
			t.Helper()
			for i, want := range []string{"before", "meanwhile", "after"} {
				if got := w.text(keys[i]); got != want {
					t.Errorf("call %d has %q, want %q", i, got, want)
				}
			}
		}
		check()
		w.call("g", "4")
		if n := len(tool.invocations()); n != 4 {
			t.Errorf("when there is room: %d invocations", n)
		}

		memory.Crash() // none of it was in memory only
		<-w.rt.Done()
		memory = memory.Reopen()
		begin()
		check()
	})
}

// TestFullDiskDoesNotHang has a log that takes records and commits no step, so that nothing has an outcome. Lookups have to return
// after Timeouts.Accept.
func TestFullDiskDoesNotHang(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var in, steps atomic.Bool
		sealer, err := SealerOf([32]byte{1})
		if err != nil {
			t.Fatal(err)
		}
		w.opts.Sealer = sealer
		w.opts.State = &durable.Options{Log: journal.Opened{Log: fullLog{journal.NewMemory(journal.MemoryOptions{}), &in, &steps}}, Logger: slog.New(slog.DiscardHandler)}
		rt := w.start(w.tool("tool.test").base)
		w.call("g", "1")
		steps.Store(true)
		for _, is := range []struct {
			name string
			do   func(context.Context) error
		}{
			{"Known", func(ctx context.Context) error {
				_, err := rt.Known(ctx, agentproto.CallKey{GroupID: "g", ID: "3"})
				return err
			}},
			{"Describe", func(ctx context.Context) error {
				_, err := rt.Describe(ctx, agentproto.CallKey{GroupID: "g", ID: "4"})
				return err
			}},
		} {
			ctx, stop := context.WithTimeout(t.Context(), time.Hour)
			start := time.Now()
			err := is.do(ctx)
			if d := time.Since(start); d > 6*time.Second {
				t.Errorf("%s took %v: %v", is.name, d, err)
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", is.name, err)
			}
			stop()
		}
		steps.Store(false)
		w.pass(time.Minute)
		if known, err := rt.Known(t.Context(), agentproto.CallKey{GroupID: "g", ID: "3"}); known || err != nil {
			t.Errorf("when there is room: %v, %v", known, err)
		}
	})
}
