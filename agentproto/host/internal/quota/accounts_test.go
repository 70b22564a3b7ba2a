package quota

import (
	"fmt"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/capability"
	"github.com/millrace/millrace/agentproto/host/internal/recent"
)

// TestIntakeDefaults checks the defaults of each bucket: bytes at once and per second. An empty bucket
// delays only its own messages.
func TestIntakeDefaults(t *testing.T) {
	const size = 10<<10 - Overhead
	named := func(server byte, session string, call int) capability.Capability {
		return capability.Capability{Server: capability.ServerID{server}, Key: agentproto.CallKey{GroupID: session, ID: fmt.Sprint(call)}}
	}
	for _, test := range []struct {
		name              string
		of                func(n int) capability.Capability
		same, other       capability.Capability
		atOnce, perSecond int
	}{
		{"a callback URL", func(int) capability.Capability { return named(1, "s", 1) }, named(1, "s", 1), named(1, "s", 2), 2 << 20, 64 << 10},
		{"a session", func(n int) capability.Capability { return named(byte(n%3), "s", n) }, named(4, "s", -1), named(1, "t", 1), 8 << 20, 256 << 10},
		{"a tool server", func(n int) capability.Capability { return named(1, fmt.Sprint(n), 1) }, named(1, "new", 1), named(2, "new", 1), 32 << 20, 4 << 20},
		{"all", func(n int) capability.Capability { return named(byte(n%100), fmt.Sprint(n), 1) }, named(200, "new", 1), capability.Capability{}, 64 << 20, 16 << 20},
	} {
		t.Run(test.name, func(t *testing.T) {
			i, now := New(Rates{}, 0), time.Unix(1e9, 0)
			taken := 0
			fill := func() {
				for n := 0; i.Charge(test.of(taken), size, now) == 0; n++ {
					if taken++; n > 1<<20 {
						t.Fatal("there is no bound")
					}
				}
			}
			fill()
			if bytes := taken * 10 << 10; bytes < test.atOnce-10<<10 || bytes > test.atOnce {
				t.Errorf("%d bytes were taken at once, want %d", bytes, test.atOnce)
			}
			if wait := i.Charge(test.same, size, now); wait <= 0 || wait > max(time.Millisecond, time.Duration(10<<10)*time.Second/time.Duration(test.perSecond)) {
				t.Errorf("wait %v", wait)
			}
			if test.other != (capability.Capability{}) && i.Charge(test.other, size, now) != 0 {
				t.Error("another one was put off")
			}
			taken = 0
			for range 600 {
				now = now.Add(100 * time.Millisecond)
				fill()
			}
			if bytes, want := taken*10<<10, 60*test.perSecond; bytes < want*99/100 || bytes > want+10<<10 {
				t.Errorf("%d bytes were taken in a minute, want %d", bytes, want)
			}
		})
	}
}

// TestIntakeDebt checks that a message that must not be deferred is still charged, and that a large one
// does not delay the following messages forever. A refund never exceeds the charge.
func TestIntakeDebt(t *testing.T) {
	i, now := New(Rates{}, 0), time.Unix(1e9, 0)
	c := capability.Capability{Server: capability.Identify("http://tool.test"), Key: agentproto.CallKey{GroupID: "group/1", ID: "call 2"}}
	for range 5 {
		i.Owe(c, 8<<20, now)
	}
	if wait, want := i.Charge(c, 0, now), 2<<20/(64<<10)*time.Second; wait < want || wait > want+time.Second {
		t.Errorf("wait %v, want %v", wait, want)
	}
	i.Refund(c, 8<<20, now)
	if i.Charge(c, 0, now) == 0 {
		t.Error("more was given back than was taken")
	}
}

// TestIntakeForgets checks that remembered callback URLs and sessions are bounded and forgotten after a
// while.
func TestIntakeForgets(t *testing.T) {
	i, now := New(Rates{}, 0), time.Unix(1e9, 0)
	c := capability.Capability{Server: capability.Identify("http://tool.test"), Key: agentproto.CallKey{GroupID: "group/1", ID: "call 2"}}
	for n := range 3 * recent.Most {
		c.Key.GroupID = fmt.Sprint(n)
		i.Charge(c, 0, now)
	}
	if urls, sessions := i.urls.Len(), i.sessions.Len(); urls > 2*recent.Most || sessions > 2*recent.Most || urls < recent.Most {
		t.Errorf("%d URLs and %d sessions are remembered", urls, sessions)
	}
	i.NoteID(c, now)
	for range 10 {
		now = now.Add(recent.Least / 2)
		if !i.Repeats(c, now) {
			t.Error("what is used is forgotten")
		}
	}
	if i.Charge(c, 0, now.Add(2*recent.Least)); i.urls.Len() != 1 {
		t.Errorf("%d URLs are remembered", i.urls.Len())
	}
}
