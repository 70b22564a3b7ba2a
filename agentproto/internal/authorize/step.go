package authorize

import (
	"slices"
	"time"

	"github.com/millrace/millrace/keyedstream"
)

type turn = keyedstream.CallingTurn[string, Out, struct{}, Job]

// The one timer of a runtime rings when the earliest of what waits is due.
const alarm keyedstream.Timer = 0

// A step is what happens to the authorizations of a runtime in one turn.
type step struct {
	*State
	do  *turn
	now time.Duration
}

func newStep(s *State, do *turn) step { return step{s, do, do.Now()} }

// take makes a step of what came from outside.
func take(s *State, in In, do *turn) {
	t := newStep(s, do)
	switch {
	case in.Ask != nil:
		h := t.holder(in.Ask.Key)
		h.Asks = append(h.Asks, &Waiting{in.Token, *in.Ask})
	case in.Redirect != nil:
		t.redirect(in.Token, in.Redirect)
	case in.Confirm != nil:
		t.confirm(in.Token, in.Confirm)
	case in.Ended != "":
		t.end(in.Ended)
	case in.Closed != nil:
		t.close(*in.Closed)
	}
	t.settle()
}

// ring makes a step of the alarm: what is due is found by settle.
func ring(s *State, _ keyedstream.Timer, do *turn) { newStep(s, do).settle() }

// outcome makes a step of what came of a job.
func outcome(s *State, j Job, o Outcome, do *turn) {
	t := newStep(s, do)
	if j.Kind == Discard {
		t.Loose--
		if j.Code != "" {
			do.Emit(Out{Code: &Transit{Name: j.Code, Over: true}})
		}
	} else if h := t.holder(j.Key); h.Job == j.Number {
		h.Job = 0
		switch j.Kind {
		case Fetch:
			t.fetched(h, j, o)
		case Exchange:
			t.exchanged(h, j, o)
		case Keep:
			t.kept(h, j, o)
		case Revoke:
			h.Revoke = false
		}
	}
	t.settle()
}

// tell answers an In.
func (t step) tell(token string, told Told) {
	if token != "" {
		t.do.Emit(Out{Token: token, Told: &told})
	}
}

// begin asks for a job.
func (t step) begin(j Job) uint64 {
	t.Jobs++
	j.Number = t.Jobs
	t.do.Call(j)
	return j.Number
}

// opened says that the user may complete an authorization, or no longer.
func (t step) opened(k Key, a *Authorization, finished bool) {
	t.do.Emit(Out{Open: &Opened{Runtime: t.do.Key(), Key: k, ID: a.ID, State: a.State, Start: a.Start, Print: a.Print, Scopes: a.Scopes, Finished: finished}})
}

// finish ends an authorization. It is remembered until its call has ended, which may begin anew
// before it has heard of it.
func (t step) finish(h *Holder, a *Authorization, c Class) {
	if a.Phase == Open {
		t.opened(h.Key, a, true)
	}
	if (a.Phase == Open || a.Phase == Arrived) && !a.Gone {
		t.do.Emit(Out{Settled: &Settled{a.ID, c}})
	}
	t.tell(a.Page, Told{Class: c})
	a.Phase, a.Class, a.Page = Ended, c, ""
	if a.Gone {
		h.remove(a)
	}
}

func (h *Holder) remove(a *Authorization) {
	i := slices.Index(h.All, a)
	h.All = slices.Delete(h.All, i, i+1)
}

// discard has the vault forget the code of an authorization, and a process its token if that is
// not kept.
func (t step) discard(h *Holder, a *Authorization, token bool) {
	j := Job{Kind: Discard, Key: h.Key, Code: a.Code}
	if token {
		j.ID = a.ID
	}
	a.Code = ""
	t.Loose++
	t.begin(j)
}

// redirect takes a user who comes back. The authorization is used up by that.
func (t step) redirect(token string, r *Redirect) {
	h, a := t.find(func(a *Authorization) bool { return a.ID == r.ID })
	switch {
	case a == nil || a.Phase != Open || a.State != r.State || a.Expires <= t.now:
		t.tell(token, Told{Class: Over})
	case r.Refused != "":
		t.finish(h, a, r.Refused)
		t.tell(token, Told{Class: r.Refused})
	default:
		t.opened(h.Key, a, true)
		a.Phase, a.Code, a.Page = Arrived, r.Code, token
		t.do.Emit(Out{Code: &Transit{Name: r.Code}})
	}
}

// confirm takes the answer of the user who was asked for the code.
func (t step) confirm(token string, c *Confirm) {
	h, a := t.find(func(a *Authorization) bool { return a.ID == c.ID })
	switch {
	case a != nil && a.Phase == Ended:
		t.tell(token, Told{Class: a.Class})
	case a == nil || a.Phase != Confirming:
		t.tell(token, Told{Class: Over})
	case c.Class == Good:
		a.Phase, a.Page = Confirmed, token
	default:
		t.discard(h, a, true)
		t.finish(h, a, c.Class)
		t.tell(token, Told{Class: c.Class})
		if c.Class == Wrong {
			t.wrong(h)
		}
	}
}

// wrong begins a pause. Whoever guesses must not have other authorizations to go on with, so
// those of the same key end too; one that was confirmed is the user's.
func (t step) wrong(h *Holder) {
	p := t.pause(h.Key)
	if p == nil {
		p = &Pause{Key: h.Key.pausing()}
		t.Pauses = append(t.Pauses, p)
	}
	p.Wrong++
	p.Until = t.now + min(firstPause<<min(p.Wrong-1, 30), longestPause)
	p.Forget = p.Until + rememberLast
	for _, other := range t.Holders {
		if other.Key.pausing() == p.Key {
			t.endAll(other, Paused)
		}
	}
}

// endAll ends the authorizations of a key. A job that is under way has its outcome first.
func (t step) endAll(h *Holder, c Class) {
	for _, a := range slices.Clone(h.All) {
		switch {
		case a.Phase == Ended, a.Job != 0 && a.Phase == Confirmed:
		case a.Job != 0:
			a.Void = c
		case a.Phase == Confirmed && c == Paused: // it is the user's
		default:
			if a.Phase != Open {
				t.discard(h, a, a.Phase != Arrived)
			}
			t.finish(h, a, c)
		}
	}
}

// end forgets what a call waits for. A token that its provider may have issued already is kept
// for the user, unless he would have to confirm it.
func (t step) end(call string) {
	for _, h := range t.Holders {
		h.Asks = slices.DeleteFunc(h.Asks, func(w *Waiting) bool {
			gone := w.Ask.User != nil && w.Ask.User.Call == call
			if gone {
				t.tell(w.Token, Told{Class: Over})
			}
			return gone
		})
		for _, a := range slices.Clone(h.All) {
			if a.Call == call && !a.Gone {
				t.drop(h, a)
			}
		}
	}
}

// drop forgets an authorization, at once or when its job has ended.
func (t step) drop(h *Holder, a *Authorization) {
	a.Gone = true
	switch a.Phase {
	case Arrived, Confirming:
		if a.Job != 0 {
			return
		}
		t.discard(h, a, a.Phase == Confirming)
		t.finish(h, a, Over)
	case Confirmed:
	default:
		t.finish(h, a, Over)
	}
}

// close gives the token of a session back that is over.
func (t step) close(k Key) {
	h := t.holder(k)
	h.Revoke = true
	for _, w := range h.Asks {
		t.tell(w.Token, Told{Class: Over})
	}
	h.Asks = nil
	t.endAll(h, Over)
}

// settle ends a step: it ends what is due, begins the jobs that can be done, sets the alarm, and
// forgets a runtime of which nothing is left.
func (t step) settle() {
	next := time.Duration(0)
	at := func(d time.Duration) {
		if next == 0 || d < next {
			next = d
		}
	}
	for _, h := range t.Holders {
		for _, a := range slices.Clone(h.All) {
			if a.Phase == Open && a.Expires <= t.now {
				t.finish(h, a, Late)
			} else if a.Phase == Open {
				at(a.Expires)
			}
		}
		t.run(h)
	}
	t.Holders = slices.DeleteFunc(t.Holders, func(h *Holder) bool {
		return h.Job == 0 && len(h.Asks) == 0 && len(h.All) == 0 && !h.Revoke
	})
	t.Pauses = slices.DeleteFunc(t.Pauses, func(p *Pause) bool { return p.Forget <= t.now })
	for _, p := range t.Pauses {
		at(p.Forget)
	}
	if all, _ := t.open(""); all != t.Told {
		t.do.Emit(Out{More: all - t.Told})
		t.Told = all
	}
	if next > 0 {
		t.do.After(alarm, next-t.now)
	} else if len(t.Holders) == 0 && t.Loose == 0 {
		t.do.Forget()
	}
}

// run begins the next job for a key. A token is given back before a new session has its own. A
// code comes before the asks, whose answer may change with it.
func (t step) run(h *Holder) {
	if h.Job != 0 {
		return
	}
	confirmed := slices.IndexFunc(h.All, func(a *Authorization) bool { return a.Phase == Confirmed })
	arrived := slices.IndexFunc(h.All, func(a *Authorization) bool { return a.Phase == Arrived })
	switch {
	case h.Revoke:
		h.Job = t.begin(Job{Kind: Revoke, Key: h.Key})
	case confirmed >= 0:
		a := h.All[confirmed]
		h.Job = t.begin(Job{Kind: Keep, Key: h.Key, ID: a.ID})
		a.Job = h.Job
	case arrived >= 0:
		a := h.All[arrived]
		h.Job = t.begin(Job{Kind: Exchange, Key: h.Key, ID: a.ID, Code: a.Code, Print: a.Print, Scopes: a.Scopes, Confirm: a.Request.Confirm})
		a.Job = h.Job
	case len(h.Asks) > 0:
		ask := h.Asks[0].Ask
		h.Job = t.begin(Job{Kind: Fetch, Key: h.Key, Refused: ask.Refused, Reject: ask.Reject})
	}
}
