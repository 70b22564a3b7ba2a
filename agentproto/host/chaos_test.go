package host

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
)

var chaosSeed = flag.Uint64("seed", 0, "run TestChaos with this seed only")

// TestChaos checks that whatever tool servers, users and conversations do, every call is
// resolved once, is posted at most five times and never after its resolution, and every
// input is accounted for. The fate of each call depends on the seed and the call's
// number, so a failing seed fails again, except for races.
func TestChaos(t *testing.T) {
	seeds := []uint64{*chaosSeed}
	if *chaosSeed == 0 {
		seeds = nil
		for range 12 {
			seeds = append(seeds, rand.Uint64N(1_000_000)+1)
		}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) { chaos(t, w, seed) })
			if t.Failed() {
				t.Logf("rerun: go test -run TestChaos -seed %d ./agentproto/host", seed)
			}
		})
	}
}

func chaos(t *testing.T, w *world, seed uint64) {
	const n = 60
	luck := func(inv *agentproto.Invocation, salt int) *rand.Rand {
		i, _ := strconv.Atoi(inv.ID)
		return rand.New(rand.NewPCG(seed, uint64(i*100+salt)))
	}
	var resolvedAt sync.Map // CallKey → time.Time
	tool := w.tool("tool.test")
	attempts := map[agentproto.CallKey]int{}
	tool.ack = func(_ int, rw http.ResponseWriter, inv *agentproto.Invocation) {
		tool.mu.Lock()
		attempts[inv.Key()]++
		attempt := attempts[inv.Key()]
		tool.mu.Unlock()
		// The end of an attempt and a resolution may coincide.
		if at, ok := resolvedAt.Load(inv.Key()); ok && time.Since(at.(time.Time)) > 0 {
			t.Errorf("%v: posted %v after it was resolved", inv.Key(), time.Since(at.(time.Time)))
		}
		r := luck(inv, attempt)
		if r.IntN(4) > 0 {
			go misbehave(w, luck(inv, 50+attempt), inv)
		}
		switch r.IntN(8) {
		case 0:
			rw.WriteHeader(500)
		case 1:
			rw.Header().Set("Retry-After", "3")
			rw.WriteHeader(503)
		case 2:
			rw.WriteHeader(404)
		case 3:
			<-time.After(20 * time.Second) // longer than the runtime waits
		}
	}
	tool.answered = func(_ int, rw http.ResponseWriter) {
		if rand.IntN(3) == 0 {
			rw.WriteHeader(500)
		}
	}
	// The results are read one after another, and a choice among them takes a day.
	w.opts.Conversation.Retain = 1000 * time.Hour
	rt := w.start(tool.base)
	all := rt.Results(t.Context())
	seen := map[agentproto.CallKey]*agentproto.Resolution{}
	collected := make(chan struct{})
	go func() {
		defer close(collected)
		for r := range all {
			if seen[r.Key] != nil {
				t.Errorf("%v: resolved twice, %v and %v", r.Key, seen[r.Key].Cause, r.Cause)
			}
			seen[r.Key] = r
			resolvedAt.Store(r.Key, time.Now())
		}
	}()
	r := rand.New(rand.NewPCG(seed, 1<<32))
	var keys []agentproto.CallKey
	for i := range n {
		key := w.call(fmt.Sprint("g", r.IntN(4)), fmt.Sprint(i))
		keys = append(keys, key)
		if r.IntN(5) == 0 {
			wait := time.Duration(r.IntN(60)) * time.Second
			time.AfterFunc(wait, func() { rt.Cancel(context.Background(), key) })
		}
		if r.IntN(2) == 0 {
			w.pass(time.Duration(r.IntN(5000)) * time.Millisecond)
		}
	}
	if err := rt.CloseThread(t.Context(), "g3"); err != nil {
		t.Error(err)
	}
	for _, key := range keys {
		w.text(key)
	}
	w.pass(48 * time.Hour)
	st := w.stats()
	if err := rt.Stop(context.Background()); err != nil {
		t.Errorf("Stop: %v", err)
	}
	<-collected
	if len(seen) != n || st.Calls != n || st.Results+st.Failures != n {
		t.Errorf("%d calls resolved, stats %+v, want %d", len(seen), st.Counts, n)
	}
	for key, count := range attempts {
		if count > 5 {
			t.Errorf("%v was posted %d times", key, count)
		}
	}
	t.Logf("%d results, %d failures, %d attempts, %d duplicates, %d late, %d repeated, %d malformed, %d forged",
		st.Results, st.Failures, st.Attempts, st.Duplicates, st.Late, st.Repeated, st.Malformed, st.Forged)
}

// misbehave is a tool that sends arbitrary messages at arbitrary times, and sometimes a
// result.
func misbehave(w *world, r *rand.Rand, inv *agentproto.Invocation) {
	ids := fmt.Sprintf(`"group_id":%q,"id":%q`, inv.GroupID, inv.ID)
	for range 1 + r.IntN(4) {
		<-time.After(time.Duration(r.IntN(20_000)) * time.Millisecond)
		body, want, answerTo := "", 200, fmt.Sprint("http://tool.test/answer?", r.IntN(2))
		switch r.IntN(8) {
		case 0, 1, 2:
			body = result(inv.Key(), "fine")
		case 3:
			body = fmt.Sprintf(`{"type":"oauth",%s,"auth_url":"https://login.test/%d"}`, ids, r.IntN(2))
		case 4:
			body = fmt.Sprintf(`{"type":"user_choice",%s,"prompt":"?","choices":["a","b"],"default":1,"response_url":%q}`, ids, answerTo)
		case 5:
			body, want = strings.Replace(result(inv.Key(), "wrong"), `"id":"`, `"id":"x`, 1), 403
		case 6:
			body, want = `{"type":"tool_result",`+ids+`}`, 400
		case 7:
			body = fmt.Sprintf(`{"type":"view_update","group_id":%q,"view_type":"v","content":{}}`, inv.GroupID)
		}
		for range 1 + r.IntN(2) { // some of them twice
			if got := w.post(inv.CallbackURL, body); got != want {
				w.t.Errorf("%s: status %d, want %d", body, got, want)
			}
		}
		if r.IntN(2) == 0 {
			w.rt.Answer(context.Background(), inv.Key(), answerTo, r.IntN(3)-1)
		}
	}
}
