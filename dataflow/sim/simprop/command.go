package simprop

import (
	"github.com/leanovate/gopter"
	"github.com/leanovate/gopter/gen"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/internal/engine"
)

// A Command is something that a client does at the ports P of a flow, with an argument A and a
// result R, together with its effect on the state M of a reference model. The functions change
// only the flow, not their arguments: they are called for many orders of the commands.
type Command[P, M, A, R any] struct {
	Name string
	// Gen returns a generator of arguments in a state of the model. It may be nil if A has only
	// one value, such as struct{}.
	Gen func(m M) gopter.Gen
	// Pre reports whether the command may be given in a state; nil means in every state.
	Pre func(m M, arg A) bool
	// Do executes the command. An error fails the schedule.
	Do func(c *sim.Ctx, p P, arg A) (R, error)
	// Next returns the state after the command; nil means that the state does not change.
	Next func(m M, arg A) M
	// Post returns an error if the command cannot have the result in the state m, which is the
	// state before the command; nil means that every result is possible.
	Post func(m M, arg A, result R) error
}

// A Step is a [Command] with any argument and result types.
type Step[P, M any] interface{ step() step[P, M] }

// A Model describes how a flow should appear to its clients: a state, and what commands do with
// it.
type Model[P, M any] struct {
	Build    func(*dataflow.Flow) P
	Init     func() M // returns the state before the first command
	Commands []Step[P, M]
	Limits   Limits
}

// A step is a command without its types.
type step[P, M any] struct {
	name string
	gen  func(M) gopter.Gen
	pre  func(M, any) bool
	do   func(*sim.Ctx, P, any) (any, error)
	next func(M, any) M
	post func(M, any, any) error
}

func (c Command[P, M, A, R]) step() step[P, M] {
	engine.Given("simprop.Command", c.Do)
	s := step[P, M]{
		name: c.Name,
		gen:  c.Gen,
		pre:  func(m M, a any) bool { return c.Pre == nil || c.Pre(m, as[A](a)) },
		do:   func(ctx *sim.Ctx, p P, a any) (any, error) { return c.Do(ctx, p, as[A](a)) },
		next: func(m M, a any) M {
			if c.Next == nil {
				return m
			}
			return c.Next(m, as[A](a))
		},
		post: func(m M, a, r any) error {
			if c.Post == nil {
				return nil
			}
			return c.Post(m, as[A](a), as[R](r))
		},
	}
	if s.gen == nil {
		s.gen = func(M) gopter.Gen { return gen.Const(*new(A)) }
	}
	return s
}
