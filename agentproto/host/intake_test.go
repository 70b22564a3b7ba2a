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
	"github.com/millrace/millrace/agentproto/host/internal/quota"
)

// tiny are rates that one small message uses up.
var tiny = Rates{Call: Rate{Second: 1, Burst: 400}}

// TestS11RateOfACapability checks that only the sender of too many posts to one callback URL is
// deferred, with the time to wait before the next attempt (S11, threat 5).
func TestS11RateOfACapability(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		view := `{"type":"view_update","group_id":"g","view_type":"v","content":{"a":1}}`
		cost := int64(quota.Overhead + len(view))
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

// TestWaitingOfAThread checks that only a bounded number of one thread's messages wait for a
// busy program (threat 5). Other threads' messages wait as usual.
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
		if n := w.rt.intake.Waits(); n != 0 {
			t.Errorf("%d threads are waiting still", n)
		}
	})
}

// TestS11Flood checks that a flood of ten thousand events a second in one thread costs another
// thread nothing, and that the stored events are bounded (L02, S11).
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
		// The tool would not send these events again, so all are answered 200 and most are left
		// out. The call may store 2 MiB, plus 64 KiB a second.
		if left := w.stats().LeftOut; len(total) != 1 || left < 7000 || uint64(total[200])-left > 1800 {
			t.Errorf("answers %v, %d left out, want about 1650 taken and the rest left out", total, left)
		}
	})
}
