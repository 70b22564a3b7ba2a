package agentproto

import (
	"slices"
	"testing"
	"testing/synctest"
)

// TestProgress reads the state of each effect, which is what a runtime shows its user: the one after the effect.
// It would miss a call that asks for an authorization or a choice and still looks as if it waited for its result.
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
