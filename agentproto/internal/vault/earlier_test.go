package vault

import (
	"log/slog"
	"strings"
	"testing"
)

// TestEarlierState opens the state of a version that kept its calls in the file of the vault. It fails if calls are dropped
// silently, or if a state is refused although opening it would lose nothing.
func TestEarlierState(t *testing.T) {
	folder := t.TempDir()
	open := func() (*State, error) { return OpenState(folder, nil, false, slog.New(slog.DiscardHandler)) }
	fill := func(bucket string) {
		t.Helper()
		kept, err := Open(folder)
		if err != nil {
			t.Fatal(err)
		}
		if err := kept.Update(func(tx *Tx) error { return tx.Put(bucket, []byte("key"), []byte("value")) }); err != nil {
			t.Fatal(err)
		}
		if err := kept.Close(); err != nil {
			t.Fatal(err)
		}
	}
	fill("finished")
	s, err := open()
	if err != nil {
		t.Fatal(err)
	}
	s.file.View(func(tx *Tx) error {
		if tx.Get("finished", []byte("key")) != nil {
			t.Error("what nobody reads is kept")
		}
		return nil
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	fill("outbox")
	for range 2 {
		if _, err := open(); err == nil || !strings.Contains(err.Error(), "run that version") {
			t.Errorf("Open = %v", err)
		}
	}
}
