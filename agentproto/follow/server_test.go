package follow_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/follow"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/internal/sse"
)

// A writer is a model that streams and replies what a test sends it.
type writer struct {
	writes  chan conversation.Delta
	replies chan result
}

type result struct {
	reply *conversation.Reply
	err   error
}

func (w *writer) Reply(ctx context.Context, r *conversation.Request) (*conversation.Reply, error) {
	return w.Stream(ctx, r, func(conversation.Delta) {})
}

func (w *writer) Stream(ctx context.Context, _ *conversation.Request, write func(conversation.Delta)) (*conversation.Reply, error) {
	for {
		select {
		case d := <-w.writes:
			write(d)
		case r := <-w.replies:
			return r.reply, r.err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// A world is a runtime whose model is a writer, and a server that follows its threads.
type world struct {
	t      *testing.T
	ctx    context.Context
	rt     *host.Runtime
	model  *writer
	follow *follow.Server
	web    *httptest.Server
	thread *host.Thread
}

func newWorld(t *testing.T, o follow.Options) *world {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	w := &world{t: t, ctx: ctx, model: &writer{make(chan conversation.Delta), make(chan result)}}
	tool := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(rw, `{"name":"tools","endpoint":"http://%s/invoke","tools":[]}`, r.Host)
	}))
	t.Cleanup(tool.Close)
	var err error
	if w.rt, err = host.Start(ctx, host.Options{Toolsets: []string{tool.URL}, Model: w.model}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stopping, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		w.rt.Stop(stopping)
	})
	w.follow = follow.New(w.rt, o)
	mux := http.NewServeMux()
	mux.Handle("GET /threads/{thread}/events", w.follow)
	w.web = httptest.NewServer(mux)
	t.Cleanup(w.web.Close)
	t.Cleanup(w.web.CloseClientConnections)
	if w.thread, err = w.rt.OpenSession(ctx, host.SessionRequest{ID: "t"}); err != nil {
		t.Fatal(err)
	}
	return w
}

// turn sends a text of the user and an answer of the model.
func (w *world) turn(said, answer string) {
	w.t.Helper()
	if err := w.thread.Say(w.ctx, said); err != nil {
		w.t.Fatal(err)
	}
	w.model.replies <- result{reply: &conversation.Reply{Text: answer, Usage: conversation.Usage{Input: 10, Output: 2}}}
	for m, err := range w.thread.Follow(w.ctx, 0) {
		if err != nil {
			w.t.Fatal(err)
		}
		if m.Kind == conversation.Assistant && m.Text == answer {
			return
		}
	}
}

// get requests the events of a thread.
func (w *world) get(thread, query, last string) *http.Response {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.ctx, "GET", w.web.URL+"/threads/"+thread+"/events"+query, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp
}

// eventually waits until is returns true.
func (w *world) eventually(is func() bool) {
	w.t.Helper()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for !is() {
		select {
		case <-again.C:
		case <-w.ctx.Done():
			w.t.Fatal("it does not come to that")
		}
	}
}

// until reads events until is returns true for one.
func until(t *testing.T, r *sse.Reader, is func(name, data string) bool) {
	t.Helper()
	for {
		e, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if is(e.Name, string(e.Data)) {
			return
		}
	}
}

// TestStateIsOfMessages follows many turns. The state that says that the model is done arrives after the model's message, so a
// client that waits for the end of a turn has then received all of it.
func TestStateIsOfMessages(t *testing.T) {
	w := newWorld(t, follow.Options{})
	resp := w.get("t", "", "")
	defer resp.Body.Close()
	events := sse.NewReader(resp.Body, 1<<20)
	for range 200 {
		asked, answered := false, false
		if err := w.thread.Say(w.ctx, "more"); err != nil {
			t.Fatal(err)
		}
		go func() {
			select {
			case w.model.replies <- result{reply: &conversation.Reply{Text: "answer"}}:
			case <-w.ctx.Done():
			}
		}()
		until(t, events, func(name, data string) bool {
			switch name {
			case follow.MessageEvent:
				asked = asked || strings.Contains(data, `"kind":"user"`)
				answered = answered || strings.Contains(data, `"kind":"assistant"`)
			case follow.StateEvent:
				if asked && !answered && strings.Contains(data, `"asking":false`) {
					t.Errorf("before the answer it is said that the model is done: %s", data)
				}
			}
			return answered
		})
	}
}

// TestSE01_DropAfterEachByte cuts the connection after each byte of a thread's events and resumes after the last event received.
// Every message arrives once, in order.
func TestSE01_DropAfterEachByte(t *testing.T) {
	w := newWorld(t, follow.Options{})
	w.turn("first", "one\n\ndata: two")
	w.turn("second", "three \u202e")
	if err := w.thread.Close(w.ctx); err != nil {
		t.Fatal(err)
	}
	resp := w.get("t", "?from=0", "")
	whole, err := io.ReadAll(resp.Body)
	if resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	read := func(r *sse.Reader, all *[]string) error {
		for {
			e, err := r.Next()
			if err != nil {
				return err
			}
			if e.Name == follow.MessageEvent {
				var m follow.Message
				if err := json.Unmarshal(e.Data, &m); err != nil || fmt.Sprint(m.N) != e.ID {
					t.Errorf("%s: %v", e.Data, err)
				}
				*all = append(*all, fmt.Sprint(m.N, m.Kind, m.Text))
			}
		}
	}
	var want []string
	read(sse.NewReader(strings.NewReader(string(whole)), 1<<20), &want)
	if len(want) != 6 || want[2] != fmt.Sprint(2, "assistant", "one\n\ndata: two") {
		t.Fatalf("the thread is %q in %s", want, whole)
	}
	if strings.Contains(string(whole), "\u202e") {
		t.Error("an event has a character that cannot be seen")
	}
	for n := range len(whole) {
		resp := w.get("t", "?from=0", "")
		var got []string
		r := sse.NewReader(io.LimitReader(resp.Body, int64(n)), 1<<20)
		read(r, &got)
		resp.Body.Close()
		last := r.ID
		resp = w.get("t", "?from=0", last)
		if resp.StatusCode == http.StatusNoContent {
			if last != "5" {
				t.Errorf("nothing more behind %q", last)
			}
		} else {
			read(sse.NewReader(resp.Body, 1<<20), &got)
		}
		resp.Body.Close()
		if !slices.Equal(got, want) {
			t.Fatalf("cut after %d bytes: %q", n, got)
		}
	}
}

// TestSE03_ReaderThatStops starts a client that reads nothing. The server disconnects it and releases its state. Other clients
// are not affected.
func TestSE03_ReaderThatStops(t *testing.T) {
	w := newWorld(t, follow.Options{Stall: 200 * time.Millisecond})
	large := strings.Repeat("x", 1<<20)
	stopped, err := net.Dial("tcp", strings.TrimPrefix(w.web.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer stopped.Close()
	stopped.(*net.TCPConn).SetReadBuffer(4096)
	fmt.Fprintf(stopped, "GET /threads/t/events HTTP/1.1\r\nHost: x\r\n\r\n")
	good := w.get("t", "", "")
	defer good.Body.Close()
	r := sse.NewReader(good.Body, 8<<20)
	until(t, r, func(name, _ string) bool { return name == follow.StateEvent })
	w.eventually(func() bool { return w.follow.Clients() == 2 })
	turns := 0
	for ; w.follow.Clients() == 2 && w.ctx.Err() == nil; turns++ { // until the buffers in between are full
		w.turn(fmt.Sprint("turn ", turns), large+fmt.Sprint(turns))
		until(t, r, func(name, data string) bool {
			return name == follow.MessageEvent && strings.Contains(data, `"assistant"`)
		})
	}
	if w.ctx.Err() != nil {
		t.Fatal("a client that reads nothing was not cut off")
	}
	good.Body.Close()
	w.eventually(func() bool { return w.follow.Clients() == 0 })
}

// TestSE04_Closed reads a closed thread to its end and asks again.
func TestSE04_Closed(t *testing.T) {
	w := newWorld(t, follow.Options{})
	w.turn("hello", "hi")
	resp := w.get("t", "", "")
	r := sse.NewReader(resp.Body, 1<<20)
	until(t, r, func(name, data string) bool { return strings.Contains(data, `"hi"`) })
	if err := w.thread.Close(w.ctx); err != nil {
		t.Fatal(err)
	}
	until(t, r, func(name, _ string) bool { return name == follow.ClosedEvent })
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("there is more behind the end: %v", err)
	}
	resp.Body.Close()
	for _, x := range []struct {
		thread, query, last string
		want                int
	}{
		{"t", "", r.ID, 204}, {"t", "?from=4", "", 204}, {"t", "?from=9", "1", 200},
		{"none", "", "", 404}, {"t", "?from=-1", "", 400}, {"t", "?from=x", "", 400}, {"t", "", "-1", 400}, {"t", "", "x", 400},
	} {
		resp := w.get(x.thread, x.query, x.last)
		resp.Body.Close()
		if resp.StatusCode != x.want {
			t.Errorf("%+v: %d", x, resp.StatusCode)
		}
	}
}

// TestDeltas streams what the model writes to a client that was connected before, and to one that connects in the middle. The
// deltas of a failed attempt are void.
func TestDeltas(t *testing.T) {
	w := newWorld(t, follow.Options{})
	early := w.get("t", "", "")
	defer early.Body.Close()
	r := sse.NewReader(early.Body, 1<<20)
	if err := w.thread.Say(w.ctx, "hello"); err != nil {
		t.Fatal(err)
	}
	text, resets := "", 0
	var calls []string
	read := func(r *sse.Reader, want string) {
		t.Helper()
		until(t, r, func(name, data string) bool {
			var d follow.Delta
			switch name {
			case follow.DeltaEvent:
				if err := json.Unmarshal([]byte(data), &d); err != nil {
					t.Error(err)
				}
				if d.Seq == 0 {
					text = ""
				}
				text += d.Text
				if d.Call != nil {
					calls = append(calls, d.Call.Operation+" "+d.Call.Arguments)
				}
			case follow.ResetEvent:
				text = ""
				resets++
			}
			return text == want
		})
	}
	w.model.writes <- conversation.Delta{Text: "wro"}
	read(r, "wro")
	w.model.writes <- conversation.Delta{Text: "ng"}
	read(r, "wrong")
	w.model.replies <- result{err: &conversation.RetryError{Err: fmt.Errorf("broken")}}
	w.model.writes <- conversation.Delta{Text: "right"}
	read(r, "right")
	if resets != 1 {
		t.Errorf("%d resets", resets)
	}
	w.model.writes <- conversation.Delta{Call: &conversation.CallDelta{ID: "c", Name: "see", Arguments: `{"a"`}}
	w.model.writes <- conversation.Delta{Call: &conversation.CallDelta{ID: "c", Name: "see", Arguments: `:1}`}}
	late := w.get("t", "", "1")
	defer late.Body.Close()
	l := sse.NewReader(late.Body, 1<<20)
	text, resets, calls = "", 0, nil
	read(l, "right")
	for len(strings.Join(calls, "")) < len(`see {"a":1}`) {
		until(t, l, func(name, data string) bool {
			var d follow.Delta
			if name != follow.DeltaEvent || json.Unmarshal([]byte(data), &d) != nil || d.Call == nil {
				return false
			}
			calls = append(calls, d.Call.Operation+" "+d.Call.Arguments)
			return true
		})
	}
	if resets != 1 || calls[0] != `see {"a":1}` {
		t.Errorf("one who comes later gets %d resets and %q", resets, calls)
	}
	if err := w.thread.Interrupt(w.ctx); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*sse.Reader{r, l} {
		until(t, r, func(name, _ string) bool { return name == follow.ResetEvent })
	}
	w.turn("again", "done")
	until(t, r, func(name, data string) bool {
		return name == follow.StateEvent && strings.Contains(data, `"asking":false`) && strings.Contains(data, `"usage":{"input":10,"output":2}`)
	})
}
