package conversation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
)

// TestUnsummarized makes summaries fail for good, fail for a while, and come out empty. The history says so each time and the
// session goes on. As soon as a summary can be made, it is.
func TestUnsummarized(t *testing.T) {
	var fails error
	empty := false
	var shown []string // of each request for a reply
	model := ModelFunc(func(_ context.Context, r *Request) (*Reply, error) {
		if r.Summary {
			if empty {
				return &Reply{Text: " \n"}, nil
			}
			return &Reply{Text: "in short"}, fails
		}
		var all []string
		for _, m := range r.Messages {
			text := m.Text
			if m.Result != nil {
				text = m.Result.Text()
			}
			all = append(all, strings.TrimRight(text, "x"))
		}
		shown = append(shown, strings.Join(all, "|"))
		return &Reply{Text: "ok"}, nil
	})
	models, err := NewModels(NamedModel{Name: "m", Model: model, Context: 4000})
	if err != nil {
		t.Fatal(err)
	}
	a := NewAgent(AgentOptions{Model: models, Host: nobody{}, Retry: []time.Duration{}, Logger: slog.New(slog.DiscardHandler)})
	calls := agentproto.NewProgram(agentproto.ProgramOptions{Dispatch: func(context.Context, *agentproto.Call) agentproto.DispatchOutcome {
		return agentproto.DispatchOutcome{Accepted: true}
	}})
	p := NewProgram(calls, ProgramOptions{Do: a.Do})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	if err := calls.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Stop(); cancel(); <-calls.Done() })
	a.Attach(p)
	if _, err := p.Open(ctx, Session{ID: "s"}); err != nil {
		t.Fatal(err)
	}
	next := 1
	// say sends the user's text and returns the messages after it, up to the end of the turn.
	say := func(text string) (turn []Message) {
		t.Helper()
		if err := p.Say(ctx, "s", text); err != nil {
			t.Fatal(err)
		}
		for m, err := range p.Follow(ctx, "s", next) {
			if err != nil {
				t.Fatal(err)
			}
			if next = m.N + 1; m.Kind != User {
				turn = append(turn, m)
			}
			if m.Kind == Assistant || m.Kind == Notice {
				return turn
			}
		}
		t.Fatal("the thread has ended")
		return nil
	}
	say("one " + strings.Repeat("x", 3000))

	fails = errors.New("no connection")
	if turn := say("two " + strings.Repeat("x", 3000)); len(turn) != 1 || turn[0].Kind != Notice || !strings.Contains(turn[0].Text, "could not be summarized: no connection") {
		t.Fatalf("while nobody answers: %+v", turn)
	}
	fails = Permanent(errors.New("too long"))
	for _, refuses := range []bool{true, false} {
		empty = !refuses
		turn := say(fmt.Sprint("three, refused: ", refuses))
		if len(turn) != 1 || turn[0].Text != "ok" || len(turn[0].Notes) != 1 || !strings.Contains(turn[0].Notes[0], "could not be summarized") {
			t.Fatalf("while it is refused: %+v", turn)
		}
		if last := shown[len(shown)-1]; !strings.Contains(last, "are not shown") || !strings.HasSuffix(last, fmt.Sprint("three, refused: ", refuses)) {
			t.Errorf("shown is %q", last)
		}
	}
	fails, empty = nil, false
	turn := say("four")
	if len(turn) != 2 || turn[0].Kind != Summarized || turn[0].Text != "in short" || turn[1].Text != "ok" || len(turn[1].Notes) > 0 {
		t.Fatalf("when it can be made: %+v", turn)
	}
	if last := shown[len(shown)-1]; !strings.Contains(last, "|in short|") || !strings.HasSuffix(last, "four") {
		t.Errorf("shown is %q", last)
	}
}
