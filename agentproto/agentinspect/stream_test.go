package agentinspect_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto/host"
)

// An event is one server-sent event.
type event struct{ id, name, data string }

// follow reads the events of a thread until read returns false.
func (w *world) follow(ctx context.Context, query, last string, read func(event) (more bool)) (status int) {
	w.t.Helper()
	status, err := w.events(ctx, query, last, read)
	if err != nil {
		w.t.Fatal(err)
	}
	return status
}

// events is follow for use in any goroutine: it returns the error.
func (w *world) events(ctx context.Context, query, last string, read func(event) (more bool)) (status int, err error) {
	r, err := http.NewRequestWithContext(ctx, "GET", w.pages.URL+"/x/agents/events?"+query, nil)
	if err != nil {
		return 0, err
	}
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var e event
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for resp.StatusCode == 200 && lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "id":
			e.id = value
		case "event":
			e.name = value
		case "data":
			e.data = value
		case "":
			if e.name != "" && !read(e) {
				return resp.StatusCode, nil
			}
			e = event{}
		}
	}
	return resp.StatusCode, nil
}

// TestTranscript checks that a transcript is sent as it grows, and that a reader who is cut off after
// each message receives each message once.
func TestTranscript(t *testing.T) {
	inWorlds(t, func(t *testing.T, w *world) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		th, err := w.rt.OpenSession(ctx, host.SessionRequest{ID: "s 1", UserID: "u1"})
		if err != nil {
			t.Fatal(err)
		}
		const turns = 5
		var said sync.WaitGroup
		said.Go(func() {
			for i := range turns {
				w.said <- fmt.Sprintf("answer %d %s", i, hostile)
				if err := th.Say(ctx, fmt.Sprint("question ", i)); err != nil {
					t.Error(err)
					return
				}
				for { // until the model has answered
					st, err := th.Status(ctx)
					if err != nil || st.Messages == 3+2*i {
						break
					}
				}
			}
		})
		var all []string
		last := ""
		for len(all) < 1+2*turns && ctx.Err() == nil {
			w.follow(ctx, "thread=s+1", last, func(e event) bool {
				if e.name != "message" {
					return true
				}
				var m struct {
					N          int
					Kind, Text string
				}
				if err := json.Unmarshal([]byte(e.data), &m); err != nil || fmt.Sprint(m.N) != e.id {
					t.Errorf("%+v: %v", e, err)
				}
				all, last = append(all, m.Kind+" "+m.Text), e.id
				return false
			})
		}
		said.Wait() // a message is shown before it is known to be durable
		want := []string{"opened "}
		for i := range turns {
			want = append(want, fmt.Sprint("user question ", i), fmt.Sprintf("assistant answer %d %s", i, hostile))
		}
		if !slices.Equal(all, want) {
			t.Errorf("the transcript is %q, want %q", all, want)
		}
		status, page := w.get("agents/thread?id=s+1")
		if status != 200 || strings.Contains(page, "<script>alert") || strings.Contains(page, "\u202e") || strings.Count(page, "<li class=") != len(want) || !strings.Contains(page, `data-from="11"`) {
			t.Errorf("the page is %d: %s", status, page)
		}
		var got struct {
			Messages []struct {
				N    int
				Text string
			}
			Next int
		}
		w.json("agents/v1/messages?id=s+1&from=9", &got, func() bool { return true })
		if len(got.Messages) != 2 || got.Next != 11 || got.Messages[0].Text != "question 4" {
			t.Errorf("from number 9 there is %+v", got)
		}
		var st threadShape
		w.json("agents/v1/thread?id=s+1", &st, func() bool { return !st.Asking })
		if st.ID != "s 1" || st.Messages != 11 || st.Pending != 0 {
			t.Errorf("the thread is %+v", st)
		}
		if status, page := w.get("agents/threads"); status != 200 || !strings.Contains(page, `<a href="thread?id=s&#43;1">s 1</a>`) && !strings.Contains(page, `<a href="thread?id=s+1">s 1</a>`) {
			t.Errorf("the threads are %d: %s", status, page)
		}
	})
}

// TestStreamsAreBounded checks the limit on transcripts sent at once. When one ends, another may
// start.
func TestStreamsAreBounded(t *testing.T) {
	inWorlds(t, func(t *testing.T, w *world) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if _, err := w.rt.OpenSession(ctx, host.SessionRequest{ID: "s"}); err != nil {
			t.Fatal(err)
		}
		const most = 32
		begun := make(chan bool)
		readers, leave := context.WithCancel(ctx)
		defer leave()
		for range most {
			go w.events(readers, "thread=s", "", func(event) bool {
				begun <- true
				<-readers.Done()
				return false
			})
			select {
			case <-begun:
			case <-ctx.Done():
				t.Fatal("a transcript is not sent")
			}
		}
		if status := w.follow(ctx, "thread=s", "", func(event) bool { return false }); status != http.StatusServiceUnavailable {
			t.Errorf("one more is answered %d", status)
		}
		leave()
		for status := 0; status != http.StatusOK && ctx.Err() == nil; {
			status = w.follow(ctx, "thread=s", "", func(event) bool { return false })
		}
		if ctx.Err() != nil {
			t.Error("there is no room when all have ended")
		}
	})
}

// TestStanding checks that a reader is sent what a thread waits for, and that the end of the thread
// ends the response.
func TestStanding(t *testing.T) {
	inWorlds(t, func(t *testing.T, w *world) {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		th, err := w.rt.OpenSession(ctx, host.SessionRequest{ID: "s"})
		if err != nil {
			t.Fatal(err)
		}
		if err := th.Say(ctx, "call ask"); err != nil {
			t.Fatal(err)
		}
		prompted, ended := false, false
		var kinds []string
		w.follow(ctx, "thread=s&from=1", "", func(e event) bool {
			switch e.name {
			case "standing":
				var now struct {
					State   string
					Pending int
					Prompts []struct{ ID, Prompt string }
				}
				if err := json.Unmarshal([]byte(e.data), &now); err != nil {
					t.Error(err)
				}
				if len(now.Prompts) == 1 && !prompted {
					if prompted = true; now.Pending != 1 || now.State != "waits for calls" || now.Prompts[0].Prompt != "Which one? "+asked {
						t.Errorf("the thread is %+v", now)
					}
					if err := th.Close(ctx); err != nil {
						t.Error(err)
					}
				}
			case "message":
				var m struct{ Kind string }
				if err := json.Unmarshal([]byte(e.data), &m); err != nil {
					t.Error(err)
				}
				kinds = append(kinds, m.Kind)
			case "end":
				ended = true
			}
			return true
		})
		if want := []string{"user", "assistant", "result", "closed"}; !prompted || !ended || !slices.Equal(kinds, want) {
			t.Errorf("asked %v, ended %v, messages %q, want %q", prompted, ended, kinds, want)
		}
	})
}
