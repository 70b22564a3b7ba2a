// Package wrong looks at a price without saying when.
package wrong

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
)

type Shop struct{ dataflow.Process }

func quotes(orders dataflow.KeyedSingleton[string, int, Shop, bounds.BoundedValue], price dataflow.Singleton[int, Shop, bounds.Unbounded]) {
	keyedsingleton.CrossSingleton(orders, price)
}
