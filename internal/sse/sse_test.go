package sse_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/internal/sse"
)

// TestReader reads a stream with every kind of line end, byte by byte and at once.
func TestReader(t *testing.T) {
	const stream = "\ufeff: hello\nretry: 250\n\nid: 7\nevent: message\ndata: {\"a\":1}\n\ndata:x\ndata: y\ndata\n\n" +
		"event: nothing\n\nid:8\nevent:closed\ndata: \n\nid: 9\ndata: cut"
	for _, end := range []string{"\n", "\r", "\r\n"} {
		text := strings.ReplaceAll(stream, "\n", end)
		for _, in := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text))} {
			r := sse.NewReader(in, 100)
			var got []string
			for {
				e, err := r.Next()
				if err != nil {
					if err != io.EOF {
						t.Error(err)
					}
					break
				}
				got = append(got, fmt.Sprintf("%s %s %q", e.ID, e.Name, e.Data))
			}
			want := []string{`7 message "{\"a\":1}"`, `7 message "x\ny\n"`, `8 closed ""`}
			if fmt.Sprint(got) != fmt.Sprint(want) || r.ID != "8" || r.Retry != 250*time.Millisecond {
				t.Errorf("with %q: %q, id %q, retry %v", end, got, r.ID, r.Retry)
			}
		}
	}
	if _, err := sse.NewReader(strings.NewReader("data: "+strings.Repeat("x", 1000)+"\n\n"), 100).Next(); err != sse.ErrLong {
		t.Errorf("a long event: %v", err)
	}
}

// TestWriter reads back what was written. It catches data that ends its event too early, and a
// name or an ID that adds a line.
func TestWriter(t *testing.T) {
	rec := httptest.NewRecorder()
	w := sse.Begin(rec, sse.Options{})
	for _, name := range []string{"a\nb", "a\rb"} {
		if w.Text(name, "", nil) == nil || w.Text("a", name, nil) == nil {
			t.Errorf("an event was named %q", name)
		}
	}
	texts := []string{"", "one", "two\n\nthree\rfour\r\nfive", "id: 9\n\ndata: x"}
	for i, text := range texts {
		if err := w.Text("text", fmt.Sprint(i), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	w.End()
	if w.Text("text", "", nil) == nil {
		t.Error("an event was written after the end")
	}
	r := sse.NewReader(rec.Body, 1000)
	for i, text := range texts {
		e, err := r.Next()
		text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
		if err != nil || e.ID != fmt.Sprint(i) || e.Name != "text" || string(e.Data) != text {
			t.Errorf("%q came as %+v, %v", text, e, err)
		}
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("there is more: %v", err)
	}
}

// recorder is a response writer that supports deadlines and counts comments.
type recorder struct {
	http.ResponseWriter
	comments  int
	deadlines []time.Duration
}

func (r *recorder) Write(p []byte) (int, error) {
	if string(p) == ":\n\n" {
		r.comments++
	}
	return len(p), nil
}
func (r *recorder) Flush()                          {}
func (r *recorder) SetReadDeadline(time.Time) error { return nil }
func (r *recorder) SetWriteDeadline(d time.Time) error {
	r.deadlines = append(r.deadlines, time.Until(d))
	return nil
}

// TestQuiet checks that a writer sends comments while it sends no events, and none after the
// end.
func TestQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := &recorder{ResponseWriter: httptest.NewRecorder()}
		w := sse.Begin(rec, sse.Options{})
		<-time.After(46 * time.Second)
		synctest.Wait()
		if rec.comments != 3 {
			t.Errorf("%d comments in 46 s, want 3", rec.comments)
		}
		if err := w.Send("a", "", 1); err != nil {
			t.Error(err)
		}
		<-time.After(14 * time.Second)
		synctest.Wait()
		if rec.comments != 3 {
			t.Error("a comment although there was an event")
		}
		w.End()
		<-time.After(time.Minute)
		synctest.Wait()
		if rec.comments != 3 {
			t.Error("a comment after the end")
		}
		for _, d := range rec.deadlines {
			if d != 10*time.Second {
				t.Errorf("a write may take %v", d)
			}
		}
	})
}
