package host

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto"
)

// tiny are rates that are used up by one small message.
var tiny = Rates{Call: Rate{Second: 1, Burst: 400}}

// S11, threat 5: who posts too much to one callback URL is put off with the time after
// which to try again, and nobody else is.
func TestS11RateOfACapability(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		view := `{"type":"view_update","group_id":"g","view_type":"v","content":{"a":1}}`
		cost := int64(overhead + len(view))
		w.opts.Bounds = Bounds{Rates: Rates{Call: Rate{Second: 2 * cost, Burst: 10 * cost}}}
		tool, _, url := w.pending()
		count := func(n int) (taken int) {
			for range n {
				if w.post(url, view) == 200 {
					taken++
				}
			}
			return taken
		}
		if n := count(1000); n != 10 {
			t.Errorf("%d of 1000 at once were taken, want 10", n)
		}
		resp, err := w.client.Post(url, "application/json", strings.NewReader(view))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		if resp.StatusCode != 503 || seconds != 1 {
			t.Errorf("status %d, Retry-After %q, want 503 and 1", resp.StatusCode, resp.Header.Get("Retry-After"))
		}
		w.pass(10 * time.Second)
		if n := count(1000); n != 10 {
			t.Errorf("%d of 1000 were taken 10 s later, want 10", n)
		}
		other := w.call("g", "2")
		if status := w.post(tool.callback(), result(other, "other")); status != 200 || w.text(other) != "other" {
			t.Errorf("another call of the thread: status %d", status)
		}
		w.pass(time.Duration(seconds) * time.Second)
		if status := w.post(url, view); status != 200 {
			t.Errorf("after Retry-After: status %d", status)
		}
		if st := w.stats(); st.Busy != 2000-20+1 || st.Malformed != 0 {
			t.Errorf("stats %+v", st.Counts)
		}
	})
}

// The defaults of each bucket: bytes at once and in a minute. A bucket that is used up holds up nothing
// but what it is for.
func TestIntakeDefaults(t *testing.T) {
	const size = 10<<10 - overhead
	named := func(server byte, session string, call int) capability {
		return capability{server: serverID{server}, key: agentproto.CallKey{GroupID: session, ID: fmt.Sprint(call)}}
	}
	for _, test := range []struct {
		name              string
		of                func(n int) capability
		same, other       capability
		atOnce, perSecond int
	}{
		{"a callback URL", func(int) capability { return named(1, "s", 1) }, named(1, "s", 1), named(1, "s", 2), 2 << 20, 64 << 10},
		{"a session", func(n int) capability { return named(byte(n%3), "s", n) }, named(4, "s", -1), named(1, "t", 1), 8 << 20, 256 << 10},
		{"a tool server", func(n int) capability { return named(1, fmt.Sprint(n), 1) }, named(1, "new", 1), named(2, "new", 1), 32 << 20, 4 << 20},
		{"all", func(n int) capability { return named(byte(n%100), fmt.Sprint(n), 1) }, named(200, "new", 1), capability{}, 64 << 20, 16 << 20},
	} {
		t.Run(test.name, func(t *testing.T) {
			i, now := newIntake(Bounds{}.withDefaults(agentproto.Limits{})), time.Unix(1e9, 0)
			taken := 0
			fill := func() {
				for n := 0; i.charge(test.of(taken), size, now) == 0; n++ {
					if taken++; n > 1<<20 {
						t.Fatal("there is no bound")
					}
				}
			}
			fill()
			if bytes := taken * 10 << 10; bytes < test.atOnce-10<<10 || bytes > test.atOnce {
				t.Errorf("%d bytes were taken at once, want %d", bytes, test.atOnce)
			}
			if wait := i.charge(test.same, size, now); wait <= 0 || wait > max(time.Millisecond, time.Duration(10<<10)*time.Second/time.Duration(test.perSecond)) {
				t.Errorf("wait %v", wait)
			}
			if test.other != (capability{}) && i.charge(test.other, size, now) != 0 {
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

// What must not be put off is paid for, and a large one does not hold up what follows for ever. What is
// given back is no more than what was taken.
func TestIntakeDebt(t *testing.T) {
	i, now := newIntake(Bounds{}.withDefaults(agentproto.Limits{})), time.Unix(1e9, 0)
	c := someCapability
	for range 5 {
		i.owe(c, 8<<20, now)
	}
	if wait, want := i.charge(c, 0, now), 2<<20/(64<<10)*time.Second; wait < want || wait > want+time.Second {
		t.Errorf("wait %v, want %v", wait, want)
	}
	i.refund(c, 8<<20, now)
	if i.charge(c, 0, now) == 0 {
		t.Error("more was given back than was taken")
	}
}

// The callback URLs and sessions that are remembered are bounded, and forgotten after a while.
func TestIntakeForgets(t *testing.T) {
	i, now := newIntake(Bounds{}.withDefaults(agentproto.Limits{})), time.Unix(1e9, 0)
	c := someCapability
	for n := range 3 * maxRecent {
		c.key.GroupID = fmt.Sprint(n)
		i.charge(c, 0, now)
	}
	if urls, sessions := i.urls.len(), i.sessions.len(); urls > 2*maxRecent || sessions > 2*maxRecent || urls < maxRecent {
		t.Errorf("%d URLs and %d sessions are remembered", urls, sessions)
	}
	i.noteID(c, now)
	for range 10 {
		now = now.Add(forgetAfter / 2)
		if !i.url(c, now).repeats {
			t.Error("what is used is forgotten")
		}
	}
	if i.charge(c, 0, now.Add(2*forgetAfter)); i.urls.len() != 1 {
		t.Errorf("%d URLs are remembered", i.urls.len())
	}
}

// Threat 5: of one thread, a bounded number waits for a program that is busy. Others wait
// no less.
func TestWaitingOfAThread(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.deliver = stuck
		w.opts.Bounds.Waiting = 10
		tool, key, url := w.pending()
		other := w.call("h", "1")
		otherURL := tool.callback()
		start := time.Now()
		var mu sync.Mutex
		at := map[time.Duration]int{}
		var wg sync.WaitGroup
		post := func(url string, key agentproto.CallKey) {
			wg.Go(func() {
				if status := w.post(url, result(key, "x")); status != 503 {
					t.Errorf("status %d, want 503", status)
				}
				mu.Lock()
				defer mu.Unlock()
				at[time.Since(start)]++
			})
		}
		for range 50 {
			post(url, key)
		}
		synctest.Wait()
		post(otherURL, other)
		wg.Wait()
		atOnce := 0
		for after, n := range at {
			if after < time.Second {
				atOnce += n
			}
		}
		if atOnce != 39 || at[5*time.Second] != 12 {
			t.Errorf("answered %v, want 39 at once, and ten, the exception and the one of another thread after 5 s", at)
		}
		if len(w.rt.intake.waiting) != 0 {
			t.Errorf("%v is waiting still", w.rt.intake.waiting)
		}
	})
}

// L02, S11: a flood of one thread, ten thousand events a second, costs another nothing;
// what is kept of it is bounded.
func TestS11Flood(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool, _, url := w.pending()
		tool.ack = func(_ int, _ http.ResponseWriter, inv *agentproto.Invocation) {
			if inv.GroupID != "g" {
				w.postLater(inv.CallbackURL, result(inv.Key(), "ok"))
			}
		}
		stop := make(chan struct{})
		var wg sync.WaitGroup
		statuses := make([]map[int]int, 10)
		for i := range statuses {
			statuses[i] = map[int]int{}
			wg.Go(func() {
				event := `{"type":"subscription_event","group_id":"g","tool_call_id":"1","text":"` + strings.Repeat("x", 1000) + `"}`
				for {
					select {
					case <-stop:
						return
					case <-time.After(time.Millisecond):
						statuses[i][w.post(url, event)]++
					}
				}
			})
		}
		for i := range 20 {
			start := time.Now()
			if got := w.text(w.call(fmt.Sprint("other", i), "1")); got != "ok" || time.Since(start) > 0 {
				t.Errorf("call %d: %q after %v", i, got, time.Since(start))
			}
			w.pass(50 * time.Millisecond)
		}
		close(stop)
		wg.Wait()
		total := map[int]int{}
		for _, s := range statuses {
			for status, n := range s {
				total[status] += n
			}
		}
		// Nobody would send them again, so they are answered 200 and most are left out: the call
		// may have 2 MiB, and 64 KiB a second.
		if left := w.stats().LeftOut; len(total) != 1 || left < 7000 || uint64(total[200])-left > 1800 {
			t.Errorf("answers %v, %d left out, want about 1650 taken and the rest left out", total, left)
		}
	})
}
