package netguard_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/millrace/millrace/internal/netguard"
)

// errReached ends a dial that the guard let through, before a packet is sent.
var errReached = errors.New("let through")

// recorder returns a dialer that appends each address that the guard lets through to
// reached, and does not connect.
func recorder(reached *[]string) *net.Dialer {
	return &net.Dialer{ControlContext: func(_ context.Context, _, addr string, _ syscall.RawConn) error {
		*reached = append(*reached, addr)
		return errReached
	}}
}

// dial dials addr and returns the error: either the guard's or errReached.
func dial(t *testing.T, p netguard.Policy, addr string) error {
	t.Helper()
	var reached []string
	conn, err := p.DialContext(recorder(&reached))(t.Context(), "tcp", addr)
	if err == nil {
		conn.Close()
		t.Fatalf("%s: connected", addr)
	}
	if blocked := errors.Is(err, netguard.ErrBlocked); blocked == (len(reached) > 0) {
		t.Errorf("%s: let through %v, but the error is %v", addr, reached, err)
	}
	return err
}

// TestMatrix checks that the guard blocks the first and the last address of every network
// that doc/protocol.md §11.6 names, and some in between.
func TestMatrix(t *testing.T) {
	for network, inside := range map[string][]string{
		"0.0.0.0/8":          {"0.0.0.0"},
		"10.0.0.0/8":         {"10.1.2.3"},
		"100.64.0.0/10":      {"100.100.100.200"},
		"127.0.0.0/8":        {"127.0.0.1", "127.1.2.3"},
		"169.254.0.0/16":     {"169.254.169.254", "169.254.170.2"},
		"172.16.0.0/12":      {"172.17.0.1"},
		"192.0.0.0/24":       {"192.0.0.192"},
		"192.168.0.0/16":     {"192.168.1.1"},
		"198.18.0.0/15":      {"198.19.0.1"},
		"224.0.0.0/4":        {"224.0.0.251"},
		"240.0.0.0/4":        {"255.255.255.255"},
		"168.63.129.16/32":   nil,
		"::/128":             nil,
		"::1/128":            nil,
		"::ffff:0:0/96":      {"::ffff:127.0.0.1", "::ffff:a9fe:a9fe", "::ffff:8.8.8.8"},
		"::/96":              {"::7f00:1"},
		"64:ff9b::/96":       {"64:ff9b::7f00:1", "64:ff9b::8.8.8.8"},
		"64:ff9b:1::/48":     nil,
		"2001::/32":          {"2001:0:a9fe:a9fe::1"},
		"2002::/16":          {"2002:7f00:1::", "2002:a9fe:a9fe::1"},
		"fc00::/7":           {"fd00:ec2::254"},
		"fe80::/10":          {"fe80::1%lo", "fe80::a9fe:a9fe%1"},
		"fec0::/10":          nil,
		"ff00::/8":           {"ff02::1"},
		"2001:db8::/32":      nil,
		"203.0.113.0/24":     nil,
		"100::/64":           nil,
		"::ffff:0:0:0/96":    nil, // translated, RFC 2765
		"2001:20::/28":       nil,
		"192.88.99.0/24":     nil,
		"255.255.255.255/32": nil,
	} {
		p := netip.MustParsePrefix(network)
		for _, host := range append(inside, p.Addr().String(), last(p).String()) {
			addr := net.JoinHostPort(host, "443")
			err := dial(t, netguard.Policy{}, addr)
			if !errors.Is(err, netguard.ErrBlocked) {
				t.Errorf("%s of %s: %v", host, network, err)
			}
			if !strings.Contains(err.Error(), addr) {
				t.Errorf("the error does not name %s: %v", addr, err)
			}
			u := &url.URL{Scheme: "https", Host: "[" + strings.ReplaceAll(host, "%", "%25") + "]", Path: "/canary"}
			if !strings.Contains(host, ":") {
				u.Host = host
			}
			err = (netguard.Policy{}).CheckURL(u)
			if !errors.Is(err, netguard.ErrBlocked) || strings.Contains(err.Error(), "canary") {
				t.Errorf("CheckURL(%s) = %v", u, err)
			}
		}
	}
}

// last returns the last address of a network.
func last(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	ip, _ := netip.AddrFromSlice(b)
	return ip
}

// TestNumbers checks that the guard blocks addresses in forms that only some libraries
// understand.
func TestNumbers(t *testing.T) {
	for _, host := range []string{
		"2130706433", "134744072", "017700000001", "0x7f000001", "0X7F000001", "127.1", "127.0.1", "0177.0.0.1", "0x7f.0.0.1",
		"127.0.0.0x1", "127.0.0.1.", "8.8.8.8.", "0", "0x", "00000177.1", "1.2.3.4.5", "256.256.256.256", "", ".",
	} {
		if err := dial(t, netguard.Policy{}, net.JoinHostPort(host, "80")); !errors.Is(err, netguard.ErrBlocked) {
			t.Errorf("%q: %v", host, err)
		}
	}
}

func TestPublic(t *testing.T) {
	for _, addr := range []string{"8.8.8.8:443", "1.1.1.1:80", "93.184.215.14:8443", "[2606:4700::1111]:443", "172.32.0.1:443", "100.128.0.1:65535", "192.0.1.1:1024"} {
		if err := dial(t, netguard.Policy{}, addr); !errors.Is(err, errReached) {
			t.Errorf("%s: %v", addr, err)
		}
		if err := (netguard.Policy{}).CheckURL(&url.URL{Scheme: "https", Host: addr}); err != nil {
			t.Errorf("CheckURL(%s) = %v", addr, err)
		}
	}
}

func TestPorts(t *testing.T) {
	for _, port := range []string{"0", "1", "22", "25", "53", "110", "444", "1023"} {
		if err := dial(t, netguard.Policy{}, "8.8.8.8:"+port); !errors.Is(err, netguard.ErrBlocked) {
			t.Errorf("port %s: %v", port, err)
		}
		if err := (netguard.Policy{}).CheckURL(&url.URL{Scheme: "https", Host: "example.com:" + port}); !errors.Is(err, netguard.ErrBlocked) {
			t.Errorf("CheckURL with port %s: %v", port, err)
		}
	}
	p := netguard.Policy{}.Trust("https://8.8.8.8:444/path", "http://EXAMPLE.com:22")
	if err := dial(t, p, "8.8.8.8:444"); !errors.Is(err, errReached) {
		t.Error(err)
	}
	if err := p.CheckURL(&url.URL{Scheme: "http", Host: "Example.com:22"}); err != nil {
		t.Error(err)
	}
}

func TestAllowed(t *testing.T) {
	for name, c := range map[string]struct {
		policy netguard.Policy
		open   []string
		shut   []string
	}{
		"loopback": {
			netguard.Policy{AllowLoopback: true},
			[]string{"127.0.0.1:22", "[::1]:443", "127.8.8.8:8080"},
			[]string{"0.0.0.0:80", "10.0.0.1:80", "169.254.169.254:80", "[::ffff:127.0.0.1]:80", "[::]:80", "8.8.8.8:22"},
		},
		"network": {
			netguard.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fe80::/64")}},
			[]string{"10.1.2.3:80", "[fe80::1%lo]:443", "10.1.255.255:22"},
			[]string{"10.2.0.1:80", "127.0.0.1:80", "[fe81::1%lo]:80"},
		},
		"trusted": {
			netguard.Policy{}.Trust("http://10.0.0.5:8080", "http://localhost:9000/base", "https://[fd00::7]", "nonsense", "ftp://10.0.0.6", "http://name.example:81"),
			[]string{"10.0.0.5:8080", "[fd00::7]:443"},
			[]string{"10.0.0.5:8081", "10.0.0.6:21", "127.0.0.1:9000", "[fd00::7]:80"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, addr := range c.open {
				if err := dial(t, c.policy, addr); !errors.Is(err, errReached) {
					t.Errorf("%s: %v", addr, err)
				}
			}
			for _, addr := range c.shut {
				if err := dial(t, c.policy, addr); !errors.Is(err, netguard.ErrBlocked) {
					t.Errorf("%s: %v", addr, err)
				}
			}
		})
	}
}

// TestOtherNetworks checks that the guard blocks sockets of another kind, such as UDP.
func TestOtherNetworks(t *testing.T) {
	_, err := netguard.Policy{}.DialContext(nil)(t.Context(), "udp", "8.8.8.8:53")
	if !errors.Is(err, netguard.ErrBlocked) {
		t.Error(err)
	}
}

// TestRedirect checks that the guard blocks a redirect from an allowed server to one that
// is not allowed (threat 10).
func TestRedirect(t *testing.T) {
	var reached bool
	inner := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer inner.Close()
	for _, to := range []string{inner.URL, strings.Replace(inner.URL, "127.0.0.1", "localhost", 1), strings.Replace(inner.URL, "127.0.0.1", "[::ffff:127.0.0.1]", 1)} {
		outer := httptest.NewServer(http.RedirectHandler(to+"/secret", http.StatusTemporaryRedirect))
		client := &http.Client{Transport: &http.Transport{DialContext: netguard.Policy{}.Trust(outer.URL).DialContext(nil)}}
		_, err := client.Post(outer.URL, "application/json", strings.NewReader("{}"))
		if !errors.Is(err, netguard.ErrBlocked) || reached {
			t.Errorf("%s: reached %t, %v", to, reached, err)
		}
		client.CloseIdleConnections()
		outer.Close()
	}
}

// TestConnects makes real connections to allowed addresses and checks that the dialer's
// own control function is called.
func TestConnects(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") }))
	defer server.Close()
	port := server.URL[strings.LastIndexByte(server.URL, ':'):]
	for _, p := range []netguard.Policy{
		{AllowLoopback: true},
		{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}},
		netguard.Policy{}.Trust("http://localhost"+port, server.URL),
	} {
		for _, host := range []string{"127.0.0.1", "localhost"} {
			controlled := false
			d := &net.Dialer{Control: func(string, string, syscall.RawConn) error { controlled = true; return nil }}
			client := &http.Client{Transport: &http.Transport{DialContext: p.DialContext(d)}}
			resp, err := client.Get("http://" + host + port)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			client.CloseIdleConnections()
			if !controlled {
				t.Error("the dialer's own control function was not called")
			}
		}
	}
}
