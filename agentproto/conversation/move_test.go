package conversation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
)

// A place is a program of threads. Its model answers with the number of messages.
type place struct {
	*Program
	t *testing.T
}

func newPlace(t *testing.T) *place {
	calls := agentproto.NewProgram(agentproto.ProgramOptions{Dispatch: func(context.Context, *agentproto.Call) agentproto.DispatchOutcome {
		return agentproto.DispatchOutcome{Accepted: true}
	}})
	p := &place{t: t, Program: NewProgram(calls, ProgramOptions{Do: func(_ context.Context, _ string, a *Action) *Outcome {
		if a.Kind == Ask {
			return &Outcome{Reply: &Reply{Text: fmt.Sprint(a.Messages)}}
		}
		return &Outcome{}
	}})}
	ctx, cancel := context.WithCancel(context.Background())
	if err := calls.Start(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); <-calls.Done() })
	return p
}

func (p *place) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// send freezes the thread and exports it.
func (p *place) send(migration string) *Export {
	p.t.Helper()
	p.must(p.Freeze(p.t.Context(), "s", migration))
	e, err := p.Export(p.t.Context(), "s", migration)
	p.must(err)
	return e
}

// to moves the thread to another place.
func (p *place) to(there *place, migration string) {
	p.t.Helper()
	ctx := p.t.Context()
	e := p.send(migration)
	for range 2 { // each step may be repeated
		p.must(there.Stage(ctx, e))
	}
	for range 2 {
		p.must(there.Commit(ctx, "s", migration))
		p.must(p.Commit(ctx, "s", migration))
	}
	synctest.Wait()
}

func (p *place) story() string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Second)
	defer cancel()
	all, err := p.History(ctx, "s", 0)
	if err != nil {
		return err.Error()
	}
	var words []string
	for _, m := range all {
		words = append(words, m.Kind.String()+":"+m.Text)
	}
	return strings.Join(words, " ")
}

// TestThereAndBackKeepsHistory moves a thread away and back before its move is forgotten. It catches messages that are
// dropped at that time although the thread is here again.
func TestThereAndBackKeepsHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := newPlace(t), newPlace(t)
		_, err := here.Open(t.Context(), Session{ID: "s"})
		here.must(err)
		here.must(here.Say(t.Context(), "s", "one"))
		synctest.Wait()
		here.to(there, "1.away")
		there.must(there.Say(t.Context(), "s", "two"))
		synctest.Wait()
		there.to(here, "2.back")
		time.Sleep(movedRetention + time.Hour)
		here.must(here.Say(t.Context(), "s", "three"))
		synctest.Wait()
		if got, want := here.story(), "opened: user:one assistant:2 user:two assistant:4 user:three assistant:6"; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

// TestClosedOnItsWay closes a frozen thread, and one that has been exported, so that nobody knows where it is.
func TestClosedOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, here, there := t.Context(), newPlace(t), newPlace(t)
		_, err := here.Open(ctx, Session{ID: "s"})
		here.must(err)
		here.must(here.Freeze(ctx, "s", "1.m"))
		here.must(here.Close(ctx, "s"))
		e, err := here.Export(ctx, "s", "1.m")
		here.must(err)
		view := &agentproto.ViewUpdate{GroupID: "s", ViewType: "v", Content: jsontext.Value(`{"a":1}`)}
		if err := errors.Join(here.Close(ctx, "s"), here.View(ctx, view)); !errors.Is(err, ErrMoved) {
			t.Errorf("what may be lost is taken in: %v", err)
		}
		here.must(there.Stage(ctx, e))
		if err := there.Say(ctx, "s", "early"); !errors.Is(err, ErrMoved) {
			t.Errorf("a thread that may not come takes in %v", err)
		}
		here.must(there.Commit(ctx, "s", "1.m"))
		here.must(here.Commit(ctx, "s", "1.m"))
		if got, want := there.story(), "opened: closed:"; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if st, err := here.Status(ctx, "s"); err != nil || !st.Moved || st.Closed {
			t.Errorf("at the source: %+v, %v", st, err)
		}
	})
}

// TestStagedAndAborted stages a thread twice and aborts it. Its name is then free for a thread with its own history.
func TestStagedAndAborted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, here, there := t.Context(), newPlace(t), newPlace(t)
		_, err := here.Open(ctx, Session{ID: "s"})
		here.must(err)
		first := here.send("1.m")
		here.must(there.Stage(ctx, first))
		here.must(here.Abort(ctx, "s", "1.m"))
		here.must(here.Say(ctx, "s", "more"))
		synctest.Wait()
		second := here.send("2.m")
		here.must(there.Stage(ctx, second))
		for _, err := range []error{there.Stage(ctx, first), there.Commit(ctx, "s", "1.m"), there.Freeze(ctx, "s", "3.m")} {
			if !errors.Is(err, ErrNotMoving) {
				t.Errorf("it takes in %v", err)
			}
		}
		here.must(there.Abort(ctx, "s", "1.m")) // the first migration is already over
		here.must(there.Abort(ctx, "s", "2.m"))
		if err := there.Stage(ctx, second); !errors.Is(err, ErrNotMoving) {
			t.Errorf("what was aborted comes: %v", err)
		}
		_, err = there.Open(ctx, Session{ID: "s"})
		here.must(err)
		here.must(there.Say(ctx, "s", "another"))
		synctest.Wait()
		if got, want := there.story(), "opened: user:another assistant:2"; got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}
