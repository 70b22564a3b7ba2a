package tools

import (
	"slices"
	"time"

	"github.com/millrace/millrace/agentproto/internal/handover"
)

// put queues a message of a call.
func (t step) put(c *Call, m *Message) {
	c.Number++
	m.Number, m.Posted, m.Failed, m.Wake = c.Number, t.now, 0, 0
	c.Queue = append(c.Queue, m)
}

// lose reports that a message is not delivered, if it names a receiver for that.
func (t step) lose(m *Message) {
	if m.Lost != "" {
		t.do.Emit(Out{Answered: &Answered{ID: m.Lost, Lost: true}})
	}
}

// attempted handles the outcome of an attempt.
func (t step) attempted(j Job, o Outcome) {
	if j.Reply {
		t.replied(j, o)
		return
	}
	c := t.call(j.Call)
	if c == nil || c.Attempt != j.Number {
		return
	}
	c.Attempt = 0
	m := c.Queue[0]
	moved := j.To != c.Address // it was tried at the earlier address
	switch {
	case o.Suspended || moved && o.Class != Accepted:
		if moved {
			m.Failed, m.Wake = 0, 0
		}
		return
	case o.Class == Again:
		if pause, ok := t.Pause(j, o.After); ok {
			m.Failed++
			m.Wake = t.now + pause
			return
		}
		o.Class = Refused
	}
	c.Queue = slices.Delete(c.Queue, 0, 1)
	if o.Class != Accepted {
		t.lose(m)
	}
	t.limit(o.Load)
	switch {
	case o.Class == Gone,
		c.Phase == Resolved && len(c.Queue) == 0,
		o.Class == Refused && isResult(m) && c.Phase != Resolved: // a runtime that does not know of a subscription drops its events
		t.finish(c)
	}
}

// replied handles the outcome of an attempt to send a reply.
func (t step) replied(j Job, o Outcome) {
	i := slices.IndexFunc(t.Replies, func(r *Reply) bool { return r.Attempt == j.Number })
	if i < 0 {
		return
	}
	r := t.Replies[i]
	r.Attempt = 0
	if o.Suspended {
		return
	}
	if pause, ok := t.Pause(j, o.After); o.Class == Again && ok {
		r.Message.Failed++
		r.Message.Wake = t.now + pause
		return
	}
	t.limit(o.Load)
	t.Replies = slices.Delete(t.Replies, i, i+1)
	t.do.Emit(Out{Load: r.load(-1)})
	t.remember(r.Key, Finished{})
}

// settle completes a step: it starts the jobs that are due, sets the timer for later ones, reports
// changes of the load, and forgets a session of which nothing is left.
func (t step) settle() {
	t.expire()
	next := time.Duration(0)
	at := func(d time.Duration) {
		if next == 0 || d < next {
			next = d
		}
	}
	still := t.Move.Place.Leaving()
	for _, c := range t.Calls {
		if !still {
			t.runs(c)
			t.sends(c, at)
		}
		t.reportLoad(c, t.loadOf(c, still))
	}
	for _, r := range t.Replies {
		if m := r.Message; r.Attempt == 0 && t.turn(r) {
			if m.Wake > t.now {
				at(m.Wake)
				continue
			}
			r.Attempt = t.begin(t.attempt(m, Job{Call: r.Call, To: r.Address, ID: m.ID, Reply: true}))
		}
	}
	if still {
		t.quiet()
	}
	if sum := (Load{Finished: int64(len(t.Done)), Results: t.Results}); sum != t.Sum {
		t.do.Emit(Out{Load: &LoadOf{Load: Load{Finished: sum.Finished - t.Sum.Finished, Results: sum.Results - t.Sum.Results}}})
		t.Sum = sum
	}
	if len(t.Order) > 0 && t.Remember < Forever {
		at(t.Order[0].At + t.Remember)
	}
	if until, set := t.forgetMove(); set {
		at(until)
	}
	switch {
	case next > 0:
		t.do.After(alarm, next-t.now)
	case len(t.Calls) == 0 && len(t.Replies) == 0 && len(t.Done) == 0 && len(t.Grants) == 0 && len(t.Tokens) == 0 && len(t.Stops) == 0 && t.Move.State == (handover.State{}) && len(t.do.Calls()) == 0:
		t.do.Forget()
	}
}

// runs starts the function of a call, or the producer of its subscription.
func (t step) runs(c *Call) {
	switch {
	case c.Run != 0 || c.Phase == Resolved:
	case c.Phase == Running:
		c.Run = t.begin(Job{Kind: Run, Call: c.ID, Inv: c.Inv, Epoch: c.Epoch, By: c.By, Known: answered(c.Questions), Trace: c.Trace, Queue: len(c.Queue), Bytes: c.bytes()})
	case c.Phase == Subscribed:
		c.Run = t.begin(Job{Kind: Produce, Call: c.ID, Inv: c.Inv, Epoch: c.Epoch, By: c.By, State: c.State, Trace: c.Trace, Queue: len(c.Queue), Bytes: c.bytes()})
	}
}

// answered returns the answered questions.
func answered(all []Question) (some []Question) {
	for _, q := range all {
		if q.Selected != nil {
			some = append(some, q)
		}
	}
	return some
}

// sends starts an attempt to send the first message of a call, or calls at with the time when it is
// due.
func (t step) sends(c *Call, at func(time.Duration)) {
	if c.Attempt != 0 || len(c.Queue) == 0 {
		return
	}
	m := c.Queue[0]
	if m.Wake > t.now {
		at(m.Wake)
		return
	}
	id := m.ID
	if len(c.Before) > 0 { // a runtime that accepted the message at an earlier address would drop it here
		id += "_" + briefOf(c.Address).String()
	}
	c.Attempt = t.begin(t.attempt(m, Job{Call: c.ID, To: c.Address, ID: id, Trace: c.Trace, Queue: len(c.Queue), Bytes: c.bytes(), Credit: c.Credit}))
}

// attempt completes the job of one attempt to send a message.
func (t step) attempt(m *Message, j Job) Job {
	sent := *m
	j.Kind, j.Message, j.Left = Attempt, &sent, m.Posted+t.Horizon-t.now
	return j
}

// loadOf returns the load of a call. The calls of a session that is leaving do not count.
func (t step) loadOf(c *Call, still bool) LoadOf {
	l := LoadOf{Runtime: c.ID.Runtime}
	if !still {
		l.Calls, l.Bytes = 1, c.bytes()
		if len(c.Queue) > 0 {
			l.Busy = 1
		}
	}
	return l
}

// reportLoad reports how the load of a call has changed.
func (t step) reportLoad(c *Call, l LoadOf) {
	if was := c.Told; l.Load != was.Load {
		c.Told = l
		t.do.Emit(Out{Load: &LoadOf{l.Runtime, Load{Calls: l.Calls - was.Calls, Busy: l.Busy - was.Busy, Bytes: l.Bytes - was.Bytes}}})
	}
}
