package trail

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto"
)

func key(i int) agentproto.CallKey {
	return agentproto.CallKey{GroupID: "t", ID: fmt.Sprint("c", i)}
}

// TestEventsOfCall checks that a trail keeps the first event of a call and the latest ones, in order.
func TestEventsOfCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, tr := time.Now(), New()
		for i := range 100 {
			tr.Note(key(1), fmt.Sprint(i), "")
			time.Sleep(time.Second)
			events, lost := tr.Of(key(1))
			if want := min(i+1, MaxEvents); len(events) != want || lost != i+1-want {
				t.Fatalf("after %d events there are %d, and %d are lost", i+1, len(events), lost)
			}
			for n, e := range events {
				want := 0
				if n > 0 {
					want = n + lost
				}
				if e.What != fmt.Sprint(want) || e.At.Sub(began) != time.Duration(want)*time.Second {
					t.Fatalf("after %d events, number %d is %s at %v, want %d", i+1, n, e.What, e.At.Sub(began), want)
				}
			}
		}
	})
}

// TestEventsAreCopied checks that later events do not change a slice that Of has returned.
func TestEventsAreCopied(t *testing.T) {
	tr := New()
	for range MaxEvents {
		tr.Note(key(1), "before", "")
	}
	events, _ := tr.Of(key(1))
	before := slices.Clone(events)
	for range MaxEvents {
		tr.Note(key(1), "after", "")
	}
	if !slices.Equal(events, before) {
		t.Errorf("there is %v now", events)
	}
}

// TestCallsAreBounded checks that calls without recent events make room for new ones.
func TestCallsAreBounded(t *testing.T) {
	tr := New()
	for i := range MaxCalls {
		tr.Note(key(i), "made", "")
	}
	tr.Note(key(0), "resolved", "") // so call 1 is evicted first
	for i := range 10 {
		tr.Note(key(MaxCalls+i), "made", "")
	}
	for i := range MaxCalls + 10 {
		events, _ := tr.Of(key(i))
		if has, want := len(events) > 0, i == 0 || i > 10; has != want {
			t.Errorf("call %d is remembered: %v", i, has)
		}
	}
	if len(tr.calls) != MaxCalls || tr.order.Len() != MaxCalls {
		t.Errorf("%d and %d calls are remembered", len(tr.calls), tr.order.Len())
	}
}

// TestOrderIsThatOfTime checks that an event noted late is put in its place by time.
func TestOrderIsThatOfTime(t *testing.T) {
	tr := New()
	at := time.Now()
	tr.NoteAt(key(1), at.Add(time.Second), "accepted", "")
	tr.NoteAt(key(1), at, "made", "")
	tr.NoteAt(key(1), at.Add(time.Second), "resolved", "")
	var got []string
	events, _ := tr.Of(key(1))
	for _, e := range events {
		got = append(got, e.What)
	}
	if want := []string{"made", "accepted", "resolved"}; !slices.Equal(got, want) {
		t.Errorf("there is %v, want %v", got, want)
	}
}
