package authorize

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// A play makes steps of one runtime by hand. Its time stands still; turn gives a step a later time.
type play struct {
	t    *testing.T
	s    *State
	outs []Out
	jobs []Job
	over bool
}

func (p *play) turn(now time.Duration, f func(t step)) {
	var do turn
	f(step{p.s, &do, now})
	p.outs, p.jobs, p.over = do.Emitted(), do.Calls(), do.Forgets()
}

func (p *play) take(in In) { p.turn(0, func(t step) { take(p.s, in, t.do) }) }

func (p *play) outcome(j Job, o Outcome) { p.turn(0, func(t step) { outcome(p.s, j, o, t.do) }) }

// told returns the last step's answer for a token.
func (p *play) told(token string) Told {
	p.t.Helper()
	for _, o := range p.outs {
		if o.Token == token && o.Told != nil {
			return *o.Told
		}
	}
	p.t.Fatalf("nothing is told to %q: %+v", token, p.outs)
	return Told{}
}

// job returns the job of a kind that the last step requested.
func (p *play) job(kind Kind) Job {
	p.t.Helper()
	i := slices.IndexFunc(p.jobs, func(j Job) bool { return j.Kind == kind })
	if i < 0 {
		p.t.Fatalf("jobs %+v, want one %s", p.jobs, kind)
	}
	return p.jobs[i]
}

var idp = Key{"user:u", "idp"}

func request(call string) *Request {
	return &Request{Call: call, ID: "of " + call, State: "state of " + call, Start: "start of " + call, Print: "p", Confirm: true, Epoch: "e", For: 10 * time.Minute}
}

// ask makes a call ask for a token, with an empty vault, and returns the answer.
func (p *play) ask(k Key, r *Request) Told {
	p.t.Helper()
	p.take(In{Token: "ask", Ask: &Ask{Key: k, User: r}})
	p.outcome(p.job(Fetch), Outcome{Class: None})
	return p.told("ask")
}

// arrive brings the user of a call back and returns the job for the code.
func (p *play) arrive(call string) Job {
	p.t.Helper()
	p.take(In{Token: "page", Redirect: &Redirect{ID: "of " + call, State: "state of " + call, Code: "code of " + call}})
	return p.job(Exchange)
}

func (p *play) pick(call string, c Class) Class {
	p.t.Helper()
	p.take(In{Token: "pick", Confirm: &Confirm{ID: "of " + call, Class: c}})
	if c == Good {
		p.outcome(p.job(Keep), Outcome{Class: Good, Access: "token"})
	}
	return p.told("pick").Class
}

// TestN17_Limits opens the most authorizations that a user and a runtime may have, and one more. It catches one that
// still counts after its end, and a runtime that uses up the limit of another.
func TestN17_Limits(t *testing.T) {
	p := &play{t: t, s: newState()}
	for i := range maxOfRuntime {
		if c := p.ask(Key{fmt.Sprint("user:", i/maxOfUser), "idp"}, request(fmt.Sprint(i))).Class; c != Asked {
			t.Fatalf("authorization %d: %s", i, c)
		}
		if i == maxOfUser-1 {
			if c := p.ask(Key{"user:0", "other"}, request("more")).Class; c != Full {
				t.Errorf("one more of a user: %s", c)
			}
		}
	}
	if c := p.ask(Key{"user:9", "idp"}, request("more")).Class; c != Full {
		t.Errorf("one more of a runtime: %s", c)
	}
	p.take(In{Ended: "7"})
	if c := p.ask(Key{"user:9", "idp"}, request("more")).Class; c != Asked {
		t.Errorf("in place of one that is over: %s", c)
	}
	other := &play{t: t, s: newState()}
	r := request("other")
	if r.All = maxOfRuntime; other.ask(idp, r).Class != Asked {
		t.Error("another runtime has none")
	}
	r = request("another")
	if r.All = maxOfAll; other.ask(idp, r).Class != Full {
		t.Error("there may be more than of all")
	}
}

// TestN17_OfOneCall makes a call lose its authorization again and again, up to its limit.
func TestN17_OfOneCall(t *testing.T) {
	p := &play{t: t, s: newState()}
	r := request("c")
	for i := range maxOfCall + 2 {
		want := Asked
		if i >= maxOfCall {
			want = Full
		}
		r.ID = fmt.Sprint(i)
		told := p.ask(idp, r)
		if told.Class != want {
			t.Fatalf("authorization %d: %s", i, told.Class)
		}
		if want == Asked {
			p.take(In{Token: "page", Redirect: &Redirect{ID: r.ID, State: r.State, Code: "code"}})
			p.outcome(p.job(Exchange), Outcome{Class: Lost})
			r.After = r.ID
		}
	}
}

// TestN12_Pause makes a user pick a wrong number. It catches a pause that another session, another tab or a right
// number in between evades, and one that does not grow.
func TestN12_Pause(t *testing.T) {
	for _, user := range []string{"user:u", "thread:t"} {
		p := &play{t: t, s: newState()}
		of := func(n int) Key { // a session of the same user
			if user == "thread:t" {
				return Key{fmt.Sprint(user, n), "idp"}
			}
			return Key{user, "idp"}
		}
		for _, call := range []string{"guess", "second tab", "third tab", "fourth tab"} {
			p.ask(of(len(call)), request(call))
		}
		p.outcome(p.arrive("guess"), Outcome{Class: Unconfirmed})
		second := p.arrive("second tab")
		p.outcome(second, Outcome{Class: Unconfirmed})
		third := p.arrive("third tab") // its exchange is running
		if c := p.pick("guess", Wrong); c != Wrong {
			t.Fatalf("a wrong number: %s", c)
		}
		if c := p.pick("second tab", Declined); c != Paused {
			t.Errorf("%s: what was unconfirmed beside it: %s", user, c)
		}
		p.outcome(third, Outcome{Class: Unconfirmed})
		if c := p.told("page").Class; c != Paused {
			t.Errorf("%s: what was under way beside it: %s", user, c)
		}
		p.take(In{Token: "page", Redirect: &Redirect{ID: "of fourth tab", State: "state of fourth tab", Code: "c"}})
		if c := p.told("page").Class; c != Over {
			t.Errorf("%s: what was open beside it: %s", user, c)
		}
		if c := p.ask(of(1), request("again")).Class; c != Paused {
			t.Errorf("%s: anew: %s", user, c)
		}
		if c := p.ask(Key{"user:other", "idp"}, request("other")).Class; c != Asked {
			t.Errorf("%s: another user: %s", user, c)
		}
	}
}

// TestN12_PauseIsLonger checks the length of the pauses after wrong numbers, and when they are forgotten.
func TestN12_PauseIsLonger(t *testing.T) {
	s := newState()
	h := s.holder(idp)
	for i, want := range []time.Duration{10 * time.Minute, 20 * time.Minute, 40 * time.Minute, 80 * time.Minute, 160 * time.Minute, 320 * time.Minute, 640 * time.Minute, 1280 * time.Minute, 24 * time.Hour, 24 * time.Hour} {
		var do turn
		step{s, &do, time.Hour}.wrong(h)
		if got := s.pause(idp).Until - time.Hour; got != want {
			t.Errorf("after %d wrong numbers it is %v, want %v", i+1, got, want)
		}
	}
	var do turn
	s.Holders = nil
	step{s, &do, 48*time.Hour + time.Hour - 1}.settle()
	if len(s.Pauses) != 1 {
		t.Error("the last one is forgotten too early")
	}
	step{s, &do, 48*time.Hour + time.Hour}.settle()
	if len(s.Pauses) != 0 {
		t.Error("it is remembered for ever")
	}
}

// TestCancelledWhileExchanged cancels a call while its code is being exchanged. It catches an authorization that is
// left forever, and a token that nobody can confirm.
func TestCancelledWhileExchanged(t *testing.T) {
	for class, want := range map[Class]Class{Unconfirmed: Over, Good: Good, Failed: Failed} {
		p := &play{t: t, s: newState()}
		p.ask(idp, request("c"))
		j := p.arrive("c")
		p.take(In{Ended: "c"})
		p.outcome(j, Outcome{Class: class, Access: "token"})
		if c := p.told("page").Class; c != want {
			t.Errorf("%s: the page says %s", class, c)
		}
		d := p.job(Discard)
		if (d.ID != "") != (class == Unconfirmed) || d.Code == "" {
			t.Errorf("%s: %+v", class, d)
		}
		if p.outcome(d, Outcome{}); !p.over {
			t.Errorf("%s: left is %+v", class, p.s)
		}
	}
}

// TestBegunAnew restarts the function of a call, in this process and in another one.
func TestBegunAnew(t *testing.T) {
	p := &play{t: t, s: newState()}
	p.ask(idp, request("c"))
	again := request("c")
	again.ID, again.Epoch = "new", "other"
	if told := p.ask(idp, again); told.Class != Asked || told.ID != "of c" {
		t.Errorf("while it is open: %+v", told)
	}
	p.outcome(p.arrive("c"), Outcome{Class: Unconfirmed, Epoch: "e"})
	same := request("c")
	if told := p.ask(idp, same); told.ID != "of c" {
		t.Errorf("while it is confirmed: %+v", told)
	}
	if told := p.ask(idp, again); told.Class != Asked || told.ID != "new" {
		t.Errorf("in another process, which has no token: %+v", told)
	}
	p.take(In{Token: "page", Redirect: &Redirect{ID: "new", State: again.State, Refused: Denied}})
	again.ID = "newer"
	if told := p.ask(idp, again); told.Class != Denied {
		t.Errorf("when it was denied: %+v", told)
	}
	again.After = "new"
	if told := p.ask(idp, again); told.Class != Asked || told.ID != "newer" {
		t.Errorf("when it was told so: %+v", told)
	}
	again.Print, again.ID = "other settings", "newest"
	if told := p.ask(idp, again); told.ID != "newest" {
		t.Errorf("of a provider with other settings: %+v", told)
	}
}

// TestAuthorizedAfterRestart has a user come back after a restart, and before the function of the call has asked anew. The test
// fails if the call does not continue with the token that the new process has, or if a further process, which has none, does.
func TestAuthorizedAfterRestart(t *testing.T) {
	p := &play{t: t, s: newState()}
	p.ask(idp, request("c"))
	p.outcome(p.arrive("c"), Outcome{Class: Unconfirmed, Epoch: "second"})
	again := request("c")
	again.ID, again.Epoch = "new", "second"
	if told := p.ask(idp, again); told.Class != Asked || told.ID != "of c" {
		t.Errorf("in the process that has the token: %+v", told)
	}
	again.Epoch = "third"
	if told := p.ask(idp, again); told.Class != Asked || told.ID != "new" {
		t.Errorf("in one that has no token: %+v", told)
	}
}

// TestOneRenewalForAll makes many calls wait for an expired token. One of them has already had the new token refused.
func TestOneRenewalForAll(t *testing.T) {
	p := &play{t: t, s: newState()}
	p.take(In{Token: "0", Ask: &Ask{Key: idp}})
	j := p.job(Fetch)
	for i := range 20 {
		p.take(In{Token: fmt.Sprint(i + 1), Ask: &Ask{Key: idp, Refused: "old"}})
		if len(p.jobs) > 0 {
			t.Fatalf("another job: %+v", p.jobs)
		}
	}
	p.take(In{Token: "late", Ask: &Ask{Key: idp, Refused: "new"}})
	p.outcome(j, Outcome{Class: Good, Access: "new"})
	for i := range 21 {
		if c := p.told(fmt.Sprint(i)).Class; c != Good {
			t.Errorf("%d: %s", i, c)
		}
	}
	if j = p.job(Fetch); j.Refused != "new" {
		t.Errorf("the next is %+v", j)
	}
	if p.outcome(j, Outcome{Class: None}); p.told("late").Class != None || !p.over {
		t.Errorf("left is %+v", p.s)
	}
}
