package machines

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/live"
	"github.com/millrace/millrace/internal/engine/port"
	"github.com/millrace/millrace/internal/engine/state"
	"github.com/millrace/millrace/internal/long"
)

// A tested is a running graph with one timed machine.
type tested struct {
	*machine[int, int, int, int]
	t     *testing.T
	graph *engine.Graph
	in    *port.KeyedInput[int, int]
	turn  *Turn[int, int, int]
	came  int // number of emitted values
}

func newTested(t *testing.T, step func(*Turn[int, int, int], *int, int), fire func(*Turn[int, int, int], *int, uint8)) *tested {
	x := &tested{t: t, turn: new(Turn[int, int, int])}
	x.graph = live.Drive(engine.New(engine.Settings{Queue: 64, Buffer: 1 << 20, Wrap: func(p *engine.Panic) error { return p }}))
	s := x.graph.NewLocation("here")
	in, values := port.NewKeyedInput[int, int](s, engine.NewOp(s, "Input", ""))
	x.in = in
	x.machine = newTimed(values, engine.NewOp(s, "TimedMachine", ""), x.turn, func() int { return 0 }, state.Plain[int], func(s *int, id uint8) { fire(x.turn, s, id) })
	takeValues(x.machine, values, func(s *int, v int) { step(x.turn, s, v) })
	x.emitted.To(func(b *engine.Batch[int, int]) { x.came += len(b.K) }).One = func(int, int, uint64) { x.came++ }
	x.graph.Start(t.Context())
	return x
}

// send sends n values, each with its own key, in batches.
func (x *tested) send(n int) {
	const size = 1000
	ks, vs := make([]int, size), make([]int, size)
	for at := 0; at < n; at += size {
		for i := range ks {
			ks[i] = at + i
		}
		if _, err := x.in.SendBatch(context.Background(), ks[:min(size, n-at)], vs[:min(size, n-at)]); err != nil {
			x.t.Fatal(err)
		}
	}
	synctest.Wait()
}

func (x *tested) stop() {
	x.graph.Stop()
	if err := x.graph.Wait(); err != nil {
		x.t.Fatal(err)
	}
}

// TestNothingIsLeftOfLives ends many lives, in each way in which a life can end, and checks that
// nothing still refers to one.
func TestNothingIsLeftOfLives(t *testing.T) {
	lives := long.Of(100_000, 1_000_000)
	for name, step := range map[string]func(*Turn[int, int, int], *int, int){
		"a ring forgets": func(do *Turn[int, int, int], _ *int, _ int) {
			do.ForgetAfter(time.Hour)
			do.After(3, 2*time.Minute)
			do.After(2, time.Minute)
			do.After(1, 2*time.Minute)
		},
		"the clock forgets": func(do *Turn[int, int, int], _ *int, _ int) {
			do.ForgetAfter(time.Minute)
			do.After(3, 2*time.Minute)
			do.Decide(1)
		},
		"a value forgets": func(do *Turn[int, int, int], s *int, _ int) {
			if *s++; *s == 2 {
				do.Forget()
				return
			}
			do.ForgetAfter(time.Hour)
			do.After(0, time.Hour)
			do.After(255, time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := newTested(t, step, func(do *Turn[int, int, int], _ *int, id uint8) {
					if do.Emit(1); id != 2 {
						t.Error("a timer rings whose life is over")
					}
					do.Forget()
				})
				x.send(lives)
				x.in.Loc.Mu.Lock() // timers fire on goroutines of their own
				n := x.lives.Len()
				x.in.Loc.Mu.Unlock()
				if n != lives {
					t.Fatalf("%d lives", n)
				}
				if name == "a value forgets" {
					x.send(lives)
				}
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				for part, n := range map[string]int{
					"lives": x.lives.Len(), "rings": x.timers.byID.Len(), "due": x.timers.due.Len(), "idle": x.timers.idle.Len(),
					"emitted": len(x.us.K), "decided": len(x.as.K), "actions": len(x.turn.timers),
				} {
					if n != 0 {
						t.Errorf("%d %s are left", n, part)
					}
				}
				x.stop()
			})
		})
	}
}

// TestMemoryOfLivesIsGivenBack creates many lives with a timer each, and forgets all of them or all
// except a few.
func TestMemoryOfLivesIsGivenBack(t *testing.T) {
	lives := long.Of(500_000, 2_000_000)
	for name, c := range map[string]struct {
		left int // every left-th key stays
		most int64
	}{"all": {lives + 1, 20 << 20}, "all but 2,000": {1000, 60 << 20}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				before := heap()
				x := newTested(t, func(do *Turn[int, int, int], _ *int, _ int) {
					if do.After(0, time.Minute); (do.Key()+1)%c.left == 0 {
						do.After(0, 24*time.Hour)
					}
				}, func(do *Turn[int, int, int], _ *int, _ uint8) { do.Forget() })
				x.send(lives)
				full := heap()
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				after := heap()
				t.Logf("%d MiB with %d lives, %d MiB with %d", (full-before)>>20, lives, (after-before)>>20, x.lives.Len())
				if after-before > c.most {
					t.Errorf("%d bytes are left", after-before)
				}
				x.stop()
			})
		})
	}
}

// TestMemoryOfPassingKeys sends a hundred thousand users a minute, each of them once. Each is
// forgotten a minute later. After two million users the memory must be the same as after the first minute.
func TestMemoryOfPassingKeys(t *testing.T) {
	const users, minutes = 100_000, 20
	synctest.Test(t, func(t *testing.T) {
		before := heap()
		x := newTested(t, func(do *Turn[int, int, int], seen *int, _ int) {
			*seen++
			do.After(0, time.Minute)
		}, func(do *Turn[int, int, int], _ *int, _ uint8) { do.Forget() })
		for minute := range minutes {
			for k := range users {
				if err := x.in.Send(context.Background(), minute*users+k, 1); err != nil {
					t.Fatal(err)
				}
			}
			if minute == 0 || minute == minutes-1 {
				kept := heap() - before
				t.Logf("%d KiB after %d users", kept>>10, (minute+1)*users)
				if kept > 20<<20 {
					t.Errorf("%d bytes are kept after %d users", kept, (minute+1)*users)
				}
			}
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		x.stop()
	})
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestSteadyStateAllocatesNothing sends values of keys that exist, and of keys that come and go.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	x := newTested(t, func(do *Turn[int, int, int], s *int, v int) {
		*s += v
		do.Emit(v)
		do.Decide(v)
		do.After(1, time.Hour)
		do.ForgetAfter(time.Hour)
		if do.Stop(1); do.Key() > 10 {
			do.Forget()
		}
	}, func(*Turn[int, int, int], *int, uint8) {})
	k := 0
	send := func() {
		k = (k + 1) % 20
		if err := x.in.Send(context.Background(), k, 1); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		send()
	}
	if n := testing.AllocsPerRun(1000, send); n != 0 {
		t.Errorf("a value allocates %v times", n)
	}
	if x.came < 1000 {
		t.Errorf("only %d elements came", x.came)
	}
	x.stop()
}
