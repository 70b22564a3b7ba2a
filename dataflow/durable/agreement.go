package durable

import (
	"context"
	"sync"
)

// An agreement makes a process that runs all partitions wait until all of them can go on with its program.
// Before that, no history says that it belongs to the program. So a program that one partition refuses has
// changed nothing, and the program that made the histories can be started again.
type agreement struct {
	mu      sync.Mutex
	missing map[int]bool  // partitions that were not compared yet
	all     chan struct{} // closed when none is missing
}

func newAgreement(partitions int) *agreement {
	a := &agreement{missing: make(map[int]bool), all: make(chan struct{})}
	for p := range partitions {
		a.missing[p] = true
	}
	return a
}

// fits notes that a partition can go on with the program, and waits until all of them can. A nil agreement
// does not wait: where processes share a flow, another process runs what this one cannot.
func (a *agreement) fits(ctx context.Context, partition int) error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	if a.missing[partition] {
		delete(a.missing, partition)
		if len(a.missing) == 0 {
			close(a.all)
		}
	}
	a.mu.Unlock()
	select {
	case <-a.all:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
