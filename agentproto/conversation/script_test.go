package conversation

import (
	"context"
	"testing"
)

// TestScript checks that a script continues from the model's earlier replies, so that a
// repeated round gets the same reply. Synthetic messages do not count.
func TestScript(t *testing.T) {
	script := Script{{Text: "one"}, {Text: "two"}}
	history := []Message{{Kind: User, Text: "hi"}}
	for range 2 {
		if r, err := script.Reply(t.Context(), &Request{Messages: history}); err != nil || r.Text != "one" {
			t.Errorf("%v, %v", r, err)
		}
	}
	history = append(history, Message{Kind: Assistant, Text: "one"}, Message{Kind: Assistant, Synthetic: true}, Message{Kind: Result})
	if r, err := script.Reply(t.Context(), &Request{Messages: history}); err != nil || r.Text != "two" {
		t.Errorf("%v, %v", r, err)
	}
	history = append(history, Message{Kind: Assistant, Text: "two"})
	if r, err := script.Reply(t.Context(), &Request{Messages: history}); !IsPermanent(err) {
		t.Errorf("beyond the end: %v, %v", r, err)
	}
}

// TestManual plays a model by hand. A question is pending only until it is answered or its
// request ends.
func TestManual(t *testing.T) {
	var m Manual
	replies := make(chan *Reply)
	ask := func(ctx context.Context, thread string) {
		r, _ := m.Reply(ctx, &Request{Thread: thread})
		replies <- r
	}
	for _, text := range []string{"one", "two"} {
		go ask(t.Context(), "t")
		q, err := m.Next(t.Context(), "t")
		if err != nil {
			t.Fatal(err)
		}
		q.Answer(&Reply{Text: text})
		q.Answer(&Reply{Text: "again"})
		if r := <-replies; r.Text != text {
			t.Errorf("%q, want %q", r.Text, text)
		}
	}
	over, cancel := context.WithCancel(t.Context())
	go ask(over, "u")
	if _, err := m.Next(t.Context(), "u"); err != nil {
		t.Fatal(err)
	}
	cancel()
	if r := <-replies; r != nil {
		t.Errorf("a round that is over has a reply: %v", r)
	}
	if q, err := m.Next(over, "u"); err == nil {
		t.Errorf("a question that is over is open: %v", q)
	}
}

// TestCut checks that a cut text says so and stays valid UTF-8.
func TestCut(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"short", "short"}, {"12345678", "12345678"}, {"123456789", "12345678\n[cut here: 8 of 9 bytes]"},
		{"1234567ü9", "1234567\n[cut here: 7 of 10 bytes]"},
	} {
		if got := cut(tt.text, 8); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.text, got, tt.want)
		}
	}
}
