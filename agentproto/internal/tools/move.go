package tools

import (
	"slices"
	"time"
)

// A Move is what is known of a session that goes to another instance. The source goes through
// these phases:
//
//	Here    everything is as before
//	Frozen  no function runs and no message leaves; invocations are refused
//	Doubt   the destination has the state and was told to serve it, or will be
//	Away    the destination has said that it serves the session
//
// From Doubt on the destination decides: it has taken the session, or says that it never will.
type Move struct {
	Phase    MovePhase
	Transfer string // names the attempt
	URL      string // of the destination
	Endpoint string // of its manifest, which names the instance
	Job      uint64 // of Hold or Settle
	Waiting  []string
	At       time.Duration // of Away
}

// A MovePhase says how far a move is.
type MovePhase string

// The phases of a move.
const (
	Here   MovePhase = ""
	Frozen MovePhase = "frozen"
	Doubt  MovePhase = "doubt"
	Away   MovePhase = "away"
)

// A MoveOrder is one step of a move.
type MoveOrder struct {
	Do                      MoveStep
	Transfer, URL, Endpoint string
	Spare                   []string // tools whose functions are not to be interrupted, for Interrupt
}

// A MoveStep says what is to be done.
type MoveStep string

// The steps. The answer to Quiet comes when no job of a call is under
// way, and that to Await when the destination has decided.
const (
	Look      MoveStep = "look"
	Freeze    MoveStep = "freeze"
	Interrupt MoveStep = "interrupt"
	Quiet     MoveStep = "quiet"
	Export    MoveStep = "export"
	Leave     MoveStep = "leave"
	Await     MoveStep = "await"
	Thaw      MoveStep = "thaw"
)

// order takes a step of a move. One of another transfer than the one that is going on has
// no effect. Later says that the answer comes later.
func (t step) order(token string, o *MoveOrder) (told Told, later bool) {
	m := &t.Move
	mine := m.Transfer == o.Transfer
	switch {
	case o.Do == Freeze && m.Phase == Here:
		*m = Move{Phase: Frozen, Transfer: o.Transfer}
		m.Job = t.begin(Job{Kind: Hold, Move: *m})
		for _, c := range t.Calls {
			if c.Phase == Subscribed {
				t.stop(c.Run, CauseMoving)
			}
		}
	case o.Do == Interrupt && m.Phase == Frozen && mine:
		for _, c := range t.Calls {
			if !slices.Contains(o.Spare, c.Inv.Operation) {
				t.stop(c.Run, CauseMoving)
			}
			t.stop(c.Attempt, CauseMoving)
		}
	case o.Do == Quiet && m.Phase == Frozen && mine && !t.isQuiet(), o.Do == Await && m.Phase == Doubt && mine:
		m.Waiting = append(m.Waiting, token)
		return Told{}, true
	case o.Do == Export && m.Phase == Frozen && mine && t.isQuiet():
		told.Data = t.export()
	case o.Do == Leave && m.Phase == Frozen && mine && t.isQuiet():
		t.stop(m.Job, CauseOther)
		m.Phase, m.URL, m.Endpoint = Doubt, o.URL, o.Endpoint
		m.Job = t.begin(Job{Kind: Settle, Move: *m})
	case o.Do == Thaw && m.Phase == Frozen && mine:
		t.stop(m.Job, CauseOther)
		t.stay()
	}
	told.Phase, told.URL, told.Endpoint, told.Transfer = m.Phase, m.URL, m.Endpoint, m.Transfer
	told.Known = len(t.Calls)+len(t.Done)+len(t.Grants) > 0
	return told, false
}

// isQuiet reports whether no job of a call is under way.
func (t step) isQuiet() bool {
	return !slices.ContainsFunc(t.Calls, func(c *Call) bool { return c.Run != 0 || c.Attempt != 0 })
}

// quiet tells who waits for that.
func (t step) quiet() {
	if t.Move.Phase == Frozen && t.isQuiet() {
		t.answerAll()
	}
}

func (t step) answerAll() {
	for _, token := range t.Move.Waiting {
		t.do.Emit(Out{Token: token, Told: &Told{Phase: t.Move.Phase, URL: t.Move.URL}})
	}
	t.Move.Waiting = nil
}

// stay goes on with a session that was to move.
func (t step) stay() {
	t.Move.Phase = Here
	t.answerAll()
	t.Move = Move{}
}

// moved takes the outcome of the job that belongs to a phase: nobody moves the session any
// longer, or the destination has decided.
func (t step) moved(j Job, o Outcome) {
	m := &t.Move
	if m.Job != j.Number {
		return
	}
	m.Job = 0
	switch {
	case m.Phase == Frozen, m.Phase == Doubt && !o.Committed:
		t.stay()
	case m.Phase == Doubt:
		t.clear()
		*m = Move{Phase: Away, URL: m.URL, Waiting: m.Waiting, At: t.now}
		t.answerAll()
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
	t.Calls, t.Grants = nil, nil
	t.Done, t.Order, t.Results = make(map[Key]Finished), nil, 0
}
