package edge

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestStopWithUnusedConnection checks that a connection on which nothing was sent does not delay
// the stop of the runtime.
func TestStopWithUnusedConnection(t *testing.T) {
	c := newConns(8, 8)
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	seen := make(chan struct{}, 8)
	server.Config.ConnState = func(conn net.Conn, state http.ConnState) {
		c.note(conn, state)
		seen <- struct{}{}
	}
	server.Start()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	<-seen
	c.closeUnused()
	if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the connection is open: %v", err)
	}
	server.Close()
}

// A from is a connection from a given address.
type from struct {
	net.Conn
	addr   string
	closed bool
}

func (f *from) RemoteAddr() net.Addr { return address(f.addr) }
func (f *from) Close() error         { f.closed = true; return nil }

// TestW09ConnectionsAreBounded is W09, threat 9: the connections of one network are bounded. The
// one that has been idle longest makes room for a new one. If none is idle, the new one is refused.
func TestW09ConnectionsAreBounded(t *testing.T) {
	c := newConns(3, 100)
	open := func(addr string) *from {
		f := &from{addr: addr}
		c.note(f, http.StateNew)
		return f
	}
	first, second, third := open("192.0.2.1:1"), open("192.0.2.1:2"), open("192.0.2.1:3")
	c.note(first, http.StateActive)
	c.note(second, http.StateActive)
	c.note(first, http.StateIdle) // after third
	if fourth := open("192.0.2.1:4"); !third.closed || fourth.closed || first.closed || second.closed {
		t.Errorf("closed: %v %v %v %v, want the third: it was unused for the longest time", first.closed, second.closed, third.closed, fourth.closed)
	}
	c.note(third, http.StateClosed) // the server notices the close only now
	if fifth := open("192.0.2.1:5"); !first.closed || fifth.closed {
		t.Error("the connection that was idle after its request is open")
	} else {
		c.note(fifth, http.StateActive)
	}
	if other := open("192.0.2.2:1"); other.closed {
		t.Error("a connection of another address was closed")
	}
	for conn, g := range c.known {
		if g.idle != nil && g.network == "192.0.2.1" {
			c.note(conn, http.StateActive)
		}
	}
	if sixth := open("192.0.2.1:6"); !sixth.closed || second.closed {
		t.Error("a connection was accepted although all are in use")
	}
	c.note(second, http.StateClosed)
	if seventh := open("192.0.2.1:7"); seventh.closed {
		t.Error("a connection was closed although there is room")
	}
	for conn := range c.known {
		c.note(conn, http.StateClosed)
	}
	if len(c.known) != 0 || len(c.networks) != 0 {
		t.Errorf("%d connections and %d networks are left", len(c.known), len(c.networks))
	}
}

func TestNetworkOf(t *testing.T) {
	for in, want := range map[string]string{
		"192.0.2.1:80":                "192.0.2.1",
		"[::ffff:192.0.2.1]:80":       "192.0.2.1",
		"[2001:db8:1:2:3:4:5:6]:443":  "2001:db8:1:2::/64",
		"[2001:db8:1:2:ffff::1]:1":    "2001:db8:1:2::/64",
		"[fe80::1%eth0]:1":            "fe80::/64",
		"pipe":                        "pipe",
		"[2001:db8:1:3:3:4:5:6%x]:44": "2001:db8:1:3::/64",
	} {
		if got := networkOf(address(in)); got != want {
			t.Errorf("networkOf(%s) = %s, want %s", in, got, want)
		}
	}
}
