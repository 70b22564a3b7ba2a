package host

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/disklog"
)

// subscribing opens a session whose call a is a subscription. The model is busy until hold is closed.
func (w *world) subscribing(hold chan struct{}) (tool *toolServer, th *Thread, url string) {
	tool = w.tool("tool.test")
	first := true
	model := conversation.ModelFunc(func(ctx context.Context, r *conversation.Request) (*conversation.Reply, error) {
		if first {
			first = false
			reply := callsOf("a")
			return &reply, nil
		}
		if hold != nil {
			select {
			case <-hold:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return &conversation.Reply{Text: "seen"}, nil
	})
	th = w.converse(model, tool.base)
	w.say(th, "go")
	url = tool.callbackOf(key("a"))
	w.post(url, subscriptionBody(key("a")))
	synctest.Wait()
	return tool, th, url
}

// eventsOf returns the texts of the events shown to the model.
func (w *world) eventsOf(th *Thread) (texts []string) {
	for line := range strings.SplitSeq(w.history(th), "result event-") {
		if _, text, ok := strings.Cut(line, ": "); ok && !strings.Contains(line, "user: go") {
			text, _, _ = strings.Cut(text, "\nassistant")
			texts = append(texts, strings.TrimSpace(text))
		}
	}
	return texts
}

// TestS11LeftOutOfABusyThread checks that events are left out when a busy model's thread has no room and the tool does
// not retry (S11). The tool gets 200. The final event arrives and says how many events are missing.
func TestS11LeftOutOfABusyThread(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		hold := make(chan struct{})
		_, th, url := w.subscribing(hold)
		for i := range 300 {
			if status := w.post(url, eventBody(key("a"), fmt.Sprint(i), true, false)); status != 200 {
				t.Fatalf("event %d was answered %d", i, status)
			}
			synctest.Wait()
		}
		if left := w.stats().LeftOut; left != 44 {
			t.Errorf("%d events were left out, want 44", left)
		}
		if status := w.post(url, eventBody(key("a"), "done", true, true)); status != 200 {
			t.Errorf("the final event was answered %d", status)
		}
		if synctest.Wait(); w.rt.subscribed.IsOpen(key("a")) {
			t.Error("the subscription is open still")
		}
		close(hold)
		texts := w.eventsOf(th)
		if len(texts) != 257 || texts[255] != "255" || texts[256] != "[44 events were left out: the tool sent more than the runtime takes]\ndone" {
			t.Errorf("%d events, the last: %q", len(texts), texts[max(0, len(texts)-2):])
		}
	})
}

// TestS11PutOffByABusyThread checks that a tool that sends ids is deferred instead while the thread has no room, and
// that nothing is lost (S11).
func TestS11PutOffByABusyThread(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		hold := make(chan struct{})
		_, th, url := w.subscribing(hold)
		post := func(i int) int {
			status, _ := w.send(http.MethodPost, url, strings.NewReader(eventBody(key("a"), fmt.Sprint(i), true, false)), "Content-Type", "application/json", "webhook-id", fmt.Sprint("m", i))
			synctest.Wait()
			return status
		}
		for i := range 300 {
			want := 200
			if i >= 256 {
				want = 503
			}
			if status := post(i); status != want {
				t.Fatalf("event %d was answered %d, want %d", i, status, want)
			}
		}
		close(hold)
		synctest.Wait()
		for i := range 300 { // the tool server sends the refused events again, and the others too
			if status := post(i); status != 200 {
				t.Fatalf("event %d was answered %d later", i, status)
			}
		}
		texts := w.eventsOf(th)
		for i, text := range texts {
			if text != fmt.Sprint(i) {
				t.Fatalf("event %d is %q", i, text)
			}
		}
		if len(texts) != 300 || w.stats().LeftOut != 0 {
			t.Errorf("%d events, %d left out", len(texts), w.stats().LeftOut)
		}
	})
}

// TestS11LeftOutByRate posts large events for 40 s (S11). If the tool does not retry, few are stored and the gap is
// reported. Events that are too large are refused. The history holds as many bytes as the rates allow.
func TestS11LeftOutByRate(t *testing.T) {
	for _, test := range []struct {
		size, status int
		least, most  int
	}{
		{200 << 10, 200, 20, 24},
		{900 << 10, 413, 0, 0},
	} {
		inWorld(t, func(t *testing.T, w *world) {
			_, th, url := w.subscribing(nil)
			event := eventBody(key("a"), strings.Repeat("x", test.size), true, false)
			posted := 0
			for start := time.Now(); time.Since(start) < 40*time.Second; posted++ {
				if status := w.post(url, event); status != test.status {
					t.Fatalf("event %d was answered %d, want %d", posted, status, test.status)
				}
				w.pass(100 * time.Millisecond)
			}
			left := int(w.stats().LeftOut)
			if kept := posted - left; kept < test.least || kept > test.most {
				t.Errorf("%d of %d events were kept, want %d to %d", kept, posted, test.least, test.most)
			}
			if status := w.post(url, eventBody(key("a"), "done", true, true)); status != 200 {
				t.Errorf("the final event was answered %d", status)
			}
			texts := w.eventsOf(th)
			told := 0
			for _, text := range texts {
				var n int
				fmt.Sscanf(text, "[%d event", &n)
				told += n
			}
			if told != left || !strings.HasSuffix(texts[len(texts)-1], "\ndone") {
				t.Errorf("%d events were left out, and the model was told of %d; the last: %.200q", left, told, texts[len(texts)-1])
			}
		})
	}
}

// TestS11PutOffByRate checks that a tool that retries deferred events learns when there is room, and that each event
// arrives once, in order (S11).
func TestS11PutOffByRate(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		_, th, url := w.subscribing(nil)
		statuses, waits := map[int]int{}, 0
		for i := 0; i < 20; {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(eventBody(key("a"), fmt.Sprint(i, strings.Repeat("x", 200<<10)), true, false)))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("webhook-id", fmt.Sprint("m", i))
			resp, err := w.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			switch statuses[resp.StatusCode]++; resp.StatusCode {
			case 200:
				i++
			case 503:
				seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
				if seconds < 1 || seconds > 60 {
					t.Fatalf("Retry-After %q", resp.Header.Get("Retry-After"))
				}
				waits++
				w.pass(time.Duration(seconds) * time.Second)
			}
			synctest.Wait()
		}
		if statuses[200] != 20 || waits < 9 || waits > 10 {
			t.Errorf("answers %v: the first ten fit, and then one in 3 s", statuses)
		}
		texts := w.eventsOf(th)
		for i, text := range texts {
			if !strings.HasPrefix(text, fmt.Sprint(i, "x")) {
				t.Errorf("event %d is %.20q", i, text)
			}
		}
		if len(texts) != 20 || w.stats().LeftOut != 0 {
			t.Errorf("%d events, %d left out", len(texts), w.stats().LeftOut)
		}
	})
}

// TestS11LeftOutOfABusyProgram checks that a first event left out while the program is busy is answered 503, because
// the gap would not be reported. If a gap is already known, it is reported when the program continues.
func TestS11LeftOutOfABusyProgram(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.opts.Bounds = Bounds{Rates: Rates{Call: Rate{Second: 400, Burst: 800}}}
		held := &holding{}
		w.deliver = held.wrap
		_, k, url := w.pending()
		w.post(url, subscriptionBody(k))
		w.pass(4 * time.Second) // for two events
		var statuses []int
		post := func(text string) { statuses = append(statuses, w.post(url, eventBody(k, text, true, false))) }
		post("taken")
		post("taken")
		held.busy = true
		post("not left out")
		held.busy = false
		w.pass(2 * time.Second)
		post("taken")
		post("taken")
		post("left out") // the first of a gap
		held.busy = true
		post("left out") // which is known
		held.busy = false
		if fmt.Sprint(statuses) != "[200 200 503 200 200 200 200]" || w.stats().LeftOut != 2 {
			t.Errorf("answers %v, %d left out", statuses, w.stats().LeftOut)
		}
	})
}

// TestS11LeftOutOverRestart checks that a gap is reported even if the number of missing events was lost with the
// process.
func TestS11LeftOutOverRestart(t *testing.T) {
	late := lateServer(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	sealer, err := SealerOf([32]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{
		Toolsets: []string{late.URL}, Surface: &user{}, Logger: slog.New(slog.DiscardHandler), Sealer: sealer, Listener: listener,
		Model:  conversation.Script{{Calls: []conversation.Call{{ID: "a", Name: "late"}}}, {Text: "watching"}, {Text: "one"}, {Text: "two"}},
		State:  &durable.Options{Log: disklog.Dir(t.TempDir()), Logger: slog.New(slog.DiscardHandler)},
		Bounds: Bounds{Rates: Rates{Call: Rate{Second: 1, Burst: 800}}},
	}
	rt, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	th, err := rt.OpenSession(t.Context(), SessionRequest{ID: "s"})
	if err != nil {
		t.Fatal(err)
	}
	if err := th.Say(t.Context(), "go"); err != nil {
		t.Fatal(err)
	}
	url := (<-late.invocations).CallbackURL
	for _, body := range []string{subscriptionBody(key("a")), eventBody(key("a"), "taken", true, false), eventBody(key("a"), "left", true, false), eventBody(key("a"), "left", true, false)} {
		if status := late.post(t, url, body); status != 200 {
			t.Fatalf("%s: status %d", body, status)
		}
	}
	if left := rt.Stats().LeftOut; left != 2 {
		t.Errorf("%d events were left out, want 2", left)
	}
	stopNow(t, rt)

	opts.Listener, opts.ListenAddr = nil, addr
	if rt, err = Start(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	defer stopNow(t, rt)
	if status := late.post(t, url, eventBody(key("a"), "after", true, false)); status != 200 {
		t.Fatalf("status %d", status)
	}
	within(t, "the event says that others are missing", func() bool {
		messages, err := rt.Thread("s").History(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(transcript(messages), ": [events were left out: the tool sent more than the runtime takes]\nafter")
	})
}

// TestS11ResultWithoutRoom checks that a result is accepted while its call's bucket is empty, and that it does not
// delay a message of another call (N37).
func TestS11ResultWithoutRoom(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.opts.Bounds.Rates = tiny
		tool, k, url := w.pending()
		w.post(url, `{"type":"view_update","group_id":"g","view_type":"v","content":{"a":1}}`)
		other := w.call("g", "2")
		if status := w.post(url, result(k, strings.Repeat("x", 1<<19))); status != 200 || len(w.text(k)) != 1<<19 {
			t.Errorf("the result was answered %d", status)
		}
		if status := w.post(tool.callback(), result(other, "ok")); status != 200 || w.text(other) != "ok" {
			t.Errorf("the result of another call was answered %d", status)
		}
	})
}

// TestS11FinalEvent checks that the final event of a tool that posts too many events without retrying is accepted,
// once (S11).
func TestS11FinalEvent(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.opts.Bounds.Rates = tiny
		_, k, url := w.pending()
		w.post(url, subscriptionBody(k))
		for range 300 {
			if status := w.post(url, eventBody(k, "more", true, false)); status != 200 {
				t.Fatalf("an event was answered %d", status)
			}
		}
		if left := w.stats().LeftOut; left < 299 || !w.rt.subscribed.IsOpen(k) {
			t.Fatalf("%d of 300 events were left out: there is no load", left)
		}
		if status := w.post(url, eventBody(k, "done", true, true)); status != 200 {
			t.Errorf("the final event was answered %d", status)
		}
		if synctest.Wait(); w.rt.subscribed.IsOpen(k) {
			t.Error("the subscription is open still")
		}
		// There is only one final event. Later ones do not get past the bounds.
		for range 100 {
			if status := w.post(url, eventBody(k, "again", true, true)); status != 503 {
				t.Fatalf("another final event was answered %d", status)
			}
		}
	})
}

// TestS11LongFinalEvent checks that a final event that is too large is refused and still ends the subscription: it
// will not be sent again.
func TestS11LongFinalEvent(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		_, th, url := w.subscribing(nil)
		long := strings.Repeat("x", 256<<10)
		for _, final := range []bool{false, true} {
			if status := w.post(url, eventBody(key("a"), long, true, final)); status != 413 {
				t.Errorf("a large event was answered %d", status)
			}
		}
		if synctest.Wait(); w.rt.subscribed.IsOpen(key("a")) {
			t.Error("the subscription is open still")
		}
		want := "[1 event was left out: the tool sent more than the runtime takes]\n[the text of this event was left out: the message is larger than 262144 bytes]"
		if texts := w.eventsOf(th); len(texts) != 1 || texts[0] != want {
			t.Errorf("the model was shown %q", texts)
		}
	})
}
