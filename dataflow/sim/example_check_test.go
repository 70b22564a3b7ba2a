package sim_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/singleton"
)

type till struct {
	Pay   *dataflow.SharedInputPort[int]
	Total *dataflow.SingletonOutputPort[int]
}

// tills specifies a till. Production calls the same Build.
var tills = sim.Spec[till]{
	Build: func(f *dataflow.Flow) till {
		in, paid := dataflow.SharedInput[int](dataflow.At[Server](f), "pay")
		sum := dataflow.FoldCommutative(paid, func() int { return 0 }, func(acc *int, x int) { *acc += x }, "sums have no order")
		return till{in, singleton.Output(sum, "total")}
	},
	Clients: []sim.Client[till]{
		{Name: "ann", Do: func(c *sim.Ctx, p till) error { return p.Pay.Send(c, 2) }},
		{Name: "bob", Do: func(c *sim.Ctx, p till) error { return p.Pay.Send(c, 3) }},
	},
	Always: map[string]func(*sim.View, till) error{"nobody pays twice": func(_ *sim.View, p till) error {
		if n, _ := p.Total.Latest(); n > 5 {
			return fmt.Errorf("the total is %d", n)
		}
		return nil
	}},
	Eventually: map[string]func(*sim.View, till) error{"all is paid": func(_ *sim.View, p till) error {
		if n, _ := p.Total.Latest(); n != 5 {
			return fmt.Errorf("the total is %d", n)
		}
		return nil
	}},
}

func Example() {
	report, err := sim.Check(context.Background(), tills)
	fmt.Println(report.Complete, err)

	impatient := tills
	impatient.Clients = append(impatient.Clients[:1:1], sim.Client[till]{Name: "bob", Do: func(c *sim.Ctx, p till) error {
		if err := p.Pay.Send(c, 3); err != nil {
			return err
		}
		if n, _ := p.Total.Latest(); n < 3 {
			return errors.New("it is not there yet")
		}
		return nil
	}})
	_, err = sim.Check(context.Background(), impatient)
	fmt.Println(err)
	var failure *sim.Failure
	if errors.As(err, &failure) {
		failure.Counterexample.WriteText(os.Stdout)
	}
	// Output:
	// true <nil>
	// sim: client "bob": it is not there yet
	// time         ann                          bob                          Server
	// 0s                                        send 3 ───────────────────▶  pay
	// 0s                                        latest = 0 ◀───────────────  total
	//              ✗ client "bob": it is not there yet
}

func ExampleTest() {
	_ = func(t *testing.T) { // func TestTill(t *testing.T)
		report := sim.Test(t, tills)
		if report.Schedules == 0 {
			t.Error("nothing was explored")
		}
	}
}

func ExampleCall() {
	_ = sim.Client[till]{Name: "ann", Do: func(c *sim.Ctx, p till) error {
		_, err := sim.Call(c, "add", nil, 1, func() (int, error) {
			n, _ := p.Total.Latest()
			return n + 1, p.Pay.Send(c, 1)
		})
		return err
	}}
}
