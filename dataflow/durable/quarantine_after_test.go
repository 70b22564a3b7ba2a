package durable

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

type laterPorts struct {
	in   *dataflow.KeyedInputPort[string, int]
	late *dataflow.EntryOutputPort[string, int]
}

// The kinds of timers of [later], and of the functions below them that fail.
var laterTimers, laterBelow = []string{"constant", "each", "lives"}, []string{"inspect", "map", "machine"}

// later returns a flow that outputs the first number of each key a second later. With the timers
// "lives", a number below 0 ends the life of a key. fails reports for which keys the function
// below the timers panics.
func later(timers, below string, fails func(string) bool) func(*dataflow.Flow) laterPorts {
	const why = "tested"
	check := func(k string) {
		if fails(k) {
			panic("too late for " + k)
		}
	}
	type machineTurn = keyedstream.TimedTurn[string, int, int]
	return func(f *dataflow.Flow) laterPorts {
		in, numbers := keyedstream.Input[string, int](dataflow.At[members](f), "in")
		p := laterPorts{in: in}
		if timers == "lives" {
			_, first := keyedstream.TimedMachine(numbers, func() int { return 0 }, func(_ *int, x int, do *machineTurn) {
				if do.Decide(x); x < 0 {
					do.Forget()
				}
			}, func(*int, keyedstream.Timer, *machineTurn) {}, why)
			late := keyedsingleton.After(first, time.Second, why)
			p.late = keyedsingleton.Output(keyedsingleton.InspectWithKey(late, func(k string, _ int) { check(k) }), "late")
			return p
		}
		first := keyedstream.First(numbers)
		late := keyedsingleton.After(first, time.Second, why)
		if timers == "each" {
			late = keyedsingleton.AfterEach(first, func(x int) time.Duration { return time.Second + time.Duration(x%3)*time.Millisecond }, why)
		}
		switch below {
		case "map":
			late = keyedsingleton.MapWithKey(late, func(k string, x int) int { check(k); return x })
		case "machine":
			_, decided := keyedstream.Machine(keyedsingleton.IntoKeyedStream(late), func() int { return 0 },
				func(_ *int, x int, do *keyedstream.Turn[string, int, int]) { check(do.Key()); do.Decide(x) })
			p.late = keyedsingleton.Output(decided, "late")
			return p
		default:
			late = keyedsingleton.InspectWithKey(late, func(k string, _ int) { check(k) })
		}
		p.late = keyedsingleton.Output(late, "late")
		return p
	}
}

// laterTest runs a flow of [later].
type laterTest struct {
	*testing.T
	app    *App[laterPorts]
	log    *journal.Memory
	o      Options
	build  func(*dataflow.Flow) laterPorts
	mended atomic.Bool
	killed bool
}

func newLaterTest(t *testing.T, timers, below string, killed bool) *laterTest {
	x := &laterTest{T: t, killed: killed, log: journal.NewMemory(journal.MemoryOptions{Partitions: 2}), o: Options{SnapshotBytes: 500}}
	x.build = later(timers, below, func(k string) bool { return !x.mended.Load() && strings.HasPrefix(k, "bad") })
	x.app = start(t, x.log, x.build, x.o)
	return x
}

func (x *laterTest) send(k string, n int) {
	x.Helper()
	if err := x.app.Ports.in.Send(x.Context(), k, n); err != nil {
		x.Fatal(err)
	}
}

// restart restarts the flow. If killed is set, the flow makes no last snapshot.
func (x *laterTest) restart() {
	if x.killed {
		x.app.core.abandoned.Store(true)
	}
	stop(x.T, x.app)
	x.log = x.log.Reopen()
	x.app = start(x.T, x.log, x.build, x.o)
	time.Sleep(time.Second)
}

func (x *laterTest) letters(want int) []Letter {
	x.Helper()
	x.restart()
	all, err := x.app.Quarantine(x.Context())
	if err != nil || len(all) != want {
		x.Fatalf("%d letters in quarantine (%v), want %d: %+v", len(all), err, want, all)
	}
	return all
}

func (x *laterTest) keyOf(l Letter) (k string) {
	x.Helper()
	if err := CBOR().Decode(l.Key, &k); err != nil {
		x.Fatal(err)
	}
	return k
}

// want checks the late number of a key, where 0 means none.
func (x *laterTest) want(k string, n int) {
	x.Helper()
	synctest.Wait()
	if got, there := x.app.Ports.late.Get(k); got != n || there != (n != 0) {
		x.Errorf("the late number of %s is %d (%v), want %d", k, got, there, n)
	}
}

func (x *laterTest) settle(l Letter, settle func(*App[laterPorts]) error) {
	x.Helper()
	if err := settle(x.app); err != nil {
		x.Errorf("%s: %v", l.Key, err)
	}
}

func (x *laterTest) retry(l Letter) {
	x.Helper()
	x.settle(l, func(a *App[laterPorts]) error { return a.Retry(x.Context(), l.Partition, l.ID) })
}

func (x *laterTest) drop(l Letter) {
	x.Helper()
	x.settle(l, func(a *App[laterPorts]) error { return a.Drop(x.Context(), l.Partition, l.ID) })
}

// TestQuarantinedAfter has delayed entries on which a function panics. Their timers are held, and
// all others fire. A retried entry appears when the program can handle it. A dropped one never
// appears. This also holds after a restart and after a kill, with snapshots that contain held
// timers.
func TestQuarantinedAfter(t *testing.T) {
	for _, timers := range laterTimers {
		for _, below := range laterBelow {
			if timers == "lives" && below != "inspect" {
				continue
			}
			for _, killed := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/killed=%v", timers, below, killed), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { quarantinedAfter(newLaterTest(t, timers, below, killed)) })
				})
			}
		}
	}
}

func quarantinedAfter(x *laterTest) {
	const keys = 1000
	for k := range keys { // most keys have the same deadline: no time passes
		name := fmt.Sprint("k", k)
		if k%400 == 13 {
			name = fmt.Sprint("bad", k)
		}
		x.send(name, k+1)
	}
	time.Sleep(2 * time.Second)
	for _, l := range x.letters(3) {
		if !strings.HasPrefix(x.keyOf(l), "bad") || !strings.Contains(l.Reason, "too late") || !strings.Contains(l.Operator, "After") || string(l.Record) != "\x00" {
			x.Errorf("a letter is %+v", l)
		}
	}
	for k := range keys {
		if k%400 != 13 {
			x.want(fmt.Sprint("k", k), k+1)
		} else {
			x.want(fmt.Sprint("bad", k), 0)
		}
	}
	for _, l := range x.letters(3) { // the program is not fixed yet
		var still *QuarantinedError
		if err := x.app.Retry(x.Context(), l.Partition, l.ID); !errors.As(err, &still) || still.Letter != l.ID {
			x.Errorf("Retry of %s, which fails again: %v", l.Key, err)
		}
	}
	x.mended.Store(true)
	for _, l := range x.letters(3) {
		if x.keyOf(l) == "bad413" {
			x.drop(l)
		} else {
			x.retry(l)
		}
	}
	x.letters(0)
	x.want("bad13", 14)
	x.want("bad413", 0)
	x.want("bad813", 814)
	x.send("kx", 7) // may reuse the slot of the dropped timer
	x.send("bad413", 8)
	time.Sleep(3 * time.Second)
	x.want("kx", 7)
	x.want("bad413", 0)
	if n := x.app.Ports.late.Len(); n != keys {
		x.Errorf("%d entries of %d keys", n, keys)
	}
	stop(x.T, x.app)
}

// TestHeldAfterEnds ends the life of a key whose timer is held, and starts a new life of the key.
func TestHeldAfterEnds(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed=%v", killed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := newLaterTest(t, "lives", "inspect", killed)
				for k := range 3 {
					x.send(fmt.Sprint("bad", k), 1)
				}
				time.Sleep(2 * time.Second)
				x.letters(3)
				x.send("bad0", -1) // the life ends
				x.send("bad1", -1) // the life ends and a new one starts
				x.send("bad1", 2)
				time.Sleep(2 * time.Second)
				x.letters(3)
				x.mended.Store(true)
				x.send("bad2", -1) // the life ends and a new one starts, whose timer is not held
				x.send("bad2", 3)
				x.send("new", 4)
				for _, l := range x.letters(3) {
					x.retry(l)
				}
				time.Sleep(2 * time.Second)
				x.letters(0)
				x.want("bad0", 0)
				x.want("bad1", 2)
				x.want("bad2", 3)
				x.want("new", 4)
				for k := range 3 {
					x.send(fmt.Sprint("bad", k), -1)
				}
				x.want("bad1", 0)
				stop(t, x.app)
			})
		})
	}
}

// TestDroppedAfter ends the life of a key whose timer was dropped, and checks that the next life
// is not affected.
func TestDroppedAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newLaterTest(t, "lives", "inspect", true)
		x.send("bad", 1)
		time.Sleep(2 * time.Second)
		x.drop(x.letters(1)[0])
		x.letters(0)
		x.mended.Store(true)
		x.send("bad", -1)
		x.send("bad", 2)
		time.Sleep(2 * time.Second)
		x.want("bad", 2)
		x.letters(0)
		stop(t, x.app)
	})
}

// TestHeldAfterTimer has a failing timer that another timer sets in the same step, because both
// are due when the flow restarts. The failing timer is held, and the other keys get their entries.
func TestHeldAfterTimer(t *testing.T) {
	for _, second := range []time.Duration{time.Second, 0} {
		t.Run(second.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := &laterTest{T: t, log: journal.NewMemory(journal.MemoryOptions{Partitions: 2})}
				x.build = func(f *dataflow.Flow) laterPorts {
					in, numbers := keyedstream.Input[string, int](dataflow.At[members](f), "in")
					late := keyedsingleton.After(keyedsingleton.After(keyedstream.First(numbers), time.Second, "tested"), second, "tested")
					return laterPorts{in, keyedsingleton.Output(keyedsingleton.InspectWithKey(late, func(k string, _ int) {
						if !x.mended.Load() && strings.HasPrefix(k, "bad") {
							panic("too late for " + k)
						}
					}), "late")}
				}
				x.app = start(t, x.log, x.build, x.o)
				for i := range 40 {
					x.send(fmt.Sprint("k", i), i+1)
				}
				x.send("bad1", 41)
				x.send("bad2", 42)
				stop(t, x.app)
				time.Sleep(time.Minute)
				x.app = start(t, x.log.Reopen(), x.build, x.o)
				time.Sleep(time.Minute)
				for i := range 40 {
					x.want(fmt.Sprint("k", i), i+1)
				}
				x.mended.Store(true)
				x.log = x.log.Reopen()
				for _, l := range x.letters(2) {
					x.retry(l)
				}
				x.want("bad1", 41)
				x.want("bad2", 42)
				stop(t, x.app)
			})
		})
	}
}

// TestHeldAfterAtOnce has a function fail on entries without a delay while many other records
// arrive.
func TestHeldAfterAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &laterTest{T: t, log: journal.NewMemory(journal.MemoryOptions{Partitions: 2})}
		x.build = func(f *dataflow.Flow) laterPorts {
			in, numbers := keyedstream.Input[string, int](dataflow.At[members](f), "in")
			late := keyedsingleton.AfterEach(keyedstream.First(numbers), func(x int) time.Duration { return time.Duration(-x) }, "tested")
			return laterPorts{in, keyedsingleton.Output(keyedsingleton.InspectWithKey(late, func(k string, _ int) {
				if !x.mended.Load() && strings.HasPrefix(k, "bad") {
					panic("too late for " + k)
				}
			}), "late")}
		}
		x.app = start(t, x.log, x.build, x.o)
		done := make(chan error)
		for i := range 40 {
			go func() { done <- x.app.Ports.in.Send(t.Context(), fmt.Sprint([]string{"k", "bad"}[i%20/19], i), i+1) }()
		}
		for range 40 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		time.Sleep(time.Second)
		x.letters(2)
		for i := range 40 {
			if i%20 != 19 {
				x.want(fmt.Sprint("k", i), i+1)
			}
		}
		x.mended.Store(true)
		for _, l := range x.letters(2) {
			x.retry(l)
		}
		x.want("bad19", 20)
		stop(t, x.app)
	})
}
