package tools

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"slices"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/handover"
	"github.com/millrace/millrace/keyedstream"
)

// Rules are the settings of steps. They may differ from one process to the next.
type Rules struct {
	Horizon  time.Duration // how long delivery of a message is retried
	Remember time.Duration // how long a finished call is remembered, or Forever
	Pauses   []time.Duration
	Most     time.Duration // the longest pause
}

// Forever is a duration that never ends.
const Forever time.Duration = 1 << 62

// Pause returns the pause before a message is sent again, and returns false if the message is given
// up because it would arrive too late. Up to a tenth is added to the pause, by a digest of the
// message, so that messages that failed together are not repeated together.
func (r Rules) Pause(j Job, after time.Duration) (time.Duration, bool) {
	d := r.Pauses[min(j.Message.Failed, len(r.Pauses)-1)]
	for range min(j.Message.Failed-len(r.Pauses)+1, 40) {
		d = min(2*d, r.Most)
	}
	spread := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(j.Message.ID), uint64(j.Message.Failed)))
	d += time.Duration(uint64(d/10) * uint64(binary.BigEndian.Uint16(spread[:])) >> 16)
	d = max(d, after)
	return d, d <= j.Left
}

type turn = keyedstream.CallingTurn[Place, Out, struct{}, Job]

// alarm is the only timer of a session. It fires when the earliest deadline is due.
const alarm keyedstream.Timer = 0

// A step is the processing of one turn of a session.
type step struct {
	Rules
	*Session
	do    *turn
	place Place
	now   time.Duration
}

func (r Rules) step(s *Session, do *turn) step { return step{r, s, do, do.Key(), do.Now()} }

// take processes an input.
func (r Rules) take(s *Session, in In, do *turn) {
	t := r.step(s, do)
	var told Told
	later := in.Ask != nil
	switch {
	case in.Invoke != nil:
		told = t.invoke(in.Invoke)
	case in.Post != nil:
		told = t.post(in.Post)
	case in.Cancel != nil:
		t.cancel(in.Cancel)
	case in.Answer != nil:
		t.answer(in.Answer)
	case in.Ask != nil:
		t.ask(in.Ask)
	case in.Grant != nil:
		t.grant(*in.Grant)
	case in.Move != nil:
		told, later = t.order(in.Token, in.Move)
	case in.Import != nil:
		t.come(in.Import, in.Transfer)
	}
	if in.Token != "" && !later {
		do.Emit(Out{Token: in.Token, Told: &told})
	}
	t.settle()
}

// fire processes the timer: settle finds what is due.
func (r Rules) fire(s *Session, _ keyedstream.Timer, do *turn) { r.step(s, do).settle() }

// outcome processes the outcome of a job. The outcome of a job that was stopped has no effect: its
// call has ended, or the job was started again.
func (r Rules) outcome(s *Session, j Job, o Outcome, do *turn) {
	t := r.step(s, do)
	if i := slices.Index(s.Stops, j.Number); i >= 0 {
		s.Stops = slices.Delete(s.Stops, i, i+1)
		do.Emit(Out{Stop: &Stop{Number: j.Number, Over: true}})
	}
	switch j.Kind {
	case Run, Produce:
		t.returned(j, o)
	case Attempt:
		t.attempted(j, o)
	case Hold, Settle:
		t.moved(j, o)
	}
	t.settle()
}

// begin starts a job.
func (t step) begin(j Job) uint64 {
	t.Jobs++
	j.Number = t.Jobs
	t.do.Call(j)
	return j.Number
}

// stop makes a job end. The job may still have an outcome, which is ignored.
func (t step) stop(number uint64, why Cause) {
	if number != 0 && !slices.Contains(t.Stops, number) {
		t.Stops = append(t.Stops, number)
		t.do.Emit(Out{Stop: &Stop{Number: number, Cause: why}})
	}
}

// invoke accepts a new call, or answers an invocation of a known one.
func (t step) invoke(in *Invoke) (told Told) {
	if t.Move.Place.Leaving() {
		return Told{Refused: RefusedMoving}
	}
	if c := t.call(in.Call); c != nil {
		return t.again(c, in)
	}
	if f, ok := t.Done[in.Call.key()]; ok {
		return t.againFinished(f, in)
	}
	c := &Call{ID: in.Call, Inv: in.Inv, Print: in.Print, Epoch: in.Epoch, By: in.By, Phase: Running, Address: in.Inv.CallbackURL, Trace: in.Trace}
	if in.Barred {
		t.remember(c.ID.key(), Finished{Print: c.Print, Address: briefOf(c.Address)})
		return Told{}
	}
	t.Calls = append(t.Calls, c)
	t.said(c, false)
	if t.Move.Place == handover.Gone {
		c.Phase = Resolved
		t.put(c, t.errorResult(c.Inv, textMoved, "moved"))
	}
	return Told{}
}

// said reports that a call begins or has ended.
func (t step) said(c *Call, over bool) {
	if over {
		t.unask(c)
	}
	t.do.Emit(Out{Alive: &Alive{Name: t.place.name(c.ID), Over: over}})
}

// post handles an input from a function.
func (t step) post(p *Post) Told {
	c := t.call(p.Call)
	switch {
	case c == nil:
		return Told{Refused: RefusedOver}
	case p.Step != nil && c.Phase == Running:
		return c.keep(p.Step)
	case p.Recall && c.Phase == Running:
		return Told{Steps: slices.Clone(c.Steps)}
	case c.Phase == Resolved, (p.Event || p.Message == nil) && c.Phase != Subscribed:
		return Told{Refused: RefusedEnded}
	}
	if p.Credit.Epoch != c.Credit.Epoch || p.Credit.Messages > c.Credit.Messages { // two goroutines may overtake each other
		c.Credit = p.Credit
	}
	if p.Kept {
		c.State = p.State
	}
	if p.Message == nil {
		return Told{}
	}
	if p.Ask != nil {
		if len(c.Questions) < maxQuestions {
			c.Questions = append(c.Questions, *p.Ask)
		}
		t.do.Emit(Out{Asked: &Asked{t.place, c.ID, *p.Ask}})
	}
	if p.Message.Same != "" {
		for _, m := range c.Queue {
			if m.Same == p.Message.Same {
				m.Lost = p.Message.Lost
				return Told{}
			}
		}
	}
	m := *p.Message
	t.put(c, &m)
	if p.Final {
		c.Phase = Resolved
		t.stop(c.Run, CauseEnded)
		c.Run = 0
	}
	return Told{}
}

// keep stores a step. The first one with a name stays: a run that was given up may continue for a
// moment while the next one runs.
func (c *Call) keep(s *Step) Told {
	size := len(s.Name) + len(s.Data)
	for _, old := range c.Steps {
		if old.Name == s.Name {
			return Told{Known: true, Data: old.Data}
		}
		size += len(old.Name) + len(old.Data)
	}
	if len(c.Steps) >= maxSteps || size > maxStepBytes {
		return Told{Refused: RefusedSteps}
	}
	c.Steps = append(c.Steps, *s)
	return Told{}
}

// returned handles the outcome of a function or a producer.
func (t step) returned(j Job, o Outcome) {
	c := t.call(j.Call)
	if c == nil || c.Run != j.Number {
		return
	}
	c.Run = 0
	switch {
	case o.Suspended:
		c.By = cmp.Or(o.By, c.By)
	case c.Phase == Running && o.Result != nil:
		t.unask(c)
		c.Phase, c.Steps = Resolved, nil
		if o.Subscribe {
			c.Phase, c.State = Subscribed, o.State
		}
		m := *o.Result
		if len(m.Body) <= maxKept {
			c.Result = m.Body
		}
		t.put(c, &m)
	case c.Phase == Subscribed && o.Final != nil:
		c.Phase = Resolved
		m := *o.Final
		t.put(c, &m)
	}
}

// cancel ends calls whose messages are no longer wanted. A call that has posted its last message is
// not affected.
func (t step) cancel(in *Cancel) {
	known := false
	for _, c := range slices.Clone(t.Calls) {
		if c.ID.Group != in.Group || in.ID != "" && c.ID.ID != in.ID {
			continue
		}
		known = true
		if c.Phase != Resolved {
			t.finish(c)
		}
	}
	switch {
	case in.ID == "":
		t.revoke(in.Group)
		if in.Group == t.place.Session {
			t.giveBack()
		}
	case !known:
		t.do.Emit(Out{Bar: &Name{t.place.Runtime, in.Group, in.ID}})
	}
}

// finish ends a call. Its undelivered messages are not sent.
func (t step) finish(c *Call) {
	t.stop(c.Run, CauseCancelled)
	t.stop(c.Attempt, CauseCancelled)
	for _, m := range c.Queue {
		t.lose(m)
	}
	t.reportLoad(c, LoadOf{Runtime: c.ID.Runtime})
	t.said(c, true)
	i := slices.Index(t.Calls, c)
	t.Calls = slices.Delete(t.Calls, i, i+1)
	t.remember(c.ID.key(), Finished{Print: c.Print, Address: briefOf(c.Address), Result: c.Result})
}

// answer handles the answer to a question. The first answer counts.
func (t step) answer(in *UserAnswer) {
	if c := t.call(in.Call); c != nil {
		for i := range c.Questions {
			if q := &c.Questions[i]; q.ID == in.Question && q.Selected == nil {
				q.Selected, q.Values = &in.Selected, in.Values
			}
		}
	}
	t.do.Emit(Out{Answered: &Answered{ID: in.Question, Selected: in.Selected, Values: in.Values}})
}

// grant records that a thread is allowed something.
func (t step) grant(g Grant) {
	if slices.Contains(t.Grants, g) {
		return
	}
	if len(t.Grants) >= maxGrants {
		t.do.Emit(Out{Grant: &Granted{t.Grants[0], true}})
		t.Grants = slices.Delete(t.Grants, 0, 1)
	}
	t.Grants = append(t.Grants, g)
	t.do.Emit(Out{Grant: &Granted{Grant: g}})
}

// revoke ends the grants of a thread.
func (t step) revoke(thread string) {
	t.Grants = slices.DeleteFunc(t.Grants, func(g Grant) bool {
		if g.Thread == thread {
			t.do.Emit(Out{Grant: &Granted{g, true}})
		}
		return g.Thread == thread
	})
}

// Texts of results that the flow itself makes.
const (
	textMoved   = "the session has moved to another instance of this tool server; call that one"
	textOther   = "the id of this call is that of another call, with another operation, user or arguments"
	textNotKept = "the call has ended before, and its result is no longer kept"
)

// errorResult returns a message with an error result. What names its purpose, and is part of its id.
func (t step) errorResult(inv *agentproto.Invocation, text, what string) *Message {
	return t.result(agentproto.ErrorResult(inv.Key(), inv.CallID, "%s", text), what, inv.CallbackURL)
}

// result makes a message of a result that the flow itself sends. Its id is a digest of what, the
// session, the call and the time.
func (t step) result(r *agentproto.ToolResult, what ...string) *Message {
	body, err := agentproto.Encode(r)
	if err != nil {
		return nil // its members were decoded before, so they can be encoded
	}
	h := sha256.New()
	for _, w := range append(what, t.place.Runtime, t.place.Session, r.GroupID, r.ID, t.now.String()) {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(w))))
		h.Write([]byte(w))
	}
	return &Message{Kind: agentproto.TypeToolResult, ID: "msg_" + base32.StdEncoding.EncodeToString(h.Sum(nil)[:16])[:26], Body: body}
}
