package simprop

import (
	"fmt"

	"github.com/leanovate/gopter"

	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/dataflow/sim/linear"
	"github.com/millrace/millrace/internal/engine"
)

// Parallel is the property that a flow behaves like its model for several clients that give commands
// concurrently. Their results must be linearizable: each command can be given one moment between its
// call and its return so that all of them, executed in the order of these moments, return what the
// model says. See package dataflow/sim/linear.
//
// Clients give only commands that Pre allows in every possible order of their commands. Limits sets
// the maximum number of clients. There are at least two, if there are enough commands.
func Parallel[P, M any](m Model[P, M], opts ...sim.Option) gopter.Prop {
	m.check("simprop.Parallel")
	most := m.Limits.or().Clients
	if most < 2 {
		engine.Misuse("simprop.Parallel", "the model is limited to %d clients, and it takes two", most)
	}
	return Holds(m.parallel, m.gen(2, most), opts...)
}

// given is a command in the form that the checker of histories sees.
type given struct {
	Client, At int
	Command    string
	Arg        any
}

// parallel returns the specification for a case of several clients.
func (m Model[P, M]) parallel(c Case[P]) sim.Spec[P] {
	checker := linear.NewChecker(m.linear(c))
	spec := sim.Spec[P]{Build: m.Build, Faults: c.faults, Eventually: map[string]func(*sim.View, P) error{
		"results are linearizable": func(v *sim.View, _ P) error { return checker.Check(history(v)) },
	}}
	for i, ops := range c.clients {
		spec.Clients = append(spec.Clients, sim.Client[P]{Name: clientName(i), Do: func(ctx *sim.Ctx, p P) error {
			for j, op := range ops {
				s, arg := op.of.step.(*step[P, M]), op.value.value
				err := named(ctx, i, j, func() error {
					_, err := sim.Call(ctx, op.of.name, nil, given{i, j, op.of.name, arg}, func() (any, error) { return s.do(ctx, p, arg) })
					return err
				})
				switch {
				case fateUnknown(err):
					return nil
				case err != nil:
					return fmt.Errorf("%v: %w", op, err)
				}
			}
			return nil
		}})
	}
	return spec
}

// linear returns the model for a checker of the histories of a case.
func (m Model[P, M]) linear(c Case[P]) linear.Model {
	return linear.Model{
		Init: func() any { return m.Init() },
		Step: func(state, input, output any) (bool, any) {
			in := input.(given)
			s := c.clients[in.Client][in.At].of.step.(*step[P, M])
			if output != linear.Unknown && s.post(as[M](state), in.Arg, output) != nil {
				return false, state
			}
			return true, s.next(as[M](state), in.Arg)
		},
		String: func(input, output any) string {
			in := input.(given)
			return fmt.Sprintf("%v = %v", c.clients[in.Client][in.At], output)
		},
	}
}

// history returns the commands that clients have given. A command that begins in the move in which
// another command of the same client has ended comes after that command.
func history(v *sim.View) (all []linear.Operation) {
	ops := v.History()
	apart := 2*int64(len(ops)) + 2
	for _, op := range ops {
		in, ok := op.Input.(given)
		if !ok || op.Call == 0 { // not a command, or not begun
			continue
		}
		at := 2 * int64(in.At)
		x := linear.Operation{Client: in.Client + 1, Input: in, Output: op.Value, Call: op.Call*apart + at, Return: op.Return*apart + at + 1}
		if op.Return == 0 || fateUnknown(op.Err) {
			x.Output = linear.Unknown
		}
		all = append(all, x)
	}
	return all
}
