package engine

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/millrace/millrace/internal/engine/callsite"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/mark"
	"github.com/millrace/millrace/internal/keyed"
)

// Number returns the number of op among those of its location.
func (op *Op) Number() int { return int(op.Index) }

// The data from which a graph is drawn is recorded while a flow is built. The operator being built is the one that was made last,
// or taken up again with Again. A node that is made meanwhile is its output; a node that gets a consumer, or whose head is read,
// is its input. So operators need not declare anything, and none of this is used at run time.

// Again resumes the building of an operator after others have been made.
func (op *Op) Again() { op.Loc.Making = op }

// Reads records that the operator being built has an input with head h.
func (s *Location) Reads(h *Head) {
	to, from := s.Making, h.Op
	if to == nil {
		return
	}
	to.within(h.Region)
	if from != nil && from != to && !slices.Contains(to.Ins, from) {
		to.Ins = append(to.Ins, from)
	}
}

// makes records that a node with head h is an output of the operator being built.
func (s *Location) makes(h *Head) {
	h.Op = s.Making
	if h.Op != nil {
		h.Op.within(h.Region)
	}
}

// within records that op reads or gives something in r. An operator that lets something into or out of a slice belongs to the
// slice.
func (op *Op) within(r *Region) {
	if r != nil && r.Name != "" {
		op.region = r
	}
}

// passes makes op, which changes nothing, the operator that h comes from.
func (op *Op) passes(h *Head) {
	op.Again()
	op.Loc.Reads(h)
	h.Op = op
}

// Pass returns in as the output of op, for an operator that only changes a type. It costs nothing: consumers of the result are
// consumers of in.
func Pass[T any](in *Node[T], op *Op) *Node[T] {
	out := *in
	out.same = in.Origin()
	op.passes(&out.Head)
	op.Loc.enters(out.same.Counter())
	return &out
}

// KPass is Pass for a keyed node.
func KPass[K comparable, V any](in *KeyedNode[K, V], op *Op) *KeyedNode[K, V] {
	out := *in
	out.same = in.Origin()
	op.passes(&out.Head)
	op.Loc.enters(out.same.Counter())
	return &out
}

// Inputs returns the operators whose outputs op reads, in the order in which they were given to it. An operator that was
// constructed later than op is feedback.
func (op *Op) Inputs() (all []*Op) {
	for _, x := range op.Ins {
		if x.loose != nil { // no program has made it
			all = append(all, x.Inputs()...)
		} else {
			all = append(all, x)
		}
	}
	return all
}

// Slice returns the slice to which op belongs, or nil.
func (op *Op) Slice() *Region { return op.region }

// Slices returns the slices of the location in order of construction.
func (s *Location) Slices() []*Region {
	return slices.SortedFunc(slices.Values(s.Regions), func(a, b *Region) int { return a.id - b.id })
}

// Pos returns file:line of the call that made the slice.
func (r *Region) Pos() string { return r.pos }

// ErrUnhashable says that a value cannot be a key because it cannot be hashed.
var ErrUnhashable = keyed.ErrUnhashable

// A BadKey says that a value cannot be a key. A caller that gave it to a port gets it as an error; an operator whose function
// made it panics with it, which ends the flow.
type BadKey struct {
	Op    *Op
	Key   any
	Why   error
	Index int // in the batch that was sent, or -1
}

// BadKey returns the public error for a value that was given to op.
func (op *Op) BadKey(k any, why error) error { return op.BadKeyAt(-1, k, why) }

// BadKeyAt is BadKey for the value with index i of a batch.
func (op *Op) BadKeyAt(i int, k any, why error) error {
	return op.Loc.Graph.Settings.BadKey(&BadKey{op, k, why, i})
}

// MadeKeys returns a function that replaces what a function of op made by the keys for it; see [keyed.CheckOf]. It panics at the
// first value that cannot be a key. It is nil if all values of K are keys.
func MadeKeys[K comparable](op *Op) func([]K) {
	check := keyed.CheckOf[K]()
	if check == nil {
		return nil
	}
	return func(ks []K) {
		for i, k := range ks {
			var err error
			if ks[i], err = check(k); err != nil {
				op.Enter()
				panic(op.BadKey(k, err))
			}
		}
	}
}

// CheckMade applies a check from MadeKeys to one value, and returns the key for it.
func CheckMade[K comparable](check func([]K), k K) K {
	one := []K{k}
	check(one)
	return one[0]
}

// Survives returns why an entry of a history that is kept outside would not be found under k, or nil. k has to come back
// unchanged from its encoding.
func Survives[K comparable](c codec.Codec, k K, encoded []byte) error {
	var back K
	if err := c.Decode(encoded, &back); err != nil {
		return fmt.Errorf("it cannot be decoded: %w", err)
	}
	if back != k {
		hint := ""
		if _, ok := any(k).(time.Time); ok {
			hint = ": use its UTC, since neither the name of a zone nor a monotonic clock reading is encoded"
		}
		return fmt.Errorf("it is not equal to what comes back from its encoding, %v, so nothing is ever found under it%s", back, hint)
	}
	return nil
}

// An Op is one operator of a flow, as errors, traces and graphs name it.
type Op struct {
	Name string // package and function, such as "keyedstream.Fold"
	Pos  string // file:line of the call that made it
	Why  string // the reason given, for operators that take one

	// Proof is what the builder of the flow vouched for, for operators that require it.
	Proof string

	Loc      *Location
	Ins      []*Op                                                        // what it reads; see operator.go
	outs     []*Op                                                        // what reads it, here and elsewhere; in a simulated graph
	feeds    []*Op                                                        // the operators whose nodes it consumes, once for each node; in a simulated graph
	joins    bool                                                         // something reaches it in two ways within one step, and that can be observed; in a simulated graph
	Label    string                                                       // the name it was given or, for a port, its kind and name, such as "input votes"; otherwise empty
	Place    func(c codec.Codec, key []byte) (affinity string, err error) // returns what an encoded key is placed by; nil if that is the key itself
	Placed   reflect.Type                                                 // by whose encoding it places keys in a divided location; nil if by their affinity
	Types    []reflect.Type                                               // of the values that it encodes, if the history is kept outside
	named    bool                                                         // Label was given by [Op.Named]
	region   *Region                                                      // the slice it belongs to
	Index    int32
	clock    bool           // it reads the time
	loose    *loosening     // set where its type gives up an order; see order.go
	Ordered  bool           // it observes the order in which records come or, with keys, those of each key
	Shuffled bool           // what it moves may come in any order or, with keys, in any order within each key
	Once     bool           // it moves entries, and a repeated entry changes nothing
	Forgets  bool           // it moves entries that can be forgotten, and the forgetting
	Mixed    bool           // it has keys, but observes the order across them
	rekeys   bool           // it reads something without keys, or gives other keys
	clocked  bool           // what it does depends on the time, or changes timers; in a simulated graph
	Later    bool           // what it gives comes as a record of a later step
	At       int            // element being worked on, kept by keyed operators
	Key      func() any     // its key; nil for operators without keys
	States   []State        // what it remembers; see state.go
	empty    []any          // pointers to variables that are of no use, and empty, between steps; in a graph under test
	unread   []any          // pointers to variables that are of no use between steps; in a graph under test
	enters   []*counter     // counters of what it reads, if the graph counts
	owns     []*mark.Mark   // marks of the events that it gives, if they are its own
	follows  []*mark.Mark   // marks of the events that come to it, if it reads them
	stack    callsite.Stack // the calls that built it; nil in a simulation
}

// NewOp adds an operator to the location s.
func NewOp(s *Location, name, why string) *Op {
	if s.Graph.Begun() {
		Misuse(name, "the flow has been started, nothing can be added to it")
	}
	op := &Op{Name: name, Pos: callsite.Caller(), Why: why, Loc: s, Index: int32(len(s.Ops))}
	if !s.Simulated() { // a simulation builds one flow thousands of times, and its stacks are not read
		op.stack = callsite.Here()
	}
	s.Ops = append(s.Ops, op)
	op.Again()
	return op
}

// label gives op a label that no other operator of its location has.
func (op *Op) label(by, name string) {
	s := op.Loc
	if other := s.labels[name]; other != nil && other != op {
		Misuse(by, "%s, at %s, is %q at %s already: inputs, outputs and named operators of a location have names of their own", other.Name, other.Pos, name, s.Name)
	}
	if s.labels == nil {
		s.labels = make(map[string]*Op)
	}
	delete(s.labels, op.Label)
	s.labels[name], op.Label = op, name
}

// portLabel labels the operator of a port with the port's name, which follows the name of the function that made it. Only a kept
// history identifies ports by name, so without one two ports may share a name.
func (op *Op) portLabel(kind string) {
	if _, name, ok := strings.Cut(op.Name, " "); ok && op.Label == "" && op.Loc.Graph.Settings.Codec != nil {
		if strings.ContainsFunc(name, unicode.IsControl) {
			name = strconv.Quote(name)
		}
		op.label(op.Name, kind+" "+name)
	}
}

// label matches names that a program may give to operators.
var label = regexp.MustCompile(`^[a-z0-9_.-]{1,64}$`)

// Named gives the operator of a collection or port the name by which a history identifies it. For what is sent to another
// location, it names both ends.
func (op *Op) Named(by, name string) {
	switch {
	case !label.MatchString(name):
		Misuse(by, "%q, given at %s, is no name of an operator: it has 1 to 64 of the characters a-z, 0-9, '_', '.' and '-'", name, callsite.Caller())
	case op.Loc.Graph.Begun():
		Misuse(by, "the flow has been started, nothing in it can be named")
	case op.named:
		Misuse(by, "%s has the name %q already, and cannot be named %q at %s", op, op.Label, name, callsite.Caller())
	}
	op.label(by, name)
	op.named = true
	for _, from := range op.Ins {
		if from.Loc != op.Loc && from.Name == op.Name {
			from.label(by, name)
		}
	}
}

// GivenName returns the name that op was given by [Op.Named], or "".
func (op *Op) GivenName() string {
	if op.named {
		return op.Label
	}
	return ""
}

// Enter marks op as the operator that is running user code, so that an error can name it.
func (op *Op) Enter() { op.Loc.At = op.Index }

// A Panic says that a function given to an operator panicked.
type Panic struct {
	Op       *Op
	Location string
	Key      any // the key being worked on, if HasKey
	HasKey   bool
	Value    any // what it panicked with
	Stack    []byte
}

func (p *Panic) Error() string { return fmt.Sprintf("%s at %s: %v", p.Op.Name, p.Op.Pos, p.Value) }

// Reasoned is NewOp for an operator that takes a reason.
func Reasoned(s *Location, name, why string) *Op {
	if strings.TrimSpace(why) == "" {
		Misuse(name, "what depends on timing needs a reason: say why the result does not, or why it may")
	}
	return NewOp(s, name, why)
}

// Proved is NewOp for an operator whose result is right only if its function has a
// property that the compiler cannot see.
func Proved(s *Location, name, proof string) *Op {
	if strings.TrimSpace(proof) == "" {
		Misuse(name, "what the compiler cannot see needs a proof: say why the function has the property that is asked for")
	}
	op := NewOp(s, name, "")
	op.Proof = proof
	return op
}

// Misuse panics because a program is wrong before it has run. The message has the form "package: operator: what".
func Misuse(op, format string, args ...any) {
	panic(strings.Replace(op, ".", ": ", 1) + ": " + fmt.Sprintf(format, args...))
}

// Given panics if one of the functions given to op is nil.
func Given(op string, functions ...any) {
	for _, f := range functions {
		if v := reflect.ValueOf(f); !v.IsValid() || v.IsNil() {
			Misuse(op, "the function given at %s is nil: it is a %T", callsite.Caller(), f)
		}
	}
}

// NilContext panics because op, a method of a port or a function, was called without a context.
func NilContext(op string) {
	Misuse(op, "the context given at %s is nil: use context.Background if nothing ends the wait", callsite.Caller())
}

// SameLength panics unless op, a method of a port, was given as many values as keys.
func SameLength(op string, keys, values int) {
	if keys != values {
		Misuse(op, "%d keys and %d values are given at %s: give one value for each key", keys, values, callsite.Caller())
	}
}

// SamePositions panics unless op was given one position for each value.
func SamePositions(op string, positions, values int) {
	if positions != values {
		Misuse(op, "%d positions and %d values are given at %s: give one position for each value", positions, values, callsite.Caller())
	}
}

// Unmade panics because op was used with a value that was not properly made; how says what makes it.
func Unmade(op, how string) {
	Misuse(op, "the value used at %s is nil or a zero value: %s", callsite.Caller(), how)
}

// Stack returns the calls through which op was built; see [callsite.Stack.Frames]. It is empty in a simulation.
func (op *Op) Stack() []callsite.Frame { return op.stack.Frames() }

// Owns records that the events that op gives have marks of their own.
func (op *Op) Owns(ms ...*mark.Mark) { op.owns = append(op.owns, ms...) }

// Follows records that op reads the mark of events that come to it.
func (op *Op) Follows(m *mark.Mark) { op.follows = append(op.follows, m) }

// Delays reports whether what op gives comes as a record of a later step, or when a timer fires.
func (op *Op) Delays() bool { return op.Later || op.clock }
