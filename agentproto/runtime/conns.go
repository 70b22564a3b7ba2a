package runtime

import (
	"container/list"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
)

// conns are the connections to the callback endpoint. There is a bound for those of one
// network, so that idle and slow ones cannot use up what all connections need (protocol
// part 7, threat 9).
//
// Those on which nothing was sent yet are told apart: clients open some in advance, and
// [http.Server.Shutdown] waits five seconds for each of them to be used; closing them
// loses nothing.
type conns struct {
	mu       sync.Mutex
	max      int // of one network
	known    map[net.Conn]*guest
	networks map[string]*guests
	closing  bool
}

// A guest is one connection.
type guest struct {
	conn    net.Conn
	network string
	unused  bool
	idle    *list.Element // in the list of its network; nil while a request is served
}

// guests are the connections of one network.
type guests struct {
	count int
	idle  list.List // of *guest, the one that is idle for the longest time in front
}

func newConns(most int) *conns {
	return &conns{max: most, known: map[net.Conn]*guest{}, networks: map[string]*guests{}}
}

// note is the server's ConnState.
func (c *conns) note(conn net.Conn, state http.ConnState) {
	if surplus := c.enter(conn, state); surplus != nil {
		surplus.Close()
	}
}

// enter enters the state of a connection, and returns one to close or nil.
func (c *conns) enter(conn net.Conn, state http.ConnState) (surplus net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := c.known[conn]
	switch state {
	case http.StateNew:
		return c.admit(conn)
	case http.StateActive, http.StateIdle:
		if g == nil {
			return nil // closed already, and not noticed yet
		}
		n := c.networks[g.network]
		if g.unused = false; g.idle != nil {
			n.idle.Remove(g.idle)
			g.idle = nil
		}
		if state == http.StateIdle {
			g.idle = n.idle.PushBack(g)
		}
	default:
		c.remove(g)
	}
	return nil
}

// admit enters a new connection.
func (c *conns) admit(conn net.Conn) (surplus net.Conn) {
	if c.closing {
		return conn
	}
	name := networkOf(conn.RemoteAddr())
	n := c.networks[name]
	if n == nil {
		n = &guests{}
		c.networks[name] = n
	}
	if n.count >= c.max {
		oldest := n.idle.Front()
		if oldest == nil {
			return conn
		}
		g := oldest.Value.(*guest)
		c.remove(g)
		c.networks[name] = n // it may have been the only one
		surplus = g.conn
	}
	g := &guest{conn: conn, network: name, unused: true}
	g.idle = n.idle.PushBack(g)
	n.count++
	c.known[conn] = g
	return surplus
}

// remove forgets a connection; nil is one that is forgotten.
func (c *conns) remove(g *guest) {
	if g == nil {
		return
	}
	delete(c.known, g.conn)
	n := c.networks[g.network]
	if g.idle != nil {
		n.idle.Remove(g.idle)
	}
	if n.count--; n.count == 0 {
		delete(c.networks, g.network)
	}
}

// closeUnused closes connections on which nothing was sent, and those that come.
func (c *conns) closeUnused() {
	c.mu.Lock()
	var unused []net.Conn
	for conn, g := range c.known {
		if g.unused {
			unused = append(unused, conn)
		}
	}
	c.closing = true
	c.mu.Unlock()
	for conn := range slices.Values(unused) {
		conn.Close()
	}
}

// networkOf returns what counts as one peer: an IPv4 address, or a /64 network of IPv6,
// which is what one customer has.
func networkOf(addr net.Addr) string {
	ap, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return addr.String()
	}
	ip := ap.Addr().Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	prefix, _ := ip.Prefix(64)
	return prefix.String()
}
