package main

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
)

// TestManyClients runs clients that add at the same time. Each reads its own counter and one that
// all of them share.
func TestManyClients(t *testing.T) {
	const clients, each = 4, 50
	flow := dataflow.New()
	c := newCounter(flow)
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	add := func(id, name string) {
		if err := c.increments.Put(t.Context(), id, increment{name, 1}); err != nil {
			t.Error(err)
		}
		if _, err := c.acks.Await(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	get := func(id, name string) int {
		if err := c.gets.Put(t.Context(), id, name); err != nil {
			t.Error(err)
		}
		value, err := c.values.Await(t.Context(), id)
		if err != nil {
			t.Error(err)
		}
		return value
	}
	var wg sync.WaitGroup
	for client := range clients {
		wg.Go(func() {
			own := fmt.Sprint("client ", client)
			for i := 1; i <= each; i++ {
				id := fmt.Sprint(client, "/", i)
				add(id, own)
				add(id+" shared", "all")
				if got := get(id, own); got != i {
					t.Errorf("%s is %d after %d increments", own, got, i)
				}
				if got := get(id+" shared", "all"); got < i || got > clients*each {
					t.Errorf("the shared counter is %d after at least %d increments", got, i)
				}
			}
		})
	}
	wg.Wait()
	if got := get("last", "all"); got != clients*each {
		t.Errorf("the shared counter is %d at the end, want %d", got, clients*each)
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestEverySchedule reads a counter after an acknowledged increment and beside one that is not
// acknowledged yet, and reads it again after the answer.
func TestEverySchedule(t *testing.T) {
	answers := make(map[string]bool)
	n := sim.Exhaustive(t, func(s *sim.Sim) {
		c := newCounter(s.Flow())
		s.Start()
		put := func(id, name string, by int) { s.Check(c.increments.Put(s.Context(), id, increment{name, by})) }
		ask := func(id, name string) { s.Check(c.gets.Put(s.Context(), id, name)) }
		value := func(id string) int {
			v, err := c.values.Await(s.Context(), id)
			s.Check(err)
			return v
		}

		put("acknowledged", "hits", 1)
		_, err := c.acks.Await(s.Context(), "acknowledged")
		s.Check(err)
		put("beside", "hits", 10)
		ask("first", "hits")
		first := value("first")
		if first != 1 && first != 11 {
			s.Errorf("after an acknowledged increment by 1, beside one by 10, the counter is %d", first)
		}

		ask("unknown", "misses")
		if v := value("unknown"); v != 0 {
			s.Errorf("a counter that nobody has added to is %d", v)
		}

		ask("second", "hits")
		second := value("second")
		if second < first {
			s.Errorf("the counter was %d and is %d", first, second)
		}
		answers[fmt.Sprint(first, ", ", second)] = true

		s.Quiesce()
		ask("last", "hits")
		if v := value("last"); v != 11 {
			s.Errorf("the counter is %d when all is quiet", v)
		}
	})
	want := []string{"1, 1", "1, 11", "11, 11"}
	if got := slices.Sorted(maps.Keys(answers)); !slices.Equal(got, want) {
		t.Errorf("the answers are %q, want %q", got, want)
	}
	if n != len(want) {
		t.Errorf("%d schedules, want %d", n, len(want))
	}
}
