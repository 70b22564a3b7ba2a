package keyedstream_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leanovate/gopter"
	"github.com/leanovate/gopter/prop"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// spread numbers the keys of inputs. The numbers lie in more than one block.
func spread(k string) (client string, seq uint64) {
	if k == "" {
		return "", 60
	}
	return "", uint64(k[0]-'a') * 27
}

// remembering is a slow but obvious implementation of an operator that remembers keys for a
// while. It lists completed keys in pages of limit keys, and only considers the last two
// pages.
type remembering struct {
	limit int
	pages [][]string
}

func (r *remembering) has(k string) bool {
	for _, page := range r.pages[max(0, len(r.pages)-2):] {
		if slices.Contains(page, k) {
			return true
		}
	}
	return false
}

func (r *remembering) add(k string) {
	if n := len(r.pages); n == 0 || len(r.pages[n-1]) == r.limit {
		r.pages = append(r.pages, nil)
	}
	r.pages[len(r.pages)-1] = append(r.pages[len(r.pages)-1], k)
}

// TestRememberingAgainstLoop compares Sequenced with the default, and FirstWithin and
// FoldEarlyStopWithin with plain loops, for random splits of the input into batches.
func TestRememberingAgainstLoop(t *testing.T) {
	zero := func() int { return 0 }
	four := func(acc *int, v int) bool { *acc += v; return *acc > 4 }
	laws := map[string]gopter.Prop{
		"Sequenced changes nothing in First": prop.ForAll(func(in []number, sizes []int) *gopter.PropResult {
			return same(run(in, sizes, func(ks numbers) entriesOf[int] {
				return onlyValue(keyedstream.First(ks, dataflow.Sequenced(spread)))
			}), run(in, sizes, func(ks numbers) entriesOf[int] { return onlyValue(keyedstream.First(ks)) }))
		}, inputs, cuts),
		"Sequenced changes nothing in FoldEarlyStop": prop.ForAll(func(in []number, sizes []int) *gopter.PropResult {
			return same(run(in, sizes, func(ks numbers) entriesOf[int] {
				return onlyValue(keyedstream.FoldEarlyStop(ks, zero, four, dataflow.Sequenced(spread)))
			}), run(in, sizes, func(ks numbers) entriesOf[int] { return onlyValue(keyedstream.FoldEarlyStop(ks, zero, four)) }))
		}, inputs, cuts),
	}
	for _, limit := range []int{1, 2, 3} {
		laws[fmt.Sprintf("FirstWithin %d keys", limit)] = prop.ForAll(func(in []number, sizes []int) *gopter.PropResult {
			want, seen := make(map[string][]int), &remembering{limit: limit}
			for _, e := range in {
				if !seen.has(e.Key) {
					seen.add(e.Key)
					want[e.Key] = append(want[e.Key], e.Value)
				}
			}
			return same(run(in, sizes, func(ks numbers) entriesOf[int] {
				return keyedsingleton.Entries(keyedstream.FirstWithin(ks, keyedstream.Retain{Keys: limit}, "compared"))
			}), want)
		}, inputs, cuts)
		laws[fmt.Sprintf("FoldEarlyStopWithin %d keys", limit)] = prop.ForAll(func(in []number, sizes []int) *gopter.PropResult {
			want, done, live := make(map[string][]int), &remembering{limit: limit}, make(map[string]int)
			for _, e := range in {
				if done.has(e.Key) {
					continue
				}
				if live[e.Key] += e.Value; live[e.Key] > 4 {
					want[e.Key] = append(want[e.Key], live[e.Key])
					delete(live, e.Key)
					done.add(e.Key)
				}
			}
			return same(run(in, sizes, func(ks numbers) entriesOf[int] {
				return keyedsingleton.Entries(keyedstream.FoldEarlyStopWithin(ks, zero, four, keyedstream.Retain{Keys: limit}, "compared"))
			}), want)
		}, inputs, cuts)
	}
	check(t, laws)
}

// TestRetainFor checks the promises of Retain.For: a key is remembered for at least one period
// and at most two, repeats do not prolong that, and no flow waits for it.
func TestRetainFor(t *testing.T) {
	for _, x := range []struct {
		name string
		gaps string // before each value, in tenths of the period
		want string // which values are firsts
	}{
		{"at once", "0 0 0", "0"},
		{"just before the period ends", "0 9", "0"},
		{"after two periods", "0 21", "0 1"},
		{"a repeat does not prolong it", "0 9 9 9", "0 3"},
		{"and again", "0 21 1 21 1", "0 1 3"},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				flow := dataflow.New()
				in, ks := keyedstream.Input[string, int](dataflow.At[Shop](flow), "values")
				var got []string
				first := keyedstream.FirstWithin(ks, keyedstream.Retain{For: 10 * time.Second}, "tested")
				keyedsingleton.Inspect(first, func(v int) { got = append(got, fmt.Sprint(v)) })
				app, err := dataflow.Start(t.Context(), flow)
				if err != nil {
					t.Fatal(err)
				}
				for i, gap := range strings.Fields(x.gaps) {
					var tenths int
					fmt.Sscan(gap, &tenths)
					time.Sleep(time.Duration(tenths) * time.Second)
					synctest.Wait()
					if err := in.Send(t.Context(), "a", i); err != nil {
						t.Fatal(err)
					}
				}
				in.Close()
				began := time.Now()
				if err := app.Wait(); err != nil || time.Since(began) > 0 {
					t.Errorf("ended after %v, %v", time.Since(began), err)
				}
				if got := strings.Join(got, " "); got != x.want {
					t.Errorf("got %q, want %q", got, x.want)
				}
			})
		})
	}
}

// TestRetainLeavesTimers checks that a flow that does not wait for keys to be forgotten still
// waits for timers that are set later.
func TestRetainLeavesTimers(t *testing.T) {
	for _, delay := range []time.Duration{time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			flow := dataflow.New()
			at := dataflow.At[Shop](flow)
			in, ks := keyedstream.Input[string, int](at, "values")
			keyedstream.FirstWithin(ks, keyedstream.Retain{For: 10 * time.Second}, "tested")
			late, entries := keyedsingleton.Input[string, int](at, "late")
			fired := 0
			keyedsingleton.Inspect(keyedsingleton.After(entries, delay, "tested"), func(int) { fired++ })
			app, err := dataflow.Start(t.Context(), flow)
			if err != nil {
				t.Fatal(err)
			}
			in.Send(t.Context(), "a", 1)
			synctest.Wait()
			late.Put(t.Context(), "x", 1)
			in.Close()
			late.Close()
			began := time.Now()
			if err := app.Wait(); err != nil || fired != 1 || time.Since(began) != delay {
				t.Errorf("fired %d times, ended after %v, %v", fired, time.Since(began), err)
			}
		})
	}
}

// schedules returns the distinct results of build's function at the end of each schedule.
func schedules(t *testing.T, build func(s *sim.Sim, at dataflow.Here) func() string) []string {
	all := make(map[string]bool)
	sim.Exhaustive(t, func(s *sim.Sim) {
		end := build(s, dataflow.At[dataflow.Here](s.Flow()))
		s.Start()
		s.Quiesce()
		all[end()] = true
	})
	return slices.Sorted(maps.Keys(all))
}

type unboundedKeys = dataflow.KeyedStream[string, int, dataflow.Here, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]

// TestSchedulesOfRetain lets the simulator choose when a key is forgotten. Sequenced must have
// the same result in every schedule.
func TestSchedulesOfRetain(t *testing.T) {
	for name, x := range map[string]struct {
		first func(ks unboundedKeys) unboundedKeys
		want  []string
	}{
		"by number": {func(ks unboundedKeys) unboundedKeys {
			return keyedsingleton.IntoKeyedStream(keyedstream.FirstWithin(ks, keyedstream.Retain{Keys: 1}, "the simulator tries it"))
		}, []string{"a1 b c", "a1 a2 b c"}},
		"by time": {func(ks unboundedKeys) unboundedKeys {
			return keyedsingleton.IntoKeyedStream(keyedstream.FirstWithin(ks, keyedstream.Retain{For: time.Second}, "the simulator tries it"))
		}, []string{"a1 b c", "a1 a2 b c"}},
		"by number, folded": {func(ks unboundedKeys) unboundedKeys {
			return keyedsingleton.IntoKeyedStream(keyedstream.FoldEarlyStopWithin(ks, func() int { return 0 }, func(acc *int, v int) bool { *acc = v; return true }, keyedstream.Retain{Keys: 1}, "the simulator tries it"))
		}, []string{"a1 b c", "a1 a2 b c"}},
		"sequenced": {func(ks unboundedKeys) unboundedKeys {
			return keyedsingleton.IntoKeyedStream(keyedstream.First(ks, dataflow.Sequenced(spread)))
		}, []string{"a1 b c"}},
	} {
		got := schedules(t, func(s *sim.Sim, at dataflow.Here) func() string {
			in, ks := keyedstream.Input[string, int](at, "values")
			var said []string
			keyedstream.InspectWithKey(x.first(ks), func(k string, v int) { said = append(said, strings.TrimSuffix(fmt.Sprint(k, v), "0")) })
			s.Check(in.Send(s.Context(), "a", 1))
			s.Check(in.Send(s.Context(), "a", 2))
			s.Check(in.Send(s.Context(), "b", 0))
			s.Check(in.Send(s.Context(), "c", 0))
			in.Close()
			return func() string { slices.Sort(said); return strings.Join(said, " ") }
		})
		slices.Sort(x.want)
		if !slices.Equal(got, x.want) {
			t.Errorf("%s: got %q, want %q", name, got, x.want)
		}
	}
}

// TestRetainMisuse checks that wrong options are refused while the flow is built.
func TestRetainMisuse(t *testing.T) {
	_, ks := keyedstream.Input[string, int](dataflow.At[Shop](dataflow.New()), "values")
	for want, build := range map[string]func(){
		"keyedstream: FirstWithin: nothing would be remembered for 0 keys and 0s": func() {
			keyedstream.FirstWithin(ks, keyedstream.Retain{}, "tested")
		},
		"keyedstream: FoldEarlyStopWithin: nothing would be remembered for -1 keys and 1s": func() {
			keyedstream.FoldEarlyStopWithin(ks, func() int { return 0 }, func(*int, int) bool { return true }, keyedstream.Retain{Keys: -1, For: time.Second}, "tested")
		},
		"keyedstream: FirstWithin: what depends on timing": func() { keyedstream.FirstWithin(ks, keyedstream.Retain{Keys: 1}, " ") },
		"keyedstream: First: there are 2 ways": func() {
			keyedstream.First(ks, dataflow.Sequenced(spread), dataflow.Sequenced(spread))
		},
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.HasPrefix(got, want) {
					t.Errorf("panic %q, want %q", got, want)
				}
			}()
			build()
		}()
	}
}
