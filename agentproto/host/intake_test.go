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

// S11, threat 5: who posts too much to one callback URL is put off with the time after
// which to try again, and nobody else is.
func TestS11RateOfACapability(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.opts.Bounds = Bounds{Rate: 2, Burst: 10}
		tool, _, url := w.pending()
		view := `{"type":"view_update","group_id":"g","view_type":"v","content":{"a":1}}`
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

// The default: 100 at once, and 20 a second. The URLs that are remembered are bounded.
func TestIntakeDefaults(t *testing.T) {
	i := newIntake(Bounds{}.withDefaults())
	now := time.Unix(1e9, 0)
	c := someCapability
	taken := 0
	for range 60_000 { // a minute with a message each millisecond
		if i.charge(c, now) == 0 {
			taken++
		}
		now = now.Add(time.Millisecond)
	}
	if want := 100 + 60*20; taken < want-2 || taken > want+2 {
		t.Errorf("%d were taken in a minute, want %d", taken, want)
	}
	i.charge(c, now) // the one that has become due
	if wait := i.charge(c, now); wait <= 0 || wait > 50*time.Millisecond {
		t.Errorf("wait %v, want up to 50 ms", wait)
	}
	other := c
	other.server = identify("http://other.test")
	if i.charge(other, now) != 0 {
		t.Error("another server with the same identifiers was put off")
	}
	for n := range 2 * maxBuckets {
		c.key.ID = fmt.Sprint(n)
		i.charge(c, now)
	}
	if len(i.buckets) != maxBuckets || i.order.Len() != maxBuckets {
		t.Errorf("%d buckets are remembered, want %d", len(i.buckets), maxBuckets)
	}
}

// Threat 5: of one thread, a bounded number waits for a program that is busy. Others wait
// no less.
func TestWaitingOfAThread(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.program = func(p program) program { return stuck{p} }
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
		if len(total) != 2 || total[200] < 100 || total[200] > 125 || total[503] < 9000 {
			t.Errorf("answers %v, want about 120 times 200 and 503 for the rest of 10,000", total)
		}
	})
}
