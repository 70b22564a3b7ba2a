package toolserver

import (
	"strings"
	"testing"

	"github.com/millrace/millrace/agentproto/internal/vault"
)

// TestEarlierState opens the state of a version that kept its calls in the file of the vault. It would catch calls that
// are dropped in silence, and a state that is refused although nothing in it is lost.
func TestEarlierState(t *testing.T) {
	opts := Options{Name: "test", PublicURL: "http://127.0.0.1", State: t.TempDir()}
	fill := func(bucket string) {
		t.Helper()
		kept, err := vault.Open(opts.State)
		if err != nil {
			t.Fatal(err)
		}
		if err := kept.Update(func(tx *vault.Tx) error { return tx.Put(bucket, []byte("key"), []byte("value")) }); err != nil {
			t.Fatal(err)
		}
		if err := kept.Close(); err != nil {
			t.Fatal(err)
		}
	}
	fill("finished")
	s, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	s.file.View(func(tx *vault.Tx) error {
		if tx.Get("finished", []byte("key")) != nil {
			t.Error("what nobody reads is kept")
		}
		return nil
	})
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	fill("outbox")
	for range 2 {
		if _, err := Open(opts); err == nil || !strings.Contains(err.Error(), "run that version") {
			t.Errorf("Open = %v", err)
		}
	}
}
