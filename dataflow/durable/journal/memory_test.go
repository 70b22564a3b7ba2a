package journal_test

import (
	"context"
	"errors"
	"testing"

	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/durable/journal/journaltest"
)

func TestMemory(t *testing.T) {
	for name, ahead := range map[string]bool{"durable": false, "ahead": true} {
		t.Run(name, func(t *testing.T) {
			journaltest.Run(t, func(t *testing.T) journal.Log {
				m := journal.NewMemory(journal.MemoryOptions{Partitions: 16, Ahead: ahead})
				t.Cleanup(func() { m.Close() })
				return m
			})
		})
	}
}

func TestMemoryLimits(t *testing.T) {
	journaltest.Limits(t, func(t *testing.T) journaltest.Reopen {
		m := journal.NewMemory(journal.MemoryOptions{Partitions: 2})
		return func(t *testing.T, maxBytes int64) journal.Log {
			m.Close()
			m = m.Reopen()
			m.SetMaxBytes(maxBytes)
			return m
		}
	})
}

// only returns a hook that injects a fault before or after one operation.
func only(op journal.Op, done bool, fault journal.Fault) journal.Hook {
	return func(a journal.Action) journal.Fault {
		if a.Op == op && a.Done == done {
			return fault
		}
		return journal.Fault{}
	}
}

func TestFaults(t *testing.T) {
	ctx := t.Context()
	for _, test := range []struct {
		name  string
		done  bool
		fault journal.Fault
		want  error
		fence uint64 // after the restart
	}{
		{"no fault", false, journal.Fault{}, nil, 1},
		{"fails before", false, journal.Fault{Fail: true}, journal.ErrInjected, 0},
		{"fails after", true, journal.Fault{Fail: true}, journal.ErrUnknown, 1},
		{"crash before", false, journal.Fault{Crash: true}, journal.ErrCrashed, 0},
		{"crash after", true, journal.Fault{Crash: true}, journal.ErrCrashed, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := journal.NewMemory(journal.MemoryOptions{Hook: only(journal.OpCommit, test.done, test.fault)})
			if _, err := m.Commit(ctx, 0, 0, []byte("step")); !errors.Is(err, test.want) {
				t.Errorf("Commit: %v, want %v", err, test.want)
			}
			again := m.Reopen()
			h, err := again.Restore(ctx, 0)
			if err != nil || h.Fence != test.fence {
				t.Errorf("after the restart the fence is %d (%v), want %d", h.Fence, err, test.fence)
			}
			_, err = m.Usage(ctx, 0)
			if crashed := errors.Is(err, journal.ErrCrashed); crashed != test.fault.Crash {
				t.Errorf("the old handle says %v", err)
			}
		})
	}
}

// TestBlocked delays a commit until another owner has committed at the same fence.
func TestBlocked(t *testing.T) {
	ctx := t.Context()
	release, waiting := make(chan struct{}), make(chan struct{})
	m := journal.NewMemory(journal.MemoryOptions{})
	slow := m.Reopen()
	slow.SetHook(func(a journal.Action) journal.Fault {
		if a.Done {
			return journal.Fault{}
		}
		close(waiting)
		return journal.Fault{Until: release}
	})
	result := make(chan error)
	go func() {
		_, err := slow.Commit(ctx, 0, 0, []byte("zombie"))
		result <- err
	}()
	<-waiting
	if _, err := m.Commit(ctx, 0, 0, []byte("owner")); err != nil {
		t.Fatal(err)
	}
	close(release)
	if err := <-result; !errors.Is(err, journal.ErrFenced) {
		t.Errorf("the zombie gets %v, want ErrFenced", err)
	}
}

// TestBlockedAnswer delays the answer of a commit. The end of the context or of the
// handle ends the delay, and the result is then unknown.
func TestBlockedAnswer(t *testing.T) {
	for _, end := range []string{"context", "crash", "close"} {
		t.Run(end, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan struct{})
			m := journal.NewMemory(journal.MemoryOptions{})
			m.SetHook(func(a journal.Action) journal.Fault {
				if !a.Done {
					return journal.Fault{}
				}
				close(done)
				return journal.Fault{Until: make(chan struct{})}
			})
			result := make(chan error)
			go func() {
				_, err := m.Commit(ctx, 0, 0, []byte("step"))
				result <- err
			}()
			<-done
			map[string]func(){"context": cancel, "crash": m.Crash, "close": func() { m.Close() }}[end]()
			if err := <-result; !errors.Is(err, journal.ErrUnknown) {
				t.Errorf("Commit: %v, want ErrUnknown", err)
			}
			if h, err := m.Reopen().Restore(t.Context(), 0); err != nil || h.Fence != 1 {
				t.Errorf("restored to %+v (%v)", h, err)
			}
		})
	}
}

func TestMemoryFull(t *testing.T) {
	ctx := t.Context()
	m := journal.NewMemory(journal.MemoryOptions{MaxBytes: 200})
	position, err := m.Append(ctx, 0, make([]byte, 60))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Append(ctx, 0, make([]byte, 60)); !errors.Is(err, journal.ErrFull) {
		t.Errorf("Append beyond the limit: %v, want ErrFull", err)
	}
	if err := m.Purge(ctx, 0, position, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Append(ctx, 0, make([]byte, 60)); err != nil {
		t.Errorf("after the purge: %v", err)
	}
}
