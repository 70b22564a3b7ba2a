package netguard_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/millrace/millrace/internal/netguard"
)

// resolver returns a resolver that answers the n-th question for an IPv4 address
// with what answer returns, and questions for IPv6 addresses with none.
func resolver(answer func(n int) []string) *net.Resolver {
	var asked atomic.Int64
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			for {
				query, err := readMessage(theirs)
				if err != nil {
					return
				}
				var ips []string
				if end := endOfQuestion(query); binary.BigEndian.Uint16(query[end-4:]) == 1 { // type A
					ips = answer(int(asked.Add(1)))
				}
				theirs.Write(answerTo(query, ips))
			}
		}()
		return ours, nil
	}}
}

func readMessage(r io.Reader) ([]byte, error) {
	var length [2]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	m := make([]byte, binary.BigEndian.Uint16(length[:]))
	_, err := io.ReadFull(r, m)
	return m, err
}

// endOfQuestion returns where the question of a DNS message ends: after a header of
// 12 bytes come the labels of a name, a type and a class.
func endOfQuestion(query []byte) int {
	at := 12
	for query[at] != 0 {
		at += int(query[at]) + 1
	}
	return at + 5
}

// answerTo makes a DNS message that answers a query, with its length before it.
func answerTo(query []byte, ips []string) []byte {
	m := slices.Clone(query[:endOfQuestion(query)])
	m[2], m[3] = 0x81, 0x80 // a response, without error
	binary.BigEndian.PutUint16(m[6:], uint16(len(ips)))
	clear(m[8:12])
	for _, ip := range ips {
		m = append(m, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4) // the name, A, IN, no time to live
		m = append(m, netip.MustParseAddr(ip).AsSlice()...)
	}
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(m))), m...)
}

// TestRebinding resolves a name to a public address and to a private one in turn
// (threat 15): whoever had checked the name before dialing would have been deceived.
func TestRebinding(t *testing.T) {
	var reached []string
	d := recorder(&reached)
	d.Resolver = resolver(func(n int) []string { return []string{[]string{"127.0.0.1", "93.184.215.14"}[n%2]} })
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

// TestMixedAnswer passes over the addresses that are not allowed.
func TestMixedAnswer(t *testing.T) {
	var reached []string
	d := recorder(&reached)
	d.Resolver = resolver(func(int) []string { return []string{"169.254.169.254", "10.0.0.1", "93.184.215.14"} })
	netguard.Policy{}.DialContext(d)(t.Context(), "tcp", "mixed.example.:443")
	if !slices.Equal(reached, []string{"93.184.215.14:443"}) {
		t.Errorf("let through %v", reached)
	}
}

// TestTrustedName keeps a name that the operator has configured to public
// addresses: its records may be changed by others.
func TestTrustedName(t *testing.T) {
	var reached []string
	d := recorder(&reached)
	d.Resolver = resolver(func(int) []string { return []string{"127.0.0.1"} })
	p := netguard.Policy{}.Trust("http://tools.example.:8080")
	_, err := p.DialContext(d)(t.Context(), "tcp", "tools.example.:8080")
	if !errors.Is(err, netguard.ErrBlocked) || len(reached) > 0 {
		t.Errorf("%v, let through %v", err, reached)
	}
}
