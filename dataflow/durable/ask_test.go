package durable

import (
	"errors"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedsingleton"
)

// TestAsk asks a durable flow before and after a crash. A request is put once, and an
// answer that was taken stays taken.
func TestAsk(t *testing.T) {
	log := journal.NewMemory(journal.MemoryOptions{})
	app := start(t, log, buildAsked, Options{})
	ask := func(key string, v int) (int, error) {
		return keyedsingleton.Ask(app.Ports.in, app.Ports.out).Ask(t.Context(), key, v)
	}
	if v, err := ask("a", 1); v != 1 || err != nil {
		t.Errorf("Ask = %d, %v", v, err)
	}
	if err := app.Ports.in.Put(t.Context(), "b", 2); err != nil {
		t.Fatal(err)
	}
	await(t, app.Ports.out, "b", 2)
	log = log.Reopen()
	app = start(t, log, buildAsked, Options{})
	for _, key := range []string{"a", "b"} {
		if _, err := ask(key, 3); !errors.Is(err, dataflow.ErrDuplicateKey) {
			t.Errorf("Ask of a key from before the crash: %v", err)
		}
	}
	if v, err := ask("c", 4); v != 4 || err != nil {
		t.Errorf("Ask = %d, %v", v, err)
	}
	await(t, app.Ports.out, "b", 2)
	if n := app.Ports.out.Len(); n != 1 {
		t.Errorf("%d entries are left, want the one that nobody took", n)
	}
}
