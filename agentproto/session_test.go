package agentproto

import (
	"testing"

	"github.com/millrace/millrace/dataflow"
)

// TestSessionOf would catch what belongs to one thread being kept in two places: in a process that does not have the
// other half of it, nobody would find it.
func TestSessionOf(t *testing.T) {
	for thread, want := range map[string]string{
		"": "", "a": "a", "a b/c": "a b/c", "a~b": "a", "a~b~c": "a", "~b": "", InSession("a", "b"): "a", InSession("a~b", "c"): "a",
	} {
		if got := SessionOf(thread); got != want {
			t.Errorf("%q is of session %q, want %q", thread, got, want)
		}
		call := CallKey{GroupID: thread, ID: "x~y"}
		for _, key := range []interface{ Affinity() string }{ThreadID(thread), call, moment{Call: call, Seq: 1}, moveKey{GroupID: thread, Migration: "m~n", ID: "z"}} {
			if got := key.Affinity(); got != want {
				t.Errorf("%T of %q is kept with %q, want %q", key, thread, got, want)
			}
		}
	}
}

// TestPlacedTogether would catch a key of the program's flow that is placed by itself: see [dataflow.Cluster].
func TestPlacedTogether(t *testing.T) {
	var (
		_ interface{ Affinity() string } = CallKey{}
		_ dataflow.Location              = Host{}
	)
}
