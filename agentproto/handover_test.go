package agentproto

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestOlderMigration stages migrations of a thread in another order than they were begun. It catches a snapshot that is accepted
// after a later one, which was to replace it.
func TestOlderMigration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ctx := startMovers(t), t.Context()
		m.s.call(k1, nil)
		attempt := func(migration string) *ThreadSnapshot {
			m.must(m.s.Freeze(ctx, "thread", migration))
			thread, err := m.s.Export(ctx, "thread", migration)
			m.must(err)
			m.must(m.s.Abort(ctx, "thread", migration))
			return thread
		}
		lost, half := attempt("1.lost"), attempt("2.half")
		m.must(m.d.Stage(ctx, half)) // and the destination is never told that this was aborted
		m.s.deliver(k1, choice("r"))
		synctest.Wait()
		m.must(m.s.Freeze(ctx, "thread", "3.last"))
		last := m.export("3.last")
		for _, step := range []error{
			m.d.Stage(ctx, lost), m.d.Commit(ctx, "thread", "2.half"), m.d.Stage(ctx, &ThreadSnapshot{GroupID: "thread", Migration: "2.other"}),
		} {
			if !errors.Is(step, ErrMove) {
				t.Errorf("a step of an earlier migration gives %v", step)
			}
		}
		m.must(m.d.Abort(ctx, "thread", "1.lost"))
		m.must(m.d.Commit(ctx, "thread", last.Migration))
		m.must(m.s.Commit(ctx, "thread", last.Migration))
		m.must(m.d.Stage(ctx, last))
		if err := m.d.Stage(ctx, lost); !errors.Is(err, ErrMove) {
			t.Errorf("an earlier migration gives %v", err)
		}
		m.d.deliver(k1, result("x"))
		m.d.want(k1, "choice withdraw resolved(tool_result)")
		m.s.stop()
		m.d.stop()
	})
}

// TestNameAfterAbort opens a thread under a name whose migration was aborted.
func TestNameAfterAbort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ctx := startMovers(t), t.Context()
		m.d.stop()
		m.d = startProgram(t, ProgramOptions{})
		m.s.call(k1, nil)
		m.must(m.s.Freeze(ctx, "thread", "m"))
		late := m.export("m")
		m.must(m.d.Abort(ctx, "thread", "m"))
		m.must(m.s.Abort(ctx, "thread", "m"))
		k2 := CallKey{"thread", "2"}
		m.d.call(k2, nil)
		m.d.deliver(k2, result("x"))
		m.d.want(k2, "resolved(tool_result)")
		late.Migration = "another"
		if err := m.d.Stage(ctx, late); !errors.Is(err, ErrMove) {
			t.Errorf("a thread of the same name comes: %v", err)
		}
		m.s.stop()
		m.d.stop()
	})
}

// TestForwarderIsKept makes a call that moved away reach its retention while a result for it is still being forwarded. It
// catches a result that was accepted and is lost because the other host was unreachable for a long time.
func TestForwarderIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ctx, opts := &movers{t: t}, t.Context(), retaining
		m.d = startProgram(t, opts)
		opts.Forward = func(ctx context.Context, f *Forwarded) {
			select {
			case <-time.After(20 * 24 * time.Hour):
				m.must(m.d.Relay(ctx, f))
			case <-ctx.Done():
				t.Errorf("%v is not forwarded any longer", f.Key)
			}
		}
		m.s = startProgram(t, opts)
		m.s.call(k1, func(c *Call) { c.Lifetime = 60 * 24 * time.Hour })
		m.must(m.s.Freeze(ctx, "thread", "m"))
		m.export("m")
		m.must(m.d.Commit(ctx, "thread", "m"))
		m.must(m.s.Commit(ctx, "thread", "m"))
		m.s.deliver(k1, result("a"))
		time.Sleep(21 * 24 * time.Hour)
		m.d.want(k1, "resolved(tool_result)")
		m.s.stop()
		m.d.stop()
	})
}

// TestCallThatCameLasts checks that a migrated call is at once among the lasting calls, where cancellation looks for it.
func TestCallThatCameLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, ctx := startMovers(t), t.Context()
		m.s.call(k1, func(c *Call) { c.Incarnation = 5 << 16 })
		m.must(m.s.Freeze(ctx, "thread", "m"))
		m.export("m")
		m.must(m.d.Commit(ctx, "thread", "m"))
		m.must(m.s.Commit(ctx, "thread", "m"))
		if is, lasts := m.d.Lasting(k1); !lasts || !sameCall(is, 5<<16) {
			t.Errorf("the call lasts: %v, with the incarnation %x", lasts, is)
		}
		m.s.stop()
		m.d.stop()
	})
}
