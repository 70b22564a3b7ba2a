package simulate

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/millrace/millrace/internal/engine"
)

// Faults limits how many faults of each kind may happen in a simulation. By default none does. What becomes of a message is
// chosen when it is taken. Every other fault is a move, which is offered only where it makes a difference.
type Faults struct {
	Lose, Repeat, Delay int      // messages between locations
	Isolations          int      // a location is cut off from all others, and later reconnected
	Halts               int      // a location stops forever
	Crashes             int      // a location crashes and continues with everything that it has kept
	LostAcks            int      // a caller does not learn whether its record was accepted
	Links               []string // whose messages are lost, repeated and delayed; nil means all
	Locations           []string // that are isolated, halt, crash and lose acknowledgements; nil means all
}

// Moves that are faults, or the end of one.
const (
	Isolates Kind = iota + Resumes + 1 // a location is cut off from all others
	Heals                              // a location is no longer cut off
	Halts                              // a location stops forever
	Crashes                            // a location crashes and continues
)

// ErrHalted is the error of a caller that uses a location that has stopped forever.
var ErrHalted = errors.New("dataflow: the location has stopped for ever, as its simulation chose")

// faults is the state of the faults of a simulation.
type faults struct {
	left     Faults
	any      bool // there were some at the start
	halts    bool // some of them halt locations
	isolates bool // some isolate locations
	crashes  bool // some crash locations

	edges  map[*engine.Op]*engine.Edge // by the operator of the receiving end
	faulty map[*engine.Op]bool         // those of edges whose messages are lost, repeated and delayed
	copies map[engine.Object]bool      // lanes whose first message is a copy
	delays map[engine.Object]uint64    // how many messages of a lane were delayed
	late   []*delayedMessage
	at     []locationFaults // by location
}

// locationFaults is the state of the faults of a location.
type locationFaults struct {
	possible bool // faults may happen to it
	linked   bool // it has links
	isolated bool
	lost     int // messages lost since it is isolated
	halted   bool
	calls    []madeCall
}

// A fate is what becomes of a message.
type fate int

const (
	arrived fate = iota
	lost
	repeated
	delayed
)

// Inject makes faults happen in a simulation that was not started. It panics if a number is negative. The start of the simulation
// panics if the graph has no such link or location.
func (d *Simulation) Inject(f Faults) {
	if d.g.Begun() {
		engine.Misuse("sim.Faults", "the flow has been started: say before what faults there are")
	}
	for _, n := range []int{f.Lose, f.Repeat, f.Delay, f.Isolations, f.Halts, f.Crashes, f.LostAcks} {
		if n < 0 {
			engine.Misuse("sim.Faults", "there cannot be %d faults of a kind", n)
		}
	}
	none := f
	none.Links, none.Locations = nil, nil
	d.faults = faults{left: f, any: !reflect.ValueOf(none).IsZero(), halts: f.Halts > 0, isolates: f.Isolations > 0, crashes: f.Crashes > 0}
}

// findFaults finds where faults happen, once the graph is complete.
func (d *Simulation) findFaults(g *engine.Graph) {
	f := &d.faults
	if !f.any {
		return
	}
	if d.level == Engine {
		engine.Misuse("sim.Faults", "faults are explored at level Types, which has all that the engine can do and more")
	}
	f.edges, f.faulty = make(map[*engine.Op]*engine.Edge), make(map[*engine.Op]bool)
	f.copies, f.delays = make(map[engine.Object]bool), make(map[engine.Object]uint64)
	f.at = make([]locationFaults, len(g.Locations))
	used := make(map[string]bool)
	for _, s := range g.Locations {
		f.at[s.Number].possible = len(f.left.Locations) == 0
		for _, name := range f.left.Locations {
			if named(s, name) {
				f.at[s.Number].possible, used[name] = true, true
			}
		}
		for _, out := range s.OutputsInOrder {
			if x, ok := out.(engine.Delivery); ok && x.Exchange() != nil {
				f.addEdge(x.Operator(), x.Exchange(), used)
			}
		}
	}
	for _, name := range append(f.left.Locations, f.left.Links...) {
		if !used[name] {
			engine.Misuse("sim.Faults", "there is no location and no link %q: there are %s", name, f.places(g))
		}
	}
}

// addEdge adds the link whose messages enter at op.
func (f *faults) addEdge(op *engine.Op, l *engine.Edge, used map[string]bool) {
	f.edges[op] = l
	f.at[l.From.Number].linked, f.at[l.To.Number].linked = true, true
	faulty := len(f.left.Links) == 0
	for _, name := range f.left.Links {
		from, to, _ := strings.Cut(name, "→")
		if named(l.From, from) && named(l.To, to) {
			faulty, used[name] = true, true
		}
	}
	if !faulty || f.left.Lose+f.left.Repeat+f.left.Delay == 0 {
		return
	}
	if op.Forgets {
		engine.Misuse("sim.Faults", "%s moves entries that are forgotten, which no link may lose, repeat or delay: leave %s→%s out of Links", op, l.From.Name, l.To.Name)
	}
	f.faulty[op] = true
}

// named reports whether a location has a name, or is one of the members with that name.
func named(s *engine.Location, name string) bool {
	return s.Name == name || strings.HasPrefix(s.Name, name+" ")
}

// places lists the locations and links to which faults can happen.
func (f *faults) places(g *engine.Graph) string {
	var all []string
	for _, s := range g.Locations {
		all = append(all, fmt.Sprintf("%q", s.Name))
		for _, out := range s.OutputsInOrder {
			if l := f.edges[out.Operator()]; l != nil && l.From == s {
				all = append(all, fmt.Sprintf("%q", l.From.Name+"→"+l.To.Name))
			}
		}
	}
	return strings.Join(all, ", ")
}

// Parts of the state of a location to which faults happen.
const (
	life = -1<<30 + 1 + iota // whether it has halted
	wire                     // whether it is isolated
	made                     // the calls whose answers are not kept
)

func of(s *engine.Location, part int32) engine.Object {
	return engine.Object{Location: int32(s.Number), Op: part}
}

// uses records that the current move is one that the location, or a caller at it, cannot make after the location has halted.
func (d *Simulation) uses(s *engine.Location) {
	if d.faults.halts {
		d.footprint.touch(of(s, life), engine.Reads)
	}
}

func (f *faults) hasHalted(s *engine.Location) bool { return f.halts && f.at[s.Number].halted }

// fate chooses what becomes of the message that is taken. Using up one of the allowed faults is not a conflict between two moves:
// whichever of two messages is taken first, the same ones can be lost.
func (d *Simulation) fate(m *Move) (what fate) {
	f, op := &d.faults, m.in.Base().Op
	l := f.edges[op]
	if l == nil {
		return arrived
	}
	if f.isolates {
		for _, end := range []*engine.Location{l.From, l.To} {
			d.footprint.touch(of(end, wire), engine.Reads)
			if at := &f.at[end.Number]; at.isolated {
				at.lost++
				what = lost
			}
		}
	}
	lane := op.Lane(m.ID)
	if what == arrived && f.faulty[op] && m.delayed == nil {
		can := []fate{arrived}
		if f.left.Lose > 0 && !f.copies[lane] { // a lost copy is no fault
			can = append(can, lost)
		}
		if f.left.Repeat > 0 && !op.Once {
			can = append(can, repeated)
		}
		if f.left.Delay > 0 && !op.Shuffled && !op.Once {
			can = append(can, delayed)
		}
		if len(can) > 1 {
			what = can[d.choose.Choose(len(can))]
		}
		switch what {
		case lost:
			f.left.Lose--
		case repeated:
			f.left.Repeat--
		case delayed:
			f.left.Delay--
		}
	}
	if what == repeated {
		f.copies[lane] = true
	} else {
		delete(f.copies, lane)
	}
	if what != arrived {
		d.g.Note(func() string { return fates[what] + " on the way from " + l.From.Name + " to " + l.To.Name })
	}
	return what
}

var fates = [...]string{lost: "it is lost", repeated: "it comes again: it is repeated", delayed: "it is delayed"}
