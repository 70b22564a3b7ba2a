package tools

import (
	"slices"
	"time"

	"github.com/millrace/millrace/agentproto/internal/handover"
)

// A Move is what is known of a session that goes to another instance, or has gone or come. While it is leaving, no function runs
// and no message leaves; invocations are refused.
type Move struct {
	handover.State
	URL      string // of the destination
	Endpoint string // of its manifest, which names the instance
	Job      uint64 // of Hold or Settle
	Waiting  []string
	At       time.Duration // when the last transfer was over
}

// A MoveOrder is one step of a transfer from here, or, where Step is zero, something that has to do with one.
type MoveOrder struct {
	Step                    handover.Step
	Do                      Inquiry
	Transfer, URL, Endpoint string
	Spare                   []string // tools whose functions are not to be interrupted, for Interrupt
}

// An Inquiry is what is asked of a session that moves.
type Inquiry string

// The inquiries. The answer to Quiet comes when no job of a call is under
// way, and that to Await when the destination has decided.
const (
	Look      Inquiry = "look"
	Interrupt Inquiry = "interrupt"
	Quiet     Inquiry = "quiet"
	Export    Inquiry = "export"
	Await     Inquiry = "await"
)

// order takes a step of a move. One that cannot be made has no effect, which the place in the answer says.
// Later says that the answer comes later.
func (t step) order(token string, o *MoveOrder) (told Told, later bool) {
	m := &t.Move
	mine := m.Transfer == o.Transfer
	switch frozen := m.Place == handover.Frozen && mine; {
	case o.Step == handover.Send && !t.isQuiet():
	case o.Step != 0:
		if changed, _ := m.Take(o.Step, o.Transfer); changed {
			t.leave(o)
		}
	case o.Do == Interrupt && frozen:
		for _, c := range t.Calls {
			if !slices.Contains(o.Spare, c.Inv.Operation) {
				t.stop(c.Run, CauseMoving)
			}
			t.stop(c.Attempt, CauseMoving)
		}
	case o.Do == Quiet && frozen && !t.isQuiet(), o.Do == Await && m.Place == handover.Doubt && mine:
		m.Waiting = append(m.Waiting, token)
		return Told{}, true
	case o.Do == Export && frozen && t.isQuiet():
		told.Data = t.export()
	}
	told.Move, told.URL, told.Endpoint = m.State, m.URL, m.Endpoint
	told.Known = len(t.Calls)+len(t.Done)+len(t.Grants) > 0
	return told, false
}

// leave does what belongs to a step of a transfer from here that was made.
func (t step) leave(o *MoveOrder) {
	m := &t.Move
	t.stop(m.Job, CauseOther)
	m.Job = 0
	switch m.Place {
	case handover.Frozen:
		m.URL, m.Endpoint = "", ""
		m.Job = t.begin(Job{Kind: Hold, Move: *m})
		for _, c := range t.Calls {
			if c.Phase == Subscribed {
				t.stop(c.Run, CauseMoving)
			}
		}
	case handover.Doubt:
		m.URL, m.Endpoint = o.URL, o.Endpoint
		m.Job = t.begin(Job{Kind: Settle, Move: *m})
	default:
		t.over()
	}
}

// over ends a transfer from here: the session stays, or is elsewhere.
func (t step) over() {
	m := &t.Move
	if m.Place == handover.Gone {
		t.clear()
	} else {
		m.URL, m.Endpoint = "", ""
	}
	m.At = t.now
	t.answerAll()
}

// isQuiet reports whether no job of a call is under way.
func (t step) isQuiet() bool {
	return !slices.ContainsFunc(t.Calls, func(c *Call) bool { return c.Run != 0 || c.Attempt != 0 })
}

// quiet tells who waits for that.
func (t step) quiet() {
	if t.Move.Place == handover.Frozen && t.isQuiet() {
		t.answerAll()
	}
}

func (t step) answerAll() {
	for _, token := range t.Move.Waiting {
		t.do.Emit(Out{Token: token, Told: &Told{Move: t.Move.State, URL: t.Move.URL}})
	}
	t.Move.Waiting = nil
}

// moved takes the outcome of the job that belongs to a place: nobody moves the session any
// longer, or the destination has decided.
func (t step) moved(j Job, o Outcome) {
	m := &t.Move
	if m.Job != j.Number {
		return
	}
	m.Job = 0
	step := handover.Abort
	if o.Committed {
		step = handover.Commit
	}
	if changed, _ := m.Take(step, m.Transfer); changed {
		t.over()
	}
}

// clear forgets the calls of a session that is served elsewhere, and what it remembers.
func (t step) clear() {
	for _, c := range t.Calls {
		t.stop(c.Run, CauseMoving)
		t.stop(c.Attempt, CauseMoving)
		t.tell(c, LoadOf{Runtime: c.ID.Runtime})
		t.said(c, true)
	}
	for _, g := range t.Grants {
		t.do.Emit(Out{Grant: &Granted{g, true}})
	}
	t.giveBack()
	t.Calls, t.Grants = nil, nil
	t.Done, t.Order, t.Results = make(map[Key]Finished), nil, 0
}
