package lockfile

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// TestTake checks that Take gets a lock that its holder releases soon, as a killed process
// does, and that it fails for a lock that its holder keeps.
func TestTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "lock")
		first, err := Take(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(patience/2, func() { first.Close() })
		second, err := Take(t.Context(), path)
		if err != nil {
			t.Fatalf("a lock that is released while Take waits: %v", err)
		}
		began := time.Now()
		if f, err := Take(t.Context(), path); !errors.Is(err, ErrTaken) {
			f.Close()
			t.Errorf("a lock that another holder has: %v, want ErrTaken", err)
		}
		if took := time.Since(began); took < patience || took > patience+again {
			t.Errorf("Take waited %v, want %v", took, patience)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience/2)
		defer cancel()
		if f, err := Take(ctx, path); !errors.Is(err, context.DeadlineExceeded) {
			f.Close()
			t.Errorf("a lock that another holder has, with a context that ends: %v", err)
		}
		second.Close()
	})
}
