package tools

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/handover"
)

// A play makes steps of one session by hand. Its time stands still.
type play struct {
	t     *testing.T
	rules Rules
	s     *Session
	told  Told
	outs  []Out
	jobs  []Job
	over  bool // the session was forgotten
}

func newPlay(t *testing.T) *play {
	return &play{t: t, rules: Rules{Horizon: 24 * time.Hour, Remember: time.Hour, Pauses: rules.Pauses, Most: time.Hour}, s: newSession()}
}

func (p *play) turn(f func(do *turn)) {
	var do turn
	f(&do)
	p.outs, p.jobs, p.over = do.Emitted(), do.Calls(), do.Forgets()
	for _, o := range p.outs {
		if o.Told != nil {
			p.told = *o.Told
		}
	}
}

func (p *play) take(in In) {
	in.Token = "token"
	p.turn(func(do *turn) { p.rules.take(p.s, in, do) })
}

func (p *play) outcome(j Job, o Outcome) {
	p.turn(func(do *turn) { p.rules.outcome(p.s, j, o, do) })
}

func (p *play) invoke(url, text string) {
	inv := invocation(url, text)
	p.take(In{Invoke: &Invoke{Call: callID, Inv: inv, Print: PrintOf(inv), Epoch: "e"}})
}

// job returns the one job that the last step requested.
func (p *play) job(kind Kind) Job {
	p.t.Helper()
	if len(p.jobs) != 1 || p.jobs[0].Kind != kind {
		p.t.Fatalf("jobs %+v, want one %s", p.jobs, kind)
	}
	return p.jobs[0]
}

// resolved makes a call whose result is being sent, and returns the attempt.
func (p *play) resolved() Job {
	p.t.Helper()
	p.invoke(firstURL, "one")
	p.outcome(p.job(Run), Outcome{Result: message(agentproto.TypeToolResult, "result")})
	return p.job(Attempt)
}

func (p *play) stopped() (numbers []uint64) {
	for _, o := range p.outs {
		if o.Stop != nil && !o.Stop.Over {
			numbers = append(numbers, o.Stop.Number)
		}
	}
	return numbers
}

// TestN65_OutcomeTwice delivers the outcome of an attempt twice, so that the second is late. It catches a second
// message that is taken for delivered.
func TestN65_OutcomeTwice(t *testing.T) {
	p := newPlay(t)
	p.invoke(firstURL, "one")
	run := p.job(Run)
	p.take(In{Post: &Post{Call: callID, Message: message(agentproto.TypeViewUpdate, "view")}})
	first := p.job(Attempt)
	p.outcome(run, Outcome{Result: message(agentproto.TypeToolResult, "result")})
	p.outcome(first, Outcome{Class: Accepted})
	second := p.job(Attempt)
	p.outcome(first, Outcome{Class: Accepted})
	if c := p.s.call(callID); c == nil || len(c.Queue) != 1 || c.Attempt != second.Number {
		t.Fatalf("the session is %+v", p.s)
	}
	p.outcome(second, Outcome{Class: Accepted})
	if len(p.s.Calls) != 0 || len(p.s.Done) != 1 {
		t.Errorf("the session is %+v", p.s)
	}
}

// TestN58_OtherURL invokes a key again with another callback_url while it runs, while its result is being sent, after
// delivery, and after it was forgotten.
func TestN58_OtherURL(t *testing.T) {
	p := newPlay(t)
	p.invoke(firstURL, "one")
	run := p.job(Run)
	p.invoke(otherURL, "one")
	p.outcome(run, Outcome{Result: message(agentproto.TypeToolResult, "result")})
	a := p.job(Attempt)
	if a.To != otherURL || !strings.HasPrefix(a.ID, "msg_result_") {
		t.Errorf("the result goes to %s as %s", a.To, a.ID)
	}
	p.invoke(firstURL, "one") // a delayed repetition
	if len(p.jobs) > 0 {
		t.Errorf("an address from before is taken again: %+v", p.jobs)
	}
	p.invoke("https://runtime.example/cb/3", "one")
	if got := p.stopped(); len(got) != 1 || got[0] != a.Number {
		t.Errorf("stopped are %v", got)
	}
	b := p.job(Attempt)
	p.outcome(a, Outcome{Class: Accepted})
	if len(p.s.Calls) != 1 {
		t.Fatal("an attempt at the address before ends the call")
	}
	p.outcome(b, Outcome{Class: Accepted})
	p.invoke(otherURL, "one")
	r := p.job(Attempt)
	if !r.Reply || r.To != otherURL {
		t.Errorf("the answer is %+v", r)
	}
	p.outcome(r, Outcome{Class: Accepted})
	p.invoke(otherURL, "one")
	if len(p.jobs) > 0 {
		t.Error("one invocation is answered twice")
	}
	p.rules.Remember = 0
	p.turn(func(do *turn) { p.rules.fire(p.s, alarm, do) })
	if !p.over {
		t.Errorf("the session is %+v", p.s)
	}
}

// TestN66_LongPause makes a runtime ask for a long pause, and messages fail repeatedly until it is too late.
func TestN66_LongPause(t *testing.T) {
	p := newPlay(t)
	a := p.resolved()
	p.outcome(a, Outcome{Class: Again, After: time.Hour}) // package edge cuts longer pauses
	if m := p.s.Calls[0].Queue[0]; m.Wake != time.Hour || m.Failed != 1 {
		t.Errorf("the message waits for %v after %d attempts", m.Wake, m.Failed)
	}
	for failed := range 100 {
		d, ok := p.rules.Pause(Job{Message: &Message{ID: "m", Failed: failed}, Left: 24 * time.Hour}, 0)
		if !ok || d > time.Hour+time.Hour/10 || failed == 0 && (d < time.Second || d > 1100*time.Millisecond) {
			t.Errorf("after %d attempts it waits for %v, %v", failed, d, ok)
		}
	}
	if _, ok := p.rules.Pause(Job{Message: &Message{ID: "m"}, Left: time.Millisecond}, 0); ok {
		t.Error("it is sent again when it is too late")
	}
}

// TestN91_Barred sends a cancellation before its invocation.
func TestN91_Barred(t *testing.T) {
	p := newPlay(t)
	p.take(In{Cancel: &Cancel{"g", "c"}})
	bars := 0
	for _, o := range p.outs {
		if o.Bar != nil && *o.Bar == (Name{"", "g", "c"}) {
			bars++
		}
	}
	if bars != 1 || !p.over {
		t.Errorf("%d bars, forgotten: %v", bars, p.over)
	}
	inv := invocation(firstURL, "one")
	p.take(In{Invoke: &Invoke{Call: callID, Inv: inv, Print: PrintOf(inv), Barred: true}})
	if len(p.jobs) > 0 || len(p.s.Calls) > 0 || len(p.s.Done) != 1 {
		t.Errorf("the session is %+v with jobs %+v", p.s, p.jobs)
	}
}

// TestN92_Unknown sends a session inputs for calls that it does not know.
func TestN92_Unknown(t *testing.T) {
	for _, in := range []In{
		{Cancel: &Cancel{"g", "c"}}, {Cancel: &Cancel{"g", ""}}, {Answer: &UserAnswer{Call: callID, Question: "q"}},
		{Post: &Post{Call: callID, Message: message(agentproto.TypeViewUpdate, "view")}}, {Move: &MoveOrder{Do: Look}}, {Move: &MoveOrder{Step: handover.Abort, Transfer: "1.t"}},
	} {
		p := newPlay(t)
		p.take(in)
		if !p.over || len(p.jobs) > 0 {
			t.Errorf("%+v leaves %+v and jobs %+v", in, p.s, p.jobs)
		}
		if in.Post != nil && p.told.Refused != RefusedOver {
			t.Errorf("a post is answered %+v", p.told)
		}
	}
	p := newPlay(t)
	for _, kind := range []Kind{Run, Produce, Attempt, Hold, Settle} {
		p.outcome(Job{Kind: kind, Call: callID, Number: 7}, Outcome{Class: Accepted, Result: message(agentproto.TypeToolResult, "result")})
		if !p.over || len(p.jobs) > 0 {
			t.Errorf("an outcome of %s leaves %+v", kind, p.s)
		}
	}
}

// TestRepliesAreBounded sends many different invocations with the id of one call.
func TestRepliesAreBounded(t *testing.T) {
	p := newPlay(t)
	p.resolved()
	for i := range maxReplies + 1 {
		p.invoke(fmt.Sprint("https://runtime.example/other/", i), "two")
		if want := map[bool]Refusal{true: RefusedFull}[i == maxReplies]; p.told.Refused != want || !p.told.Other && want == "" {
			t.Fatalf("answer %d: %+v", i, p.told)
		}
	}
}

// TestRememberedResults checks the bounds on remembered results and keys.
func TestRememberedResults(t *testing.T) {
	p := newPlay(t)
	st := step{p.rules, p.s, new(turn), place, 0}
	for i := range maxKeptAll/maxKept + 10 {
		st.remember(Key{byte(i), byte(i >> 8)}, Finished{Result: make([]byte, maxKept)})
	}
	if p.s.Results > maxKeptAll || p.s.Results < maxKeptAll-maxKept || p.s.Done[Key{}].Result != nil {
		t.Errorf("%d bytes are kept, of the first %d", p.s.Results, len(p.s.Done[Key{}].Result))
	}
	st.limit(Load{Results: maxKeptAll + 10*maxKept})
	if p.s.Results > maxKeptAll-10*maxKept {
		t.Errorf("%d bytes are kept where all sessions have too many", p.s.Results)
	}
	n := len(p.s.Done)
	st.limit(Load{Finished: maxDoneAll})
	if len(p.s.Done) != n-2 || len(p.s.Order) != n-2 {
		t.Errorf("%d keys are remembered of %d", len(p.s.Done), n)
	}
	for i := range maxDone + 5 {
		st.remember(Key{byte(i), byte(i >> 8), byte(i >> 16), 1}, Finished{})
	}
	if len(p.s.Done) != maxDone || len(p.s.Order) != maxDone {
		t.Errorf("%d keys are remembered", len(p.s.Done))
	}
}
