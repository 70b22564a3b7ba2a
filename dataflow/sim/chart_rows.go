package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/simulate"
)

// A row is a line of a chart: an action of a participant, alone or with another one.
type row struct {
	at   time.Duration
	who  int
	with int    // -1 if it is alone
	back bool   // with sends something back
	text string // the action
	port string // the port that is used
	bad  bool   // a property does not hold
}

// A chart records what happens in a schedule. The participants are the clients, followed by
// the locations.
type chart struct {
	clients []string
	places  []string
	clock   func() time.Duration
	rows    []row
	action  string // description of the current move
	who     int    // the participant that makes the move
}

// begin sets the participants.
func (t *chart) begin(clients []string, g *engine.Graph, clock func() time.Duration) {
	t.clients, t.clock = clients, clock
	for _, s := range g.Locations {
		t.places = append(t.places, s.Name)
	}
}

func (t *chart) add(r row) {
	r.at = t.clock()
	r.text = strings.Join(strings.Fields(r.text), " ") // on one line
	t.rows = append(t.rows, r)
}

// place returns the participant for a location.
func (t *chart) place(number int32) int { return len(t.clients) + int(number) }

// move records the move that is made next.
func (t *chart) move(m *simulate.Move) {
	if m.Kind == simulate.Acts {
		t.who, t.action = int(m.Op), m.String()
		return
	}
	t.who, t.action = t.place(m.Location), m.String()
	r := row{who: t.who, with: -1, text: m.String()}
	switch in := m.In(); {
	case in != nil:
		r.text = fmt.Sprintf("take %s from %s", m.Value(), portOf(in))
	case m.Cuts():
		r.text = "cut " + cutOf(m.Reasons(), m.String())
	}
	t.add(r)
}

// portOf returns the name of a port, or of the operator if it has none.
func portOf(op *engine.Op) string {
	if _, name, ok := strings.Cut(op.Name, " "); ok {
		return name
	}
	return op.String()
}

// cutOf says which slice is cut, by the operators that admit input to it.
func cutOf(reasons []*engine.Op, otherwise string) string {
	var all []string
	for _, op := range reasons {
		if s := fmt.Sprintf("%s %q", op.Pos, op.Why); !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		return strings.TrimPrefix(otherwise, "cut ")
	}
	return strings.Join(all, ", ")
}

// note records a choice that is not a move.
func (t *chart) note(text string) {
	if t.clock != nil && text != t.action {
		t.add(row{who: t.who, with: -1, text: text})
	}
}

// used records a client's use of a port.
func (t *chart) used(client int, u engine.Use) {
	r := row{who: client, with: t.place(int32(u.Op.Loc.Number)), port: portOf(u.Op), text: u.Do}
	if u.Key != nil && (u.Err == nil || u.Do != "take next") {
		r.text += " " + printedValue(u.Key)
	}
	switch u.Do {
	case "close":
	case "send", "put":
		if u.Key != nil {
			r.text += "="
		} else {
			r.text += " "
		}
		r.text += printedValue(u.Value)
	default:
		r.back = true
		switch {
		case u.Err == nil && u.OK:
			r.text += " = " + printedValue(u.Value)
		case u.Err == nil:
			r.text += ": nothing"
		}
		if u.Do == "has" {
			r.text = fmt.Sprintf("has %s = %v", printedValue(u.Key), u.OK)
		}
	}
	if u.Err != nil {
		r.text += ": " + u.Err.Error()
	}
	t.add(r)
}

// failed records that a property does not hold.
func (t *chart) failed(property string, err error) {
	t.add(row{who: 0, with: -1, text: fmt.Sprintf("%s: %v", property, err), bad: true})
}
