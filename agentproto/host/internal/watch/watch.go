// Package watch notifies callers that wait for changes of calls: see [Calls].
package watch

import (
	"sync"

	"github.com/millrace/millrace/agentproto"
)

// Calls are the calls that are being watched. The zero value has none. Its methods are safe for concurrent use. A call without
// watchers costs nothing.
type Calls struct {
	mu      sync.Mutex
	waiting map[agentproto.CallKey]map[chan struct{}]bool
}

// Watch returns a channel that has a value whenever something has happened to a call since the last value was received, until
// leave is called.
func (c *Calls) Watch(key agentproto.CallKey) (changes <-chan struct{}, leave func()) {
	ch := make(chan struct{}, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting == nil {
		c.waiting = map[agentproto.CallKey]map[chan struct{}]bool{}
	}
	if c.waiting[key] == nil {
		c.waiting[key] = map[chan struct{}]bool{}
	}
	c.waiting[key][ch] = true
	return ch, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if delete(c.waiting[key], ch); len(c.waiting[key]) == 0 {
			delete(c.waiting, key)
		}
	}
}

// Tell reports that something happened to a call. It never waits.
func (c *Calls) Tell(key agentproto.CallKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for ch := range c.waiting[key] {
		select {
		case ch <- struct{}{}:
		default: // a value is already waiting
		}
	}
}
