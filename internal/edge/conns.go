package edge

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
)

// conns are the connections of a server. Their number is limited for each network and in
// total, so that idle and slow connections cannot use up what all need (threat 9 of
// doc/threats.md).
//
// Connections on which nothing was sent yet are tracked separately. Clients open some in
// advance, and [http.Server.Shutdown] waits five seconds for each of them to be used;
// closing them loses nothing.
type conns struct {
	mu       sync.Mutex
	max      int // limit for one network
	total    int
	known    map[net.Conn]*connection
	networks map[string]*network
	idle     list.List // of *connection, for all networks; longest idle first
	closing  bool
}

// A connection is an open connection.
type connection struct {
	conn    net.Conn
	network string
	unused  bool
	// The elements in the lists of idle connections: of its network, and of all. They are
	// nil while a request is served.
	idle, idleOfAll *list.Element
}

// A network holds the connections of one peer.
type network struct {
	count int
	idle  list.List // of *connection, longest idle first
}

func newConns(most, total int) *conns {
	return &conns{max: most, total: total, known: map[net.Conn]*connection{}, networks: map[string]*network{}}
}

// note is the server's ConnState.
func (c *conns) note(conn net.Conn, state http.ConnState) {
	if surplus := c.enter(conn, state); surplus != nil {
		if t, ok := surplus.(*tls.Conn); ok {
			surplus = t.NetConn() // its Close does not wait until the peer has read the alert
		}
		surplus.Close()
	}
}

// enter records the state of a connection. It returns a connection to close, or nil.
func (c *conns) enter(conn net.Conn, state http.ConnState) (surplus net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.known[conn]
	switch state {
	case http.StateNew:
		return c.admit(conn)
	case http.StateActive, http.StateIdle:
		if x == nil {
			return nil // already closed, but not noticed yet
		}
		x.unused = false
		c.busy(x)
		if state == http.StateIdle {
			c.rest(x)
		}
	default:
		c.remove(x)
	}
	return nil
}

// admit records a new connection.
func (c *conns) admit(conn net.Conn) (surplus net.Conn) {
	if c.closing {
		return conn
	}
	name := networkOf(conn.RemoteAddr())
	n := c.networks[name]
	if n == nil {
		n = &network{}
	}
	var oldest *list.Element
	switch {
	case n.count >= c.max:
		oldest = n.idle.Front()
	case len(c.known) >= c.total:
		oldest = c.idle.Front()
	default:
		c.add(conn, name, n)
		return nil
	}
	if oldest == nil {
		return conn
	}
	x := oldest.Value.(*connection)
	c.remove(x)
	c.add(conn, name, n)
	return x.conn
}

func (c *conns) add(conn net.Conn, name string, n *network) {
	c.networks[name] = n // needed if the connection that made room was its only one
	n.count++
	x := &connection{conn: conn, network: name, unused: true}
	c.known[conn] = x
	c.rest(x)
}

// rest appends a connection to the lists of idle ones.
func (c *conns) rest(x *connection) {
	x.idle = c.networks[x.network].idle.PushBack(x)
	x.idleOfAll = c.idle.PushBack(x)
}

// busy removes a connection from the lists of idle ones.
func (c *conns) busy(x *connection) {
	if x.idle != nil {
		c.networks[x.network].idle.Remove(x.idle)
		c.idle.Remove(x.idleOfAll)
		x.idle, x.idleOfAll = nil, nil
	}
}

// remove forgets a connection. It does nothing for nil, a connection that is forgotten
// already.
func (c *conns) remove(x *connection) {
	if x == nil {
		return
	}
	delete(c.known, x.conn)
	c.busy(x)
	n := c.networks[x.network]
	if n.count--; n.count == 0 {
		delete(c.networks, x.network)
	}
}

// closeUnused closes connections on which nothing was sent, and from now on all new ones.
func (c *conns) closeUnused() {
	c.mu.Lock()
	var unused []net.Conn
	for conn, x := range c.known {
		if x.unused {
			unused = append(unused, conn)
		}
	}
	c.closing = true
	c.mu.Unlock()
	for conn := range slices.Values(unused) {
		conn.Close()
	}
}

func (c *conns) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.known)
}

// networkOf returns the network that counts as one peer: an IPv4 address, or a /64 network
// of IPv6, which is what one customer has.
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
