package keyedstream_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
)

const (
	first keyedstream.Timer = iota
	second
)

type (
	pureTurn      = keyedstream.Turn[string, string, int]
	timedTurn     = keyedstream.TimedTurn[string, string, int]
	byName[V any] = dataflow.KeyedStream[string, V, Shop, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]
	decisions     = dataflow.KeyedSingleton[string, int, Shop, bounds.RetainedValue]
)

// logged records what a machine emits and decides, and shows its present decisions.
type logged struct {
	lines []string
	view  *dataflow.SingletonOutputPort[dataflow.View[string, int]]
}

func (l *logged) of(emitted byName[string], decided decisions) {
	keyedstream.InspectWithKey(emitted, func(k, u string) { l.lines = append(l.lines, k+" "+u) })
	keyedsingleton.InspectWithKey(decided, func(k string, a int) { l.lines = append(l.lines, fmt.Sprint(k, " decided ", a)) })
	l.view = singleton.Output(keyedsingleton.IntoSingleton(decided), "decided")
}

// takes returns what was recorded since the last call.
func (l *logged) takes() string {
	lines := strings.Join(l.lines, ", ")
	l.lines = nil
	return lines
}

func zero() int { return 0 }

// TestMachineForgets checks that a machine that forgets at every third value starts anew.
func TestMachineForgets(t *testing.T) {
	n := sim.Exhaustive(t, func(s *sim.Sim) {
		in, ks := keyedstream.Input[string, int](dataflow.At[Shop](s.Flow()), "values")
		numbers, _ := keyedstream.Machine(ks, zero, func(n *int, _ int, do *keyedstream.Turn[string, int, struct{}]) {
			*n++
			do.Emit(*n)
			if *n == 3 {
				do.Forget()
			}
		})
		out := keyedstream.Output(numbers, "numbers")
		s.Start()
		for i := range 7 {
			s.Check(in.Send(s.Context(), "a", i+1))
		}
		var got []int
		for range 7 {
			e, err := out.Next(s.Context())
			s.Check(err)
			got = append(got, e.Value)
		}
		if want := []int{1, 2, 3, 1, 2, 3, 1}; !slices.Equal(got, want) {
			s.Errorf("got %v, want %v", got, want)
		}
	})
	if n != 1 {
		t.Errorf("%d schedules, want 1", n)
	}
}

// TestMachineDecides checks that the first decision of each life counts, and that it exists for
// as long as the life.
func TestMachineDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		in, ks := keyedstream.Input[string, string](dataflow.At[Shop](flow), "values")
		var l logged
		l.of(keyedstream.Machine(ks, zero, func(n *int, v string, do *pureTurn) {
			*n++
			for _, c := range v {
				switch {
				case c == 'f':
					do.Forget()
				case c == 'e':
					do.Emit(fmt.Sprint(do.Key(), *n))
				default:
					do.Decide(int(c - '0'))
				}
			}
		}))
		app := starts(t, flow)
		for _, x := range []struct{ send, want, view string }{
			{"12e", "a a1, a decided 1", "{a:1}"},
			{"3", "", "{a:1}"},
			{"f", "", "{}"},
			{"e3", "a a1, a decided 3", "{a:3}"},
			{"fe4", "a a2", "{}"},
			{"f5e", "a a1, a decided 5", "{}"},
			{"f", "", "{}"},
		} {
			if err := in.Send(t.Context(), "a", x.send); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if got := l.takes(); got != x.want {
				t.Errorf("after %q: %s, want %s", x.send, got, x.want)
			}
			if view, _ := l.view.Latest(); view.String() != x.view {
				t.Errorf("after %q there is %v, want %s", x.send, view, x.view)
			}
		}
		if err := app.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

func starts(t *testing.T, flow *dataflow.Flow) *dataflow.App {
	t.Helper()
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	return app
}

// TestTimedMachineClock sets, moves and stops timers at given times. Each value sent is
// "time command...". A command is one of:
//
//	1+10  set timer 1 to ring after 10 s     1-  stop it
//	f     forget                             f10 forget after 10 s
//	d7    decide 7                           n   nothing
func TestTimedMachineClock(t *testing.T) {
	for _, x := range []struct {
		name  string
		sends []string
		until int
		want  string
	}{
		{"a timer that is set again moves", []string{"0 0+10", "6 0+10"}, 30, "16 rings 0"},
		{"it moves to an earlier time", []string{"0 0+10", "2 0+1"}, 30, "3 rings 0"},
		{"one that is stopped does not ring", []string{"0 0+10", "6 0-"}, 30, ""},
		{"stopping what is not set does nothing", []string{"0 0-", "1 0+1"}, 30, "2 rings 0"},
		{"timers do not disturb each other", []string{"0 0+10 1+5", "1 0-"}, 30, "5 rings 1"},
		{"the later in a turn counts", []string{"0 0+10 0- 1- 1+5 1+6"}, 30, "6 rings 1"},
		{"those of one deadline ring in the order in which they were set", []string{"0 1+10", "4 0+6"}, 30, "10 rings 1, 10 rings 0"},
		{"moving to the same time is setting last", []string{"0 1+10", "4 0+6", "5 1+5"}, 30, "10 rings 0, 10 rings 1"},
		{"no delay", []string{"0 0+0"}, 1, "0 rings 0"},
		{"a negative one", []string{"0 0+-5"}, 1, "0 rings 0"},
		{"forgetting stops timers", []string{"0 0+10 1+11", "5 f", "7 n"}, 30, "7 n has 1"},
		{"a new life has its own", []string{"0 0+10", "5 f", "6 0+10"}, 30, "16 rings 0"},
		{"forgetting after a while", []string{"0 d1 f10", "6 f10", "14 n", "18 n"}, 30, "0 decided 1, 14 n has 3, 18 n has 1"},
		{"forgetting sooner", []string{"0 d1 f10", "6 f1", "8 d2"}, 30, "0 decided 1, 8 decided 2"},
		{"forgetting after a while stops timers", []string{"0 0+10 f5"}, 30, ""},
		{"a ring at the time of forgetting comes first", []string{"0 f10 0+10"}, 30, "10 rings 0"},
		{"centuries", []string{"0 0+9000000000", "1 0+1"}, 30, "2 rings 0"},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				flow := dataflow.New()
				in, ks := keyedstream.Input[string, string](dataflow.At[Shop](flow), "values")
				var got []string
				begin := time.Now()
				say := func(format string, args ...any) {
					got = append(got, fmt.Sprint(int(time.Since(begin).Seconds()), " ")+fmt.Sprintf(format, args...))
				}
				_, decided := keyedstream.TimedMachine(ks, zero, func(n *int, v string, do *timedTurn) {
					*n++
					for _, c := range strings.Fields(v) {
						var timer, d int64 // an int has 32 bits on some machines
						switch {
						case c == "n":
							say("n has %d", *n)
						case c == "f":
							do.Forget()
						case c[0] == 'f':
							fmt.Sscanf(c, "f%d", &d)
							do.ForgetAfter(time.Duration(d) * time.Second)
						case c[0] == 'd':
							fmt.Sscanf(c, "d%d", &d)
							do.Decide(int(d))
						case c[1:] == "-":
							fmt.Sscanf(c, "%d-", &timer)
							do.Stop(keyedstream.Timer(timer))
						default:
							fmt.Sscanf(c, "%d+%d", &timer, &d)
							do.After(keyedstream.Timer(timer), time.Duration(d)*time.Second)
						}
					}
				}, func(_ *int, timer keyedstream.Timer, _ *timedTurn) { say("rings %d", timer) }, "tested")
				keyedsingleton.Inspect(decided, func(a int) { say("decided %d", a) })
				app := starts(t, flow)
				for _, s := range x.sends {
					at, v, _ := strings.Cut(s, " ")
					var seconds int
					fmt.Sscan(at, &seconds)
					time.Sleep(time.Duration(seconds)*time.Second - time.Since(begin))
					synctest.Wait()
					if err := in.Send(t.Context(), "a", v); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Duration(x.until)*time.Second - time.Since(begin))
				synctest.Wait()
				if text := strings.Join(got, ", "); text != x.want {
					t.Errorf("got %s, want %s", text, x.want)
				}
				if err := app.Stop(t.Context()); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// TestTimedMachineStopsWhatIsDue checks that a timer that fires can stop another timer that is
// due at the same time.
func TestTimedMachineStopsWhatIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		in, ks := keyedstream.Input[string, int](dataflow.At[Shop](flow), "values")
		var l logged
		l.of(keyedstream.TimedMachine(ks, zero, func(_ *int, _ int, do *timedTurn) {
			do.After(first, time.Second)
			do.After(second, time.Second)
		}, func(_ *int, timer keyedstream.Timer, do *timedTurn) {
			do.Emit(fmt.Sprint("rings ", timer))
			do.Stop(second)
		}, "tested"))
		app := starts(t, flow)
		if err := in.Send(t.Context(), "a", 1); err != nil {
			t.Fatal(err)
		}
		in.Close()
		if err := app.Wait(); err != nil {
			t.Fatal(err)
		}
		if got, want := l.takes(), "a rings 0"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// TestTimedMachineStopAndRing checks that, if a record stops a timer, the simulator tries both
// that the timer fires before the record and that it does not fire.
func TestTimedMachineStopAndRing(t *testing.T) {
	seen := make(map[string]int)
	n := sim.Exhaustive(t, func(s *sim.Sim) {
		in, ks := keyedstream.Input[string, bool](dataflow.At[Shop](s.Flow()), "values")
		told, _ := keyedstream.TimedMachine(ks, zero, func(_ *int, begin bool, do *timedTurn) {
			if begin {
				do.After(first, 10*time.Second)
				return
			}
			do.Stop(first)
			do.Emit("stopped")
		}, func(_ *int, _ keyedstream.Timer, do *timedTurn) { do.Emit("rang") }, "tested")
		out := keyedstream.Output(told, "told")
		s.Start()
		s.Check(in.Send(s.Context(), "a", true))
		s.Check(in.Send(s.Context(), "a", false))
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
	if n != 2 || seen["stopped"] == 0 || seen["rang stopped"] == 0 || len(seen) != 2 {
		t.Errorf("%d schedules: %v", n, seen)
	}
}

// TestTimedMachineEnds checks that a flow whose inputs are closed waits for timers that are set,
// but not for a timer that was stopped, nor for a life to be forgotten.
func TestTimedMachineEnds(t *testing.T) {
	for _, x := range []struct {
		name string
		last func(do *timedTurn)
		want time.Duration
	}{
		{"a timer is set", func(do *timedTurn) { do.After(first, time.Hour) }, time.Hour},
		{"it was stopped", func(do *timedTurn) { do.Stop(first) }, 0},
		{"its life is over", func(do *timedTurn) { do.Forget() }, 0},
		{"it is sooner now", func(do *timedTurn) { do.After(first, time.Second) }, time.Second},
		{"only a life is to be forgotten", func(do *timedTurn) { do.Stop(first); do.ForgetAfter(24 * time.Hour) }, 0},
		{"both", func(do *timedTurn) { do.ForgetAfter(24 * time.Hour) }, time.Minute},
		{"it is forgotten before", func(do *timedTurn) { do.ForgetAfter(time.Second) }, time.Second},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				flow := dataflow.New()
				in, ks := keyedstream.Input[string, int](dataflow.At[Shop](flow), "values")
				keyedstream.TimedMachine(ks, zero, func(_ *int, v int, do *timedTurn) {
					if v == 0 {
						do.After(first, time.Minute)
					} else {
						x.last(do)
					}
				}, func(*int, keyedstream.Timer, *timedTurn) {}, "tested")
				app := starts(t, flow)
				begin := time.Now()
				for v := range 2 {
					if err := in.Send(t.Context(), "a", v); err != nil {
						t.Fatal(err)
					}
				}
				in.Close()
				if err := app.Wait(); err != nil {
					t.Fatal(err)
				}
				if got := time.Since(begin); got != x.want {
					t.Errorf("it ended after %v, want %v", got, x.want)
				}
			})
		})
	}
}
