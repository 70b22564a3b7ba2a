package netguard_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/millrace/millrace/internal/netguard"
	"github.com/millrace/millrace/internal/netguard/netguardtest"
)

// TestRebinding resolves a name to a public address and to a private one in turn
// (threat 15). A check of the name before dialing would not notice the private one.
func TestRebinding(t *testing.T) {
	var reached []string
	d := recorder(&reached)
	d.Resolver = netguardtest.Resolver(func(n int) []string { return []string{[]string{"127.0.0.1", "93.184.215.14"}[n%2]} })
	guarded := netguard.Policy{}.DialContext(d)
	for n := 1; n <= 6; n++ {
		_, err := guarded(t.Context(), "tcp", "rebinding.example.:80")
		want := errReached
		if n%2 == 0 {
			want = netguard.ErrBlocked
		}
		if !errors.Is(err, want) {
			t.Errorf("attempt %d: %v, want %v", n, err, want)
		}
	}
	if want := []string{"93.184.215.14:80", "93.184.215.14:80", "93.184.215.14:80"}; !slices.Equal(reached, want) {
		t.Errorf("let through %v", reached)
	}
}

// TestMixedAnswer checks that the guard skips the addresses of an answer that are not allowed.
func TestMixedAnswer(t *testing.T) {
	var reached []string
	d := recorder(&reached)
	d.Resolver = netguardtest.Resolver(func(int) []string { return []string{"169.254.169.254", "10.0.0.1", "93.184.215.14"} })
	netguard.Policy{}.DialContext(d)(t.Context(), "tcp", "mixed.example.:443")
	if !slices.Equal(reached, []string{"93.184.215.14:443"}) {
		t.Errorf("let through %v", reached)
	}
}

// TestTrustedName checks that a trusted name may resolve only to public addresses, because
// others may change its DNS records.
func TestTrustedName(t *testing.T) {
	var reached []string
	d := recorder(&reached)
	d.Resolver = netguardtest.Resolver(func(int) []string { return []string{"127.0.0.1"} })
	p := netguard.Policy{}.Trust("http://tools.example.:8080")
	_, err := p.DialContext(d)(t.Context(), "tcp", "tools.example.:8080")
	if !errors.Is(err, netguard.ErrBlocked) || len(reached) > 0 {
		t.Errorf("%v, let through %v", err, reached)
	}
}
