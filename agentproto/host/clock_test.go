package host

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
)

// keptWith is kept with a system clock that is wrong by the returned duration.
func keptWith(t *testing.T, base string) (Options, *atomic.Int64) {
	opts, wrong := kept(t, base), new(atomic.Int64)
	opts.State.Now = func() time.Time { return time.Now().Add(time.Duration(wrong.Load())) }
	return opts, wrong
}

// callFor makes a call with a lifetime and returns it after it was posted.
func callFor(t *testing.T, rt *Runtime, got chan posting, id string, lifetime time.Duration) posting {
	t.Helper()
	if _, err := rt.Call(t.Context(), Request{GroupID: "g", ID: id, Operation: "keep", Lifetime: lifetime}); err != nil {
		t.Fatal(err)
	}
	select {
	case p := <-got:
		return p
	case <-time.After(20 * time.Second):
		t.Fatal("the call was not posted")
		return posting{}
	}
}

// wantPending fails unless a call stays pending for a while.
func wantPending(t *testing.T, rt *Runtime, id, when string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	if r, err := rt.Await(ctx, agentproto.CallKey{GroupID: "g", ID: id}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%s: resolved by %+v, %v", when, r, err)
	}
}

// wantCause fails unless a call is soon resolved with the given cause.
func wantCause(t *testing.T, rt *Runtime, id string, cause agentproto.Cause) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	if r, err := rt.Await(ctx, agentproto.CallKey{GroupID: "g", ID: id}); err != nil || r.Cause != cause {
		t.Errorf("call %s: %+v, %v, want it resolved by %v", id, r, err, cause)
	}
}

// TestT03ClockJumps sets the system clock an hour forward or back while a runtime runs. It
// catches a deadline that this makes early or prevents.
func TestT03ClockJumps(t *testing.T) {
	t.Parallel()
	for _, jump := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(fmt.Sprint(jump), func(t *testing.T) {
			base, got := recorder(t)
			opts, wrong := keptWith(t, base)
			rt, err := Start(t.Context(), opts)
			if err != nil {
				t.Fatal(err)
			}
			callFor(t, rt, got, "long", 30*time.Minute)
			wrong.Store(int64(jump))
			callFor(t, rt, got, "short", 100*time.Millisecond)
			wantCause(t, rt, "short", agentproto.ByTimeout)
			wantPending(t, rt, "long", "the clock was set while the runtime ran")
			stopAtOnce(t, rt)
			if jump > 0 {
				wrong.Store(0) // TestT04DeadlineWhileDown has the other case
			}

			// A clock that went back makes a deadline late, never early.
			if rt, err = Start(t.Context(), opts); err != nil {
				t.Fatal(err)
			}
			defer stopAtOnce(t, rt)
			wantPending(t, rt, "long", "restarted")
			wantCause(t, rt, "short", agentproto.ByTimeout)
			callFor(t, rt, got, "next", 100*time.Millisecond)
			wantCause(t, rt, "next", agentproto.ByTimeout)
		})
	}
}

// TestT04DeadlineWhileDown lets the deadline of a call pass while no runtime runs. It
// catches a deadline that starts anew, and a late result that is accepted.
func TestT04DeadlineWhileDown(t *testing.T) {
	t.Parallel()
	base, got := recorder(t)
	opts, wrong := keptWith(t, base)
	rt, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	p := callFor(t, rt, got, "over", 30*time.Minute)
	callFor(t, rt, got, "still", 2*time.Hour)
	stopAtOnce(t, rt)

	wrong.Store(int64(time.Hour))
	if rt, err = Start(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	defer stopAtOnce(t, rt)
	wantCause(t, rt, "over", agentproto.ByTimeout)
	wantPending(t, rt, "still", "its deadline is not over")
	postUntilTaken(t, p.inv.CallbackURL, result(p.inv.Key(), "late"))
	wantCause(t, rt, "over", agentproto.ByTimeout)
}
