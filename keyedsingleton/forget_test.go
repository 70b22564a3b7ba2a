package keyedsingleton_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/optional"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

// text formats entries like a view.
func text[V any](m map[string]V) string {
	var all []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		all = append(all, fmt.Sprintf("%s:%v", k, m[k]))
	}
	return "{" + strings.Join(all, " ") + "}"
}

// shown returns a function that returns the content of ks. It reports if an output at the
// top level and a slice disagree.
func shown[V any, B interface {
	bounds.Changing
	bounds.Keyed[bounds.Unbounded]
}](at server, ks dataflow.KeyedSingleton[string, V, server, B]) func() string {
	view := singleton.Output(keyedsingleton.IntoSingleton(ks), "view")
	in := keyedsingleton.IntoSingleton(slice.SnapshotEntries(slice.At(at), ks, why))
	snapshot := singleton.Output(slice.Latest(in, dataflow.View[string, V]{}), "snapshot")
	return func() string {
		a, _ := view.Latest()
		b, _ := snapshot.Latest()
		if a.String() != b.String() {
			return fmt.Sprintf("%v outside, %v in a slice", a, b)
		}
		return a.String()
	}
}

var errSmall = errors.New("small")

// TestForgetIsSeen removes entries and checks every operator that derives from them.
func TestForgetIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		at := dataflow.At[server](flow)
		in, words := keyedstream.Input[string, int](at, "words")
		counts := keyedstream.Count(words)
		left := keyedsingleton.ForgetAfter(counts, 10*time.Second, why)
		double := func(n int) int { return 2 * n }
		big := func(n int) bool { return n > 1 }
		tested := func(n int) (int, error) {
			if !big(n) {
				return 0, errSmall
			}
			return n, nil
		}
		values, failures := keyedsingleton.TryMap(left, tested)
		got := map[string]func() string{
			"itself":           shown(at, left),
			"Map":              shown(at, keyedsingleton.Map(left, double)),
			"MapWithKey":       shown(at, keyedsingleton.MapWithKey(left, func(k string, n int) string { return fmt.Sprint(k, n) })),
			"Filter":           shown(at, keyedsingleton.Filter(left, big)),
			"Filter of Map":    shown(at, keyedsingleton.Filter(keyedsingleton.Map(left, double), func(n int) bool { return n > 2 })),
			"FilterMapWithKey": shown(at, keyedsingleton.FilterMapWithKey(left, func(k string, n int) (int, bool) { return n, k != "a" })),
			"Inspect":          shown(at, keyedsingleton.Inspect(left, func(int) {})),
			"CrossSingleton":   shown(at, keyedsingleton.CrossSingleton(left, singleton.Of(at, "x"))),
			"WithoutKeys":      shown(at, keyedsingleton.WithoutKeys(left, dataflow.Of(at, "a"))),
			"values":           shown(at, values),
			"failures":         shown(at, failures),
			"forgotten twice":  shown(at, keyedsingleton.ForgetAfter(left, time.Hour, why)),
		}
		number := singleton.Output(keyedsingleton.KeyCount(left), "number")
		got["KeyCount"] = func() string { n, _ := number.Latest(); return fmt.Sprint(n) }
		few := singleton.Output(keyedsingleton.KeyCount(keyedsingleton.Filter(left, big)), "number of few")
		got["KeyCount of Filter"] = func() string { n, _ := few.Latest(); return fmt.Sprint(n) }

		tick := slice.At(at)
		now := slice.SnapshotEntries(tick, left, why)
		all := slice.SnapshotEntries(tick, counts, why)
		joined := keyedsingleton.JoinKeyedSingleton(all, now)
		inOrder := keyedsingleton.JoinKeyedStream(now, keyedsingleton.IntoKeyedStream(all))
		lookedUp := keyedsingleton.LookupKeyedSingleton(keyedsingleton.MapWithKey(all, func(k string, _ int) string { return k }), now)
		there := keyedsingleton.Filter(lookedUp, func(p dataflow.Pair[string, dataflow.Maybe[int]]) bool { return p.Second.OK })
		first := keyedsingleton.Get(now, singleton.Map(keyedsingleton.KeyCount(all), func(int) string { return "a" }))
		for name, ks := range map[string]dataflow.Singleton[string, dataflow.Tick[server], bounds.Bounded]{
			"JoinKeyedSingleton":   singleton.Map(keyedsingleton.IntoSingleton(joined), dataflow.View[string, dataflow.Pair[int, int]].String),
			"JoinKeyedStream":      singleton.Map(keyedsingleton.IntoSingleton(keyedstream.First(inOrder)), dataflow.View[string, dataflow.Pair[int, int]].String),
			"LookupKeyedSingleton": singleton.Map(keyedsingleton.IntoSingleton(there), dataflow.View[string, dataflow.Pair[string, dataflow.Maybe[int]]].String),
			"Get":                  singleton.Map(optional.IntoSingleton(first), dataflow.Maybe[int].String),
		} {
			out := singleton.Output(slice.Latest(ks, "not run"), name)
			got[name] = func() string { s, _ := out.Latest(); return s }
		}

		start(t, flow)
		check := func(total, model map[string]int) {
			t.Helper()
			synctest.Wait()
			want := make(map[string]string)
			for name, f := range map[string]func(k string, n int) (any, bool){
				"itself":               func(_ string, n int) (any, bool) { return n, true },
				"forgotten twice":      func(_ string, n int) (any, bool) { return n, true },
				"Inspect":              func(_ string, n int) (any, bool) { return n, true },
				"Map":                  func(_ string, n int) (any, bool) { return 2 * n, true },
				"MapWithKey":           func(k string, n int) (any, bool) { return fmt.Sprint(k, n), true },
				"Filter":               func(_ string, n int) (any, bool) { return n, n > 1 },
				"Filter of Map":        func(_ string, n int) (any, bool) { return 2 * n, n > 1 },
				"FilterMapWithKey":     func(k string, n int) (any, bool) { return n, k != "a" },
				"WithoutKeys":          func(k string, n int) (any, bool) { return n, k != "a" },
				"CrossSingleton":       func(_ string, n int) (any, bool) { return fmt.Sprintf("(%d, x)", n), true },
				"values":               func(_ string, n int) (any, bool) { return n, n > 1 },
				"failures":             func(_ string, n int) (any, bool) { return fmt.Sprintf("%d: small", n), n <= 1 },
				"JoinKeyedSingleton":   func(k string, n int) (any, bool) { return fmt.Sprintf("(%d, %d)", total[k], n), true },
				"JoinKeyedStream":      func(k string, n int) (any, bool) { return fmt.Sprintf("(%d, %d)", n, total[k]), true },
				"LookupKeyedSingleton": func(k string, n int) (any, bool) { return fmt.Sprintf("(%s, %d)", k, n), true },
			} {
				m := make(map[string]any)
				for k, n := range model {
					if v, ok := f(k, n); ok {
						m[k] = v
					}
				}
				want[name] = text(m)
			}
			want["KeyCount"], want["KeyCount of Filter"], want["Get"] = fmt.Sprint(len(model)), "0", "none"
			if n, ok := model["a"]; ok {
				want["Get"] = fmt.Sprint(n)
			}
			n := 0
			for _, c := range model {
				if c > 1 {
					n++
				}
			}
			want["KeyCount of Filter"] = fmt.Sprint(n)
			for name, f := range got {
				if got := f(); got != want[name] {
					t.Errorf("%s: got %s, want %s", name, got, want[name])
				}
			}
		}
		send := func(ks ...string) {
			for _, k := range ks {
				if err := in.Send(t.Context(), k, 0); err != nil {
					t.Fatal(err)
				}
			}
		}
		send("a", "a", "b", "c")
		check(map[string]int{"a": 2, "b": 1, "c": 1}, map[string]int{"a": 2, "b": 1, "c": 1})
		time.Sleep(9 * time.Second)
		send("b")
		time.Sleep(time.Second) // a and c are forgotten, b was changed
		check(map[string]int{"a": 2, "b": 2, "c": 1}, map[string]int{"b": 2})
		send("c") // c is back, with its full count
		check(map[string]int{"a": 2, "b": 2, "c": 2}, map[string]int{"b": 2, "c": 2})
		time.Sleep(9 * time.Second)
		check(map[string]int{"a": 2, "b": 2, "c": 2}, map[string]int{"c": 2})
		time.Sleep(time.Second)
		check(map[string]int{"a": 2, "b": 2, "c": 2}, map[string]int{})
		send("a")
		check(map[string]int{"a": 3, "b": 2, "c": 2}, map[string]int{"a": 3})
	})
}

// TestForgetRemembersUpstream checks that a forgotten entry of a BoundedValue never returns,
// because First, from which it derives, has not forgotten the key.
func TestForgetRemembersUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		at := dataflow.At[server](flow)
		in, words := keyedstream.Input[string, int](at, "words")
		show := shown(at, keyedsingleton.ForgetAfter(keyedstream.First(words), time.Second, why))
		start(t, flow)
		for i, want := range []string{"{a:0}", "{}", "{}"} {
			if in.Send(t.Context(), "a", i); i > 0 {
				time.Sleep(time.Second)
			}
			synctest.Wait()
			if got := show(); got != want {
				t.Errorf("step %d: got %s, want %s", i, got, want)
			}
		}
	})
}

// TestForgetOfFilter removes entries upstream and checks that their timers are removed too.
func TestForgetOfFilter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		at := dataflow.At[server](flow)
		in, moves := keyedstream.Input[string, int](at, "moves")
		positive := keyedsingleton.Filter(keyedstream.Sum(moves), func(n int) bool { return n > 0 })
		show := shown(at, keyedsingleton.ForgetAfter(positive, 10*time.Second, why))
		start(t, flow)
		for _, s := range []struct {
			wait time.Duration
			key  string
			move int
			want string
		}{
			{0, "a", 5, "{a:5}"},
			{time.Second, "b", 1, "{a:5 b:1}"},
			{time.Second, "a", -5, "{b:1}"},
			{time.Second, "c", 7, "{b:1 c:7}"}, // c may reuse the place of a
			{time.Second, "a", 2, "{a:2 b:1 c:7}"},
			{7 * time.Second, "d", -1, "{a:2 c:7}"}, // b is 10 s old
			{2 * time.Second, "d", -1, "{a:2}"},
			{time.Second, "a", -2, "{}"},
			{time.Second, "a", 1, "{a:1}"},
			{9 * time.Second, "d", -1, "{a:1}"},
			{time.Second, "d", -1, "{}"},
			{time.Second, "e", 1, "{e:1}"},
			{time.Second, "", 3, "{:3 e:1}"},
			{time.Second, "e", -1, "{:3}"},
			{8 * time.Second, "d", -1, "{:3}"}, // the timer of e is removed, and forgets no other key
			{time.Second, "d", -1, "{}"},
		} {
			time.Sleep(s.wait)
			synctest.Wait()
			in.Send(t.Context(), s.key, s.move)
			if got := show(); got != s.want {
				t.Errorf("after %s %+d: got %s, want %s", s.key, s.move, got, s.want)
			}
		}
	})
}

// TestForgetAgainstModel sends keys at random times and compares the entries with a table of
// the last time of each key.
func TestForgetAgainstModel(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			flow := dataflow.New()
			at := dataflow.At[server](flow)
			in, words := keyedstream.Input[int, int](at, "words")
			left := keyedsingleton.ForgetAfter(keyedstream.Count(words), 100*time.Millisecond, why)
			out := singleton.Output(keyedsingleton.IntoSingleton(left), "view")
			app := start(t, flow)
			last, count := make(map[int]time.Time), make(map[int]int)
			for step := range 400 {
				time.Sleep(time.Duration(r.IntN(4)*r.IntN(10)) * time.Millisecond)
				synctest.Wait()
				k := r.IntN(1 + step%50)
				last[k] = time.Now()
				count[k]++
				if err := in.Send(t.Context(), k, 0); err != nil {
					t.Fatal(err)
				}
				want := make(map[int]int)
				for k, at := range last {
					if time.Since(at) < 100*time.Millisecond {
						want[k] = count[k]
					}
				}
				view, _ := out.Latest()
				if got := maps.Collect(view.All()); !maps.Equal(got, want) {
					t.Fatalf("seed %d, step %d: got %v, want %v", seed, step, got, want)
				}
			}
			in.Close()
			if err := app.Wait(); err != nil { // ends when the last entry is forgotten
				t.Fatal(err)
			}
			if view, _ := out.Latest(); view.Len() != 0 {
				t.Errorf("seed %d: %v is left", seed, view)
			}
		})
	}
}

// TestForgetStops checks that Stop does not wait until entries are forgotten.
func TestForgetStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		at := dataflow.At[server](flow)
		in, words := keyedsingleton.Input[string, int](at, "words")
		show := shown(at, keyedsingleton.ForgetAfter(words, time.Hour, why))
		app := start(t, flow)
		in.Put(t.Context(), "a", 1)
		began := time.Now()
		if err := app.Stop(t.Context()); err != nil || time.Since(began) > 0 {
			t.Errorf("stopped after %v, %v", time.Since(began), err)
		}
		if got := show(); got != "{a:1}" {
			t.Errorf("got %s", got)
		}
	})
}
