package tools

import (
	"slices"
	"time"

	"github.com/millrace/millrace/agentproto/internal/handover"
)

// A Move is the state of a session's moves to and from other instances. While the session is leaving, no function runs, no
// message is sent, and invocations are refused.
type Move struct {
	handover.State
	URL      string // of the destination
	Endpoint string // of its manifest; identifies the instance
	Job      uint64 // the job of kind Hold or Settle
	Waiting  []string
	At       time.Duration // when the last transfer ended
}

// A MoveOrder is one step of a transfer from here, or, if Step is zero, an inquiry.
type MoveOrder struct {
	Step                    handover.Step
	Do                      Inquiry
	Transfer, URL, Endpoint string
	Spare                   []string // tools whose functions must not be interrupted; of Interrupt
}

// An Inquiry is a request about a session that moves.
type Inquiry string

// The inquiries. Quiet is answered when no job of a call is in progress, and Await when the destination has decided.
const (
	Look      Inquiry = "look"
	Interrupt Inquiry = "interrupt"
	Quiet     Inquiry = "quiet"
	Export    Inquiry = "export"
	Await     Inquiry = "await"
)

// order handles a step of a move, or an inquiry. A step that is not allowed has no effect; the place in the answer shows that.
// Later says that the answer is sent later.
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

// leave does what follows from a step of a transfer from here.
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

// over ends a transfer from here: the session stays, or has gone.
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

// isQuiet reports whether no job of a call is in progress.
func (t step) isQuiet() bool {
	return !slices.ContainsFunc(t.Calls, func(c *Call) bool { return c.Run != 0 || c.Attempt != 0 })
}

// quiet answers the waiting Quiet inquiries once that is so.
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

// moved handles the outcome of a Hold or Settle job: nobody moves the session any longer, or the destination has decided.
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

// clear removes the calls of a session that is served elsewhere, and everything that it remembers.
func (t step) clear() {
	for _, c := range t.Calls {
		t.stop(c.Run, CauseMoving)
		t.stop(c.Attempt, CauseMoving)
		t.reportLoad(c, LoadOf{Runtime: c.ID.Runtime})
		t.said(c, true)
	}
	for _, g := range t.Grants {
		t.do.Emit(Out{Grant: &Granted{g, true}})
	}
	t.giveBack()
	t.Calls, t.Grants = nil, nil
	t.Done, t.Order, t.Results = make(map[Key]Finished), nil, 0
}
