package agentproto

import (
	"strings"
	"testing"
)

// TestSessionOf fails if the parts of one thread have different affinities. They would then be kept in two places, and a process
// with one half could not find the other.
func TestSessionOf(t *testing.T) {
	for thread, want := range map[string]string{
		"": "", "a": "a", "a b/c": "a b/c", "a~b": "a", "a~b~c": "a", "~b": "", InSession("a", "b"): "a", InSession("a~b", "c"): "a",
	} {
		if got := SessionOf(thread); got != want {
			t.Errorf("%q is of session %q, want %q", thread, got, want)
		}
		call := CallKey{GroupID: thread, ID: "x~y"}
		for _, key := range []interface{ Affinity() string }{ThreadID(thread), call, moveKey{GroupID: thread, Migration: "m~n", ID: "z"}} {
			if got := key.Affinity(); got != want {
				t.Errorf("%T of %q is kept with %q, want %q", key, thread, got, want)
			}
		}
	}
}

// TestInSession checks that a session whose ID leaves no room for a name has threads with an affinity of their own.
func TestInSession(t *testing.T) {
	session := strings.Repeat("s", MaxID-3)
	for name, want := range map[string]string{"ab": session + "~ab", "abc": "abc"} {
		if got := InSession(session, name); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
