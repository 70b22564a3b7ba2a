package main

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
)

// TestWindows makes many requests. No window that begins with a passed request may contain more
// of them than the limit, and a refused request must exceed the limit of the window that ends with it.
func TestWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rule{Limit: 3, Window: time.Second}
		flow := dataflow.New()
		l := newLimiter(flow, r)
		app, err := dataflow.Start(t.Context(), flow)
		if err != nil {
			t.Fatal(err)
		}
		passed := make(map[string][]time.Time) // by client
		rng := rand.New(rand.NewPCG(1, 2))
		refusals := 0
		for i := range 2000 {
			// Never at the moment when a window ends: the order of the two is not defined.
			time.Sleep(time.Duration(rng.IntN(200))*time.Millisecond + time.Microsecond)
			id, client := fmt.Sprint(i), string(rune('a'+rng.IntN(2)))
			if err := l.requests.Send(t.Context(), client, id); err != nil {
				t.Fatal(err)
			}
			a, err := l.answers.Await(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			recent := 0
			for _, at := range passed[client] {
				if time.Since(at) < r.Window {
					recent++
				}
			}
			if want := recent < r.Limit; a.Passed != want {
				t.Errorf("request %d of %s comes after %d in its window; passed: %v", i, client, recent, a.Passed)
			}
			if a.Passed {
				passed[client] = append(passed[client], time.Now())
			} else {
				refusals++
			}
		}
		if refusals == 0 || refusals == 2000 {
			t.Errorf("%d requests were refused", refusals)
		}
		if err := app.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}
