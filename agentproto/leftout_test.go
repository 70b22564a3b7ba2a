package agentproto

import (
	"testing"
	"testing/synctest"
)

// TestLeftOutIsTold checks that the event after a gap says once how many events were left out. An event that is dropped as
// a duplicate in between does not lose the number.
func TestLeftOutIsTold(t *testing.T) {
	gap := Event{Kind: EventsLeftOut}
	with := func(e Event, n int) Event { e.LeftOut = n; return e }
	for _, test := range []struct {
		name   string
		events []Event
		want   string
	}{
		{"a number", []Event{gap, with(news("a", ""), 44), news("b", "")}, "event([44 events were left out: the tool sent more than the runtime takes]\na) event(b)"},
		{"one", []Event{gap, with(news("a", ""), 1)}, "event([1 event was left out: the tool sent more than the runtime takes]\na)"},
		{"the number was lost", []Event{gap, news("a", ""), news("b", "")}, "event([events were left out: the tool sent more than the runtime takes]\na) event(b)"},
		{"the final event is next", []Event{gap, with(final("end"), 2)}, "event([2 events were left out: the tool sent more than the runtime takes]\nend) ended"},
		{"a repetition comes between", []Event{news("a", "1"), gap, with(news("a", "1"), 3), with(news("b", "2"), 4)},
			"event(a) dropped(duplicate) event([7 events were left out: the tool sent more than the runtime takes]\nb)"},
		{"the server loses the subscription", []Event{gap, {Kind: CallLost, Reason: "gone"}},
			"event([events were left out: the tool sent more than the runtime takes]\nError: the tool server lost the subscription: gone) ended"},
		{"nothing is subscribed any more", []Event{final("end"), gap}, "event(end) ended dropped(unsubscribed)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := startProgram(t, ProgramOptions{})
				h.call(k1, nil)
				h.deliver(k1, subscribed("x"))
				synctest.Wait()
				for _, e := range test.events {
					h.deliver(k1, e)
					synctest.Wait()
				}
				if got := h.story(k1); got != "resolved(tool_result) "+test.want {
					t.Errorf("got  %s\nwant %s", got, test.want)
				}
				h.stop()
			})
		})
	}
}

// TestLeftOutMoves checks that a subscription that moves keeps its number of left-out events.
func TestLeftOutMoves(t *testing.T) {
	s := callState{State: Completed, Cause: ByResult, More: &more{Sub: &subscription{Key: k1, Left: 3, Gap: true}}}
	taken := turn{machine{}, &s, new(doing)}.snapshot(&order{Move: &move{}})
	taken.Key = k1
	var there callState
	turn{machine{}, &there, new(doing)}.arrive(&event{Order: &order{Move: &move{Snapshot: taken}}})
	if sub := there.More.Sub; sub == nil || sub.Left != 3 || !sub.Gap {
		t.Errorf("%+v arrived", there.More.Sub)
	}
}
