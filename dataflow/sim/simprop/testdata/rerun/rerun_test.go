// Package rerun_test has a property that fails in a sub-test. TestRerunLine runs it, and then the
// line that it prints.
package rerun_test

import (
	"fmt"
	"testing"

	"github.com/leanovate/gopter"
	"github.com/leanovate/gopter/gen"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/dataflow/sim/simprop"
	"github.com/millrace/millrace/singleton"
)

type server struct{ dataflow.Process }

type ports struct {
	xs  *dataflow.SharedInputPort[int]
	sum *dataflow.SingletonOutputPort[int]
}

func build(flow *dataflow.Flow) ports {
	in, xs := dataflow.SharedInput[int](dataflow.At[server](flow), "xs")
	return ports{in, singleton.Output(dataflow.Sum(xs), "sum")}
}

// below says that the sum of the elements sent stays below n.
func below(n int) gopter.Prop {
	return simprop.Holds(func(c simprop.Case[ports]) sim.Spec[ports] {
		return sim.Spec[ports]{Build: build, Clients: c.Clients(), Eventually: map[string]func(*sim.View, ports) error{
			"the sum is small": func(_ *sim.View, p ports) error {
				if got, _ := p.sum.Latest(); got >= n {
					return fmt.Errorf("the sum is %d", got)
				}
				return nil
			},
		}}
	}, simprop.Traffic(simprop.Values("xs", func(p ports) *dataflow.SharedInputPort[int] { return p.xs }, gen.IntRange(0, 60))))
}

func TestSums(t *testing.T) {
	t.Chdir(t.TempDir()) // the failure file must belong to this run only
	t.Run("it's [a] (b)", func(t *testing.T) {
		simprop.Run(t, map[string]gopter.Prop{"below 10*10 $x": below(100), "below 10,000": below(10_000)})
	})
}
