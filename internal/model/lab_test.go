package model

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/leanovate/gopter"
	"github.com/leanovate/gopter/gen"
	"github.com/leanovate/gopter/prop"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

// A law says that two collections always have the same contents, and why.
type law struct {
	name  string
	why   string
	build func(l *lab) (a, b look)
}

// A look returns the current contents of a collection.
type look func() string

// A lab is a flow with the inputs that laws need.
type lab struct {
	at      here
	tick    inside
	xs, ys  stream
	ks, js  streams
	entries fixed
	names   int
}

// A move is a record for one of the inputs of a lab.
type move struct{ Input, Key, Value int }

// moves generates histories, and sizes generates how many of their records share a step. The
// remaining records come one by one.
var (
	moves = gen.SliceOf(gen.Struct(reflect.TypeFor[move](), map[string]gopter.Gen{
		"Input": gen.IntRange(0, 4), "Key": gen.IntRange(0, 4), "Value": gen.IntRange(0, 12),
	}))
	sizes = gen.SliceOf(gen.IntRange(1, 6))
)

// hold checks a law with random histories.
func hold(t *testing.T, l law) {
	t.Helper()
	params := gopter.DefaultTestParametersWithSeed(int64(*seed))
	params.MinSuccessfulTests, params.MaxSize = 40, 30
	props := gopter.NewProperties(params)
	props.Property(l.name, prop.ForAll(func(h []move, sizes []int) string { return l.breaks(h, sizes) }, moves, sizes))
	var report bytes.Buffer
	if !props.Run(gopter.NewFormatedReporter(false, 100, &report)) {
		t.Errorf("%s\nit must hold because %s\n%s", &report, l.why, rerun(t))
	}
}

// breaks runs a history and returns how it breaks the law, or "".
func (w law) breaks(h []move, sizes []int) string {
	ctx := context.Background()
	flow := dataflow.New()
	l := &lab{at: dataflow.At[here](flow)}
	xs, sx := dataflow.Input[int](l.at, "xs")
	ys, sy := dataflow.Input[int](l.at, "ys")
	ks, sk := keyedstream.Input[int, int](l.at, "ks")
	js, sj := keyedstream.Input[int, int](l.at, "js")
	es, se := keyedsingleton.Input[int, int](l.at, "entries")
	steps, step := dataflow.Input[func()](l.at, "steps")
	dataflow.ForEach(step, func(f func()) { f() })
	l.xs, l.ys, l.ks, l.js, l.entries, l.tick = sx, sy, sk, sj, se, slice.At(l.at)
	slice.Batch(l.tick, step, "a slice needs an input")
	a, b := w.build(l)
	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		return err.Error()
	}
	for n := 0; ; n++ {
		if a, b := a(), b(); a != b {
			return fmt.Sprintf("after step %d: %s is not %s", n, a, b)
		}
		if len(h) == 0 {
			break
		}
		size := 1
		if n < len(sizes) {
			size = min(sizes[n], len(h))
		}
		now := h[:size]
		h = h[size:]
		err := steps.Send(ctx, func() {
			for _, m := range now {
				var err error
				switch m.Input {
				case 0:
					err = xs.Send(ctx, m.Value)
				case 1:
					err = ys.Send(ctx, m.Value)
				case 2:
					err = ks.Send(ctx, m.Key, m.Value)
				case 3:
					err = js.Send(ctx, m.Key, m.Value)
				case 4: // a key that was put before is refused, which is the same as not sending it
					_ = es.Put(ctx, m.Key, m.Value)
				}
				if err != nil {
					panic(err)
				}
			}
		})
		if err != nil {
			return err.Error()
		}
	}
	if err := app.Stop(ctx); err != nil {
		return err.Error()
	}
	return ""
}

func (l *lab) name() string { l.names++; return fmt.Sprint("look ", l.names) }

// inOrder reads a stream, and bag one whose order does not matter.
func inOrder[T any, R dataflow.Retries](s dataflow.Stream[T, here, bounds.Unbounded, ordered, R]) look {
	var all []T
	dataflow.Inspect(s, func(x T) { all = append(all, x) })
	return func() string { return fmt.Sprint(all) }
}

func bag[T any, O dataflow.Order, R dataflow.Retries](s dataflow.Stream[T, here, bounds.Unbounded, O, R]) look {
	var all []string
	dataflow.Inspect(s, func(x T) { all = append(all, fmt.Sprint(x)) })
	return func() string { slices.Sort(all); return strings.Join(all, " ") }
}

// perKey reads a keyed stream, by key and in order within each. perKeyBag ignores that order.
func perKey[V any, O dataflow.Order](s dataflow.KeyedStream[int, V, here, bounds.Unbounded, O, once]) look {
	all := make(map[int][]string)
	keyedstream.InspectWithKey(s, func(k int, v V) { all[k] = append(all[k], fmt.Sprint(v)) })
	return func() string { return fmt.Sprint(all) }
}

func perKeyBag[V any, O dataflow.Order](s dataflow.KeyedStream[int, V, here, bounds.Unbounded, O, once]) look {
	all := make(map[int][]string)
	keyedstream.InspectWithKey(s, func(k int, v V) { all[k] = append(all[k], fmt.Sprint(v)) })
	return func() string {
		for _, k := range slices.Collect(maps.Keys(all)) {
			slices.Sort(all[k])
		}
		return fmt.Sprint(all)
	}
}

// valueNow reads a singleton, and contentNow a keyed singleton.
func valueNow[T any, B bounds.Singleton](l *lab, x dataflow.Singleton[T, here, B]) look {
	out := singleton.Output(x, l.name())
	return func() string { v, ok := out.Latest(); return fmt.Sprint(v, ok) }
}

func contentNow[V any, B bounds.Keyed[Keys], Keys bounds.Stream](l *lab, ks dataflow.KeyedSingleton[int, V, here, B]) look {
	out := singleton.Output(keyedsingleton.IntoSingleton(ks), l.name())
	return func() string {
		v, _ := out.Latest()
		all := make(map[int]V)
		for k, x := range v.All() {
			all[k] = x
		}
		return fmt.Sprint(all)
	}
}

// plus adds the values of singletons.
func plus(xs ...*dataflow.SingletonOutputPort[int]) look {
	return func() string {
		total := 0
		for _, x := range xs {
			v, _ := x.Latest()
			total += v
		}
		return fmt.Sprint(total, true)
	}
}
