package keyedstream_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

type callTurn = keyedstream.CallingTurn[string, string, int, string]

// asks is a step that makes a call for each value, except that it forgets at "forget".
func asks(n *int, v string, do *callTurn) {
	*n++
	if v == "forget" {
		do.Forget()
		return
	}
	do.Call(v)
}

func noRing(*int, keyedstream.Timer, *callTurn) {}

// told emits the answer of a call.
func told(n *int, q, z string, do *callTurn) { do.Emit(fmt.Sprint(*n, " ", q, " ", z)) }

// TestCallingMachineLives checks answers that come late, in another order than the calls, or for
// lives that are over.
func TestCallingMachineLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		in, ks := keyedstream.Input[string, string](dataflow.At[Shop](flow), "values")
		var l logged
		var mu sync.Mutex
		var ended []string
		after := map[string]time.Duration{"slow": time.Minute, "quick": time.Second, "other": 2 * time.Second}
		l.of(keyedstream.CallingMachine(ks, zero, asks, noRing, keyedstream.Calling(func(ctx context.Context, c keyedstream.Call[string, string]) string {
			select {
			case <-ctx.Done():
				mu.Lock()
				defer mu.Unlock()
				ended = append(ended, fmt.Sprint(c.Request, " of life ", c.Life))
				return "cancelled"
			case <-time.After(after[c.Request]):
				return fmt.Sprint(c.Key, " ", c.Life, " ", c.Number)
			}
		}, told, keyedstream.CallOptions{}), "tested"))
		app := starts(t, flow)
		begin := time.Now()
		for _, v := range []string{"slow", "quick", "forget", "slow", "quick", "other"} {
			if err := in.Send(t.Context(), "a", v); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		in.Close()
		if err := app.Wait(); err != nil {
			t.Fatal(err)
		}
		if got := time.Since(begin); got != time.Minute {
			t.Errorf("it ended after %v", got)
		}
		if got, want := l.takes(), "a 3 quick a 2 2, a 3 other a 2 3, a 3 slow a 2 1"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if len(ended) != 2 || !strings.Contains(strings.Join(ended, ", "), "slow of life 1") || !strings.Contains(strings.Join(ended, ", "), "quick of life 1") {
			t.Errorf("ended were %q", ended)
		}
		var dropped uint64
		for _, op := range app.Status()[0].Operators {
			dropped += op.Dropped
		}
		if dropped != 2 {
			t.Errorf("%d answers were dropped, want those of the first life", dropped)
		}
	})
}

// TestCallingMachineEnds checks that a flow whose inputs are closed waits for calls and timers, but
// not for a life to be forgotten.
func TestCallingMachineEnds(t *testing.T) {
	for _, x := range []struct{ call, timer, want time.Duration }{
		{time.Minute, time.Hour, time.Hour}, {time.Hour, time.Minute, time.Hour}, {time.Second, 0, time.Second}, {10 * time.Hour, 0, 2 * time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			flow := dataflow.New()
			in, ks := keyedstream.Input[string, string](dataflow.At[Shop](flow), "values")
			keyedstream.CallingMachine(ks, zero, func(_ *int, v string, do *callTurn) {
				do.ForgetAfter(24 * time.Hour)
				if do.Call(v); x.timer > 0 {
					do.After(first, x.timer)
				}
			}, noRing, keyedstream.Calling(func(ctx context.Context, _ keyedstream.Call[string, string]) string {
				select {
				case <-ctx.Done():
				case <-time.After(x.call):
				}
				return ""
			}, told, keyedstream.CallOptions{Timeout: 2 * time.Hour}), "tested")
			app := starts(t, flow)
			begin := time.Now()
			if err := in.Send(t.Context(), "a", ""); err != nil {
				t.Fatal(err)
			}
			in.Close()
			if err := app.Wait(); err != nil {
				t.Fatal(err)
			}
			if got := time.Since(begin); got != x.want {
				t.Errorf("%+v: it ended after %v", x, got)
			}
		})
	}
}

// TestCallingMachineConcurrency checks that no more calls than allowed run at once.
func TestCallingMachineConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		in, ks := keyedstream.Input[string, string](dataflow.At[Shop](flow), "values")
		enter, leave := make(chan struct{}, 3), 0
		keyedstream.CallingMachine(ks, zero, asks, noRing, keyedstream.Calling(func(context.Context, keyedstream.Call[string, string]) string {
			select {
			case enter <- struct{}{}:
			default:
				t.Error("too many calls at once")
			}
			time.Sleep(time.Second)
			<-enter
			return ""
		}, func(_ *int, _, _ string, _ *callTurn) { leave++ }, keyedstream.CallOptions{Concurrency: 3}), "tested")
		app := starts(t, flow)
		begin := time.Now()
		for i := range 9 {
			if err := in.Send(t.Context(), fmt.Sprint(i%4), "x"); err != nil {
				t.Fatal(err)
			}
		}
		in.Close()
		if err := app.Wait(); err != nil || leave != 9 || time.Since(begin) != 3*time.Second {
			t.Errorf("%d answers after %v: %v", leave, time.Since(begin), err)
		}
	})
}

// TestCallingMachineFails checks that an error names the operator and the key, for each function.
func TestCallingMachineFails(t *testing.T) {
	fails := func(context.Context, keyedstream.Call[string, string]) string { panic("fails") }
	answers := func(context.Context, keyedstream.Call[string, string]) string { return "" }
	for name, x := range map[string]struct {
		step func(*int, string, *callTurn)
		call func(context.Context, keyedstream.Call[string, string]) string
		text string
	}{
		"step":            {func(*int, string, *callTurn) { panic("fails") }, answers, "fails"},
		"call":            {asks, fails, "fails"},
		"answer":          {asks, answers, "answer"},
		"forget and call": {func(_ *int, _ string, do *callTurn) { do.Call(""); do.Forget() }, answers, "Forget and Call in one turn"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				flow := dataflow.New()
				in, ks := keyedstream.Input[string, string](dataflow.At[Shop](flow), "values")
				keyedstream.CallingMachine(ks, zero, x.step, noRing, keyedstream.Calling(x.call, func(*int, string, string, *callTurn) { panic("answer") }, keyedstream.CallOptions{}), "tested")
				app := starts(t, flow)
				in.Send(t.Context(), "a", "x")
				var failed *dataflow.StepError
				if err := app.Wait(); !errors.As(err, &failed) {
					t.Fatal(err)
				}
				if failed.Op != "keyedstream.CallingMachine" || failed.Key != "a" || !strings.HasPrefix(failed.Pos, "calling_test.go:") || !strings.Contains(failed.Error(), x.text) {
					t.Errorf("%s at %s, key %v: %v", failed.Op, failed.Pos, failed.Key, failed)
				}
			})
		})
	}
}

// TestCallingMachineSchedules checks that two calls are answered in every order, between values.
func TestCallingMachineSchedules(t *testing.T) {
	seen := make(map[string]int)
	n := sim.Exhaustive(t, func(s *sim.Sim) {
		in, ks := keyedstream.Input[string, string](dataflow.At[Shop](s.Flow()), "values")
		emitted, decided := keyedstream.CallingMachine(ks, zero, func(_ *int, v string, do *callTurn) {
			if v == "forget" {
				do.Emit(v)
				do.Forget()
				return
			}
			do.Call(v)
		}, noRing, keyedstream.Calling(func(_ context.Context, c keyedstream.Call[string, string]) string { return c.Request }, func(_ *int, q, z string, do *callTurn) {
			if q != z {
				s.Errorf("%s is the answer to %s", z, q)
			}
			do.Emit(z)
		}, keyedstream.CallOptions{}), "tested")
		keyedsingleton.KeyCount(decided)
		out := keyedstream.Output(emitted, "emitted")
		s.Start()
		for _, v := range []string{"1", "2", "forget"} {
			s.Check(in.Send(s.Context(), "a", v))
		}
		in.Close()
		var got []string
		for {
			e, err := out.Next(s.Context())
			if err != nil {
				break
			}
			got = append(got, e.Value)
		}
		seen[strings.Join(got, " ")]++
	})
	if len(seen) != 5 { // no answer, one or both before "forget", in both orders
		t.Errorf("%d schedules: %v", n, seen)
	}
	if n != 7 { // dropped answers have no order
		t.Errorf("%d schedules, want 7", n)
	}
}

// TestZeroCallingTurn checks that a test can call a step as a function, with a zero turn.
func TestZeroCallingTurn(t *testing.T) {
	n := 0
	var do callTurn
	asks(&n, "x", &do)
	if got := do.Calls(); len(got) != 1 || got[0] != "x" {
		t.Errorf("calls are %q", got)
	}
}
