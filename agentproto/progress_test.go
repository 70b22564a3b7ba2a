package agentproto

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestProgress checks the state of each effect, which a runtime shows to its user: the state after the effect. It fails if a
// call that asks for an authorization or a choice still appears to wait for its result.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startProgram(t, ProgramOptions{})
		h.call(k1, nil)
		for _, e := range []Event{oauth("u1"), oauth("u1"), choice("r"), answer1("r", 1), oauth("u2"), result("x"), result("x")} {
			synctest.Wait()
			h.deliver(k1, e)
		}
		synctest.Wait()
		want := []State{OAuthPending, OAuthPending, OAuthPending, ChoicePending, Pending, OAuthPending, OAuthPending, Completed, Completed}
		var got []State
		h.mu.Lock()
		for _, e := range h.effects {
			got = append(got, e.State)
		}
		h.mu.Unlock()
		if !slices.Equal(got, want) {
			t.Errorf("%s\nhas the states %v, want %v", h.story(k1), got, want)
		}
		h.stop()
	})
}

// TestRemaining checks how much time the calls of a snapshot have left in their states. It fails if the time of a choice
// starts when its message is processed instead of at the time of the event, or if a lifetime that ended while the call was
// frozen starts again at the destination.
func TestRemaining(t *testing.T) {
	tests := []struct {
		name           string
		before, frozen func(*host)
		want           time.Duration
	}{
		{"a choice", func(h *host) { h.deliver(k1, choice("r")) }, later(time.Hour), DefaultChoiceTimeout - time.Hour},
		{"a choice of two hours ago", func(h *host) {
			e := choice("r")
			e.At = time.Now().Add(-2 * time.Hour)
			h.deliver(k1, e)
		}, later(time.Hour), DefaultChoiceTimeout - 3*time.Hour},
		{"a call of an unknown time", later(time.Minute), later(time.Minute), DefaultLifetime},
		{"a call of an unknown time whose lifetime ends", later(time.Minute), later(DefaultLifetime), 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := startMovers(t)
				m.s.call(k1, nil)
				synctest.Wait()
				test.before(m.s)
				synctest.Wait()
				m.must(m.s.Freeze(t.Context(), "thread", "m"))
				test.frozen(m.s)
				synctest.Wait()
				if calls := m.export("m").Calls; len(calls) != 1 || calls[0].Remaining != test.want {
					t.Errorf("%v remain of the only one of %d calls, want %v", calls[0].Remaining, len(calls), test.want)
				}
				m.s.stop()
				m.d.stop()
			})
		})
	}
}
