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

// A Spec says what a program is for. [Check] and [Test] go through its schedules.
//
// Build builds the flow and returns its ports, as it does in production. It is called once
// for each schedule, before the flow is started. It and the functions of the flow must not
// depend on state that survives from one schedule to the next.
type Spec[P any] struct {
	Build func(*dataflow.Flow) P

	// Clients use the ports beside each other.
	Clients []Client[P]

	// Always must return nil before the first move and after every move. Eventually must return
	// nil when the flow is at rest. Both look at ports and change nothing; see [View].
	Always     map[string]func(*View, P) error
	Eventually map[string]func(*View, P) error

	// Sometimes must hold at the end of at least one schedule. It is for a specification that
	// would hold of a program that does nothing. If one never holds, the error of the
	// exploration is [ErrVacuous].
	Sometimes map[string]func(*View, P) bool

	// Monitors read what clients do; each function makes one for a schedule. Linear says which
	// operations of clients are linearizable.
	Monitors map[string]func() Monitor
	Linear   []Linear

	// Faults may happen in each schedule. They are as wrong as Build is if there is no location or
	// link of a name, if a number is negative, or at another level than [Types]: the start panics.
	Faults Faults

	// Retries is how often records of a [dataflow.RetriedInput] come again in a schedule, at most, if
	// it is not 0; see [Sim.Retry]. CallsShareNothing is what [Sim.CallsShareNothing] says.
	Retries           int
	CallsShareNothing bool

	// Buffer and Queue are those of [dataflow.Options], if they are not 0; see [Sim.Buffer] and
	// [Sim.Queue].
	Buffer, Queue int

	// Level says how much else can happen.
	Level Level
}

// A Client uses the ports of a flow as code in production does. Its name is what counterexamples
// print; it is "client 1" if it has none. No two clients have the same name.
//
// Do runs until it uses a port. There it stops, and what happens next is one of all moves that
// are possible: this or another client goes on, a record is taken, and so on. Between two uses
// of ports nothing else happens. Do must wait for nothing else than ports, and ends in every
// schedule. The schedule fails if Do returns an error or panics. A client that waits for
// something that never comes is given [ErrQuiet] when nothing else can happen.
type Client[P any] struct {
	Name string
	Do   func(c *Ctx, p P) error
}

// A property is one of a specification, without the type of its ports.
type property struct {
	name  string
	check func(*View) error
}

// A plan is a specification without the type of its ports.
type plan struct {
	named   string // what tells it from other ones
	clients []string
	faults  Faults
	retries int
	apart   bool // calls share nothing
	buffer  int
	queue   int
	build   func(*dataflow.Flow) instance
	level   Level
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

// errNot is returned by what holds in this schedule not.
var errNot = fmt.Errorf("it does not hold")

// planOf returns the plan of a specification, or what is wrong with it.
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
	p := &plan{faults: s.Faults, buffer: s.Buffer, queue: s.Queue, retries: s.Retries, apart: s.CallsShareNothing, level: s.Level}
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

// instance gives the functions of a specification their ports.
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
	plan  *plan           // of a specification, else nil
	tally *tally          // counts what is explored, unless nil
	known *simulate.Known // what the search knew whose schedule is made shorter
}

// subject returns what is explored of a specification.
func (p *plan) subject(ctx context.Context) subject {
	return subject{ctx: ctx, plan: p, level: p.level}
}

// objects that stand for what properties look at, beside those of the flow.
const (
	visibleAt = -1000 // minus the number of a property: what it looks at
	clientsAt = -3    // what clients have done
)

// visible is what moves write that change what property number i looks at.
func visible(i int) engine.Object { return engine.Object{Location: int32(visibleAt - i)} }

// looksAt is a member of what is read if property number i looks at o.
func looksAt(i int, o engine.Object) engine.Object {
	x := engine.ChainDigest(engine.ChainDigest(uint64(uint32(o.Location)), uint64(uint32(o.Op))), o.Key)
	return engine.Object{Location: int32(visibleAt - i), Op: 1, Key: x}
}
