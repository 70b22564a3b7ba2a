package peer

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace/millrace/internal/edge"
	"github.com/millrace/millrace/internal/netguard"
)

// TestZ04Guard checks that the client of a publicly reachable runtime connects only to public networks, however an address is
// written (Z04, threats 11 and 15).
func TestZ04Guard(t *testing.T) {
	opts := Config{Toolsets: []string{"http://127.0.0.9:1", "http://named.test", "http://localhost:1"}, Connect: 100 * time.Millisecond, Concurrency: 256}
	client := newClient(opts, "https://agents.example").Standard(1, time.Second)
	defer client.CloseIdleConnections()
	for _, host := range []string{
		"0.0.0.0", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.1.2.3", "169.254.169.254", "172.16.0.1", "192.0.0.1",
		"192.168.0.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "[::]", "[::1]", "[::ffff:127.0.0.1]",
		"[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[fc00::1]", "[fe80::1]", "[ff02::1]", "2130706433", "0x7f.1", "0177.0.0.1",
		"localhost", "127.0.0.9", "127.0.0.9:2", "localhost:2",
	} {
		_, err := client.Get("http://" + host + "/")
		if !errors.Is(err, netguard.ErrBlocked) {
			t.Errorf("%s: %v, want it to be blocked", host, err)
		}
	}
	// Addresses that the operator configured are allowed: these requests fail in another way.
	for _, host := range []string{"127.0.0.9:1", "localhost:1"} {
		if _, err := client.Get("http://" + host + "/"); err == nil || errors.Is(err, netguard.ErrBlocked) {
			t.Errorf("%s: %v, want it not to be blocked", host, err)
		}
	}
	opts.AllowNetworks = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	allowing := newClient(opts, "https://agents.example").Standard(1, time.Second)
	if _, err := allowing.Get("http://127.0.0.1:1/"); err == nil || errors.Is(err, netguard.ErrBlocked) {
		t.Errorf("an allowed network: %v", err)
	}
}

// TestThreat10_PlainHTTP checks that unencrypted requests go to no public address, not even to a configured one, unless the
// operator allows it (threats 10 and 11).
func TestThreat10_PlainHTTP(t *testing.T) {
	opts := Config{
		Toolsets:      []string{"http://198.41.0.4:8080", "http://10.1.2.3:8080"},
		AllowNetworks: []netip.Prefix{netip.MustParsePrefix("192.168.0.0/16")},
	}
	let := errors.New("it may be connected to")
	dialer := &net.Dialer{Control: func(string, string, syscall.RawConn) error { return let }}
	for url, want := range map[string]error{
		"http://198.41.0.4/": netguard.ErrBlocked, "http://198.41.0.4:8080/": netguard.ErrBlocked, "http://[2001:500:2::c]/": netguard.ErrBlocked,
		"https://198.41.0.4/": let, "https://198.41.0.4:8080/": let, "http://10.1.2.3:8080/": let, "http://192.168.1.1/": let, "http://10.1.2.4/": netguard.ErrBlocked,
	} {
		for _, plain := range []bool{false, true} {
			if plain && strings.Contains(url, "198.") || strings.Contains(url, "2001:") && plain {
				want = let
			}
			client := edge.NewClient(edge.Outbound{Dial: guarded(guardOf(opts, "https://agents.example"), plain, dialer)}.Transport())
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := client.Do(req, 1); !errors.Is(err, want) {
				t.Errorf("%s, plain http allowed %v: %v, want %v", url, plain, err, want)
			}
		}
	}
}
