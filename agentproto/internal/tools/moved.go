package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	strict "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/form"
	"github.com/millrace/millrace/agentproto/internal/handover"
)

// A Moved is a session in transit. Times in it are ages, since two histories have no common clock.
type Moved struct {
	Version int         `json:"version"`
	Place   Place       `json:"place"`
	Calls   []MovedCall `json:"calls"`
	Done    []MovedKey  `json:"done"`
	Grants  []Grant     `json:"grants"`
}

// A MovedCall is an unfinished call.
type MovedCall struct {
	Runtime   string           `json:"runtime"`
	Inv       jsontext.Value   `json:"invocation"`
	Phase     Phase            `json:"phase"`
	Address   string           `json:"address"`
	Before    [][]byte         `json:"before"`
	Queue     []MovedMessage   `json:"queue"`
	Number    uint64           `json:"number"`
	State     []byte           `json:"state"`
	Questions []Question       `json:"questions"` // answered ones
	Steps     []Step           `json:"steps,omitempty"`
	Result    []byte           `json:"result"`
	Trace     agentproto.Trace `json:"trace,omitzero"`
}

// A MovedMessage is an undelivered message.
type MovedMessage struct {
	Kind   string `json:"kind"`
	ID     string `json:"id"`
	Body   []byte `json:"body"`
	Number uint64 `json:"number"`
	Age    int64  `json:"age"` // in nanoseconds
	Failed int    `json:"failed"`
	Wait   int64  `json:"wait"` // until the next attempt, in nanoseconds
}

// A MovedKey is a finished call, or a reply, that is remembered.
type MovedKey struct {
	Key     []byte `json:"key"`
	Print   []byte `json:"print"`
	Address []byte `json:"address"`
	Result  []byte `json:"result"`
	Age     int64  `json:"age"`
}

const movedVersion = 2

// export returns the whole session. Open questions stay behind, since their addresses are here: the
// function runs again at the destination and asks anew. Answered questions are included, so that nobody
// is asked twice.
func (t step) export() []byte {
	m := Moved{Version: movedVersion, Place: t.place, Grants: t.Grants}
	for _, c := range t.Calls {
		inv, err := agentproto.Encode(c.Inv)
		if err != nil {
			continue // it was decoded before, so it can be encoded
		}
		out := MovedCall{Runtime: c.ID.Runtime, Inv: inv, Phase: c.Phase, Address: c.Address, Number: c.Number,
			State: c.State, Questions: answered(c.Questions), Steps: c.Steps, Result: c.Result, Trace: c.Trace}
		for _, b := range c.Before {
			out.Before = append(out.Before, slices.Clone(b[:]))
		}
		for _, q := range c.Queue {
			if c.Phase == Running && (q.Kind == agentproto.TypeOAuth || q.Kind == agentproto.TypeUserChoice) {
				continue
			}
			out.Queue = append(out.Queue, MovedMessage{q.Kind, q.ID, q.Body, q.Number, int64(t.now - q.Posted), q.Failed, int64(max(0, q.Wake-t.now))})
		}
		m.Calls = append(m.Calls, out)
	}
	for _, a := range t.Order {
		f := t.Done[a.Key]
		m.Done = append(m.Done, MovedKey{slices.Clone(a.Key[:]), slices.Clone(f.Print[:]), slices.Clone(f.Address[:]), f.Result, int64(t.now - a.At)})
	}
	data, err := json.Marshal(m)
	if err != nil {
		return nil
	}
	return data
}

// ReadMoved decodes the result of an Export at another instance, and checks that all of it belongs to
// one session.
func ReadMoved(data []byte, of Place) (*Moved, error) {
	m := new(Moved)
	if err := strict.Unmarshal(data, m, jsontext.AllowDuplicateNames(false), strict.RejectUnknownMembers(true)); err != nil {
		return nil, errors.New("it is not a session")
	}
	switch {
	case m.Version != movedVersion:
		return nil, fmt.Errorf("its version is %d, not %d", m.Version, movedVersion)
	case m.Place != of:
		return nil, errors.New("it is of another session")
	}
	for _, c := range m.Calls {
		if err := c.check(of); err != nil {
			return nil, err
		}
	}
	for _, d := range m.Done {
		if len(d.Key) != len(Key{}) || len(d.Print) != len(Print{}) || len(d.Address) != len(brief{}) || len(d.Result) > maxKept || d.Age < 0 {
			return nil, errors.New("a finished call is not what it should be")
		}
	}
	if len(m.Grants) > maxGrants {
		return nil, errors.New("it has too many grants")
	}
	return m, nil
}

// check returns an error unless a call is complete, valid and of the session.
func (c *MovedCall) check(of Place) error {
	inv, err := c.invocation()
	switch {
	case err != nil:
		return errors.New("an invocation cannot be read")
	case PlaceOf(of.Runtime, inv) != of, of.Runtime != "" && c.Runtime != of.Runtime:
		return errors.New("a call is of another session")
	case len(c.Result) > maxKept:
		return errors.New("a call has a result that is too large")
	case c.Phase != Running && c.Phase != Subscribed && c.Phase != Resolved:
		return errors.New("a call is in no known phase")
	case len(c.Before) > maxAddresses, slices.ContainsFunc(c.Before, func(b []byte) bool { return len(b) != len(brief{}) }):
		return errors.New("a call has addresses that are none")
	case len(c.Questions) > maxQuestions, slices.ContainsFunc(c.Questions, func(q Question) bool { return q.Selected == nil || len(q.Values) > form.MaxBytes }):
		return errors.New("a question has no answer")
	case !stepsFit(c.Steps):
		return errors.New("a call has steps that are too many or too large")
	}
	for i, m := range c.Queue {
		msg, err := agentproto.DecodeCallback(bytes.Clone(m.Body), agentproto.Limits{Bytes: int64(len(m.Body)) + 1})
		switch {
		case err != nil || msg.Type() != m.Kind || msg.Key().GroupID != inv.GroupID || msg.Key().ID != inv.ID && m.Kind != agentproto.TypeViewUpdate:
			return errors.New("a message is not one of its call")
		case m.Number > c.Number || i > 0 && m.Number <= c.Queue[i-1].Number || m.Failed < 0 || m.Age < 0 || m.Wait < 0:
			return errors.New("a message has no place")
		}
	}
	return nil
}

// stepsFit reports whether the steps of a call are within its limits, and their names are distinct.
func stepsFit(steps []Step) bool {
	c := new(Call)
	for _, s := range steps {
		if told := c.keep(&s); told.Known || told.Refused != "" {
			return false
		}
	}
	return true
}

func (c *MovedCall) invocation() (*agentproto.Invocation, error) {
	return agentproto.DecodeInvocation(bytes.Clone(c.Inv), agentproto.Limits{Bytes: int64(len(c.Inv)) + 1})
}

// come adds a session that has arrived from another instance. Calls that are finished here are skipped,
// and the others replace those that are here. The transfer has decided before that the session is served
// here.
func (t step) come(m *Moved, transfer string) {
	if !t.Move.Place.Leaving() {
		t.Move = Move{State: handover.State{Transfer: transfer, Committed: true}, At: t.now}
	}
	for _, in := range m.Calls {
		inv, err := in.invocation()
		if err != nil {
			continue // ReadMoved has decoded it before
		}
		// The id of a question is derived from the epoch. At each stay the call needs another one, since its function asks again.
		c := &Call{ID: CallID{in.Runtime, inv.GroupID, inv.ID}, Inv: inv, Print: PrintOf(inv), Epoch: transfer, Phase: in.Phase, Address: in.Address,
			Number: in.Number, State: in.State, Questions: in.Questions, Steps: in.Steps, Result: in.Result, Trace: in.Trace}
		if _, known := t.Done[c.ID.key()]; known {
			continue
		}
		for _, b := range in.Before {
			c.Before = append(c.Before, brief(b))
		}
		for _, q := range in.Queue {
			c.Queue = append(c.Queue, &Message{Kind: q.Kind, ID: q.ID, Body: q.Body, Number: q.Number, Posted: t.now - time.Duration(q.Age), Failed: q.Failed, Wake: t.now + time.Duration(q.Wait)})
		}
		if old := t.call(c.ID); old != nil {
			t.stop(old.Run, CauseMoving)
			t.stop(old.Attempt, CauseMoving)
			t.unask(old)
			c.Told = old.Told
			t.Calls[slices.Index(t.Calls, old)] = c
			continue
		}
		if c.Phase == Resolved && len(c.Queue) == 0 {
			continue
		}
		t.Calls = append(t.Calls, c)
		t.said(c, false)
	}
	going := make(map[Key]bool) // they are remembered when they end
	for _, c := range t.Calls {
		going[c.ID.key()] = true
	}
	for _, d := range m.Done {
		if _, known := t.Done[Key(d.Key)]; !known && !going[Key(d.Key)] {
			t.remember(Key(d.Key), Finished{Print(d.Print), brief(d.Address), d.Result})
			t.Order[len(t.Order)-1].At = t.now - time.Duration(d.Age)
		}
	}
	slices.SortStableFunc(t.Order, func(a, b Aged) int { return int(min(1, max(-1, a.At-b.At))) })
	for _, g := range m.Grants {
		t.grant(g)
	}
}
