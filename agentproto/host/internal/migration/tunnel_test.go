package migration

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto/host/internal/discovery"
	"github.com/millrace/millrace/agentproto/internal/envelope"
)

// TestTunnelAddressStays checks that the address of an entry does not change after a restart or
// a failed migration: a tool server that has already moved the session compares it.
func TestTunnelAddressStays(t *testing.T) {
	first, _ := newTunnels(sharedKey)
	second, _ := newTunnels(sharedKey)
	end := tunnelEnd{"http://second.test", "s/1", "set"}
	at := first.entry("http://a.test", end)
	if at != second.entry("http://a.test", end) {
		t.Error("another process has another address")
	}
	got, rest, err := second.open("http://a.test", at+"/migrate/import")
	if got != end || rest != "/migrate/import" || err != nil {
		t.Errorf("it leads to %+v %q, %v", got, rest, err)
	}
	other, _ := newTunnels([]byte(strings.Repeat("x", 32)))
	for name, path := range map[string]string{
		"of another host": first.entry("http://b.test", end), "with another key": other.entry("http://a.test", end),
		"short": at[:len(at)-1], "nothing": TunnelPath + "/", "no signature": at[:strings.LastIndexByte(at, '.')],
		"another text": strings.Replace(at, "/tunnel/e", "/tunnel/f", 1), "too long": at + strings.Repeat("A", maxTunnelToken),
	} {
		if _, _, err := first.open("http://a.test", path); err == nil {
			t.Errorf("%s: it leads somewhere", name)
		}
	}
}

// TestTunnelsAreBounded checks the limits on open moves and on remembered requests.
func TestTunnelsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tunnels, _ := newTunnels(sharedKey)
		for i := range maxTunnels {
			if err := tunnels.opens("s", strings.Repeat("x", i), time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		if tunnels.opens("s", "one more", time.Minute) == nil {
			t.Error("ever more moves are open")
		}
		head := TunnelHead{Sent: time.Now(), Session: "s", Method: "GET", Path: discovery.Path}
		for i := range maxTunnelSeen {
			head.Nonce = strings.Repeat("y", i)
			if status, _ := tunnels.admit(&head); status != 0 {
				t.Fatalf("request %d: %d", i, status)
			}
		}
		head.Nonce = "one more"
		if status, _ := tunnels.admit(&head); status != http.StatusServiceUnavailable {
			t.Errorf("one more request: %d", status)
		}
		time.Sleep(2*envelope.Tolerance + time.Second)
		if status, _ := tunnels.admit(&head); status != 0 {
			t.Errorf("ten minutes later: %d", status)
		}
		if head.Nonce = "y"; func() int { s, _ := tunnels.admit(&head); return s }() != http.StatusConflict {
			t.Error("what came ten minutes before is taken again")
		}
		time.Sleep(2 * time.Hour)
		if err := tunnels.opens("s", "later", time.Minute); err != nil || len(tunnels.exits) != 1 {
			t.Errorf("%d moves are open, %v", len(tunnels.exits), err)
		}
	})
}

// sharedKey is a key shared by the hosts.
var sharedKey = []byte(strings.Repeat("k", 32))
