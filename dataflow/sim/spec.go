package sim

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/simulate"
)

// A Spec says what a program should do. [Check] and [Test] explore its schedules.
//
// Build builds the flow and returns its ports, as in production. It is called once for each schedule,
// before the flow is started. Build and the functions of the flow must not depend on state that
// survives from one schedule to the next.
type Spec[P any] struct {
	Build func(*dataflow.Flow) P

	// Clients use the ports concurrently.
	Clients []Client[P]

	// Always must return nil before the first move and after every move. Eventually must return nil
	// when the flow is at rest. Both look at ports and change nothing; see [View].
	Always     map[string]func(*View, P) error
	Eventually map[string]func(*View, P) error

	// Sometimes must hold at the end of at least one schedule. It detects a specification that would
	// also hold for a program that does nothing. If one never holds, the error of the exploration is
	// [ErrVacuous].
	Sometimes map[string]func(*View, P) bool

	// Monitors read what clients do; each function makes one for a schedule. Linear says which
	// operations of clients are linearizable.
	Monitors map[string]func() Monitor
	Linear   []Linear

	// Faults may happen in each schedule. The start of the flow panics if a named location or link
	// does not exist, if a number is negative, or at another level than [Types].
	Faults Faults

	// Retries, if it is not 0, is how often records of a [dataflow.RetriedInput] come again in a
	// schedule, at most; see [Sim.Retry]. CallsShareNothing asserts what [Sim.CallsShareNothing]
	// asserts.
	Retries           int
	CallsShareNothing bool

	// Buffer and Queue are those of [dataflow.Options], if they are not 0; see [Sim.Buffer] and
	// [Sim.Queue].
	Buffer, Queue int

	// Level says how much else can happen.
	Level Level
}

// A Client uses the ports of a flow as code in production does. Its name is printed in
// counterexamples; the default is "client 1" and so on. No two clients may have the same name.
//
// Do runs until it uses a port. There it stops, and the next move is one of all possible moves: this
// or another client continues, a record is taken, and so on. Nothing else happens between two uses of
// ports. Do must wait only for ports, and must end in every schedule. The schedule fails if Do
// returns an error or panics. A client that waits for something that never comes receives [ErrQuiet]
// when nothing else can happen.
type Client[P any] struct {
	Name string
	Do   func(c *Ctx, p P) error
}

// A property is a property of a specification, without the type of its ports.
type property struct {
	name  string
	check func(*View) error
}

// A plan is a specification without the type of its ports.
type plan struct {
	named             string // identifies the specification
	clients           []string
	faults            Faults
	retries           int
	callsShareNothing bool // calls share nothing
	buffer            int
	queue             int
	build             func(*dataflow.Flow) instance
	level             Level
}

// An instance is a plan with the ports of one schedule.
type instance struct {
	clients    []func(*Ctx) error
	always     []property
	eventually []property
	sometimes  []property
	linear     []property
	monitors   []monitor
}

// errNot is returned for a Sometimes that does not hold in this schedule.
var errNot = fmt.Errorf("it does not hold")

// planOf returns the plan of a specification, or an error if the specification is invalid.
func planOf[P any](s Spec[P]) (*plan, error) {
	if s.Build == nil {
		return nil, fmt.Errorf("sim: the specification has no Build")
	}
	if s.Level > Engine {
		return nil, fmt.Errorf("sim: the specification has the level %d, which there is not", s.Level)
	}
	if s.Retries < 0 {
		return nil, fmt.Errorf("sim: the specification has %d retries: a record comes again some times, or never", s.Retries)
	}
	if s.Buffer < 0 || s.Queue < 0 {
		return nil, fmt.Errorf("sim: the specification has a buffer of %d and a queue of %d elements, and neither may be negative", s.Buffer, s.Queue)
	}
	p := &plan{faults: s.Faults, buffer: s.Buffer, queue: s.Queue, retries: s.Retries, callsShareNothing: s.CallsShareNothing, level: s.Level}
	for i, c := range s.Clients {
		name := c.Name
		if name == "" {
			name = fmt.Sprint("client ", i+1)
		}
		switch {
		case c.Do == nil:
			return nil, fmt.Errorf("sim: client %q of the specification has no Do", name)
		case slices.Contains(p.clients, name):
			return nil, fmt.Errorf("sim: two clients of the specification have the name %q", name)
		}
		p.clients = append(p.clients, name)
	}
	if err := given("Always", s.Always); err != nil {
		return nil, err
	}
	if err := given("Eventually", s.Eventually); err != nil {
		return nil, err
	}
	for name, f := range s.Sometimes {
		if f == nil {
			return nil, fmt.Errorf("sim: Sometimes %q of the specification is nil", name)
		}
	}
	for name, f := range s.Monitors {
		if f == nil {
			return nil, fmt.Errorf("sim: Monitor %q of the specification is nil", name)
		}
	}
	js, err := judges(s.Linear)
	if err != nil {
		return nil, err
	}
	p.named = fmt.Sprintf("%s with the clients %q, %d+%d+%d+%d properties and %d monitors, %+v, %+v",
		runtime.FuncForPC(reflect.ValueOf(s.Build).Pointer()).Name(), p.clients, len(s.Always), len(s.Eventually), len(s.Sometimes), len(s.Linear), len(s.Monitors),
		s.Faults, []any{s.Retries, s.CallsShareNothing, s.Buffer, s.Queue, s.Level})
	p.build = func(flow *dataflow.Flow) instance {
		x := s.instance(s.Build(flow))
		for _, j := range js {
			x.linear = append(x.linear, property{j.Name, j.check})
		}
		return x
	}
	return p, nil
}

// given returns an error for a property that is nil.
func given[P any](what string, all map[string]func(*View, P) error) error {
	for name, f := range all {
		if f == nil {
			return fmt.Errorf("sim: %s %q of the specification is nil", what, name)
		}
	}
	return nil
}

// instance binds the functions of a specification to the ports of a schedule.
func (s Spec[P]) instance(ports P) instance {
	var x instance
	for _, c := range s.Clients {
		x.clients = append(x.clients, func(ctx *Ctx) error { return c.Do(ctx, ports) })
	}
	bind := func(all map[string]func(*View, P) error) (bound []property) {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			f := all[name]
			bound = append(bound, property{name, func(v *View) error { return f(v, ports) }})
		}
		return bound
	}
	x.always, x.eventually = bind(s.Always), bind(s.Eventually)
	for _, name := range slices.Sorted(maps.Keys(s.Sometimes)) {
		f := s.Sometimes[name]
		x.sometimes = append(x.sometimes, property{name, func(v *View) error {
			if f(v, ports) {
				return nil
			}
			return errNot
		}})
	}
	x.monitors = monitors(s.Monitors)
	return x
}

// A subject is what is explored: a function that is called once for each schedule, or a
// specification.
type subject struct {
	ctx   context.Context
	f     func(*Sim)
	from  *dataflow.Recording // the run with which each schedule begins, or nil
	level Level
	plan  *plan           // of a specification, otherwise nil
	tally *tally          // counts what is explored; may be nil
	known *simulate.Known // what the search knew whose schedule is being shortened
}

// subject returns what is explored of a specification.
func (p *plan) subject(ctx context.Context) subject {
	return subject{ctx: ctx, plan: p, level: p.level}
}

// Objects outside the flow that stand for what properties look at.
const (
	visibleAt = -1000 // minus the number of a property: what the property looks at
	clientsAt = -3    // what clients have done
)

// visible is the object that a move writes if it changes what property number i looks at.
func visible(i int) engine.Object { return engine.Object{Location: int32(visibleAt - i)} }

// looksAt is the object that is marked as read if property number i looks at o.
func looksAt(i int, o engine.Object) engine.Object {
	x := engine.ChainDigest(engine.ChainDigest(uint64(uint32(o.Location)), uint64(uint32(o.Op))), o.Key)
	return engine.Object{Location: int32(visibleAt - i), Op: 1, Key: x}
}
