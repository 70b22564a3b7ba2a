package keyedsingleton_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

type retained = dataflow.KeyedSingleton[string, int, server, bounds.RetainedValue]

// lives returns an input and the first values of its keys. Only the last two keys are remembered.
func lives(at server) (*dataflow.KeyedInputPort[string, int], retained) {
	in, ks := keyedstream.Input[string, int](at, "values")
	return in, keyedstream.FirstWithin(ks, dataflow.Retain{Keys: 1}, why)
}

// send sends values such as "a1 b2" in one batch.
func send(t *testing.T, in *dataflow.KeyedInputPort[string, int], values string) {
	t.Helper()
	var ks []string
	var vs []int
	for _, x := range strings.Fields(values) {
		var v int
		if _, err := fmt.Sscan(x[1:], &v); err != nil {
			t.Fatal(err)
		}
		ks, vs = append(ks, x[:1]), append(vs, v)
	}
	if _, err := in.SendBatch(t.Context(), ks, vs); err != nil {
		t.Fatal(err)
	}
}

// batches returns several ways to split the same values into batches.
func batches(all string) [][]string {
	alone := strings.Fields(all)
	return [][]string{alone, {all}, {strings.Join(alone[:2], " "), strings.Join(alone[2:], " ")}}
}

// TestLives makes entries appear and disappear, in one batch and in several. It checks that each
// life is one element, and that outputs and counts contain only present entries.
func TestLives(t *testing.T) {
	for _, sent := range batches("a1 b1 c1 a2") {
		t.Run(strings.Join(sent, "|"), func(t *testing.T) {
			flow := dataflow.New()
			at := dataflow.At[server](flow)
			in, kept := lives(at)
			var entries, first []string
			dataflow.Inspect(keyedsingleton.Entries(kept), func(e dataflow.Entry[string, int]) { entries = append(entries, e.String()) })
			keyedstream.InspectWithKey(keyedsingleton.IntoKeyedStream(keyedstream.First(keyedsingleton.IntoKeyedStream(kept))), func(k string, v int) {
				first = append(first, fmt.Sprint(k, ":", v))
			})
			double := keyedsingleton.Map(keyedsingleton.Filter(kept, func(int) bool { return true }), func(v int) int { return 2 * v })
			out := keyedsingleton.Output(double, "kept")
			count := singleton.Output(keyedsingleton.KeyCount(kept), "count")
			view := singleton.Output(keyedsingleton.IntoSingleton(double), "view")
			start(t, flow)
			for _, x := range sent {
				send(t, in, x)
			}
			if got := strings.Join(entries, " "); got != "a:1 b:1 c:1 a:2" {
				t.Errorf("entries are %q", got)
			}
			if got := strings.Join(first, " "); got != "a:1 b:1 c:1" {
				t.Errorf("firsts are %q", got)
			}
			if v, err := out.Await(t.Context(), "a"); v != 4 || err != nil {
				t.Errorf("the output has %d, %v", v, err)
			}
			if v, there := out.Get("b"); there {
				t.Errorf("the output has b: %d", v)
			}
			if n, _ := count.Latest(); n != 2 || out.Len() != 2 {
				t.Errorf("%d are counted, %d are in the output", n, out.Len())
			}
			if v, _ := view.Latest(); v.String() != "{a:4 c:2}" {
				t.Errorf("the view is %v", v)
			}
			in.Close()
		})
	}
}

// TestForgottenOutput reads an output before and after its entry is forgotten, and awaits an
// entry that appears and is forgotten in one step.
func TestForgottenOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		at := dataflow.At[server](flow)
		in, jobs := keyedsingleton.Input[string, int](at, "jobs")
		out := keyedsingleton.Output(keyedsingleton.ForgetAfter(jobs, 10*time.Second, why), "jobs")
		values, kept := lives(at)
		short := keyedsingleton.Output(kept, "short")
		app := start(t, flow)
		if err := in.Put(t.Context(), "a", 1); err != nil {
			t.Fatal(err)
		}
		<-time.After(9 * time.Second)
		if v, there := out.Get("a"); v != 1 || !there || out.Len() != 1 {
			t.Errorf("after 9 s there is %d, %t", v, there)
		}
		<-time.After(2 * time.Second)
		synctest.Wait()
		if _, there := out.Get("a"); there || out.Len() != 0 {
			t.Error("a is there after 11 s")
		}

		waited := make(chan int)
		go func() {
			v, _ := short.Await(t.Context(), "x")
			waited <- v
		}()
		synctest.Wait()
		send(t, values, "x7 y1 z1")
		if v := <-waited; v != 7 {
			t.Errorf("Await returned %d", v)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if v, err := short.Await(ctx, "x"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Await of what is forgotten returned %d, %v", v, err)
		}
		in.Close()
		values.Close()
		if err := app.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// TestCallsOfLives delays the call of a life until the next life has begun. The context of the
// call must end, and its answer must be dropped. Other answers must be forgotten with their lives.
func TestCallsOfLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		in, kept := lives(dataflow.At[server](flow))
		ended := make(chan int, 9)
		release := make(chan struct{})
		answers := keyedsingleton.MapAsync(kept, func(ctx context.Context, v int) int {
			if v == 1 {
				<-ctx.Done()
				ended <- v
				<-release
			}
			return 10 * v
		}, keyedsingleton.AsyncOptions{})
		var got []string
		dataflow.Inspect(keyedsingleton.Entries(answers), func(e dataflow.Entry[string, int]) { got = append(got, e.String()) })
		out := keyedsingleton.Output(answers, "answers")
		app := start(t, flow)
		send(t, in, "a1")
		synctest.Wait()
		send(t, in, "b2")
		synctest.Wait()
		send(t, in, "c3") // a is forgotten
		synctest.Wait()
		send(t, in, "a4") // b is forgotten
		synctest.Wait()
		if v := <-ended; v != 1 {
			t.Errorf("the call of %d has ended", v)
		}
		close(release)
		synctest.Wait()
		slices.Sort(got)
		if s := strings.Join(got, " "); s != "a:40 b:20 c:30" {
			t.Errorf("answers are %q", s)
		}
		if v, _ := out.Get("a"); v != 40 || out.Len() != 2 {
			t.Errorf("the output has %d of a, and %d entries", v, out.Len())
		}
		if n := dropped(app); n != 1 {
			t.Errorf("%d answers were dropped, want that of a1", n)
		}
		in.Close()
		if err := app.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// TestTimersOfLives checks that no timer fires after the life for which it was set, and that the
// entry of a timer that fired is forgotten with the life.
func TestTimersOfLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		in, kept := lives(dataflow.At[server](flow))
		late := keyedsingleton.After(kept, 5*time.Second, why)
		var got []string
		began := time.Now()
		keyedsingleton.InspectWithKey(late, func(k string, v int) { got = append(got, fmt.Sprint(k, v, " ", time.Since(began))) })
		out := keyedsingleton.Output(late, "late")
		app := start(t, flow)
		send(t, in, "a1")
		<-time.After(3 * time.Second)
		send(t, in, "b2 c3") // a is forgotten
		<-time.After(time.Second)
		send(t, in, "a4") // b is forgotten
		<-time.After(6 * time.Second)
		synctest.Wait()
		if s := strings.Join(got, ", "); s != "c3 8s, a4 9s" {
			t.Errorf("fired: %s", s)
		}
		send(t, in, "d5") // c is forgotten; its timer has fired
		if _, there := out.Get("c"); there || out.Len() != 1 {
			t.Errorf("c is there: %t, of %d", there, out.Len())
		}
		in.Close()
		if err := app.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// TestBatchesOfLives checks that each life is in exactly one run of a slice, and that emitted
// entries are removed when their life is over.
func TestBatchesOfLives(t *testing.T) {
	for _, sent := range batches("a1 b1 c1 a2") {
		flow := dataflow.New()
		at := dataflow.At[server](flow)
		in, kept := lives(at)
		tick := slice.At(at)
		fresh := slice.BatchEntries(tick, kept, why)
		var seen []string
		keyedsingleton.InspectWithKey(fresh, func(k string, v int) { seen = append(seen, fmt.Sprint(k, v)) })
		emitted := slice.EmitRetained(keyedsingleton.Map(keyedsingleton.Filter(fresh, func(v int) bool { return v > 0 }), func(v int) int { return v + 100 }))
		out := keyedsingleton.Output(emitted, "out")
		count := singleton.Output(keyedsingleton.KeyCount(emitted), "count")
		again := singleton.Output(slice.Latest(keyedsingleton.IntoSingleton(slice.SnapshotEntries(slice.At(at), emitted, why)), dataflow.View[string, int]{}), "again")
		start(t, flow)
		for _, x := range sent {
			send(t, in, x)
		}
		slices.Sort(seen)
		if got := strings.Join(seen, " "); got != "a1 a2 b1 c1" {
			t.Errorf("%q: the slice saw %q", sent, got)
		}
		if v, _ := out.Get("a"); v != 102 || out.Len() != 2 {
			t.Errorf("%q: the output has %d of a, and %d entries", sent, v, out.Len())
		}
		if n, _ := count.Latest(); n != 2 {
			t.Errorf("%q: %d are counted", sent, n)
		}
		if v, _ := again.Latest(); v.String() != "{a:102 c:101}" {
			t.Errorf("%q: a snapshot shows %v", sent, v)
		}
		in.Close()
	}
}

type elsewhere struct{ dataflow.Process }

// TestSendLives checks that another location forgets entries when the sender does.
func TestSendLives(t *testing.T) {
	flow := dataflow.New()
	in, kept := lives(dataflow.At[server](flow))
	there := keyedsingleton.Send(kept, dataflow.At[elsewhere](flow))
	entries := dataflow.Output(keyedsingleton.Entries(there), "entries")
	out := keyedsingleton.Output(there, "kept")
	app := start(t, flow)
	send(t, in, "a1 b1")
	send(t, in, "c1 a2")
	in.Close()
	var got []string
	for e := range entries.All(t.Context()) {
		got = append(got, e.String())
	}
	if s := strings.Join(got, " "); s != "a:1 b:1 c:1 a:2" {
		t.Errorf("entries are %q", s)
	}
	if err := app.Wait(); err != nil {
		t.Error(err)
	}
	if v, _ := out.Get("a"); v != 2 || out.Len() != 2 {
		t.Errorf("the output has %d of a, and %d entries", v, out.Len())
	}
}

// TestInputWithin checks that a key is refused until it is forgotten, and then accepted again.
func TestInputWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		in, jobs := keyedsingleton.InputWithin[string, int](dataflow.At[server](flow), "jobs", dataflow.Retain{For: 10 * time.Second}, why)
		out := keyedsingleton.Output(jobs, "jobs")
		app := start(t, flow)
		for i, x := range []struct {
			wait time.Duration
			want error
		}{{0, nil}, {5 * time.Second, dataflow.ErrDuplicateKey}, {20 * time.Second, nil}} {
			<-time.After(x.wait)
			synctest.Wait()
			if err := in.Put(t.Context(), "a", i); !errors.Is(err, x.want) || (err == nil) != (x.want == nil) {
				t.Errorf("put number %d: %v, want %v", i, err, x.want)
			}
		}
		if v, _ := out.Get("a"); v != 2 {
			t.Errorf("the output has %d", v)
		}
		in.Close()
		if err := app.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// TestOpenIsForgotten checks that keys that begin and never complete are forgotten.
func TestOpenIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		in, shared := keyedstream.SharedInput[int, int](dataflow.At[server](flow), "votes") // an ordered input remembers its senders in race builds
		votes := keyedstream.AssumeOrder(shared, why)
		quorum := keyedstream.FoldEarlyStopWithin(votes, func() int { return 0 }, func(n *int, v int) bool { *n += v; return *n >= 2 },
			dataflow.Retain{For: 10 * time.Second, Open: 10 * time.Second}, why)
		out := keyedsingleton.Output(quorum, "quorum")
		app := start(t, flow)
		const keys = 200_000
		before := heap()
		for k := range keys {
			if err := in.Send(t.Context(), k, 1); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(9 * time.Second)
		if err := in.Send(t.Context(), 7, 1); err != nil {
			t.Fatal(err)
		}
		if v, _ := out.Get(7); v != 2 {
			t.Errorf("the quorum in time is %d", v)
		}
		<-time.After(11 * time.Second)
		synctest.Wait()
		if err := in.Send(t.Context(), 8, 1); err != nil {
			t.Fatal(err)
		}
		if v, there := out.Get(8); there {
			t.Errorf("a vote was counted with one of 20 s ago: %d", v)
		}
		if grown := heap() - before; grown > 8<<20 {
			t.Errorf("%d bytes more than before are kept", grown)
		}
		in.Close()
		began := time.Now()
		if err := app.Wait(); err != nil || time.Since(began) != 0 {
			t.Errorf("the flow ended after %v, %v", time.Since(began), err)
		}
	})
}

// heap returns how many bytes of the heap are in use.
func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestRetainedMisuse checks that wrong use is refused while the flow is built.
func TestRetainedMisuse(t *testing.T) {
	at := dataflow.At[server](dataflow.New())
	_, kept := lives(at)
	for want, build := range map[string]func(){
		"slice: EmitEntries: the keys come from a collection that forgets them: emit them with slice.EmitRetained": func() {
			slice.EmitEntries(slice.BatchEntries(slice.At(at), kept, why))
		},
		"slice: EmitRetained: the keys do not come from a BatchEntries": func() {
			_, jobs := keyedsingleton.Input[string, int](at, "jobs")
			slice.EmitRetained(slice.BatchEntries(slice.At(at), jobs, why))
		},
		"keyedsingleton: InputWithin never: nothing would be remembered for 0 keys and 0s": func() {
			keyedsingleton.InputWithin[string, int](at, "never", dataflow.Retain{}, why)
		},
		"keyedsingleton: InputWithin soon: what depends on timing": func() {
			keyedsingleton.InputWithin[string, int](at, "soon", dataflow.Retain{Keys: 1}, "")
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
