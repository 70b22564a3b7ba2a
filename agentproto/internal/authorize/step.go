package authorize

import (
	"slices"
	"time"

	"github.com/millrace/millrace/keyedstream"
)

type turn = keyedstream.CallingTurn[string, Out, struct{}, Job]

// alarm is the only timer of a runtime. It fires when the earliest deadline is due.
const alarm keyedstream.Timer = 0

// A step is the processing of one turn of a runtime.
type step struct {
	*State
	do  *turn
	now time.Duration
}

func newStep(s *State, do *turn) step { return step{s, do, do.Now()} }

// take processes an input.
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

// fire processes the timer: settle finds what is due.
func fire(s *State, _ keyedstream.Timer, do *turn) { newStep(s, do).settle() }

// outcome processes the outcome of a job.
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

// answer replies to the sender of an In, if it has a token.
func (t step) answer(token string, told Told) {
	if token != "" {
		t.do.Emit(Out{Token: token, Told: &told})
	}
}

// begin starts a job.
func (t step) begin(j Job) uint64 {
	t.Jobs++
	j.Number = t.Jobs
	t.do.Call(j)
	return j.Number
}

// opened emits that the user may complete an authorization, or no longer.
func (t step) opened(k Key, a *Authorization, finished bool) {
	t.do.Emit(Out{Open: &Opened{Runtime: t.do.Key(), Key: k, ID: a.ID, State: a.State, Start: a.Start, Print: a.Print, Scopes: a.Scopes, Finished: finished}})
}

// finish ends an authorization. It is kept until its call has ended, since the call may run again
// before it has received the outcome.
func (t step) finish(h *Holder, a *Authorization, c Class) {
	if a.Phase == Open {
		t.opened(h.Key, a, true)
	}
	if (a.Phase == Open || a.Phase == Arrived) && !a.Gone {
		t.do.Emit(Out{Settled: &Settled{a.ID, c}})
	}
	t.answer(a.Page, Told{Class: c})
	a.Phase, a.Class, a.Page = Ended, c, ""
	if a.Gone {
		h.remove(a)
	}
}

func (h *Holder) remove(a *Authorization) {
	i := slices.Index(h.All, a)
	h.All = slices.Delete(h.All, i, i+1)
}

// discard starts a job that deletes the code of an authorization from the vault, and, if token is
// set, the unconfirmed token from memory.
func (t step) discard(h *Holder, a *Authorization, token bool) {
	j := Job{Kind: Discard, Key: h.Key, Code: a.Code}
	if token {
		j.ID = a.ID
	}
	a.Code = ""
	t.Loose++
	t.begin(j)
}

// redirect handles a user who comes back, which uses up the authorization.
func (t step) redirect(token string, r *Redirect) {
	h, a := t.find(func(a *Authorization) bool { return a.ID == r.ID })
	switch {
	case a == nil || a.Phase != Open || a.State != r.State || a.Expires <= t.now:
		t.answer(token, Told{Class: Over})
	case r.Refused != "":
		t.finish(h, a, r.Refused)
		t.answer(token, Told{Class: r.Refused})
	default:
		t.opened(h.Key, a, true)
		a.Phase, a.Code, a.Page = Arrived, r.Code, token
		t.do.Emit(Out{Code: &Transit{Name: r.Code}})
	}
}

// confirm handles the user's answer about the code.
func (t step) confirm(token string, c *Confirm) {
	h, a := t.find(func(a *Authorization) bool { return a.ID == c.ID })
	switch {
	case a != nil && a.Phase == Ended:
		t.answer(token, Told{Class: a.Class})
	case a == nil || a.Phase != Confirming:
		t.answer(token, Told{Class: Over})
	case c.Class == Good:
		a.Phase, a.Page = Confirmed, token
	default:
		t.discard(h, a, true)
		t.finish(h, a, c.Class)
		t.answer(token, Told{Class: c.Class})
		if c.Class == Wrong {
			t.wrong(h)
		}
	}
}

// wrong starts a pause. An attacker who guesses must not continue with other authorizations, so
// those of the same key end too, except one that was already confirmed, which is the user's.
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

// endAll ends the authorizations of a key. An authorization whose job is in progress ends after it.
func (t step) endAll(h *Holder, c Class) {
	for _, a := range slices.Clone(h.All) {
		switch {
		case a.Phase == Ended, a.Job != 0 && a.Phase == Confirmed:
		case a.Job != 0:
			a.Void = c
		case a.Phase == Confirmed && c == Paused: // it is the user's own
		default:
			if a.Phase != Open {
				t.discard(h, a, a.Phase != Arrived)
			}
			t.finish(h, a, c)
		}
	}
}

// end forgets the authorizations of a call. A token that the provider may already have issued is
// kept for the user, unless the user would have to confirm it.
func (t step) end(call string) {
	for _, h := range t.Holders {
		h.Asks = slices.DeleteFunc(h.Asks, func(w *Waiting) bool {
			gone := w.Ask.User != nil && w.Ask.User.Call == call
			if gone {
				t.answer(w.Token, Told{Class: Over})
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

// drop forgets an authorization, at once or after its job.
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

// close gives back the token of a closed session.
func (t step) close(k Key) {
	h := t.holder(k)
	h.Revoke = true
	for _, w := range h.Asks {
		t.answer(w.Token, Told{Class: Over})
	}
	h.Asks = nil
	t.endAll(h, Over)
}

// settle completes a step: it ends what is due, starts jobs, sets the timer, and forgets a runtime
// of which nothing is left.
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

// run starts the next job for a key. A token is given back before a new session gets its own. A
// code is handled before the asks, whose answer it may change.
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
