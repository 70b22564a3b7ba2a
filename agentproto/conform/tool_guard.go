package conform

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
)

// A watch is an address that nobody should connect to.
type watch struct {
	c       *toolCase
	addr    string
	port    string
	touched atomic.Int64
}

// watch listens at an address and counts connections.
func (c *toolCase) watch(addr string) *watch {
	l, err := net.Listen("tcp", addr)
	c.must(err, "listen for what should not come")
	w := &watch{c: c, addr: l.Addr().String()}
	_, w.port, _ = net.SplitHostPort(w.addr)
	c.after(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			w.touched.Add(1)
			conn.Close()
		}
	}()
	return w
}

// untouched fails if somebody has connected.
func (w *watch) untouched(sent string) {
	if n := w.touched.Load(); n > 0 {
		w.c.fail(sent, fmt.Sprintf("%d connections to %s", n, w.addr), "none")
	}
}

// internal are addresses outside the public internet, in many spellings (doc/protocol.md §11.6).
// The runner cannot listen on them, so it sees only whether they are refused.
var internal = []string{
	"0.1.2.3", "10.0.0.1", "100.64.0.1", "169.254.169.254", "172.16.0.1", "192.0.0.1", "192.168.0.1", "198.18.0.1",
	"224.0.0.1", "240.0.0.1", "255.255.255.255", "[fc00::1]", "[fd00:ec2::254]", "[fe80::1]", "[ff02::1]",
	"[::ffff:10.0.0.1]", "[::ffff:a9fe:a9fe]", "[64:ff9b::a00:1]", "[2002:a00:1::]", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376",
}

// private returns an address of this machine that is neither loopback nor public, or "".
func private() string {
	addrs, _ := net.InterfaceAddrs() // none on error
	for _, a := range addrs {
		p, err := netip.ParsePrefix(a.String())
		if err == nil && p.Addr().Is4() && p.Addr().IsPrivate() {
			return p.Addr().String()
		}
	}
	return ""
}

// unreached makes calls with callback addresses that must not be connected to. Each call must be
// refused at once, or be accepted and its result never sent; a watch checks the latter some time
// later.
func (c *toolCase) unreached(what string, addresses []string) {
	for _, address := range addresses {
		k := c.some("internal").set(fields{"callback_url": address})
		c.status(what+" "+address, k.send(), 200, 400, 403, 422)
	}
	c.alive()
}

// Z05: results are sent only to runtimes.
func (c *toolCase) guardedAddresses() {
	for _, bad := range []string{
		"", "not a url", "/relative", "ftp://127.0.0.1/x", "file:///etc/passwd", "gopher://127.0.0.1/x", "javascript:alert(1)",
		"http://", "http://user:secret@127.0.0.1/x", "unix:///var/run/docker.sock", "http://127.0.0.1:port/x",
	} {
		k := c.some("x").set(fields{"callback_url": bad})
		c.status(fmt.Sprintf("an invocation with callback_url %q", bad), k.send(), 400, 422)
	}
	var some []string
	for _, host := range internal {
		some = append(some, "http://"+host+"/callback")
	}
	c.unreached("callback_url", some)

	// Loopback may be allowed, since the runner itself is there. If only the runner's own addresses
	// are allowed, all other spellings and ports must stay untouched.
	if c.profile.OnlyCallbacks {
		w := c.watch("127.0.0.1:0")
		var own []string
		for _, host := range []string{"127.0.0.1", "localhost", "2130706433", "0x7f000001", "127.1", "0177.0.0.1", "[::ffff:127.0.0.1]", "0.0.0.0", "[::]", "127.0.0.2"} {
			own = append(own, "http://"+host+":"+w.port+"/callback")
		}
		c.unreached("callback_url", own)
		k := c.some("x")
		k.quiet("nothing")
		w.untouched("callback addresses of this machine that are not allowed")
	}
	if host := private(); host != "" {
		w := c.watch(net.JoinHostPort(host, "0"))
		c.unreached("callback_url", []string{"http://" + w.addr + "/callback", "http://[::ffff:" + host + "]:" + w.port + "/callback"})
		c.some("x").quiet("nothing")
		w.untouched("callback addresses of the private network")
	}
}

// Z04: a name or a redirect does not reach an address that would be refused itself.
func (c *toolCase) guardedNames() {
	if host := private(); host != "" {
		w := c.watch(net.JoinHostPort(host, "0"))
		names := []string{}
		if name, err := os.Hostname(); err == nil {
			if addrs, err := net.DefaultResolver.LookupHost(c.ctx, name); err == nil && strings.Contains(strings.Join(addrs, " "), host) {
				names = append(names, "http://"+name+":"+w.port+"/callback")
			}
		}
		c.unreached("callback_url", names)
		k := c.some("x", answer{status: 307, header: map[string]string{"Location": "http://" + w.addr + "/"}}).start()
		k.worked()
		k.what = "a callback redirected to an internal address"
		k.quiet("no other attempt")
		w.untouched("names and redirects that lead into the private network")
	}
	w := c.watch("127.0.0.1:0")
	k := c.some("x", answer{status: 302, header: map[string]string{"Location": "http://127.0.0.1:" + w.port + "/"}}).start()
	k.worked()
	if c.profile.OnlyCallbacks {
		c.unreached("callback_url", []string{"http://localhost:" + w.port + "/x", "http://localhost.:" + w.port + "/x", "http://LOCALHOST:" + w.port + "/x"})
	}
	c.some("x").quiet("nothing")
	w.untouched("names and redirects that lead to this machine")
	if d := c.profile.Destination; d != nil && len(c.profile.Roles["remember"].Operation) > 0 {
		session := c.keep(unique("note"), "x")
		for _, address := range []string{"http://localhost:" + w.port, "http://2130706433:" + w.port} {
			if got := c.migrate(session, address); got.status < 400 {
				c.fail("a migration to "+address, got, "a status of 400 or more")
			}
		}
		w.untouched("migrations to names of this machine")
	}
}
