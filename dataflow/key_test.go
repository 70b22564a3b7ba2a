package dataflow_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

type odd struct {
	Name string
	More [1]struct{ X any }
}

// TestBadKey passes invalid keys to every port. The caller gets an error that names the port and the key. Other
// callers are unaffected, and the port keeps working.
func TestBadKey(t *testing.T) {
	nan := math.NaN()
	t.Run("float", func(t *testing.T) { badKeys(t, 1.5, "NaN", nan, math.Float64frombits(math.Float64bits(nan)^1)) })
	t.Run("complex", func(t *testing.T) { badKeys(t, 1i, "NaN", complex(0, nan), complex(nan, 1)) })
	t.Run("array", func(t *testing.T) { badKeys(t, [2]float32{}, "NaN", [2]float32{0, float32(nan)}) })
	t.Run("any", func(t *testing.T) {
		badKeys[any](t, "fine", "NaN|int|odd|func", nan, []int{1}, map[int]int{}, func() {}, odd{More: [1]struct{ X any }{{[]int{}}}})
	})
	t.Run("struct", func(t *testing.T) {
		badKeys(t, odd{Name: "fine"}, "NaN|odd", odd{More: [1]struct{ X any }{{[]string{}}}}, odd{More: [1]struct{ X any }{{nan}}})
	})
}

func badKeys[K comparable](t *testing.T, good K, shown string, bad ...K) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		at := dataflow.At[server](flow)
		put, entries := keyedsingleton.Input[K, int](at, "entries")
		in, ks := keyedstream.Input[K, int](at, "values")
		out := keyedsingleton.Output(keyedsingleton.Map(entries, func(x int) int { return 2 * x }), "doubled")
		whole := singleton.Output(keyedsingleton.IntoSingleton(keyedstream.Count(ks)), "counts")
		var app *dataflow.App
		refused := func(what, op, port string, err error) {
			t.Helper()
			var e *dataflow.KeyError
			words := fmt.Sprintf(`^%s: %s "%s" \(key_test.go:\d+\): .*(%s).* cannot be a key: it `, strings.Split(op, ".")[0], strings.Split(op, ".")[1], port, shown)
			if !errors.Is(err, dataflow.ErrKey) || !errors.As(err, &e) || e.Op != op || e.Port != port || !regexp.MustCompile(words).MatchString(err.Error()) {
				t.Errorf("%s: %v", what, err)
			}
			if app != nil && app.Err() != nil {
				t.Fatalf("%s ended the flow: %v", what, app.Err())
			}
		}
		for _, started := range []bool{false, true} {
			if started {
				app = start(t, flow)
			}
			for _, k := range bad {
				refused("Put", "keyedsingleton.Input", "entries", put.Put(t.Context(), k, 1))
				refused("Send", "keyedstream.Input", "values", in.Send(t.Context(), k, 1))
				ended, cancel := context.WithCancel(t.Context())
				cancel()
				_, err := out.Await(ended, k)
				refused("Await", "keyedsingleton.Output", "doubled", err)
				_, err = out.Take(t.Context(), k)
				refused("Take", "keyedsingleton.Output", "doubled", err)
				if v, ok := out.Get(k); ok {
					t.Errorf("Get(%v) = %v", k, v)
				}
				if view, _ := whole.Latest(); true {
					if v, ok := view.Get(k); ok {
						t.Errorf("Get(%v) of a view = %v", k, v)
					}
				}
			}
		}
		if err := put.Put(t.Context(), good, 21); err != nil {
			t.Fatal(err)
		}
		if v, err := out.Await(t.Context(), good); v != 42 || err != nil {
			t.Errorf("Await(%v) = %v, %v", good, v, err)
		}
		in.Send(t.Context(), good, 1)
		view, _ := whole.Latest()
		if v, ok := view.Get(good); v != 1 || !ok || view.Len() != 1 {
			t.Errorf("the view is %v", view)
		}
		if v, err := out.Take(t.Context(), good); v != 42 || err != nil || out.Len() != 0 {
			t.Errorf("Take(%v) = %v, %v, and %d are left", good, v, err, out.Len())
		}
		if err := app.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestBadKeyInside computes invalid keys inside the flow. The flow ends, and every waiting caller gets an error
// that names the operator and the call that built it.
func TestBadKeyInside(t *testing.T) {
	type numbers = dataflow.Stream[float64, server, unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]
	nan := math.NaN()
	tests := map[string]func(s numbers, bad any){
		"dataflow.KeyBy":    func(s numbers, bad any) { dataflow.KeyBy(s, func(float64) any { return bad }) },
		"dataflow.KeyByRef": func(s numbers, bad any) { dataflow.KeyByRef(s, func(*float64) any { return bad }) },
		"dataflow.Keyed": func(s numbers, bad any) {
			dataflow.Keyed(dataflow.Map(s, func(float64) dataflow.Entry[any, int] { return dataflow.Entry[any, int]{Key: bad} }))
		},
		"keyedstream.Rekey": func(s numbers, bad any) {
			keyedstream.Rekey(dataflow.KeyBy(s, func(float64) int { return 0 }), func(int, float64) any { return bad })
		},
		"keyedstream.PrefixKey": func(s numbers, bad any) {
			keyedstream.PrefixKey(dataflow.KeyBy(s, func(float64) int { return 0 }), func(int, float64) any { return bad })
		},
	}
	for op, build := range tests {
		for _, bad := range []any{nan, []int{1}, odd{More: [1]struct{ X any }{{nan}}}} {
			t.Run(fmt.Sprintf("%s %T", op, bad), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					flow := dataflow.New()
					at := dataflow.At[server](flow)
					in, s := dataflow.Input[float64](at, "in")
					_, entries := keyedsingleton.Input[int, int](at, "entries")
					out := keyedsingleton.Output(entries, "out")
					build(s, bad)
					app := start(t, flow)
					awaited := make(chan error)
					go func() { _, err := out.Await(t.Context(), 1); awaited <- err }()
					synctest.Wait()
					sent := in.Send(t.Context(), 1)
					for where, err := range map[string]error{"Send": sent, "Await": <-awaited, "Stop": app.Stop(t.Context())} {
						var step *dataflow.StepError
						if !errors.As(err, &step) || step.Op != op || !strings.HasPrefix(step.Pos, "key_test.go:") || !errors.Is(err, dataflow.ErrKey) {
							t.Errorf("%s: %v", where, err)
						}
					}
				})
			})
		}
	}
}

// TestBadKeyOfAntiJoin passes an invalid key among the keys to be left out, which are not keys of any collection
// before. The error must name the operator that could not use it.
func TestBadKeyOfAntiJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		at := dataflow.At[server](flow)
		in, s := dataflow.Input[float64](at, "in")
		batch := slice.Batch(slice.At(at), s, why)
		bad := dataflow.Map(batch, func(float64) any { return []int{1} })
		fine := dataflow.KeyBy(batch, func(x float64) any { return x })
		keyedstream.AntiJoin(fine, bad)
		app := start(t, flow)
		err := in.Send(t.Context(), 1)
		var step *dataflow.StepError
		if !errors.As(err, &step) || step.Op != "keyedstream.AntiJoin" || !strings.HasPrefix(step.Pos, "key_test.go:") {
			t.Errorf("Send: %v, want that AntiJoin failed", err)
		}
		app.Stop(t.Context())
	})
}

// TestBadKeyAtBuild checks that a state refuses an invalid key in its initial content.
func TestBadKeyAtBuild(t *testing.T) {
	for _, bad := range []any{math.NaN(), []int{1}} {
		func() {
			defer func() {
				err, _ := recover().(error)
				if !errors.Is(err, dataflow.ErrKey) || !strings.Contains(err.Error(), "slice: StateEntries (key_test.go:") {
					t.Errorf("%T: %v", bad, err)
				}
			}()
			slice.StateEntries(slice.At(dataflow.At[server](dataflow.New())), dataflow.Entry[any, int]{Key: bad})
		}()
	}
}
