package durable

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// TestTakeAll takes all entries, before and after a crash, and checks that each comes once.
func TestTakeAll(t *testing.T) {
	log := journal.NewMemory(journal.MemoryOptions{})
	app := start(t, log, jobs, Options{})
	putJobs(t, app, 6)
	var got []string
	for k := range app.Ports.out.All(t.Context()) {
		if got = append(got, k); len(got) == 4 {
			break
		}
	}
	if want := []string{"k0", "k1", "k2", "k3"}; !slices.Equal(got, want) {
		t.Errorf("took %q, want %q", got, want)
	}
	log = log.Reopen() // which ends the first app
	app = start(t, log, jobs, Options{})
	for k := range app.Ports.out.All(t.Context()) {
		if got = append(got, k); len(got) == 6 {
			break
		}
	}
	slices.Sort(got)
	if want := []string{"k0", "k1", "k2", "k3", "k4", "k5"}; !slices.Equal(got, want) {
		t.Errorf("took %q, want %q", got, want)
	}
	stop(t, app)
}

// TestTakeAllShared has several goroutines take all entries and one take an entry by key. No
// entry is taken twice.
func TestTakeAllShared(t *testing.T) {
	const n = 60
	app := start(t, journal.NewMemory(journal.MemoryOptions{}), jobs, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	had := make(map[string]int)
	note := func(k string) {
		mu.Lock()
		defer mu.Unlock()
		if had[k]++; len(had) == n {
			cancel()
		}
	}
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for k := range app.Ports.out.All(ctx) {
				note(k)
			}
		})
	}
	wg.Go(func() {
		if _, err := app.Ports.out.Take(ctx, "k7"); err == nil {
			note("k7")
		}
	})
	putJobs(t, app, n)
	wg.Wait()
	for k, times := range had {
		if times != 1 {
			t.Errorf("%s was taken %d times", k, times)
		}
	}
	if len(had) != n {
		t.Errorf("%d entries were taken, want %d", len(had), n)
	}
	stop(t, app)
}
