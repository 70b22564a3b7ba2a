package agentproto

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A desk implements the prompts and answers of a runtime.
type desk struct {
	mu    sync.Mutex
	notes []string
	h     *host
	fails bool // no answer can be delivered
}

func (d *desk) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.notes = append(d.notes, fmt.Sprintf(format, args...))
}

func (d *desk) prompt(ctx context.Context, p *Prompt) {
	d.note("open %s", p.Detour)
	answered, err := d.h.Over(ctx, p)
	d.note("over %s %v %v", p.Detour, answered, err)
}

func (d *desk) answer(ctx context.Context, a *Answer) {
	d.note("answer %s %d to %s", a.Choice.ResponseURL, a.Selected, a.Server)
	if d.fails {
		d.h.deliver(a.Key, Event{Kind: AnswerFailed, Detour: a.Choice.ResponseURL, Reason: "refused"})
	}
}

// TestOutbox checks that each prompt is opened and closed once, and that each choice is delivered once.
func TestOutbox(t *testing.T) {
	const url = "server"
	tests := []struct {
		name  string
		fails bool
		do    []Event
		later time.Duration
		want  []string // sorted
		story string
	}{
		{"an authorization that is needed no more", false, []Event{oauth("u"), result("x")}, 0,
			[]string{"open u", "over u false <nil>"}, "oauth withdraw resolved(tool_result)"},
		{"an authorization in place of another", false, []Event{oauth("u"), oauth("v")}, 0,
			[]string{"open u", "open v", "over u false <nil>"}, "oauth withdraw oauth"},
		{"a name of its own", false, []Event{{Kind: OAuthArrived, Detour: "digest", OAuth: oauth("sealed 1").OAuth}, {Kind: OAuthArrived, Detour: "digest", OAuth: oauth("sealed 2").OAuth}}, 0,
			[]string{"open digest"}, "oauth dropped(repeated)"},
		{"an answer", false, []Event{choice("r"), answer1("r", 1)}, 0,
			[]string{"answer r 1 to " + url, "open r", "over r true <nil>"}, "choice answer(1)"},
		{"a default", false, []Event{choice("r")}, DefaultChoiceTimeout,
			[]string{"answer r 2 to " + url, "open r", "over r false <nil>"}, "choice withdraw answer(2)"},
		{"an address used twice", false, []Event{choice("r"), answer1("r", 1), choice("r"), answer1("r", 0)}, 0,
			[]string{"answer r 0 to " + url, "answer r 1 to " + url, "open r", "open r", "over r true <nil>", "over r true <nil>"}, "choice answer(1) choice answer(0)"},
		{"an answer that nobody takes", true, []Event{choice("r"), answer1("r", 1)}, 0,
			[]string{"answer r 1 to " + url, "open r", "over r true <nil>"}, "choice answer(1) resolved(answer failed)"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &desk{fails: test.fails}
				d.h = startProgram(t, ProgramOptions{Prompt: d.prompt, Answer: d.answer})
				d.h.call(k1, func(c *Call) { c.Server = url })
				for _, e := range test.do {
					d.h.deliver(k1, e)
					synctest.Wait()
				}
				later(test.later)(d.h)
				if got := slices.Sorted(slices.Values(d.notes)); !slices.Equal(got, test.want) {
					t.Errorf("got %q, want %q", got, test.want)
				}
				if got := d.h.story(k1); got != test.story {
					t.Errorf("got %s, want %s", got, test.story)
				}
				d.h.stop() // closes the open prompts
			})
		})
	}
}

// TestAnswersDoNotWaitForForwards has a forward that blocks, as when the host to which a call has moved is down. The test fails
// if that keeps a user's choice from the tool.
func TestAnswersDoNotWaitForForwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		answered := make(chan int, 1)
		h := startProgram(t, ProgramOptions{
			Concurrency: 1, Forward: func(ctx context.Context, _ *Forwarded) { <-ctx.Done() },
			Answer: func(_ context.Context, a *Answer) { answered <- a.Selected },
		})
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		h.call(k1, nil)
		must(h.Freeze(ctx, k1.GroupID, "m"))
		_, err := h.Export(ctx, k1.GroupID, "m")
		must(err)
		must(h.Commit(ctx, k1.GroupID, "m"))
		h.deliver(k1, result("a"))
		synctest.Wait()
		other := CallKey{"other", "1"}
		h.call(other, nil)
		h.deliver(other, choice("r"))
		h.deliver(other, answer1("r", 1))
		synctest.Wait()
		select {
		case selected := <-answered:
			if selected != 1 {
				t.Errorf("choice %d is answered", selected)
			}
		default:
			t.Error("the answer waits for what is forwarded elsewhere")
		}
		ended, cancel := context.WithCancel(ctx)
		cancel()
		h.Stop(ended)
		<-h.drained
	})
}
