package follow_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto/follow"
)

// A line is a server played by a test, without a network. The response to each request is what serve writes until it returns, or
// an error.
type line struct {
	began time.Time
	asked []string // when, and after which event
	serve func(n int, w io.Writer, gone <-chan struct{}) error
}

var errRefused = errors.New("connection refused")

func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	n := len(l.asked)
	l.asked = append(l.asked, strings.TrimSpace(fmt.Sprint(time.Since(l.began), " ", r.Header.Get("Last-Event-ID"))))
	if l.serve == nil {
		return nil, errRefused
	}
	body, w := io.Pipe()
	context.AfterFunc(r.Context(), func() { w.CloseWithError(context.Cause(r.Context())) })
	go func() {
		err := l.serve(n, w, r.Context().Done())
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		w.CloseWithError(err)
	}()
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: body, Request: r}, nil
}

// client returns a client of the line and the errors reported to Lost.
func (l *line) client() (follow.Client, *[]string) {
	l.began = time.Now()
	var lost []string
	return follow.Client{URL: "http://api.test", HTTP: &http.Client{Transport: l}, Lost: func(err error) { lost = append(lost, err.Error()) }}, &lost
}

const third = "id: 3\nevent: message\ndata: {\"n\":3,\"kind\":\"user\",\"text\":\"hi\"}\n\n"

// TestSilence makes a server write comments for a while and then nothing. After exactly 45 s the client treats the connection as
// broken and asks for what follows the last message.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		l.serve = func(n int, w io.Writer, gone <-chan struct{}) error {
			if n > 0 {
				_, err := io.WriteString(w, "event: closed\ndata: {}\n\n")
				return err
			}
			io.WriteString(w, third)
			for range 8 {
				timer := time.NewTimer(44 * time.Second)
				select {
				case <-timer.C:
				case <-gone:
				}
				if _, err := io.WriteString(w, ":\n\n"); err != nil {
					return err
				}
			}
			<-gone
			return nil
		}
		client, lost := l.client()
		var names []string
		for e, err := range client.Follow(t.Context(), "t", 0) {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, e.Name)
		}
		if want := []string{"0s", "6m38s 3"}; !slices.Equal(l.asked, want) { // 8 times 44 s, 45 s, and a pause of 1 s
			t.Errorf("asked at %q, want %q", l.asked, want)
		}
		if len(*lost) != 1 || !strings.Contains((*lost)[0], "nothing for 45 s") || strings.Join(names, " ") != "message reset closed" {
			t.Errorf("lost: %q, events: %q", *lost, names)
		}
	})
}

// TestPauses makes a server unavailable. The client retries after 1, 2, 4, 8 and then every 10 s. After an event has arrived it
// starts over, with the pause that the server requests.
func TestPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{}
		client, lost := l.client()
		ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
		defer cancel()
		for _, err := range client.Follow(ctx, "t", 0) {
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the sequence ends with %v", err)
			}
		}
		if want := []string{"0s", "1s", "3s", "7s", "15s", "25s", "35s"}; !slices.Equal(l.asked, want) || len(*lost) != len(want) {
			t.Errorf("asked at %q, want %q; lost %q", l.asked, want, *lost)
		}

		l = &line{}
		l.serve = func(n int, w io.Writer, _ <-chan struct{}) error {
			if n < 2 {
				return errRefused
			}
			_, err := io.WriteString(w, "retry: 3000\n"+third)
			return err
		}
		client, _ = l.client()
		ctx, cancel = context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		for range client.Follow(ctx, "t", 0) {
		}
		if want := []string{"0s", "1s", "3s", "6s 3", "9s 3"}; !slices.Equal(l.asked, want) {
			t.Errorf("asked at %q, want %q", l.asked, want)
		}
	})
}
