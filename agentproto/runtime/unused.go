package runtime

import (
	"net"
	"net/http"
	"sync"
)

// unused are connections on which nothing was sent yet. Clients open some in
// advance, and http.Server.Shutdown waits five seconds for each of them to be used;
// closing them loses nothing.
type unused struct {
	mu      sync.Mutex
	conns   map[net.Conn]struct{}
	closing bool
}

// note is the server's ConnState.
func (u *unused) note(c net.Conn, state http.ConnState) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if state != http.StateNew {
		delete(u.conns, c)
		return
	}
	if u.closing {
		c.Close()
		return
	}
	if u.conns == nil {
		u.conns = make(map[net.Conn]struct{})
	}
	u.conns[c] = struct{}{}
}

// close closes all there are, and those that come.
func (u *unused) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closing = true
	for c := range u.conns {
		c.Close()
	}
}
