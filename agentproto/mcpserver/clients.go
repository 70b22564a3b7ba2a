package mcpserver

import (
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxSessions bounds the sessions of one owner over HTTP. Clients need not end their sessions, and some begin one for each call.
// Beyond it, the session that has been idle longest is closed; its client, if it is still there, has to begin a new one.
const maxSessions = 512

// clients are the sessions of an owner over HTTP, by their IDs. Sessions that the SDK has closed are removed when there are too
// many.
type clients struct {
	mu  sync.Mutex
	all map[string]*use
}

// A use describes how a session is used.
type use struct {
	requests int       // in progress
	last     time.Time // when the last one ended
}

// add adds a new session.
func (c *clients) add(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[string]*use{}
	}
	c.all[id] = &use{last: time.Now()}
}

// begin records that a request of a session begins, if it is known, and returns a function that records its end.
func (c *clients) begin(id string) (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.all[id]
	if u == nil {
		return func() {}
	}
	u.requests++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		u.requests--
		u.last = time.Now()
	}
}

// makeRoom closes sessions of a server that are idle until there is room for one more.
func (c *clients) makeRoom(of *mcp.Server) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.all) < maxSessions {
		return
	}
	open := map[string]*mcp.ServerSession{}
	for s := range of.Sessions() {
		open[s.ID()] = s
	}
	for id := range c.all {
		if open[id] == nil {
			delete(c.all, id)
		}
	}
	for len(c.all) >= maxSessions {
		idle := ""
		for id, u := range c.all {
			if u.requests == 0 && (idle == "" || u.last.Before(c.all[idle].last)) {
				idle = id
			}
		}
		if idle == "" {
			return // requests in progress are bounded
		}
		delete(c.all, idle)
		go open[idle].Close() // it may wait for a client
	}
}
