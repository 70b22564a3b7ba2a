package keyedstream_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedstream"
)

// TestMachinePanics checks that an error names the operator and the key, for each function
// of a machine.
func TestMachinePanics(t *testing.T) {
	fails := func() int { panic("fails") }
	for name, build := range map[string]func(ks byName[int]){
		"keyedstream.Machine init": func(ks byName[int]) { keyedstream.Machine(ks, fails, func(*int, int, *pureTurn) {}) },
		"keyedstream.Machine step": func(ks byName[int]) {
			keyedstream.Machine(ks, zero, func(_ *int, v int, _ *pureTurn) { _ = 1 / v })
		},
		"keyedstream.TimedMachine step": func(ks byName[int]) {
			keyedstream.TimedMachine(ks, zero, func(_ *int, v int, _ *timedTurn) { _ = 1 / v }, func(*int, keyedstream.Timer, *timedTurn) {}, "tested")
		},
		"keyedstream.TimedMachine ring": func(ks byName[int]) {
			keyedstream.TimedMachine(ks, zero, func(_ *int, v int, do *timedTurn) {
				if v == 0 {
					do.After(first, time.Second)
				}
			}, func(*int, keyedstream.Timer, *timedTurn) { fails() }, "tested")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				flow := dataflow.New()
				in, ks := keyedstream.Input[string, int](dataflow.At[Shop](flow), "values")
				build(ks)
				app := starts(t, flow)
				if !strings.HasSuffix(name, "init") {
					if err := in.Send(t.Context(), "b", 1); err != nil {
						t.Fatal(err)
					}
				}
				in.Send(t.Context(), "a", 0)
				var failed *dataflow.StepError
				if err := app.Wait(); !errors.As(err, &failed) {
					t.Fatal(err)
				}
				if op, _, _ := strings.Cut(name, " "); failed.Op != op || failed.Key != "a" || !strings.HasPrefix(failed.Pos, "turn_test.go:") {
					t.Errorf("%s at %s, key %v: %v", failed.Op, failed.Pos, failed.Key, failed)
				}
			})
		})
	}
}

// TestTurnIsOver checks that a turn panics if it is used after its function has returned.
func TestTurnIsOver(t *testing.T) {
	flow := dataflow.New()
	in, ks := keyedstream.Input[string, int](dataflow.At[Shop](flow), "values")
	var kept *timedTurn
	keyedstream.TimedMachine(ks, zero, func(_ *int, _ int, do *timedTurn) { kept = do }, func(*int, keyedstream.Timer, *timedTurn) {}, "tested")
	app := starts(t, flow)
	if err := in.Send(t.Context(), "a", 0); err != nil {
		t.Fatal(err)
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, use := range map[string]func(){
		"Key": func() { kept.Key() }, "Emit": func() { kept.Emit("") }, "Decide": func() { kept.Decide(0) }, "Forget": func() { kept.Forget() },
		"After": func() { kept.After(first, 0) }, "Stop": func() { kept.Stop(first) }, "ForgetAfter": func() { kept.ForgetAfter(0) }, "Now": func() { kept.Now() },
	} {
		func() {
			defer func() {
				if text := fmt.Sprint(recover()); !strings.Contains(text, "the turn is used after") {
					t.Errorf("%s: %s", name, text)
				}
			}()
			use()
		}()
	}
}

// TestZeroTurn checks the methods of a zero turn, with which a test calls a step as a function.
func TestZeroTurn(t *testing.T) {
	var do timedTurn
	do.Emit("x")
	do.Decide(1)
	do.Decide(2)
	do.After(first, time.Minute)
	do.After(second, -1)
	do.Stop(first)
	do.ForgetAfter(time.Hour)
	if got := do.Emitted(); !slices.Equal(got, []string{"x"}) {
		t.Errorf("emitted %v", got)
	}
	if a, ok := do.Decision(); a != 1 || !ok {
		t.Errorf("decided %v, %v", a, ok)
	}
	if d, set := do.Set(first); set || !do.Stops(first) {
		t.Errorf("the first timer is set to %v, %v", d, set)
	}
	if d, set := do.Set(second); d != 1 || !set || do.Stops(second) {
		t.Errorf("the second timer is set to %v, %v", d, set)
	}
	if d, set := do.ForgetsAfter(); d != time.Hour || !set || do.Forgets() || do.Now() != 0 || do.Key() != "" {
		t.Errorf("to be forgotten after %v, %v; %v", d, set, do.Forgets())
	}
	if do.Forget(); !do.Forgets() {
		t.Error("it is not forgotten")
	}
}
