// Package watch tells who waits for changes of calls that something has happened.
package watch

import (
	"sync"

	"github.com/millrace/millrace/agentproto"
)

// Calls are the calls that somebody watches. The zero value has none. Its methods may be used by any number of
// goroutines. A call that nobody watches costs nothing.
type Calls struct {
	mu      sync.Mutex
	waiting map[agentproto.CallKey]map[chan struct{}]bool
}

// Watch returns a channel that has a value whenever something happened to a call since the last one was received,
// until leave is called.
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

// Tell says that something happened to a call. It never waits.
func (c *Calls) Tell(key agentproto.CallKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for ch := range c.waiting[key] {
		select {
		case ch <- struct{}{}:
		default: // it has been told already
		}
	}
}
