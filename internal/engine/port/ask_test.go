package port

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
)

// asks is a flow of requests and responses. The responses come at once, later, or out of a slice.
type asks struct {
	g   *engine.Graph
	in  *KeyedInput[int, int]
	out *EntryOutput[int, int]
}

func newAsks(t *testing.T, how int) *asks {
	g := newTestGraph()
	s := g.NewLocation("here")
	in, n := NewEntryInput[int, int](s, engine.NewOp(s, "Input", ""), nil)
	n = operators.KMap(n, engine.NewOp(s, "KMap", ""), func(v int) int { return v + 1 })
	switch how {
	case 1:
		n = operators.After(n, engine.NewOp(s, "After", ""), time.Millisecond, nil)
	case 2:
		r := engine.NewSlice(s)
		n = operators.EmitKeyed(operators.BatchKeyed(r, n, engine.NewOp(s, "BatchKeyed", ""), true), engine.NewOp(s, "EmitKeyed", ""))
	case 3:
		n = MapAsync(n, engine.NewOp(s, "MapAsync", ""), func(_ context.Context, _, v int) int { return v }, 2)
	}
	out := NewEntryOutput(n, engine.NewOp(s, "Output", ""))
	g.Start(t.Context())
	return &asks{g, in, out}
}

func (a *asks) ask(ctx context.Context, k, v int) (int, error) { return Ask(ctx, a.in, a.out, k, v) }

func (a *asks) stop(t *testing.T) {
	t.Helper()
	a.g.Stop()
	if err := a.g.Wait(); err != nil {
		t.Error(err)
	}
}

var ways = []string{"at once", "later", "in a slice", "asynchronously"}

// TestAsk checks that Ask returns the response to its request in each of these ways and leaves no
// entry or waiter.
func TestAsk(t *testing.T) {
	for how, way := range ways {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAsks(t, how)
				for k := range 20 {
					if v, err := a.ask(t.Context(), k, 10*k); v != 10*k+1 || err != nil {
						t.Fatalf("Ask(%d) = %d, %v", k, v, err)
					}
				}
				if n := a.out.Len() + int(a.out.listeners.Load()); n != 0 {
					t.Errorf("%d entries or waiters are left", n)
				}
				if _, err := a.ask(t.Context(), 3, 0); !errors.Is(err, engine.ErrDuplicate) {
					t.Errorf("the second request of a key: %v", err)
				}
				a.in.Close()
				if _, err := a.ask(t.Context(), 99, 0); !errors.Is(err, engine.ErrClosed) {
					t.Errorf("after Close: %v", err)
				}
				a.stop(t)
				if len(a.out.woken) != 0 || a.out.request != (ownRequest[int, int]{}) {
					t.Errorf("%d waiters and the request %v are left", len(a.out.woken), a.out.request)
				}
			})
		})
	}
}

// TestAskThatEnds checks that if ctx ends first, the request was accepted and its response can be
// taken. If the flow ends first, there is no response.
func TestAskThatEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsks(t, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Microsecond)
		defer cancel()
		if _, err := a.ask(ctx, 1, 5); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Ask with a deadline returned %v", err)
		}
		if v, err := a.out.Await(t.Context(), 1, true); v != 6 || err != nil {
			t.Errorf("Take afterwards returned %d, %v", v, err)
		}
		var asking sync.WaitGroup
		asking.Go(func() {
			if _, err := a.ask(t.Context(), 2, 5); !errors.Is(err, io.EOF) {
				t.Errorf("Ask of a flow that ends returned %v", err)
			}
		})
		synctest.Wait()
		a.stop(t)
		asking.Wait()
	})
}

// TestAskAmongOthers checks that an Await for the key of a request receives the response too, and
// that a Take that waited before the request takes it.
func TestAskAmongOthers(t *testing.T) {
	for how, way := range ways {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAsks(t, how)
				var others sync.WaitGroup
				for _, k := range []int{1, 1, 2} {
					others.Go(func() {
						if v, err := a.out.Await(t.Context(), k, false); v != 10*k+1 || err != nil {
							t.Errorf("Await(%d) = %d, %v", k, v, err)
						}
					})
				}
				synctest.Wait()
				for k := range 3 {
					if v, err := a.ask(t.Context(), k, 10*k); v != 10*k+1 || err != nil {
						t.Errorf("Ask(%d) = %d, %v", k, v, err)
					}
				}
				others.Wait()
				others.Go(func() {
					if v, err := a.out.Await(t.Context(), 7, true); v != 8 || err != nil {
						t.Errorf("Take = %d, %v", v, err)
					}
				})
				synctest.Wait()
				if v, err := a.ask(t.Context(), 7, 7); !errors.Is(err, engine.ErrTaken) {
					t.Errorf("Ask behind a Take = %d, %v", v, err)
				}
				others.Wait()
				a.stop(t)
			})
		})
	}
}

// TestAskOfABusyLocation checks that a Take that begins while a request waits for a busy location
// does not take its response.
func TestAskOfABusyLocation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTestGraph()
		s := g.NewLocation("here")
		in, n := NewEntryInput[int, int](s, engine.NewOp(s, "Input", ""), nil)
		free := make(chan struct{})
		out := NewEntryOutput(operators.KMap(n, engine.NewOp(s, "KMap", ""), func(v int) int {
			if v == 0 {
				<-free
			}
			return v
		}), engine.NewOp(s, "Output", ""))
		g.Start(t.Context())
		var all sync.WaitGroup
		all.Go(func() { in.Send(t.Context(), 0, 0) })
		synctest.Wait()
		all.Go(func() {
			if v, err := Ask(t.Context(), in, out, 1, 11); v != 11 || err != nil {
				t.Errorf("Ask = %d, %v", v, err)
			}
		})
		synctest.Wait()
		all.Go(func() {
			if _, err := Ask(t.Context(), in, out, 1, 12); !errors.Is(err, engine.ErrDuplicate) {
				t.Errorf("the second request: %v", err)
			}
		})
		synctest.Wait()
		all.Go(func() {
			if v, err := out.Await(t.Context(), 1, true); !errors.Is(err, engine.ErrTaken) {
				t.Errorf("Take = %d, %v", v, err)
			}
		})
		synctest.Wait()
		close(free)
		all.Wait()
		g.Stop()
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// TestAskIsFirst checks that a Take that begins while the request is handled does not take its
// response, even if the response is at another location.
func TestAskIsFirst(t *testing.T) {
	for _, moved := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g := newTestGraph()
			s := g.NewLocation("here")
			in, n := NewEntryInput[int, int](s, engine.NewOp(s, "Input", ""), nil)
			var out *EntryOutput[int, int]
			var takes sync.WaitGroup
			n = operators.KMap(n, engine.NewOp(s, "KMap", ""), func(v int) int {
				takes.Go(func() {
					if v, err := out.Await(t.Context(), 1, true); !errors.Is(err, engine.ErrTaken) {
						t.Errorf("Take = %d, %v", v, err)
					}
				})
				takes.Go(func() {
					if v, err := out.Await(t.Context(), 1, false); v != 5 || err != nil {
						t.Errorf("Await = %d, %v", v, err)
					}
				})
				synctest.Wait()
				return v
			})
			if moved {
				s = g.NewLocation("there")
				n = KeyedExchange(n, engine.NewOp(s, "KMove", ""))
			}
			out = NewEntryOutput(n, engine.NewOp(s, "Output", ""))
			g.Start(t.Context())
			deadline, stop := context.WithTimeout(t.Context(), time.Second)
			defer stop()
			if v, err := Ask(deadline, in, out, 1, 5); v != 5 || err != nil {
				t.Errorf("Ask = %d, %v", v, err)
			}
			takes.Wait()
			if n := out.Len() + int(out.listeners.Load()); n != 0 {
				t.Errorf("%d entries or waiters are left", n)
			}
			g.Stop()
			if err := g.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAskThatFails checks that a request whose function panics returns the failure of the flow.
func TestAskThatFails(t *testing.T) {
	g := newTestGraph()
	s := g.NewLocation("here")
	in, n := NewEntryInput[int, int](s, engine.NewOp(s, "Input", ""), nil)
	out := NewEntryOutput(operators.KMap(n, engine.NewOp(s, "KMap", ""), func(v int) int { return 1 / v }), engine.NewOp(s, "Output", ""))
	g.Start(t.Context())
	if v, err := Ask(t.Context(), in, out, 1, 1); v != 1 || err != nil {
		t.Errorf("Ask = %d, %v", v, err)
	}
	for k := 2; k < 4; k++ {
		_, err := Ask(t.Context(), in, out, k, 0)
		var p *engine.Panic
		if !errors.As(err, &p) || p.Op.Name != "KMap" || p.Key != 2 {
			t.Errorf("Ask(%d) returned %v", k, err)
		}
	}
}

// TestAskByMany runs goroutines that ask, put and take, or await at once. Each gets the response
// to its own request, once.
func TestAskByMany(t *testing.T) {
	for how, way := range ways {
		t.Run(way, func(t *testing.T) {
			a := newAsks(t, how)
			const callers, each = 8, 300
			var all sync.WaitGroup
			var failed atomic.Bool
			check := func(what string, k, v int, err error) {
				if (v != 10*k+1 || err != nil) && !failed.Swap(true) {
					t.Errorf("%s(%d) = %d, %v", what, k, v, err)
				}
			}
			for c := range callers {
				all.Go(func() {
					r := rand.New(rand.NewPCG(uint64(c), uint64(how)))
					for i := range each {
						k := i*callers + c
						var awaiting sync.WaitGroup
						if r.IntN(4) == 0 {
							begun := make(chan struct{})
							awaiting.Go(func() {
								ctx, cancel := context.WithCancel(t.Context())
								defer cancel()
								if k%2 == 0 { // the entry may have been taken
									cancel()
								}
								close(begun)
								if v, err := a.out.Await(ctx, k, false); err == nil {
									check("Await", k, v, nil)
								}
							})
							<-begun
						}
						if r.IntN(3) == 0 {
							err := a.in.Send(t.Context(), k, 10*k)
							if err == nil && k%2 == 0 {
								var v int
								v, err = a.out.Await(t.Context(), k, true)
								check("Take", k, v, err)
							} else if err != nil {
								check("Put", k, 0, err)
							}
						} else if k%2 == 0 {
							v, err := a.ask(t.Context(), k, 10*k)
							check("Ask", k, v, err)
						} else if err := a.in.Send(t.Context(), k, 10*k); err != nil {
							check("Put", k, 0, err)
						}
						awaiting.Wait()
					}
				})
			}
			all.Wait()
			a.stop(t)
			if got, want := a.out.Len(), callers*each/2; got != want {
				t.Errorf("%d entries are left, want the %d that nobody took", got, want)
			}
			if n := a.out.listeners.Load(); n != 0 {
				t.Errorf("%d waiters are left", n)
			}
		})
	}
}
